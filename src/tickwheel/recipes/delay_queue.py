"""`DelayQueue` and `AsyncDelayQueue`: queues whose items come out when they are due.

    queue = DelayQueue()
    queue.put("send reminder", delay="5m")
    queue.put("send receipt")
    queue.get()                                 # "send receipt", at once
    queue.get()                                 # "send reminder", in five minutes

They are `queue.Queue` and `asyncio.Queue`; docs/recipes.md lists the differences. Items come out by due time, in
milliseconds and rounded up, and those of one millisecond in the order they were put. A delay counts from the call
of `put`; an item that waits for a free place longer than that is due when it gets one.

    expired    items from the wheel           (12, a) (15, d)          an item without a delay skips the wheel and
    undelayed  items put without a delay      (14, b) (14, c)          notes the tick it was put on, so that the two
    wheel      items due later                                         lanes merge in due order: a b c d
"""

import asyncio
import queue
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import ceil
from threading import TIMEOUT_MAX
from typing import Any, Final, Generic, NamedTuple, NoReturn, TypeVar, cast

from tickwheel.clock import Clock, SystemClock
from tickwheel.durations import Duration, to_ns
from tickwheel.errors import NotCopyable
from tickwheel.wheels import BINARY, TICK_MAX, HierarchicalWheel

__all__ = ["AsyncDelayQueue", "DelayQueue"]

T = TypeVar("T")

TICK_NS: Final = BINARY.tick_ns

# Items taken off the wheel in one step: a fraction of a millisecond, even interpreted.
BATCH_ITEMS: Final = 256

# A thread cannot wait longer than threading.TIMEOUT_MAX (292 years), asyncio's own loop waits no longer than a day
# at a time. Delays are longer than both; after a day the wait is continued.
WAIT_NS_MAX: Final = 86_400 * 10**9

SYSTEM_CLOCK: Final = SystemClock()


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
        batch = self.wheel.advance(tick, BATCH_ITEMS)
        self._expired.extend((timer.due, cast("T", timer.take())) for timer in batch)
        return self.wheel.now == tick and len(batch) < BATCH_ITEMS

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


class DelayQueue(queue.Queue[T]):
    """A `queue.Queue` with delays, for any number of threads on both sides. It starts no thread.

    Delays are measured by the clock, timeouts by the system clock.
    """

    is_shutdown: bool = False  # until shutdown(), which queue.Queue has since Python 3.13

    def __init__(self, maxsize: int = 0, *, clock: Clock | None = None) -> None:
        self._clock = SYSTEM_CLOCK if clock is None else clock
        self._origin_ns = self._clock.monotonic_ns()
        super().__init__(maxsize)

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
            try:
                items = self.queue.all()
                self._init(self.maxsize)
            except BaseException:  # interrupted: nothing is taken
                self.queue.rewind(self._tick())
                raise
            self.not_full.notify_all()
            if self.is_shutdown:
                self.not_empty.notify_all()
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


