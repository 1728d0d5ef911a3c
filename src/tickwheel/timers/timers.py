"""The verbs that all timers share, without a driver to turn the wheel.

What is pending is in the registry (`registry.py`). The drivers are in the modules beside it: a thread (`Timers`), an
event loop (`AsyncTimers`), or the program itself (`ManualTimers`). They collect what is due under the lock, in
batches of bounded size, and run it outside.
"""

# ruff: noqa: D102 - methods whose types are given here have their docstrings in TimersCore

import atexit
import logging
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator, Hashable, Iterable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from inspect import (
    CO_ASYNC_GENERATOR,
    CO_COROUTINE,
    CO_GENERATOR,
    CORO_CREATED,
    GEN_CREATED,
    Parameter,
    getcoroutinestate,
    getgeneratorstate,
    isawaitable,
    signature,
)
from random import Random
from types import AsyncGeneratorType, CoroutineType, FunctionType, GeneratorType, MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    NoReturn,
    Self,
    TypedDict,
    TypeGuard,
    TypeVarTuple,
    Unpack,
    cast,
)
from weakref import WeakSet, ref

from tickwheel.clock import Clock, monotonic_reader
from tickwheel.durations import Duration, argument_ns, to_ns
from tickwheel.errors import (
    CoroutineNotAwaited,
    InvalidOption,
    InvalidSchedule,
    NotCopyable,
    TimersStopped,
    UnknownOption,
    shown,
)
from tickwheel.timers.forks import after_fork_in_child
from tickwheel.timers.handle import Details, PendingTimer, TimerHandle, describe
from tickwheel.timers.loop_timers import check_tick
from tickwheel.timers.registry import Left, TimerRegistry
from tickwheel.timers.scaled_clock import Anchor, ScaledClock
from tickwheel.timers.timers_core import TimersCore, check_replace
from tickwheel.wheels import BINARY, Geometry, Stats

__all__ = [
    "GENERATOR",
    "AbstractTimers",
    "Named",
    "Options",
    "check_not_generator",
    "code_flags",
    "drop_pending",
    "is_unbegun",
    "option_names",
    "tell",
]

Ts = TypeVarTuple("Ts")

# The callback of a run and the key of its timer, for messages.
Named = tuple[Callable[..., object] | None, Hashable]

SLOW_SECONDS: Final = 0.1  # how long a callback may hold up the others before a warning names it

GENERATOR: Final = CO_GENERATOR | CO_ASYNC_GENERATOR

GATHERING: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)  # the kinds of *args and **kwargs

PLAIN_OR_COROUTINE: Final = "a plain or coroutine function (the body of a generator function never runs)"

PENDING_MAX: Final = 10_000_000  # about a gigabyte; beyond this a program is leaking timers

LOCK_SECONDS_MAX: Final = 1.0  # what the end of the process waits for a thread that holds the lock of timers

log = logging.getLogger("tickwheel.timers")


def tell(
    level: int, message: str, *args: object, error: BaseException | None = None, logger: logging.Logger = log
) -> None:
    """Log; a handler or filter that raises is shown on stderr, as logging itself does, and holds up nobody."""
    try:
        logger.log(level, message, *args, exc_info=error, stacklevel=2)
    except Exception:  # noqa: BLE001 - as said
        with suppress(Exception):
            traceback.print_exc()


class Options(TypedDict, total=False):
    """The options of every kind of timers."""

    geometry: Geometry  # the dials; the tick of the first is the resolution
    job: Callable[[Any], object]  # the callback of timers that bring only a key
    on_error: Callable[[TimerHandle, BaseException], object]  # called with what a callback raised, instead of logging
    slow: Duration  # a callback that takes longer is named in a warning
    pending_max: int  # more timers than this are refused
    rng: Random  # the source of jitter


