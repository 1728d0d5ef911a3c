"""The timed loops, written out for each family of timer modules.

A rig holds one fresh timer module and loops over it as its own user would:

    wheels     [start(delay, callback) for delay in delays]         delays in ticks of 10 ms
    loops      [call_later(delay, callback) for delay in delays]    delays in seconds
    sched      [enter(delay, 1, callback) for delay in delays]      delays in seconds

Nothing stands between loop and subject: an adapter called a million times would be measured along
with what it adapts. `load` sets the delays of the next loop, so that no loop has to convert any.
"""

from __future__ import annotations

import sched
import time
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from tickwheel.wheels import Timer, Wheel

__all__ = ["LoopRig", "Rig", "SchedRig", "UvloopRig", "WheelRig"]

TICKS_PER_SECOND = 100  # the wheels count in ticks of 10 ms
HORIZON_SECONDS = 3601.0  # just past the longest delay, one hour
UVLOOP_DUE_SECONDS = 0.001  # the shortest delay for which uvloop keeps a timer at all
EXPIRED_MAX = 1000  # a wheel is turned in bounded steps, as a driver would
PRIORITY = 1  # sched asks for one; all alike

# The server of the mixed workload stops nine in ten of a batch after it has started the next one.
BATCH = 100
KEPT_OF_BATCH = 10


class Rig(Protocol):
    """One fresh timer module, and what it is made to do."""

    def load(self, ticks: Sequence[int]) -> None:
        """Set the delays of the next loop, and let go of the handles of the last."""

    def prepare_expiry(self) -> None:
        """Make sure that time can be made to pass: called before the first start."""

    def start(self) -> None:
        """Start a timer for each delay and keep the handles."""

    def start_unkept(self) -> None:
        """Start a timer for each delay; the module alone holds them."""

    def stop(self) -> None:
        """Stop the timers started last, in start order."""

    def start_stop(self) -> None:
        """Start and at once stop a timer for each delay."""

    def expire(self) -> None:
        """Let every pending timer fire."""

    def churn(self) -> None:
        """Start all, and stop nine in ten on the way."""

    def await_due(self) -> None:
        """Wait, where time cannot be made to pass, until all is due: called before `expire`, and not timed."""

    def calls(self) -> int:
        """Say how many callbacks ran. Asked once: asking counts as one."""

    def close(self) -> None:
        """Let go of everything."""


class Counted:
    """The callback all subjects share: the cheapest there is, and it counts."""

    def __init__(self) -> None:
        self.callback: Callable[[], int] = count().__next__

    def prepare_expiry(self) -> None:
        """Nothing to prepare."""

    def await_due(self) -> None:
        """Nothing to wait for."""

    def calls(self) -> int:
        """Say how many callbacks ran."""
        return self.callback()

    def close(self) -> None:
        """Nothing to let go of."""


class WheelRig(Counted):
    """Any scheme of tickwheel.wheels."""

    def __init__(self, wheel: Wheel) -> None:
        super().__init__()
        self.wheel = wheel
        self.delays: Sequence[int] = []
        self.payloads: list[object] = []
        self.handles: list[Timer] = []

    def load(self, ticks: Sequence[int]) -> None:  # noqa: D102 - said in Rig, here and below
        self.delays = ticks
        self.handles = []

    def load_payloads(self) -> None:
        """Make the second list that `start_many` takes."""
        self.payloads = [self.callback] * len(self.delays)

    def start(self) -> None:  # noqa: D102
        start, callback = self.wheel.start, self.callback
        self.handles = [start(delay, callback) for delay in self.delays]

    def start_unkept(self) -> None:  # noqa: D102
        start, callback = self.wheel.start, self.callback
        for delay in self.delays:
            start(delay, callback)

    def start_many(self) -> None:
        """Start all in one call."""
        self.handles = self.wheel.start_many(self.delays, self.payloads)

    def stop(self) -> None:  # noqa: D102
        stop = self.wheel.stop
        for handle in self.handles:
            stop(handle)

    def start_stop(self) -> None:  # noqa: D102
        start, stop, callback = self.wheel.start, self.wheel.stop, self.callback
        for delay in self.delays:
            stop(start(delay, callback))

    def expire(self) -> None:  # noqa: D102
        advance, horizon = self.wheel.advance, int(HORIZON_SECONDS) * TICKS_PER_SECOND
        while batch := advance(horizon, EXPIRED_MAX):
            for timer in batch:
                timer.take()()  # type: ignore[operator]  # a payload is any object; ours is the callback

    def churn(self) -> None:  # noqa: D102
        start, stop, callback, delays = self.wheel.start, self.wheel.stop, self.callback, self.delays
        waiting: list[Timer] = []
        for first in range(0, len(delays), BATCH):
            batch = [start(delay, callback) for delay in delays[first : first + BATCH]]
            for handle in waiting:
                stop(handle)
            waiting = batch[KEPT_OF_BATCH:]
        for handle in waiting:
            stop(handle)

    def turn(self, step: int, times: int) -> None:
        """Advance again and again over ticks on which nothing is due."""
        advance, now = self.wheel.advance, self.wheel.now
        for to in range(now + step, now + step * times + 1, step):
            advance(to)


class LoopRig(Counted):
    """asyncio's own event loop. Its clock can be replaced, so that an hour passes at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.loop = loop
        self.delays: Sequence[float] = []
        self.handles: list[asyncio.TimerHandle] = []
        self.moment = [0.0]

    def load(self, ticks: Sequence[int]) -> None:  # noqa: D102
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


class SchedRig(Counted):
    """The standard library's scheduler, on a clock that stands still until it is moved."""

    def __init__(self) -> None:
        super().__init__()
        self.moment = [0.0]
        # `bool` takes the place of a sleep: called after each event, and the cheapest way to do nothing.
        self.scheduler = sched.scheduler(partial(self.moment.__getitem__, 0), bool)
        self.delays: Sequence[float] = []
        self.handles: list[sched.Event] = []

    def load(self, ticks: Sequence[int]) -> None:  # noqa: D102
        self.delays = [tick / TICKS_PER_SECOND for tick in ticks]
        self.handles = []

    def start(self) -> None:  # noqa: D102
        enter, callback = self.scheduler.enter, self.callback
        self.handles = [enter(delay, PRIORITY, callback) for delay in self.delays]

    def start_unkept(self) -> None:  # noqa: D102
        enter, callback = self.scheduler.enter, self.callback
        for delay in self.delays:
            enter(delay, PRIORITY, callback)

    def stop(self) -> None:  # noqa: D102
        cancel = self.scheduler.cancel
        for handle in self.handles:
            cancel(handle)

    def start_stop(self) -> None:  # noqa: D102
        enter, cancel, callback = self.scheduler.enter, self.scheduler.cancel, self.callback
        for delay in self.delays:
            cancel(enter(delay, PRIORITY, callback))

    def expire(self) -> None:  # noqa: D102
        self.moment[0] = HORIZON_SECONDS
        self.scheduler.run(blocking=False)

    def churn(self) -> None:  # noqa: D102
        enter, cancel, callback, delays = self.scheduler.enter, self.scheduler.cancel, self.callback, self.delays
        waiting: list[sched.Event] = []
        for first in range(0, len(delays), BATCH):
            batch = [enter(delay, PRIORITY, callback) for delay in delays[first : first + BATCH]]
            for handle in waiting:
                cancel(handle)
            waiting = batch[KEPT_OF_BATCH:]
        for handle in waiting:
            cancel(handle)
