"""The timed loops over event loops: `call_later(delay, callback)` and `handle.cancel()`.

They differ in how an hour can be made to pass at once:

    asyncio      its clock is replaced by one that is moved by hand
    EventLoop    it is made with such a clock
    uvloop       it cannot: the timers that are to fire are due after a millisecond
"""

from __future__ import annotations

import time
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from bench.rigs import BATCH, HORIZON_SECONDS, KEPT_OF_BATCH, TICKS_PER_SECOND, Counted
from tickwheel import VirtualClock
from tickwheel.aio import EventLoop

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from tickwheel import AsyncTimers, Timers

__all__ = ["EventLoopRig", "HandleRig", "LoopRig", "UvloopRig"]

UVLOOP_DUE_SECONDS = 0.001  # the shortest delay for which uvloop keeps a timer at all


class LoopRig(Counted):
    """asyncio's own event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.loop = loop
        self.delays: Sequence[float] = []
        self.handles: list[asyncio.TimerHandle] = []
        self.moment = [0.0]

    def load(self, ticks: Sequence[int]) -> None:  # noqa: D102 - said in TimerRig, here and below
        self.delays = [tick / TICKS_PER_SECOND for tick in ticks]
        self.handles = []

    def prepare_expiry(self) -> None:  # noqa: D102
        # Read by C code alone: the stand-in clock is no dearer than the real one.
        self.loop.time = partial(self.moment.__getitem__, 0)  # type: ignore[method-assign]

    def start(self) -> None:  # noqa: D102
        call_later, callback = self.loop.call_later, self.callback
        self.handles = [call_later(delay, callback) for delay in self.delays]

    def start_unkept(self) -> None:  # noqa: D102
        call_later, callback = self.loop.call_later, self.callback
        for delay in self.delays:
            call_later(delay, callback)

    def stop(self) -> None:  # noqa: D102
        for handle in self.handles:
            handle.cancel()

    def start_stop(self) -> None:  # noqa: D102
        call_later, callback = self.loop.call_later, self.callback
        for delay in self.delays:
            call_later(delay, callback).cancel()

    def expire(self) -> None:  # noqa: D102
        self.loop.call_later(HORIZON_SECONDS, self.loop.stop)  # due after all others
        self.moment[0] = HORIZON_SECONDS + 1.0
        self.loop.run_forever()

    def churn(self) -> None:  # noqa: D102
        call_later, callback, delays = self.loop.call_later, self.callback, self.delays
        waiting: list[asyncio.TimerHandle] = []
        for first in range(0, len(delays), BATCH):
            batch = [call_later(delay, callback) for delay in delays[first : first + BATCH]]
            for handle in waiting:
                handle.cancel()
            waiting = batch[KEPT_OF_BATCH:]
        for handle in waiting:
            handle.cancel()

    def close(self) -> None:  # noqa: D102
        self.loop.close()


class EventLoopRig(LoopRig):
    """tickwheel's event loop, made anew on a virtual clock where time is to pass."""

    def __init__(self) -> None:
        super().__init__(EventLoop())
        self.clock = VirtualClock()

    def prepare_expiry(self) -> None:  # noqa: D102
        self.loop.close()
        self.loop = EventLoop(clock=self.clock)

    def expire(self) -> None:  # noqa: D102
        self.loop.call_later(HORIZON_SECONDS, self.loop.stop)  # due after all others
        self.clock.advance(HORIZON_SECONDS + 1.0)
        self.loop.run_forever()


class HandleRig(LoopRig):
    """Timers of tickwheel, through the lines of an event loop: `after(delay, callback)` and `handle.cancel()`."""

    def __init__(self, timers: Timers | AsyncTimers, loop: asyncio.AbstractEventLoop | None = None) -> None:
        verbs: Any = SimpleNamespace(call_later=timers.after, close=timers.stop)
        super().__init__(verbs)
        self.driving_loop = loop

    def close(self) -> None:  # noqa: D102
        super().close()
        if self.driving_loop is not None:
            self.driving_loop.close()


class UvloopRig(LoopRig):
    """uvloop. Its clock is libuv's own, so timers that are to fire get the shortest delay there is."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.due_at_once = False

    def load(self, ticks: Sequence[int]) -> None:  # noqa: D102
        super().load(ticks)
        if self.due_at_once:
            self.delays = [UVLOOP_DUE_SECONDS] * len(ticks)

    def prepare_expiry(self) -> None:  # noqa: D102
        self.due_at_once = True

    def expire(self) -> None:  # noqa: D102
        self.loop.call_soon(self.loop.stop)  # a turn of libuv's loop runs the due timers first
        self.loop.run_forever()

    def await_due(self) -> None:  # noqa: D102
        time.sleep(3 * UVLOOP_DUE_SECONDS)
