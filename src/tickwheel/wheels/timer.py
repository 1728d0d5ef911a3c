"""A timer, and the ring of timers that is a slot.

A slot is a doubly linked list that closes on itself, and the timers *are* its nodes: no node
objects, no dict, nothing to search. The slot is the ring's fixed point, from which one side leads
to the timer started first and the other to the one started last:

        +-----------------------------------------------+
        v                                               |
      Slot  --next-->  Timer  --next-->  Timer  --next--+
        ^  <--prev--     #1   <--prev--    #2
        +---prev (the last one started)

Starting a timer links it in before the slot (at the end), stopping it joins its two neighbours.
Both touch three objects, however many timers there are.

A timer that is in no wheel lies in one of two slots that belong to none: `FIRED` or `STOPPED`. So
a timer's slot tells its state, and no field is ever empty:

    >>> from tickwheel.wheels import HashedWheel
    >>> wheel = HashedWheel(slots=60)
    >>> timer = wheel.start(75, "tea")
    >>> timer
    <Timer due=75 pending>
    >>> wheel.advance(75) == [timer], timer.fired, timer.take()
    (True, True, 'tea')

Compiled, a timer is 64 bytes, one cache line, and invisible to the cyclic garbage collector
(`acyclic`): a million pending timers add nothing to a collection. The price is that nobody finds a
cycle through a timer but us, so a timer never refers to its wheel, and lets go of its payload when
it is stopped, when the payload is taken, and when its wheel is closed or dropped.
"""

from typing import Final, NoReturn

from mypy_extensions import i64, mypyc_attr

from tickwheel.errors import NotATimer, NotCopyable, TimerNotFired

__all__ = ["FIRED", "NOWHERE", "STOPPED", "TICK_MAX", "Slot", "Timer"]

# The last tick a hand can reach. One bit less than a native signed integer, so that sums cannot
# overflow: 146 million years of milliseconds, 146 years of nanoseconds.
TICK_MAX: Final = 2**62 - 1

NOWHERE: Final = 0  # the owner of FIRED and STOPPED; wheels count from 1


@mypyc_attr(acyclic=True, free_list_len=1)
class Timer:
    """One timer: the handle its starter keeps and the node its slot is made of.

    `due` and `payload` are for everyone to read; `prev`, `next` and `slot` belong to the wheel.
    """

    __slots__ = ("due", "next", "payload", "prev", "slot")

    def __init__(self, due: i64, payload: object, slot: "Slot", prev: "Timer") -> None:
        self.due = due
        self.slot = slot
        self.prev = prev
        self.next: Timer = slot
        # The payload comes last, because native fields are cleared in this order when a timer is freed, and
        # clearing the payload may run code that starts a timer: in this very memory, by the free list.
        self.payload = payload

    @property
    def pending(self) -> bool:
        """Whether it waits in a wheel."""
        return self.slot.owner != NOWHERE

    @property
    def fired(self) -> bool:
        """Whether it was handed out by `advance`, and neither stopped, restarted nor taken since."""
        return self.slot is FIRED

    @property
    def stopped(self) -> bool:
        """Whether it is over for good: stopped, or taken after it fired."""
        return self.slot is STOPPED

    def take(self) -> object:
        """Hand over the payload of a fired timer and let go of it: the timer is over.

        This is how whoever runs expired timers should read them. A fired timer that is not taken keeps
        its payload, so that it can be restarted.
        """
        if self.slot is not FIRED:
            raise TimerNotFired(self)
        self.lie_in(STOPPED)
        return self.release()

    def release(self) -> object:
        """Let go of the payload and hand it to the caller.

        It must be handed on, if only to be dropped: a native field is overwritten after what it held is gone,
        so a destructor that came back to this timer would find it there still.
        """
        payload = self.payload
        self.payload = None
        return payload

    def is_driven(self) -> bool:
        """Tell whether it belongs to a driver, an event loop say, which alone starts and stops it."""
        return False

    def lie_in(self, slot: "Slot") -> None:
        """Point at a slot without being in its ring: how a timer lies in FIRED and STOPPED."""
        self.slot = slot
        self.prev = slot
        self.next = slot

    def __reduce__(self) -> NoReturn:
        # What copy and pickle call: a copy would be linked to the neighbours of the original, and not they to it.
        raise NotCopyable(self, "start a new timer with its payload instead")

    def __repr__(self) -> str:
        state = "pending" if self.pending else "fired" if self.fired else "stopped"
        return f"<Timer due={self.due} {state}>"


