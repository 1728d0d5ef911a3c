"""A process whose wall clock is ahead, and one that goes on after it with the right time."""

import os
import subprocess
import sys
import threading
from pathlib import Path

from tests.faketime import clock_off_by
from tickwheel.scheduler import Scheduler

PATIENCE_S = 60

PROGRAM = """
import sys, threading
from tickwheel.scheduler import Scheduler

scheduler = Scheduler(sys.argv[1])

@scheduler.task("tick")
async def tick() -> None:
    print("tick", flush=True)

@scheduler.task("over")
async def over() -> None:
    pass

with scheduler:
    scheduler.add("over", id="over")
    scheduler.add("tick", every="200ms", id="tick")
    threading.Event().wait()
"""


def test_every_goes_on_after_a_crash_of_a_process_whose_clock_was_ahead(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, url],
        env={**os.environ, **clock_off_by(3600)},
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert [child.stdout.readline() for _ in range(15)] == ["tick\n"] * 15  # three seconds: a checkpoint is written
        child.kill()
    ticked = threading.Event()
    scheduler = Scheduler(url)

    @scheduler.task("tick")
    async def tick() -> None:
        ticked.set()

    with scheduler:
        assert ticked.wait(PATIENCE_S), "it waits for the hour that the clock was ahead"
        assert scheduler.get("over").finished_at is not None
