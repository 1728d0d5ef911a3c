"""`AsyncTimers`: a wheel turned by an asyncio event loop, whichever it is.

    async def main() -> None:
        async with AsyncTimers() as timers:
            timers.after(0.5, print, "half a second")
            timers.every("1s", poll)            # what a coroutine function returns is run as a task

However many timers there are, the loop holds one: a call at the moment the wheel next has work.
"""

import asyncio
from asyncio import BaseEventLoop
from collections.abc import Awaitable
from contextvars import copy_context
from functools import partial
from typing import Self, Unpack

from tickwheel.clock import Clock, SystemClock
from tickwheel.errors import NoRunningLoop
from tickwheel.timers.event_loop import EventLoop
from tickwheel.timers.handle import PendingTimer, TimerHandle
from tickwheel.timers.timers import AbstractTimers, Options
from tickwheel.wheels import TICK_MAX

__all__ = ["AsyncTimers"]


class LoopClock:
    """The time of an event loop as a clock, so that a loop on virtual time has virtual timers."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def monotonic_ns(self) -> int:
        """Read the loop's time, to the nearest: a float falls below about every second nanosecond it stands for."""
        return round(self._loop.time() * 1e9)

    def time_ns(self) -> int:
        """Read the same: an event loop knows no time of day."""
        return self.monotonic_ns()


class AsyncTimers(AbstractTimers):
    """Timers for the loop they were made on; to be used from its thread only."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None, **options: Unpack[Options]) -> None:
        if loop is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                raise NoRunningLoop("AsyncTimers") from None
        self._loop = loop
        super().__init__(clock_of(loop), **options)
        self._registry.awaited = TICK_MAX
        self._call: asyncio.TimerHandle | None = None
        self._context = copy_context()  # of their maker, and not of the one whose timer happens to be the first due
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def running(self) -> bool:
        """Whether timers come due."""
        return not self._registry.stopped and not self._loop.is_closed()

    def stop(self) -> list[PendingTimer]:
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
        wait_ns = self._registry.prepare_sleep()
        if wait_ns is not None:
            self._call = self._loop.call_later(wait_ns / 1e9, self._turn, context=self._context)

    def _disarm(self) -> None:
        if self._call is not None:
            self._call.cancel()
        self._call = None
        self._registry.awaited = TICK_MAX

    def _turn(self) -> None:
        self._call = None
        self._registry.awaited = 0  # no need to be woken while awake
        try:
            self._registry.collect()
            self._run_due()
        finally:  # also if SystemExit ends the loop, which finds the rest when it is run again
            if not self._registry.stopped:
                self._continue()

    def _continue(self) -> None:
        """Have the loop call again: next, if there may be more that is due, so that it gets its turn in between."""
        if self._registry.caught_up and not self._registry.due_ring.count:
            self._wake()
        else:
            self._call = self._loop.call_later(0, self._turn, context=self._context)

    def _take_result(self, handle: TimerHandle, result: object) -> bool:
        """Run what can be awaited as a task, with which the run ends."""
        if not isinstance(result, Awaitable):
            return False
        task = self._loop.create_task(self._await(handle, result))
        self._tasks.add(task)  # the loop itself keeps only a weak reference
        task.add_done_callback(partial(self._end_task, handle, result))
        return True

    def _end_task(self, handle: TimerHandle, awaitable: Awaitable[object], task: "asyncio.Task[None]") -> None:
        """End the run, also of a task that was cancelled before it began."""
        self._tasks.discard(task)
        if asyncio.iscoroutine(awaitable):
            awaitable.close()
        self._registry.end_run(handle)

    async def _await(self, handle: TimerHandle, awaitable: Awaitable[object]) -> None:
        try:
            await awaitable
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # the task itself was cancelled, as when the loop is shut down
            self._report(handle, error)
        except GeneratorExit:
            raise  # the loop was closed
        except BaseException as error:  # noqa: BLE001 - a callback must not take the others with it
            self._report(handle, error)

    def _contains(self, error: BaseException) -> bool:
        """Contain what an event loop contains."""
        return not isinstance(error, (SystemExit, KeyboardInterrupt))


def clock_of(loop: asyncio.AbstractEventLoop) -> Clock:
    """Return a clock that goes with the time of a loop: the system's, where that is what the loop reads."""
    standard = type(loop).time in (BaseEventLoop.time, EventLoop.time) and "time" not in vars(loop)
    return SystemClock() if standard else LoopClock(loop)
