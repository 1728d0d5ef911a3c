"""APScheduler on its SQLAlchemy store and tickwheel beside it, both killed at any point: no task is lost or early."""

import signal
import subprocess
import sys
from pathlib import Path
from random import Random

REPOSITORY = Path(__file__).parents[2]
KILLS = 6
LIFE_S_MAX = 1.0


def start(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.external.worker", str(folder), *arguments]
    child = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def kill(child: "subprocess.Popen[str]") -> list[str]:
    """Kill a process and return the ids that it had acknowledged."""
    assert child.poll() is None, "it ended by itself"
    child.send_signal(signal.SIGKILL)
    with child:
        assert child.stdout is not None
        lines = child.stdout.read().splitlines(keepends=True)
    return [line.strip() for line in lines if line.endswith("\n")]


def test_no_task_is_lost_though_either_side_is_killed_at_any_point(tmp_path: Path) -> None:
    chance = Random(7)
    acknowledged: list[str] = []
    near, far = start(tmp_path, "near"), start(tmp_path, "far", "0")
    for number in range(1, KILLS + 1):
        victim = near if number % 2 else far
        try:
            victim.wait(chance.random() * LIFE_S_MAX)
        except subprocess.TimeoutExpired:
            acknowledged += kill(victim)
        if number % 2:
            near = start(tmp_path, "near")
        else:
            far = start(tmp_path, "far", str(number))
    acknowledged += [*kill(far), *kill(near)]
    with start(tmp_path, "both", "drain") as last:
        assert last.wait(60) == 0
    runs = [line.split() for line in (tmp_path / "oracle.txt").read_text().splitlines()]
    ran = {task_id for task_id, _, _ in runs}
    assert len(acknowledged) > 5 * KILLS
    assert [task_id for task_id in acknowledged if task_id not in ran] == [], "lost"
    assert [run for run in runs if int(run[2]) < int(run[1])] == [], "early"
