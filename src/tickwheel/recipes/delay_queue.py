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

The queue never looks at an item, not even with `isinstance`, which runs code of the item: a lazy proxy is evaluated by
the code that takes it out, and not under the lock.
"""

import queue
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import inf
from operator import attrgetter
from threading import Condition, Lock
from typing import Final, NamedTuple, NoReturn, TypeVar, final

from tickwheel.clock import Clock, SystemClock, monotonic_reader
from tickwheel.durations import DURATION_NS_MAX, Duration, argument_ns
from tickwheel.errors import InvalidBlock, NotCopyable
from tickwheel.recipes.delayed_items import TICK_NS, WAIT_NS_MAX, DelayedItems, check_maxsize

__all__ = ["DelayQueue"]

T = TypeVar("T")

SYSTEM_CLOCK: Final = SystemClock()

TIMEOUT_SECONDS_MAX: Final = DURATION_NS_MAX // 10**9  # 1,000 years; beyond this a wait has no end


@final
class Wait(NamedTuple):
    """What an attempt returns that is to be made again: after so many seconds, or only when it is notified."""

    seconds: float | None

    @classmethod
    def for_ns(cls, wait_ns: float) -> "Wait":
        """Wait for so many nanoseconds, a day at most; without an end if they are infinite."""
        return cls(None if wait_ns == inf else min(wait_ns, WAIT_NS_MAX) / 1e9)


class Waiters(Condition):
    """The threads that wait for a change of the queue, outside its lock.

    `Condition` takes the lock and leaves it in Python code: what a signal handler raises there would leave the lock
    taken for good, or free it while another thread has it. Here only `with` does that, by the methods of the lock
    itself, which nothing can interrupt.
    """

    _lock: Lock
    _waiters: deque[Lock]  # `notify` frees the first

    __enter__ = property(attrgetter("_lock.__enter__"))  # called by `with` like a method
    __exit__ = property(attrgetter("_lock.__exit__"))

    def repeat(self, attempt: Callable[[], T | Wait]) -> T:
        """Make an attempt under the lock until it returns something else than `Wait`."""
        waiter: Lock | None = None
        try:
            while True:
                with self._lock:
                    if waiter is not None:
                        self._leave(waiter)
                    outcome = attempt()
                    if type(outcome) is not Wait:  # isinstance would run code of an item
                        return outcome
                    if waiter is None:
                        waiter = Lock()
                    waiter.acquire(blocking=False)  # taken until it is notified
                    self._waiters.append(waiter)
                waiter.acquire(timeout=-1 if outcome.seconds is None else outcome.seconds)
        except BaseException:
            if waiter is not None:
                with self._lock:
                    self._leave(waiter)
                    self.notify()  # this may be the thread that was notified: another has to look instead
            raise

    def _leave(self, waiter: Lock) -> None:
        with suppress(ValueError):  # it is removed when it is notified
            self._waiters.remove(waiter)


class DelayQueue(queue.Queue[T]):
    """A `queue.Queue` with delays, for any number of threads on both sides. It starts no thread.

    Delays are measured by the clock, timeouts by the system clock.
    """

    is_shutdown: bool = False  # until shutdown(), which queue.Queue has since Python 3.13
    _due_tick: int = 0  # of the item that is being put, under the lock; 0 without a delay

    def __init__(self, maxsize: int = 0, *, clock: Clock | None = None) -> None:
        check_maxsize(maxsize)
        self._clock = SYSTEM_CLOCK if clock is None else clock
        self._origin_ns = monotonic_reader(self._clock)()
        super().__init__(maxsize)
        self.not_empty: Waiters = Waiters(self.mutex)
        self.not_full: Waiters = Waiters(self.mutex)
        self.all_tasks_done: Waiters = Waiters(self.mutex)

    def put(self, item: T, block: bool = True, timeout: Duration | None = None, *, delay: Duration = 0.0) -> None:  # noqa: FBT001, FBT002 - as queue.Queue
        """Put an item in, to come out after a delay; wait for a free place as `queue.Queue.put` does."""
        check_block(block)
        due_tick = self._find_due_tick(argument_ns("delay", delay))
        end_ns = find_end_ns(block, timeout)
        self.not_full.repeat(partial(self._try_put, item, due_tick, end_ns))

    def put_nowait(self, item: T, *, delay: Duration = 0.0) -> None:
        """Put an item in if there is a free place now."""
        self.put(item, block=False, delay=delay)

    def get(self, block: bool = True, timeout: Duration | None = None) -> T:  # noqa: FBT001, FBT002 - as queue.Queue
        """Take the first item that is due, waiting for one as `queue.Queue.get` does."""
        return self.not_empty.repeat(partial(self._try_get, find_end_ns(block, timeout)))

    def join(self) -> None:
        """Wait until `task_done` was called for every item, as `queue.Queue.join` does."""
        self.all_tasks_done.repeat(self._try_join)

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
        self.queue: DelayedItems[T] = DelayedItems(self._tick)

    def _put(self, item: T) -> None:
        self.queue.append(item, self._tick(), self._due_tick)

    # -- attempts, made under the lock. What interrupts one finds the waiting threads notified before it changes
    # anything: none of them wakes before the lock is free, and one that wakes for nothing waits again.

    def _try_put(self, item: T, due_tick: int, end_ns: float) -> Wait | None:
        if self.is_shutdown:
            raise queue.ShutDown  # type: ignore[attr-defined] # Python 3.13
        held = self._qsize()
        if 0 < self.maxsize <= held:
            left_ns = end_ns - SYSTEM_CLOCK.monotonic_ns()
            if left_ns <= 0:
                raise queue.Full
            return Wait.for_ns(left_ns)
        self.not_empty.notify()
        self.unfinished_tasks += 1
        self._due_tick = due_tick  # not an argument: subclasses override `_put(item)`
        try:
            self._put(item)
        except BaseException:
            self.unfinished_tasks += self._qsize() - held - 1  # it counts if it is in
            raise
        finally:
            self._due_tick = 0
        return None

    def _try_get(self, end_ns: float) -> T | Wait:
        due = self.queue.poll(self._tick())
        if due is None:
            return Wait(0)  # gives way to other threads between two steps
        ended = self.is_shutdown and not self._qsize()
        if not due and not ended and (left_ns := end_ns - SYSTEM_CLOCK.monotonic_ns()) > 0:
            return Wait.for_ns(min(left_ns, self._count_ns_to_next()))
        # This may be the thread that was notified of the remaining items, or of the end: notify the next.
        if self._qsize() > due or self.is_shutdown:
            self.not_empty.notify()
        if due:
            self.not_full.notify()
            item: T = self._get()
            return item
        raise queue.ShutDown if ended else queue.Empty  # type: ignore[attr-defined] # Python 3.13

    def _try_join(self) -> Wait | None:
        return Wait(None) if self.unfinished_tasks else None

    # -- time

    def _tick(self) -> int:
        return (self._clock.monotonic_ns() - self._origin_ns) // TICK_NS

    def _find_due_tick(self, delay_ns: int) -> int:
        """Return the tick at which a delay that begins now is over; 0 without a delay."""
        if delay_ns == 0:
            return 0
        return -(-(self._clock.monotonic_ns() - self._origin_ns + delay_ns) // TICK_NS)

    def _count_ns_to_next(self) -> float:
        """Count the nanoseconds until the next item is due; infinite without one."""
        next_tick = self.queue.wheel.next_due()
        if next_tick is None:
            return inf
        return max(self._origin_ns + next_tick * TICK_NS - self._clock.monotonic_ns(), 0)


def find_end_ns(block: bool, timeout: Duration | None) -> float:  # noqa: FBT001 - as queue.Queue
    """Return when a wait that begins now is over, by the system clock: never, or before now if it may not wait."""
    if not block:
        return -inf
    if timeout is None or (isinstance(timeout, (int, float)) and timeout > TIMEOUT_SECONDS_MAX):
        return inf
    return SYSTEM_CLOCK.monotonic_ns() + argument_ns("timeout", timeout)


def check_block(given: object) -> None:
    """Refuse a delay in the place of `block`: any number but 0, which means the same as False."""
    if given is not True and given is not None and (type(given) not in (bool, int) or given != 0):
        raise InvalidBlock(given)
