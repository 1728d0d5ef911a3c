"""The one place that knows what time it is.

Everything that needs the time is given a `Clock`. `SystemClock` is the machine's; `VirtualClock` stands
still until it is told to go on, so that tests and simulations of a year take milliseconds:

    >>> clock = VirtualClock()
    >>> clock.advance(1.5)
    >>> clock.monotonic_ns()
    1500000000
"""

import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from tickwheel.durations import Duration, to_ns
from tickwheel.errors import InvalidClock, InvalidOption

__all__ = ["STEP_NS", "Clock", "ClockSteps", "SystemClock", "VirtualClock", "boottime_of", "monotonic_reader"]

# Where a virtual wall clock begins: the first second of 2024, in UTC.
WALL_START_NS: Final = 1_704_067_200 * 10**9

# A wall clock that changes by more was set, not corrected; the same as STEP_MS in tasks/transitions.
STEP_NS: Final = 10**9
READ_NS_MAX: Final = 100_000_000  # between two readings that are compared: the process may be suspended in between


class Clock(Protocol):
    """Two readings of the same passing time, in nanoseconds."""

    def monotonic_ns(self) -> int:
        """Time that only goes forward, from an arbitrary beginning."""

    def time_ns(self) -> int:
        """Time of day, since 1970 in UTC; may be stepped."""


def monotonic_reader(clock: object) -> Callable[[], int]:
    """Return what reads a clock that somebody has given; `InvalidClock` if it is not one."""
    read: Callable[[], int] | None = getattr(clock, "monotonic_ns", None)
    try:
        now_ns = None if read is None else read()
    except TypeError:  # its class was given, or something else that cannot be called
        now_ns = None
    if read is None or type(now_ns) is not int:
        raise InvalidClock(clock)
    return read


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    # The functions themselves, so that reading the clock costs no call in between.
    monotonic = staticmethod(time.monotonic)
    monotonic_ns = staticmethod(time.monotonic_ns)
    time_ns = staticmethod(time.time_ns)
    if sys.platform == "linux":
        boottime_ns = staticmethod(partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME))
    else:
        boottime_ns = staticmethod(time.monotonic_ns)  # goes on during suspend on Windows; elsewhere it may not


def boottime_of(clock: Clock) -> Callable[[], int]:
    """Return the reading of a clock that goes on while the machine is suspended; its monotonic one, if it has none."""
    boottime_ns: Callable[[], int] = getattr(clock, "boottime_ns", clock.monotonic_ns)
    return boottime_ns


class ClockSteps:
    """How far a wall clock was set, seen by one that only goes forward.

        monotonic    100 s      101 s      102 s
        wall         12:00:00   12:00:01   11:00:02      a step of -1 h

    By the monotonic clock of the machine, a suspend is a step forward; by the one that goes on meanwhile it is none.
    """

    __slots__ = ("_ahead_ns", "_monotonic_ns", "_time_ns")

    def __init__(self, time_ns: Callable[[], int], monotonic_ns: Callable[[], int]) -> None:
        self._time_ns = time_ns
        self._monotonic_ns = monotonic_ns
        self._ahead_ns = time_ns() - monotonic_ns()

    def peek(self) -> int:
        """Return how far the clock was set since the last `take`, in nanoseconds; 0 for a correction."""
        step_ns = self._read()
        return step_ns if abs(step_ns) > STEP_NS else 0

    def take(self) -> int:
        """Return how far the clock was set since the last `take`, and go by it as it is now."""
        step_ns = self._read()
        self._ahead_ns += step_ns
        return step_ns if abs(step_ns) > STEP_NS else 0

    def _read(self) -> int:
        """Return by how much it changed; 0 where two readings cannot be compared, which is made up for by the next."""
        before_ns = self._monotonic_ns()
        wall_ns = self._time_ns()
        if self._monotonic_ns() - before_ns > READ_NS_MAX:
            return 0
        return wall_ns - before_ns - self._ahead_ns


class VirtualClock:
    """A clock that is moved by hand. Safe from any thread."""

    __slots__ = ("_lock", "_monotonic_ns", "_wall_ns")

    def __init__(self, wall_ns: int = WALL_START_NS) -> None:
        check_ns("wall_ns", wall_ns)
        self._lock = threading.Lock()
        self._monotonic_ns = 0
        self._wall_ns = wall_ns

    def monotonic(self) -> float:
        """How far it was advanced, in seconds, as event loops count."""
        return self._monotonic_ns / 1e9

    def monotonic_ns(self) -> int:
        """How far it was advanced."""
        return self._monotonic_ns

    def boottime_ns(self) -> int:
        """How far it was advanced."""
        return self._monotonic_ns

    def time_ns(self) -> int:
        """Its time of day."""
        return self._wall_ns

    def advance(self, duration: Duration) -> None:
        """Let time pass."""
        self.advance_ns(to_ns(duration))

    def advance_ns(self, ns: int) -> None:
        """Let nanoseconds pass."""
        check_ns("ns", ns)
        if ns < 0:
            raise InvalidOption("ns", ns, "a whole number of nanoseconds, not negative: time only goes forward")
        with self._lock:
            self._monotonic_ns += ns
            self._wall_ns += ns

    def step_wall(self, ns: int) -> None:
        """Set the time of day forward or back, as an operator or a time server would; no time passes."""
        check_ns("ns", ns)
        with self._lock:
            self._wall_ns += ns


def check_ns(name: str, given: object) -> None:
    """Refuse what is no whole number of nanoseconds, before a clock has gone wrong."""
    if not isinstance(given, int) or isinstance(given, bool):
        raise InvalidOption(name, given, "a whole number of nanoseconds")
