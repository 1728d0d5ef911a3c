"""`DelayQueue` and `AsyncDelayQueue`: queues whose items come out when they are due.

    queue = DelayQueue()
    queue.put("send reminder", delay="5m")
    queue.put("send receipt")
    queue.get()                                 # "send receipt", at once
    queue.get()                                 # "send reminder", in five minutes

They are `queue.Queue` and `asyncio.Queue` in all else: bounded by `maxsize`, which counts what is not due yet as
well, with `task_done` and `join`. Items come out by due time, then in the order they were put in.
"""

import asyncio
import queue
from collections import deque
from typing import Any, Final, TypeVar

from tickwheel.clock import Clock, SystemClock
from tickwheel.durations import Duration, to_ns
from tickwheel.timers import AsyncTimers
from tickwheel.wheels import BINARY, HierarchicalWheel

__all__ = ["AsyncDelayQueue", "DelayQueue"]

T = TypeVar("T")

TICK_NS: Final = BINARY.tick_ns


class DelayQueue(queue.Queue[T]):
    """A `queue.Queue` with delays, for any number of threads on both sides. It has no thread of its own."""

    def __init__(self, maxsize: int = 0, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._origin_ns = self._clock.monotonic_ns()
        super().__init__(maxsize)

    def put(self, item: T, block: bool = True, timeout: float | None = None, *, delay: Duration = 0) -> None:  # noqa: FBT001, FBT002 - as queue.Queue
        """Put an item in, to come out after a delay; waits for a place as `queue.Queue.put` does."""
        due_tick = self._due_tick(to_ns(delay))
        super().put((item, due_tick), block, timeout)  # type: ignore[arg-type] # unpacked in _put, under the lock

    def put_nowait(self, item: T, *, delay: Duration = 0) -> None:
        """Put an item in if there is a place now."""
        self.put(item, block=False, delay=delay)

    def get(self, block: bool = True, timeout: float | None = None) -> T:  # noqa: FBT001, FBT002 - as queue.Queue
        """Take the first item that is due, waiting for one as `queue.Queue.get` does."""
        if timeout is not None and timeout < 0:
            raise ValueError("'timeout' must be a non-negative number")
        with self.not_empty:
            end_ns = None if timeout is None else self._clock.monotonic_ns() + to_ns(timeout)
            while not self._due():
                if getattr(self, "is_shutdown", False) and not self._qsize():  # Python 3.13 can shut a queue down
                    raise queue.ShutDown  # type: ignore[attr-defined]
                wait_ns = self._wait_ns()
                if end_ns is not None:
                    left_ns = end_ns - self._clock.monotonic_ns()
                    if left_ns <= 0:
                        raise queue.Empty
                    wait_ns = left_ns if wait_ns is None else min(left_ns, wait_ns)
                if not block:
                    raise queue.Empty
                self.not_empty.wait(None if wait_ns is None else wait_ns / 1e9)
            item = self._get()
            self.not_full.notify()
            if self._ready:
                self.not_empty.notify()  # came due with ours; its own notification was for a later moment
            return item

    def get_nowait(self) -> T:
        """Take an item if one is due now."""
        return self.get(block=False)

    def due(self) -> int:
        """Count the items that could be taken now; `qsize` counts the others too."""
        with self.mutex:
            self._due()
            return len(self._ready)

    # -- what queue.Queue calls under its lock

    def _init(self, maxsize: int) -> None:  # noqa: ARG002
        self._wheel = HierarchicalWheel(BINARY)
        self._ready: deque[T] = deque()

    def _qsize(self) -> int:
        return len(self._wheel) + len(self._ready)

    def _put(self, item: Any) -> None:
        content, due_tick = item
        self._due()
        if due_tick <= self._wheel.now:
            self._ready.append(content)
        else:
            self._wheel.start(due_tick - self._wheel.now, content)

    def _get(self) -> T:
        return self._ready.popleft()

    def _due(self) -> int:
        """Move what is due from the wheel to the front."""
        tick = (self._clock.monotonic_ns() - self._origin_ns) // TICK_NS
        if tick > self._wheel.now:
            self._ready.extend(timer.take() for timer in self._wheel.advance(tick))  # type: ignore[misc]
        return len(self._ready)

    def _due_tick(self, delay_ns: int) -> int:
        """Return the tick a delay from now leads to, rounded up; the present one for no delay."""
        if delay_ns == 0:
            return 0
        return -(-(self._clock.monotonic_ns() - self._origin_ns + delay_ns) // TICK_NS)

    def _wait_ns(self) -> int | None:
        due = self._wheel.next_due()
        return None if due is None else max(self._origin_ns + due * TICK_NS - self._clock.monotonic_ns(), 0)


class Delayed:
    """An item on its way through `asyncio.Queue.put`."""

    __slots__ = ("delay", "item")

    def __init__(self, item: Any, delay: Duration) -> None:
        self.item = item
        self.delay = delay


class AsyncDelayQueue(asyncio.Queue[T]):
    """An `asyncio.Queue` with delays, for the loop it is made on."""

    def __init__(self, maxsize: int = 0) -> None:
        super().__init__(maxsize)
        self._timers = AsyncTimers()

    def qsize(self) -> int:
        """Count the items, due or not."""
        return super().qsize() + len(self._timers)

    def due(self) -> int:
        """Count the items that could be taken now."""
        return super().qsize()

    def empty(self) -> bool:
        """Tell whether nothing is due."""
        return super().qsize() == 0

    async def put(self, item: T, *, delay: Duration = 0) -> None:
        """Put an item in, to come out after a delay; waits for a place as `asyncio.Queue.put` does."""
        to_ns(delay)  # refuse it now, not when there is a place
        await super().put(Delayed(item, delay))  # type: ignore[arg-type] # unpacked by put_nowait, which it calls

    def put_nowait(self, item: T, *, delay: Duration = 0) -> None:
        """Put an item in if there is a place now."""
        arriving: object = item
        if isinstance(arriving, Delayed):
            item, delay = arriving.item, arriving.delay
        if to_ns(delay) == 0:
            super().put_nowait(item)
        elif self.full():
            raise asyncio.QueueFull
        else:
            self._timers.after(delay, self._arrive, item)

    def _arrive(self, item: T) -> None:
        # It had its place while it waited: the timer is no longer counted, so there is room.
        super().put_nowait(item)

    def close(self) -> list[T]:
        """Give up waiting and hand back the items that were not due, by due time."""
        return [handle.args[0] for handle in self._timers.stop()]
