"""A cache forgets what has expired and what is too much, says so, and is a mapping otherwise."""

import logging
from collections.abc import Callable, Iterator, MutableMapping
from enum import IntEnum
from functools import partial
from typing import Any
from unittest.mock import MagicMock, Mock

import numpy as np
import pytest

from tickwheel import ManualTimers, TTLCache, VirtualClock
from tickwheel.errors import AsyncCallback, InvalidCache, InvalidClock, InvalidDuration, InvalidTimers, InvalidWeight


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def gone() -> list[Any]:
    return []


@pytest.fixture
def cache(clock: VirtualClock, gone: list[Any]) -> TTLCache[str, int]:
    return TTLCache(3, "10s", clock=clock, on_evict=lambda *what: gone.append(what))


# -- expiry


def test_an_item_expires_to_the_nanosecond(cache: TTLCache[str, int], clock: VirtualClock) -> None:
    clock.advance_ns(123_456)  # not on a tick of the wheel
    cache["a"] = 1
    clock.advance_ns(10 * 10**9 - 1)
    assert cache["a"] == 1
    assert cache.ttl("a") == 1e-9
    assert (len(cache), list(cache)) == (1, ["a"])
    clock.advance_ns(1)
    with pytest.raises(KeyError):
        cache["a"]
    assert "a" not in cache
    assert cache.ttl("a") is None
    assert cache.get("a", 7) == 7
    assert cache.peek("a", 7) == 7
    assert cache.pop("a", 7) == 7
    assert (len(cache), list(cache)) == (0, [])


def test_an_item_may_have_a_ttl_of_its_own(cache: TTLCache[str, int], clock: VirtualClock) -> None:
    cache.set("short", 1, ttl="1s")
    cache.set("long", 2, ttl="1h")
    clock.advance(30)
    assert dict(cache) == {"long": 2}


def test_the_ttl_may_be_a_function_of_the_item(clock: VirtualClock) -> None:
    cache: TTLCache[str, int] = TTLCache(9, lambda key, value: value if key == "own" else 100, clock=clock)
    cache["own"] = 5
    cache.setdefault("other", 5)
    assert (cache.ttl("own"), cache.ttl("other")) == (5, 100)
    cache.set("own", 5, ttl=7)
    assert cache.ttl("own") == 7
    with pytest.raises(InvalidDuration):
        cache["own"] = -1
    assert cache["own"] == 5


def test_setting_an_item_again_gives_it_its_whole_time(cache: TTLCache[str, int], clock: VirtualClock) -> None:
    cache["a"] = 1
    clock.advance(9)
    cache["a"] = 2
    clock.advance(9)
    assert cache["a"] == 2
    clock.advance(1)
    assert "a" not in cache


def test_setting_an_item_again_may_shorten_its_time(cache: TTLCache[str, int], clock: VirtualClock) -> None:
    cache["a"] = 1
    cache.set("a", 2, ttl="1s")
    clock.advance(1)
    cache.expire()
    assert len(cache._store.items) == 0


def test_an_item_with_a_ttl_of_zero_takes_nobodys_place(cache: TTLCache[str, int], gone: list[Any]) -> None:
    cache["a"], cache["b"], cache["c"] = 1, 2, 3
    cache.set("d", 4, ttl=0)
    cache.set("a", 5, ttl=0)
    assert set(cache) == {"b", "c"}
    assert gone == [("d", 4, "expired"), ("a", 1, "replaced"), ("a", 5, "expired")]


def test_reading_extends_the_time_up_to_the_ttl(clock: VirtualClock) -> None:
    cache: TTLCache[str, int] = TTLCache(9, "10s", expire_after_access="4s", clock=clock)
    cache["read"] = cache["peeked"] = cache["left"] = 1
    for _ in range(3):
        clock.advance(3)
        cache.get("read")
        cache.peek("peeked")
        list(cache.items())
    assert list(cache) == ["read"]
    assert cache.ttl("read") == 1
    clock.advance(1)
    assert len(cache) == 0


def test_without_a_ttl_an_item_lives_while_it_is_read(clock: VirtualClock) -> None:
    cache: TTLCache[str, int] = TTLCache(9, None, expire_after_access="4s", clock=clock)
    cache["a"] = 1
    for _ in range(1000):
        clock.advance(3)
        assert cache["a"] == 1
    clock.advance(4)
    assert "a" not in cache


