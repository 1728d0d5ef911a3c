"""What it costs to set and to get the items of a cache that is full, and whose items expire.

`cache_set` times two halves, between which the cache is left alone until its items begin to expire:

    t     0              1              2                        ttl + 1        ttl + 2
    ------|--------------|--------------|--------------|---------|--------------|
          fill one half  fill the other timed                    timed
                                        what was set from 0 to 1  what was set from 1 to 2
                                        goes, by size             goes, by expiry

The unit of this drawing is the time the cache in question takes to set a half, so that faster and slower ones do
the same. `cache_get` gets items in the order they were set, and `cache_get_random` by chance, each of them a hit;
`cache_replace` sets items that are there; `cache_evict` sets new keys, for each of which the least recently used goes.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from itertools import cycle, islice
from threading import Lock
from typing import TYPE_CHECKING

from bench.draws import draw_keys, make_keys
from bench.lap import FURTHER, Lap, in_chunks, time_ns

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping, Sequence
    from typing import TypeAlias

    from bench.subjects import Subject

    Cache: TypeAlias = "MutableMapping[str, str] | LockedDict"

__all__ = ["CacheRig", "LockedDict", "evict_items", "get_in_order", "get_random", "replace_items", "set_items"]

HOUR_SECONDS = 3600.0  # a time to live for items that are to stay
TTL_SECONDS_MIN = 0.25  # more than a busy machine keeps a process waiting
TTL_HALVES = 5  # in halves as above: one is filled, one is timed, and one of them may take thrice as long
EXPIRED_SECONDS = 0.001  # how long items have been expiring when the second half begins
WARM_UP_ITEMS = 100


class LockedDict:
    """What one writes without a library: an `OrderedDict` with a lock and a deadline for each item."""

    def __init__(self, maxsize: int, ttl_seconds: float) -> None:
        self.maxsize, self.ttl = maxsize, ttl_seconds
        self.items: OrderedDict[str, tuple[float, str]] = OrderedDict()
        self.lock = Lock()

    def __getitem__(self, key: str) -> str:
        with self.lock:
            deadline, value = self.items[key]
            if deadline <= time.monotonic():
                del self.items[key]
                raise KeyError(key)
            self.items.move_to_end(key)
            return value

    def __setitem__(self, key: str, value: str) -> None:
        with self.lock:
            self.items[key] = (time.monotonic() + self.ttl, value)
            self.items.move_to_end(key)
            if len(self.items) > self.maxsize:
                self.items.popitem(last=False)

    def __contains__(self, key: str) -> bool:
        item = self.items.get(key)
        return item is not None and item[0] > time.monotonic()


class CacheRig:
    """A way to make caches, and the one made last."""

    def __init__(self, make: Callable[[int, float], Cache]) -> None:
        self.make = make
        self.cache: Cache = {}

    def renew(self, maxsize: int, ttl_seconds: float) -> None:
        """Begin with an empty cache."""
        self.cache = self.make(maxsize, ttl_seconds)

    def warm_up(self) -> None:
        """Set and get a few items."""
        self.renew(WARM_UP_ITEMS, HOUR_SECONDS)
        self.set(make_keys(0, 2 * WARM_UP_ITEMS))
        self.get(make_keys(WARM_UP_ITEMS, WARM_UP_ITEMS))

    def set(self, keys: Sequence[str]) -> None:
        """Set an item for each key; its value is the key."""
        cache = self.cache
        for key in keys:
            cache[key] = key

    def get(self, keys: Sequence[str]) -> list[str]:
        """Get the item of each key."""
        cache = self.cache
        return [cache[key] for key in keys]

    def count(self, keys: Sequence[str]) -> int:
        """Say how many of the keys are there."""
        return sum(key in self.cache for key in keys)

    def close(self) -> None:
        """Let go of the cache."""
        self.cache = {}


def set_items(rig: CacheRig, _subject: Subject, n: int) -> Lap:
    """Set n new keys in a cache of n items: half of these go by size, the others by expiry."""
    half = n // 2
    oldest, older, newer, newest = (make_keys(part * half, half) for part in range(4))
    rig.renew(2 * half, HOUR_SECONDS)
    rig.set(oldest)
    half_seconds = time_ns(lambda: rig.set(older)) / 1e9
    ttl_seconds = TTL_SECONDS_MIN + TTL_HALVES * half_seconds
    rig.renew(2 * half, ttl_seconds)
    rig.set(oldest)
    expiring_at = time.monotonic() + ttl_seconds
    rig.set(older)
    by_size_ns = time_ns(lambda: rig.set(newer))
    _expect(rig.count(oldest), 0)
    time.sleep(max(expiring_at - time.monotonic(), 0.0) + EXPIRED_SECONDS)
    by_expiry_ns = time_ns(lambda: rig.set(newest))
    _expect(rig.count(newest), half)
    assert rig.count(older) < half, "nothing expired"
    return Lap(by_size_ns + by_expiry_ns, 2 * half)


def get_in_order(rig: CacheRig, _subject: Subject, n: int) -> Lap:
    """Get items of a cache of n, all of them hits: each lies in memory beside the one before it."""
    return _get_items(rig, n, lambda keys: list(islice(cycle(keys), FURTHER)))


def get_random(rig: CacheRig, _subject: Subject, n: int) -> Lap:
    """Do the same by chance: in a large cache each is far from the one before it."""
    return _get_items(rig, n, lambda keys: draw_keys(keys, FURTHER))


def _get_items(rig: CacheRig, n: int, draw: Callable[[list[str]], list[str]]) -> Lap:
    keys = make_keys(0, n)
    rig.renew(n, HOUR_SECONDS)
    rig.set(keys)
    drawn = draw(keys)

    def chunk(first: int, size: int) -> int:
        wanted = drawn[first : first + size]
        began_ns = time.perf_counter_ns()
        values = rig.get(wanted)
        took_ns = time.perf_counter_ns() - began_ns
        _expect(sum(value == key for value, key in zip(values, wanted, strict=True)), size)
        return took_ns

    return in_chunks(chunk)


def replace_items(rig: CacheRig, _subject: Subject, n: int) -> Lap:
    """Set items of a cache of n that are there already."""
    keys = make_keys(0, n)
    rig.renew(n, HOUR_SECONDS)
    rig.set(keys)
    drawn = draw_keys(keys, FURTHER)
    lap = in_chunks(lambda first, size: _time_set(rig, drawn[first : first + size]))
    _expect(rig.count(keys), n)
    return lap


def evict_items(rig: CacheRig, _subject: Subject, n: int) -> Lap:
    """Set new keys in a cache of n items that do not expire: the least recently used go."""
    keys = make_keys(0, n)
    rig.renew(n, HOUR_SECONDS)
    rig.set(keys)
    further = make_keys(n, FURTHER)
    lap = in_chunks(lambda first, size: _time_set(rig, further[first : first + size]))
    _expect(rig.count(keys), max(n - lap.operations, 0))
    return lap


def _time_set(rig: CacheRig, keys: Sequence[str]) -> int:
    return time_ns(lambda: rig.set(keys))


def _expect(hits: int, expected: int) -> None:
    if hits != expected:
        message = f"{hits} hits, {expected} there should have been"
        raise AssertionError(message)