class AbstractTimers(TimersCore, ABC):
    """The verbs all drivers share."""

    _slow_advice: str  # what to do about a callback that takes long

    def __init__(self, clock: Clock, /, **options: Unpack[Options]) -> None:
        check_options(type(self), clock, options)
        geometry = options.get("geometry", BINARY)
        self._clock = clock
        self._time = ScaledClock(clock)
        self._context = copy_context()  # each callback runs in a copy of it
        self._on_error = options.get("on_error")
        self._slow_ns = to_ns(options.get("slow", SLOW_SECONDS))
        self._rng = options.get("rng") or Random()  # noqa: S311 - spreads timers, keeps no secrets
        registry = TimerRegistry(ref(self), self._time, geometry, options.get("pending_max", PENDING_MAX))
        super().__init__(registry, options.get("job"))
        _instances.add(self)

    # -- starting

    if TYPE_CHECKING:  # what TimersCore has without types

        def after(
            self,
            delay: Duration,
            callback: Callable[[Unpack[Ts]], object] | None = None,
            *args: *Ts,
            key: Hashable = None,
            group: Hashable = None,
            replace: bool = False,
        ) -> TimerHandle: ...
        def cancel(self, handle_or_key: TimerHandle | Hashable) -> bool: ...
        def touch(self, handle_or_key: TimerHandle | Hashable, delay: Duration | None = None) -> bool: ...

    def every(
        self,
        interval: Duration,
        callback: Callable[[Unpack[Ts]], object] | None = None,
        *args: *Ts,
        times: int = -1,
        mode: Literal["rate", "delay"] = "rate",
        phase: Duration | None = None,
        jitter: Duration = 0,
        key: Hashable = None,
        group: Hashable = None,
        replace: bool = False,
    ) -> TimerHandle:
        """Run a callback again and again, `times` times or for ever (-1).

        `rate` keeps to the grid of intervals without drift. A run never overlaps the one before: if that, or the
        process, took too long, one late run makes up for the grid points that passed, and the others are counted
        in `missed`. `delay` waits a whole interval after each run. The grid begins now, or with `phase` at that
        offset from the multiples of the interval; `jitter` moves it by a random time up to that long, so that
        timers started together do not all run in one tick.
        """
        interval_ns = to_ns(interval)
        if interval_ns == 0:
            raise InvalidSchedule(
                f"an interval of {shown(interval)} would never let anything else run; give it some length"
            )
        if not is_count(times):
            raise InvalidSchedule(f"times is how often to run, at least 1, or -1 for ever, not {shown(times)}")
        given: object = mode
        if not isinstance(given, str) or given not in ("rate", "delay"):
            raise InvalidSchedule(f"mode is 'rate' or 'delay', not {shown(mode)}")
        phase_ns = None if phase is None else argument_ns("phase", phase)
        jitter_ns = argument_ns("jitter", jitter)
        job, job_args = (self._default_job(args), (key,)) if callback is None else (callback, args)
        now_ns = self.now_ns()
        first_ns = now_ns + interval_ns
        if phase_ns is not None:
            first_ns -= (now_ns - phase_ns) % interval_ns
        if jitter_ns:
            first_ns += self._rng.randrange(jitter_ns + 1)
        details = Details(key, group, times, mode == "delay")
        handle = TimerHandle(self._registry, job, job_args, interval_ns, details)
        self._registry.enter(handle, first_ns, check_replace(replace, key))
        return handle

    # -- cancelling many, asking

    def cancel_group(self, group: Hashable) -> int:
        """Cancel every timer of a group and return how many."""
        return self._registry.cancel_group(group)

    def get(self, key: TimerHandle | Hashable) -> TimerHandle | None:
        """Return the timer with a key, or a handle of these timers itself, if it is not over."""
        return self._registry.find(key)

    def __len__(self) -> int:
        return self._registry.count()

    def __bool__(self) -> bool:
        return True  # also while nothing is pending

    @property
    def stats(self) -> Stats:
        """What the wheel has done and holds."""
        with self._registry.lock:
            return self._registry.wheel.stats

    @property
    @abstractmethod
    def running(self) -> bool:
        """Whether timers come due."""

    # -- time

    def now_ns(self) -> int:
        """Read the time the timers go by: the clock's since they were made, less pauses, times the speed.

        On an `aio.EventLoop` it may count from the beginning of the loop's tick in which they were made.
        """
        return self._time.now_ns()

    def pause(self) -> None:
        """Stop time; timers keep what they have left."""
        self._change_time(partial(self._time.set_paused, paused=True))

    def resume(self) -> None:
        """Continue after a pause."""
        self._change_time(partial(self._time.set_paused, paused=False))

    @property
    def paused(self) -> bool:
        """Whether time is stopped."""
        return self._time.paused

    @property
    def speed(self) -> float:
        """How fast time goes by: 2.0 is twice as fast as the clock."""
        return self._time.speed

    @speed.setter
    def speed(self, speed: float) -> None:
        self._change_time(partial(self._time.set_speed, speed))

    def _change_time(self, change: Callable[[], Anchor]) -> None:
        """Change how time goes by, and have the driver look at the wheel again: not at all, if that fails."""
        with self._registry.lock:
            before = change()
            try:
                self._wake()
            except BaseException:
                self._time.restore(before)
                raise

    # -- for the drivers

    def _wake(self) -> None:
        """Look at the wheel again, under the lock: something is due before what is waited for.

        Nobody waits for a program that turns the wheel itself.
        """

    def _run_due(self) -> None:
        """Run everything in the due ring, in order. What is left when a callback ends the driver stays there."""
        while self._registry.run_next(self._call_back):
            pass

    def _call_back(self, handle: TimerHandle, callback: Callable[..., object], args: tuple[Any, ...]) -> bool:
        """Call back for a handle that has begun, report what it raises, and tell whether its run continues."""
        named = callback, handle.key  # a timer that cancels itself lets go of both
        run = self._context.copy().run
        began_ns = self._clock.monotonic_ns()
        try:
            handle._entered = True  # nothing can interrupt between this and the call
            result = run(callback, *args)
            return result is not None and run(self._take_result, handle, named, result)
        except BaseException as error:  # noqa: BLE001 - a callback must not take the others with it
            run(self._report, handle, named, error)
            return False
        finally:
            took_ns = self._clock.monotonic_ns() - began_ns
            if took_ns > self._slow_ns:
                tell(
                    logging.WARNING,
                    "timer callback %s took %d ms and delayed all other timers; %s",
                    describe(*named),
                    took_ns // 1_000_000,
                    self._slow_advice,
                )

    def _take_result(self, handle: TimerHandle, named: Named, result: object) -> bool:  # noqa: ARG002 - one driver uses it
        """Look at what a callback returned, and tell whether its run continues; a coroutine would never run here."""
        if is_unbegun(result):
            result.close()
            raise CoroutineNotAwaited(describe(*named))
        check_not_generator(named, result)
        return False

    def _report(
        self, handle: TimerHandle, named: Named, error: BaseException, message: str = "timer callback %s raised"
    ) -> None:
        """Log what a callback raised, or hand it to `on_error`; raise again what is meant for the caller."""
        if not self._contains(error):
            raise error
        if self._on_error is None:
            tell(logging.ERROR, message, describe(*named), error=error)
            return
        try:
            # In a copy of the context it is called in, which may be that of all callbacks.
            result = copy_context().run(self._on_error, handle, error)
            if is_unbegun(result):
                result.close()
                tell(
                    logging.ERROR,
                    f"on_error returned a coroutine, which nothing awaits; {message}",
                    describe(*named),
                    error=error,
                )
        except BaseException as another:
            tell(logging.ERROR, "on_error raised for timer callback %s", describe(*named), error=another)
            if not self._contains(another):
                raise

    def _contains(self, error: BaseException) -> bool:
        """Tell whether an error of a callback ends with its report."""
        return isinstance(error, Exception)

    def stop(self) -> list[PendingTimer]:
        """Stop for good and hand back what was pending, by due time; no callback begins after this.

        If a signal handler raises meanwhile, the next call hands it back.
        """
        left: list[PendingTimer] = []
        try:
            self._registry.close(left)
            self._end_driver()
        except BaseException:
            self._registry.left.extend(left)
            raise
        return left

    def _end_driver(self) -> None:
        """Have the driver see that there is nothing left for it to do. A program that turns the wheel itself knows."""

    def _begin_anew(self) -> Left:
        """Begin anew in a forked child, and return what was there: the parent's timers are the parent's to run."""
        return self._registry.leave_all()

    def __reduce__(self) -> NoReturn:
        # What copy and pickle call: a copy would share the wheel, and stop it when it is dropped.
        raise NotCopyable(self, f"make new {type(self).__name__} instead")

    def __del__(self) -> None:
        # What is pending holds the registry, out of the garbage collector's sight.
        if hasattr(self, "_registry"):  # not if the constructor raised
            self._registry.close([])

    def __enter__(self) -> Self:
        if self._registry.stopped:
            raise TimersStopped
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


