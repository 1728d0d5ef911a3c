"""`AsyncDelayQueue`: a queue between coroutines whose items come out when they are due.

    queue = AsyncDelayQueue()
    await queue.put("send reminder", delay="5m")
    await queue.get()                           # "send reminder", in five minutes

It is an `asyncio.Queue`; docs/recipes.md lists the differences. The order is that of `DelayQueue`.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from time import monotonic_ns
from typing import NoReturn, TypeVar

from tickwheel.durations import Duration, argument_ns
from tickwheel.errors import NotCopyable
from tickwheel.recipes.delayed_items import TICK_NS, WAIT_NS_MAX, DelayedItems, check_maxsize
from tickwheel.timers.loop_timers import counts_milliseconds
from tickwheel.wheels import TICK_MAX

__all__ = ["AsyncDelayQueue"]

T = TypeVar("T")


class AsyncDelayQueue(asyncio.Queue[T]):
    """An `asyncio.Queue` with delays, on any event loop and measured by its time; on uvloop by the system's clock.

    It belongs to the loop of the first delay or wait. The loop holds one timer for it, and only while a `get` waits.
    """

    # Attributes of asyncio.Queue that its type stubs omit.
    _getters: deque[asyncio.Future[None]]
    _putters: deque[asyncio.Future[None]]
    _loop: asyncio.AbstractEventLoop | None
    _get_loop: Callable[[], asyncio.AbstractEventLoop]

    _is_shutdown: bool = False  # until shutdown(), which asyncio.Queue has since Python 3.13
    _due_tick: int = 0  # of the item that is being put; 0 without a delay
    _timer: asyncio.Handle | None = None
    _timer_tick: int = TICK_MAX
    _counts_milliseconds: bool | None = None  # whether the loop does; None until it is known

    def __init__(self, maxsize: int = 0) -> None:
        check_maxsize(maxsize)
        super().__init__(maxsize)

    async def put(self, item: T, *, delay: Duration = 0.0) -> None:
        """Put an item in, to come out after a delay; wait for a free place as `asyncio.Queue.put` does."""
        delay_ns = argument_ns("delay", delay)
        if delay_ns == 0:
            await super().put(item)
        elif not self.full():
            self.put_nowait(item, delay=delay)
        else:
            due_ns = self._now_ns() + delay_ns
            await self._wait_for_place()
            self.put_nowait(item, delay=Fraction(max(due_ns - self._now_ns(), 0), 10**9))

    def put_nowait(self, item: T, *, delay: Duration = 0.0) -> None:
        """Put an item in if there is a free place now."""
        due_tick = self._find_due_tick(argument_ns("delay", delay))
        before = self._due_tick  # of another call that a destructor has interrupted with this one
        self._due_tick = due_tick  # not an argument: subclasses override `_put(item)`
        try:
            super().put_nowait(item)
        finally:
            self._due_tick = before

    async def get(self) -> T:
        """Take the first item that is due, waiting for one as `asyncio.Queue.get` does."""
        while not (due := self._queue.poll(self._tick())):
            if self._is_shutdown and self.empty():
                raise asyncio.QueueShutDown  # type: ignore[attr-defined] # Python 3.13
            getter = self._get_loop().create_future()
            self._getters.append(getter)
            try:
                self._arm(self._queue.wheel.now if due is None else self._queue.wheel.next_due())
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
        take = super().get_nowait  # first: making it may run a destructor, which may take what is due
        while (due := self._queue.poll(self._tick())) is None:
            pass
        if not due and not self.empty():
            raise asyncio.QueueEmpty
        item = take()
        self._end_if_drained()
        return item

    def due(self) -> int:
        """Count the items that could be taken now; `qsize` counts the others too."""
        return self._queue.count_due(self._tick())

    def drain(self) -> list[T]:
        """Take all items, due or not, in due order; `task_done` is expected for each, as after `get`."""
        for _ in range(self.qsize()):  # first: what interrupts it finds all items here
            self._wakeup_next(self._putters)
        items = self._queue.take_all()
        self._end_if_drained()
        return items

    def __reduce__(self) -> NoReturn:
        raise NotCopyable(self, "make another queue instead")

    # -- hooks that asyncio.Queue calls; the others work on DelayedItems as on a deque

    def _init(self, maxsize: int) -> None:  # noqa: ARG002 - as asyncio.Queue
        self._queue: DelayedItems[T] = DelayedItems(self._tick)

    def _put(self, item: T) -> None:
        tick = self._tick()
        if self._getters and self._due_tick > tick:
            self._arm(self._due_tick)  # first: if the loop refuses, nothing was put in
        self._queue.append(item, tick, self._due_tick)

    def _wakeup_next(self, waiters: deque[asyncio.Future[None]]) -> None:
        # asyncio.Queue wakes a getter for each item that is put; for one that is not due yet, the timer does.
        if waiters is not self._getters or self._queue.ready():
            super()._wakeup_next(waiters)  # type: ignore[misc] # another omission

    async def _wait_for_place(self) -> None:
        """Wait until the queue is not full, in line with the calls of `put` without a delay."""
        while self.full():
            if self._is_shutdown:
                raise asyncio.QueueShutDown  # type: ignore[attr-defined] # Python 3.13
            putter = self._get_loop().create_future()
            self._putters.append(putter)
            try:
                await putter
            except BaseException:
                putter.cancel()
                with suppress(ValueError):  # it is removed when it is woken
                    self._putters.remove(putter)
                if not self.full() and not putter.cancelled():
                    self._wakeup_next(self._putters)  # it was woken for a place that is still free
                raise

    def _end_if_drained(self) -> None:
        """Wake the getters that waited for delayed items of a queue that is shut down, when the last was taken."""
        if self._is_shutdown and self.empty():
            self.shutdown()  # type: ignore[attr-defined] # Python 3.13

    # -- time

    def _tick(self) -> int:
        if self._loop is None:
            return 0  # before the first delay or wait nothing is on the wheel
        if self._is_coarse(self._loop):
            return monotonic_ns() // TICK_NS
        now = self._loop.time()
        tick = int(now * 1e9) // TICK_NS
        # The product may be a bit below a tick that has come; a timer for that tick must find it.
        return tick + 1 if to_seconds(tick + 1) <= now else tick

    def _is_coarse(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Tell whether the loop's time is too coarse to count from, so that the system's clock is read instead."""
        if self._counts_milliseconds is None:
            self._counts_milliseconds = counts_milliseconds(loop)
        return self._counts_milliseconds

    def _find_due_tick(self, delay_ns: int) -> int:
        """Return the tick at which a delay that begins now is over; 0 without a delay."""
        return 0 if delay_ns == 0 else -(-(self._now_ns() + delay_ns) // TICK_NS)

    def _now_ns(self) -> int:
        """Read the time of the running loop, from which delays count."""
        asyncio.get_running_loop()  # raises if there is none, where _get_loop returns None
        loop = self._get_loop()
        return monotonic_ns() if self._is_coarse(loop) else round(loop.time() * 1e9)

    def _arm(self, tick: int | None) -> None:
        """Have the loop turn the wheel at a tick, unless it will before."""
        if tick is None or tick >= self._timer_tick:
            return
        before = self._timer
        self._timer = self._call_at(tick)  # until the loop has taken it, the one before stays
        self._timer_tick = tick
        if before is not None:
            before.cancel()

    def _call_at(self, tick: int) -> asyncio.Handle:
        loop = self._get_loop()
        if self._is_coarse(loop):
            wait_ms = -(-(tick * TICK_NS - monotonic_ns()) // 10**6)  # rounded up, or the loop would wake too early
            return loop.call_later(min(max(wait_ms / 1e3, 0), WAIT_NS_MAX / 1e9), self._turn)
        now, when = loop.time(), to_seconds(tick)
        if when <= now:
            return loop.call_soon(self._turn)
        return loop.call_at(min(when, now + WAIT_NS_MAX / 1e9), self._turn)

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
            try:
                self._arm(self._queue.wheel.next_due() if arrived else tick)
            except BaseException:  # the loop could not take the call, and is asked again
                with suppress(Exception):
                    self._get_loop().call_soon(self._turn)
                raise


def to_seconds(tick: int) -> float:
    """Return the time of an event loop at a tick."""
    return tick * TICK_NS / 1e9
