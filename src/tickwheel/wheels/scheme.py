"""What all schemes share: checking input, counting, keys, bulk calls, and the order of an advance.

A scheme adds only what makes it one:

    _place(timer)       put a timer where it will be found when due
    _remove(timer)      take a pending one out again
    _turn(to)           move the hand to the next tick with due timers and lay them ready
    _earliest()         where that tick is, or a tick before it
    _slots()            the rings it keeps, to count, check and dissolve

An advance is then the same for all: turn, hand out what was laid ready, turn again, until the hand
stands on `to` or the batch is full. What is ready but not yet handed out is still pending.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from itertools import count
from threading import local
from typing import Any, Final, NoReturn

from mypy_extensions import i64

from tickwheel.errors import (
    BrokenWheel,
    DelayOutOfRange,
    DuplicateKey,
    ForeignTimer,
    HandMovedBack,
    InvalidLimit,
    InvalidOption,
    LengthMismatch,
    NotATimer,
    NotCopyable,
    NotWholeTicks,
    TimerStopped,
    Unhashable,
    WheelClosed,
    shown,
)
from tickwheel.wheels.contract import Stats
from tickwheel.wheels.timer import FIRED, NOWHERE, STOPPED, TICK_MAX, Slot, Timer

__all__ = ["Scheme", "check_hashable"]

_serials: Final = count(NOWHERE + 1)

# How many timers an advance may move down besides as many as its limit: about as long as handing out a batch of
# this size takes, and enough that a limit of 1 does not need a million calls to move a million timers.
MOVES_SPARE: Final = 1024

# How many wheels are closed one inside the other when they are dropped, before the next is put off: half as deep as
# CPython's own deallocation goes.
CLOSING_DEPTH_MAX: Final = 25

_closing: Final[Any] = local()  # of this thread: how deep it is, and what was put off


class Scheme(ABC):
    """A timer module without its data structure."""

    # True when the constructor of the scheme has come to its end. A wheel that is refused or interrupted before is
    # finalized too, with nothing in it to dissolve.
    _formed: bool = False

    def __init__(self, now: object = 0, delay_max: i64 = TICK_MAX) -> None:
        self._now: i64 = checked_tick("now", now)
        self._delay_max = delay_max
        self._serial: i64 = next(_serials)
        self._ready = Slot(self._serial)
        self._started: i64 = 0
        self._restarted: i64 = 0
        self._stopped: i64 = 0
        self._expired: i64 = 0
        self._closed = False
        self._moves_spare: i64 = MOVES_SPARE
        self._moves_left: i64 = 0  # of the advance under way
        self._timer_of: dict[object, Timer] = {}
        self._key_of: dict[Timer, object] = {}
        self._interrupt: BaseException | None = None  # came while keys were hashed; raised when all is in order

    # -- for whoever wants to be woken

    def start(self, delay: object, payload: object = None, key: Hashable = None) -> Timer:
        """Start a timer that is due `max(delay, 1)` ticks from now."""
        ticks = checked_delay(delay, self._reach())
        if key is not None:
            return self._start_keyed(delay, payload, key)
        timer = self._begin(self._now + ticks, payload)
        self._started += 1
        return timer

    def start_many(self, delays: Iterable[object], payloads: Iterable[object]) -> list[Timer]:
        """Start one timer for each delay and payload: all of them, or none if one is refused."""
        wanted = delays if isinstance(delays, list) else list(delays)
        carried = payloads if isinstance(payloads, list) else list(payloads)
        if len(wanted) != len(carried):
            raise LengthMismatch(len(wanted), len(carried))
        # At full length, so that it need not grow, and before the wheel is looked at, as in `advance`.
        started: list[Timer] = [STOPPED] * len(wanted)
        reach = self._reach()
        index: i64 = 0
        try:
            for delay in wanted:
                started[index] = self._begin(self._now + checked_delay(delay, reach), carried[index])
                self._started += 1
                index += 1
        except BaseException:
            for timer in started:
                if timer.slot.owner == self._serial:  # code of the caller's that ran meanwhile may have stopped it
                    self._remove(timer)
                    timer.lie_in(STOPPED)
                    self._started -= 1
            raise
        return started

    def stop(self, timer: object) -> bool:
        """Stop a timer and drop its payload; False if it has fired or was stopped before."""
        if not isinstance(timer, Timer):
            raise NotATimer(timer)
        if timer.slot.owner != self._serial:
            return self._stop_absent(timer)
        if timer.slot is timer:
            raise NotATimer(timer)  # a slot of this wheel
        self._remove(timer)
        timer.lie_in(STOPPED)
        self._stopped += 1
        if self._key_of and not self._forget(timer):
            self._index_keys()
        # Last, when the wheel is whole again: dropping a payload may run any code, this wheel's included.
        timer.release()
        if self._interrupt is not None:
            self._raise_interrupt()
        return True

    def stop_many(self, timers: Iterable[object]) -> int:
        """Stop timers and return how many were still pending."""
        unwanted = list(timers)
        for timer in unwanted:
            if not isinstance(timer, Timer) or isinstance(timer, Slot):
                raise NotATimer(timer)
            if timer.slot.owner != self._serial:
                check_absent(timer)
        stopped: i64 = 0
        for timer in unwanted:
            if self.stop(timer):
                stopped += 1
        return stopped

    def stop_key(self, key: Hashable) -> bool:
        """Stop the pending timer with this key; False if there is none."""
        timer = self.find(key)
        return timer is not None and self.stop(timer)

    def find(self, key: Hashable) -> Timer | None:
        """Return the pending timer with this key."""
        try:
            timer = self._timer_of.get(key)
        except TypeError:
            check_hashable("key", key)
            raise
        return timer if timer is not None and timer.slot.owner == self._serial else None

    def restart(self, timer: object, delay: object) -> None:
        """Give a pending timer a new delay, or start a fired one again; a stopped one is refused."""
        if not isinstance(timer, Timer) or isinstance(timer, Slot):
            raise NotATimer(timer)
        ticks = checked_delay(delay, self._reach())
        if timer.slot.owner == self._serial:
            self._move(timer, self._now + ticks)
            self._restarted += 1
        else:
            check_absent(timer)
            if timer.slot is STOPPED:
                raise TimerStopped(timer)
            self._check_kind(timer)
            timer.due = self._now + ticks
            self._place(timer)
            self._started += 1

    # -- for drivers, whose handles are timers: nothing is checked or boxed

    def admit(self, timer: Timer, due: i64) -> None:
        """Start a timer made by the caller, or move a pending one; a tick that has passed means the next one."""
        if self._closed:
            raise WheelClosed
        if due <= self._now:
            due = self._now + 1
        if timer.slot.owner == self._serial:
            self._move(timer, due)
            self._restarted += 1
        else:
            timer.due = due
            self._place(timer)
            self._started += 1

    def withdraw(self, timer: Timer) -> None:
        """Stop a pending timer but keep its payload, for the caller to release outside of its lock."""
        self._remove(timer)
        timer.lie_in(STOPPED)
        self._stopped += 1

    # -- for whoever turns the wheel

    def advance(self, to: object, limit: object = TICK_MAX) -> list[Timer]:
        """Move the hand to a tick and hand out every timer due until then, at most `limit`.

        There may be more if the batch is full or `now` is still before `to`: call again.
        """
        # First of all: making a list may run the garbage collector, and so a destructor that uses this wheel.
        batch: list[Timer] = []
        target: i64 = checked_tick("to", to)
        if target < self._now:
            raise HandMovedBack(self._now, target)
        room: i64 = checked_limit(limit)
        self._advance(target, room, batch)
        if self._key_of:
            self._forget_all(batch)
        return batch

    def advance_into(self, batch: list[Timer], to: i64, limit: i64) -> None:
        """Do as `advance`, into a list that the caller made, for timers without keys; a tick that has passed is now.

        It makes nothing that the garbage collector tracks. So no destructor runs between what the caller has read and
        what it writes.
        """
        self._advance(max(to, self._now), limit, batch)

    def _advance(self, to: i64, room: i64, batch: list[Timer]) -> None:
        if self._closed:
            raise WheelClosed
        self._moves_left = room + self._moves_spare
        first: i64 = len(batch)
        try:
            while True:
                room -= self._hand_out(batch, room)
                if room == 0 or not self._turn(to):
                    break
        except BaseException:  # out of memory: nobody would get the batch
            self._take_back(batch, first)
            raise

    def next_due(self) -> int | None:
        """Return a tick before which nothing is due; None if nothing is pending."""
        if len(self) == 0:
            return None
        return self._now if self._ready.count else self._earliest()

    def _hand_out(self, batch: list[Timer], room: i64) -> i64:
        """Move timers from the ready slot to the batch while there is room; return how many."""
        ready = self._ready
        timer = ready.next
        taken: i64 = 0
        try:
            while timer is not ready and taken < room:
                batch.append(timer)  # first: there may be no memory for it
                following = timer.next
                timer.lie_in(FIRED)
                timer = following
                taken += 1
        finally:
            ready.next = timer
            timer.prev = ready
            ready.count -= taken
            self._expired += taken
        return taken

    def _take_back(self, batch: list[Timer], first: i64) -> None:
        """Lay what cannot be handed out ready again, before what is ready; it needs no memory."""
        ready = self._ready
        before: Timer = ready
        index = first
        while index < len(batch):
            timer = batch[index]
            if timer.slot is FIRED:
                ready.link(timer, before, before.next)
                before = timer
                self._expired -= 1
            index += 1
        while len(batch) > first:  # the list may be one that the caller keeps
            batch.pop()

    # -- to see what is inside

    @property
    def now(self) -> int:
        """The tick the hand stands on."""
        return self._now

    @property
    def stats(self) -> Stats:
        """What it has done and holds."""
        return Stats(
            pending=len(self),
            started=self._started,
            restarted=self._restarted,
            stopped=self._stopped,
            expired=self._expired,
            cascaded=self._count_cascaded(),
            overflow=self._count_overflow(),
        )

    def __len__(self) -> int:
        return self._started - self._stopped - self._expired

    def occupancy(self) -> list[list[int]]:
        """Count the timers in each slot, level by level."""
        return [[slot.count for slot in self._slots()]]

    def check(self) -> None:
        """Raise `BrokenWheel` if the wheel contradicts itself."""
        if self._closed:
            expect(len(self) == 0, "closed with timers pending")
            return
        total: i64 = 0
        for slot in [self._ready, *self._slots()]:
            self._check_ring(slot)
            total += slot.count
        expect(total == len(self), f"{total} timers in slots, {len(self)} pending")
        expect(len(self._timer_of) == len(self._key_of), "keys and timers do not match")
        for key, timer in self._timer_of.items():
            expect(timer.slot.owner == self._serial, f"key {shown(key)} names {timer!r}, which is not pending here")
            expect(self._key_of.get(timer) is key, f"{timer!r} does not know its key {shown(key)}")

    def _check_ring(self, slot: Slot) -> None:
        expect(slot.owner == self._serial, "a slot of another wheel")
        before: Timer = slot
        timers = slot.timers()
        for timer in timers:
            expect(timer.prev is before, f"{timer!r} is not linked back to {before!r}")
            expect(timer.slot is slot, f"{timer!r} does not know its slot")
            expect((timer.due <= self._now) == (slot is self._ready), f"{timer!r} at tick {self._now}")
            before = timer
        expect(slot.prev is before, f"slot {slot.index} does not end with {before!r}")
        expect(slot.count == len(timers), f"slot {slot.index} counts {slot.count}, holds {len(timers)}")

    def close(self) -> None:
        """Stop every timer and let go of all payloads; the wheel takes no more."""
        self._closed = True
        doomed = self._dissolve()
        # Last, when the wheel is empty: dropping a payload or a key may run code that uses the wheel.
        while doomed is not STOPPED:
            timer = doomed
            doomed = timer.next
            timer.next = STOPPED
            timer.release()
        self._timer_of.clear()
        self._key_of.clear()

    def __reduce__(self) -> NoReturn:
        # What copy and pickle call: a copy would share the slots, and with them the timers, of the original.
        raise NotCopyable(self, "start its timers anew in another wheel instead")

    def __del__(self) -> None:
        # Rings are reference cycles that the collector cannot see: without this they would never be freed.
        if self._formed:
            close_dropped(self)

    # -- what a scheme brings

    @abstractmethod
    def _place(self, timer: Timer) -> None:
        """Put a timer where it is found when the hand comes to its due tick."""

    @abstractmethod
    def _turn(self, to: i64) -> bool:
        """Move the hand to the next tick that has due timers and lay them ready.

        False if there is none until `to`, where the hand then stands, or if `_moves_left` is used up before.
        """

    @abstractmethod
    def _earliest(self) -> i64:
        """Return a tick before which no timer that is not ready is due; there is one."""

    @abstractmethod
    def _slots(self) -> list[Slot]:
        """List the rings, the ready one left out."""

    def _begin(self, due: i64, payload: object) -> Timer:
        """Make a timer and place it."""
        timer = self._make(due, payload)
        self._place(timer)
        return timer

    def _make(self, due: i64, payload: object) -> Timer:
        """Make a timer that is in no wheel."""
        return Timer(due, payload, STOPPED, STOPPED)

    def _move(self, timer: Timer, due: i64) -> None:
        """Give a pending timer another due tick; if there is no memory for that, it stays where it is."""
        self._remove(timer)
        timer.due = due
        self._place(timer)

    def _check_kind(self, timer: Timer) -> None:  # noqa: B027 - most schemes take any timer
        """Refuse a fired timer of another wheel that this scheme cannot place."""

    def _remove(self, timer: Timer) -> None:
        """Take a pending timer out."""
        slot = timer.slot
        slot.unlink(timer)
        if slot.count == 0:
            self._emptied(slot)

    def _emptied(self, slot: Slot) -> None:  # noqa: B027 - most schemes need not know
        """Take note that the last timer of a slot was removed."""

    def _dissolve(self) -> Timer:
        """Stop every timer and break every ring; return the timers as a chain, for their payloads to be dropped."""
        doomed: Timer = STOPPED
        for slot in reversed([*self._slots(), self._ready]):
            self._stopped += slot.count
            doomed = slot.dissolve(doomed)
        return doomed

    def _count_cascaded(self) -> int:
        return 0

    def _count_overflow(self) -> int:
        return 0

    # -- input

    def _reach(self) -> i64:
        """Return the longest delay that can be started now."""
        if self._closed:
            raise WheelClosed
        return min(self._delay_max, TICK_MAX - self._now)

    def _stop_absent(self, timer: Timer) -> bool:
        """Stop a timer that is not pending here: nothing to take out, but its payload goes all the same."""
        if isinstance(timer, Slot):
            raise NotATimer(timer)
        check_absent(timer)
        if timer.slot is FIRED:  # a stopped one may be in the chain of a wheel that is being closed
            timer.lie_in(STOPPED)
        timer.release()
        return False

    # -- keys, whose `__hash__` and `__eq__` may run any code, raise, or have changed since the key was entered

    def _start_keyed(self, delay: object, payload: object, key: object) -> Timer:
        """Start a timer with a key; the key is entered first, so that nothing is pending if that fails."""
        timer = self._make(0, payload)
        try:
            holder = self._timer_of.setdefault(key, timer)
        except TypeError:
            check_hashable("key", key)
            raise
        if holder is not timer:
            raise DuplicateKey(key)
        try:
            self._key_of[timer] = key
            timer.due = self._now + checked_delay(delay, self._reach())
            self._place(timer)
        except BaseException:
            self._key_of.pop(timer, None)
            if not self._free(key, timer):
                self._index_keys()
            self._raise_interrupt()
            raise
        self._started += 1
        return timer

    def _forget_all(self, batch: list[Timer]) -> None:
        """Free the keys of timers that are to be handed out; if an interrupt comes, they are ready again instead."""
        found = True
        keys: list[tuple[Timer, object]] = []
        for timer in batch:
            key = self._key_of.pop(timer, None)
            if key is not None:
                keys.append((timer, key))
                found = self._free(key, timer) and found
        if found:
            return
        if self._interrupt is not None and not self._closed:
            self._take_back(batch, 0)
            self._key_of.update(keys)
        self._index_keys()
        self._raise_interrupt()

    def _forget(self, timer: Timer) -> bool:
        """Free the key of a timer; False if the key does not lead to it any more: `_index_keys` is then needed."""
        key = self._key_of.pop(timer, None)
        return key is None or self._free(key, timer)

    def _free(self, key: object, timer: Timer) -> bool:
        """Free a key; False if it does not lead to its timer any more."""
        try:
            return self._timer_of.pop(key, None) is timer
        except BaseException as error:  # noqa: BLE001 - a key that fails must not hold up the timer, nor others due with it
            self._note_interrupt(error)
            return False

    def _index_keys(self) -> None:
        """Enter the keys of all pending timers anew; one that cannot be told from another, or fails, is given up."""
        keys = list(self._key_of.items())
        timer_of: dict[object, Timer] = {}
        key_of: dict[Timer, object] = {}
        self._timer_of = timer_of
        self._key_of = key_of
        for timer, key in keys:
            try:
                entered = self._timer_of.setdefault(key, timer) is timer
            except BaseException as error:  # noqa: BLE001 - as above
                self._note_interrupt(error)
                entered = False
            if entered:
                self._key_of[timer] = key
                if timer.slot.owner != self._serial:  # stopped or handed out while its key was hashed
                    self._forget(timer)

    def _note_interrupt(self, error: BaseException) -> None:
        if not isinstance(error, Exception):
            self._interrupt = error

    def _raise_interrupt(self) -> None:
        """Pass on a Ctrl-C, say, that came while a key was hashed."""
        interrupt = self._interrupt
        if interrupt is not None:
            self._interrupt = None
            raise interrupt


def close_dropped(wheel: Scheme) -> None:
    """Close a wheel that nobody refers to any more.

    What it held may be wheels, each the payload of a timer in the next. They are closed one inside the other, but only
    so many: the next one is put off until the outermost has been closed, or a long chain would use up the C stack.
    """
    depth = getattr(_closing, "depth", 0)
    if depth == CLOSING_DEPTH_MAX:
        _closing.put_off.append(wheel)  # revived for a moment; it is not finalized again
        return
    if depth == 0:
        _closing.put_off = []
    _closing.depth = depth + 1
    try:
        wheel.close()
        while depth == 0 and _closing.put_off:
            _closing.put_off.pop().close()
    finally:
        _closing.depth = depth


def check_absent(timer: Timer) -> None:
    """Refuse a timer that is not pending here and is another's: a driver's in any state, or on another wheel."""
    if timer.is_driven():
        raise ForeignTimer(timer, "belongs to an event loop or to timers; cancel, touch or reschedule it there")
    if timer.slot is not FIRED and timer.slot is not STOPPED:
        raise ForeignTimer(timer)


def checked_delay(delay: object, reach: i64) -> i64:
    """Check a delay and return it in ticks, at least one."""
    unknown: Any = delay  # goes into a native integer in one step, where an int would take two
    if type(delay) is not int:
        unknown = plain_int(delay)
        if unknown is None:
            raise NotWholeTicks("delay", delay)
    try:
        ticks: i64 = unknown
    except (OverflowError, ValueError):  # too long for one
        raise DelayOutOfRange(unknown, reach) from None
    if ticks == 0:
        ticks = 1  # the present tick is over
    if ticks < 0 or ticks > reach:
        raise DelayOutOfRange(unknown, reach)
    return ticks


def checked_tick(what: str, value: object) -> int:
    """Check a tick that the hand stands on, or is to move to."""
    tick = plain_int(value)
    if tick is None:
        raise NotWholeTicks(what, value)
    if tick < 0 or tick > TICK_MAX:
        raise InvalidOption(what, value, f"a tick from 0 to {TICK_MAX}")
    return tick


def plain_int(value: object) -> int | None:
    """Return an int without what its own type makes of it; None if it is none, or a bool.

    The operators of a subclass may do anything, and the compiled build would not call them all.
    """
    return None if isinstance(value, bool) or not isinstance(value, int) else int.__index__(value)


def check_hashable(what: str, given: object) -> None:
    """Refuse a key or group that cannot be hashed."""
    try:
        hash(given)
    except TypeError as error:
        unhashable = Unhashable(what, given)
        unhashable.__cause__ = error  # `raise from` does not set it in native code
        raise unhashable from error


def checked_limit(limit: object) -> int:
    """Check a limit on a batch; more than there can be is cut."""
    count = plain_int(limit)
    if count is None or count < 1:
        raise InvalidLimit(limit)
    return min(count, TICK_MAX)


def expect(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as a sentence
    """Raise `BrokenWheel` unless something holds."""
    if not holds:
        raise BrokenWheel(otherwise)
