"""A process that adds and runs tasks until it is killed: started again and again by test_crashes.py.

It prints the id of each task that was acknowledged; handlers write to the oracle what they ran, for which moment,
and when. With `drain` it adds nothing and ends when nothing is left to do.
"""

import asyncio
import os
import time
from multiprocessing.connection import Connection
from random import Random

from tickwheel import aio
from tickwheel.scheduler import AsyncScheduler
from tickwheel.tasks import Status, TaskContext

__all__ = ["run"]

DELAY_S_MAX = 0.4
CRASHES_MAX = 1_000  # more than there are: the process does not die of a task, but all die with it
LEASE_MS = 400  # a killed owner holds up the next for so long


async def main(store: str, oracle: str, seed: int, *, drain: bool) -> None:
    scheduler = AsyncScheduler(f"sqlite:///{store}", lease_ttl_ms=LEASE_MS, rescan_ms=500, horizon_ms=2000)
    chance = Random(seed)
    written = os.open(oracle, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    @scheduler.task("note")
    async def note(context: TaskContext) -> None:
        # One write of one line: it is in the file whole, or not at all, whatever happens to us.
        now = time.time_ns() // 1_000_000
        os.write(written, f"{context.id} {context.scheduled_at} {now}\n".encode())

    async with scheduler:
        print("ready", flush=True)
        number = 0
        while not drain:
            added = await scheduler.add_many(
                {
                    "handler": "note",
                    "delay": chance.random() * DELAY_S_MAX,
                    "id": f"{seed}-{number + offset}",
                    "max_crashes": CRASHES_MAX,
                }
                for offset in range(chance.randrange(1, 20))
            )
            number += len(added)
            print("\n".join(task.id for task in added), flush=True)
            await asyncio.sleep(chance.random() * 0.01)
        while True:
            counts = await scheduler.counts()
            if counts[Status.PENDING] + counts[Status.RUNNING] == 0:
                return
            await asyncio.sleep(0.05)


def run(printed: Connection, store: str, oracle: str, seed: int, drain: bool) -> None:
    """Be that process."""
    os.dup2(printed.fileno(), 1)
    printed.close()
    aio.run(main(store, oracle, seed, drain=drain))
