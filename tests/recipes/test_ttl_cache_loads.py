"""Threads that miss a key together load it once."""

import gc
import signal
import threading
import time
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest

from tests.recipes.test_delay_queue import LazyProxy, refuse
from tickwheel import COMPILED, TTLCache, VirtualClock
from tickwheel.errors import AsyncLoader, MissingCallback, RecursiveLoad
from tickwheel.recipes import cache_loads
from tickwheel.recipes.cache_loads import _waiting, load

PATIENCE_SECONDS = 60


class Loader:
    """A loader that says when it is called, and waits until it may go on."""

    def __init__(self, result: Any = "loaded") -> None:
        self.result = result
        self.calls: list[Any] = []
        self.called = threading.Event()
        self.go = threading.Event()

    def __call__(self, key: Any) -> Any:
        self.calls.append(key)
        self.called.set()
        assert self.go.wait(PATIENCE_SECONDS)
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def cache(clock: VirtualClock) -> TTLCache[str, Any]:
    return TTLCache(10, 10, clock=clock)


def start(cache: TTLCache[str, Any], pool: ThreadPoolExecutor, loader: Loader, threads: int = 4) -> list[Future[Any]]:
    """Have several threads ask for one key, and return when one loads it and all others wait for that load."""
    futures = [pool.submit(cache.get_or_load, "a", loader) for _ in range(threads)]
    assert loader.called.wait(PATIENCE_SECONDS)
    load = cache._store.loads["a"]
    deadline = time.monotonic() + PATIENCE_SECONDS
    while list(_waiting.values()).count(load) < threads - 1:  # a miss is no sign yet: it comes before the waiting
        assert time.monotonic() < deadline, "not all threads wait"
        threading.Event().wait(0.001)
    return futures


def results(futures: list[Future[Any]]) -> list[Any]:
    return [future.exception(PATIENCE_SECONDS) or future.result() for future in futures]


def test_a_missing_key_is_loaded_and_set(cache: TTLCache[str, Any], clock: VirtualClock) -> None:
    assert cache.get_or_load("a", str.upper) == "A"
    assert cache.get_or_load("a", lambda _: pytest.fail("loaded twice")) == "A"
    assert (cache["a"], cache.ttl("a")) == ("A", 10)
    assert cache.get_or_load("b", str.upper, ttl="3s") == "B"
    assert cache.ttl("b") == 3
    clock.advance(10)
    assert cache.get_or_load("a", str.lower) == "a"


def test_the_time_of_an_item_begins_when_its_load_ends(cache: TTLCache[str, Any], clock: VirtualClock) -> None:
    cache.get_or_load("a", lambda _: clock.advance(100))
    assert cache.ttl("a") == 10


def test_one_thread_loads_and_the_others_wait(cache: TTLCache[str, Any]) -> None:
    loader = Loader()
    with ThreadPoolExecutor(4) as pool:
        futures = start(cache, pool, loader)
        loader.go.set()
        assert results(futures) == ["loaded"] * 4
    assert loader.calls == ["a"]
    assert cache["a"] == "loaded"


def test_an_error_reaches_all_who_wait_and_nothing_is_set(cache: TTLCache[str, Any]) -> None:
    error = OSError("no route to host")
    loader = Loader(error)
    with ThreadPoolExecutor(4) as pool:
        futures = start(cache, pool, loader)
        loader.go.set()
        assert results(futures) == [error] * 4
    assert loader.calls == ["a"]
    assert "a" not in cache
    assert cache.get_or_load("a", str.upper) == "A"


def test_when_the_loading_thread_is_interrupted_another_one_loads(cache: TTLCache[str, Any]) -> None:
    loader = Loader(KeyboardInterrupt())
    with ThreadPoolExecutor(2) as pool:
        interrupted = pool.submit(cache.get_or_load, "a", loader)
        assert loader.called.wait(PATIENCE_SECONDS)
        waiting = pool.submit(cache.get_or_load, "a", str.upper)
        loader.go.set()
        assert waiting.result(PATIENCE_SECONDS) == "A"
        assert isinstance(interrupted.exception(PATIENCE_SECONDS), KeyboardInterrupt)


def test_different_keys_load_at_the_same_time(cache: TTLCache[str, Any]) -> None:
    together = threading.Barrier(3)

    def loader(key: str) -> str:
        together.wait(PATIENCE_SECONDS)
        return key.upper()

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda key: cache.get_or_load(key, loader), "abc")) == ["A", "B", "C"]


