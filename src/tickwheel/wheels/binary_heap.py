"""Scheme 3a, the binary heap: what asyncio, libevent and most schedulers use.

                   9              each timer is due no earlier than the one above it;
               12      10         the list [9, 12, 10, 75, 12] is the same tree,
             75  12               with the children of i at 2i + 1 and 2i + 2

| start    | stop     | tick                  |
|----------|----------|-----------------------|
| O(log n) | O(log n) | O(log n) each expired |

A timer knows its place in the list, so that stopping takes it out at once; asyncio's heap does not,
and leaves cancelled timers in until they come due or half of the heap is dead.
"""

from typing import cast

from mypy_extensions import i64, mypyc_attr

from tickwheel.errors import ForeignTimer
from tickwheel.wheels.scheme import Scheme, expect
from tickwheel.wheels.timer import STOPPED, Slot, Timer

__all__ = ["BinaryHeap"]


@mypyc_attr(acyclic=True)
class HeapTimer(Timer):
    """A timer that knows when it was placed, to settle ties, and where it stands in the list."""

    __slots__ = ("order", "position")

    def __init__(self, due: i64, payload: object) -> None:
        super().__init__(due, payload, STOPPED, STOPPED)
        self.order: i64 = 0
        self.position: i64 = 0


class BinaryHeap(Scheme):
    """Timers in a heap by due tick, ties by order."""

    def __init__(self, now: object = 0) -> None:
        super().__init__(now)
        self._home = Slot(self._serial, 0)  # what the timers point at; the heap is the list
        self._heap: list[HeapTimer] = []
        self._order: i64 = 0
        self._formed = True

    def _make(self, due: i64, payload: object) -> Timer:
        return HeapTimer(due, payload)

    def _place(self, timer: Timer) -> None:
        placed = cast("HeapTimer", timer)
        self._heap.append(placed)  # first: there may be no memory for it
        placed.lie_in(self._home)
        placed.order = self._order
        self._order += 1
        placed.position = len(self._heap) - 1
        self._home.count += 1
        self._sift_up(placed)

    def _check_kind(self, timer: Timer) -> None:
        if not isinstance(timer, HeapTimer):
            raise ForeignTimer(timer, "fired in a wheel of another scheme; restart it there, or start a new timer")

    def _remove(self, timer: Timer) -> None:
        if timer.slot is self._ready:
            self._ready.unlink(timer)
            return
        removed = cast("HeapTimer", timer)
        last = self._heap.pop()
        self._home.count -= 1
        if last is not removed:
            # The last one fills the gap and finds its level: up or down, never both.
            self._put(last, removed.position)
            self._sift_up(last)
            self._sift_down(last)

    def _turn(self, to: i64) -> bool:
        if not self._heap or self._heap[0].due > to:
            self._now = to
            return False
        due = self._heap[0].due
        try:
            while self._heap and self._heap[0].due == due:
                timer = self._heap[0]
                self._remove(timer)
                self._now = due
                self._ready.append(timer)
        except MemoryError:  # even a list that shrinks may need some
            if self._ready.count == 0:
                raise
        return True

    def _earliest(self) -> i64:
        return self._heap[0].due

    def _put(self, timer: HeapTimer, position: i64) -> None:
        self._heap[position] = timer
        timer.position = position

    def _sift_up(self, timer: HeapTimer) -> None:
        position = timer.position
        while position > 0:
            parent = self._heap[(position - 1) >> 1]
            if not is_before(timer, parent):
                break
            above = parent.position
            self._put(parent, position)
            position = above
        self._put(timer, position)

    def _sift_down(self, timer: HeapTimer) -> None:
        position = timer.position
        length: i64 = len(self._heap)
        while True:
            below = 2 * position + 1
            if below >= length:
                break
            child = self._heap[below]
            if below + 1 < length and is_before(self._heap[below + 1], child):
                child = self._heap[below + 1]
            if not is_before(child, timer):
                break
            below = child.position
            self._put(child, position)
            position = below
        self._put(timer, position)

    def check(self) -> None:
        """Raise `BrokenWheel` if the heap is not one."""
        super().check()
        for position, timer in enumerate(self._heap):
            expect(timer.position == position, f"{timer!r} stands at {position}, not {timer.position}")
            expect(timer.due > self._now, f"{timer!r} at tick {self._now}")
            expect(position == 0 or is_before(self._heap[(position - 1) >> 1], timer), f"{timer!r} is too deep")

    def _check_ring(self, slot: Slot) -> None:
        if slot is self._ready:
            super()._check_ring(slot)
        else:
            expect(slot.count == len(self._heap), f"counts {slot.count}, holds {len(self._heap)}")

    def _slots(self) -> list[Slot]:
        return [self._home]

    def _dissolve(self) -> Timer:
        doomed = super()._dissolve()
        for timer in reversed(self._heap):
            timer.lie_in(STOPPED)
            timer.next = doomed
            doomed = timer
        self._heap.clear()
        return doomed


def is_before(one: HeapTimer, other: HeapTimer) -> bool:
    """Tell which of two timers fires first."""
    return one.due < other.due or (one.due == other.due and one.order < other.order)
