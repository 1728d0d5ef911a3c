"""`AsyncTimers`: a wheel turned by an asyncio event loop, whichever it is.

    async def main() -> None:
        async with AsyncTimers() as timers:
            timers.after(0.5, print, "half a second")
            timers.every("1s", poll)            # what a coroutine function returns is run as a task

However many timers there are, the loop holds one: a call at the moment the wheel next has work.
"""

import asyncio
import math
from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from typing import Self, Unpack
from weakref import ref

from tickwheel.clock import Clock, SystemClock
from tickwheel.durations import DURATION_NS_MAX
from tickwheel.errors import InvalidOption, NoRunningLoop
from tickwheel.timers.event_loop import EventLoop
from tickwheel.timers.handle import PendingTimer, TimerHandle
from tickwheel.timers.loop_timers import counts_milliseconds, reads_system_clock
from tickwheel.timers.registry import Left, TimerRegistry
from tickwheel.timers.timers import AbstractTimers, Named, Options, check_not_generator, is_unbegun
from tickwheel.wheels import TICK_MAX

__all__ = ["AsyncTimers"]


class LoopClock:
    """The time of an event loop as a clock, so that a loop on virtual time has virtual timers."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def monotonic_ns(self) -> int:
        """Read the loop's time, to the nearest: a float falls below about every second nanosecond it stands for."""
        return round(self._loop.time() * 1e9)

    def time_ns(self) -> int:
        """Read the same: an event loop knows no time of day."""
        return self.monotonic_ns()


class Run:
    """What a callback returned, which is run as a task."""

    __slots__ = ("awaitable", "begun", "handle", "named")

    def __init__(self, handle: TimerHandle, named: Named, awaitable: Awaitable[object]) -> None:
        self.handle = handle
        self.named = named
        self.awaitable = awaitable
        self.begun = True  # False for a coroutine whose body has not begun: its timer is held


