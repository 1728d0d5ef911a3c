"""Scheme 7, the hierarchical wheel: the clock on the wall. The one tickwheel runs on.

Each dial is coarser than the one below, and a slot of it as long as a turn of that one:

    hours    [00][01][02] ...        hand on 00:00:07
    minutes  [00][01][02] ...        a timer for 00:01:20 waits on the minutes, slot 1;
    seconds  [00] ... [07] ...       at 00:01:00 that slot is cascaded: its timers move
                       ^             down, this one to the seconds, slot 20, where it is due

| start        | stop | tick, on average | cascades            |
|--------------|------|------------------|---------------------|
| O(levels)    | O(1) | O(1)             | levels - 1 a timer  |

Placement is *aligned*: a timer sits on the lowest dial whose present turn its due tick belongs to.
Three things follow. Everything on a dial is due before anything on the dials above, so the next
timer is found by asking one dial after another. A slot is cascaded in the very moment from which
timers could be started below it, so a cascade keeps the order of starting. And when nothing is due
for long, the hand goes there in one step: no tick is spent on emptiness.

    >>> from tickwheel.wheels import CLOCK, HierarchicalWheel
    >>> wheel = HierarchicalWheel(CLOCK, now=7)
    >>> timer = wheel.start(73, "tea")
    >>> timer.slot.level, timer.slot.index
    (1, 1)
    >>> wheel.advance(60), timer.slot.level, timer.slot.index
    ([], 0, 20)
    >>> wheel.next_due(), [timer.take() for timer in wheel.advance(10**12)]
    (80, ['tea'])

Delays beyond the slowest dial wait in an overflow (see `level.py`). Dials and slots are made when
first used, so an empty wheel for a hundred years costs next to nothing.

A payload that refers back to the wheel closes a cycle that the garbage collector cannot see while
the timer is pending: `close()` such a wheel. Any other wheel may simply be dropped.
"""

from collections.abc import Iterable

from mypy_extensions import i64

from tickwheel.wheels.geometry import DEFAULT, Geometry
from tickwheel.wheels.level import OVERFLOW, Level, Overflow
from tickwheel.wheels.scheme import Scheme, expect
from tickwheel.wheels.timer import Slot, Timer

__all__ = ["HierarchicalWheel"]


