"""The timers of one event loop: calls, timeouts and sleeps, on one wheel.

A loop timer *is* a timer of the wheel that knows what to do when it is due. The standard loop has a handle, and a
place in a heap, which a cancelled handle keeps until it is due or the cancelled are the majority; here there is
one object, and it leaves when it is cancelled:

    Timer           due, and where it is on the wheel              (wheels/timer.py)
      LoopTimer     when, by the loop's clock, and on which loop's wheel
        Call        a callback: what call_later and call_at return
        SleepTimer  a future: what a sleep waits for
        Timeout     a task to be cancelled                         (timeouts.py)

`LoopWheel` has the wheel. The loop itself holds one call, at the moment the wheel next has work:

    loop's clock    100.0 s      100.5 s       130.0 s
    loop timers     -            for 130.0 s   due
    the loop holds  -            130.0 s       -

A timer holds the loop's wheel, the wheel does not hold its loop: a loop that is dropped can be collected, and closes
the wheel. A pending timer that refers to the loop, as sleeps and timeouts do, keeps both alive until the loop is
closed, because the garbage collector does not see rings.
"""

import math
from asyncio import AbstractEventLoop, BaseEventLoop, Future, TimerHandle, format_helpers
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from decimal import Decimal
from functools import partial
from numbers import Integral, Real
from operator import attrgetter, index
from typing import Any, Final, SupportsFloat
from weakref import ref

from mypy_extensions import i64, mypyc_attr

from tickwheel.clock import SystemClock
from tickwheel.durations import DURATION_NS_MAX, Duration, to_ns
from tickwheel.errors import InvalidDuration, InvalidGeometry, InvalidOption, shown
from tickwheel.wheels.geometry import BINARY, Geometry
from tickwheel.wheels.hierarchical_wheel import HierarchicalWheel
from tickwheel.wheels.timer import FIRED, STOPPED, TICK_MAX, Timer

__all__ = [
    "NEVER_TICK",
    "TICK_NS_MIN",
    "Call",
    "LoopTimer",
    "LoopWheel",
    "SleepTimer",
    "check_tick",
    "counts_milliseconds",
    "loop_wheel",
    "reads_system_clock",
    "to_moment",
    "to_seconds",
]

# A timer at infinity is never due: it waits at TICKS_MAX, and whatever is beyond NEVER_TICK counts as that. The tick of
# an event loop is long enough that no duration is (TICK_NS_MIN).
TICKS_MAX: Final = 2.0**61
NEVER_TICK: Final = 2**60

# From the longest duration, 1,000 years: it must be less than NEVER_TICK ticks, and more than one.
TICK_NS_MIN: Final = DURATION_NS_MAX // NEVER_TICK + 1
TICK_NS_MAX: Final = DURATION_NS_MAX

# How much of a wheel is worked through before the loop gets its turn, about a millisecond.
WORK_MAX: Final = 10_000

# As exact as clocks are: a timer this close to its moment is due. The standard loop does the same; what a float
# loses when it counts seconds for years (two units in its last place) comes on top.
RESOLUTION_SECONDS: Final = 1e-9
ROUNDING_ERROR: Final = 2.0**-51

# Event loops on libuv, which reads the clock once a round.
LIBUV_PACKAGES: Final = ("uvloop", "winloop")
SAME_CLOCK_SECONDS: Final = 60.0  # no round takes so long, and hardly a suspend is so short

_by_when: Final = attrgetter("_when")

_standard_time: Final = BaseEventLoop.time  # as long as no test has put another function in its place

# Held here, a function costs a native call less than one that is looked up in its module.
_copy_context: Final = copy_context


