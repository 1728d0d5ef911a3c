"""Notices that the wall clock was set, by comparing it with the clock that only goes forward.

monotonic    100 s      101 s      102 s
wall         12:00:00   12:00:01   11:00:02      a step of -1 h: `on_step(-3600000)`
"""

from collections.abc import Callable
from typing import Final

from tickwheel.clock import Clock
from tickwheel.tasks.transitions import STEP_MS

__all__ = ["STEP_NS", "ClockSteps"]

STEP_NS: Final = STEP_MS * 1_000_000
READ_NS_MAX: Final = 100_000_000  # between two readings that are compared: the process may be suspended in between


class ClockSteps:
    """The steps of one clock; `on_step` is called with each, in milliseconds."""

    def __init__(self, clock: Clock, on_step: Callable[[int], None]) -> None:
        self._clock = clock
        self._on_step = on_step
        self._ahead_ns = clock.time_ns() - clock.monotonic_ns()

    def check(self) -> None:
        """Look whether the clock was set since the last time."""
        before_ns = self._clock.monotonic_ns()
        wall_ns = self._clock.time_ns()
        if self._clock.monotonic_ns() - before_ns > READ_NS_MAX:
            return
        step_ns = wall_ns - before_ns - self._ahead_ns
        self._ahead_ns += step_ns
        if abs(step_ns) > STEP_NS:
            self._on_step(round(step_ns / 1_000_000))
