"""A process that runs tasks until it is told to end, killed or suspended: started by nodes.py.

    python -m tests.cluster.node STORE ORACLE NAME LEASE_MS

Its handler writes to the oracle when each run begins and ends: NAME begin|end ID ATTEMPT NANOSECONDS, by a clock that
all processes of a machine share. It prints its node id when it has started, and leaves in order on SIGTERM.
"""

import asyncio
import os
import signal
import sys
import time

from tickwheel import aio
from tickwheel.scheduler import AsyncScheduler
from tickwheel.tasks import TaskContext


async def main(store: str, oracle: str, name: str, lease_ms: int) -> None:
    scheduler = AsyncScheduler(store, lease_ttl_ms=lease_ms)
    written = os.open(oracle, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(what: str, context: TaskContext) -> None:
        # One write of one line: it is in the file whole, or not at all, whatever happens to us.
        line = f"{name} {what} {context.id} {context.attempt} {time.monotonic_ns()}\n"
        os.write(written, line.encode())

    @scheduler.task("work")
    async def work(context: TaskContext, seconds: float = 0.0) -> str:
        write("begin", context)
        await asyncio.sleep(seconds)
        write("end", context)
        return name

    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with scheduler:
        assert scheduler._engine is not None
        print(scheduler._engine._holdings._node, flush=True)
        await ended.wait()


if __name__ == "__main__":
    aio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