@mypyc_attr(acyclic=True)
class LoopTimer(Timer):
    """A timer that runs by itself when it is due."""

    __slots__ = ("_cancelled", "_loop_wheel", "_source_traceback", "_when")

    def __init__(self, loop_wheel: "LoopWheel", when: float, payload: object) -> None:
        super().__init__(0, payload, FIRED, FIRED)
        self._loop_wheel = loop_wheel
        self._when = when
        self._cancelled = False
        self._source_traceback: Any = None  # of a call: where it was started, when the loop is debugged

    @property
    def _callback(self) -> Any:
        return self.payload  # a loop in debug mode looks at it, to name what was slow

    def is_driven(self) -> bool:
        """Say so: no wheel but its loop's may take it."""
        return True

    def _leave(self) -> None:
        """Leave the wheel and let go of everything: it will not run."""
        if self.pending:
            self._loop_wheel.wheel.withdraw(self)
        elif self.slot is FIRED:  # a stopped one may be in the chain of a wheel that is being closed
            self.lie_in(STOPPED)
        self.release()

    def _run(self) -> None:
        """Do what it is for: called by the loop, as it calls its own handles, and so nothing may leave it."""
        raise NotImplementedError


@mypyc_attr(acyclic=True)
class Call(LoopTimer):
    """A callback at a moment: behaves as `asyncio.TimerHandle` does, and `isinstance` takes it for one."""

    __slots__ = ("_args", "_context", "_shown")

    def __init__(
        self, loop_wheel: "LoopWheel", when: float, callback: object, args: tuple[Any, ...], context: Context | None
    ) -> None:
        super().__init__(loop_wheel, when, callback)
        self._args = args
        self._context: Any = _copy_context() if context is None else context
        self._shown = ""

    @property  # type: ignore[misc] # to inherit from a class of Python would cost a dict
    def __class__(self) -> type:
        return TimerHandle

    def get_context(self) -> Context:
        """Return the context the callback runs in; that of the caller when it is over."""
        context: Context = _copy_context() if self._context is None else self._context
        return context

    def cancelled(self) -> bool:
        """Tell whether it was cancelled."""
        return self._cancelled

    def when(self) -> float:
        """Return its moment, by the loop's clock."""
        return self._when

    def cancel(self) -> None:
        """Keep it from being called."""
        if not self._cancelled:
            self._note()
            self._cancelled = True
            self._leave()

    def release(self) -> object:
        """Let go of the callback and all it was to be called with and in; not while it is pending."""
        if self.pending:
            return None
        held = (self.payload, self._args, self._context)  # dropped by the caller: see Timer.release
        self.payload = None
        self._args = ()
        self._context = None
        return held

    def _run(self) -> None:
        self._note()
        callback: Any = self.payload
        args, context = self._args, self._context
        self.release()
        try:
            if args:
                context.run(callback, *args)
            else:
                context.run(callback)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - the loop's exception handler reports it
            self._loop_wheel.report(self, format_helpers._format_callback_source(callback, args), error)

    def _note(self) -> None:
        """Remember how it looks, for a loop that is debugged, before it lets go of its callback."""
        if self._source_traceback is not None:
            self._shown = self._describe()

    def _describe(self) -> str:
        if self.payload is None:
            return self._shown
        return format_helpers._format_callback_source(self.payload, self._args)

    def _compares(self, other: object) -> bool:
        return isinstance(other, (Call, TimerHandle))

    def __lt__(self, other: Any) -> Any:
        return self._when < other.when() if self._compares(other) else NotImplemented

    def __le__(self, other: Any) -> Any:
        return self._when < other.when() or self == other if self._compares(other) else NotImplemented

    def __gt__(self, other: Any) -> Any:
        return self._when > other.when() if self._compares(other) else NotImplemented

    def __ge__(self, other: Any) -> Any:
        return self._when > other.when() or self == other if self._compares(other) else NotImplemented

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        known: Any = other
        return self._compares(other) and (self._when, self.payload, self._args, self._cancelled) == (
            known.when(),
            known._callback,
            known._args,
            known.cancelled(),
        )

    def __hash__(self) -> int:
        return hash(self._when)

    def __repr__(self) -> str:
        state = " cancelled" if self._cancelled else ""
        return f"<Call{state} when={self._when} {self._describe()}".rstrip() + ">"


