"""What a set of timers has pending, under one lock: handles on a wheel, by key and by group.

Here times become ticks: a deadline is rounded up to a tick and the present moment down, so a timer can
never fire early, and at most one tick late:

    tick 10 ms            now 0.123 s -> tick 12         after(0.05): deadline 0.173 s -> tick 18
                                                         it runs when the clock has reached 0.180 s

The verbs are in `timers.py`, and who turns the wheel in the modules beside it. They say until which tick they
sleep (`awaited`), and are woken for what comes due before.
"""

from collections.abc import Callable, Hashable
from threading import RLock
from typing import Any, Final

from mypy_extensions import i64

from tickwheel.errors import DuplicateKey, MissingCallback, TimersStopped, TooManyTimers
from tickwheel.timers.handle import Keeper, TimerHandle
from tickwheel.timers.scaled_clock import ScaledClock
from tickwheel.wheels.geometry import Geometry
from tickwheel.wheels.hierarchical_wheel import HierarchicalWheel
from tickwheel.wheels.timer import STOPPED, TICK_MAX

__all__ = ["TimerRegistry"]

# How many due timers are taken from the wheel at once. Large enough that the lock is not what costs, small
# enough that others get it after a millisecond even when a machine wakes up to a million overdue timers.
BATCH_MAX: Final = 1000

_callable: Final = callable  # held here it costs less than one that is looked up


