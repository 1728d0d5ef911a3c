"""A process that runs tasks until it is told to end, killed or suspended: started by nodes.py.

    python -m tests.cluster.node STORE ORACLE NAME LEASE_MS [HALT]

Its handler writes to the oracle when each run begins and ends: NAME begin|end ID ATTEMPT NANOSECONDS, by a clock that
all processes of a machine share; and when it could do nothing for a while, as if suspended: NAME stall - MILLISECONDS
NANOSECONDS. It prints its node id when it has started, and leaves in order on SIGTERM. With HALT it suspends itself at
a step, see halting.py.
"""

import asyncio
import os
import signal
import sys
import time

from tests.cluster.halting import Halt, HaltingStore
from tickwheel import aio
from tickwheel.scheduler import AsyncScheduler
from tickwheel.stores import open_store
from tickwheel.tasks import TaskContext

LOOK_S = 0.1
STALL_S = 0.3  # longer than any turn of the loop takes


class Oracle:
    """The file that tells what really happened."""

    def __init__(self, path: str, name: str) -> None:
        self._name = name
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, what: str, about: str, number: int) -> None:
        # One write of one line: it is in the file whole, or not at all, whatever happens to us.
        line = f"{self._name} {what} {about} {number} {time.monotonic_ns()}\n"
        os.write(self._file, line.encode())

    async def watch(self) -> None:
        """Notice when this process was held up."""
        while True:
            before = time.monotonic()
            await asyncio.sleep(LOOK_S)
            held_up_s = time.monotonic() - before - LOOK_S
            if held_up_s > STALL_S:
                self.write("stall", "-", int(held_up_s * 1000))


async def main(url: str, path: str, name: str, lease_ms: int, halt: str | None = None) -> None:
    oracle = Oracle(path, name)
    # Only a node that is to stop at a step is given its store; all others open it by its URL, as users do.
    store = None if halt is None else HaltingStore(await open_store(url), Halt.of(halt))
    where: object = url if store is None else store
    scheduler = AsyncScheduler(where, lease_ttl_ms=lease_ms)  # type: ignore[arg-type] # it forwards what a store has

    @scheduler.task("work")
    async def work(context: TaskContext, seconds: float = 0.0) -> str:
        if store is not None:
            await store.pass_by("before", "run")
        oracle.write("begin", context.id, context.attempt)
        await asyncio.sleep(seconds)
        if store is not None:
            await store.pass_by("after", "run")
        oracle.write("end", context.id, context.attempt)
        return name

    @scheduler.task("nothing")
    async def nothing() -> None:
        pass

    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    watching = asyncio.create_task(oracle.watch())
    async with scheduler:
        assert scheduler._engine is not None
        print(scheduler._engine.node, flush=True)
        if store is not None:
            store.arm()
        await ended.wait()
    watching.cancel()
    if store is not None:
        await store.close()


if __name__ == "__main__":
    aio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), *sys.argv[5:]))