def test_a_read_that_takes_long_does_not_shorten_the_time_of_an_item(clock: VirtualClock) -> None:
    class Key:
        on_compare: Callable[[], object] | None = None

        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            on_compare, Key.on_compare = Key.on_compare, None
            if on_compare is not None:
                on_compare()
            return True

    cache: TTLCache[Key, str] = TTLCache(9, None, expire_after_access=10, clock=clock)
    cache[Key()] = "old"

    def write() -> None:
        clock.advance(8)
        cache[Key()] = "new"

    Key.on_compare = write
    assert cache.get(Key()) == "new"
    assert cache.ttl(Key()) == 10


def test_reading_moves_no_timer(clock: VirtualClock) -> None:
    cache: TTLCache[str, int] = TTLCache(9, None, expire_after_access="4s", clock=clock)
    cache["a"] = 1
    before = cache._store.items.wheel.stats
    for _ in range(100):
        clock.advance_ns(1)
        cache.get("a")
        cache["a"] = 2
    assert cache._store.items.wheel.stats == before


# -- size


def test_the_least_recently_used_goes_when_there_are_too_many(cache: TTLCache[str, int], gone: list[Any]) -> None:
    cache["a"], cache["b"], cache["c"] = 1, 2, 3
    assert cache["a"] == 1
    cache["d"] = 4
    assert set(cache) == {"a", "c", "d"}
    assert gone == [("b", 2, "size")]


def test_views_and_peeks_count_as_no_use(cache: TTLCache[str, int]) -> None:
    cache["a"], cache["b"], cache["c"] = 1, 2, 3
    assert "a" in cache
    assert cache.peek("a") == 1
    assert cache.ttl("a") == 10
    assert ("a", 1) in cache.items()
    assert ("a", 2) not in cache.items()
    assert 1 in cache.values()
    assert "a" in cache.keys()  # noqa: SIM118 - it is the view that is tested
    assert list(cache.items()) == [("a", 1), ("b", 2), ("c", 3)]
    assert list(cache.values()) == [1, 2, 3]
    assert cache == {"a": 1, "b": 2, "c": 3}
    assert (cache.hits, cache.misses) == (0, 0)
    cache["d"] = 4
    assert "a" not in cache


def test_popitem_takes_the_least_recently_used(cache: TTLCache[str, int], clock: VirtualClock) -> None:
    cache.set("short", 0, ttl=1)
    cache["a"], cache["b"] = 1, 2
    cache.get("a")
    clock.advance(1)
    assert [cache.popitem(), cache.popitem()] == [("b", 2), ("a", 1)]
    with pytest.raises(KeyError, match="empty"):
        cache.popitem()


def test_a_weigher_bounds_the_sum_of_weights(clock: VirtualClock, gone: list[Any]) -> None:
    cache: TTLCache[str, int] = TTLCache(
        10, 60, weigher=lambda _, value: value, clock=clock, on_evict=lambda *what: gone.append(what)
    )
    cache["a"], cache["b"], cache["c"], cache["nothing"] = 3, 3, 3, 0
    assert cache.weight == 9
    cache.get("a")
    cache["d"] = 6
    assert (dict(cache), cache.weight) == ({"a": 3, "nothing": 0, "d": 6}, 9)
    cache["a"] = 4
    assert cache.weight == 10
    cache["a"] = 10
    assert (dict(cache), cache.weight) == ({"a": 10}, 10)
    assert [key for key, _, cause in gone if cause == "size"] == ["b", "c", "nothing", "d"]
    clock.advance(60)
    assert cache.weight == 0


@pytest.mark.parametrize("weight", [-1, 11, 1.0, True, None, "1"])
def test_what_is_no_weight_is_refused_and_changes_nothing(clock: VirtualClock, weight: Any) -> None:
    cache: TTLCache[str, Any] = TTLCache(10, 60, weigher=lambda _, value: value, clock=clock)
    cache["a"] = 5
    for key in ("a", "b"):
        with pytest.raises(InvalidWeight, match=r"expected an int from 0 to maxsize \(10\)") as caught:
            cache[key] = weight
        assert isinstance(caught.value, ValueError)
        with pytest.raises(InvalidWeight):
            cache.get_or_load("c", lambda _: weight)
    assert dict(cache) == {"a": 5}


