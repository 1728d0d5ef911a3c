"""`DelayQueue`: a queue between threads whose items come out when they are due.

    queue = DelayQueue()
    queue.put("send reminder", delay="5m")
    queue.put("send receipt")
    queue.get()                                 # "send receipt", at once
    queue.get()                                 # "send reminder", in five minutes

It is a `queue.Queue`; docs/recipes.md lists the differences. Items come out by due time, in milliseconds: that of an
item with a delay is rounded up, that of one without is rounded down, because it can be taken at once. Of the same
millisecond, those with a delay come first, and otherwise those that were put first. A delay counts from the call of
`put`; an item that waits for a free place longer than that is due when it gets one.
"""

import queue
from math import ceil
from operator import attrgetter
from threading import TIMEOUT_MAX, Condition
from typing import Any, Final, NoReturn, TypeVar

from tickwheel.clock import Clock, SystemClock, monotonic_reader
from tickwheel.durations import Duration, to_ns
from tickwheel.errors import NotCopyable
from tickwheel.recipes.delayed_items import TICK_NS, WAIT_NS_MAX, Delayed, DelayedItems

__all__ = ["DelayQueue"]

T = TypeVar("T")

SYSTEM_CLOCK: Final = SystemClock()


class UninterruptedCondition(Condition):
    """A condition whose `with` enters and leaves its lock itself.

    The methods of `Condition` are Python code: what a signal handler raises there would leave the lock taken for good.
    """

    __enter__ = property(attrgetter("_lock.__enter__"))  # called by `with` like a method
    __exit__ = property(attrgetter("_lock.__exit__"))


class DelayQueue(queue.Queue[T]):
    """A `queue.Queue` with delays, for any number of threads on both sides. It starts no thread.

    Delays are measured by the clock, timeouts by the system clock.
    """

    is_shutdown: bool = False  # until shutdown(), which queue.Queue has since Python 3.13

    def __init__(self, maxsize: int = 0, *, clock: Clock | None = None) -> None:
        self._clock = SYSTEM_CLOCK if clock is None else clock
        self._origin_ns = monotonic_reader(self._clock)()
        super().__init__(maxsize)
        self.not_empty = UninterruptedCondition(self.mutex)
        self.not_full = UninterruptedCondition(self.mutex)
        self.all_tasks_done = UninterruptedCondition(self.mutex)

    def put(self, item: T, block: bool = True, timeout: float | None = None, *, delay: Duration = 0.0) -> None:  # noqa: FBT001, FBT002 - as queue.Queue
        """Put an item in, to come out after a delay; wait for a free place as `queue.Queue.put` does."""
        super().put(self._with_delay(item, to_ns(delay)), block, timeout)

    def put_nowait(self, item: T, *, delay: Duration = 0.0) -> None:
        """Put an item in if there is a free place now."""
        self.put(item, block=False, delay=delay)

    def get(self, block: bool = True, timeout: float | None = None) -> T:  # noqa: FBT001, FBT002 - as queue.Queue
        """Take the first item that is due, waiting for one as `queue.Queue.get` does."""
        end_ns = None
        if block and timeout is not None:
            if timeout < 0:
                raise ValueError("'timeout' must be a non-negative number")
            end_ns = SYSTEM_CLOCK.monotonic_ns() + ceil(min(timeout, TIMEOUT_MAX) * 1e9)
        with self.not_empty:
            try:
                while not (due := self.queue.poll(self._tick())):
                    if due is None:
                        self.not_empty.wait(0)  # gives way to other threads between two steps
                    elif self.is_shutdown and not self._qsize():
                        raise queue.ShutDown  # type: ignore[attr-defined] # Python 3.13
                    elif not block:
                        raise queue.Empty
                    else:
                        self.not_empty.wait(self._wait_seconds(end_ns))
                item: T = self._get()
                self.not_full.notify()
                return item
            finally:
                # This may be the thread that was notified of the remaining items, or of the end: notify the next.
                if self._qsize() or self.is_shutdown:
                    self.not_empty.notify()

    def due(self) -> int:
        """Count the items that could be taken now; `qsize` counts the others too."""
        with self.mutex:
            count: int = self.queue.count_due(self._tick())
            return count

    def drain(self) -> list[T]:
        """Take all items, due or not, in due order; `task_done` is expected for each, as after `get`."""
        with self.mutex:
            # First: what interrupts it finds all items here. Nobody wakes before the lock is free.
            self.not_full.notify_all()
            if self.is_shutdown:
                self.not_empty.notify_all()
            items: list[T] = self.queue.take_all()
            return items

    def __reduce__(self) -> NoReturn:
        raise NotCopyable(self, "make another queue instead")

    # -- hooks that queue.Queue calls under its lock; the others work on DelayedItems as on a deque

    def _init(self, maxsize: int) -> None:  # noqa: ARG002 - as queue.Queue
        self.queue: DelayedItems[T] = DelayedItems()

    def _put(self, item: Any) -> None:
        self.queue.append(item, self._tick())

    # -- time

    def _tick(self) -> int:
        return (self._clock.monotonic_ns() - self._origin_ns) // TICK_NS

    def _with_delay(self, item: Any, delay_ns: int) -> Any:
        """Return what to put: the item, or `Delayed` if it has a delay, which counts from now."""
        if delay_ns == 0:
            return item
        return Delayed(-(-(self._clock.monotonic_ns() - self._origin_ns + delay_ns) // TICK_NS), item)

    def _wait_seconds(self, end_ns: int | None) -> float | None:
        """Return how long to wait for the next item, until `end_ns` at most; None for as long as it takes."""
        waits_ns = []
        if end_ns is not None:
            waits_ns.append(end_ns - SYSTEM_CLOCK.monotonic_ns())
            if waits_ns[0] <= 0:
                raise queue.Empty
        next_tick = self.queue.wheel.next_due()
        if next_tick is not None:
            waits_ns.append(max(self._origin_ns + next_tick * TICK_NS - self._clock.monotonic_ns(), 0))
        return min(*waits_ns, WAIT_NS_MAX) / 1e9 if waits_ns else None
