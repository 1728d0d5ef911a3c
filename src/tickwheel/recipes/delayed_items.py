"""The items of a delay queue, in the order they come out. No lock, no clock, no waiting.

    expired    items from the wheel           (12, a) (15, d)
    undelayed  items put without a delay      (14, b) (14, c)
    wheel      items due later

An item without a delay skips the wheel and keeps the tick it was put on, so that the two lanes merge in due order:
a b c d.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

from tickwheel.wheels import BINARY, TICK_MAX, HierarchicalWheel, Timer

__all__ = ["TICK_NS", "WAIT_NS_MAX", "Delayed", "DelayedItems"]

T = TypeVar("T")

TICK_NS: Final = BINARY.tick_ns

# Items taken off the wheel in one step: a fraction of a millisecond, even interpreted.
BATCH_ITEMS: Final = 256

# A thread cannot wait longer than threading.TIMEOUT_MAX (292 years), asyncio's own loop waits no longer than a day
# at a time. Delays are longer than both; after a day the wait is continued.
WAIT_NS_MAX: Final = 86_400 * 10**9


class Delayed(NamedTuple):
    """An item with a delay, on its way through `put` of a standard queue."""

    due_tick: int
    item: Any


class DelayedItems(Generic[T]):
    """Items in due order, behind the methods of `deque` that the standard queues use. The caller provides the lock."""

    def __init__(self) -> None:
        self.wheel = HierarchicalWheel(BINARY)
        self._expired: deque[tuple[int, T]] = deque()
        self._undelayed: deque[tuple[int, T]] = deque()

    def __len__(self) -> int:
        return len(self.wheel) + self.ready()

    def __iter__(self) -> Iterator[T]:
        """Iterate over the items in the two lanes, in order."""
        merged = sorted([*self._expired, *self._undelayed], key=lambda entry: entry[0])
        return (item for _, item in merged)

    def append(self, item: T | Delayed, tick: int) -> None:
        """Add an item at a tick."""
        if not isinstance(item, Delayed):
            self._undelayed.append((tick, item))
        elif item.due_tick <= tick:
            self._undelayed.append((tick, item.item))
        else:
            self.wheel.start(item.due_tick - self.wheel.now, item.item)

    def popleft(self) -> T:
        """Remove the first item, due or not."""
        while self.poll(TICK_MAX) is None:
            pass
        if self._expired and not (self._undelayed and self._undelayed[0][0] < self._expired[0][0]):
            return self._expired.popleft()[1]
        return self._undelayed.popleft()[1]

    def poll(self, tick: int) -> bool | None:
        """Tell whether the first item is due at a tick, in a bounded step; None if it takes another step."""
        if self._expired:
            return True
        to = self._undelayed[0][0] if self._undelayed else tick
        if not self.advance(to) and not self._expired:
            return None
        return self.ready() > 0

    def advance(self, tick: int) -> bool:
        """Take a batch of due items off the wheel; False if more may be due."""
        if len(self.wheel) == 0 or tick < self.wheel.now:  # the hand may be ahead after a count of due items
            return True
        batch: list[Timer] = []  # before the hand is moved: a destructor may use the queue now, and move it further
        self.wheel.advance_into(batch, tick, BATCH_ITEMS)
        self._expired.extend((timer.due, cast("T", timer.take())) for timer in batch)
        return self.wheel.now >= tick and len(batch) < BATCH_ITEMS

    def ready(self) -> int:
        """Count the items in the two lanes."""
        return len(self._expired) + len(self._undelayed)

    def count_due(self, tick: int) -> int:
        """Count the items due at a tick, after taking them off the wheel."""
        while not self.advance(tick):
            pass
        return self.ready()

    def all(self) -> list[T]:
        """List the items in due order, after taking them off the wheel."""
        self.count_due(TICK_MAX)
        return list(self)

    def rewind(self, tick: int) -> None:
        """Have the hand of the wheel not ahead of a tick: put what is due later back on a new wheel."""
        self.count_due(TICK_MAX)
        wheel = HierarchicalWheel(BINARY)
        expired: deque[tuple[int, T]] = deque()
        for due, item in self._expired:
            if due <= tick:
                expired.append((due, item))
            else:
                wheel.start(due, item)
        self.wheel, self._expired = wheel, expired
