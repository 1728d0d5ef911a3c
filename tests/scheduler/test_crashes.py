"""A process that adds and runs tasks is killed, again and again: what it acknowledged runs, and nothing runs early."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

REPOSITORY = Path(__file__).parents[2]
KILLS = int(os.environ.get("TICKWHEEL_KILLS", "60"))
LIFE_S_MAX = 0.25  # after it is ready


def start(folder: Path, seed: int, *more: str) -> "subprocess.Popen[str]":
    arguments = [str(folder / "tasks.db"), str(folder / "oracle.txt"), str(seed), *more]
    command = [sys.executable, "-m", "tests.scheduler.crashing", *arguments]
    return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)


def live_and_die(folder: Path, seed: int, chance: Random) -> list[str]:
    """Let a process live for a while, kill it, and return the ids it acknowledged."""
    with start(folder, seed) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        try:
            child.wait(chance.random() * LIFE_S_MAX)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
        lines = child.stdout.read().splitlines(keepends=True)
    assert child.returncode == -signal.SIGKILL
    # A line without its end was being printed when it died: acknowledged, but nobody saw the whole of it.
    return [line.strip() for line in lines if line.endswith("\n") and line.strip()]


@pytest.mark.slow
def test_what_was_acknowledged_runs_though_every_process_is_killed(tmp_path: Path) -> None:
    chance = Random(7)
    acknowledged: list[str] = []
    for seed in range(KILLS):
        acknowledged += live_and_die(tmp_path, seed, chance)
    with start(tmp_path, KILLS, "drain") as last:
        assert last.wait(120) == 0
    runs = [line.split() for line in (tmp_path / "oracle.txt").read_text().splitlines()]
    ran = Counter(task_id for task_id, _, _ in runs)
    assert [task_id for task_id in acknowledged if not ran[task_id]] == [], "lost"
    assert [run for run in runs if int(run[2]) < int(run[1])] == [], "early"
    twice = {task_id: times for task_id, times in ran.items() if times > 1}
    # Only what was in flight at a kill may run again: a batch of a few milliseconds, once for each kill.
    assert len(acknowledged) > KILLS
    assert len(twice) < len(ran) / 2, twice
    assert max(ran.values()) <= 1 + KILLS