@pytest.mark.parametrize("write", ["set", "del", "pop", "clear"])
def test_a_write_meanwhile_counts_and_not_the_load(cache: TTLCache[str, Any], write: str) -> None:
    loader = Loader()
    with ThreadPoolExecutor(4) as pool:
        futures = start(cache, pool, loader)
        if write == "set":
            cache["a"] = "set"
        elif write == "del":
            with pytest.raises(KeyError):
                del cache["a"]
        elif write == "pop":
            cache.pop("a", None)
        else:
            cache.clear()
        later = cache.get_or_load("a", lambda _: "later")  # does not wait for what is stale already
        loader.go.set()
        assert results(futures) == ["loaded"] * 4
    assert later == cache["a"] == ("set" if write == "set" else "later")
    assert not cache._store.loads


def test_a_loader_may_load_other_keys(cache: TTLCache[str, Any]) -> None:
    assert cache.get_or_load("a", lambda key: key + cache.get_or_load("b", str.upper)) == "aB"
    assert dict(cache) == {"a": "aB", "b": "B"}


def test_a_loader_that_needs_its_own_key_is_an_error(cache: TTLCache[str, Any]) -> None:
    with pytest.raises(RecursiveLoad, match="'a' waits for its own result") as caught:
        cache.get_or_load("a", lambda key: cache.get_or_load(key, str.upper))
    assert isinstance(caught.value, RuntimeError)
    with pytest.raises(RecursiveLoad):
        cache.get_or_load("a", lambda _: cache.get_or_load("b", lambda _: cache.get_or_load("a", str.upper)))
    assert dict(cache) == {}
    assert cache.get_or_load("a", str.upper) == "A"


def test_loaders_of_two_threads_that_wait_for_each_other_are_an_error(cache: TTLCache[str, Any]) -> None:
    other: TTLCache[str, Any] = TTLCache(10, 10)
    both = threading.Barrier(2)

    def crossed(first: TTLCache[str, Any], second: TTLCache[str, Any]) -> Any:
        def loader(key: str) -> Any:
            both.wait(PATIENCE_SECONDS)
            return second.get_or_load(key, str.upper)

        return first.get_or_load("a", loader)

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(crossed, cache, other), pool.submit(crossed, other, cache)]
        assert [type(result) for result in results(futures)] == [RecursiveLoad, RecursiveLoad]


def test_what_cannot_be_called_is_refused(cache: TTLCache[str, Any]) -> None:
    with pytest.raises(MissingCallback, match="invalid loader 'fetch': expected a function"):
        cache.get_or_load("a", "fetch")  # type: ignore[arg-type]
    with pytest.raises(MissingCallback, match="invalid loader None: expected a function"):
        cache.get_or_load("a", None)  # type: ignore[arg-type]


class Interrupted(BaseException):
    """What a signal raises here."""


def test_a_load_that_is_interrupted_anywhere_leaves_the_cache_free() -> None:
    # Interpreted, an interrupt between taking a lock and the next line keeps it taken, as docs/timers.md says.
    interrupts = 200 if COMPILED else 0
    cache: TTLCache[int, int] = TTLCache(20, "1h")

    def interrupt(*_: object) -> None:
        raise Interrupted

    def load_until_interrupted(after_s: float) -> None:
        # Again after a while: an interrupt that falls into a callback of the garbage collector is not raised.
        signal.setitimer(signal.ITIMER_REAL, after_s, 1.0)
        try:
            for number in count():
                cache.get_or_load(number % 60, lambda key: key)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with ThreadPoolExecutor(1) as other:
            for number in range(interrupts):
                with pytest.raises(Interrupted):
                    load_until_interrupted(0.001 + number % 10 * 0.0001)
                assert other.submit(cache.get_or_load, number % 60, int).result(PATIENCE_SECONDS) == number % 60
                assert list(_waiting) == []
    finally:
        signal.signal(signal.SIGALRM, before)
    assert cache._store.loads == {}


class WritingKey:
    """A key that writes itself to the cache, once, when its hash is taken so many times more."""

    def __init__(self, cache: TTLCache[Any, Any]) -> None:
        self.cache = cache
        self.hashes_left = 0

    def __hash__(self) -> int:
        self.hashes_left -= 1
        if self.hashes_left == 0:
            self.cache[self] = "written"
        return 1


