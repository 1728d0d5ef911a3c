"""`EventLoop`: asyncio's own event loop with its timers on a wheel.

    asyncio.run(main(), loop_factory=EventLoop)          # Python 3.12 and newer
    tickwheel.aio.run(main())                            # any

The standard loop keeps timers in a heap, and cancelled ones stay in it until they come due or are the
majority. Here they live in a wheel, and leave it when cancelled. The standard heap holds one sentinel, at the
moment the wheel next has work, so that the standard loop sleeps until then; nothing of it is copied:

    call_at, cancel     -> the wheel, and the sentinel if the new timer is the earliest
    after each select   -> what is due goes to the ready queue, by `when`

On a `VirtualClock` the loop does not sleep: when nothing is ready, time jumps to the next timer, and a program
that waits for a year takes milliseconds.
"""

import asyncio
import selectors
import sys
from asyncio import format_helpers
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context
from typing import Any, NoReturn, TypeVar, TypeVarTuple, Unpack
from weakref import WeakSet

from tickwheel.clock import SystemClock, VirtualClock, monotonic_reader
from tickwheel.errors import InvalidOption, NotCopyable
from tickwheel.timers.loop_timers import NEVER_TICK, TICK_NS_MIN, Call, LoopWheel, check_tick
from tickwheel.wheels import BINARY, Geometry