@mypyc_attr(acyclic=True)
class SleepTimer(LoopTimer):
    """Gives a future its result, at a moment."""

    __slots__ = ("_result",)

    def __init__(self, loop_wheel: "LoopWheel", when: float, future: "Future[Any]", result: object) -> None:
        super().__init__(loop_wheel, when, future)
        self._result = result

    def cancel(self) -> None:
        """Keep it from running."""
        if not self._cancelled:
            self._cancelled = True
            self._leave()

    def release(self) -> object:
        """Let go of the future and its result; not while it is pending."""
        if self.pending:
            return None
        held = (self.payload, self._result)  # dropped by the caller: see Timer.release
        self.payload = None
        self._result = None
        return held

    def _run(self) -> None:
        result = self._result
        future: Any = self.payload
        self.release()
        try:
            if not future.done():
                future.set_result(result)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - a future of the loop's own kind; its exception handler reports it
            self._loop_wheel.report(self, repr(self), error)

    def __repr__(self) -> str:
        return f"<SleepTimer when={self._when}>"


class LoopWheel:
    """A loop's wheel, and when the loop is next to look at it."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        time: Callable[[], float] | None = None,
        wake_at: Callable[[Any, float], TimerHandle] | None = None,
        geometry: Geometry = BINARY,
    ) -> None:
        self.loop = ref(loop, partial(_forget, id(loop)))
        self.wheel = HierarchicalWheel(geometry)
        self.closed = False
        self._whole_ms = time is None and counts_milliseconds(loop)
        if self._whole_ms or (time is None and reads_system_clock(loop)):
            time = SystemClock.monotonic
        self._time = time
        self._wake_at = wake_at  # not a bound method, which would hold the loop
        self._ticks_per_second: float = 1e9 / geometry.tick_ns
        self._origin: float = self.time()
        self.awaited: i64 = TICK_MAX  # the tick for which the loop holds a call,
        self._awaited_when = math.inf  # its moment,
        self._held: Any = None  # and the call: a weak reference, for the call holds the loop
        self._on_lost: Any = partial(_restore_call, self.loop)

    def time(self) -> float:
        """Read the loop's clock."""
        if self._time is not None:
            return self._time()
        loop: Any = self.loop()
        now: float = loop.time()
        return now

    def call_at(self, when: float, callback: object, args: tuple[Any, ...], context: Context | None) -> Call:
        """Have a callback called at a moment."""
        call = Call(self, when, callback, args, context)
        self.start(call)
        return call

    def call_later(self, delay: float, callback: object, args: tuple[Any, ...], context: Context | None) -> Call:
        """Have a callback called after a delay."""
        call = Call(self, self.time() + delay, callback, args, context)
        self.start(call)
        return call

    def start(self, timer: LoopTimer) -> None:
        """Have a timer run at its moment."""
        if self.closed:
            raise RuntimeError("Event loop is closed")
        ticks = (timer._when - self._origin) * self._ticks_per_second
        if not ticks < TICKS_MAX:
            if math.isnan(ticks):  # due at once, as on the standard loop, and with a moment that can be sorted
                timer._when = self.time()
                ticks = 0.0
            else:
                self._count_ticks(self.time())
                ticks = TICKS_MAX
        elif ticks < 0.0:
            ticks = 0.0
        due: i64 = math.ceil(ticks)
        self.wheel.admit(timer, due)
        if timer.due < self.awaited:
            try:
                self.arm()
            except BaseException:  # the loop is closed, or an interrupt came
                if timer.pending:
                    self.wheel.withdraw(timer)
                raise

    def move_due(self, ready: Any) -> None:
        """Move what is due now to the loop's ready queue, by `when`; a bounded part of it, if it is very much.

        In one native call: an interrupt comes before it or after, and takes no timer with it.
        """
        if self.awaited == TICK_MAX:
            return
        now = self.time()
        if self._is_due(now):
            ready.extend(self._take_due(now))
            self.arm()

    def move_due_when_woken(self, ready: Any) -> None:
        """Do so in the call that the loop held; if it came too soon, another one is held."""
        now = self.time()
        if self._is_due(now):
            ready.extend(self._take_due(now))
        self.arm()

    def run_due(self) -> None:
        """Run what is due: what a loop is asked to call that does not know this wheel."""
        now = self.time()
        due = self._take_due(now) if self._is_due(now) else []
        index: i64 = 0
        try:
            self.arm()
            while index < len(due):
                timer = due[index]
                index += 1
                run_started(timer)
        except BaseException:  # SystemExit or KeyboardInterrupt: the loop ends, and runs the rest next time
            loop: Any = self.loop()
            for left in due[index:]:
                loop.call_soon(run_started, left)
            raise

    def _is_due(self, now: float) -> bool:
        return self.awaited != TICK_MAX and now + now * ROUNDING_ERROR + RESOLUTION_SECONDS >= self._awaited_when

    def _take_due(self, now: float) -> list[LoopTimer]:
        tick: i64 = self._count_ticks(now)
        wheel = self.wheel
        due: list[Any] = wheel.advance(max(tick, self.awaited, wheel._now), WORK_MAX)
        while wheel._ready.count:  # the rest of the last tick, without which it could not be sorted
            due.extend(wheel.advance(wheel._now, WORK_MAX))
        if len(due) > 1:
            due.sort(key=_by_when)  # several moments share a tick
        return due

    def _count_ticks(self, now: float) -> i64:
        """Return which tick this is; refuse a moment that is beyond all that can be counted."""
        ticks = (now - self._origin) * self._ticks_per_second
        if not ticks < NEVER_TICK:
            seconds = NEVER_TICK / self._ticks_per_second
            raise InvalidOption("clock", now, f"within {seconds:.3g} seconds of when the event loop was made")
        tick: i64 = int(ticks)
        return tick

    def arm(self) -> None:
        """Have the loop call when the wheel next has work."""
        try:
            self._arm()
        except BaseException:  # an interrupt, perhaps: without a call, nothing would wake the loop
            loop = self.loop()
            if loop is not None and not loop.is_closed():
                with suppress(Exception):  # a call near the recursion limit: what the loop held before, it still holds
                    loop.call_soon(self.arm)
            raise

    def _arm(self) -> None:
        before = self._held
        due = self.wheel.next_due()
        self.awaited = TICK_MAX  # until a call is held: whatever fails here, the next timer asks for one
        if due is None:
            self._held = None
        else:
            when = self._origin + due / self._ticks_per_second
            call = self._call_when(when)
            if self.awaited == TICK_MAX:
                self._held = ref(call, self._on_lost)
                self._awaited_when = when
                self.awaited = due
            else:  # a destructor or a signal handler has started a timer meanwhile, and a call is held for what is next
                call.cancel()
        # Last: until the new one is held, the old one is what the loop has, or what it would restore.
        held = None if before is None else before()
        if held is not None:
            held.cancel()

    def _call_when(self, when: float) -> Any:
        loop: Any = self.loop()
        if self._wake_at is not None:
            return self._wake_at(loop, when)
        if self._whole_ms:
            return loop.call_later(math.ceil((when - self.time()) * 1e3) / 1e3, self.run_due)
        return loop.call_at(when, self.run_due)

    def report(self, timer: LoopTimer, what: str, error: BaseException) -> None:
        """Call the loop's exception handler."""
        loop = self.loop()
        if loop is not None:
            context: dict[str, Any] = {"message": f"Exception in callback {what}", "exception": error, "handle": timer}
            if timer._source_traceback:
                context["source_traceback"] = timer._source_traceback
            loop.call_exception_handler(context)

    def close(self) -> None:
        """Let go of everything; nothing runs any more."""
        self.closed = True
        self._held = None
        self.awaited = TICK_MAX
        self.wheel.close()