@mypyc_attr(acyclic=True)
class Slot(Timer):
    """A ring of timers, and the sentinel that holds it open: a timer that never fires.

    `owner` is the serial number of its wheel, `level` and `index` say where it sits there
    (`level` < 0: in no level), `count` how many timers are in it.
    """

    __slots__ = ("count", "index", "level", "owner")

    def __init__(self, owner: i64, level: i64 = -1, index: i64 = 0) -> None:
        super().__init__(0, None, self, self)
        self.owner = owner
        self.level = level
        self.index = index
        self.count: i64 = 0

    def take(self) -> object:
        """Refuse: a slot has no payload."""
        raise NotATimer(self)

    def __repr__(self) -> str:
        return f"<Slot level={self.level} index={self.index} count={self.count}>"

    def begin(self, due: i64, payload: object) -> Timer:
        """Make a timer at the end: `append`, with nothing written twice."""
        last = self.prev
        timer = Timer(due, payload, self, last)
        last.next = timer
        self.prev = timer
        self.count += 1
        return timer

    def append(self, timer: Timer) -> None:
        """Link a timer in at the end."""
        self.link(timer, self.prev, self)

    def insert_sorted(self, timer: Timer) -> None:
        """Link a timer in by due tick, behind those of the same tick: O(n), looking from the end."""
        before = self.prev
        while before is not self and before.due > timer.due:
            before = before.prev
        self.link(timer, before, before.next)

    def link(self, timer: Timer, before: Timer, after: Timer) -> None:
        """Put a timer between two neighbours of this ring."""
        timer.slot = self
        timer.prev = before
        timer.next = after
        before.next = timer
        after.prev = timer
        self.count += 1

    def unlink(self, timer: Timer) -> None:
        """Join the neighbours of a timer of this ring; the timer itself still points at them."""
        before = timer.prev
        after = timer.next
        before.next = after
        after.prev = before
        self.count -= 1

    def move_front(self, due: i64, ready: "Slot") -> None:
        """Move the timers due on a tick from the front of this sorted ring to the end of another."""
        timer = self.next
        while timer is not self and timer.due == due:
            self.unlink(timer)
            ready.append(timer)
            timer = self.next

    def earliest(self) -> i64:
        """Return the earliest due tick of the ring, or one beyond the last tick if it is empty: O(n)."""
        earliest: i64 = TICK_MAX + 1
        timer = self.next
        while timer is not self:
            earliest = min(earliest, timer.due)
            timer = timer.next
        return earliest

    def timers(self) -> list[Timer]:
        """List the ring, first to last."""
        listed: list[Timer] = []
        timer = self.next
        while timer is not self:
            listed.append(timer)
            timer = timer.next
        return listed

    def dissolve(self, behind: Timer) -> Timer:
        """Stop every timer and break the ring, the slot's own hold on itself included.

        The timers keep their payloads. They are put before a chain of others by `next`, first to last, and the first of
        the chain is returned; it ends with STOPPED.
        """
        first = behind
        timer = self.prev
        while self.slot is self and timer is not self:
            before = timer.prev
            timer.lie_in(STOPPED)
            timer.next = first
            first = timer
            timer = before
        self.count = 0
        self.lie_in(STOPPED)
        return first


FIRED: Final = Slot(NOWHERE)
STOPPED: Final = Slot(NOWHERE)
