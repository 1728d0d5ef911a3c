"""A handler that blocks the event loop for longer than a lease runs once, and completes."""

import asyncio
import time
from pathlib import Path

import pytest

from tickwheel.scheduler import AsyncScheduler
from tickwheel.tasks import Status

LEASE_MS = 600


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_handler_that_blocks_the_loop_beyond_its_lease_runs_once(tmp_path: Path, store: str) -> None:
    url = "memory://" if store == "memory" else f"sqlite:///{tmp_path}/tasks.db"
    ran: list[str] = []
    done = asyncio.Event()

    async def main() -> None:
        scheduler = AsyncScheduler(url, lease_ttl_ms=LEASE_MS)

        @scheduler.task("block")
        async def block() -> None:
            ran.append("block")
            time.sleep(4 * LEASE_MS / 1000)  # noqa: ASYNC251 - that is what it is about

        @scheduler.task("wait")
        async def wait() -> None:
            ran.append("wait")
            await asyncio.sleep(6 * LEASE_MS / 1000)  # through the end of the lease, and beyond
            done.set()

        async with scheduler:
            await scheduler.add("wait", id="wait")
            await scheduler.add("block", id="block", delay=0.1)
            await done.wait()
            await asyncio.sleep(2 * LEASE_MS / 1000)  # in which either would run again
            tasks = [await scheduler.get(each) for each in ("wait", "block")]
            assert [(task.status, task.attempt) for task in tasks] == [(Status.COMPLETED, 1)] * 2

    asyncio.run(main())
    assert ran == ["wait", "block"]
