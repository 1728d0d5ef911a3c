"""The items of a delay queue, in the order they come out. No waiting.

    expired    timers from the wheel          (12, a) (15, d)
    batch      timers that came after them    (16, e)
    undelayed  items put without a delay      (14, b) (14, c)
    wheel      items due later

An item without a delay skips the wheel and keeps the tick it was put on, so that the lanes merge in due order:
a b c d e.

An interrupt may come between any two lines, and so may a destructor that uses the queue, when an object is made. So
the wheel hands its timers to a list that is part of the lanes, and what moves between lanes is prepared first and then
moved by assignments alone, unless `_version` tells that something has changed meanwhile.
"""

from collections import deque
from collections.abc import Callable, Iterator
from math import isnan
from operator import itemgetter
from threading import RLock
from typing import Final, Generic, TypeVar, cast
from weakref import WeakMethod

from tickwheel.errors import InvalidOption
from tickwheel.recipes.cache_store import whole_number
from tickwheel.wheels import BINARY, HierarchicalWheel, Timer

__all__ = ["TICK_NS", "WAIT_NS_MAX", "DelayedItems", "check_maxsize"]

T = TypeVar("T")

TICK_NS: Final = BINARY.tick_ns

# Items taken off the wheel in one step: a fraction of a millisecond, even interpreted.
BATCH_ITEMS: Final = 256

# A thread cannot wait longer than threading.TIMEOUT_MAX (292 years), asyncio's own loop waits no longer than a day
# at a time. Delays are longer than both; after a day the wait is continued.
WAIT_NS_MAX: Final = 86_400 * 10**9


def check_maxsize(maxsize: object) -> None:
    """Refuse what no number of items could be compared with; a float is allowed, as in the standard queues."""
    if whole_number(maxsize) is None and (not isinstance(maxsize, float) or isnan(maxsize)):
        raise InvalidOption("maxsize", maxsize, "a number (0 for no limit)")


