"""What a timeout costs that does not come to pass.

    async with timeout(60):
        pass

This is timed in a running task, while n other timeouts of the same kind are pending on the same loop. The loop
gets a turn after every 1,000, so that what a cancel leaves for later is paid for within the timed section.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from time import perf_counter_ns
from typing import TYPE_CHECKING

from bench.lap import Lap, in_chunks

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from bench.subjects import Subject

    MakeTimeout = Callable[[float], AbstractAsyncContextManager[object, bool | None]]

__all__ = ["TimeoutRig", "enter_timeouts"]

TIMEOUT_SECONDS = 60.0
PENDING_SECONDS = 3600.0  # those that are pending do not come due while anything is timed
PER_TURN = 1000  # a busy server's loop has about this much to do in one turn
WARM_UP_TIMEOUTS = 100


class TimeoutRig:
    """A loop, and a way to make timeouts on it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout: MakeTimeout) -> None:
        self.loop = loop
        self.timeout = timeout
        self.left = asyncio.Event()
        self.holder: asyncio.Task[None] | None = None

    def warm_up(self) -> None:
        """Enter and leave a few."""
        self.time_ns(WARM_UP_TIMEOUTS)

    def hold(self, n: int) -> None:
        """Enter n timeouts, one within the other, and stay there."""
        entered = self.loop.create_future()
        self.holder = self.loop.create_task(self._hold(n, entered))
        self.loop.run_until_complete(entered)

    async def _hold(self, n: int, entered: asyncio.Future[None]) -> None:
        async with AsyncExitStack() as stack:
            for _ in range(n):
                await stack.enter_async_context(self.timeout(PENDING_SECONDS))
            entered.set_result(None)
            await self.left.wait()

    def time_ns(self, times: int) -> int:
        """Enter and leave timeouts in a task and return how long it took."""
        return self.loop.run_until_complete(self._time_ns(times))

    async def _time_ns(self, times: int) -> int:
        timeout = self.timeout
        began_ns = perf_counter_ns()
        for first in range(0, times, PER_TURN):
            for _ in range(min(PER_TURN, times - first)):
                async with timeout(TIMEOUT_SECONDS):
                    pass
            await asyncio.sleep(0)
        return perf_counter_ns() - began_ns

    def close(self) -> None:
        """Leave those that are pending, and close the loop."""
        self.left.set()
        if self.holder is not None:
            self.loop.run_until_complete(self.holder)
        self.loop.close()


def enter_timeouts(rig: TimeoutRig, _subject: Subject, n: int) -> Lap:
    """Enter and leave timeouts while n are pending."""
    rig.hold(n)
    return in_chunks(lambda _, size: rig.time_ns(size))
