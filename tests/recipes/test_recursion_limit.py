"""A call that exceeds the recursion limit fails alone: it leaves no lock taken."""

import queue
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from tests.recipes.test_delay_queue import Call
from tickwheel import DelayQueue, IdleTimeouts, ManualTimers, TTLCache, VirtualClock

CACHE_CALLS: dict[str, Callable[[TTLCache[Any, Any], int], object]] = {
    "get": lambda cache, _: cache.get("x"),
    "set": lambda cache, number: cache.set(number, 1),
    "setdefault": lambda cache, number: cache.setdefault(number, 1),
    "pop": lambda cache, _: cache.pop("x", None),
    "peek": lambda cache, _: cache.peek("x"),
    "ttl": lambda cache, _: cache.ttl("x"),
    "items": lambda cache, _: list(cache.items()),
    "weight": lambda cache, _: cache.weight,
    "len": lambda cache, _: len(cache),
    "get_or_load": lambda cache, number: cache.get_or_load(number, str),
    "clear": lambda cache, _: cache.clear(),
}


def call_at_every_depth(function: Callable[[int], object]) -> None:
    """Call a function from ever more calls, up to the limit, and then from fewer ones again."""
    numbers = count()

    def descend() -> None:
        with suppress(queue.Empty):
            function(next(numbers))
        try:
            descend()
        finally:
            with suppress(RecursionError, queue.Empty):
                function(next(numbers))

    with pytest.raises(RecursionError):
        descend()


@pytest.mark.parametrize("call", CACHE_CALLS)
def test_a_cache_is_free_after_calls_beyond_the_limit(call: str) -> None:
    told: list[object] = []
    cache: TTLCache[Any, Any] = TTLCache(5, "1h", clock=VirtualClock(), on_evict=lambda key, *_: told.append(key))
    cache["x"] = 1
    call_at_every_depth(lambda number: CACHE_CALLS[call](cache, number))
    assert Call(cache.get, "absent", "free").outcome() == "free"
    cache["last"] = 1
    del cache["last"]
    assert told[-1] == "last"
    assert cache._store.loads == {}
    cache.clear()
    assert (len(cache), cache.weight) == (0, 0)


def test_a_loader_that_recurses_too_deep_leaves_no_load_behind() -> None:
    cache: TTLCache[int, int] = TTLCache(10_000, "1h", clock=VirtualClock())

    def add_up(number: int) -> int:
        return cache.get_or_load(number, lambda below: add_up(below + 1))

    for padding in range(10):  # frames: the limit is met in each function on the way

        def pad(frames: int) -> int:
            return pad(frames - 1) if frames else add_up(0)

        with pytest.raises(RecursionError):
            pad(padding)
        assert cache._store.loads == {}
    assert Call(cache.get_or_load, 5, lambda _: 1).outcome() == 1


def test_a_queue_is_free_and_whole_after_calls_beyond_the_limit() -> None:
    delayed: DelayQueue[int] = DelayQueue(clock=VirtualClock())
    taken: list[int] = []
    call_at_every_depth(lambda number: delayed.put(number, delay=number % 2))
    held = delayed.qsize()
    assert delayed.unfinished_tasks == held
    call_at_every_depth(lambda _: taken.append(delayed.get_nowait()))
    assert Call(delayed.put, -1).outcome() is None
    assert len(taken) + len(delayed.drain()) == held + 1


def test_idle_timeouts_are_free_after_calls_beyond_the_limit() -> None:
    timers = ManualTimers(VirtualClock())
    timeouts: IdleTimeouts[int] = IdleTimeouts(timers)
    told: list[int] = []
    call_at_every_depth(lambda number: timeouts.watch(number, 10, told.append))
    call_at_every_depth(lambda number: timeouts.touch(number) and timeouts.forget(number))
    assert Call(timeouts.watch, -1, 10, told.append).outcome() is None
    watched = len(timeouts)
    timers.advance(10)
    assert (len(told), len(timeouts), len(timers)) == (watched, 0, 0)
