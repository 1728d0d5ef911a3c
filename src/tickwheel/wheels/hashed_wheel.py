"""Scheme 6, the hashed wheel with unsorted slots: any delay, and rounds to wait.

    60 slots, hand on 0         start(75): slot 75 % 60 = 15, one round to wait

    tick 15:  the hand passes slot 15, the timer has a round to go and stays
    tick 75:  the hand passes slot 15 again, no round left: due

| start | stop | tick, on average      | tick, at worst     |
|-------|------|-----------------------|--------------------|
| O(1)  | O(1) | O(n / slots)          | O(n), all in one   |

A limit does not bound the work of an advance here: the slot under the hand is looked through whole.

The count of rounds is not kept in the timer and taken down by one at each pass: its due tick says
the same and need not be written. `rounds(timer)` reads it off.
"""

from mypy_extensions import i64

from tickwheel.wheels.geometry import checked_slots
from tickwheel.wheels.scheme import Scheme
from tickwheel.wheels.timer import TICK_MAX, Slot, Timer

__all__ = ["HashedWheel"]


class HashedWheel(Scheme):
    """A clock face whose slots hold timers of this turn and of later ones."""

    def __init__(self, slots: object = 60, now: object = 0) -> None:
        size: i64 = checked_slots(slots)
        super().__init__(now)
        self._size = size
        self._dial = [Slot(self._serial, 0, index) for index in range(size)]
        self._formed = True

    def rounds(self, timer: Timer) -> int:
        """How many times the hand still passes a pending timer's slot before the timer is due."""
        return (timer.due - self._now - 1) // self._size

    def _place(self, timer: Timer) -> None:
        self._dial[timer.due % self._size].append(timer)

    def _turn(self, to: i64) -> bool:
        if self._ready.count == len(self):
            self._now = to
            return False
        passed: i64 = 0
        while self._now < to:
            if passed == self._size:
                # A whole turn and nothing due: look for the earliest once, rather than turn after turn.
                self._now = min(self._earliest() - 1, to)
                passed = 0
                continue
            self._now += 1
            self._collect(self._dial[self._now % self._size])
            if self._ready.count:
                return True
            passed += 1
        return False

    def _collect(self, slot: Slot) -> None:
        """Lay ready what is due in the slot under the hand: all of it must be looked at."""
        timer = slot.next
        while timer is not slot:
            following = timer.next
            if timer.due == self._now:
                slot.unlink(timer)
                self._ready.append(timer)
            timer = following

    def _earliest(self) -> i64:
        earliest: i64 = TICK_MAX + 1
        for slot in self._dial:
            earliest = min(earliest, slot.earliest())
        return earliest

    def _slots(self) -> list[Slot]:
        return list(self._dial)
