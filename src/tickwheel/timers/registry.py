r"""What is pending, due and running in one process, under one lock: handles on a wheel, by key and by group.

Here times become ticks: a deadline is rounded up to a tick and the present moment down, so a timer can
never fire early, and at most one tick late:

    tick 10 ms            now 0.123 s -> tick 12         after(0.05): deadline 0.173 s -> tick 18
                                                         it runs when the clock has reached 0.180 s

A handle goes round between four places, and each step is taken under the lock:

              collect             begin                end_run
    wheel ------------> due_ring --------> running_ring --------> wheel        periodic
      ^                    |       \-----> over                                the last run
      +-- touch, put_off --+               over                                cancel, from any of them

A fifth place is for a coroutine that was made and has not begun: `hold` puts its handle in `held_ring`, where it is as
good as due, and `begin_held` lets it begin.

So a periodic timer that waits for an executor, or still runs, is not collected again: it cannot pile up, and does
not run beside itself. The periods that pass meanwhile are counted in `missed`.

The verbs are in `timers.py`, and the drivers that turn the wheel in the modules beside it. A driver says until which
tick it sleeps (`awaited`), and is woken for what is due before.

Compiled, and while the interpreter has a global lock, starting, cancelling and touching a timer without key or group
take no other: native code that calls no Python is not interrupted. So clocks are read before anything changes, and
what the user gave is dropped after.

To hash or compare a key or a group may run any code, which may use these timers: so may a signal handler meanwhile. A
handle is therefore moved first and removed by key and group after that; who finds it there sees that it is over.
"""

import sys
from collections.abc import Callable, Hashable
from contextlib import suppress
from threading import RLock
from typing import Any, Final

from mypy_extensions import i64

from tickwheel.durations import Duration, to_ns
from tickwheel.errors import (
    DelayOutOfRange,
    DuplicateKey,
    InvalidOption,
    MissingCallback,
    TimersStopped,
    TooManyTimers,
)
from tickwheel.timers.handle import Details, KeyHolder, PendingTimer, TimerHandle, TimerOwner, pending_timer
from tickwheel.timers.scaled_clock import ScaledClock
from tickwheel.wheels.geometry import Geometry
from tickwheel.wheels.hierarchical_wheel import HierarchicalWheel
from tickwheel.wheels.scheme import check_hashable
from tickwheel.wheels.timer import FIRED, NOWHERE, STOPPED, TICK_MAX, Slot, Timer

__all__ = ["Left", "TimerRegistry"]

# How many due timers are taken from the wheel at once. Large enough that the lock is not what costs, small
# enough that others get it after a millisecond even when a machine wakes up to a million overdue timers.
BATCH_MAX: Final = 1000

# What to do about a key that is taken, in the words of these verbs.
KEY_REMEDY: Final = "cancel or touch it, pass replace=True, or choose another key"

Callback = Callable[..., object]

# Handles that are over and still to be released, and what held their keys: to drop either may run any code.
Left = tuple[list[TimerHandle], object]

# How a driver calls back; True if the run continues, and the driver will end it.
Call = Callable[[TimerHandle, Callback, tuple[Any, ...]], bool]

# Whether native code runs to its end before another thread can.
UNINTERRUPTED: Final[bool] = not __file__.endswith(".py") and getattr(sys, "_is_gil_enabled", lambda: True)()

_callable: Final = callable  # held here it costs less than one that is looked up


