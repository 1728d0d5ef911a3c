"""Processes on an SQLite file that have nothing to do wake seldom, and write nothing."""

import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.scheduler.programs import start_program
from tickwheel.scheduler import Scheduler

pytestmark = pytest.mark.slow  # each test starts programs, and waits for nothing to happen

WATCHED_S = 5.0
PATIENCE_S = 60.0
WAKE_UPS_MAX = {1: 5, 2: 15}  # in a second, of each of so many processes; 3 are usual

PROGRAM = """
import asyncio
from tickwheel import AsyncScheduler

async def main():
    scheduler = AsyncScheduler("sqlite:///tasks.db")

    @scheduler.task("note")
    async def note() -> None: ...

    await scheduler.start()
    print("ready", flush=True)
    await scheduler.run_forever()

asyncio.run(main())
"""


def written_bytes(pid: int) -> int:
    """Return how much a process has written so far, to files and anything else."""
    [line] = [line for line in Path(f"/proc/{pid}/io").read_text().splitlines() if line.startswith("wchar:")]
    return int(line.split()[1])


def wake_ups(pid: int) -> int:
    """Return how often the threads of a process went to sleep so far."""
    statuses = [each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/status")]
    lines = [line for text in statuses for line in text.splitlines() if line.startswith("voluntary_ctxt_switches:")]
    return sum(int(line.split()[1]) for line in lines)


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("far", [0, 10_000])
def test_idle_processes_write_nothing_and_wake_seldom(tmp_path: Path, nodes: int, far: int) -> None:
    with ExitStack() as ends:
        with Scheduler(f"sqlite:///{tmp_path}/tasks.db", run=False) as client:
            client.add_many({"handler": "note", "delay": "365d"} for _ in range(far))
            programs = [ends.enter_context(start_program(tmp_path, PROGRAM)) for _ in range(nodes)]
            for program in programs:
                ends.callback(program.kill)
                assert program.stdout is not None
                assert program.stdout.readline() == "ready\n"
            deadline = time.monotonic() + PATIENCE_S
            while sorted(Counter(lease.node for lease in client.leases()).values()) != [64 // nodes] * nodes:
                assert time.monotonic() < deadline, "they do not share"
                time.sleep(0.05)
        pids = [program.pid for program in programs]
        before: list[int] = []
        while before != (before := [written_bytes(pid) for pid in pids]):  # the last of what their start is followed by
            assert time.monotonic() < deadline, "they never cease to write"
            time.sleep(2)
        woken, begun = [wake_ups(pid) for pid in pids], time.monotonic()
        time.sleep(WATCHED_S)
        rates = [(wake_ups(pid) - first) / (time.monotonic() - begun) for pid, first in zip(pids, woken, strict=True)]
        assert [written_bytes(pid) for pid in pids] == before
        assert max(rates) <= WAKE_UPS_MAX[nodes], rates