class AsyncDelayQueue(asyncio.Queue[T]):
    """An `asyncio.Queue` with delays, on any event loop and measured by its time.

    It belongs to the loop of the first delay or wait. The loop holds one timer for it, and only while a `get` waits.
    """

    # Attributes of asyncio.Queue that its type stubs omit.
    _getters: deque[asyncio.Future[None]]
    _putters: deque[asyncio.Future[None]]
    _loop: asyncio.AbstractEventLoop | None
    _get_loop: Callable[[], asyncio.AbstractEventLoop]

    _is_shutdown: bool = False  # until shutdown(), which asyncio.Queue has since Python 3.13
    _timer: asyncio.Handle | None = None
    _timer_tick: int = TICK_MAX

    async def put(self, item: T, *, delay: Duration = 0.0) -> None:
        """Put an item in, to come out after a delay; wait for a free place as `asyncio.Queue.put` does."""
        await super().put(self._with_delay(item, to_ns(delay)))

    def put_nowait(self, item: T, *, delay: Duration = 0.0) -> None:
        """Put an item in if there is a free place now."""
        super().put_nowait(self._with_delay(item, to_ns(delay)))  # put() calls this with Delayed and no delay

    async def get(self) -> T:
        """Take the first item that is due, waiting for one as `asyncio.Queue.get` does."""
        while not (due := self._queue.poll(self._tick())):
            if self._is_shutdown and self.empty():
                raise asyncio.QueueShutDown  # type: ignore[attr-defined] # Python 3.13
            getter = self._get_loop().create_future()
            self._getters.append(getter)
            self._arm(self._queue.wheel.now if due is None else self._queue.wheel.next_due())
            try:
                await getter
            except BaseException:
                getter.cancel()
                with suppress(ValueError):  # it is removed when it is woken
                    self._getters.remove(getter)
                if not getter.cancelled():
                    self._wakeup_next(self._getters)  # it was woken for an item that is still here
                raise
            finally:
                if not self._getters:
                    self._disarm()
        return self.get_nowait()

    def get_nowait(self) -> T:
        """Take an item if one is due now."""
        while (due := self._queue.poll(self._tick())) is None:
            pass
        if not due and not self.empty():
            raise asyncio.QueueEmpty
        item = super().get_nowait()
        self._end_if_drained()
        return item

    def due(self) -> int:
        """Count the items that could be taken now; `qsize` counts the others too."""
        return self._queue.count_due(self._tick())

    def drain(self) -> list[T]:
        """Take all items, due or not, in due order; `task_done` is expected for each, as after `get`."""
        try:
            items = self._queue.all()
            self._init(self.maxsize)
        except BaseException:  # interrupted: nothing is taken
            self._queue.rewind(self._tick())
            raise
        for _ in items:
            self._wakeup_next(self._putters)
        self._end_if_drained()
        return items

    def __reduce__(self) -> NoReturn:
        raise NotCopyable(self, "make another queue instead")

    # -- hooks that asyncio.Queue calls; the others work on DelayedItems as on a deque

    def _init(self, maxsize: int) -> None:  # noqa: ARG002 - as asyncio.Queue
        self._queue: DelayedItems[T] = DelayedItems()

    def _put(self, item: Any) -> None:
        self._queue.append(item, self._tick())
        if self._getters:
            self._arm(self._queue.wheel.next_due())

    def _wakeup_next(self, waiters: deque[asyncio.Future[None]]) -> None:
        # asyncio.Queue wakes a getter for each item that is put; for one that is not due yet, the timer does.
        if waiters is not self._getters or self._queue.ready():
            super()._wakeup_next(waiters)  # type: ignore[misc] # another omission

    def _end_if_drained(self) -> None:
        """Wake the getters that waited for delayed items of a queue that is shut down, when the last was taken."""
        if self._is_shutdown and self.empty():
            self.shutdown()  # type: ignore[attr-defined] # Python 3.13

    # -- time

    def _tick(self) -> int:
        if self._loop is None:
            return 0  # before the first delay or wait nothing is on the wheel
        now = self._loop.time()
        tick = int(now * 1e9) // TICK_NS
        # The product may be a bit below a tick that has come; a timer for that tick must find it.
        return tick + 1 if to_seconds(tick + 1) <= now else tick

    def _with_delay(self, item: Any, delay_ns: int) -> Any:
        """Return what to put: the item, or `Delayed` if it has a delay, which counts from now."""
        if delay_ns == 0:
            return item
        asyncio.get_running_loop()  # raises if there is none, where _get_loop returns None
        return Delayed(-(-(round(self._get_loop().time() * 1e9) + delay_ns) // TICK_NS), item)

    def _arm(self, tick: int | None) -> None:
        """Have the loop turn the wheel at a tick, unless it will before."""
        if tick is None or tick >= self._timer_tick:
            return
        self._disarm()
        loop = self._get_loop()
        now, when = loop.time(), to_seconds(tick)
        if when <= now:
            self._timer = loop.call_soon(self._turn)
        else:
            self._timer = loop.call_at(min(when, now + WAIT_NS_MAX / 1e9), self._turn)
        self._timer_tick = tick

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._timer_tick = TICK_MAX

    def _turn(self) -> None:
        """Take a batch of due items off the wheel and wake a getter for each item."""
        self._disarm()
        tick = self._tick()
        arrived = self._queue.advance(tick)
        for _ in range(min(self._queue.ready(), len(self._getters))):
            self._wakeup_next(self._getters)
        if self._getters:
            self._arm(self._queue.wheel.next_due() if arrived else tick)


def to_seconds(tick: int) -> float:
    """Return the time of an event loop at a tick."""
    return tick * TICK_NS / 1e9
