"""A set of timers on one wheel, without anyone to turn it.

Here times become ticks: a deadline is rounded up to a tick and the present moment down, so a timer can
never fire early, and at most one tick late:

    tick 10 ms            now 0.123 s -> tick 12         after(0.05): deadline 0.173 s -> tick 18
                                                         it runs when the clock has reached 0.180 s

Who turns the wheel is in the other modules of this room: a thread (`Timers`), an event loop
(`AsyncTimers`), or the program itself (`ManualTimers`). They collect what is due under the lock, in
batches of bounded size, and run it outside.
"""

import logging
import threading
from collections.abc import Callable, Hashable
from random import Random
from typing import Any, Final, Literal, Self, TypedDict, Unpack
from weakref import ref

from tickwheel.clock import Clock
from tickwheel.durations import Duration, to_ns
from tickwheel.errors import DuplicateKey, InvalidSchedule, MissingCallback, TimersStopped, TooManyTimers, UnknownOption
from tickwheel.timers.handle import TimerHandle
from tickwheel.timers.own_time import OwnTime
from tickwheel.wheels import BINARY, TICK_MAX, Geometry, HierarchicalWheel, Stats

__all__ = ["Options", "TimerSet"]

# How many due timers are taken from the wheel at once. Large enough that the lock is not what costs, small
# enough that others get it after a millisecond even when a machine wakes up to a million overdue timers.
BATCH_MAX: Final = 1000

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


