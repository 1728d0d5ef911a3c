"""A cache forgets what is over and what is too much, says so, and agrees with a plain dict otherwise."""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tickwheel import ManualTimers, TTLCache, VirtualClock
from tickwheel.errors import InvalidCache, InvalidDuration


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def gone() -> list[Any]:
    return []


@pytest.fixture
def cache(clock: VirtualClock, gone: list[Any]) -> TTLCache[str, int]:
    return TTLCache(3, "10s", clock=clock, on_evict=lambda *what: gone.append(what))


def test_an_item_expires_to_the_nanosecond(cache: TTLCache[str, int], clock: VirtualClock) -> None:
    cache["a"] = 1
    clock.advance_ns(10 * 10**9 - 1)
    assert cache["a"] == 1
    assert cache.ttl("a") == 1e-9
    clock.advance_ns(1)
    with pytest.raises(KeyError):
        cache["a"]
    assert "a" not in cache
    assert cache.ttl("a") is None
    assert cache.get("a", 7) == 7
    assert (len(cache), list(cache)) == (0, [])


def test_an_item_may_live_as_long_as_it_is_told(cache: TTLCache[str, int], clock: VirtualClock) -> None:
    cache.set("short", 1, ttl="1s")
    cache.set("long", 2, ttl="1h")
    clock.advance(30)
    assert dict(cache) == {"long": 2}


def test_the_least_recently_used_goes_when_there_are_too_many(cache: TTLCache[str, int], gone: list[Any]) -> None:
    cache["a"], cache["b"], cache["c"] = 1, 2, 3
    assert cache["a"] == 1
    cache["d"] = 4
    assert set(cache) == {"a", "c", "d"}
    assert gone == [("b", 2, "size")]


def test_every_way_to_go_has_its_cause(cache: TTLCache[str, int], clock: VirtualClock, gone: list[Any]) -> None:
    cache["a"] = 1
    cache["a"] = 2
    del cache["a"]
    cache["b"] = 3
    clock.advance(10)
    cache.expire()
    cache["c"] = 4
    cache.clear()
    assert gone == [("a", 1, "replaced"), ("a", 2, "deleted"), ("b", 3, "expired"), ("c", 4, "deleted")]


def test_setting_an_item_gives_it_its_whole_time_again(cache: TTLCache[str, int], clock: VirtualClock) -> None:
    cache["a"] = 1
    clock.advance(9)
    cache["a"] = 2
    clock.advance(9)
    assert cache["a"] == 2


def test_memory_is_freed_when_something_is_written(cache: TTLCache[str, int], clock: VirtualClock) -> None:
    cache["a"], cache["b"] = 1, 2
    clock.advance(11)
    cache["c"] = 3
    assert set(cache._items) == {"c"}


def test_on_timers_memory_is_freed_by_itself(gone: list[Any]) -> None:
    clock = VirtualClock()
    timers = ManualTimers(clock)
    cache: TTLCache[str, int] = TTLCache(9, "10s", clock=clock, timers=timers, on_evict=lambda *what: gone.append(what))
    cache["a"] = 1
    cache.set("b", 2, ttl="3s")
    timers.advance(3)
    assert gone == [("b", 2, "expired")]
    timers.advance(7)
    assert gone == [("b", 2, "expired"), ("a", 1, "expired")]
    assert len(timers) == 0


def test_callbacks_may_use_the_cache(clock: VirtualClock) -> None:
    cache: TTLCache[str, int] = TTLCache(
        1, 10, clock=clock, on_evict=lambda key, value, _: kept.update({key: (value, len(cache))})
    )
    kept: dict[str, tuple[int, int]] = {}
    cache["a"] = 1
    cache["b"] = 2
    assert kept == {"a": (1, 1)}


def test_hits_and_misses_are_counted(cache: TTLCache[str, int]) -> None:
    cache["a"] = 1
    cache.get("a")
    cache.get("b")
    assert (cache.hits, cache.misses, cache.maxsize) == (1, 1, 3)


def test_bad_input_is_refused(cache: TTLCache[str, int]) -> None:
    with pytest.raises(InvalidCache, match="at least 1"):
        TTLCache(0, 10)
    for ttl in (-1, "soon"):
        with pytest.raises(InvalidDuration):
            TTLCache(1, ttl)
        with pytest.raises(InvalidDuration):
            cache.set("a", 1, ttl=ttl)
    with pytest.raises(KeyError):
        del cache["a"]
    assert len(cache) == 0


class CacheMachine(RuleBasedStateMachine):
    """A cache beside a list of (key, value, when it is over), used most recently last."""

    MAXSIZE = 4
    keys = st.sampled_from("abcdefgh")

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.cache: TTLCache[str, int] = TTLCache(self.MAXSIZE, 5, clock=self.clock)
        self.model: list[tuple[str, int, int]] = []
        self.serial = 0

    def live(self) -> list[tuple[str, int, int]]:
        return [entry for entry in self.model if entry[2] > self.clock.monotonic_ns()]

    @rule(key=keys, ttl_ms=st.sampled_from([0, 1, 999, 1000, 5000, 60_000]))
    def set(self, key: str, ttl_ms: int) -> None:
        self.serial += 1
        self.cache.set(key, self.serial, ttl=ttl_ms / 1000)
        # What has expired is gone before anything else, to the wheel's tick, which these times fall on.
        self.model = [entry for entry in self.live() if entry[0] != key]
        if ttl_ms:
            self.model.append((key, self.serial, self.clock.monotonic_ns() + ttl_ms * 10**6))
            self.model = self.model[-self.MAXSIZE :]

    @rule(key=keys)
    def get(self, key: str) -> None:
        found = [entry for entry in self.live() if entry[0] == key]
        assert self.cache.get(key) == (found[0][1] if found else None)
        if found:
            self.model.remove(found[0])
            self.model.append(found[0])

    @rule(key=keys)
    def pop(self, key: str) -> None:
        found = [entry for entry in self.live() if entry[0] == key]
        assert self.cache.pop(key, None) == (found[0][1] if found else None)
        self.model = [entry for entry in self.model if entry[0] != key]

    @rule(ms=st.sampled_from([1, 500, 1000, 5000]))
    def wait(self, ms: int) -> None:
        self.clock.advance_ns(ms * 10**6)

    @invariant()
    def agree(self) -> None:
        assert dict(self.cache._items.items()).keys() >= {key for key, _, _ in self.live()}
        assert set(self.cache) == {key for key, _, _ in self.live()}
        assert len(self.cache) == len(self.live())
        self.cache._wheel.check()


TestCacheMachine = CacheMachine.TestCase
