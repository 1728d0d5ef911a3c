"""The timed loops, written out for each family of timer modules; those of event loops are in `bench.loops`.

A rig holds one fresh timer module and loops over it as its own user would:

    wheels     [start(delay, callback) for delay in delays]         delays in ticks of 10 ms
    loops      [call_later(delay, callback) for delay in delays]    delays in seconds
    sched      [enter(delay, 1, callback) for delay in delays]      delays in seconds

Nothing stands between loop and subject: an adapter called a million times would be measured along
with what it adapts. `load` sets the delays of the next loop, so that no loop has to convert any.
"""

from __future__ import annotations

import sched
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tickwheel.wheels import Timer, Wheel

__all__ = ["Counted", "Rig", "SchedRig", "TimerRig", "WheelRig"]

TICKS_PER_SECOND = 100  # the wheels count in ticks of 10 ms
HORIZON_SECONDS = 3601.0  # just past the longest delay, one hour
WARM_UP_TIMERS = 100
EXPIRED_MAX = 1000  # a wheel is turned in bounded steps, as a driver would
PRIORITY = 1  # sched asks for one; all alike

# The server of the mixed workload stops nine in ten of a batch after it has started the next one.
BATCH = 100
KEPT_OF_BATCH = 10


class Rig(Protocol):
    """One fresh subject."""

    def warm_up(self) -> None:
        """Do once, before anything is timed, what will be."""

    def close(self) -> None:
        """Let go of everything."""


class TimerRig(Rig, Protocol):
    """A timer module, and what it is made to do."""

    handles: list[Any]  # of the timers started last

    def load(self, ticks: Sequence[int]) -> None:
        """Set the delays of the next loop, and let go of the handles of the last."""

    def prepare_expiry(self) -> None:
        """Make sure that time can be made to pass: called before the first start."""

    def start(self) -> None:
        """Start a timer for each delay and keep the handles."""

    def start_unkept(self) -> None:
        """Start a timer for each delay; the module alone holds them."""

    def stop(self) -> None:
        """Stop the timers started last, in the order of `handles`."""

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


class Counted:
    """The callback all subjects share: the cheapest there is, and it counts."""

    def __init__(self) -> None:
        self.callback: Callable[[], int] = count().__next__

    def warm_up(self: TimerRig) -> None:
        """Start and stop a few timers."""
        self.load([1] * WARM_UP_TIMERS)
        self.start_stop()

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

    def load(self, ticks: Sequence[int]) -> None:  # noqa: D102 - said in TimerRig, here and below
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
        wheel, horizon = self.wheel, int(HORIZON_SECONDS) * TICKS_PER_SECOND
        while len(wheel):  # a batch is empty while a cascade is under way
            for timer in wheel.advance(horizon, EXPIRED_MAX):
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