class TimerSet:
    """The verbs all drivers share."""

    def __init__(self, clock: Clock, **options: Unpack[Options]) -> None:
        for name in options.keys() - Options.__annotations__.keys():
            raise UnknownOption(name, list(Options.__annotations__))
        geometry = options.get("geometry", BINARY)
        self._clock = clock
        self._time = OwnTime(clock)
        self._tick_ns = geometry.tick_ns
        self._wheel = HierarchicalWheel(geometry)
        self._lock = threading.RLock()
        self._job = options.get("job")
        self._on_error = options.get("on_error")
        self._slow_ns = to_ns(options.get("slow", SLOW_SECONDS))
        self._pending_max = options.get("pending_max", PENDING_MAX)
        self._chance = options.get("chance") or Random()  # noqa: S311 - spreads timers, keeps no secrets
        self._self = ref(self)
        self._by_key: dict[Hashable, TimerHandle] = {}
        self._by_group: dict[Hashable, dict[TimerHandle, None]] = {}
        self._stopped = False

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
        delay_ns = to_ns(delay)
        with self._lock:
            handle = self._make(callback, args, delay_ns, key=key, group=group, replace=replace)
            self._place(handle, self.own_ns() + delay_ns)
        return handle

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
        with self._lock:
            handle = self._make(
                callback,
                args,
                interval_ns,
                times=times,
                fixed_delay=mode == "delay",
                key=key,
                group=group,
                replace=replace,
            )
            first_ns = self.own_ns() + interval_ns
            if phase_ns is not None:
                now_ns = self.own_ns()
                first_ns = now_ns + interval_ns - (now_ns - phase_ns) % interval_ns
            if jitter_ns:
                first_ns += self._chance.randrange(jitter_ns + 1)
            self._place(handle, first_ns)
        return handle

    def _make(
        self,
        callback: Callable[..., object] | None,
        args: tuple[Any, ...],
        delay_ns: int,
        *,
        key: Hashable,
        group: Hashable,
        replace: bool,
        times: int = 1,
        fixed_delay: bool = False,
    ) -> TimerHandle:
        """Check everything, then make a handle and enter it under its key and group."""
        if self._stopped:
            raise TimersStopped
        if callback is None:
            if self._job is None:
                raise MissingCallback
            callback, args = self._job, (key,)
        if not callable(callback):
            raise MissingCallback(callback)
        if len(self._wheel) >= self._pending_max:
            raise TooManyTimers(self._pending_max)
        if key is not None and key in self._by_key:
            if not replace:
                raise DuplicateKey(key)
            self.cancel(self._by_key[key])
        handle = TimerHandle(
            self._self, callback, args, delay_ns, times=times, fixed_delay=fixed_delay, key=key, group=group
        )
        self._enter(handle)
        return handle

    def _place(self, handle: TimerHandle, deadline_ns: int) -> None:
        """Put a handle's timer on the wheel, or move it there."""
        handle._deadline_ns = deadline_ns
        ticks = max(-(-deadline_ns // self._tick_ns) - self._wheel.now, 0)
        timer = handle._timer
        if timer is None or timer.stopped:
            handle._timer = timer = self._wheel.start(ticks, handle)
        else:
            self._wheel.restart(timer, ticks)
        self._wake(timer.due)

    def _enter(self, handle: TimerHandle) -> None:
        if handle.key is not None:
            self._by_key[handle.key] = handle
        if handle.group is not None:
            self._by_group.setdefault(handle.group, {})[handle] = None

    def _leave(self, handle: TimerHandle) -> None:
        if handle.key is not None and self._by_key.get(handle.key) is handle:
            del self._by_key[handle.key]
        members = self._by_group.get(handle.group) if handle.group is not None else None
        if members is not None:
            members.pop(handle, None)
            if not members:
                del self._by_group[handle.group]

    # -- stopping, moving, asking

    def cancel(self, handle_or_key: TimerHandle | Hashable) -> bool:
        """Keep a timer from running again; False if there is none such, or it is over."""
        with self._lock:
            handle = self._find(handle_or_key)
            if handle is None or handle._cancelled or handle._done:
                return False
            handle._cancelled = True
            self._leave(handle)
            if handle._timer is not None:
                self._wheel.stop(handle._timer)
            return True

    def cancel_group(self, group: Hashable) -> int:
        """Cancel every timer of a group and return how many."""
        with self._lock:
            return sum(self.cancel(handle) for handle in list(self._by_group.get(group, ())))

    def touch(self, handle_or_key: TimerHandle | Hashable, delay: Duration | None = None) -> bool:
        """Let a timer wait anew, as long as at first or as long as told; one that has run will run again.

        False if there is none such, or it was cancelled.
        """
        delay_ns = None if delay is None else to_ns(delay)
        with self._lock:
            handle = self._find(handle_or_key)
            if handle is None or handle._cancelled:
                return False
            if self._stopped:
                raise TimersStopped
            if handle._done:
                if handle.key is not None and handle.key in self._by_key:
                    raise DuplicateKey(handle.key)
                handle._done = False
                handle.count = 0
                self._enter(handle)
            self._place(handle, self.own_ns() + (handle._delay_ns if delay_ns is None else delay_ns))
            return True

    def get(self, key: Hashable) -> TimerHandle | None:
        """Return the timer with a key, if it is not over."""
        return self._by_key.get(key)

    def _find(self, handle_or_key: TimerHandle | Hashable) -> TimerHandle | None:
        if isinstance(handle_or_key, TimerHandle):
            return handle_or_key if handle_or_key._owner is self._self else None
        return self._by_key.get(handle_or_key)

    def __len__(self) -> int:
        return len(self._wheel)

    @property
    def stats(self) -> Stats:
        """What the wheel has done and holds."""
        with self._lock:
            return self._wheel.stats

    # -- the set's own time

    def own_ns(self) -> int:
        """Read the time the timers go by: the clock's since the set was made, less pauses, times its speed."""
        return self._time.now_ns()

    def pause(self) -> None:
        """Let time stand still; timers keep what they have left."""
        with self._lock:
            self._time.set_paused(paused=True)

    def resume(self) -> None:
        """Let time go on."""
        with self._lock:
            self._time.set_paused(paused=False)
            self._wake(0)

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
        with self._lock:
            self._time.set_speed(speed)
            self._wake(0)

    def _wait_ns(self) -> int | None:
        """How long the clock goes on before there is something to do; None if there is nothing. Under the lock."""
        due = self._wheel.next_due()
        return None if due is None else self._time.wait_ns(due * self._tick_ns)

    # -- for the drivers

    def _wake(self, due: int) -> None:
        """Take note, under the lock, that something is now due on this tick."""

    def _collect(self) -> list[TimerHandle]:
        """Take from the wheel what is due now, up to a batch, and put back what comes again."""
        with self._lock:
            if self._stopped:
                return []
            now_ns = self.own_ns()
            fired = self._wheel.advance(max(now_ns // self._tick_ns, self._wheel.now), BATCH_MAX)
            due: list[TimerHandle] = []
            for timer in fired:
                handle = timer.payload
                assert isinstance(handle, TimerHandle)
                due.append(handle)
                handle.count += 1
                if handle.count == handle.times:
                    timer.take()
                elif not handle.fixed_delay:
                    next_ns = handle._deadline_ns + handle._delay_ns
                    if next_ns <= now_ns:
                        missed = (now_ns - next_ns) // handle._delay_ns + 1
                        handle.missed += missed
                        next_ns += missed * handle._delay_ns
                    self._place(handle, next_ns)
            return due

    def _begin_run(self, handle: TimerHandle) -> bool:
        """Say whether a collected handle is still to be run, and that it now is."""
        with self._lock:
            if handle._cancelled:
                return False
            if handle.count == handle.times and not handle.pending:
                handle._done = True
                self._leave(handle)
            return True

    def _end_run(self, handle: TimerHandle) -> None:
        """Let a timer with a fixed delay wait again."""
        if handle.fixed_delay and handle.count != handle.times:
            with self._lock:
                if not handle._cancelled and not self._stopped and not handle.pending:
                    self._place(handle, self.own_ns() + handle._delay_ns)

    def _run(self, handle: TimerHandle) -> None:
        """Run a collected handle here and now; nothing it raises gets out."""
        if not self._begin_run(handle):
            return
        began_ns = self._clock.monotonic_ns()
        try:
            handle.callback(*handle.args)
        except Exception as error:  # noqa: BLE001 - a callback must not take the others with it
            self._report(handle, error)
        took_ns = self._clock.monotonic_ns() - began_ns
        if took_ns > self._slow_ns:
            log.warning("%r held up all other timers for %d ms; give the set an executor", handle, took_ns // 1_000_000)
        self._end_run(handle)

    def _report(self, handle: TimerHandle, error: BaseException) -> None:
        if self._on_error is None:
            log.error("%r raised", handle, exc_info=error)
            return
        try:
            self._on_error(handle, error)
        except Exception:
            log.exception("on_error raised for %r", handle)

    def _close(self) -> list[TimerHandle]:
        """Stop for good and hand back what was pending, by due time."""
        with self._lock:
            if self._stopped:
                return []
            left = [timer.take() for timer in self._wheel.advance(TICK_MAX)]
            self._stopped = True
            self._wheel.close()
            self._by_key.clear()
            self._by_group.clear()
            handles = [handle for handle in left if isinstance(handle, TimerHandle)]
            for handle in handles:
                handle._cancelled = True
            return handles

    def stop(self) -> list[TimerHandle]:
        """Stop for good and hand back what was pending, by due time; nothing can be started any more."""
        return self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def is_count(times: object) -> bool:
    """Tell whether this says how often: at least once, or -1 for ever."""
    return isinstance(times, int) and not isinstance(times, bool) and (times >= 1 or times == -1)