# -- notices


def test_every_way_to_leave_has_its_cause(cache: TTLCache[str, int], clock: VirtualClock, gone: list[Any]) -> None:
    cache["a"] = 1
    cache["a"] = 2
    del cache["a"]
    cache["b"] = 3
    clock.advance(10)
    cache.expire()
    cache["c"] = 4
    cache.clear()
    assert gone == [("a", 1, "replaced"), ("a", 2, "deleted"), ("b", 3, "expired"), ("c", 4, "deleted")]


def test_what_has_expired_goes_as_expired_however_it_is_found(
    cache: TTLCache[str, int], clock: VirtualClock, gone: list[Any]
) -> None:
    clock.advance_ns(500)
    cache["a"], cache["b"], cache["c"] = 1, 2, 3
    clock.advance_ns(10 * 10**9)  # expired, and the wheel has not come to that tick yet
    cache["a"] = 4
    cache["d"] = 5
    cache.clear()
    assert gone == [
        ("a", 1, "expired"),
        ("b", 2, "expired"),
        ("c", 3, "expired"),
        ("a", 4, "deleted"),
        ("d", 5, "deleted"),
    ]


def test_callbacks_may_use_the_cache(clock: VirtualClock) -> None:
    cache: TTLCache[str, int] = TTLCache(
        1, 10, clock=clock, on_evict=lambda key, value, _: kept.update({key: (value, len(cache))})
    )
    kept: dict[str, tuple[int, int]] = {}
    cache["a"] = 1
    cache["b"] = 2
    assert kept == {"a": (1, 1)}


def test_notices_come_in_the_order_of_evictions_even_from_callbacks(clock: VirtualClock) -> None:
    told: list[str] = []
    caches: list[TTLCache[str, int]] = []

    def on_evict(key: str, _value: int, _cause: str) -> None:
        told.append(key)
        if key == "a":
            caches[0].pop("c")

    cache: TTLCache[str, int] = TTLCache(9, 10, clock=clock, on_evict=on_evict)
    caches.append(cache)
    cache.set("c", 3, ttl=100)
    cache["a"], cache["b"] = 1, 2
    clock.advance(10)
    cache.expire()
    assert told == ["a", "b", "c"]


