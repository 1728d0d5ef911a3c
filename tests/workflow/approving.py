"""Expense approval in processes that are killed: what test_approval.py starts, again and again.

    python -m tests.workflow.approving FOLDER [URL]

It imports everything once, and for each line that it reads it forks a process that does it: a life. When that is over,
how it ended is printed in a line of its own: `ended 0`, `ended -9`.

    steps LIFE_AT       one expense that is escalated and decided; it kills itself at its so-manieth step
    race INSTANCES      users and timeouts race for every expense, and everything is delivered twice
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from SpiffWorkflow.bpmn.script_engine import PythonScriptEngine, TaskDataEnvironment

from tickwheel import aio
from tickwheel.scheduler import AsyncScheduler
from tickwheel.stores import OnConflict
from tickwheel.tasks import Task
from tickwheel.workflow.instances import InstanceStore, open_instances
from tickwheel.workflow.spiff import SpiffEngine

BPMN = Path(__file__).parents[2] / "examples/approval/expense.bpmn"
LIFE_S_MAX = 80  # it takes a few, if nothing else runs
LEASE_MS = 300  # a killed owner holds up the next for so long


class Steps:
    """Counts what is done to either store, and kills this process before one of them."""

    def __init__(self, last: int) -> None:
        self._left = last

    def take(self) -> None:
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1


class Mortal:
    """A store in front of which, and behind which, a process may die."""

    def __init__(self, store: InstanceStore, steps: Steps) -> None:
        self._store = store
        self._steps = steps

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._store, name)

        async def call(*values: Any) -> Any:
            if name in ("change", "hand", "report", "deploy"):
                self._steps.take()
                answer = await method(*values)
                self._steps.take()
                return answer
            return await method(*values)

        return call


class MortalScheduler(AsyncScheduler):
    """A scheduler with which a process may die, and that brings everything twice if it is asked to."""

    steps = Steps(-1)
    twice = False

    async def add_many(self, tasks: Iterable[Mapping[str, Any]], *, on_conflict: OnConflict = "reject") -> list[Task]:
        self.steps.take()
        wishes = list(tasks)
        copies = [{**task, "id": f"{task['id']}/again"} for task in wishes if self.twice and "at" in task]
        answer = await super().add_many([*wishes, *copies], on_conflict=on_conflict)
        self.steps.take()
        return answer[: len(wishes)]

    async def apply(
        self, action: Any, ids: Sequence[str], reason: str = "cancelled", **options: bool
    ) -> list[Task | None]:
        self.steps.take()
        return await super().apply(action, ids, reason, **options)


def tell(folder: Path) -> Callable[[str, str], None]:
    """Return what scripts call: it writes down what they said."""
    written = os.open(folder / "told.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(expense: str, what: str) -> None:
        os.write(written, f"{expense} {what}\n".encode())

    return write


async def open_engine(folder: Path, url: str, last: int, *, twice: bool = False) -> tuple[SpiffEngine, InstanceStore]:
    scheduler = MortalScheduler(f"sqlite:///{folder}/tasks.db", lease_ttl_ms=LEASE_MS, rescan_ms=300, horizon_ms=5000)
    scheduler.steps, scheduler.twice = Steps(last), twice
    store = await open_instances(url)
    scripts = PythonScriptEngine(TaskDataEnvironment({"tell": tell(folder)}))
    mortal: Any = Mortal(store, scheduler.steps)
    return SpiffEngine(mortal, scheduler, script_engine=scripts), store


async def live_by_steps(folder: Path, url: str, last: str) -> None:
    """Bring an expense to its end, wherever it was left."""
    engine, store = await open_engine(folder, url, int(last))
    async with engine:
        await engine.deploy(BPMN)
        times = {"remind_every": "P1D", "escalate_after": "PT0.1S", "give_up_after": "P1D"}
        await engine.start("expense", {"expense": "e", **times}, id="e")
        while (await engine.get("e")).status == "running":
            for item in await engine.items(instance="e", node="decide"):
                await engine.complete(item.id, by="boss", variables={"decision": "yes"})
            await asyncio.sleep(0.01)
    await store.close()


async def live_in_a_race(folder: Path, url: str, instances: str) -> None:
    """Let users decide about when their time is over, each twice, and print whose decision was taken."""
    engine, store = await open_engine(folder, url, -1, twice=True)
    chance = Random(os.getpid())

    async def use(number: int) -> None:
        name = f"e{number}"
        late, silence = (round(Random(f"{number} {what}").uniform(0.3, 3.0), 3) for what in ("late", "silence"))
        # However slow the machine is, users are in time for some, and too late for others.
        late, silence = {0: (86_400, 1), 1: (0.01, 0.01)}.get(number % 10, (late, silence))
        times = {"remind_every": "P1D", "escalate_after": f"PT{late}S", "give_up_after": f"PT{silence}S"}
        await engine.start("expense", {"expense": name, **times}, id=name)
        while (await engine.get(name)).status == "running":
            await asyncio.sleep(0.2 + chance.random())
            for item in await engine.items(instance=name):
                await asyncio.gather(*(say(name, item.id, item.node, by) for by in ("ann", "bob")))

    async def say(name: str, item_id: str, node: str, by: str) -> None:
        # The decision is about when the timer is due, as near as chance brings it.
        await asyncio.sleep(chance.choice((0.0, 0.0, 0.3)))
        if await engine.complete(item_id, by=by, variables={"decision": "yes", "by": by}):
            print(f"{name} {node} {by}", flush=True)

    async with engine:
        await engine.deploy(BPMN)
        async with asyncio.TaskGroup() as group:
            for number in range(int(instances)):
                group.create_task(use(number))
    await store.close()


LIVES = {"steps": live_by_steps, "race": live_in_a_race}


def main(folder: Path, url: str | None = None) -> None:
    """Fork a life for each line."""
    print("ready", flush=True)
    for line in sys.stdin:
        kind, where, *more = line.split()
        home = folder / where
        home.mkdir(exist_ok=True)
        child = os.fork()
        if child == 0:
            life = LIVES[kind](home, url or f"sqlite:///{home}/processes.db", *more)
            aio.run(asyncio.wait_for(life, LIFE_S_MAX))
            os._exit(0)
        print(f"began {child}", flush=True)
        print(f"ended {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
