"""The shape of a wheel: how many dials, how many slots each, and how long a slot is.

A geometry is a list of `(tick, slots)`, from the fastest dial to the slowest. All ticks are in one
unit, nanoseconds in the presets; the first one is the tick the wheel counts in.

    CLOCK     1 s x 60      a slot is a second, a turn a minute
              1 min x 60    a slot is a minute, a turn an hour
              1 h x 24      a slot is an hour, a turn a day

Timers move down a dial when a turn of the dial below begins, so every such turn must begin where a
slot begins, and every turn of a slow dial where a turn of the fast one does:

    >>> Geometry([(1, 60), (45, 10)])
    Traceback (most recent call last):
    tickwheel.errors.InvalidGeometry: level 1: its tick of 45 does not divide the turn of level 0 (60); ...

A slow dial may overlap the fast one (GAME: a turn of the 10 ms dial is ten slots of the 100 ms dial).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tickwheel.errors import InvalidGeometry, shown
from tickwheel.wheels.timer import TICK_MAX

__all__ = ["BINARY", "CENTURY", "CLOCK", "DEFAULT", "GAME", "ORDER", "Dial", "Geometry", "checked_slots"]

LEVELS_MAX = 16  # ten levels of 64 slots already reach the last tick
SLOTS_MAX = 65_536  # a dial is a table; beyond this another level is cheaper


@dataclass(frozen=True, slots=True)
class Dial:
    """One level of a geometry, measured in ticks of the first."""

    tick: int
    slots: int

    @property
    def span(self) -> int:
        """How many ticks one turn takes."""
        return self.tick * self.slots


class Geometry:
    """The dials of a hierarchical wheel, known to fit each other."""

    __slots__ = ("dials", "levels", "tick_ns")

    def __init__(self, levels: Iterable[tuple[int, int]]) -> None:
        self.levels = _pairs(levels)
        if not 1 <= len(self.levels) <= LEVELS_MAX:
            raise InvalidGeometry(f"a wheel has 1 to {LEVELS_MAX} levels, not {len(self.levels)}")
        for level, (tick, slots) in enumerate(self.levels):
            _check_alone(level, tick, slots)
        for level in range(1, len(self.levels)):
            _check_above(level, *self.levels[level - 1], *self.levels[level])
        self.tick_ns = self.levels[0][0]
        self.dials = tuple(Dial(tick // self.tick_ns, slots) for tick, slots in self.levels)
        if self.span > TICK_MAX:
            raise InvalidGeometry(
                f"the top level turns in {shown(self.span)} ticks; {TICK_MAX} is the most a wheel can count"
            )

    @property
    def span(self) -> int:
        """How many ticks one turn of the slowest dial takes."""
        return self.dials[-1].span

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Geometry) and other.levels == self.levels

    def __hash__(self) -> int:
        return hash(self.levels)

    def __repr__(self) -> str:
        return f"Geometry({list(self.levels)})"


def checked_slots(slots: object) -> int:
    """Check the size of a dial."""
    if isinstance(slots, bool) or not isinstance(slots, int) or not 1 <= slots <= SLOTS_MAX:
        raise InvalidGeometry(f"a dial has 1 to {SLOTS_MAX} slots, not {shown(slots)}")
    return slots


def _check_alone(level: int, tick: object, slots: object) -> None:
    if isinstance(tick, bool) or not isinstance(tick, int) or tick < 1:
        raise InvalidGeometry(f"level {level}: a tick is an int of at least 1, not {shown(tick)}")
    try:
        checked_slots(slots)
    except InvalidGeometry as error:
        raise InvalidGeometry(f"level {level}: {error}") from None


def _pairs(levels: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    try:
        given = iter(levels)
    except TypeError:
        raise InvalidGeometry(f"a geometry is a list of (tick, slots), not {shown(levels)}") from None
    return tuple(_pair(level, pair) for level, pair in enumerate(given))


def _pair(level: int, pair: tuple[int, int]) -> tuple[int, int]:
    try:
        tick, slots = pair
    except (TypeError, ValueError):
        raise InvalidGeometry(f"level {level}: expected (tick, slots), not {shown(pair)}") from None
    return tick, slots


def _check_above(level: int, tick_below: int, slots_below: int, tick: int, slots: int) -> None:
    turn_below = tick_below * slots_below
    turn = tick * slots
    below = level - 1
    if tick <= tick_below or tick % tick_below:
        raise InvalidGeometry(
            f"level {level}: its tick of {shown(tick)} is not a larger multiple of the tick of level {below} "
            f"({shown(tick_below)}); order the levels from fast to slow"
        )
    if turn_below % tick:
        raise InvalidGeometry(
            f"level {level}: its tick of {shown(tick)} does not divide the turn of level {below} "
            f"({shown(turn_below)}); use {shown(turn_below)}, or a divisor of it"
        )
    if turn <= turn_below or turn % turn_below:
        raise InvalidGeometry(
            f"level {level}: its turn of {shown(turn)} is not a larger multiple of the turn of level {below} "
            f"({shown(turn_below)}); change its number of slots"
        )


MILLISECOND = 1_000_000
SECOND = 1000 * MILLISECOND
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

CLOCK = Geometry([(SECOND, 60), (MINUTE, 60), (HOUR, 24)])
DEFAULT = Geometry([(10 * MILLISECOND, 100), (SECOND, 60), (MINUTE, 60), (HOUR, 24), (DAY, 30)])
GAME = Geometry([(10 * MILLISECOND, 100), (100 * MILLISECOND, 100), (SECOND, 300)])
ORDER = Geometry([(SECOND, 60), (MINUTE, 60), (HOUR, 24), (DAY, 30)])
# 1,220 months of 30 days are 36,600 days; a hundred years have 36,525.
CENTURY = Geometry(
    [(10 * MILLISECOND, 100), (SECOND, 60), (MINUTE, 60), (HOUR, 24), (DAY, 30), (30 * DAY, 1_220)],
)
# Every tick and every turn a power of two, so that shifts and masks find the slot: two years in six levels.
BINARY = Geometry([(64**level * MILLISECOND, 64) for level in range(6)])
