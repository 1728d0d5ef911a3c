"""A process that adds and runs tasks is killed, again and again: what it acknowledged runs, and nothing runs early."""

import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import TextIO

import pytest

from tests.cluster.nodes import FORKING
from tests.scheduler import crashing
from tests.scheduler.programs import start_program
from tests.workers import functions
from tickwheel.observe import Event
from tickwheel.scheduler import Scheduler
from tickwheel.tasks import Status

KILLS = int(os.environ.get("TICKWHEEL_KILLS", "60"))
LIFE_S_MAX = 0.25  # after it is ready


@contextmanager
def started(folder: Path, seed: int, *, drain: bool = False) -> Iterator[tuple[BaseProcess, TextIO]]:
    """Start a process, forked from one that has imported everything, and return what it prints."""
    heard, printed = multiprocessing.Pipe(duplex=False)
    arguments = (printed, str(folder / "tasks.db"), str(folder / "oracle.txt"), seed, drain)
    child = FORKING.Process(target=crashing.run, args=arguments, daemon=True)
    with heard:
        with printed:
            child.start()
        with os.fdopen(os.dup(heard.fileno())) as out:
            yield child, out


def live_and_die(folder: Path, seed: int, chance: Random) -> list[str]:
    """Let a process live for a while, kill it, and return the ids it acknowledged."""
    with started(folder, seed) as (child, out):
        assert out.readline() == "ready\n"
        child.join(chance.random() * LIFE_S_MAX)
        child.kill()
        lines = out.read().splitlines(keepends=True)
        child.join()
    assert child.exitcode == -signal.SIGKILL
    # A line without its end was being printed when it died: acknowledged, but nobody saw the whole of it.
    return [line.strip() for line in lines if line.endswith("\n") and line.strip()]


@pytest.mark.slow
def test_what_was_acknowledged_runs_though_every_process_is_killed(tmp_path: Path) -> None:
    chance = Random(7)
    acknowledged: list[str] = []
    for seed in range(KILLS):
        acknowledged += live_and_die(tmp_path, seed, chance)
    with started(tmp_path, KILLS, drain=True) as (last, _):
        last.join(120)
        assert last.exitcode == 0
    runs = [line.split() for line in (tmp_path / "oracle.txt").read_text().splitlines()]
    ran = Counter(task_id for task_id, _, _ in runs)
    assert [task_id for task_id in acknowledged if not ran[task_id]] == [], "lost"
    assert [run for run in runs if int(run[2]) < int(run[1])] == [], "early"
    twice = {task_id: times for task_id, times in ran.items() if times > 1}
    # Only what was in flight at a kill may run again: a batch of a few milliseconds, once for each kill.
    assert len(acknowledged) > KILLS
    assert len(twice) < len(ran) / 2, twice
    assert max(ran.values()) <= 1 + KILLS


def test_the_death_of_a_pool_process_is_a_crash_and_no_failure() -> None:
    scheduler = Scheduler("memory://", processes=1)
    scheduler.task("die", pool="process")(functions.kill_self)
    seen: dict[str, list[str]] = {"again": [], "once": []}
    failed = threading.Semaphore(0)

    def listen(event: Event) -> None:
        seen[event.task_id].append(event.kind)
        if event.kind == "failed":
            failed.release()

    scheduler.events.listen(listen)
    with scheduler:
        args = {"number": signal.SIGKILL.value}
        scheduler.add("die", args, id="again", max_crashes=2)
        scheduler.add("die", args, id="once", at_most_once=True)
        assert failed.acquire(timeout=60)
        assert failed.acquire(timeout=60)
        again, once = scheduler.get("again"), scheduler.get("once")
        reasons = [run.reason for run in scheduler.history("again")]
    assert (again.status, again.crashes, again.failures) == (Status.FAILED, 2, 0)
    assert again.reason == "worker died 2 times while running this task"
    assert "was killed by SIGKILL" in (again.error or "")
    assert reasons == ["worker died while running this task"] * 2
    assert (once.status, once.crashes) == (Status.FAILED, 1)
    assert once.reason == "worker died while running this task; it runs at most once"
    assert seen == {
        "again": ["added", "started", "retried", "started", "failed"],
        "once": ["added", "started", "failed"],
    }


KILLER = """
import os, signal, threading
from tickwheel import Scheduler

scheduler = Scheduler("sqlite:///tasks.db")
ended = threading.Event()

@scheduler.task("die")
def die():
    with open("begun", "a") as log:
        log.write("x")
    os.kill(os.getpid(), signal.SIGKILL)

scheduler.events.listen(lambda event: event.kind == "failed" and ended.set())
with scheduler:
    if scheduler.get("bomb").status == "failed":
        ended.set()
    ended.wait()
"""


@pytest.mark.slow
def test_a_task_that_kills_its_process_is_run_by_three_processes_and_no_more(tmp_path: Path) -> None:
    with Scheduler(f"sqlite:///{tmp_path}/tasks.db", run=False) as adder:
        adder.add("die", id="bomb")
        exits: list[int] = []
        while 0 not in exits and len(exits) < 12:
            with start_program(tmp_path, KILLER) as program:
                exits.append(program.wait(60))
        bomb = adder.get("bomb")
    assert exits == [-signal.SIGKILL] * 3 + [0]
    assert (tmp_path / "begun").read_text() == "xxx"
    assert (bomb.status, bomb.reason) == (Status.FAILED, "worker died 3 times while running this task")
