"""A process that adds and runs tasks until it is killed: started again and again by test_crashes.py.

    python -m tests.scheduler.crashing STORE ORACLE SEED [drain]

It prints the id of each task that was acknowledged; handlers write to the oracle what they ran, for which moment,
and when.
With `drain` it adds nothing and ends when nothing is left to do.
"""

import asyncio
import os
import sys
import time
from random import Random

from tickwheel import aio
from tickwheel.scheduler import AsyncScheduler
from tickwheel.tasks import Status, TaskContext

DELAY_S_MAX = 0.4
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
                {"handler": "note", "delay": chance.random() * DELAY_S_MAX, "id": f"{seed}-{number + offset}"}
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


if __name__ == "__main__":
    aio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), drain=sys.argv[4:] == ["drain"]))
