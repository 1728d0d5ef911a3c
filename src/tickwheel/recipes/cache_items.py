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

A key whose hash changes cannot be found in `by_key` when its item is removed. The item stays there, with no place in
`kept`, and counts as absent; `add` clears such items away when there are as many as others.
"""

from typing import Any, Final, final

from mypy_extensions import i64, mypyc_attr

from tickwheel.errors import WheelClosed
from tickwheel.wheels.geometry import BINARY
from tickwheel.wheels.hierarchical_wheel import HierarchicalWheel
from tickwheel.wheels.timer import FIRED, Timer

__all__ = ["BATCH_MAX", "TICK_NS", "CacheItems", "Item"]

TICK_NS: Final[int] = BINARY.tick_ns

# How many timers are taken from the wheel at once, which bounds how long a write takes: about 10 microseconds.
BATCH_MAX: Final = 64

STRIDE: Final = 3  # places an item takes in `kept`

LOST_MAX: Final = 16  # items without a place that `by_key` may hold beside as many as have one

NEVER_NS: Final[int] = 2**62


@final
@mypyc_attr(acyclic=True)
class Item(Timer):
    """When an item expires, where its key and value are, and its neighbours in the order of use."""

    __slots__ = ("expires_ns", "newer", "older", "place", "ttl_ends_ns", "weight")

    def __init__(self, ring: "Item | None") -> None:
        super().__init__(0, None, FIRED, FIRED)
        self.expires_ns = 0  # 0 as soon as it is removed: nobody who still holds it takes it for a live one
        self.ttl_ends_ns = 0  # reading moves `expires_ns`, but not beyond this
        self.weight = 1
        self.place: i64 = -1  # in `kept`; -1 in none
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
        self.origin_ns = now_ns
        self.look_ns = now_ns + TICK_NS  # when the wheel can next have something
        # What expires before the wheel's present tick ends; an item may have left, or be here twice.
        self._edge: list[Item] = []
        self._edge_ns = NEVER_NS  # nothing of it expires before
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

    def add(self, key: Any, value: Any, expires_ns: int, weight: int) -> Item | None:
        """Add an item; None if the code of a key has interfered, and it has to be looked for again."""
        if self.closed:
            return Item(OUTSIDE)
        if len(self.by_key) > 2 * len(self) + LOST_MAX:
            self._forget_lost()
        item = Item(OUTSIDE)
        # The code of a key may use the cache while it is compared, so it is looked up and entered in one step.
        found = self.by_key.setdefault(key, item)
        if found is not item:
            if found.place < 0:
                self.by_key.pop(key, None)
            return None
        item.place = len(self.kept)
        self.kept.append(item)
        self.kept.append(key)
        self.kept.append(value)
        item.expires_ns = expires_ns
        item.weight = weight
        self.weight += weight
        self._link(item)
        self.schedule(item)
        return item

    def replace(self, item: Item, value: Any, expires_ns: int, weight: int) -> None:
        """Give an item another value and another time; the caller holds the value it had."""
        self.kept[item.place + 2] = value
        self.weight += weight - item.weight
        item.weight = weight
        sooner = expires_ns < item.expires_ns
        item.expires_ns = expires_ns
        self.use(item)
        if sooner:
            self.schedule(item)

    def relabel(self, item: Item, old_key: Any, key: Any, value: Any) -> bool:
        """Make an item that of a new key; the caller holds the key and the value it had.

        False if the hash of the old key has changed, or the code of a key has used the cache meanwhile: the item has
        to be removed then.
        """
        if self._unlist(item, old_key) and self.by_key.setdefault(key, item) is item:
            if item.place >= 0:
                self.kept[item.place + 1] = key
                self.kept[item.place + 2] = value
                return True
            self._unlist(item, key)
        return False

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

    def remove(self, item: Item, key: Any) -> bool:
        """Take an item out, whose key and value the caller holds; False if the code of its key has done so."""
        self._unlist(item, key)
        place = item.place
        if place < 0:
            return False
        kept = self.kept
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
        item.place = -1
        item.expires_ns = 0
        self.weight -= item.weight
        item.older.newer = item.newer
        item.newer.older = item.older
        item.older = OUTSIDE
        item.newer = OUTSIDE
        self.wheel.stop(item)
        return True

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
                continue
            try:
                self.by_key.setdefault(key, item)
            except Exception:  # noqa: BLE001, S112 - as above: nobody can find it, and it leaves when it expires
                continue

    # -- expiry

    def due(self, now_ns: int, *, to_the_ns: bool) -> list[Item]:
        """List items that may have expired, to be removed or scheduled again; there are more if `look_ns` is not past.

        To the nanosecond, the wheel is turned to the end of the present tick.
        """
        due: list[Item] = []
        if self.closed:
            return due
        if now_ns >= self._edge_ns:
            due = self._edge
            self._edge = []
            self._edge_ns = NEVER_NS
        tick = (now_ns - self.origin_ns) // TICK_NS
        target = max(tick + 1 if to_the_ns else tick, self.wheel.now)
        try:
            batch: list[Any] = self.wheel.advance(target, BATCH_MAX)
        except WheelClosed:
            self.close()
            return []
        due.extend(batch)
        more = len(batch) == BATCH_MAX or self.wheel.now < target
        self.look_ns = now_ns if more else self.origin_ns + (target + 1) * TICK_NS
        return due

    def all_due(self, now_ns: int) -> bool:
        """Tell whether `due` has listed all that has expired, to the nanosecond."""
        wheel_ns = self.origin_ns + self.wheel.now * TICK_NS
        return now_ns < self.look_ns and now_ns < self._edge_ns and (now_ns < wheel_ns or self.closed)

    def put_back(self, due: list[Item]) -> None:
        """List items again that `due` has listed."""
        self._edge.extend(due)
        self._edge_ns = self.look_ns = self.origin_ns

    def schedule(self, item: Item) -> None:
        """Look at an item when it expires, or before: a timer that comes due sooner is left as it is."""
        due = (item.expires_ns - self.origin_ns + TICK_NS - 1) // TICK_NS
        if due <= self.wheel.now:
            self._edge.append(item)
            self._edge_ns = min(self._edge_ns, item.expires_ns)
        elif not item.pending or due < item.due:
            try:
                self.wheel.restart(item, due - self.wheel.now)
            except WheelClosed:
                self.close()

    def next_look_ns(self) -> int | None:
        """Return when something may expire; None if there is nothing."""
        if self.closed:
            return None
        if self._edge:
            return self.look_ns
        due = self.wheel.next_due()
        return None if due is None else self.origin_ns + due * TICK_NS

    # -- the end

    def close(self) -> None:
        """Become empty for good.

        The collector finalizes the cache, its wheel and its values in any order, and a value may use its cache then.
        """
        self.closed = True
        self.weight = 0
        self.look_ns = NEVER_NS
        by_key = self.by_key
        kept = self.kept
        self.by_key = {}
        self.kept = []
        self._edge = []
        self._edge_ns = NEVER_NS
        item = self._end
        while item.newer is not OUTSIDE:
            newer = item.newer
            item.older = OUTSIDE
            item.newer = OUTSIDE
            item.place = -1
            item.expires_ns = 0
            item = newer
        by_key.clear()
        kept.clear()  # last of all: it runs finalizers

    def __del__(self) -> None:
        # The ring is a reference cycle that the collector cannot see.
        self.close()
