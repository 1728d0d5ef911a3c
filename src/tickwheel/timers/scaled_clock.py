"""The time that timers go by: a clock's, but it can be paused and made to run faster or slower.

    clock        0 s        10 s       20 s               30 s
    own time     0 s        10 s       10 s               30 s
                            pause      resume, speed 2

Timers keep what they have left, whatever the clock does meanwhile.
"""

import math
from collections.abc import Callable
from typing import Final

from tickwheel.clock import Clock
from tickwheel.errors import InvalidSchedule, shown

__all__ = ["Anchor", "ScaledClock"]

# Three orders of magnitude either way: slow motion and fast forward, not a way to stop time.
SPEED_MIN: Final = 0.001
SPEED_MAX: Final = 1000.0

Anchor = tuple[int, int, float, bool]  # where the clock and its own time stood, its speed, and whether it is paused


class ScaledClock:
    """Nanoseconds since it was made, less pauses, times its speed. Its user brings the lock."""

    __slots__ = ("_anchor_ns", "_behind_ns", "_own_anchor_ns", "_plain", "_read_ns", "paused", "speed")

    def __init__(self, clock: Clock) -> None:
        self._read_ns: Callable[[], int] = clock.monotonic_ns
        self._anchor(self._read_ns(), 0, 1.0, paused=False)

    def now_ns(self) -> int:
        """Read it."""
        # The clock first: one written in Python lets other threads change the rest meanwhile, and is then behind.
        clock_ns = self._read_ns()
        if self._plain:
            return max(clock_ns - self._behind_ns, self._own_anchor_ns)
        return self._at(clock_ns)

    def _at(self, clock_ns: int) -> int:
        if self.paused or clock_ns < self._anchor_ns:
            return self._own_anchor_ns
        return self._own_anchor_ns + int((clock_ns - self._anchor_ns) * self.speed)

    def wait_ns(self, until_ns: int) -> int | None:
        """Return how long the clock goes on before this time comes; None if it does not, because of a pause.

        Negative if it has passed.
        """
        if self.paused:
            return None
        left_ns = until_ns - self.now_ns()
        return left_ns if self.speed == 1.0 else -int(-left_ns // self.speed)

    def align(self, origin_ns: int, tick_ns: int) -> None:
        """Let its ticks begin when those do that are counted from a moment of the clock; only when it is new.

        It begins somewhere in its first tick then, instead of with it.
        """
        clock_ns = self._read_ns()
        self._anchor(clock_ns, (clock_ns - origin_ns) % tick_ns, 1.0, paused=False)

    def is_aligned(self, origin_ns: int, tick_ns: int) -> bool:
        """Tell whether they do: not at another speed, nor after a pause."""
        return self._plain and (self._behind_ns - origin_ns) % tick_ns == 0

    def set_paused(self, *, paused: bool) -> Anchor:
        """Let it stand still, or go on; return what `restore` takes that back with."""
        return self._change(self.speed, paused=paused)

    def set_speed(self, speed: object) -> Anchor:
        """Let it go faster or slower from now on; return what `restore` takes that back with."""
        factor = to_float(speed)
        if not SPEED_MIN <= factor <= SPEED_MAX:
            raise InvalidSchedule(
                f"a speed is from {SPEED_MIN} to {SPEED_MAX:.0f}, not {shown(speed)}; to stop time, pause()"
            )
        return self._change(factor, paused=self.paused)

    def _change(self, speed: float, *, paused: bool) -> Anchor:
        before = (self._anchor_ns, self._own_anchor_ns, self.speed, self.paused)
        clock_ns = self._read_ns()
        self._anchor(clock_ns, self._at(clock_ns), speed, paused=paused)
        return before

    def restore(self, before: Anchor) -> None:
        """Let it go on as if it had not been changed."""
        anchor_ns, own_anchor_ns, speed, paused = before
        self._anchor(anchor_ns, own_anchor_ns, speed, paused=paused)

    def _anchor(self, clock_ns: int, own_ns: int, speed: float, *, paused: bool) -> None:
        """Take note that it stands at `own_ns` when the clock stands at `clock_ns`, and how it goes on."""
        self.speed = speed
        self.paused = paused
        self._anchor_ns = clock_ns
        self._own_anchor_ns = own_ns
        self._behind_ns = clock_ns - own_ns
        self._plain = not paused and speed == 1.0  # the usual case, for which the difference is enough


def to_float(speed: object) -> float:
    """Return a speed as a float; NaN, which is refused, if it is not a number."""
    if isinstance(speed, bool) or not isinstance(speed, (int, float)):
        return math.nan
    try:
        return float(speed)
    except OverflowError:  # an int that is too large for one
        return math.inf