class TimerRegistry(Keeper):
    """Handles, and where they are. It knows its driver only weakly: a set that is dropped is gone, and closes it."""

    def __init__(self, driver: Any, time: ScaledClock, geometry: Geometry, pending_max: int) -> None:
        self.time = time
        self._driver = driver
        self.wheel = HierarchicalWheel(geometry)
        self.stopped = False
        self.awaited: i64 = 0  # the tick the driver sleeps until; 0 while it is awake, or has none
        self.by_key: dict[Hashable, TimerHandle] = {}
        self.by_group: dict[Hashable, dict[TimerHandle, None]] = {}
        self._tick_ns = geometry.tick_ns
        self._pending_max = pending_max
        self.renew_lock()

    def renew_lock(self) -> None:
        """Take a new lock: a forked child may have been left one that nobody will release."""
        self.lock: Any = RLock()
        # Bound once: a `with` looks both of them up each time.
        self._acquire: Callable[[], object] = self.lock.acquire
        self._release: Callable[[], object] = self.lock.release

    def renew_wheel(self) -> None:
        """Forget what is pending."""
        self.wheel = HierarchicalWheel(self.wheel.geometry, self.wheel.now)
        self.by_key.clear()
        self.by_group.clear()

    # -- starting

    def start(
        self,
        callback: Callable[..., object] | None,
        args: tuple[Any, ...],
        delay_ns: int,
        key: Hashable = None,
        group: Hashable = None,
        replace: bool = False,  # noqa: FBT001, FBT002 - a native call; the verbs have it by name
    ) -> TimerHandle:
        """Start a timer that runs once."""
        handle = TimerHandle(self, callback, args, delay_ns, key, group)
        self.enter(handle, self.time.now_ns() + delay_ns, replace)
        return handle

    def enter(self, handle: TimerHandle, deadline_ns: int, replace: bool) -> None:  # noqa: FBT001 - as above
        """Check a new handle and put it on the wheel."""
        self._acquire()
        try:
            if self.stopped:
                raise TimersStopped
            if not _callable(handle.callback):
                raise MissingCallback(handle.callback)
            if len(self.wheel) >= self._pending_max:
                raise TooManyTimers(self._pending_max)
            if handle.key is not None and handle.key in self.by_key:
                if not replace:
                    raise DuplicateKey(handle.key)
                self.cancel(self.by_key[handle.key])
            self._list(handle)
            self._place(handle, deadline_ns)
        finally:
            self._release()

    def _place(self, handle: TimerHandle, deadline_ns: int) -> None:
        """Put a handle's timer on the wheel, or move it there."""
        handle._deadline_ns = deadline_ns
        ticks = max((deadline_ns + self._tick_ns - 1) // self._tick_ns - self.wheel._now, 0)
        timer = handle._timer
        if timer is None or timer.slot is STOPPED:
            timer = self.wheel.start(ticks, handle)
            handle._timer = timer
        else:
            self.wheel.restart(timer, ticks)
        if timer.due < self.awaited:
            self.wake()

    def wake(self) -> None:
        """Have the driver look at the wheel again."""
        driver: Any = self._driver()
        driver._wake()

    def _list(self, handle: TimerHandle) -> None:
        if handle.key is not None:
            self.by_key[handle.key] = handle
        if handle.group is not None:
            self.by_group.setdefault(handle.group, {})[handle] = None

    def _unlist(self, handle: TimerHandle) -> None:
        if handle.key is not None and self.by_key.get(handle.key) is handle:
            del self.by_key[handle.key]
        members = self.by_group.get(handle.group) if handle.group is not None else None
        if members is not None:
            members.pop(handle, None)
            if not members:
                del self.by_group[handle.group]

    # -- stopping and moving

    def find(self, handle_or_key: object) -> TimerHandle | None:
        """Return a handle that is this set's, or the one with a key."""
        if isinstance(handle_or_key, TimerHandle):
            return handle_or_key if handle_or_key._keeper is self else None
        return self.by_key.get(handle_or_key)

    def cancel(self, handle_or_key: object) -> bool:
        """Keep a timer from running again; False if there is none such, or it is over."""
        self._acquire()
        try:
            handle = self.find(handle_or_key)
            if handle is None or handle._cancelled or handle._done:
                return False
            handle._cancelled = True
            self._unlist(handle)
            if handle._timer is not None:
                self.wheel.stop(handle._timer)
            return True
        finally:
            self._release()

    def touch(self, handle_or_key: object, delay_ns: int | None) -> bool:
        """Let a timer wait anew; False if there is none such, or it was cancelled."""
        self._acquire()
        try:
            handle = self.find(handle_or_key)
            if handle is None or handle._cancelled:
                return False
            if self.stopped:
                raise TimersStopped
            if handle._done:
                if handle.key is not None and handle.key in self.by_key:
                    raise DuplicateKey(handle.key)
                handle._done = False
                handle.count = 0
                self._list(handle)
            wait_ns = handle._delay_ns if delay_ns is None else delay_ns
            self._place(handle, self.time.now_ns() + wait_ns)
            return True
        finally:
            self._release()

    def now_ns(self) -> int:
        """Read the time that deadlines go by."""
        return self.time.now_ns()

    # -- for the drivers

    def wait_ns(self) -> int | None:
        """Return how long the clock goes on before there is something to do; None if there is nothing."""
        due = self.wheel.next_due()
        return None if due is None else self.time.wait_ns(due * self._tick_ns)

    def collect(self) -> list[TimerHandle]:
        """Take from the wheel what is due now, up to a batch, and put back what comes again."""
        due: list[TimerHandle] = []
        self._acquire()
        try:
            if self.stopped:
                return due
            now_ns = self.time.now_ns()
            for timer in self.wheel.advance(max(now_ns // self._tick_ns, self.wheel._now), BATCH_MAX):
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
        finally:
            self._release()
        return due

    def begin_run(self, handle: TimerHandle) -> bool:
        """Say whether a collected handle is still to be run, and that it now is."""
        self._acquire()
        try:
            if handle._cancelled:
                return False
            if handle.count == handle.times and not handle.pending:
                handle._done = True
                self._unlist(handle)
            return True
        finally:
            self._release()

    def end_run(self, handle: TimerHandle) -> None:
        """Let a timer with a fixed delay wait again."""
        if not handle.fixed_delay or handle.count == handle.times:
            return
        self._acquire()
        try:
            if not handle._cancelled and not self.stopped and not handle.pending:
                self._place(handle, self.time.now_ns() + handle._delay_ns)
        finally:
            self._release()

    def close(self) -> list[TimerHandle]:
        """Stop for good and hand back what was pending, by due time."""
        left: list[TimerHandle] = []
        self._acquire()
        try:
            if self.stopped:
                return left
            for timer in self.wheel.advance(TICK_MAX):
                handle = timer.take()
                assert isinstance(handle, TimerHandle)
                handle._cancelled = True
                left.append(handle)
            self.stopped = True
            self.wheel.close()
            self.by_key.clear()
            self.by_group.clear()
        finally:
            self._release()
        return left
