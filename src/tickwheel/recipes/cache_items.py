"""The items of a `TTLCache`: by key, by when they expire, and by when they were used. No lock, no clock, no callback.

An item *is* a timer of the wheel, and a link of a ring from the least to the most recently used:

    by_key   {"a": item, "b": item}         finds an item
    ring     oldest <-> ... <-> newest      an item that is used moves to the end
    wheel    tick 5: item, tick 9: item     finds what expires; its tick is 1 ms
    kept     [item, "a", 1, item, "b", 2]   what an item holds, at its `place`

Compiled, the garbage collector does not see items: a million of them add nothing to a collection. So an item refers
to nothing but other items. Keys and values are in `kept`, a list that the collector sees: a value that refers to its
cache is collected with it.

A timer is started when an item is added, and is not moved when the item gets more time. When it comes due, the item
either has expired, or its timer is started for what is left:

    set 0 s, ttl 10 s     set again 8 s     due 10 s, expires 18 s: wait 8 s     due 18 s: expired

What has come due waits in `_due` until it is removed or scheduled again, one item after the other.

An item is here as long as it has a place in `kept`. One without a place counts as absent, wherever else it still is:

    enter       by_key, wheel        it may fail anywhere: what is left behind is absent
    add         place, ring          in one run
    take_out    place, ring          in one run
    forget      wheel, by_key        it may fail anywhere: what is left behind is absent

A key whose hash changes cannot be found in `by_key` when its item is forgotten. The item stays there; `enter` clears
such items away when there are as many as others.

The code of a key may use the cache while an item is looked up, entered or forgotten. So may a destructor that the
garbage collector runs when an object is made, and any allocation may fail. None of that happens in a run that gives a
place or takes it: it first makes room in `kept` or gives it up, which succeeds or changes nothing, and then assigns;
it calls nothing. So whatever interrupts a method finds the items whole, and so does a process that is forked meanwhile.
Interpreted, a `KeyboardInterrupt` may come between any two lines, and since Python 3.12 a destructor may run at any
call, also in the midst of the wheel: that is not covered.
"""

from typing import Any, Final, final

from mypy_extensions import i64, mypyc_attr

from tickwheel.errors import DelayOutOfRange, WheelClosed
from tickwheel.wheels.geometry import BINARY
from tickwheel.wheels.hierarchical_wheel import HierarchicalWheel
from tickwheel.wheels.timer import FIRED, TICK_MAX, Timer

__all__ = ["ABSENT", "BATCH_MAX", "TICK_NS", "CacheItems", "Item"]

TICK_NS: Final[int] = BINARY.tick_ns

# How many timers are taken from the wheel at once, which bounds how long a write takes: about 10 microseconds.
BATCH_MAX: Final = 64

STRIDE: Final = 3  # places an item takes in `kept`

# Both are made once: `kept` grows and shrinks by a whole item or not at all, and nothing else is made for it.
VACANT: Final[tuple[Any, ...]] = (None,) * STRIDE
LAST: Final = slice(-STRIDE, None)

EDGE_SPARE: Final = 64  # items `_edge` may hold beside twice as many as there are, before it is tidied

LOST_MAX: Final = 16  # items without a place that `by_key` may hold beside as many as have one

NO_PLACE: Final = -1  # of an item that is not in `kept`, or not yet
DISCARDED: Final = -2  # of one that another call has taken out of `by_key`: it gets no place any more
SEEN: Final = -3  # minus its place, of an item that is met while `_edge` is tidied

ABSENT: Final = object()  # instead of a value


@final
@mypyc_attr(acyclic=True)
class Item(Timer):
    """When an item expires, where its key and value are, and its neighbours in the order of use."""

    __slots__ = ("expires_ns", "newer", "older", "place", "ttl_ends_ns", "weight")

    def __init__(self, ring: "Item | None") -> None:
        super().__init__(0, None, FIRED, FIRED)
        self.expires_ns = 0  # 0 as soon as it is removed: nobody who still holds it takes it for a live one
        self.ttl_ends_ns = 0  # reading moves `expires_ns`, but not beyond this; `origin_ns` if there is no such end
        self.weight = 1
        self.place: i64 = NO_PLACE  # in `kept`
        self.older: Item = self if ring is None else ring
        self.newer: Item = self if ring is None else ring


