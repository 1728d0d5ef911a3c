"""Scheme 2, the ordered list: pay when starting, look only at the front.

    hand on 7         list:  [due 9] <-> [due 12] <-> [due 12] <-> [due 75]
                              front                                  end: a start looks from here

| start | stop | tick |
|-------|------|------|
| O(n)  | O(1) | O(1) |

Cheap when delays are alike: a timer that is due after all others goes to the end at once.
"""

from mypy_extensions import i64

from tickwheel.wheels.scheme import Scheme
from tickwheel.wheels.timer import Slot, Timer

__all__ = ["OrderedList"]


class OrderedList(Scheme):
    """Timers by due tick."""

    def __init__(self, now: object = 0) -> None:
        super().__init__(now)
        self._list = Slot(self._serial, 0)
        self._formed = True

    def _place(self, timer: Timer) -> None:
        self._list.insert_sorted(timer)

    def _turn(self, to: i64) -> bool:
        if self._list.count == 0 or self._list.next.due > to:
            self._now = to
            return False
        self._now = self._list.next.due
        self._list.move_front(self._now, self._ready)
        return True

    def _earliest(self) -> i64:
        return self._list.next.due

    def _slots(self) -> list[Slot]:
        return [self._list]
