"""A cache survives keys that change, values that use it while it is collected, interrupts and forks."""

import asyncio
import copy
import gc
import os
import pickle
from collections.abc import Callable
from threading import Event, Thread
from typing import Any
from weakref import ref

import pytest

from tickwheel import ManualTimers, TTLCache, VirtualClock
from tickwheel.errors import InvalidCache, NotCopyable, UnstableKey


class Key:
    """A key whose hash can change, or fail."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.fails: type[BaseException] | None = None

    def __hash__(self) -> int:
        if self.fails is not None:
            raise self.fails
        return self.number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and other.number == self.number


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


# -- keys


def test_a_key_whose_hash_changes_back_is_absent_and_can_be_set(clock: VirtualClock) -> None:
    cache: TTLCache[Any, str] = TTLCache(1, "1h", clock=clock)
    key = Key(1)
    cache[key] = "lost"
    key.number = 2
    cache["a"] = "A"
    key.number = 1
    assert (cache.get(key), cache.peek(key), key in cache) == (None, None, False)
    assert list(cache.items()) == [("a", "A")]
    cache[key] = "again"
    assert list(cache.items()) == [(key, "again")]
    cache["b"] = "B"
    cache["c"] = "C"
    assert (list(cache.items()), len(cache), cache.weight) == ([("c", "C")], 1, 1)


def test_a_key_that_becomes_equal_to_another_does_not_take_it_along(clock: VirtualClock) -> None:
    cache: TTLCache[Any, str] = TTLCache(2, "1h", clock=clock)
    first, second = Key(1), Key(2)
    cache[first] = "first"
    cache[second] = "second"
    first.number = 2
    cache["a"] = "A"  # evicts the first
    assert (cache[second], cache["a"], len(cache)) == ("second", "A", 2)


def test_thousands_of_changed_keys_are_evicted_by_one_write(clock: VirtualClock) -> None:
    count = 5_000
    cache: TTLCache[Any, int] = TTLCache(count, "1h", weigher=lambda _, value: value, clock=clock)
    keys = [Key(number) for number in range(count)]
    for key in keys:
        cache[key] = 1
    for key in keys:
        key.number = -2
    cache["heavy"] = count
    assert (list(cache.items()), cache.weight) == ([("heavy", count)], count)


def test_changed_keys_are_freed(clock: VirtualClock) -> None:
    cache: TTLCache[Any, int] = TTLCache(10, "1h", clock=clock)
    alive = []
    for number in range(1_000):
        key = Key(number)
        cache[key] = number
        key.number = -5
        alive.append(ref(key))
        del key
    gc.collect()
    assert len(cache) == 10
    assert sum(key() is not None for key in alive) < 50


def test_a_key_that_raises_does_not_keep_others_from_expiring(clock: VirtualClock) -> None:
    gone: list[Any] = []
    cache: TTLCache[Any, int] = TTLCache(1_000, "1s", clock=clock, on_evict=lambda *what: gone.append(what))
    key = Key(1)
    cache[key] = -1
    for number in range(50):
        cache[number] = number
    clock.advance("2s")
    key.fails = RuntimeError
    assert (len(cache), list(cache), cache.weight, len(gone)) == (0, [], 0, 51)


def test_an_interrupt_while_items_expire_leaves_the_others_to_the_next_call(clock: VirtualClock) -> None:
    cache: TTLCache[Any, int] = TTLCache(1_000, "1s", clock=clock)
    key = Key(1)
    cache[key] = -1
    for number in range(50):
        cache[number] = number
    clock.advance("2s")
    key.fails = KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        cache.expire()
    key.fails = None
    assert (len(cache), cache.weight) == (0, 0)


class SlowKey(Key):
    """A key whose comparison takes a second of a clock."""

    clock: VirtualClock

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        self.clock.advance("1s")
        return super().__eq__(other)


READS: dict[str, Callable[[Any, Any], object]] = {
    "peek": lambda cache, key: cache.peek(key),
    "in": lambda cache, key: (key in cache) or None,
    "ttl": lambda cache, key: cache.ttl(key),
    "pop": lambda cache, key: cache.pop(key, None),
}


@pytest.mark.parametrize("read", READS)
def test_an_item_that_expires_while_its_key_is_compared_is_not_returned(read: str, clock: VirtualClock) -> None:
    SlowKey.clock = clock
    cache: TTLCache[Any, str] = TTLCache(9, "500ms", clock=clock)
    cache[SlowKey(1)] = "expired"
    assert READS[read](cache, SlowKey(1)) is None


def test_a_key_that_compares_inconsistently_is_refused(clock: VirtualClock) -> None:
    class Flaky:
        equal = True

        def __hash__(self) -> int:
            return 1

        def __eq__(self, _: object) -> bool:
            Flaky.equal = not Flaky.equal
            return Flaky.equal

    cache: TTLCache[Any, int] = TTLCache(9, "1h", clock=clock)
    cache["a"] = 1
    cache[Flaky()] = 2
    with pytest.raises(UnstableKey, match="Flaky' compare inconsistently"):
        cache[Flaky()] = 3
    cache["b"] = 4
    assert (cache["a"], cache["b"], len(cache) == len(list(cache))) == (1, 4, True)


# -- the end of a cache


USES: dict[str, Callable[[Any], object]] = {
    "pop": lambda cache: cache.pop("a", None),
    "clear": lambda cache: cache.clear(),
    "set": lambda cache: cache.set("new", 1),
    "popitem": lambda cache: len(cache) and cache.popitem(),
    "items": lambda cache: list(cache.items()),
    "expire": lambda cache: cache.expire(),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("with_timers", [False, True])
def test_a_value_may_use_its_cache_while_both_are_collected(use: str, with_timers: bool, clock: VirtualClock) -> None:
    errors: list[BaseException] = []
    done: list[str] = []

    class Session:
        def __init__(self, cache: "TTLCache[str, Any]", key: str) -> None:
            self.cache = cache
            self.key = key

        def __del__(self) -> None:
            try:
                USES[use](self.cache)
                assert len(list(self.cache)) == len(self.cache)
            except BaseException as error:  # noqa: BLE001 - or it would be printed only
                errors.append(error)
            done.append(self.key)

    def make() -> None:
        cache: TTLCache[str, Any] = TTLCache(10, "1h", timers=ManualTimers(clock) if with_timers else None, clock=clock)
        for key in "abc":
            cache[key] = Session(cache, key)

    make()
    gc.collect()
    assert (sorted(done), errors) == (["a", "b", "c"], [])


# -- room


def test_what_has_expired_goes_before_what_lives(clock: VirtualClock) -> None:
    causes: list[Any] = []
    cache: TTLCache[Any, int] = TTLCache(1_000, "1h", clock=clock, on_evict=lambda *what: causes.append(what[2]))
    cache.set("precious", 1, ttl="1d")
    for number in range(999):
        cache[number] = number
    clock.advance("2h")
    cache["new"] = 2
    assert (list(cache), causes) == (["precious", "new"], ["expired"] * 999)


def test_what_has_expired_within_this_tick_goes_before_what_lives(clock: VirtualClock) -> None:
    gone: list[Any] = []
    cache: TTLCache[str, int] = TTLCache(2, "1h", clock=clock, on_evict=lambda *what: gone.append(what))
    cache["a"] = 1
    cache.set("b", 2, ttl="100us")
    clock.advance("200us")
    cache["c"] = 3
    assert (gone, list(cache)) == ([("b", 2, "expired")], ["a", "c"])


def test_a_heavier_value_takes_the_room_of_what_has_expired(clock: VirtualClock) -> None:
    cache: TTLCache[str, int] = TTLCache(10, "1h", weigher=lambda _, value: value, clock=clock)
    cache["old"] = 2
    cache.set("expired", 7, ttl="100us")
    cache["grows"] = 1
    clock.advance("200us")
    cache["grows"] = 8
    assert dict(cache) == {"old": 2, "grows": 8}


@pytest.mark.parametrize("write", ["set and delete", "replace"])
def test_a_clock_that_stands_still_lets_no_memory_grow(write: str, clock: VirtualClock) -> None:
    gone: list[Any] = []
    cache: TTLCache[str, int] = TTLCache(9, "400us", clock=clock, on_evict=lambda *what: gone.append(what))
    assert len(cache) == 0  # to the nanosecond: turns the wheel to the end of the present tick
    for _ in range(5_000):
        cache["a"] = 1
        if write == "replace":
            cache.set("a", 2, ttl="300us")
        else:
            del cache["a"]
    cache["b"] = 3
    assert len(cache._store.items._edge) < 200
    gone.clear()
    clock.advance("350us")
    assert dict(cache) == {"b": 3}
    clock.advance("50us")
    assert len(cache) == 0
    assert gone == ([("a", 2, "expired")] if write == "replace" else []) + [("b", 3, "expired")]


# -- callbacks, timers, copies


def test_a_cancellation_in_on_evict_loses_no_notice(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    told: list[int] = []

    def on_evict(key: int, _value: int, _cause: str) -> None:
        told.append(key)
        if key == 1:
            raise asyncio.CancelledError

    cache: TTLCache[int, int] = TTLCache(9, "1h", clock=clock, on_evict=on_evict)
    for number in range(4):
        cache[number] = number
    cache.clear()
    assert told == [0, 1, 2, 3]
    assert "on_evict raised for key 1" in caplog.text


def test_the_longest_ttl_can_be_swept(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    clock.advance("1us")
    timers = ManualTimers(clock)
    cache: TTLCache[str, int] = TTLCache(9, "365250d", timers=timers, clock=clock)
    clock.advance("1us")
    cache["a"] = 1
    assert (len(timers), caplog.text) == (1, "")


def test_a_cache_cannot_be_copied(clock: VirtualClock) -> None:
    cache: TTLCache[str, int] = TTLCache(9, "1h", clock=clock)
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(NotCopyable, match=r"cannot be copied.*update\(cache.items\(\)\) of another cache"):
            make(cache)


def test_an_error_shows_a_value_that_cannot_be_printed() -> None:
    with pytest.raises(InvalidCache, match="too large to print"):
        TTLCache(-(10**5000), "1h")


# -- loads


def test_a_load_of_a_thread_that_a_forked_child_lacks_is_not_waited_for() -> None:
    cache: TTLCache[str, int] = TTLCache(5, "1h")
    begun, end = Event(), Event()

    def loader(_: str) -> int:
        begun.set()
        end.wait()
        return 1

    thread = Thread(target=cache.get_or_load, args=("k", loader))
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        waiter = Thread(target=lambda: os._exit(cache.get_or_load("k", lambda _: 42)), daemon=True)
        waiter.start()
        waiter.join(60)  # for ever, before
        os._exit(1)
    end.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42


def test_a_forked_child_does_not_wait_for_the_lock_of_a_thread_that_it_lacks() -> None:
    cache: TTLCache[object, int] = TTLCache(5, "1h")
    begun, end = Event(), Event()

    class Key:
        def __hash__(self) -> int:
            return 7

        def __eq__(self, other: object) -> bool:
            begun.set()
            end.wait()
            return self is other

    cache[Key()] = 1
    thread = Thread(target=cache.pop, args=(Key(), None))  # compares the keys under the lock
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        writer = Thread(target=lambda: os._exit(cache.setdefault("k", 2)), daemon=True)
        writer.start()
        writer.join(60)  # for ever, before
        os._exit(1)
    end.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


def test_a_forked_child_sweeps_again_after_a_write() -> None:
    from tickwheel import Timers  # noqa: PLC0415 - threads are started here alone

    timers = Timers()
    swept = Event()
    cache: TTLCache[str, int] = TTLCache(9, "50ms", timers=timers, on_evict=lambda *_: swept.set())
    cache.set("parent", 1, ttl="20ms")
    child = os.fork()
    if child == 0:
        cache["child"] = 2
        os._exit(0 if swept.wait(20) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    timers.stop()