__all__ = ["EventLoop", "run"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class EventLoop(asyncio.SelectorEventLoop):
    """The standard selector event loop, timed by a hierarchical wheel."""

    # What the standard loop has and does not declare.
    _check_thread: Callable[[], None]
    _check_callback: Callable[[object, str], None]
    _debug: bool
    _ready: Any

    _closed = True  # until it is made: one that its constructor refuses is finalized too

    def __init__(
        self,
        selector: selectors.BaseSelector | None = None,
        *,
        geometry: Geometry = BINARY,
        clock: VirtualClock | None = None,
    ) -> None:
        check_selector(selector)
        if clock is not None:
            check_virtual(clock)
        if not isinstance(geometry, Geometry):
            raise InvalidOption("geometry", geometry, "a Geometry of tickwheel.wheels")
        check_tick(geometry, TICK_NS_MIN)
        self._virtual = clock
        if clock is not None:
            self.time = clock.monotonic
            selector = JumpingSelector(clock, selector, self._next_ns)
        super().__init__(selector)
        self._async_timers: WeakSet[Any] = WeakSet()  # AsyncTimers on this loop
        self._timers = LoopWheel(self, self.time, EventLoop._wake_at, geometry)
        self._tick_ns = geometry.tick_ns
        self._origin_ns = round(self._timers._origin * 1e9) if clock is None else clock.monotonic_ns()

    time = staticmethod(
        SystemClock.monotonic
    )  # the function itself, so that reading the clock costs no call in between

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call back after a delay in seconds."""
        if delay is None:
            raise TypeError("delay must not be None")
        if type(delay) is not float:
            delay = 0.0 + delay  # refuses what the standard loop cannot add to its time, with the same error
        call = self._timers.call_later(delay, callback, args, context)
        if self._debug:
            self._examine(call, "call_later")
        return call  # type: ignore[return-value] # it is one in all but name

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call back at a moment of the loop's clock."""
        if when is None:
            raise TypeError("when cannot be None")
        if type(when) is not float:
            when = float(when) if hasattr(when, "__float__") else 0.0 + when
        call = self._timers.call_at(when, callback, args, context)
        if self._debug:
            self._examine(call, "call_at")
        return call  # type: ignore[return-value]

    def run_forever(self) -> None:
        """Run until stopped. An interrupt may take the call of `AsyncTimers` with it: they ask for another one."""
        try:
            super().run_forever()
        except BaseException:
            for timers in list(self._async_timers):
                timers._resume()
            raise

    def close(self) -> None:
        """Close the loop; what was pending is forgotten."""
        super().close()
        self._timers.close()

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as it is there
        """Wait for the threads of the default executor; on virtual time without a limit, which would be over first."""
        limit = () if timeout is None or self._virtual is not None else (timeout,)
        await super().shutdown_default_executor(*limit)

    def _examine(self, call: Call, method: str) -> None:
        """Check what only a loop in debug mode checks, and note where the call was started."""
        try:
            self._check_thread()
            self._check_callback(call._callback, method)
        except BaseException:
            call.cancel()
            raise
        call._source_traceback = format_helpers.extract_stack(sys._getframe(2))

    def __reduce__(self) -> NoReturn:
        # What copy and pickle call: a copy would share the selector, and close it when it is dropped.
        raise NotCopyable(self, "make a new EventLoop instead")

    # -- what the standard loop calls

    def _process_events(self, event_list: list[Any]) -> None:
        super()._process_events(event_list)  # type: ignore[misc]
        self._timers.move_due(self._ready)

    def _wake_at(self, when: float) -> asyncio.TimerHandle:
        """Have the standard loop sleep until the wheel next has work."""
        return super().call_at(when, self._woken)

    def _woken(self) -> None:
        """Make up for a call that came due between `_process_events` and the standard loop's look at its heap."""
        self._timers.move_due_when_woken(self._ready)

    def _next_ns(self) -> int | None:
        """Return when the wheel next has work, by a virtual clock; None if nothing is pending, or all at infinity.

        The loop may still hold a call for a timer that was cancelled: time does not pass for that.
        """
        for timers in list(self._async_timers):
            timers._refresh()
        due = self._timers.wheel.next_due()
        # What it says of far slots is when to look again, and may be before the call that is held.
        tick = None if due is None else max(due, self._timers.awaited)
        return None if tick is None or tick > NEVER_TICK else self._origin_ns + tick * self._tick_ns


class JumpingSelector(selectors.BaseSelector):
    """A selector that lets virtual time pass instead of waiting."""

    def __init__(
        self, clock: VirtualClock, selector: selectors.BaseSelector | None, next_ns: Callable[[], int | None]
    ) -> None:
        self._clock = clock
        self._next_ns = next_ns
        self._real = selector or selectors.DefaultSelector()

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Watch a file."""
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Watch a file no longer."""
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Watch a file for something else."""
        return self._real.modify(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Look at the files; if none is ready, let the timeout pass. Without one, really wait."""
        if timeout is None:
            return self._real.select(None)
        ready = self._real.select(0)
        if not ready and timeout > 0:
            next_ns = self._next_ns()
            if next_ns is None:
                return self._real.select(None)
            # To the nanosecond, which the timeout, a float, does not tell after a year; at least one, to get on.
            self._clock.advance_ns(max(next_ns - self._clock.monotonic_ns(), 1))
        return ready

    def close(self) -> None:
        """Let go of the files."""
        self._real.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """Return what is watched."""
        return self._real.get_map()


def check_selector(selector: object) -> None:
    """Refuse what is no selector, a clock say."""
    if selector is not None and not callable(getattr(selector, "select", None)):
        raise InvalidOption("selector", selector, "a selector (a clock is passed by name, as clock=...)")


def check_virtual(clock: object) -> None:
    """Refuse what no event loop can go by in the place of the system's clock."""
    if not (callable(getattr(clock, "advance_ns", None)) and callable(getattr(clock, "monotonic", None))):
        raise InvalidOption("clock", clock, "a VirtualClock, or None for the system's")
    monotonic_reader(clock)


def run(main: Coroutine[Any, Any, T], *, debug: bool | None = None, clock: VirtualClock | None = None) -> T:
    """Run a coroutine on a new `EventLoop`, as `asyncio.run` does; with a clock, on virtual time."""
    with asyncio.Runner(debug=debug, loop_factory=lambda: EventLoop(clock=clock)) as runner:
        return runner.run(main)