_wheels: Final[dict[int, LoopWheel]] = {}  # by the identity of their loops, which outlive their entries


def loop_wheel(loop: AbstractEventLoop) -> LoopWheel:
    """Return the wheel of a loop: its own, or one that is attached to it."""
    wheel = _wheels.get(id(loop))
    return _attach_wheel(loop) if wheel is None else wheel


def _attach_wheel(loop: AbstractEventLoop) -> LoopWheel:
    for number, wheel in list(_wheels.items()):
        owner = wheel.loop()
        if owner is None or owner.is_closed():
            _forget(number, wheel.loop)
    own: object = getattr(loop, "_timers", None)
    wheel = own if isinstance(own, LoopWheel) else LoopWheel(loop)
    _wheels[id(loop)] = wheel
    return wheel


def run_started(timer: LoopTimer) -> None:
    """Run a timer that is due, if it was not cancelled meanwhile."""
    if not timer._cancelled:
        timer._run()


def _restore_call(loop_ref: Any, held: Any) -> None:
    """Hold another call for one that a loop dropped without making it, because an interrupt came just before.

    A loop that is closed drops it as well: what is pending, which may hold the loop, is let go of.
    """
    loop: Any = loop_ref()
    if loop is None:
        return
    if loop.is_closed():
        _forget(id(loop), loop_ref)
        return
    own: object = getattr(loop, "_timers", None)
    wheel = own if isinstance(own, LoopWheel) else _wheels.get(id(loop))
    if wheel is not None and not wheel.closed and wheel._held is held:
        wheel.awaited = TICK_MAX  # the next timer asks for a call in any case
        loop.call_soon_threadsafe(wheel.arm)