def test_a_callback_that_raises_is_logged_and_the_others_are_called(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []

    def on_evict(key: str, _value: int, _cause: str) -> None:
        told.append(key)
        if key == "b":
            raise OSError("disk full")

    cache: TTLCache[str, int] = TTLCache(9, 10, clock=clock, on_evict=on_evict)
    cache["a"], cache["b"], cache["c"] = 1, 2, 3
    clock.advance(10)
    with caplog.at_level(logging.ERROR, "tickwheel.recipes"):
        cache["d"] = 4
    assert told == ["a", "b", "c"]
    assert [record.name for record in caplog.records] == ["tickwheel.recipes"]
    assert "'b'" in caplog.records[0].getMessage()
    assert "disk full" in caplog.text
    assert dict(cache) == {"d": 4}


class FailingHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:  # noqa: ARG002 - as logging.Handler
        raise OSError("disk full")


@pytest.fixture
def failing_log() -> Iterator[None]:
    log, handler = logging.getLogger("tickwheel.recipes"), FailingHandler()
    log.addHandler(handler)
    yield
    log.removeHandler(handler)


@pytest.mark.usefixtures("failing_log")
def test_a_log_handler_that_raises_is_shown_and_loses_no_notice(
    clock: VirtualClock, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[int] = []

    def on_evict(key: int, _value: int, _cause: str) -> None:
        told.append(key)
        raise ValueError(key)

    cache: TTLCache[int, int] = TTLCache(9, 10, clock=clock, on_evict=on_evict)
    cache.update({1: 1, 2: 2, 3: 3})
    cache.clear()
    assert told == [1, 2, 3]
    assert capsys.readouterr().err.count("OSError: disk full") == 3


def test_an_interrupt_while_an_error_is_logged_is_raised_after_all_notices(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []

    def on_evict(key: int, _value: int, _cause: str) -> None:
        told.append(key)
        raise ValueError(key)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(logging.getLogger("tickwheel.recipes"), "handle", interrupt)
    cache: TTLCache[int, int] = TTLCache(9, 10, clock=clock, on_evict=on_evict)
    cache.update({1: 1, 2: 2, 3: 3})
    with pytest.raises(KeyboardInterrupt):
        cache.clear()
    assert told == [1, 2, 3]


@pytest.mark.usefixtures("failing_log")
def test_a_log_handler_that_raises_does_not_hit_who_writes() -> None:
    timers = ManualTimers()
    cache: TTLCache[str, int] = TTLCache(9, 10, timers=timers)
    timers.stop()
    cache["a"] = 1
    assert cache["a"] == 1


# -- freeing


def test_memory_is_freed_when_something_is_written(cache: TTLCache[str, int], clock: VirtualClock) -> None:
    cache["a"], cache["b"] = 1, 2
    clock.advance(11)
    cache["c"] = 3
    assert set(cache._store.items.by_key) == {"c"}


def test_a_write_frees_a_bounded_number_of_items(clock: VirtualClock, gone: list[Any]) -> None:
    cache: TTLCache[int | str, int] = TTLCache(20_000, 10, clock=clock, on_evict=lambda *what: gone.append(what))
    for number in range(10_000):
        cache[number] = number
    clock.advance(3600)
    most = writes = 0
    while len(gone) < 10_000:
        before = len(gone)
        writes += 1
        cache["new"] = writes
        most = max(most, len(gone) - before)
    assert 2 <= most <= 100
    assert writes <= 10_000 / 2
    assert dict(cache) == {"new": writes}


def test_with_timers_memory_is_freed_when_items_expire(gone: list[Any]) -> None:
    timers = ManualTimers()
    cache: TTLCache[str, int] = TTLCache(9, "10s", timers=timers, on_evict=lambda *what: gone.append(what))
    cache["a"] = 1
    cache.set("b", 2, ttl="3s")
    timers.advance(3.1)
    assert gone == [("b", 2, "expired")]
    cache["a"] = 3
    timers.advance(9.9)
    assert gone[1:] == [("a", 1, "replaced")]
    timers.advance(0.2)
    assert gone[2:] == [("a", 3, "expired")]
    assert len(timers) == 0
    cache["c"] = 4
    timers.advance(10.1)
    assert gone[3:] == [("c", 4, "expired")]


def test_with_timers_freeing_goes_on_after_an_error(caplog: pytest.LogCaptureFixture) -> None:
    timers = ManualTimers()
    told: list[str] = []

    def on_evict(key: str, _value: int, _cause: str) -> None:
        told.append(key)
        raise OSError("disk full")

    cache: TTLCache[str, int] = TTLCache(9, "10s", timers=timers, on_evict=on_evict)
    cache["a"] = 1
    timers.advance(5)
    cache["b"] = 2
    timers.advance(20)
    assert told == ["a", "b"]
    assert len(caplog.records) == 2


def test_stopped_timers_do_not_hit_who_writes(caplog: pytest.LogCaptureFixture) -> None:
    timers = ManualTimers()
    cache: TTLCache[str, int] = TTLCache(9, "10s", timers=timers)
    timers.stop()
    cache["a"] = 1
    cache["b"] = 2
    assert dict(cache) == {"a": 1, "b": 2}
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "freed on writes only" in caplog.text


# -- a mapping


def test_it_is_a_mutable_mapping(cache: TTLCache[str, int]) -> None:
    assert isinstance(cache, MutableMapping)
    cache.update({"a": 1}, b=2)
    assert cache.setdefault("a", 5) == 1
    assert cache.setdefault("c", 3) == 3
    assert cache.pop("a") == 1
    assert cache.pop("a", None) is None
    with pytest.raises(KeyError):
        cache.pop("a")
    with pytest.raises(KeyError):
        del cache["a"]
    assert cache.keys() == {"b", "c"}
    assert cache.items() & {("b", 2), ("c", 4)} == {("b", 2)}
    assert cache == {"b": 2, "c": 3}
    assert cache != {"b": 2}
    cache.clear()
    assert not cache
    with pytest.raises(TypeError):
        hash(cache)


def test_an_iterator_shows_what_was_there_when_it_was_made(cache: TTLCache[str, int]) -> None:
    cache["a"] = 1
    iterators: list[Iterator[Any]] = [iter(cache), iter(cache.keys()), iter(cache.values()), iter(cache.items())]
    del cache["a"]
    cache["b"] = 2
    assert [list(iterator) for iterator in iterators] == [["a"], ["a"], [1], [("a", 1)]]


def test_iteration_is_over_a_snapshot(cache: TTLCache[str, int]) -> None:
    cache["a"], cache["b"], cache["c"] = 1, 2, 3
    for view in (cache.keys(), cache.values(), cache.items()):
        seen = 0
        for _ in view:
            cache.clear()
            seen += 1
        assert seen == 3
        cache["a"], cache["b"], cache["c"] = 1, 2, 3


def test_hits_and_misses_are_counted(cache: TTLCache[str, int]) -> None:
    cache["a"] = 1
    cache.get("a")
    cache.get("b")
    with pytest.raises(KeyError):
        cache["b"]
    assert (cache.hits, cache.misses, cache.maxsize) == (1, 2, 3)


def test_its_repr_is_short(cache: TTLCache[str, int]) -> None:
    cache["a"] = 1
    cache.get("a")
    assert repr(cache) == "<TTLCache items=1 maxsize=3 hits=1 misses=0>"


# -- bad input


@pytest.mark.parametrize("maxsize", [0, -1, True, 1.5, "5", None])
def test_a_bad_maxsize_is_refused(maxsize: Any) -> None:
    with pytest.raises(InvalidCache, match=r"maxsize .* at least 1"):
        TTLCache(maxsize, 10)


@pytest.mark.parametrize("ttl", [-1, "soon", float("nan"), float("inf"), True])
def test_a_bad_duration_is_refused_and_changes_nothing(cache: TTLCache[str, int], ttl: Any) -> None:
    cache["a"] = 1
    with pytest.raises(InvalidDuration):
        TTLCache(1, ttl)
    with pytest.raises(InvalidDuration):
        TTLCache(1, 10, expire_after_access=ttl)
    with pytest.raises(InvalidDuration, match=r"^ttl: "):
        cache.set("a", 2, ttl=ttl)
    with pytest.raises(InvalidDuration, match=r"^ttl: "):
        cache.get_or_load("b", lambda _: pytest.fail("loaded"), ttl=ttl)
    assert (dict(cache), cache.ttl("a")) == ({"a": 1}, 10)


def test_a_bad_duration_of_a_cache_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidDuration, match=r"^ttl: "):
        TTLCache(3, "soon", expire_after_access="5m")
    with pytest.raises(InvalidDuration, match=r"^expire_after_access: "):
        TTLCache(3, "5m", expire_after_access="soon")


@pytest.mark.parametrize("ttl", [None, -1, "soon"])
def test_a_bad_duration_of_a_function_is_refused_by_its_name(ttl: Any) -> None:
    cache: TTLCache[str, int] = TTLCache(3, lambda *_: ttl)
    with pytest.raises(InvalidDuration, match=r"^ttl: invalid duration"):
        cache["a"] = 1
    assert list(cache) == []


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("clock", object()),
        ("clock", 0),
        ("clock", VirtualClock),
        ("timers", object()),
        ("on_evict", "print"),
        ("weigher", 5),
        ("expire_after_access", 0),
    ],
)
def test_a_bad_option_is_refused(option: str, value: Any) -> None:
    with pytest.raises((InvalidCache, InvalidClock, InvalidTimers), match=option):
        TTLCache(5, 10, **{option: value})


