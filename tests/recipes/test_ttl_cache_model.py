"""A cache agrees with a naive model of it, a list, after any sequence of operations."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tickwheel import TTLCache, VirtualClock

MS = 10**6
FOREVER_NS = 10**18
KEYS = st.sampled_from("abcdefgh")
WEIGHTS = st.integers(0, 4)
TTLS_NS = st.sampled_from([0, 1, MS // 3, MS, 5 * MS, 999 * MS, 60_000 * MS])


@dataclass
class Entry:
    """An item of the model."""

    key: str
    value: tuple[int, int]  # a serial number and a weight
    ends_ns: int
    expires_ns: int


class CacheMachine(RuleBasedStateMachine):
    """A cache beside a list of entries, used most recently last, and of notices."""

    @initialize(access_ns=st.sampled_from([0, 2 * MS + 7, 700 * MS]), weighted=st.booleans())
    def begin(self, access_ns: int, weighted: bool) -> None:
        self.clock = VirtualClock()
        self.gone: list[Any] = []
        self.cache: TTLCache[str, tuple[int, int]] = TTLCache(
            5,
            5,
            expire_after_access=access_ns / 1e9 if access_ns else None,
            weigher=(lambda _, value: value[1]) if weighted else None,
            on_evict=lambda *what: self.gone.append(what),
            clock=self.clock,
        )
        self.access_ns, self.weighted = access_ns, weighted
        self.model: list[Entry] = []
        self.left: list[Any] = []  # what the model says has left
        self.hits = self.misses = self.serial = 0

    # -- the model

    @property
    def now_ns(self) -> int:
        return self.clock.monotonic_ns()

    def drop_expired(self) -> None:
        for entry in [entry for entry in self.model if entry.expires_ns <= self.now_ns]:
            self.drop(entry, "expired")

    def drop(self, entry: Entry, cause: str) -> None:
        self.model.remove(entry)
        self.left.append((entry.key, entry.value, cause))

    def find(self, key: str) -> Entry | None:
        return next((entry for entry in self.model if entry.key == key), None)

    def read(self, key: str) -> Entry | None:
        entry = self.find(key)
        if entry is None:
            self.misses += 1
            return None
        self.hits += 1
        self.model.remove(entry)
        self.model.append(entry)
        if self.access_ns:
            entry.expires_ns = min(self.now_ns + self.access_ns, entry.ends_ns)
        return entry

    def write(self, key: str, value: tuple[int, int], ttl_ns: int) -> None:
        entry = self.find(key)
        if entry is not None:
            self.drop(entry, "replaced")
        if ttl_ns == 0:
            self.left.append((key, value, "expired"))
            return
        ends_ns = self.now_ns + ttl_ns
        expires_ns = min(ends_ns, self.now_ns + (self.access_ns or FOREVER_NS))
        self.model.append(Entry(key, value, ends_ns, expires_ns))
        while self.weight() > 5:
            self.drop(self.model[0], "size")

    def weight(self) -> int:
        return sum(entry.value[1] if self.weighted else 1 for entry in self.model)

    def next_value(self, weight: int) -> tuple[int, int]:
        self.serial += 1
        return self.serial, weight

    # -- the same to both

    @rule(key=KEYS, weight=WEIGHTS, ttl_ns=TTLS_NS)
    def set(self, key: str, weight: int, ttl_ns: int) -> None:
        value = self.next_value(weight)
        self.cache.set(key, value, ttl=ttl_ns / 1e9)
        self.write(key, value, ttl_ns)

    @rule(key=KEYS, weight=WEIGHTS)
    def set_item(self, key: str, weight: int) -> None:
        value = self.next_value(weight)
        self.cache[key] = value
        self.write(key, value, 5000 * MS)

    @rule(key=KEYS)
    def get(self, key: str) -> None:
        found = self.read(key)
        assert self.cache.get(key) == (found and found.value)

    @rule(key=KEYS, weight=WEIGHTS)
    def setdefault(self, key: str, weight: int) -> None:
        value = self.next_value(weight)
        found = self.read(key)
        assert self.cache.setdefault(key, value) == (found.value if found else value)
        if found is None:
            self.write(key, value, 5000 * MS)

    @rule(key=KEYS, weight=WEIGHTS, ttl_ns=TTLS_NS)
    def get_or_load(self, key: str, weight: int, ttl_ns: int) -> None:
        value = self.next_value(weight)
        found = self.read(key)
        assert self.cache.get_or_load(key, lambda _: value, ttl=ttl_ns / 1e9) == (found.value if found else value)
        if found is None:
            self.write(key, value, ttl_ns)

    @rule(key=KEYS)
    def pop(self, key: str) -> None:
        found = self.find(key)
        assert self.cache.pop(key, None) == (found and found.value)
        if found is not None:
            self.drop(found, "deleted")

    @precondition(lambda self: self.model)
    @rule()
    def popitem(self) -> None:
        oldest = self.model[0]
        assert self.cache.popitem() == (oldest.key, oldest.value)
        self.drop(oldest, "deleted")

    @rule()
    def clear(self) -> None:
        self.cache.clear()
        for entry in list(self.model):
            self.drop(entry, "deleted")

    @rule(ns=st.sampled_from([1, MS // 3, MS, 3 * MS + 1, 500 * MS, 5000 * MS, 90_000 * MS]))
    def wait(self, ns: int) -> None:
        self.clock.advance_ns(ns)
        self.drop_expired()

    @invariant()
    def agree(self) -> None:
        if not hasattr(self, "cache"):
            return
        assert dict(self.cache.items()) == {entry.key: entry.value for entry in self.model}
        for key in "abcdefgh":
            entry = self.find(key)
            assert (key in self.cache) == (entry is not None)
            assert self.cache.ttl(key) == (entry and (entry.expires_ns - self.now_ns) / 1e9)
        assert len(self.cache) == len(self.model)  # frees what has expired, to the nanosecond
        assert self.cache.weight == self.weight()
        assert (self.cache.hits, self.cache.misses) == (self.hits, self.misses)
        assert sorted(self.gone) == sorted(self.left)  # in one step, what expires and what goes otherwise may swap
        self.gone.clear()
        self.left.clear()
        self.cache._store.items.wheel.check()


TestCacheMachine = CacheMachine.TestCase