_instances: "WeakSet[AbstractTimers]" = WeakSet()


def _renew_locks() -> None:
    for timers in list(_instances):
        timers._registry.renew_lock()


def _begin_anew() -> Callable[[], None]:
    return partial(_let_go, [timers._begin_anew() for timers in list(_instances)])


def _let_go(left: list[Left]) -> None:
    for handles, _ in left:
        for handle in handles:
            handle.release()
    left.clear()


def drop_pending(instances: Iterable[AbstractTimers]) -> None:
    """Drop what is pending, when the interpreter exits.

    It is out of the garbage collector's sight: a callback would keep its module from being torn down, and with it open
    files from being written.
    """
    left: list[Left] = []
    for timers in instances:
        lock = timers._registry.lock
        if lock.acquire(timeout=LOCK_SECONDS_MAX):
            try:
                left.append(timers._registry.leave_all())
            finally:
                lock.release()
    _let_go(left)


@atexit.register
def _drop_all_pending() -> None:
    drop_pending(list(_instances))


after_fork_in_child(_renew_locks, _begin_anew)


def check_options(kind: type[AbstractTimers], clock: object, options: Options) -> None:
    """Refuse a clock or options that could not work, before anything is made of them."""
    given: dict[str, Any] = dict(options)
    for name in given.keys() - Options.__annotations__.keys():
        raise UnknownOption(name, option_names(kind))
    monotonic_reader(clock)
    if not isinstance(given.get("geometry", BINARY), Geometry):
        raise InvalidOption("geometry", given["geometry"], "a Geometry of tickwheel.wheels")
    check_tick(given.get("geometry", BINARY))
    for name in ("job", "on_error"):
        if given.get(name) is not None and not callable(given[name]):
            raise InvalidOption(name, given[name], "a function")
    check_options_plain(given)
    pending_max = given.get("pending_max", PENDING_MAX)
    if not isinstance(pending_max, int) or isinstance(pending_max, bool) or pending_max < 1:
        raise InvalidOption("pending_max", pending_max, "an int of at least 1")
    if given.get("rng") is not None and not isinstance(given["rng"], Random):
        raise InvalidOption("rng", given["rng"], "a random.Random")


