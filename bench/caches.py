"""What it costs to set and to get the items of a cache that is full, and whose items expire.

`cache_set` times two halves, between which the cache is left alone until its items begin to expire:

    t     0              1              2                        ttl + 1        ttl + 2
    ------|--------------|--------------|--------------|---------|--------------|
          fill one half  fill the other timed                    timed
                                        what was set from 0 to 1  what was set from 1 to 2
                                        goes, by size             goes, by expiry

The unit of this drawing is the time the cache in question takes to set a half, so that faster and slower ones do
the same. `cache_get` gets items by chance, each of them a hit.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench.draws import draw_keys, make_keys
from bench.lap import FURTHER, Lap, in_chunks, time_ns

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping, Sequence

    from bench.subjects import Subject

    Cache = MutableMapping[str, str]

__all__ = ["CacheRig", "get_items", "set_items"]

HOUR_SECONDS = 3600.0  # a time to live for items that are to stay
TTL_SECONDS_MIN = 0.25  # more than a busy machine keeps a process waiting
TTL_HALVES = 5  # in halves as above: one is filled, one is timed, and one of them may take thrice as long
EXPIRED_SECONDS = 0.001  # how long items have been expiring when the second half begins
WARM_UP_ITEMS = 100


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


def get_items(rig: CacheRig, _subject: Subject, n: int) -> Lap:
    """Get items of a cache of n, all of them hits."""
    keys = make_keys(0, n)
    rig.renew(n, HOUR_SECONDS)
    rig.set(keys)
    drawn = draw_keys(keys, FURTHER)

    def chunk(first: int, size: int) -> int:
        wanted = drawn[first : first + size]
        began_ns = time.perf_counter_ns()
        values = rig.get(wanted)
        took_ns = time.perf_counter_ns() - began_ns
        _expect(sum(value == key for value, key in zip(values, wanted, strict=True)), size)
        return took_ns

    return in_chunks(chunk)


def _expect(hits: int, expected: int) -> None:
    if hits != expected:
        message = f"{hits} hits, {expected} there should have been"
        raise AssertionError(message)
