"""Expense approval end to end: the example as its reader runs it, and its process in programs that are killed."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from tests.postgres import Database
from tickwheel.workflow import WorkItem
from tickwheel.workflow.instances import Instance, open_instances

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "examples/approval"
RACERS = 120
PATIENCE_S = 100


class Lives:
    """A process that forks others: each is a life, given by a line."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.said: list[str] = []

    def live(self, *words: object, kill_after_s: float | None = None) -> int:
        """Let a process live until it ends, or is killed; return how it ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(*words, file=self._process.stdin, flush=True)
        child = int(self._process.stdout.readline().removeprefix("began "))
        if kill_after_s is not None:
            time.sleep(kill_after_s)
            os.kill(child, signal.SIGKILL)
        for line in self._process.stdout:
            if line.startswith("ended "):
                return int(line.removeprefix("ended "))
            self.said.append(line)
        raise AssertionError("it is gone")


@contextmanager
def lives(folder: Path, url: str | None = None) -> Iterator[Lives]:
    command = [sys.executable, "-m", "tests.workflow.approving", str(folder), *([url] if url else [])]
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield Lives(process)
        assert process.stdin is not None
        process.stdin.close()


def look(url: str) -> tuple[list[Instance], dict[str, list[WorkItem]]]:
    """Read what is in a store in the end."""

    async def read() -> tuple[list[Instance], dict[str, list[WorkItem]]]:
        store = await open_instances(url)
        items = await store.items(None, None, None, 10_000)
        of = defaultdict(list)
        for item in items:
            of[item.instance].append(item)
        instances = [await store.get(instance) for instance in of]
        await store.close()
        return [instance for instance in instances if instance], of

    return asyncio.run(read())


def test_the_example_prints_what_its_page_says() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE / "approval.py"], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    page = (EXAMPLE / "README.md").read_text().split("It prints, in six seconds:\n\n")[1].split("\n\n")[0]

    def by_expense(text: str) -> Any:
        # What happens to two expenses at the same moment may be printed in any order.
        lines = [line.strip() for line in text.splitlines()]
        return {name: [line for line in lines if line.startswith(name)] for name in ("taxi", "hotel", "lunch")}

    assert by_expense(done.stdout) == by_expense(page)


def test_an_expense_comes_to_its_end_though_its_program_is_killed_between_any_two_steps(tmp_path: Path) -> None:
    with lives(tmp_path) as them:
        for step in count():
            first = them.live("steps", f"{step}", step)
            if first == 0:
                break
            assert first == -signal.SIGKILL
            assert them.live("steps", f"{step}", -1) == 0
            url = f"sqlite:///{tmp_path}/{step}/processes.db"
            [instance], items = look(url)
            assert (instance.status, instance.data["outcome"], instance.timers) == ("completed", "paid", {}), step
            assert [(item.node, item.state, item.ended_by) for item in items["e"]] == [
                ("approve", "cancelled", None),
                ("decide", "completed", "boss"),
            ], step
    assert step >= 16, "there are as many steps as there are writes to two stores, before and after each"


def check_outcomes(url: str, said: list[str], told: list[str]) -> None:
    """Hold what was acknowledged against what is stored: one outcome for each, and nobody was told otherwise."""
    instances, items = look(url)
    assert len(instances) == RACERS
    acknowledged = [tuple(line.split()) for line in said]
    assert [times for times in Counter((name, node) for name, node, _ in acknowledged).values() if times > 1] == []
    by = {(name, node): who for name, node, who in acknowledged}
    kinds: Counter[str] = Counter()
    for instance in instances:
        approve, *decide = items[instance.id]
        completed = [item for item in items[instance.id] if item.state == "completed"]
        assert (instance.status, len(completed) <= 1, len(decide) <= 1) == ("completed", True, True)
        outcome = "paid" if completed else "rejected: nobody decided"
        assert instance.data["outcome"] == outcome
        # What is given up as soon as it is escalated may pass both timers in one step, and ask nobody to decide.
        at_once = not completed and decide == [] and instance.data["give_up_after"] == "PT0.01S"
        assert at_once or (approve.state == "completed") == (decide == []), "escalated or decided, never both"
        for item in completed:
            assert instance.data["by"] == item.ended_by
            assert by.get((instance.id, item.node), item.ended_by) == item.ended_by, "acknowledged, and lost"
        assert all(item.state == "completed" for item in items[instance.id] if (instance.id, item.node) in by)
        assert f"{instance.id} {outcome}" in told
        kinds[completed[0].node if completed else "nobody"] += 1
    assert kinds["approve"] > 0
    assert kinds["decide"] + kinds["nobody"] > 0, "there was no race"


def test_users_and_timeouts_race_and_each_expense_has_one_outcome(tmp_path: Path) -> None:
    with lives(tmp_path) as them:
        assert them.live("race", "r", RACERS) == 0
        told = (tmp_path / "r/told.txt").read_text().splitlines()
        check_outcomes(f"sqlite:///{tmp_path}/r/processes.db", them.said, told)
        assert len(told) == RACERS, "scripts have run once for each"


def test_the_race_has_one_outcome_for_each_though_its_programs_are_killed(tmp_path: Path, database: Database) -> None:
    chance = Random(3)
    with lives(tmp_path, database.url()) as them:
        for _ in range(3):
            assert them.live("race", "r", RACERS, kill_after_s=0.5 + chance.random()) == -signal.SIGKILL
        assert them.live("race", "r", RACERS) == 0
        told = (tmp_path / "r/told.txt").read_text().splitlines()
        check_outcomes(database.url(), them.said, told)