class AsyncTimers(AbstractTimers):
    """Timers for the loop they were made on; to be used from its thread only."""

    _slow_advice = "await asyncio.to_thread(...) for blocking calls"

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None, **options: Unpack[Options]) -> None:
        if loop is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                raise NoRunningLoop("AsyncTimers") from None
        elif not isinstance(loop, AbstractEventLoop):
            raise InvalidOption("loop", loop, "an event loop")
        self._loop = loop
        super().__init__(clock_of(loop), **options)
        self._registry.awaited = TICK_MAX
        self._call: Callable[[], asyncio.Handle | None] | None = None
        self._dropped: ref[partial[None]] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._unbegun: dict[TimerHandle, Run] = {}  # what timers are held for
        if isinstance(loop, EventLoop):
            loop._async_timers.add(self)
            if self._registry._tick_ns % loop._tick_ns == 0:
                self._time.align(loop._origin_ns, loop._tick_ns)
            if loop._virtual is not None:
                self._slow_ns = DURATION_NS_MAX  # a callback takes time only if it moves the clock, to simulate that

    @property
    def running(self) -> bool:
        """Whether timers come due."""
        return not self._registry.stopped and not self._loop.is_closed()

    def stop(self) -> list[PendingTimer]:
        """Stop for good and hand back what was pending, by due time.

        Tasks that run go on. A coroutine function that was called, and whose body has not begun, does not begin: its
        timer is handed back.
        """
        return super().stop()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        self.stop()

    # -- the loop

    def _wake(self) -> None:
        """Have the loop call when the wheel next has work."""
        registry = self._registry
        while True:
            try:
                wait_ns = registry.prepare_sleep()
                if wait_ns is None:
                    self._disarm()
                    return
                awaited = registry.awaited
                self._arm(wait_ns)
            except BaseException:  # the loop is closed, or an interrupt came
                self._ask_again()
                raise
            if registry.awaited == awaited:
                return
            # A destructor or a signal handler has started an earlier timer meanwhile, whose call was replaced.

    def _arm(self, wait_ns: int) -> None:
        """Have the loop call after a wait, instead of when it would have. A call that it drops is restored."""
        alarm = partial(self._turn)
        call = self._call_after(wait_ns, alarm)
        before = self._call
        self._call, self._dropped = weakly(call), ref(alarm, partial(_restore_call, self._registry, ref(self)))
        cancel(before)

    def _ask_again(self) -> None:
        """Retry after the loop could not take a call: in its next round, and with the next timer."""
        self._registry.awaited = TICK_MAX
        if self.running:
            with suppress(Exception):  # a call near the recursion limit: what the loop held before, it still holds
                self._loop.call_soon(self._resume, context=self._context)

    def _call_after(self, wait_ns: int, alarm: Callable[[], None]) -> asyncio.Handle:
        loop = self._loop
        if wait_ns == 0:
            return loop.call_soon(alarm, context=self._context)
        if isinstance(loop, EventLoop) and self._shares_ticks(loop):
            # The wait ends with a tick of the loop, which takes a moment in a tick for its end: the middle of it leaves
            # room for what has passed since the clock was read, with which the next tick would be asked for.
            wait_ns -= loop._tick_ns // 2
        delay = to_delay(loop, wait_ns)
        if isinstance(self._clock, LoopClock):
            delay = max(delay, math.ulp(loop.time()))  # a float that counts from 1970 cannot tell some nanoseconds
        return loop.call_later(delay, alarm, context=self._context)

    def _shares_ticks(self, loop: EventLoop) -> bool:
        """Tell whether each tick of these timers ends with one of the loop's, so that being late by both is avoided."""
        tick_ns = loop._tick_ns
        return self._registry._tick_ns % tick_ns == 0 and self._time.is_aligned(loop._origin_ns, tick_ns)

    def _end_driver(self) -> None:
        self._disarm()

    def _disarm(self) -> None:
        before = self._call
        self._call = self._dropped = None
        self._registry.awaited = TICK_MAX
        cancel(before)

    def _turn(self) -> None:
        # The call is over when another one is held: should an interrupt end this before, it counts as dropped.
        self._registry.awaited = 0  # no need to be woken while awake
        try:
            self._registry.collect()
            self._run_due()
        finally:  # also if SystemExit ends the loop, which finds the rest when it is run again
            if not self._registry.stopped:
                self._continue()

    def _refresh(self) -> None:
        """Have the loop call at another moment if the first timer was cancelled; it would be woken for nothing."""
        if self._call is not None and self._registry.is_woken_early():
            self._wake()

    def _resume(self) -> None:
        """Have the loop call again after an interrupt."""
        if self.running:
            self._continue()

    def _continue(self) -> None:
        """Have the loop call again: next, if there may be more that is due, so that it gets its turn in between."""
        if self._registry.caught_up and not self._registry.due_ring.count:
            self._wake()
            return
        try:
            self._arm(0)
        except BaseException:  # as in `_wake`
            self._ask_again()
            raise

    def _take_result(self, handle: TimerHandle, named: Named, result: object) -> bool:
        """Run what can be awaited as a task, with which the run ends."""
        if not isawaitable(result):
            check_not_generator(named, result)
            return False
        run = Run(handle, named, result)
        if is_unbegun(result) and self._registry.hold(handle):
            run.begun = False
            self._unbegun[handle] = run
        body = self._await(run)
        try:
            task = self._loop.create_task(body)
        except BaseException:
            body.close()
            self._drop(run)
            raise
        self._tasks.add(task)  # the loop itself keeps only a weak reference
        task.add_done_callback(partial(self._end_task, run))
        return True

    def _end_task(self, run: Run, task: "asyncio.Task[None]") -> None:
        """End the run, also of a task that was cancelled before it began."""
        self._tasks.discard(task)
        self._drop(run)
        if run.begun:
            self._registry.end_run(run.handle)

    def _drop(self, run: Run) -> None:
        """Let a run be over whose body will not begin, if its timer is still held for it."""
        self._begin_run(run)
        if is_unbegun(run.awaitable):
            run.awaitable.close()

    def _begin_run(self, run: Run) -> bool:
        """Tell whether a run has begun, or begins now: not if its timer was cancelled, touched or stopped meanwhile."""
        if not run.begun and self._unbegun.get(run.handle) is run:
            del self._unbegun[run.handle]
            run.begun = self._registry.begin_held(run.handle)
        return run.begun

    async def _await(self, run: Run) -> None:
        if not self._begin_run(run):
            return
        handle, named = run.handle, run.named
        task = asyncio.current_task()
        try:
            await run.awaitable
        except asyncio.CancelledError as error:
            if task is not None and task.cancelling():
                raise  # the task itself was cancelled, as when the loop is shut down
            self._report(handle, named, error)
        except BaseException as error:  # a callback must not take the others with it
            if isinstance(error, GeneratorExit) and asyncio.current_task(self._loop) is not task:
                raise  # not raised by the callback, but thrown in from outside: the loop was closed
            self._report(handle, named, error)

    def _begin_anew(self) -> Left:
        self._unbegun.clear()  # drops nothing: the tasks have it too
        return super()._begin_anew()

    def _contains(self, error: BaseException) -> bool:
        """Contain what an event loop contains."""
        return not isinstance(error, (SystemExit, KeyboardInterrupt))


def clock_of(loop: asyncio.AbstractEventLoop) -> Clock:
    """Return a clock that goes with the time of a loop: the system's, where that is what the loop reads."""
    if isinstance(loop, EventLoop) and loop._virtual is not None:
        return loop._virtual  # to the nanosecond, which a float that counts years cannot tell
    own = isinstance(loop, EventLoop) and type(loop).time is EventLoop.time
    return SystemClock() if own or reads_system_clock(loop) or counts_milliseconds(loop) else LoopClock(loop)


def to_delay(loop: asyncio.AbstractEventLoop, wait_ns: int) -> float:
    """Return a wait as a loop takes it: in whole milliseconds, rounded up, if it counts those."""
    return -(-wait_ns // 1_000_000) / 1e3 if counts_milliseconds(loop) else wait_ns / 1e9


def weakly(call: asyncio.Handle) -> Callable[[], asyncio.Handle | None]:
    """Return a reference that leaves a call to its loop, weak where that is possible."""
    try:
        return ref(call)
    except TypeError:  # a call of our own loop, which lets go of it when closed, and tells of interrupts
        return lambda: call


def cancel(held: Callable[[], asyncio.Handle | None] | None) -> None:
    """Cancel a call that a loop may still hold; harmless for one that it is making."""
    call = None if held is None else held()
    if call is not None:
        call.cancel()


def _restore_call(registry: TimerRegistry, timers_ref: "ref[AsyncTimers]", _: object) -> None:
    """Ask for another call, for one that the loop dropped: it was closed, or an interrupt came just before the call."""
    registry.awaited = TICK_MAX  # the next timer asks for one in any case
    timers = timers_ref()
    if timers is not None and timers.running:
        timers._loop.call_soon_threadsafe(timers._resume, context=timers._context)
