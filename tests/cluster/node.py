"""A process that runs tasks until it is told to end, killed or suspended: started by nodes.py.

Its handlers write to the oracle when each run begins and ends: NAME begin|end ID ATTEMPT NANOSECONDS, by a clock that
all processes of a machine share; and when it could do nothing for a while, as if suspended: NAME stall - MILLISECONDS
NANOSECONDS. It tells its node id when it has started, and leaves in order on SIGTERM. With a halt it suspends itself at
a step, see halting.py.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Final, NoReturn

from tests.cluster.halting import Halt, HaltingStore
from tickwheel import aio
from tickwheel.scheduler import AsyncScheduler
from tickwheel.stores import open_store
from tickwheel.tasks import TaskContext

__all__ = ["NARROW", "run"]

NARROW: Final = 2  # how many runs of one of its handlers there may be at once
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


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("on purpose")


def fail(error: BaseException) -> NoReturn:
    raise error


def nested(depth: int) -> list[object]:
    deep: list[object] = []
    for _ in range(depth):
        deep = [deep]
    return deep


# What a handler should not do, and no other task may notice.
ODD: Final[dict[str, Callable[[], object]]] = {
    "raise": lambda: fail(ValueError("on purpose")),
    "unprintable": lambda: fail(Unprintable()),
    "exit": lambda: fail(SystemExit(3)),
    "interrupt": lambda: fail(KeyboardInterrupt()),
    "result": object,
    "deep": lambda: nested(100_000),
    "huge": lambda: "x" * 50_000_000,
}


def run(told: Connection, log: str, url: str, path: str, name: str, lease_ms: int, halt: str | None) -> None:
    """Be a node; what it complains of goes into a log."""
    said = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(said, 1)
    os.dup2(said, 2)
    aio.run(main(told, url, path, name, lease_ms, halt))


async def main(told: Connection, url: str, path: str, name: str, lease_ms: int, halt: str | None) -> None:
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

    @scheduler.task("narrow", concurrency=NARROW)
    def narrow(context: TaskContext, seconds: float = 0.0) -> str:
        oracle.write("begin", context.id, context.attempt)
        time.sleep(seconds)
        oracle.write("end", context.id, context.attempt)
        return name

    @scheduler.task("nothing")
    async def nothing() -> None:
        pass

    @scheduler.task("odd")
    def odd(what: str) -> object:
        return ODD[what]()

    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    watching = asyncio.create_task(oracle.watch())
    async with scheduler:
        assert scheduler._engine is not None
        told.send(scheduler._engine.node)
        told.close()
        if store is not None:
            store.arm()
        await ended.wait()
    watching.cancel()
    if store is not None:
        await store.close()
