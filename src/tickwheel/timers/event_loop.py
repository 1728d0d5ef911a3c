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
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context
from math import ceil
from operator import attrgetter
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

from tickwheel.clock import VirtualClock
from tickwheel.wheels import BINARY, TICK_MAX, Geometry, HierarchicalWheel, Timer

__all__ = ["EventLoop", "run"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# A timer at infinity is never due; this is as far as a wheel of nanoseconds would reach.
TICKS_MAX: Final = TICK_MAX // 2

_by_when = attrgetter("_when")


class WheelHandle(asyncio.TimerHandle):
    """A standard handle that knows its place in the wheel."""

    __slots__ = ("_timer",)
    _timer: Timer

    # What the standard handle has and does not declare.
    _scheduled: bool
    _source_traceback: list[Any] | None


class EventLoop(asyncio.SelectorEventLoop):
    """The standard selector event loop, timed by a hierarchical wheel."""

    # What the standard loop has and does not declare.
    _check_closed: Callable[[], None]
    _check_thread: Callable[[], None]
    _check_callback: Callable[[object, str], None]
    _clock_resolution: float
    _debug: bool
    _ready: Any

    def __init__(
        self,
        selector: selectors.BaseSelector | None = None,
        *,
        geometry: Geometry = BINARY,
        clock: VirtualClock | None = None,
    ) -> None:
        self._clock = clock
        super().__init__(selector if clock is None else JumpingSelector(clock, selector))
        self._wheel = HierarchicalWheel(geometry)
        self._tick = geometry.tick_ns / 1e9
        self._origin = self.time()
        self._sentinel: asyncio.TimerHandle | None = None
        self._sentinel_tick = TICK_MAX

    def time(self) -> float:
        """Read the loop's clock, in seconds."""
        return super().time() if self._clock is None else self._clock.monotonic_ns() / 1e9

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call back at a moment of the loop's clock."""
        if when is None:
            raise TypeError("when cannot be None")
        self._check_closed()
        if self._debug:
            self._check_thread()
            self._check_callback(callback, "call_at")
        handle = WheelHandle(when, callback, args, self, context)
        if handle._source_traceback:
            del handle._source_traceback[-1]
        ticks = (when - self._origin) / self._tick
        due = ceil(ticks) if ticks < TICKS_MAX else TICKS_MAX
        handle._timer = timer = self._wheel.start(max(due - self._wheel.now, 0), handle)
        handle._scheduled = True
        if timer.due < self._sentinel_tick:
            self._arm()
        return handle

    def close(self) -> None:
        """Close the loop; what was pending is forgotten."""
        super().close()
        self._wheel.close()

    # -- what the standard loop calls

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        if isinstance(handle, WheelHandle):
            self._wheel.stop(handle._timer)
            handle._scheduled = False
        else:
            super()._timer_handle_cancelled(handle)  # type: ignore[misc]

    def _process_events(self, event_list: list[Any]) -> None:
        super()._process_events(event_list)  # type: ignore[misc]
        if self._sentinel_tick < TICK_MAX and self._now_tick() >= self._sentinel_tick:
            self._turn()

    def _now_tick(self) -> int:
        return int((self.time() + self._clock_resolution - self._origin) / self._tick)

    def _turn(self) -> None:
        """Put what is due on the ready queue."""
        due: list[Any] = [timer.take() for timer in self._wheel.advance(max(self._now_tick(), self._wheel.now))]
        due.sort(key=_by_when)  # several moments share a tick
        for handle in due:
            handle._scheduled = False
            self._ready.append(handle)
        self._arm()

    def _arm(self) -> None:
        """Have the standard loop sleep until the wheel next has work."""
        if self._sentinel is not None:
            self._sentinel.cancel()
            self._sentinel = None
        due = self._wheel.next_due()
        self._sentinel_tick = TICK_MAX if due is None else due
        if due is not None:
            self._sentinel = super().call_at(self._origin + due * self._tick, self._woken)

    def _woken(self) -> None:
        """Make up for a sentinel that came due between `_process_events` and the standard loop's look at its heap."""
        self._sentinel = None
        self._turn()


class JumpingSelector(selectors.BaseSelector):
    """A selector that lets virtual time pass instead of waiting."""

    def __init__(self, clock: VirtualClock, selector: selectors.BaseSelector | None) -> None:
        self._clock = clock
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
            self._clock.advance_ns(ceil(timeout * 1e9))
        return ready

    def close(self) -> None:
        """Let go of the files."""
        self._real.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """Return what is watched."""
        return self._real.get_map()


def run(main: Coroutine[Any, Any, T], *, debug: bool | None = None) -> T:
    """Run a coroutine on a new `EventLoop`, as `asyncio.run` does on the standard one."""
    with asyncio.Runner(debug=debug, loop_factory=EventLoop) as runner:
        return runner.run(main)
