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

A key whose hash changes cannot be found in `by_key` when its item is removed. The item stays there, with no place in
`kept`, and counts as absent; `add` clears such items away when there are as many as others.

The code of a key may use the cache while its item is looked up, entered or removed. So may a destructor that the
garbage collector runs when an object is made. A method therefore does both first, looks at the items again, and then
changes them in one run that calls nothing and makes nothing the collector tracks: an `Item` is not tracked. So
whatever interrupts it finds the items whole, and so does a process that is forked meanwhile. Interpreted, a
`KeyboardInterrupt` may come between any two lines, and so may a destructor since Python 3.12: that is not covered.
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

EDGE_SPARE: Final = 64  # items `_edge` may hold beside twice as many as there are, before it is tidied

LOST_MAX: Final = 16  # items without a place that `by_key` may hold beside as many as have one

NO_PLACE: Final = -1  # of an item that is not in `kept`, or not yet
DISCARDED: Final = -2  # of one that was taken out of `by_key` before it got a place
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

    def __init__(self, now_ns: int) -> None:
        self.by_key: dict[Any, Item] = {}
        self.kept: list[Any] = []
        self._end = Item(None)  # of the ring: its neighbours are the oldest and the newest
        self.weight = 0
        self.wheel = HierarchicalWheel(BINARY)
        # Makes all dials: making one later, while an item is scheduled, might run destructors.
        self.wheel.stop(self.wheel.start(BINARY.span - 1))
        self.origin_ns = now_ns
        self.look_ns = now_ns + TICK_NS  # when the wheel can next have something
        # What expires before the wheel's present tick ends; an item may have left, or be here twice.
        self._edge: list[Item] = []
        self._edge_ns = now_ns  # nothing of it expires before
        self._due: list[Item] = []  # last one first; an item may have left, or be here twice
        self.closed = False  # while the cache is collected: it is empty and takes no more

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

    def add(self, key: Any, value: Any, expires_ns: int, ends_ns: int, weight: int) -> Item | None:
        """Add an item; None if the code of a key has interfered, and it has to be looked for again."""
        if self.closed:
            return Item(OUTSIDE)
        item: Item | None = self._enter(key)
        if item is None or self.closed:
            return item
        item.place = len(self.kept)
        self.kept.append(item)
        self.kept.append(key)
        self.kept.append(value)
        item.expires_ns = expires_ns
        item.ttl_ends_ns = ends_ns
        item.weight = weight
        self.weight += weight
        self._link(item)
        self.schedule(item)
        return item

    def replace(self, item: Item, value: Any, expires_ns: int, ends_ns: int, weight: int) -> None:
        """Give an item another value and another time; the caller holds the value it had."""
        self.kept[item.place + 2] = value
        self.weight += weight - item.weight
        item.weight = weight
        sooner = expires_ns < item.expires_ns
        item.expires_ns = expires_ns
        item.ttl_ends_ns = ends_ns
        self.use(item)
        if sooner:
            self.schedule(item)

    def supersede(
        self, old: Item, old_key: Any, key: Any, value: Any, expires_ns: int, ends_ns: int, weight: int
    ) -> Any:
        """Remove an item, whose key the caller holds, add one in its place, and return the value that has left.

        ABSENT if the code of a key has interfered, and both have to be looked for again.
        """
        item = self._enter(key)
        if item is None:
            return ABSENT
        self._unlist(old, old_key)
        place = old.place
        if place < 0 or item.place == DISCARDED or self.closed:
            if item.place == NO_PLACE:
                self._unlist(item, key)
            return ABSENT
        item.place = place
        kept = self.kept
        old_value = kept[place + 2]
        kept[place] = item
        kept[place + 1] = key
        kept[place + 2] = value
        item.expires_ns = expires_ns
        item.ttl_ends_ns = ends_ns
        item.weight = weight
        self.weight += weight
        self._link(item)
        self._release(old)
        self.schedule(item)
        return old_value

    def _enter(self, key: Any) -> Item | None:
        """Enter a new item in `by_key`, without a place; None if the key has an item."""
        if len(self.by_key) > 2 * len(self) + LOST_MAX:
            self._forget_lost()
        item = Item(OUTSIDE)
        # The code of a key may use the cache while it is compared, so it is looked up and entered in one step.
        found = self.by_key.setdefault(key, item)
        if found is item:
            return item
        if found.place < 0:
            self._unlist(found, key)
            if found.place == NO_PLACE:
                found.place = DISCARDED
        return None

    # -- the order of use

    def oldest(self) -> Item:
        """Return the least recently used item; there is one."""
        return self._end.newer

    def use(self, item: Item) -> None:
        """Make an item the most recently used one."""
        older = item.older
        newer = item.newer
        older.newer = newer
        newer.older = older
        self._link(item)

    def _link(self, item: Item) -> None:
        end = self._end
        newest = end.older
        item.older = newest
        item.newer = end
        newest.newer = item
        end.older = item

    # -- leaving

    def remove(self, item: Item, key: Any) -> Any:
        """Take an item out, whose key the caller holds, and return its value; ABSENT if it was taken out meanwhile."""
        self._unlist(item, key)
        place = item.place
        if place < 0:
            return ABSENT
        kept = self.kept
        value = kept[place + 2]
        last = len(kept) - STRIDE
        if place != last:  # the last one fills the gap
            moved = kept[last]
            kept[place] = moved
            kept[place + 1] = kept[last + 1]
            kept[place + 2] = kept[last + 2]
            assert isinstance(moved, Item)
            moved.place = place
        kept.pop()
        kept.pop()
        kept.pop()
        self._release(item)
        return value

    def _release(self, item: Item) -> None:
        """Take an item that has left `kept` out of the ring and the wheel."""
        item.place = NO_PLACE
        item.expires_ns = 0
        self.weight -= item.weight
        item.older.newer = item.newer
        item.newer.older = item.older
        item.older = OUTSIDE
        item.newer = OUTSIDE
        if item.pending:
            self.wheel.withdraw(item)

    def _unlist(self, item: Item, key: Any) -> bool:
        """Take an item out of `by_key`; False if it is not found by its key."""
        try:
            found = self.by_key.pop(key, None)
            if found is item:
                return True
            if found is not None and found.place >= 0:  # the key was changed, and now equals that of another item
                self.by_key.setdefault(self.key(found), found)
        except Exception:  # noqa: BLE001, S110 - of a key that can no longer be hashed or compared: its item is lost
            pass
        return False

    def _forget_lost(self) -> None:
        """Keep in `by_key` only what has a place."""
        listed = list(self.by_key.items())
        self.by_key.clear()
        for key, item in listed:
            if item.place < 0:
                item.place = DISCARDED
                continue
            try:
                self.by_key.setdefault(key, item)
            except Exception:  # noqa: BLE001, S112 - as above: nobody can find it, and it leaves when it expires
                continue

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
        try:
            self.wheel.advance_into(due, target, BATCH_MAX)
        except WheelClosed:
            self.close()
            return False
        due.reverse()
        self._due = due
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

    def schedule(self, item: Item) -> None:
        """Look at an item when it expires, or before: a timer that comes due sooner is left as it is."""
        due = (item.expires_ns - self.origin_ns + TICK_NS - 1) // TICK_NS
        if due <= self.wheel.now:
            self._edge_ns = min(self._edge_ns, item.expires_ns) if self._edge else item.expires_ns
            self._edge.append(item)
            if len(self._edge) > 2 * len(self) + EDGE_SPARE:
                self._tidy_edge()
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
        while len(edge) > kept:
            edge.pop()
        for item in edge:
            item.place = SEEN - item.place

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
        self.close()