class DelayedItems(Generic[T]):
    """Items in due order, behind the methods of `deque` that the standard queues use.

    The caller provides the lock. Users look at the items of a queue without it or with it: what they would see halfway
    is done under another one.
    """

    def __init__(self, current_tick: Callable[[], int]) -> None:
        self._current_tick = WeakMethod(current_tick)  # weak: the queue is freed when it is dropped, as others are
        self._lock = RLock()  # a destructor may use the queue in the middle of a method
        self.wheel = HierarchicalWheel(BINARY)
        self._expired: deque[Timer] = deque()
        self._batch: list[Timer] = []
        self._undelayed: deque[tuple[int, T]] = deque()
        self._version = 0  # another one before each change

    def __len__(self) -> int:
        return len(self.wheel) + self.ready()

    def __iter__(self) -> Iterator[T]:
        """Iterate over the items that are due now, in order."""
        return iter(self._list_due())

    def __getitem__(self, index: int) -> T:
        """Return one of the items that are due now."""
        return self._list_due()[index]

    def _list_due(self) -> list[T]:
        """List the items that are due now, without taking them off the wheel: who iterates need not expect changes."""
        current_tick = self._current_tick()
        with self._lock:
            tick = self.wheel.now if current_tick is None else current_tick()
            next_tick = self.wheel.next_due()
            delayed = [] if next_tick is None or next_tick > tick else self.wheel.list_by_due()  # sorts all of them
            return self._merge([*self._expired, *self._batch, *(timer for timer in delayed if timer.due <= tick)])

    def append(self, item: T, tick: int, due_tick: int = 0) -> None:
        """Add an item at a tick; it is due then, or at a later tick."""
        if due_tick > tick:
            if due_tick <= self.wheel.now:
                self._turn_back(due_tick)
            self._version += 1
            with self._lock:
                self.wheel.start(due_tick - self.wheel.now, item)
            return
        entry = (tick, item)
        self._version += 1
        self._undelayed.append(entry)

    def _turn_back(self, due_tick: int) -> None:
        """Have the hand stand before a tick: it is ahead of the clock if an item was taken before its time."""
        while True:
            version = self._version
            with self._lock:
                timers = self.wheel.list_by_due()
                wheel = HierarchicalWheel(BINARY, min(due_tick, timers[0].due if timers else due_tick) - 1)
                for timer in timers:
                    wheel.start(timer.due - wheel.now, timer.payload)
                if self._version == version:
                    self._version += 1
                    left, self.wheel = self.wheel, wheel
                    break
        del left

    def popleft(self) -> T:
        """Remove the first item, due or not; if it is not, the others wait for their time all the same."""
        while (ready := self.poll(0)) is None:
            pass
        if not ready:
            self._take_before_due()
        self._version += 1
        if self._expired and not (self._undelayed and self._undelayed[0][0] < self._expired[0].due):
            with self._lock:
                return cast("T", self._expired.popleft().take())
        return self._undelayed.popleft()[1]

    def _take_before_due(self) -> None:
        """Have the first item of the wheel in its lane, and no other."""
        while not self._batch and (tick := self.wheel.next_due()) is not None:
            self._version += 1
            with self._lock:
                self.wheel.advance_into(self._batch, tick, 1)
        self._refill()

    def _refill(self) -> None:
        """Have the first expired items in their lane, if there are any."""
        while self._batch and not self._expired:
            version = self._version
            batch: list[Timer] = []
            expired = deque(self._batch)
            with self._lock:
                if self._version == version:
                    self._version += 1
                    self._expired, self._batch = expired, batch

    def poll(self, tick: int) -> bool | None:
        """Tell whether the first item is due at a tick, in a bounded step; None if it takes another step."""
        self._refill()
        if self._expired:
            return True
        to = self._undelayed[0][0] if self._undelayed else tick
        if not self.advance(to) and not self._batch:
            return None
        self._refill()  # now, so that `popleft` makes nothing
        return self.ready() > 0

    def advance(self, tick: int) -> bool:
        """Take a batch of due items off the wheel; False if more may be due."""
        if len(self.wheel) == 0 or tick < self.wheel.now:  # the hand may be ahead after a count of due items
            return True
        held = len(self._batch)
        self._version += 1
        with self._lock:
            self.wheel.advance_into(self._batch, tick, BATCH_ITEMS)
        return self.wheel.now >= tick and len(self._batch) - held < BATCH_ITEMS

    def ready(self) -> int:
        """Count the items in the lanes."""
        return len(self._expired) + len(self._batch) + len(self._undelayed)

    def count_due(self, tick: int) -> int:
        """Count the items due at a tick, after taking them off the wheel."""
        while not self.advance(tick):
            pass
        return self.ready()

    def take_all(self) -> list[T]:
        """Remove all items and return them in due order; nothing is removed if that is interrupted."""
        while True:
            version = self._version
            wheel = HierarchicalWheel(BINARY)
            expired: deque[Timer] = deque()
            batch: list[Timer] = []
            undelayed: deque[tuple[int, T]] = deque()
            left = (self.wheel, self._expired, self._batch, self._undelayed)  # dropped at the end: that runs code
            with self._lock:
                items = self._merge([*self._expired, *self._batch, *self.wheel.list_by_due()])
                if self._version == version:
                    self._version += 1
                    self.wheel, self._expired, self._batch, self._undelayed = wheel, expired, batch, undelayed
                    break
        del left
        return items

    def clear(self) -> None:
        """Remove all items."""
        self.take_all()

    def _merge(self, timers: list[Timer]) -> list[T]:
        """List the payloads of timers, and the items without a delay, in due order."""
        entries = [(timer.due, cast("T", timer.payload)) for timer in timers]
        return [item for _, item in sorted([*entries, *self._undelayed], key=itemgetter(0))]