class Size(IntEnum):
    SMALL = 2


@pytest.mark.parametrize("size", [Size.SMALL, np.int64(2)])
def test_any_whole_number_is_a_size_and_a_weight(size: Any) -> None:
    cache: TTLCache[str, int] = TTLCache(size, 10, weigher=lambda *_: size // 2)
    cache["a"] = cache["b"] = cache["c"] = 1
    assert (list(cache), cache.weight, type(cache.maxsize)) == (["b", "c"], 2, int)


def test_without_any_expiry_it_is_refused() -> None:
    with pytest.raises(InvalidCache, match="never expire"):
        TTLCache(5, None)


def test_a_key_that_cannot_be_hashed_changes_nothing(cache: TTLCache[Any, int]) -> None:
    cache["a"] = 1
    uses: tuple[Callable[[], object], ...] = (
        lambda: cache.__setitem__([], 1),
        lambda: cache[[]],
        lambda: cache.pop([], None),
        lambda: [] in cache,
        lambda: cache.setdefault([], 1),
        lambda: cache.get_or_load([], lambda _: 1),
    )
    for use in uses:
        with pytest.raises(TypeError, match="unhashable"):
            use()
    assert dict(cache) == {"a": 1}


def test_a_key_whose_hash_has_changed_does_not_stop_evictions(cache: TTLCache[Any, int]) -> None:
    class Fickle:
        number = 1

        def __hash__(self) -> int:
            return self.number

    key = Fickle()
    cache[key] = 1
    key.number = 2
    for number in range(10):
        cache[number] = number
    assert list(cache) == [7, 8, 9]
    assert len(cache) == 3


# -- long times


def test_a_full_cache_takes_writes_after_thousands_of_years() -> None:
    clock = VirtualClock()
    cache: TTLCache[str, int] = TTLCache(2, "1000d", clock=clock)
    for _ in range(5):
        clock.advance("365000d")
        for number, key in enumerate("abc"):
            cache[key] = number
        assert list(cache) == ["b", "c"]
    clock.advance("1000d")
    assert (list(cache), len(cache)) == ([], 0)


def test_the_longest_ttl_ends_to_the_nanosecond() -> None:
    clock = VirtualClock()
    cache: TTLCache[str, int] = TTLCache(2, "365250d", clock=clock)
    clock.advance("365250d")
    cache["a"] = 1
    clock.advance_ns(365_250 * 86_400 * 10**9 - 1)
    assert cache.peek("a") == 1
    clock.advance_ns(1)
    assert (cache.peek("a"), len(cache)) == (None, 0)


def test_without_a_ttl_an_item_lives_as_long_as_it_is_read() -> None:
    clock = VirtualClock()
    cache: TTLCache[str, int] = TTLCache(2, None, expire_after_access="36500d", clock=clock)
    cache["a"] = 1
    assert cache.ttl("a") == 36_500 * 86_400
    for _ in range(20):
        clock.advance("36000d")
        assert cache.get("a") == 1
    cache.set("b", 2, ttl="1d")
    assert cache.get("b") == 2
    clock.advance("1d")
    assert cache.get("b") is None


async def never_awaited(*_: object) -> None:
    pytest.fail("it was called")


class AsyncObject:
    async def __call__(self, *_: object) -> None:
        pytest.fail("it was called")


@pytest.mark.parametrize("option", ["ttl", "weigher", "on_evict"])
@pytest.mark.parametrize("function", [never_awaited, partial(never_awaited, 1), AsyncObject()])
def test_a_coroutine_function_is_refused(option: str, function: Any) -> None:
    options = {"ttl": 10, option: function}
    with pytest.raises(AsyncCallback, match=f"invalid {option} .*would never be awaited; use a plain function"):
        TTLCache(3, **options)


@pytest.mark.parametrize("option", ["ttl", "weigher"])
@pytest.mark.filterwarnings("error")  # of a coroutine that is neither awaited nor closed
def test_a_coroutine_that_a_function_returns_is_closed_and_refused(option: str) -> None:
    options: dict[str, Any] = {"ttl": 10, option: lambda *_: never_awaited()}
    cache: TTLCache[str, int] = TTLCache(3, **options)
    with pytest.raises(AsyncCallback, match=f"invalid {option} .*would never be awaited; use a plain function"):
        cache["a"] = 1
    assert list(cache) == []


def test_a_coroutine_that_on_evict_returns_is_closed_and_logged(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    cache: TTLCache[str, int] = TTLCache(3, 10, clock=clock, on_evict=lambda key, *_: never_awaited(key))
    cache["a"] = 1
    del cache["a"]
    assert "on_evict returned a coroutine for key 'a' (cause: deleted)" in caplog.text


@pytest.mark.parametrize("mock", [Mock, MagicMock])
def test_mocks_of_plain_functions_are_plain_functions(mock: Any) -> None:
    def plain(*_: object) -> None: ...

    on_evict = mock(spec=plain)
    cache: TTLCache[int, int] = TTLCache(1, 60, on_evict=on_evict)
    cache[1] = cache[2] = 0
    on_evict.assert_called_once_with(1, 0, "size")


def test_a_generator_function_as_on_evict_is_refused() -> None:
    def generator(*_: object) -> Iterator[int]:
        yield 1

    with pytest.raises(InvalidCache, match="generator function"):
        TTLCache(1, 60, on_evict=generator)
