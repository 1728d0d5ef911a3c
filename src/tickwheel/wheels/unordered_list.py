"""Scheme 1, the unordered list: start anywhere, look at everything.

    hand on 7         list:  [due 75] <-> [due 12] <-> [due 9] <-> [due 12]
                               every turn walks the whole list for the earliest: 9

| start | stop | tick |
|-------|------|------|
| O(1)  | O(1) | O(n) |

Fine while a handful of timers is pending, or when nearly all are stopped before anyone looks.
"""

from mypy_extensions import i64

from tickwheel.wheels.scheme import Scheme
from tickwheel.wheels.timer import Slot, Timer

__all__ = ["UnorderedList"]


class UnorderedList(Scheme):
    """Timers in the order they were started."""

    def __init__(self, now: object = 0) -> None:
        super().__init__(now)
        self._list = Slot(self._serial, 0)
        self._formed = True

    def _place(self, timer: Timer) -> None:
        self._list.append(timer)

    def _turn(self, to: i64) -> bool:
        earliest = self._earliest()
        if earliest > to:
            self._now = to
            return False
        self._now = earliest
        timer = self._list.next
        while timer is not self._list:
            following = timer.next
            if timer.due == earliest:
                self._list.unlink(timer)
                self._ready.append(timer)
            timer = following
        return True

    def _earliest(self) -> i64:
        return self._list.earliest()

    def _slots(self) -> list[Slot]:
        return [self._list]
