"""A set of timers on one wheel, without anyone to turn it: the verbs.

What is pending is in its register (`registry.py`). Who turns the wheel is in the other modules of this room: a thread
(`Timers`), an event loop (`AsyncTimers`), or the program itself (`ManualTimers`). They collect what is due under the
lock, in batches of bounded size, and run it outside.
"""

import logging
from collections.abc import Callable, Hashable
from random import Random
from typing import Any, Final, Literal, Self, TypedDict, Unpack
from weakref import ref

from tickwheel.clock import Clock
from tickwheel.durations import Duration, to_ns
from tickwheel.errors import InvalidSchedule, MissingCallback, UnknownOption
from tickwheel.timers.handle import TimerHandle
from tickwheel.timers.registry import TimerRegistry
from tickwheel.timers.scaled_clock import ScaledClock
from tickwheel.wheels import BINARY, Geometry, Stats

__all__ = ["AbstractTimers", "Options"]

SLOW_SECONDS: Final = 0.1  # how long a callback may hold up the others before it is named

PENDING_MAX: Final = 10_000_000  # about a gigabyte; beyond this a program is leaking timers

log = logging.getLogger("tickwheel.timers")


class Options(TypedDict, total=False):
    """What every set can be told when it is made."""

    geometry: Geometry  # the dials; the first one's tick is how exact timers are
    job: Callable[[Any], object]  # what to run for timers that bring only a key
    on_error: Callable[[TimerHandle, BaseException], object]  # told what a callback raised, instead of the log
    slow: Duration  # a callback that takes longer is named in a warning
    pending_max: int  # more timers than this are refused
    chance: Random  # where jitter comes from


