"""`ManualTimers`: a wheel turned by the program itself, on a clock that it moves.

For tests, simulations and game loops: nothing happens until time is let pass, and then everything
happens in order, on the caller's thread:

    >>> from tickwheel.clock import VirtualClock
    >>> timers = ManualTimers(VirtualClock())
    >>> timer = timers.after("1h", print, "an hour is over")
    >>> timers.advance("59m")
    >>> timers.advance("1m")
    an hour is over
"""

from typing import Unpack

from tickwheel.clock import VirtualClock
from tickwheel.durations import DURATION_NS_MAX, Duration, to_ns
from tickwheel.errors import InvalidOption
from tickwheel.timers.timers import AbstractTimers, Options

__all__ = ["ManualTimers"]


class ManualTimers(AbstractTimers):
    """Timers that come due while `advance` is called. May be started from any thread."""

    _clock: VirtualClock
    _slow_advice = ""

    def __init__(self, clock: VirtualClock | None = None, **options: Unpack[Options]) -> None:
        if clock is not None and not callable(getattr(clock, "advance_ns", None)):
            raise InvalidOption("clock", clock, "a VirtualClock, or another clock with advance_ns()")
        super().__init__(VirtualClock() if clock is None else clock, **options)
        self._slow_ns = DURATION_NS_MAX  # a callback takes time only if it moves the clock, to simulate that

    @property
    def running(self) -> bool:
        """Whether timers can be started: there is no thread that could be down."""
        return not self._registry.stopped

    def advance(self, duration: Duration) -> None:
        """Let time pass, stopping at each moment something is due to run it.

        A callback may move the clock itself, also beyond the end of this: what was due until then runs all the same.
        """
        end_ns = self._clock.monotonic_ns() + to_ns(duration)
        while True:
            self.run_due()
            with self._registry.lock:
                wait_ns = self._registry.wait_ns()
            left_ns = end_ns - self._clock.monotonic_ns()
            if wait_ns is None or wait_ns > left_ns:
                self._clock.advance_ns(max(left_ns, 0))
                return
            self._clock.advance_ns(max(wait_ns, 0))

    def run_due(self) -> None:
        """Run what is due at the clock's present moment.

        What a callback raises is reported, unless it is no `Exception`: then it ends this call, and the next one
        runs what is left.
        """
        while True:
            self._registry.collect()
            self._run_due()
            if self._registry.caught_up:
                return

    def advance_to_next(self) -> bool:
        """Jump to the next moment something runs, and run it; False if nothing is pending, or time is paused."""
        if self._registry.due_ring.count:  # left over by a callback that ended an earlier call
            self.run_due()
            return True
        before = self.stats.expired
        while self.stats.expired == before:
            with self._registry.lock:
                wait_ns = self._registry.wait_ns()
            if wait_ns is None:
                return False
            self._clock.advance_ns(max(wait_ns, 0))
            self.run_due()
        return True
