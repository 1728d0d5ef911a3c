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

A cascade is *bounded*: an advance with a limit moves down a limited number of timers and pauses, the hand
before the turn whose timers are falling. Meanwhile that turn takes no new timers on the dials below. They
join the slot that is being emptied, at its end, so that ties still keep the order of starting:

    minutes  [00][01: #3 #4 #5]      hand on 00:00:59, two of five have fallen
    seconds  [00: #1][01: #2]        a timer #6 for 00:01:00 is started: minutes, slot 1, behind #5

Delays beyond the slowest dial wait in an overflow (see `level.py`). Dials are made with the wheel, slots when
first used, so an empty wheel for a hundred years takes 16 kilobytes.

Compiled, a start, stop or restart makes nothing that the garbage collector tracks: a slot, a timer and a turn of the
overflow are `acyclic`. So no collection, and no destructor or other thread with it, comes between what they read and
what they write. A dial is tracked, which is why none is made later.

A payload that refers back to the wheel closes a cycle that the garbage collector cannot see while
the timer is pending: `close()` such a wheel. Any other wheel may simply be dropped.
"""

from collections.abc import Iterable
from typing import Final

from mypy_extensions import i64

from tickwheel.wheels.geometry import DEFAULT, Geometry
from tickwheel.wheels.level import CLOSED, OVERFLOW, Level, Overflow
from tickwheel.wheels.scheme import Scheme, expect
from tickwheel.wheels.timer import Slot, Timer

__all__ = ["HierarchicalWheel"]

# A slot of so many timers is looked through for the earliest of them: next_due() stays a matter of nanoseconds.
WALKED_MAX: Final = 16


class HierarchicalWheel(Scheme):
    """Dials of any geometry; takes any delay."""

    def __init__(self, geometry: Geometry | Iterable[tuple[int, int]] = DEFAULT, now: object = 0) -> None:
        self._geometry = geometry if isinstance(geometry, Geometry) else Geometry(geometry)
        super().__init__(now)
        self._levels = make_levels(self._serial, self._geometry, self._now)
        self._overflow = Overflow(self._serial, self._geometry.span)
        self._cascaded: i64 = 0
        self._filled: i64 = 0  # how many of the lowest dials are being filled from above
        self._recent = self._levels[0]  # where the last timer was placed: the next one is often alike
        self._formed = True

    @property
    def geometry(self) -> Geometry:
        """The dials it has."""
        return self._geometry

    # -- start and stop

    def _begin(self, due: i64, payload: object) -> Timer:
        slot = self._slot(due)
        try:
            return slot.begin(due, payload)
        except BaseException:  # no memory for the timer
            if slot.count == 0:
                self._emptied(slot)
            raise

    def _place(self, timer: Timer) -> None:
        self._slot(timer.due).append(timer)

    def _move(self, timer: Timer, due: i64) -> None:
        slot = self._slot(due)  # first: there may be no memory for it
        if timer.slot is slot:
            slot.unlink(timer)
        else:
            self._remove(timer)
        timer.due = due
        slot.append(timer)

    def _slot(self, due: i64) -> Slot:
        """Return the slot for a due tick: on the lowest dial that shows it and is not being filled."""
        level = self._recent
        if level.begin <= due < level.end:
            return level.slot(due)
        number = self._filled
        while number < len(self._levels):
            level = self._levels[number]
            if due < level.end:
                self._recent = level
                return level.slot(due)
            number += 1
        return self._overflow.slot(due)

    def _emptied(self, slot: Slot) -> None:
        if slot.level >= 0:
            self._levels[slot.level].occupied.clear(slot.index)
        elif slot.level == OVERFLOW:
            self._overflow.drop(slot)

    # -- the hand

    def _turn(self, to: i64) -> bool:
        lowest = self._levels[0]
        while True:
            if self._filled > 0 and (to == self._now or not self._cascade()):
                return False
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
            self._levels[number].show(to)
            number += 1
        self._open(number)
        return False

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
        turn = self._overflow.first()
        return number, -1 if turn is None else turn.due

    def _enter(self, start: i64, number: i64) -> None:
        """Let the dials below a level begin a turn, closed until all that is due in it has moved down to them."""
        self._now = start - 1  # about to stand on `start`
        self._filled = number
        below: i64 = 0
        while below < number:
            level = self._levels[below]
            level.show(start)
            level.begin = CLOSED
            below += 1

    def _open(self, number: i64) -> None:
        """Let the dials below a level, and it itself, begin where the one below each of them ends."""
        begin: i64 = 0
        at: i64 = 0
        while at <= number and at < len(self._levels):
            level = self._levels[at]
            level.begin = begin
            begin = level.end
            at += 1

    def _cascade(self) -> bool:
        """Go on filling the dials below a level; False if there is more than this advance may move."""
        number = self._filled
        while True:
            slot = self._next_passed(number)
            if slot is None:
                break
            if self._moves_left == 0:
                return False
            self._move_down(slot)
        self._filled = 0
        self._open(number)
        return True

    def _next_passed(self, number: i64) -> Slot | None:
        """Return the first occupied slot of the turn that the dials below a level show; None if there is none."""
        start = self._now + 1
        if number == len(self._levels):
            return self._overflow.turn(start)
        level = self._levels[number]
        start = level.next_start(start)
        if start < 0 or start >= self._levels[number - 1].end:
            return None
        return level.occupant(start)

    def _move_down(self, slot: Slot) -> None:
        """Move timers of a slot, in order, each to the lowest dial that shows its due tick."""
        level = self._levels[0]
        begin: i64 = 0
        moved: i64 = 0
        timer = slot.next
        try:
            while timer is not slot and moved < self._moves_left:
                following = timer.next
                due = timer.due
                if due < begin or due >= level.end:
                    number: i64 = 0
                    begin = 0
                    level = self._levels[0]
                    while due >= level.end:
                        begin = level.end
                        number += 1
                        level = self._levels[number]
                level.slot(due).append(timer)
                timer = following
                moved += 1
        finally:  # also if there is no memory for another slot: the rest moves down next time
            slot.next = timer
            timer.prev = slot
            slot.count -= moved
            self._moves_left -= moved
            self._cascaded += moved
        if slot.count == 0:
            self._emptied(slot)

    def _earliest(self) -> i64:
        if self._filled > 0:
            return self._now + 1
        tick = self._levels[0].next_start(self._now + 1)
        if tick >= 0:
            return tick
        number, start = self._next_above()
        slot = self._overflow.first() if number == len(self._levels) else self._levels[number].occupant(start)
        return start if slot is None or slot.count > WALKED_MAX else slot.earliest()

    # -- to see what is inside

    def occupancy(self) -> list[list[int]]:
        """Count the timers in each slot, level by level; what waits beyond is in `stats.overflow`."""
        counts = [[0] * dial.slots for dial in self._geometry.dials]
        for slot in self._slots():
            if slot.level >= 0:
                counts[slot.level][slot.index] = slot.count
        return counts

    def list_by_due(self) -> list[Timer]:
        """List the pending timers in the order in which they come due; all of them stay pending."""
        if self._closed:
            return []
        timers = [timer for slot in [self._ready, *self._slots()] for timer in slot.timers()]
        timers.sort(key=due_tick)  # those of one tick are in order: what has moved down a dial was started before
        return timers

    def check(self) -> None:
        """Raise `BrokenWheel` if a timer is not where the hand will find it in time."""
        super().check()
        shown = self._now  # everything before this tick belongs on a dial below
        for level in self._levels if not self._closed else []:
            closed = level.number < self._filled
            first = 0 if level.number in (0, self._filled) else shown
            expect(level.base % level.span == 0, f"level {level.number} begins at {level.base}")
            expect(level.base <= self._now + 1 <= level.end, f"level {level.number} does not show tick {self._now}")
            expect(
                level.begin == CLOSED if closed else first <= level.begin <= shown,
                f"level {level.number} begins at {level.begin}, not {shown}",
            )
            for index, slot in enumerate(level.slots):
                held = 0 if slot is None else slot.count
                expect(level.occupied.has(index) == (held > 0), f"level {level.number}, slot {index}: bitmap is wrong")
                for timer in [] if slot is None else slot.timers():
                    # What has not moved down yet is due in the turn that the dials below already show.
                    passed = level.number == self._filled and timer.due > self._now
                    expect(shown <= timer.due or passed, f"{timer!r} is on level {level.number}")
                    expect(timer.due < level.end, f"{timer!r} is on level {level.number}")
                    expect(level.index(timer.due) == index, f"{timer!r} is in slot {index}")
            shown = level.end
        for slot in self._overflow.turns():
            expect(slot.count > 0, f"turn {slot.index} has no timers")
            for timer in slot.timers():
                passed = len(self._levels) == self._filled and timer.due > self._now
                expect(timer.due // self._overflow.span == slot.index, f"{timer!r} is in turn {slot.index}")
                expect(timer.due >= shown or passed, f"{timer!r} is beyond the last level")

    def _slots(self) -> list[Slot]:
        slots = [slot for level in self._levels for slot in level.slots if slot is not None]
        return slots + self._overflow.turns()

    def _dissolve(self) -> Timer:
        doomed = super()._dissolve()
        for level in self._levels:
            level.slots.clear()  # a ring that is broken has no end: nobody may walk it
        self._overflow.root = None
        return doomed

    def _count_cascaded(self) -> int:
        return self._cascaded

    def _count_overflow(self) -> int:
        return sum(slot.count for slot in self._overflow.turns())


def due_tick(timer: Timer) -> int:
    """Return the tick that a timer is due at."""
    return timer.due


def make_levels(owner: i64, geometry: Geometry, now: i64) -> list[Level]:
    """Make every dial, each beginning where the one below ends."""
    levels: list[Level] = []
    begin: i64 = 0
    for number, dial in enumerate(geometry.dials):
        level = Level(owner, number, dial.tick, dial.slots, now, begin)
        levels.append(level)
        begin = level.end
    return levels