class AbstractTimers:
    """The verbs all drivers share."""

    def __init__(self, clock: Clock, **options: Unpack[Options]) -> None:
        for name in options.keys() - Options.__annotations__.keys():
            raise UnknownOption(name, list(Options.__annotations__))
        geometry = options.get("geometry", BINARY)
        self._clock = clock
        self._time = ScaledClock(clock)
        self._registry = TimerRegistry(ref(self), self._time, geometry, options.get("pending_max", PENDING_MAX))
        self._job = options.get("job")
        self._on_error = options.get("on_error")
        self._slow_ns = to_ns(options.get("slow", SLOW_SECONDS))
        self._chance = options.get("chance") or Random()  # noqa: S311 - spreads timers, keeps no secrets

    # -- starting

    def after(
        self,
        delay: Duration,
        callback: Callable[..., object] | None = None,
        *args: Any,
        key: Hashable = None,
        group: Hashable = None,
        replace: bool = False,
    ) -> TimerHandle:
        """Run a callback once, after a delay. Without one, the set's own job is run with the key."""
        if callback is None:
            callback, args = self._own_job(), (key,)
        return self._registry.start(callback, args, to_ns(delay), key, group, replace)

    def every(
        self,
        interval: Duration,
        callback: Callable[..., object] | None = None,
        *args: Any,
        times: int = -1,
        mode: Literal["rate", "delay"] = "rate",
        phase: Duration | None = None,
        jitter: Duration = 0,
        key: Hashable = None,
        group: Hashable = None,
        replace: bool = False,
    ) -> TimerHandle:
        """Run a callback again and again, `times` times or for ever (-1).

        `rate` keeps to the grid of intervals without drift; a run that comes late, because the process was
        held up, is made once and the grid points that passed are counted in `missed`. `delay` waits a whole
        interval after each run. The grid begins now, or with `phase` at that offset from the multiples of
        the interval; `jitter` moves it by a random time up to that long, so that timers started together do
        not all run in one tick.
        """
        interval_ns = to_ns(interval)
        if interval_ns == 0:
            raise InvalidSchedule(f"an interval of {interval!r} would never let anything else run; give it some length")
        if not is_count(times):
            raise InvalidSchedule(f"times is how often to run, at least 1, or -1 for ever, not {times!r}")
        if mode not in ("rate", "delay"):
            raise InvalidSchedule(f"mode is 'rate' or 'delay', not {mode!r}")
        phase_ns = None if phase is None else to_ns(phase)
        jitter_ns = to_ns(jitter)
        if callback is None:
            callback, args = self._own_job(), (key,)
        now_ns = self.own_ns()
        first_ns = now_ns + interval_ns
        if phase_ns is not None:
            first_ns -= (now_ns - phase_ns) % interval_ns
        if jitter_ns:
            first_ns += self._chance.randrange(jitter_ns + 1)
        fixed_delay = mode == "delay"
        handle = TimerHandle(self._registry, callback, args, interval_ns, key, group, times, fixed_delay)
        self._registry.enter(handle, first_ns, replace)
        return handle

    def _own_job(self) -> Callable[[Any], object]:
        if self._job is None:
            raise MissingCallback
        return self._job

    # -- stopping, moving, asking

    def cancel(self, handle_or_key: TimerHandle | Hashable) -> bool:
        """Keep a timer from running again; False if there is none such, or it is over."""
        return self._registry.cancel(handle_or_key)

    def cancel_group(self, group: Hashable) -> int:
        """Cancel every timer of a group and return how many."""
        with self._registry.lock:
            return sum(self.cancel(handle) for handle in list(self._registry.by_group.get(group, ())))

    def touch(self, handle_or_key: TimerHandle | Hashable, delay: Duration | None = None) -> bool:
        """Let a timer wait anew, as long as at first or as long as told; one that has run will run again.

        False if there is none such, or it was cancelled.
        """
        return self._registry.touch(handle_or_key, None if delay is None else to_ns(delay))

    def get(self, key: Hashable) -> TimerHandle | None:
        """Return the timer with a key, if it is not over."""
        return self._registry.by_key.get(key)

    def __len__(self) -> int:
        return len(self._registry.wheel)

    @property
    def stats(self) -> Stats:
        """What the wheel has done and holds."""
        with self._registry.lock:
            return self._registry.wheel.stats

    # -- the set's own time

    def own_ns(self) -> int:
        """Read the time the timers go by: the clock's since the set was made, less pauses, times its speed."""
        return self._time.now_ns()

    def pause(self) -> None:
        """Let time stand still; timers keep what they have left."""
        with self._registry.lock:
            self._time.set_paused(paused=True)

    def resume(self) -> None:
        """Let time go on."""
        with self._registry.lock:
            self._time.set_paused(paused=False)
            self._wake()

    @property
    def paused(self) -> bool:
        """Whether time stands still."""
        return self._time.paused

    @property
    def speed(self) -> float:
        """How fast time goes by: 2.0 is twice as fast as the clock."""
        return self._time.speed

    @speed.setter
    def speed(self, speed: float) -> None:
        with self._registry.lock:
            self._time.set_speed(speed)
            self._wake()

    # -- for the drivers

    def _wake(self) -> None:
        """Look at the wheel again, under the lock: something is due before what is waited for."""

    def _run(self, handle: TimerHandle) -> None:
        """Run a collected handle here and now; nothing it raises gets out."""
        if not self._registry.begin_run(handle):
            return
        began_ns = self._clock.monotonic_ns()
        try:
            handle.callback(*handle.args)
        except Exception as error:  # noqa: BLE001 - a callback must not take the others with it
            self._report(handle, error)
        took_ns = self._clock.monotonic_ns() - began_ns
        if took_ns > self._slow_ns:
            log.warning("%r held up all other timers for %d ms; give the set an executor", handle, took_ns // 1_000_000)
        self._registry.end_run(handle)

    def _report(self, handle: TimerHandle, error: BaseException) -> None:
        if self._on_error is None:
            log.error("%r raised", handle, exc_info=error)
            return
        try:
            self._on_error(handle, error)
        except Exception:
            log.exception("on_error raised for %r", handle)

    def stop(self) -> list[TimerHandle]:
        """Stop for good and hand back what was pending, by due time; nothing can be started any more."""
        return self._registry.close()

    def __del__(self) -> None:
        # What is pending holds the register, out of the garbage collector's sight.
        if hasattr(self, "_registry"):  # a set refused by its constructor has none
            self._registry.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def is_count(times: object) -> bool:
    """Tell whether this says how often: at least once, or -1 for ever."""
    return isinstance(times, int) and not isinstance(times, bool) and (times >= 1 or times == -1)
