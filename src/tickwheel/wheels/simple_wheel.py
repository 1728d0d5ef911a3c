"""Scheme 4, the simple wheel: one slot a tick, and no delay longer than a turn.

    8 slots, hand on tick 10 (slot 2)         start(3): due 13, slot 13 % 8 = 5

         0   1   2   3   4   5   6   7
       +---+---+---+---+---+---+---+---+
       |   |   | ^ |   |   | x |   |   |      every timer in slot 5 is due on tick 13:
       +---+---+---+---+---+---+---+---+      the whole slot is handed out, nothing compared

| start | stop | tick | memory   | longest delay |
|-------|------|------|----------|---------------|
| O(1)  | O(1) | O(1) | O(slots) | slots         |

A delay of exactly one turn is due when the hand comes back to where it stands; more is refused.
"""

from mypy_extensions import i64

from tickwheel.wheels.bitmap import Bitmap
from tickwheel.wheels.geometry import checked_slots
from tickwheel.wheels.scheme import Scheme
from tickwheel.wheels.timer import Slot, Timer

__all__ = ["SimpleWheel"]


class SimpleWheel(Scheme):
    """A clock face with one hand; takes delays of up to `slots` ticks."""

    def __init__(self, slots: object = 60, now: object = 0) -> None:
        size: i64 = checked_slots(slots)
        super().__init__(now, size)
        self._size = size
        self._dial = [Slot(self._serial, 0, index) for index in range(size)]
        self._occupied = Bitmap(size)
        self._formed = True

    def _place(self, timer: Timer) -> None:
        index = timer.due % self._size
        self._dial[index].append(timer)
        self._occupied.set(index)

    def _emptied(self, slot: Slot) -> None:
        if slot is not self._ready:
            self._occupied.clear(slot.index)

    def _turn(self, to: i64) -> bool:
        if self._ready.count == len(self):
            self._now = to
            return False
        tick = self._earliest()
        if tick > to:
            self._now = to
            return False
        self._now = tick
        index = tick % self._size
        slot = self._dial[index]
        # The slot leaves the dial as it is, and the empty one takes its place.
        self._dial[index] = self._ready
        self._ready.index = index
        self._ready = slot
        self._occupied.clear(index)
        return True

    def _earliest(self) -> i64:
        first = self._now + 1
        index = self._occupied.next(first % self._size)
        if index < 0:
            index = self._occupied.next(0)
        return first + (index - first) % self._size

    def _slots(self) -> list[Slot]:
        return list(self._dial)