class HierarchicalWheel(Scheme):
    """Dials of any geometry; takes any delay."""

    def __init__(self, geometry: Geometry | Iterable[tuple[int, int]] = DEFAULT, now: object = 0) -> None:
        self._geometry = geometry if isinstance(geometry, Geometry) else Geometry(geometry)
        super().__init__(now)
        self._levels: list[Level] = []
        self._overflow = Overflow(self._serial, self._geometry.span)
        self._cascaded: i64 = 0
        self._recent = self._add_level()  # where the last timer was placed: the next one is often alike

    @property
    def geometry(self) -> Geometry:
        """The dials it has or will have when they are needed."""
        return self._geometry

    # -- start and stop

    def _begin(self, due: i64, payload: object) -> Timer:
        return self._slot(due).begin(due, payload)

    def _place(self, timer: Timer) -> None:
        self._slot(timer.due).append(timer)

    def _slot(self, due: i64) -> Slot:
        """Return the slot for a due tick: on the lowest dial that shows it."""
        level = self._recent
        if level.begin <= due < level.end:
            return level.slot(due)
        for level in self._levels:
            if due < level.end:
                self._recent = level
                return level.slot(due)
        while len(self._levels) < len(self._geometry.dials):
            level = self._add_level()
            if due < level.end:
                return level.slot(due)
        return self._overflow.slot(due)

    def _add_level(self) -> Level:
        number = len(self._levels)
        dial = self._geometry.dials[number]
        begin = self._levels[number - 1].end if number else 0
        level = Level(self._serial, number, dial.tick, dial.slots, self._now, begin)
        if len(self._levels) > number:
            return self._levels[number]  # made by a finalizer that ran while we were making it
        self._levels.append(level)
        return level

    def _emptied(self, slot: Slot) -> None:
        if slot.level >= 0:
            self._levels[slot.level].occupied.clear(slot.index)
        elif slot.level == OVERFLOW:
            self._overflow.drop(slot)

    # -- the hand

    def _turn(self, to: i64) -> bool:
        lowest = self._levels[0]
        while True:
            tick = lowest.next_start(self._now + 1)
            if tick >= 0:
                if tick > to:
                    break
                self._now = tick
                self._ready = lowest.swap(tick, self._ready)
                return True
            number, start = self._next_above()
            if start < 0:
                break
            # A slot of an overlapping dial may begin in the middle of a turn of the dial below.
            turn = self._levels[number - 1].span
            start = start // turn * turn
            if start > to:
                break
            self._enter(start, number)
        self._now = to
        number = 0
        while number < len(self._levels) and to >= self._levels[number].end:
            number += 1
        self._show(to, number)
        return False

    def _show(self, tick: i64, number: i64) -> None:
        """Turn the lowest dials, empty as they are, to the turn that a tick is in."""
        below: i64 = 0
        while below < number:
            level = self._levels[below]
            level.show(tick)
            below += 1
            if below < len(self._levels):
                self._levels[below].begin = level.end

    def _next_above(self) -> tuple[i64, i64]:
        """Find the first occupied slot above the lowest dial: its level, and the tick it begins at (or -1)."""
        number: i64 = 1
        count: i64 = len(self._levels)
        while number < count:
            level = self._levels[number]
            start = level.next_start(level.begin)
            if start >= 0:
                return number, start
            number += 1
        return number, self._overflow.next_start()

    def _enter(self, start: i64, number: i64) -> None:
        """Let the dials below a level begin a turn, and cascade to them what is due in it."""
        self._now = start - 1  # about to stand on `start`
        self._show(start, number)
        if number == len(self._levels):
            slot = self._overflow.take(start)
            self._cascade(slot)
            slot.dissolve()
            return
        level = self._levels[number]
        while 0 <= start < level.begin:
            index = level.index(start)
            passed = level.slots[index]
            if passed is not None and passed.count:
                level.occupied.clear(index)
                self._cascade(passed)
            start = level.next_start(start)

    def _cascade(self, slot: Slot) -> None:
        """Place every timer of a slot anew, in order."""
        self._cascaded += slot.count
        timer = slot.next
        slot.next = slot
        slot.prev = slot
        slot.count = 0
        while timer is not slot:
            following = timer.next
            self._place(timer)
            timer = following

    def _earliest(self) -> i64:
        tick = self._levels[0].next_start(self._now + 1)
        return tick if tick >= 0 else self._next_above()[1]

    # -- to see what is inside

    def occupancy(self) -> list[list[int]]:
        """Count the timers in each slot, level by level; what waits beyond is in `stats.overflow`."""
        counts = [[0] * dial.slots for dial in self._geometry.dials]
        for slot in self._slots():
            if slot.level >= 0:
                counts[slot.level][slot.index] = slot.count
        return counts

    def check(self) -> None:
        """Raise `BrokenWheel` if a timer is not where the hand will find it in time."""
        super().check()
        shown = self._now  # everything before this tick belongs on a dial below
        for level in self._levels if not self._closed else []:
            expect(level.base % level.span == 0, f"level {level.number} begins at {level.base}")
            expect(level.base <= self._now < level.end, f"level {level.number} does not show tick {self._now}")
            expect(level.begin in (0, shown), f"level {level.number} begins at {level.begin}, not {shown}")
            for index, slot in enumerate(level.slots):
                held = 0 if slot is None else slot.count
                expect(level.occupied.has(index) == (held > 0), f"level {level.number}, slot {index}: bitmap is wrong")
                for timer in [] if slot is None else slot.timers():
                    expect(shown <= timer.due < level.end, f"{timer!r} is on level {level.number}")
                    expect(level.index(timer.due) == index, f"{timer!r} is in slot {index}")
            shown = level.end
        for turn, slot in self._overflow.turns.items():
            expect(slot.count > 0 and turn in self._overflow.heap, f"turn {turn} would be forgotten")
            for timer in slot.timers():
                expect(timer.due // self._overflow.span == turn, f"{timer!r} is in turn {turn}")
                expect(timer.due >= shown, f"{timer!r} is beyond the last level")

    def _slots(self) -> list[Slot]:
        slots = [slot for level in self._levels for slot in level.slots if slot is not None]
        return slots + list(self._overflow.turns.values())

    def _dissolve(self) -> None:
        super()._dissolve()
        self._overflow.turns.clear()

    def _count_cascaded(self) -> int:
        return self._cascaded

    def _count_overflow(self) -> int:
        return sum(slot.count for slot in self._overflow.turns.values())