@pytest.mark.parametrize("hashes", [1, 2, 3])
def test_a_key_that_writes_itself_meanwhile_hides_no_error_of_its_loader(hashes: int) -> None:
    cache: TTLCache[Any, Any] = TTLCache(10, 10)
    key = WritingKey(cache)

    def fail(_: object) -> None:
        key.hashes_left = hashes
        raise OSError("the loader failed")

    with pytest.raises(OSError, match="the loader failed"):
        cache.get_or_load(key, fail)
    assert cache._store.loads == {}


def test_a_coroutine_is_refused_and_not_cached(cache: TTLCache[str, Any]) -> None:
    async def fetch(_: str) -> int:
        return 1

    for _ in range(2):
        with pytest.raises(AsyncLoader, match="the loader of key 'a' returned a coroutine"):
            cache.get_or_load("a", fetch)
    assert "a" not in cache
    assert cache.get_or_load("a", lambda _: 1) == 1


class Local:
    """Something that a loader holds when it fails."""


@pytest.mark.parametrize("fails", ["in the loader", "recursively", "in a thread that waits"])
def test_a_load_that_fails_leaves_nothing_to_the_garbage_collector(cache: TTLCache[str, Any], fails: str) -> None:
    alive: list[weakref.ref[Local]] = []

    def fail(_: str) -> None:
        local = Local()
        alive.append(weakref.ref(local))
        if fails == "recursively":
            cache.get_or_load("a", fail)
        raise OSError("the loader failed")

    def load() -> None:
        with pytest.raises((OSError, RecursiveLoad)):
            cache.get_or_load("a", fail)

    def load_twice() -> None:
        loader = Loader()

        def wait_and_fail(key: str) -> None:
            loader(key)
            fail(key)

        def load_elsewhere() -> None:
            with pytest.raises(OSError, match="the loader failed"):
                cache.get_or_load("a", wait_and_fail)

        threads = [threading.Thread(target=load_elsewhere) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert loader.called.wait(PATIENCE_SECONDS)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not _waiting:
            assert time.monotonic() < deadline, "the other thread does not wait"
            threading.Event().wait(0.001)
        loader.go.set()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)

    gc.collect()
    gc.disable()
    try:
        load_twice() if fails == "in a thread that waits" else load()
        assert [local() for local in alive] == [None]
    finally:
        gc.enable()


def test_the_key_of_a_recursive_load_is_printed_outside_the_lock() -> None:
    free: list[bool] = []

    def take() -> None:
        free.append(cache_loads._waiting_lock.acquire(timeout=PATIENCE_SECONDS / 3))
        if free[-1]:
            cache_loads._waiting_lock.release()

    class Key:
        def __repr__(self) -> str:
            other = threading.Thread(target=take)
            other.start()
            other.join()
            return "printed"

    cache: TTLCache[Key, Any] = TTLCache(9, 10)
    with pytest.raises(RecursiveLoad, match="printed"):
        cache.get_or_load(Key(), lambda key: cache.get_or_load(key, str))
    assert set(free) == {True}


def test_those_who_wait_for_a_load_do_not_wait_for_on_evict() -> None:
    returned = threading.Event()
    told: list[bool] = []

    def on_evict(*_: object) -> None:
        told.append(returned.wait(PATIENCE_SECONDS))

    cache: TTLCache[str, str] = TTLCache(1, 10, clock=VirtualClock(), on_evict=on_evict)
    cache["old"] = "evicted by the load"
    loader = Loader()
    with ThreadPoolExecutor(2) as pool:
        calls = start(cache, pool, loader, threads=2)
        for call in calls:  # the first of them to be done is the one that waited
            call.add_done_callback(lambda _: returned.set())
        loader.go.set()
        assert results(calls) == ["loaded", "loaded"]
    assert told == [True]
    assert loader.calls == ["a"]


def test_a_loaded_proxy_is_not_evaluated(cache: TTLCache[str, Any]) -> None:
    proxy = LazyProxy(refuse)
    assert cache.get_or_load("a", lambda _: proxy) is proxy
    assert cache.get_or_load("a", lambda _: pytest.fail("loaded twice")) is proxy
    found = load(cache._store, "a", lambda _: pytest.fail("loaded twice"), None)  # set after it was missed
    assert found is proxy