def option_names(kind: type[AbstractTimers]) -> list[str]:
    """List the options of a kind of timers, its own first."""
    own = [name for name, parameter in signature(kind).parameters.items() if parameter.kind not in GATHERING]
    return [*own, *Options.__annotations__]


def check_options_plain(given: dict[str, Any]) -> None:
    """Refuse functions that only make a coroutine or a generator where nothing would run it."""
    on_error, job = given.get("on_error"), given.get("job")
    if code_flags(on_error) & (CO_COROUTINE | GENERATOR):
        raise InvalidOption("on_error", on_error, "a plain function (nothing awaits or iterates its result)")
    if code_flags(job) & GENERATOR:
        raise InvalidOption("job", job, PLAIN_OR_COROUTINE)


def check_not_generator(named: Named, result: object) -> None:
    """Refuse what a generator function returned. Only now: to look at every callback when it is started would cost."""
    callback = named[0]
    if isinstance(result, (GeneratorType, AsyncGeneratorType)) and code_flags(callback) & GENERATOR:
        raise InvalidOption("callback", callback, PLAIN_OR_COROUTINE)


def code_flags(function: object) -> int:
    """Return the flags of the code that runs when this is called, as `inspect` has them; 0 if they are not known.

    Nothing of the function is run to find out: a mock takes part in what `inspect` does, and says that it is anything.
    """
    while type(function) in (partial, MethodType):
        function = function.func if isinstance(function, partial) else cast("MethodType", function).__func__
    if type(function) is not FunctionType:
        for kind in type(function).__mro__:
            if "__call__" in vars(kind):
                function = vars(kind)["__call__"]
                break
    return function.__code__.co_flags if type(function) is FunctionType else 0


def is_unbegun(result: object) -> TypeGuard[Coroutine[Any, Any, Any] | Generator[Any, Any, Any]]:
    """Tell whether this is a coroutine that nobody has begun to run; one that was begun is another's to end."""
    if isinstance(result, CoroutineType):
        return getcoroutinestate(result) == CORO_CREATED
    return isinstance(result, GeneratorType) and isawaitable(result) and getgeneratorstate(result) == GEN_CREATED


def is_count(times: object) -> bool:
    """Tell whether this is a number of runs: at least 1, or -1 for ever."""
    return isinstance(times, int) and not isinstance(times, bool) and (times >= 1 or times == -1)
