"""Scheme 5, the hashed wheel with sorted slots: any delay, and a glance at the front of a slot.

    8 slots, hand on 10         slot 3:  [due 11] <-> [due 19] <-> [due 19] <-> [due 43]
                                           front: due on this turn; the rest is not looked at

| start, on average | start, at worst | stop | tick |
|-------------------|-----------------|------|------|
| O(n / slots)      | O(n)            | O(1) | O(1) |

The ordered list again, cut into as many pieces as there are slots.
"""

from mypy_extensions import i64

from tickwheel.wheels.hashed_wheel import HashedWheel
from tickwheel.wheels.timer import TICK_MAX, Slot, Timer

__all__ = ["SortedHashedWheel"]


class SortedHashedWheel(HashedWheel):
    """A clock face whose slots are ordered lists."""

    def _place(self, timer: Timer) -> None:
        self._dial[timer.due % self._size].insert_sorted(timer)

    def _collect(self, slot: Slot) -> None:
        slot.move_front(self._now, self._ready)

    def _earliest(self) -> i64:
        earliest: i64 = TICK_MAX + 1
        for slot in self._dial:
            if slot.count:
                earliest = min(earliest, slot.next.due)
        return earliest
