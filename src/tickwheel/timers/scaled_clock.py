"""The time that timers go by: a clock's, but it can be paused and made to run faster or slower.

    clock        0 s        10 s       20 s               30 s
    own time     0 s        10 s       10 s               30 s
                            pause      resume, speed 2

Timers keep what they have left, whatever the clock does meanwhile.
"""

from collections.abc import Callable
from typing import Final

from tickwheel.clock import Clock
from tickwheel.errors import InvalidSchedule, shown

__all__ = ["ScaledClock"]

# Three orders of magnitude either way: slow motion and fast forward, not a way to stop time.
SPEED_MIN: Final = 0.001
SPEED_MAX: Final = 1000.0


class ScaledClock:
    """Nanoseconds since it was made, less pauses, times its speed. Its user brings the lock."""

    __slots__ = ("_anchor_ns", "_behind_ns", "_own_anchor_ns", "_plain", "_read_ns", "paused", "speed")

    def __init__(self, clock: Clock) -> None:
        self._read_ns: Callable[[], int] = clock.monotonic_ns
        self.speed = 1.0
        self.paused = False
        self._anchor(0)

    def now_ns(self) -> int:
        """Read it."""
        if self._plain:
            return self._read_ns() - self._behind_ns
        if self.paused:
            return self._own_anchor_ns
        return self._own_anchor_ns + int((self._read_ns() - self._anchor_ns) * self.speed)

    def wait_ns(self, until_ns: int) -> int | None:
        """Return how long the clock goes on before this time comes; None if it does not, because of a pause."""
        if self.paused:
            return None
        left_ns = until_ns - self.now_ns()
        return max(left_ns if self.speed == 1.0 else -int(-left_ns // self.speed), 0)

    def set_paused(self, *, paused: bool) -> None:
        """Let it stand still, or go on."""
        own_ns = self.now_ns()
        self.paused = paused
        self._anchor(own_ns)

    def set_speed(self, speed: object) -> None:
        """Let it go faster or slower from now on."""
        if isinstance(speed, bool) or not isinstance(speed, (int, float)) or not SPEED_MIN <= speed <= SPEED_MAX:
            raise InvalidSchedule(
                f"a speed is from {SPEED_MIN} to {SPEED_MAX:.0f}, not {shown(speed)}; to stop time, pause()"
            )
        own_ns = self.now_ns()
        self.speed = float(speed)
        self._anchor(own_ns)

    def _anchor(self, own_ns: int) -> None:
        """Take note that it stands at `own_ns` now, and goes on as it has been told."""
        self._anchor_ns = self._read_ns()
        self._own_anchor_ns = own_ns
        self._behind_ns = self._anchor_ns - own_ns
        self._plain = not self.paused and self.speed == 1.0  # the usual case, for which the difference is enough
