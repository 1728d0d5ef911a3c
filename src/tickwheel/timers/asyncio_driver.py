"""`AsyncTimers`: a wheel turned by an asyncio event loop, whichever it is.

    async def main() -> None:
        async with AsyncTimers() as timers:
            timers.after(0.5, print, "half a second")
            timers.every("1s", poll)            # a coroutine function is run as a task

However many timers there are, the loop holds one: a call at the moment the wheel next has work.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Self, Unpack

from tickwheel.timers.handle import TimerHandle
from tickwheel.timers.timers import AbstractTimers, Options
from tickwheel.wheels import TICK_MAX

__all__ = ["AsyncTimers"]


class LoopClock:
    """An event loop's time as a clock, so that a loop on virtual time has virtual timers."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def monotonic_ns(self) -> int:
        """Read the loop's time."""
        return int(self._loop.time() * 1e9)

    def time_ns(self) -> int:
        """Read the same: an event loop knows no time of day."""
        return self.monotonic_ns()


class AsyncTimers(AbstractTimers):
    """Timers for the loop they were made on; to be used from its thread only."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None, **options: Unpack[Options]) -> None:
        self._loop = loop or asyncio.get_running_loop()
        super().__init__(LoopClock(self._loop), **options)
        self._registry.awaited = TICK_MAX
        self._call: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def running(self) -> bool:
        """Whether timers come due."""
        return not self._registry.stopped and not self._loop.is_closed()

    def stop(self) -> list[TimerHandle]:
        """Stop for good and hand back what was pending, by due time; tasks that run go on."""
        left = self._registry.close()
        self._disarm()
        return left

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()

    # -- the loop

    def _wake(self) -> None:
        """Have the loop call when the wheel next has work."""
        self._disarm()
        wait_ns = self._registry.wait_ns()
        if wait_ns is not None:
            self._registry.awaited = self._registry.wheel.next_due() or TICK_MAX
            self._call = self._loop.call_later(wait_ns / 1e9, self._turn)

    def _disarm(self) -> None:
        if self._call is not None:
            self._call.cancel()
        self._call = None
        self._registry.awaited = TICK_MAX

    def _turn(self) -> None:
        self._call = None
        self._registry.awaited = 0  # no need to be woken while awake
        due = self._registry.collect()
        for handle in due:
            self._run(handle)
        if due:
            self._call = self._loop.call_later(0, self._turn)  # there may be more; the loop gets its turn between
        else:
            self._wake()

    def _run(self, handle: TimerHandle) -> None:
        if not asyncio.iscoroutinefunction(handle.callback):
            super()._run(handle)
        elif self._registry.begin_run(handle):
            task = self._loop.create_task(self._await(handle, handle.callback(*handle.args)))
            self._tasks.add(task)  # the loop itself keeps only a weak reference
            task.add_done_callback(self._tasks.discard)

    async def _await(self, handle: TimerHandle, running: Coroutine[Any, Any, object]) -> None:
        try:
            await running
        except Exception as error:  # noqa: BLE001 - a callback must not take the others with it
            self._report(handle, error)
        self._registry.end_run(handle)