# Neighbour of the items that are in no ring: an item that referred to itself would never be freed.
OUTSIDE: Final = Item(None)


@final
class CacheItems:
    """Everything a cache holds."""

    # Empty and taking no more: while the cache is collected, and until it is made. One whose constructor is interrupted
    # is finalized too, with nothing in it to close.
    closed: bool = True

    def __init__(self, now_ns: int) -> None:
        self.by_key: dict[Any, Item] = {}
        self.kept: list[Any] = []
        self._end = Item(None)  # of the ring: its neighbours are the oldest and the newest
        self.weight = 0
        self._entered: i64 = 0  # how often an item was listed
        self.wheel = HierarchicalWheel(BINARY)
        # Makes all dials: making one later, while an item is scheduled, might run destructors.
        self.wheel.stop(self.wheel.start(BINARY.span - 1))
        self.origin_ns = now_ns
        self.look_ns = now_ns + TICK_NS  # when the wheel can next have something
        # What expires before the wheel's present tick ends; an item may have left, or be here twice.
        self._edge: list[Item] = []
        self._edge_ns = now_ns  # nothing of it expires before
        self._due: list[Item] = []  # last one first; an item may have left, or be here twice
        self.closed = False

    def __len__(self) -> int:
        return len(self.kept) // STRIDE

    def key(self, item: Item) -> Any:
        """Return the key of an item that is here."""
        return self.kept[item.place + 1]

    def value(self, item: Item) -> Any:
        """Return the value of an item that is here."""
        return self.kept[item.place + 2]

    def find(self, key: Any) -> Item | None:
        """Return the item of a key, expired or not; None if there is none."""
        item = self.by_key.get(key)
        return None if item is None or item.place < 0 else item

    def enter(self, key: Any, expires_ns: int, ends_ns: int, weight: int) -> Item | None:
        """Make an item, list it and schedule it; it has no place yet.

        None if the key has an item, or had one whose key has changed: it has to be looked for again.
        """
        if len(self.by_key) > 2 * len(self) + LOST_MAX:
            self._forget_lost()
        item = Item(OUTSIDE)
        item.expires_ns = expires_ns
        item.ttl_ends_ns = ends_ns
        item.weight = weight
        by_key = self.by_key
        # The code of a key may use the cache while it is compared, so it is looked up and entered in one step.
        found = by_key.setdefault(key, item)
        if found is not item:
            if found.place < 0:
                found.place = DISCARDED
                self.forget(found, key)
            return None
        if by_key is not self.by_key:  # replaced by the code of a key
            return None
        self._entered += 1
        self.schedule(item, expires_ns)
        return item

    def add(self, item: Item, key: Any, value: Any) -> bool:
        """Give a place to an item that was just entered; False if that was undone, and it has to be entered again."""
        weight = self.weight + item.weight
        place: i64 = 0
        kept = self.kept
        if kept:
            last: Item = kept[-STRIDE]
            place = last.place + STRIDE
        if item.place != NO_PLACE or self.closed:
            return False
        kept += VACANT
        kept[-3] = item
        kept[-2] = key
        kept[-1] = value
        item.place = place
        self.weight = weight
        end = self._end
        newest = end.older
        item.older = newest
        item.newer = end
        newest.newer = item
        end.older = item
        return True

    def replace(self, item: Item, value: Any, expires_ns: int, ends_ns: int, weight: int) -> Any:
        """Give an item another value and another time, and return the value it had; ABSENT if it has left."""
        if expires_ns < item.expires_ns:
            self.schedule(item, expires_ns)
        total = self.weight + weight - item.weight
        place = item.place
        value_place = place + 2
        if place < 0:
            return ABSENT
        kept = self.kept
        old_value = kept[value_place]
        kept[value_place] = value
        self.weight = total
        item.weight = weight
        item.expires_ns = expires_ns
        item.ttl_ends_ns = ends_ns
        self.use(item)
        return old_value

    def supersede(self, old: Item, item: Item, key: Any, value: Any) -> Any:
        """Give the place of an item, whose key the caller holds, to one that was just entered; return the old value.

        ABSENT if one of them has left, and both have to be looked for again. The old one is to be forgotten.
        """
        weight = self.weight + item.weight - old.weight
        place = old.place
        key_place = place + 1
        value_place = place + 2
        if place < 0 or item.place != NO_PLACE or self.closed:
            return ABSENT
        kept = self.kept
        old_value = kept[value_place]
        kept[place] = item
        kept[key_place] = key
        kept[value_place] = value
        item.place = place
        old.place = NO_PLACE
        old.expires_ns = 0
        self.weight = weight
        older = old.older
        newer = old.newer
        older.newer = newer
        newer.older = older
        old.older = OUTSIDE
        old.newer = OUTSIDE
        end = self._end
        newest = end.older
        item.older = newest
        item.newer = end
        newest.newer = item
        end.older = item
        return old_value

    # -- the order of use

    def oldest(self) -> Item:
        """Return the least recently used item; there is one."""
        return self._end.newer

    def use(self, item: Item) -> None:
        """Make an item the most recently used one, if it is here."""
        if item.place < 0:
            return
        older = item.older
        newer = item.newer
        older.newer = newer
        newer.older = older
        end = self._end
        newest = end.older
        item.older = newest
        item.newer = end
        newest.newer = item
        end.older = item

    # -- leaving

    def take_out(self, item: Item) -> Any:
        """Take the place of an item, whose key the caller holds, and return its value; ABSENT if it has left.

        It is to be forgotten.
        """
        weight = self.weight - item.weight
        place = item.place
        key_place = place + 1
        value_place = place + 2
        if place < 0:
            return ABSENT
        kept = self.kept
        value = kept[value_place]
        last: Item = kept[-3]
        last_key = kept[-2]
        last_value = kept[-1]
        del kept[LAST]
        if last is not item:  # the last one fills the gap
            kept[place] = last
            kept[key_place] = last_key
            kept[value_place] = last_value
            last.place = place
        item.place = NO_PLACE
        item.expires_ns = 0
        self.weight = weight
        older = item.older
        newer = item.newer
        older.newer = newer
        newer.older = older
        item.older = OUTSIDE
        item.newer = OUTSIDE
        return value

    def forget(self, item: Item, key: Any) -> None:
        """Take an item without a place out of the wheel, and out of `by_key` if it is found by its key."""
        if item.pending:
            self.wheel.withdraw(item)
        try:
            found = self.by_key.pop(key, None)
        except Exception:  # noqa: BLE001 - of a key that can no longer be hashed or compared
            return
        if found is not None and found.place >= 0:  # the key was changed, and now equals that of another item
            self._list_again(found)

    def _list_again(self, item: Item) -> None:
        """List an item that was found by the key of another one.

        If its key was written meanwhile, or fails now, nobody would find it: it leaves as if it had expired.
        """
        listed = False
        by_key = self.by_key
        try:
            listed = by_key.setdefault(self.key(item), item) is item and by_key is self.by_key
        except Exception:  # noqa: BLE001, S110 - of a key that can no longer be hashed or compared
            pass
        finally:
            if not listed:
                self._let_expire(item)

    def _let_expire(self, item: Item) -> None:
        """Have an item leave with those that expire next, if it is here."""
        if item.place >= 0:
            item.expires_ns = self.origin_ns
            self.schedule(item, self.origin_ns)

    def _forget_lost(self) -> None:
        """Keep in `by_key` only what has a place and can be found, unless an item is entered meanwhile."""
        entered = self._entered
        by_key: dict[Any, Item] = {}
        for item in list(self.by_key.values()):
            if item.place >= 0:
                try:
                    listed = by_key.setdefault(self.key(item), item)
                except Exception:  # noqa: BLE001 - as above
                    listed = OUTSIDE
                if listed is not item:
                    self._let_expire(item)
        if entered == self._entered and not self.closed:
            self.by_key = by_key

    # -- expiry

    def gather_due(self, now_ns: int, *, to_the_ns: bool) -> bool:
        """Have items that may have expired listed by `next_due`, up to a batch; tell whether there may be more.

        To the nanosecond, the wheel is turned to the end of the present tick.
        """
        edge: list[Item] = []
        due: list[Any] = []
        if self.closed:
            return False
        if self._due:  # of a call that was interrupted, or is further up
            return True
        tick = (now_ns - self.origin_ns) // TICK_NS
        if tick >= TICK_MAX:
            raise DelayOutOfRange(tick, TICK_MAX)
        if self._edge and now_ns >= self._edge_ns:
            due = self._edge
            self._edge = edge
        edge_items = len(due)
        target = max(tick + 1 if to_the_ns else tick, self.wheel.now)
        self.look_ns = now_ns  # until all that is due has been looked at
        self._due = due
        try:
            self.wheel.advance_into(due, target, BATCH_MAX)
        except WheelClosed:
            self.close()
            return False
        due.reverse()
        return len(due) - edge_items == BATCH_MAX or self.wheel.now < target

    def next_due(self) -> Item | None:
        """Return the first item of those gathered, to be removed or scheduled again; None if there is none left."""
        return self._due[-1] if self._due else None

    def pass_over(self, item: Item) -> None:
        """Have `next_due` return the next item, unless another call has done so."""
        if self._due and self._due[-1] is item:
            self._due.pop()

    def all_passed(self) -> None:
        """Look again when the wheel can have something."""
        if not self.closed and not self._due:
            self.look_ns = self.origin_ns + (self.wheel.now + 1) * TICK_NS

    def more_due(self, now_ns: int) -> bool:
        """Tell whether something may have expired, to the tick."""
        return not self.closed and now_ns >= self.look_ns

    def all_due(self, now_ns: int) -> bool:
        """Tell whether all that has expired has left, to the nanosecond."""
        if self.closed:
            return True
        if now_ns >= self.look_ns or self._due or (self._edge and now_ns >= self._edge_ns):
            return False
        return now_ns < self.origin_ns + self.wheel.now * TICK_NS

    def schedule(self, item: Item, expires_ns: int) -> None:
        """Look at an item when it expires, or before: a timer that comes due sooner is left as it is."""
        due = (expires_ns - self.origin_ns + TICK_NS - 1) // TICK_NS
        if due <= self.wheel.now:
            if len(self._edge) > 2 * len(self) + EDGE_SPARE:
                self._tidy_edge()
            self._edge_ns = min(self._edge_ns, expires_ns) if self._edge else expires_ns
            self._edge.append(item)
        elif not item.pending or due < item.due:
            try:
                self.wheel.admit(item, min(due, TICK_MAX))
            except WheelClosed:
                self.close()

    def _tidy_edge(self) -> None:
        """Keep in `_edge` each item that is here once: on a clock that stands still nothing takes them out.

        In place, because making a list might run destructors.
        """
        edge = self._edge
        kept = 0
        for at in range(len(edge)):
            item = edge[at]
            if item.place >= 0:
                item.place = SEEN - item.place
                edge[kept] = item
                kept += 1
        for at in range(kept):
            item = edge[at]
            item.place = SEEN - item.place
        while len(edge) > kept:  # last: there may be no memory to shrink it
            edge.pop()

    def next_look_ns(self) -> int | None:
        """Return when something may expire; None if there is nothing."""
        if self.closed:
            return None
        if self._edge or self._due:
            return self.look_ns
        due = self.wheel.next_due()
        return None if due is None else self.origin_ns + due * TICK_NS

    # -- the end

    def close(self) -> None:
        """Become empty for good.

        The collector finalizes the cache, its wheel and its values in any order, and a value may use its cache then.
        """
        no_keys: dict[Any, Item] = {}
        none_kept: list[Any] = []
        no_edge: list[Item] = []
        none_due: list[Item] = []
        self.closed = True
        self.weight = 0
        by_key = self.by_key
        kept = self.kept
        edge = self._edge
        due = self._due
        self.by_key = no_keys
        self.kept = none_kept
        self._edge = no_edge
        self._due = none_due
        item = self._end
        while item.newer is not OUTSIDE:
            newer = item.newer
            item.older = OUTSIDE
            item.newer = OUTSIDE
            item.place = NO_PLACE
            item.expires_ns = 0
            item = newer
        edge.clear()
        due.clear()
        by_key.clear()
        kept.clear()  # last of all: it runs finalizers

    def __del__(self) -> None:
        # The ring is a reference cycle that the collector cannot see.
        if not self.closed:
            self.close()