def check_tick(geometry: Geometry, tick_ns_min: int = 1) -> None:
    """Refuse a geometry whose tick is too short or too long to count durations with."""
    tick_ns = geometry.tick_ns
    if tick_ns < tick_ns_min:
        raise InvalidGeometry(
            f"a tick of {tick_ns} ns is too short for an event loop; use at least {tick_ns_min} ns, with which it can "
            "count 1,000 years, the longest duration"
        )
    if tick_ns > TICK_NS_MAX:
        raise InvalidGeometry(
            f"a tick of {shown(tick_ns)} ns is too long for timers; use at most 1,000 years, the longest duration"
        )


def reads_system_clock(loop: AbstractEventLoop) -> bool:
    """Tell whether a loop's time is the system's clock: not if a test has put another function in its place."""
    return type(loop).time is _standard_time and "time" not in vars(loop)


def counts_milliseconds(loop: AbstractEventLoop) -> bool:
    """Tell whether a loop reads the system's clock once a round, in milliseconds, as those on libuv do.

    A deadline that is counted from such a reading would come early by what has passed since. On macOS libuv's clock
    goes on while the machine is suspended: if it has moved away from ours, it is left as it is.
    """
    for kind in type(loop).__mro__:
        if "time" in kind.__dict__:
            ours = kind.__module__.partition(".")[0] in LIBUV_PACKAGES
            return ours and abs(loop.time() - SystemClock.monotonic()) < SAME_CLOCK_SECONDS
    return False


def _forget(number: int, loop_ref: object) -> None:
    """Let go of the wheel of a loop that is gone; another loop may have its identity by now, and a wheel of its own."""
    wheel = _wheels.get(number)
    if wheel is not None and wheel.loop is loop_ref:
        del _wheels[number]
        wheel.close()


def to_seconds(delay: Duration) -> float:
    """Return a delay as event loops count it; a negative number is one that has passed, as it is for asyncio."""
    if isinstance(delay, (float, int)):
        try:
            seconds = float(delay)
        except OverflowError:
            raise InvalidDuration(delay, "must be a number that fits into a float") from None
        if math.isnan(seconds):
            raise InvalidDuration(delay, "must be a number")
        return seconds
    try:
        return to_ns(delay) / 1e9
    except InvalidDuration:
        if isinstance(delay, (Real, Decimal)):
            with suppress(InvalidDuration, ArithmeticError, TypeError):
                # The smallest integer of a fixed size, as numpy has them, is its own opposite.
                opposite: Any = -index(delay) if isinstance(delay, Integral) else -delay
                return -(to_ns(opposite) / 1e9)
        raise


def to_moment(when: SupportsFloat) -> float:
    """Return a moment of a loop's clock, which may be any number but NaN."""
    try:
        moment = float(when) if _is_number(when) else math.nan
    except (RecursionError, MemoryError):
        raise
    except Exception:  # noqa: BLE001 - whatever a class of the caller's raises
        moment = math.nan
    if math.isnan(moment):
        raise InvalidDuration(when, "must be a number")
    return moment


def _is_number(given: object) -> bool:
    """Tell a number from text and bytes, which `float` would read as well."""
    if isinstance(given, (float, int)):
        return True
    return not isinstance(given, (str, bytes)) and (hasattr(given, "__float__") or hasattr(given, "__index__"))
