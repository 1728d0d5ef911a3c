"""A cache is the same to any number of threads."""

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from tickwheel import TTLCache, VirtualClock

PATIENCE_SECONDS = 60
THREADS = 4
ROUNDS = 3000


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def run_together(work: Callable[[int], None], threads: int = THREADS) -> None:
    """Run a function on several threads at once, and raise what one of them raises."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(threads)

    def guarded(number: int) -> None:
        barrier.wait(PATIENCE_SECONDS)
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    started = [threading.Thread(target=guarded, args=(number,)) for number in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


class Key:
    """A key whose comparisons run Python code, in which threads change."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return self.number % 5

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and other.number == self.number


def popped_all(cache: TTLCache[Key, int]) -> list[tuple[Key, int]]:
    """Pop until there is nothing, which is when another thread has popped the last item, too."""
    popped = []
    try:
        while True:
            popped.append(cache.popitem())
    except KeyError:
        return popped


# What is done with a cache of 8 items whose values are the numbers of their keys, and what must hold then.
METHODS: list[Callable[[TTLCache[Key, int], Key], bool]] = [
    lambda cache, _: all(value == other.number for other, value in cache.items()),
    lambda cache, _: all(0 <= value < 16 for value in cache.values()),
    lambda cache, _: all(0 <= other.number < 16 for other in cache.keys()),  # noqa: SIM118 - the view is tested
    lambda cache, _: all(value == other.number for other, value in popped_all(cache)),
    lambda cache, key: cache.pop(key, key.number) == key.number,
    lambda cache, key: cache.setdefault(key, key.number) == key.number,
    lambda cache, key: cache.get_or_load(key, lambda wanted: wanted.number) == key.number,
    lambda cache, key: cache.get(key, key.number) == key.number,
    lambda cache, key: cache.update({key: key.number}) is None,
    lambda cache, key: cache.update({key: key.number}) is None,
    lambda cache, key: cache.peek(key, key.number) == key.number,
    lambda cache, _: len(cache) <= 8,
]


def test_every_method_from_several_threads() -> None:
    clock = VirtualClock()
    cache: TTLCache[Key, int] = TTLCache(8, 0.01, expire_after_access=0.005, clock=clock)

    def use(number: int) -> None:
        draw = Random(number)
        for _ in range(ROUNDS):
            method = draw.choice(METHODS)
            assert method(cache, Key(draw.randrange(16))), METHODS.index(method)
            clock.advance_ns(draw.randrange(300_000))

    run_together(use)
    clock.advance(1)
    assert len(cache) == 0
    cache._store.items.wheel.check()
    assert len(cache._store.items.by_key) == 0


def test_one_of_several_threads_sets_a_default() -> None:
    cache: TTLCache[Key, object] = TTLCache(ROUNDS, 60)
    got: list[list[Any]] = [[] for _ in range(THREADS)]

    def use(number: int) -> None:
        for round_number in range(ROUNDS):
            got[number].append(cache.setdefault(Key(round_number % 97), (number, round_number % 97)))

    run_together(use)
    assert all(len(set(same)) == 1 for same in zip(*got, strict=True))


def test_one_of_several_threads_pops_an_item() -> None:
    cache: TTLCache[int, int] = TTLCache(ROUNDS, 60)
    cache.update((number, number) for number in range(ROUNDS))
    popped: Counter[int | None] = Counter()
    lock = threading.Lock()

    def use(_: int) -> None:
        mine = [cache.pop(key, None) for key in range(ROUNDS)]
        with lock:
            popped.update(mine)

    run_together(use)
    assert [popped[key] for key in range(ROUNDS)] == [1] * ROUNDS


def test_hits_and_misses_of_all_threads_are_counted() -> None:
    cache: TTLCache[int, int] = TTLCache(10, 60)
    cache[1] = 1

    def use(_: int) -> None:
        for _ in range(ROUNDS):
            cache.get(1)
            cache.get(2)

    run_together(use)
    assert (cache.hits, cache.misses) == (THREADS * ROUNDS, THREADS * ROUNDS)


def test_every_item_leaves_once_whichever_thread_makes_it_leave() -> None:
    clock = VirtualClock()
    gone: list[Any] = []
    threads: dict[tuple[int, int], int] = {}

    def on_evict(key: tuple[int, int], value: int, _cause: str) -> None:
        gone.append((key, value))
        threads[key] = threading.get_ident()

    cache: TTLCache[tuple[int, int], int] = TTLCache(50, 0.005, clock=clock, on_evict=on_evict)

    def use(number: int) -> None:
        for serial in range(ROUNDS):
            cache[number, serial] = serial
            if serial % 10 == 0:
                clock.advance_ns(100_000)

    run_together(use)
    cache.clear()
    assert Counter(gone) == Counter(
        {((number, serial), serial): 1 for number in range(THREADS) for serial in range(ROUNDS)}
    )
    assert len(set(threads.values())) > 1


def test_an_error_in_a_callback_hits_no_thread() -> None:
    told: list[int] = []

    def on_evict(key: int, _value: int, _cause: str) -> None:
        told.append(key)
        raise OSError("disk full")

    cache: TTLCache[int, int] = TTLCache(1, 60, on_evict=on_evict)

    def use(number: int) -> None:
        for serial in range(100):
            cache[number * 100 + serial] = serial

    run_together(use)
    assert len(told) == THREADS * 100 - 1


class BlockingKey:
    """A key of which one hash waits until it is told to go on, or no longer than a moment."""

    def __init__(self) -> None:
        self.waits = False
        self.hashed = threading.Event()
        self.go = threading.Event()

    def __hash__(self) -> int:
        if self.waits:
            self.hashed.set()
            self.go.wait(0.1)  # the other thread cannot go on before, unless it does without the lock
        return 1


def test_a_weight_is_not_read_in_the_middle_of_a_write() -> None:
    clock = VirtualClock()
    key = BlockingKey()
    writers: list[threading.Thread] = []

    def on_evict(evicted: Any, *_: object) -> None:
        if evicted == "expired":  # by the call that asks for the weight
            key.waits = True
            writers.append(threading.Thread(target=cache.set, args=("heavy", 10)))
            writers[0].start()
            assert key.hashed.wait(PATIENCE_SECONDS)

    cache: TTLCache[Any, int] = TTLCache(10, 10, clock=clock, weigher=lambda _, weight: weight, on_evict=on_evict)
    cache.set("expired", 1, ttl=1)
    cache[key] = 1  # the first of two that have to leave
    cache["other"] = 1
    cache["heavy"] = 1
    clock.advance(1)
    weight = cache.weight
    key.go.set()
    writers[0].join()
    assert weight <= 10