class TimerRegistry(TimerOwner):
    """Handles, and where they are.

    It knows its driver only weakly: timers that are dropped close it. A thread holds those that have one until `stop`.
    """

    def __init__(self, driver: Any, time: ScaledClock, geometry: Geometry, pending_max: int) -> None:
        self.time = time
        self._driver = driver
        self._tick_ns = geometry.tick_ns
        self._pending_max = pending_max
        self.stopped = False
        self.left: list[PendingTimer] = []  # what `close` found and an interrupt kept from being handed back
        self.caught_up = True  # whether the last `collect` reached the present moment
        self.awaited: i64 = 0  # the tick the driver sleeps until; 0 while it is awake, or has none
        self.by_key: dict[Hashable, KeyHolder] = {}
        self.by_group: dict[Hashable, dict[TimerHandle, None]] = {}
        self.wheel = HierarchicalWheel(geometry)
        self.due_ring = Slot(NOWHERE)
        self.held_ring = Slot(NOWHERE)
        self.running_ring = Slot(NOWHERE)
        self._stranded = 0  # how many are over and still wait in an executor
        self.renew_lock()

    def renew_lock(self) -> None:
        """Take a new lock: in a forked child, the old one may never be released."""
        self.lock: Any = RLock()

    def leave_all(self) -> Left:
        """Begin anew with nothing, as after a fork, and return what was there: it is over."""
        handles: list[Any] = []
        wheel = self.wheel
        if wheel._closed:
            return handles, None
        for ring in [self.due_ring, self.held_ring, self.running_ring, wheel._ready, *wheel._slots()]:
            take_all(ring, handles)
        keys = (self.by_key, self.by_group)
        self.wheel = HierarchicalWheel(wheel.geometry, wheel.now)
        self.by_key = {}
        self.by_group = {}
        self._stranded = 0
        return handles, keys

    # -- starting

    def start(
        self,
        callback: Callable[..., object] | None,
        args: tuple[Any, ...],
        delay: Duration,
        key: Hashable = None,
        group: Hashable = None,
        replace: bool = False,  # noqa: FBT001, FBT002 - a native call; the verbs have it by name
    ) -> TimerHandle:
        """Start a timer that runs once."""
        delay_ns = to_ns(delay)
        if key is None and group is None:
            handle = TimerHandle(self, callback, args, delay_ns, None)
        else:
            handle = TimerHandle(self, callback, args, delay_ns, Details(key, group, 1, False))  # noqa: FBT003 - as above
        self.enter(handle, self.time.now_ns() + delay_ns, replace)
        return handle

    def enter(self, handle: TimerHandle, deadline_ns: int, replace: bool) -> None:  # noqa: FBT001 - as above
        """Check a new handle and put it on the wheel."""
        if not _callable(handle.payload):
            raise MissingCallback(handle.payload)
        details = handle._details
        if UNINTERRUPTED and details is None:
            self._check_room()
            self._enter(handle, deadline_ns, replace)
            return
        interrupt: BaseException | None = None
        with self.lock:
            self._check_running()
            if details is None or not self._is_taken(details, replace):
                self._check_room()  # now: the code of a key may have done anything
            else:
                self._check_running()
            replaced = self._enter(handle, deadline_ns, replace)
            if replaced is not None:  # last, when nothing can refuse the new one any more
                interrupt = self._withdraw(replaced)
        if replaced is not None:
            replaced.release()
        if interrupt is not None:
            raise interrupt

    def _enter(self, handle: TimerHandle, deadline_ns: int, replace: bool) -> TimerHandle | None:  # noqa: FBT001 - as above
        """Put a handle on the wheel and list it; return the one whose key it has taken over."""
        try:
            self._place(handle, deadline_ns)
            return None if handle._details is None else self._list(handle, replace)
        except BaseException:  # it cannot wait that long, the driver could not be woken, or its key failed
            self._withdraw(handle)
            raise

    def count(self) -> int:
        """Return how many timers are not over, which `close` would hand back: pending, due, or running and periodic."""
        with self.lock:
            return self._count()

    def _count(self) -> int:
        return self.wheel.__len__() + self.due_ring.count + self.held_ring.count + self.running_ring.count

    def _check_running(self) -> None:
        if self.stopped:
            raise TimersStopped

    def _check_room(self) -> None:
        self._check_running()
        if self._count() + self._stranded >= self._pending_max:
            raise self._too_many()

    def _too_many(self) -> TooManyTimers:
        error = TooManyTimers(self._pending_max)
        if self._stranded:
            error.add_note(f"{self._stranded} of them are cancelled, and wait in the executor until it comes to them")
        return error

    def _place(self, handle: TimerHandle, deadline_ns: int) -> None:
        """Put a handle on the wheel, or move it there."""
        due = self._due_tick(deadline_ns)
        handle._deadline_ns = deadline_ns
        self.wheel.admit(handle, due)
        if handle.due < self.awaited:
            self.wake()

    def _due_tick(self, deadline_ns: int) -> int:
        due = (deadline_ns + self._tick_ns - 1) // self._tick_ns
        if due > TICK_MAX:
            raise DelayOutOfRange(due, TICK_MAX)
        return due

    def wake(self) -> None:
        """Have the driver look at the wheel again."""
        driver: Any = self._driver()
        if driver is not None:
            driver._wake()

    def _is_taken(self, details: Details, replace: bool) -> bool:  # noqa: FBT001 - as above
        """Tell whether a new handle takes the place of another; refuse a key or group that cannot be one.

        One that waits in an executor keeps its place there.
        """
        key = details.key
        if details.group is not None:
            check_hashable("group", details.group)
        if isinstance(key, TimerHandle):
            raise InvalidOption("key", key, "a value of your own: a TimerHandle always stands for its own timer")
        taken = None if key is None else self.find_key(key)
        if taken is not None and not replace:
            raise DuplicateKey(key, KEY_REMEDY)
        return taken is not None and not taken._submitted

    def _list(self, handle: TimerHandle, replace: bool) -> TimerHandle | None:  # noqa: FBT001 - as above
        """Enter a handle by key and group; return the one whose key it takes over, which is still to be withdrawn."""
        key, group = handle.key, handle.group
        if group is not None:
            none_yet: dict[
                TimerHandle, None
            ] = {}  # not a literal in the call: compiled, that swallows what a hash raises
            self.by_group.setdefault(group, none_yet)[handle] = None
        holder = None if key is None else self.by_key.setdefault(key, KeyHolder())
        # No code of the key's or the group's runs from here on: what it has done is looked at once more.
        if handle.slot is STOPPED:
            interrupt = self._unlist(handle, key, group)
            if interrupt is not None:
                raise interrupt
            return None
        if holder is None:
            return None
        replaced = holder.find()
        if replaced is not None and not replace:
            raise DuplicateKey(key, KEY_REMEDY)
        holder.handle = handle
        return replaced

    def _unlist(self, handle: TimerHandle, key: Hashable, group: Hashable) -> BaseException | None:
        """Remove a handle that is over by key and group; return what interrupted that, to be raised when all is done.

        A key that cannot be hashed any more keeps no timer from running or ending: its handle stays listed.
        """
        try:
            if key is not None:
                self._free_key(handle, key)
            if group is not None:
                self._leave_group(handle, group)
        except Exception:  # noqa: BLE001 - as said
            return None
        except BaseException as interrupt:  # noqa: BLE001 - returned
            return interrupt
        return None

    def _free_key(self, handle: TimerHandle, key: Hashable) -> None:
        holder = self.by_key.get(key)
        if holder is None or (holder.handle is not handle and holder.find() is not None):
            return
        holder.handle = None
        removed = self.by_key.pop(key, None)
        if removed is not None and removed.find() is not None:  # taken while the key was hashed
            self.by_key.setdefault(key, removed)

    def _leave_group(self, handle: TimerHandle, group: Hashable) -> None:
        members = self.by_group.get(group)
        if members is None:
            return
        members.pop(handle, None)
        if not members:
            removed = self.by_group.pop(group, None)
            if removed:  # joined while the group was hashed
                self.by_group.setdefault(group, removed).update(removed)

    # -- stopping and moving

    def find(self, handle_or_key: object) -> TimerHandle | None:
        """Return a handle of this registry that is not over, by itself or by its key."""
        if isinstance(handle_or_key, TimerHandle):
            handle = handle_or_key
            return handle if handle._owner is self and handle.slot is not STOPPED else None
        return self.find_key(handle_or_key)

    def find_key(self, key: object) -> TimerHandle | None:
        """Return the handle with a key; one that is over is there only if its key's hash has changed or failed."""
        try:
            holder = self.by_key.get(key)
        except TypeError:
            check_hashable("key", key)
            raise
        return None if holder is None else holder.find()

    def cancel(self, handle_or_key: object) -> bool:
        """Keep a timer from running again; False if there is none, or it is over."""
        interrupt: BaseException | None = None
        if UNINTERRUPTED and isinstance(handle_or_key, TimerHandle) and handle_or_key._details is None:
            handle = self.find(handle_or_key)
            if handle is None:
                return False
            self._withdraw(handle)
        else:
            with self.lock:
                handle = self.find(handle_or_key)
                if handle is None:
                    return False
                interrupt = self._withdraw(handle)
        # Outside of the lock: what is dropped may run any code.
        handle.release()
        if interrupt is not None:
            raise interrupt
        return True

    def cancel_group(self, group: Hashable) -> int:
        """Cancel every timer of a group and return how many."""
        interrupt: BaseException | None = None
        cancelled: list[TimerHandle] = []
        check_hashable("group", group)
        with self.lock:
            for handle in list(self.by_group.get(group, ())):
                if handle.slot is not STOPPED:  # the code of another's key may have ended it
                    interrupt = self._withdraw(handle) or interrupt
                    cancelled.append(handle)
        for handle in cancelled:
            handle.release()
        if interrupt is not None:
            raise interrupt
        return len(cancelled)

    def _withdraw(self, handle: TimerHandle) -> BaseException | None:
        """Take a handle out of where it is; it is over, and still to be released. Return what `_unlist` does."""
        slot = handle.slot
        if slot.owner != NOWHERE:
            self.wheel.withdraw(handle)
        else:
            if slot is not FIRED and slot is not STOPPED:
                slot.unlink(handle)
            handle.lie_in(STOPPED)
        if handle._submitted:
            self._stranded += 1
        details = handle._details
        return None if details is None else self._unlist(handle, details.key, details.group)

    def touch(self, handle_or_key: object, delay_ns: int | None) -> bool:
        """Restart the wait of a timer; False if there is none, or it is over."""
        now_ns = self.time.now_ns()
        if UNINTERRUPTED and isinstance(handle_or_key, TimerHandle) and handle_or_key._details is None:
            return self._touch(self.find(handle_or_key), now_ns, delay_ns)
        with self.lock:
            return self._touch(self.find(handle_or_key), now_ns, delay_ns)

    def _touch(self, handle: TimerHandle | None, now_ns: int, delay_ns: int | None) -> bool:
        if handle is None:
            return False
        deadline_ns = now_ns + (handle._delay_ns if delay_ns is None else delay_ns)
        details = handle._details
        self._due_tick(deadline_ns)  # refuses what the wheel cannot hold, before anything changes
        if details is not None and handle.slot is self.running_ring:
            handle._deadline_ns = deadline_ns
            details.touched = True
            return True
        slot = handle.slot
        before_ns = handle._deadline_ns
        if slot is self.due_ring or slot is self.held_ring:
            slot.unlink(handle)
            handle.lie_in(FIRED)
        try:
            self._place(handle, deadline_ns)
        except BaseException:  # the driver could not be woken: nobody would come for it at the new deadline
            if handle.pending and handle._deadline_ns == deadline_ns:  # not if another thread has changed it meanwhile
                self._place_back(handle, before_ns, slot)
            raise
        return True

    def _place_back(self, handle: TimerHandle, deadline_ns: int, slot: Slot) -> None:
        """Let a handle that could not be moved wait as before."""
        handle._deadline_ns = deadline_ns
        if slot is self.due_ring or slot is self.held_ring:
            self.wheel.withdraw(handle)
            slot.append(handle)
        else:
            self.wheel.admit(handle, self._due_tick(deadline_ns))

    def now_ns(self) -> int:
        """Read the clock of the deadlines."""
        return self.time.now_ns()

    # -- for the drivers

    def wait_ns(self) -> int | None:
        """Return how long the clock goes on before there is something to do; None if there is nothing.

        Negative if that moment has passed.
        """
        due = self.wheel.next_due()
        return None if due is None else self.time.wait_ns(due * self._tick_ns)

    def prepare_sleep(self) -> int | None:
        """Announce until when the driver sleeps, so that an earlier timer wakes it, and return `wait_ns`, at least 0.

        In this order: a timer started between the two would wake nobody otherwise.
        """
        due = self.wheel.next_due()
        self.awaited = TICK_MAX if due is None else due
        wait_ns = None if due is None else self.time.wait_ns(due * self._tick_ns)
        return None if wait_ns is None else max(wait_ns, 0)

    def is_woken_early(self) -> bool:
        """Tell whether the driver sleeps until a tick that has no work any more."""
        due = self.wheel.next_due()
        return 0 < self.awaited < (TICK_MAX if due is None else due)

    def collect(self) -> list[TimerHandle]:
        """Move what is due now from the wheel to the due ring, and return it: up to a batch, in bounded time.

        Fewer, even none, do not mean that there are no more: `caught_up` does.
        """
        due: list[Any] = []  # first: making a list may run the garbage collector, and so a destructor
        with self.lock:
            if self.stopped:
                self.caught_up = True
                return due
            tick = min(self.time.now_ns() // self._tick_ns, TICK_MAX)
            self.wheel.advance_into(due, tick, BATCH_MAX)
            for handle in due:
                self.due_ring.append(handle)  # needs no memory: what the wheel handed out is not lost
            self.caught_up = len(due) < BATCH_MAX and self.wheel._now >= tick
        return due

    def list_due(self) -> list[Any]:
        """List what is due and has not begun, in order."""
        with self.lock:
            return self.due_ring.timers()

    def run_next(self, call: Call) -> bool:
        """Run the first handle of the due ring; False if there is none."""
        now_ns = self.time.now_ns()
        with self.lock:
            first = self.due_ring.next
            if self.stopped or first is self.due_ring:
                return False
            assert isinstance(first, TimerHandle)
            callback, args = self._begin(first, now_ns)
        self._run(first, callback, args, call)
        return True

    def run(self, handle: TimerHandle, call: Call) -> bool:
        """Run a collected handle; False if it was cancelled, touched or stopped meanwhile."""
        now_ns = self.time.now_ns()
        with self.lock:
            if handle.slot is not self.due_ring:
                return False
            callback, args = self._begin(handle, now_ns)
        self._run(handle, callback, args, call)
        return True

    def enter_executor(self, handle: TimerHandle) -> bool:
        """Note that a handle is submitted; False if it is not due any more, or waits in the executor already.

        One that was touched while it waited there runs when its turn comes, if it is due then.
        """
        with self.lock:
            if handle._submitted or handle.slot is not self.due_ring:
                return False
            handle._submitted = True
            return True

    def leave_executor(self, handle: TimerHandle) -> None:
        """Note that a handle waits in the executor no longer; what becomes due from now on is submitted again."""
        with self.lock:
            if handle._submitted and handle.slot is STOPPED and self._stranded:
                self._stranded -= 1
            handle._submitted = False

    def put_off(self, handle: TimerHandle, wait_ns: int) -> bool:
        """Have a due handle collected again after a while; False if it was run or taken out meanwhile.

        It keeps its deadline: it is late, and has not run.
        """
        now_ns = self.time.now_ns()
        with self.lock:
            if handle.slot is not self.due_ring:
                return False
            deadline_ns = handle._deadline_ns
            self._due_tick(now_ns + wait_ns)  # refuses what the wheel cannot hold, before anything changes
            self.due_ring.unlink(handle)
            handle.lie_in(FIRED)
            try:
                self._place(handle, now_ns + wait_ns)
            finally:
                handle._deadline_ns = deadline_ns
        return True

    def _run(self, handle: TimerHandle, callback: Callback, args: tuple[Any, ...], call: Call) -> None:
        # Begun and ended in one native function: an interrupt in between leaves no periodic timer behind.
        continues = False
        try:
            continues = call(handle, callback, args)
        finally:
            if not handle._entered:
                self.put_back(handle)
            elif not continues:
                self.end_run(handle)

    def _begin(self, handle: TimerHandle, now_ns: int) -> tuple[Callback, tuple[Any, ...]]:
        """Let a due or held handle begin, and return what to call: a cancel on another thread drops both."""
        callback: Any = handle.payload
        args = handle._args
        details = handle._details
        handle._entered = False
        handle.slot.unlink(handle)
        if details is not None:
            details.count += 1
        if details is None or details.count == details.times:
            handle._done = True
            handle.lie_in(STOPPED)
            if details is not None:
                interrupt = self._unlist(handle, details.key, details.group)
                if interrupt is not None:
                    self.put_back(handle)
                    raise interrupt
            return callback, args
        if not details.fixed_delay:
            passed = (now_ns - handle._deadline_ns) // handle._delay_ns
            if passed > 0:
                details.missed += passed
                handle._deadline_ns += passed * handle._delay_ns
        self.running_ring.append(handle)
        return callback, args

    def put_back(self, handle: TimerHandle) -> None:
        """Let a handle be due again, as the first, whose run has begun but not what it was to call."""
        with self.lock:
            self._undo_begin(handle, self.due_ring, self.due_ring.next)

    def hold(self, handle: TimerHandle) -> bool:
        """Let a handle count as not begun that was called; False if it was cancelled or stopped meanwhile."""
        with self.lock:
            return self._undo_begin(handle, self.held_ring, self.held_ring)

    def begin_held(self, handle: TimerHandle) -> bool:
        """Let a held handle begin; False if it was cancelled, touched or stopped meanwhile."""
        now_ns = self.time.now_ns()
        with self.lock:
            if handle.slot is not self.held_ring:
                return False
            self._begin(handle, now_ns)
            handle._entered = True  # it was called before it was held
            return True

    def _undo_begin(self, handle: TimerHandle, ring: Slot, after: Timer) -> bool:
        """Put a handle that has begun into a ring; False if it was cancelled or stopped since."""
        done = handle._done
        if self.stopped or (not done and handle.slot is not self.running_ring):
            return False
        if not done:
            self.running_ring.unlink(handle)
        handle._done = False
        ring.link(handle, after.prev, after)
        details = handle._details
        if details is not None:
            details.count -= 1
            if done:
                self._list_again(handle)
        return True

    def _list_again(self, handle: TimerHandle) -> None:
        # Without its key, if another timer has that by now; a key that fails keeps no timer from running.
        with suppress(Exception):
            self._list(handle, replace=False)

    def end_run(self, handle: TimerHandle) -> None:
        """Let a periodic timer wait again; let go of what a finished one held."""
        if handle._done:
            handle.release()
            return
        now_ns = handle._deadline_ns
        failed: BaseException | None = None
        try:
            now_ns = self.time.now_ns()
        except BaseException as error:  # noqa: BLE001 - raised again, when the timer is back on the wheel
            failed = error
        beyond: DelayOutOfRange | None = None
        with self.lock:
            details = handle._details
            if details is not None and handle.slot is self.running_ring:  # not cancelled or stopped while it ran
                next_ns = next_deadline_ns(handle, details, now_ns)
                details.touched = False
                try:
                    self._due_tick(next_ns)
                    self.running_ring.unlink(handle)
                    handle.lie_in(FIRED)
                    self._place(handle, next_ns)
                except DelayOutOfRange as error:
                    beyond = error
                    failed = self._withdraw(handle) or failed
        if beyond is not None:
            self._give_up(handle, beyond)
        if failed is not None:
            raise failed

    def _give_up(self, handle: TimerHandle, error: DelayOutOfRange) -> None:
        """Report a periodic timer whose next run is further away than the wheel can count: it is over."""
        callback: Any = handle.payload
        named = (callback, handle.key)
        handle.release()
        driver: Any = self._driver()
        if driver is not None:
            driver._report(handle, named, error, "timer %s ends: its next run is out of range")

    def close(self, left: list[PendingTimer]) -> None:
        """Stop for good and hand back what was due, would have come again, or was pending: by due time.

        Into a list that the caller made, which has it also if an interrupt comes when this returns.
        """
        handles: list[Any] = []  # first, as in `collect`: what a destructor cancels is not handed back
        now_ns = self.time.now_ns()
        with self.lock:
            if self.stopped:
                left.extend(self.left)
                self.left.clear()
                return
            self.stopped = True
            take_all(self.due_ring, handles)
            take_all(self.held_ring, handles)
            if not self.wheel._closed:  # the collector finalizes what it finds in any order, the wheel perhaps first
                self.wheel.advance_into(handles, TICK_MAX, TICK_MAX)
            for handle in handles:
                handle.lie_in(STOPPED)
            # What runs comes again after what waits for the same moment: it is put on the wheel when its run ends.
            waiting: i64 = len(handles)
            take_all(self.running_ring, handles)
            while waiting < len(handles):
                running: TimerHandle = handles[waiting]
                if running._details is not None:
                    running._deadline_ns = next_deadline_ns(running, running._details, now_ns)
                waiting += 1
            self.wheel.close()
            self.due_ring.dissolve(STOPPED)
            self.held_ring.dissolve(STOPPED)
            self.running_ring.dissolve(STOPPED)
            self.by_key.clear()
            self.by_group.clear()
        handles.sort(key=_deadline)
        for handle in handles:
            due_in = max(handle._deadline_ns - now_ns, 0) / 1e9
            left.append(pending_timer(handle, due_in))
            handle.release()


def take_all(ring: Slot, taken: list[Any]) -> None:
    """Take every timer out of a ring, in order: they are over."""
    while ring.next is not ring:
        timer = ring.next
        taken.append(timer)
        ring.unlink(timer)
        timer.lie_in(STOPPED)


def next_deadline_ns(handle: TimerHandle, details: Details, now_ns: int) -> int:
    """Return when a periodic timer whose run ends now is due again."""
    if details.touched:
        return handle._deadline_ns
    return (now_ns if details.fixed_delay else handle._deadline_ns) + handle._delay_ns


def _deadline(handle: TimerHandle) -> int:
    return handle._deadline_ns
