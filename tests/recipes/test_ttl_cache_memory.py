"""A cache is a class like any other: subclassed, referred to weakly, and freed with what it holds."""

import gc
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.wheels.processes import run
from tickwheel import COMPILED, ManualTimers, Timers, TTLCache, VirtualClock


class Value:
    """Something that can be referred to weakly, and refers to anything."""

    def __init__(self, held: object = None) -> None:
        self.held = held


def test_a_weak_reference_dies_with_the_cache() -> None:
    cache: TTLCache[str, int] = TTLCache(5, 5)
    died: list[Any] = []
    reference = weakref.ref(cache, died.append)
    assert reference() is cache
    del cache
    assert reference() is None
    assert died == [reference]
    dead: weakref.ref[TTLCache[str, int]] = weakref.ref(TTLCache(5, 5))
    assert dead() is None


def test_it_can_be_subclassed() -> None:
    class Shouting(TTLCache[str, str]):
        """Overrides what it likes."""

        def __init__(self, maxsize: int) -> None:
            super().__init__(maxsize, 10)
            self.writes = 0

        def __setitem__(self, key: str, value: str) -> None:
            self.writes += 1
            super().__setitem__(key, value.upper())

    cache = Shouting(2)
    cache["a"] = "x"
    cache.update(b="y")
    assert dict(cache) == {"a": "X", "b": "Y"}
    assert cache.writes == 2
    assert repr(cache).startswith("<Shouting ")
    reference = weakref.ref(cache)
    del cache
    assert reference() is None


@pytest.mark.parametrize(
    "leave",
    [
        lambda cache, _: cache.pop("a"),
        lambda cache, _: cache.popitem(),
        lambda cache, _: cache.clear(),
        lambda cache, _: cache.set("a", None),
        lambda cache, _: cache.update(b=None, c=None),
        lambda cache, clock: (clock.advance(11), cache.expire()),
    ],
    ids=["pop", "popitem", "clear", "replace", "evict", "expire"],
)
def test_a_value_is_freed_when_it_leaves(leave: Callable[[Any, VirtualClock], object]) -> None:
    clock = VirtualClock()
    cache: TTLCache[str, Value | None] = TTLCache(2, 10, clock=clock)
    value = Value()
    cache["a"] = value
    reference = weakref.ref(value)
    del value
    assert reference() is not None
    leave(cache, clock)
    assert reference() is None


def test_what_it_holds_is_freed_with_it() -> None:
    cache: TTLCache[Value, Value] = TTLCache(1000, 10)
    references: list[weakref.ref[Value]] = []
    for _ in range(100):
        key, value = Value(), Value()
        cache[key] = value
        references += [weakref.ref(key), weakref.ref(value)]
        cache.get(key)
    del key, value, cache
    assert [reference() for reference in references] == [None] * 200


@pytest.mark.parametrize("timers", [None, ManualTimers()], ids=["alone", "with timers"])
def test_values_and_keys_that_refer_to_the_cache_are_collected_with_it(timers: ManualTimers | None) -> None:
    cache: TTLCache[Any, Any] = TTLCache(1000, 10, timers=timers)
    value, key = Value(cache), Value(cache)
    cache["a"] = value
    cache[key] = 1
    for number in range(100):
        cache[number] = Value((cache, value))
    references: list[weakref.ref[Any]] = [weakref.ref(cache), weakref.ref(value), weakref.ref(key)]
    del cache, value, key
    gc.collect()
    assert [reference() for reference in references] == [None, None, None]


def test_timers_do_not_keep_the_cache_alive() -> None:
    with Timers() as timers:
        cache: TTLCache[str, int] = TTLCache(9, "1h", timers=timers)
        cache["a"] = 1
        assert len(timers) == 1
        reference = weakref.ref(cache)
        del cache
        assert reference() is None
        assert len(timers) == 0


def test_items_are_no_burden_to_the_collector() -> None:
    cache: TTLCache[int, int] = TTLCache(100_000, 3600)
    gc.collect()
    before = len(gc.get_objects())
    for number in range(10_000):
        cache[number] = number
    tracked = len(gc.get_objects()) - before
    assert tracked < (100 if COMPILED else 10_100)


def test_a_finalizer_may_use_the_cache() -> None:
    class Restless:
        """Uses the cache when it is freed."""

        def __init__(self, number: int) -> None:
            self.number = number

        def __del__(self) -> None:
            cache.pop(self.number + 1, None)
            cache["freed"] = self.number
            len(cache)

    clock = VirtualClock()
    cache: TTLCache[Any, Any] = TTLCache(3, 10, clock=clock)
    for number in range(50):
        cache[number] = Restless(number)
        if number % 7 == 0:
            clock.advance(11)
    cache.clear()
    clock.advance(11)
    assert len(cache) == 0
    cache._store.items.wheel.check()


def test_a_key_may_use_the_cache_while_it_is_compared() -> None:
    class Meddler:
        """Changes the cache whenever it is hashed or compared."""

        def __init__(self, number: int) -> None:
            self.number = number

        def __hash__(self) -> int:
            self.meddle()
            return self.number % 3

        def __eq__(self, other: object) -> bool:
            self.meddle()
            return isinstance(other, Meddler) and self.number == other.number

        def meddle(self) -> None:
            if len(deep) < 2:
                deep.append(self)
                if steps[self.number % 3] == "clear":
                    cache.clear()
                elif steps[self.number % 3] == "set":
                    cache[keys[(self.number + 1) % len(keys)]] = -1
                else:
                    with suppress(KeyError):  # a key that is compared meanwhile may take the last one
                        cache.popitem()
                deep.pop()

    steps = ["clear", "set", "popitem"]
    clock = VirtualClock()
    cache: TTLCache[Any, int] = TTLCache(4, 10, clock=clock)
    deep: list[object] = []
    keys = [Meddler(number) for number in range(12)]
    for turn in range(200):
        key = keys[turn % 12]
        cache[key] = turn
        cache.get(keys[(turn * 5) % 12])
        cache.pop(keys[(turn * 7) % 12], None)
        clock.advance(turn % 3 * 4)
        cache._store.items.wheel.check()
        assert len(cache) <= 4
    cache.clear()
    clock.advance(11)
    assert len(cache) == 0
    assert len(cache._store.items) == 0


# Each allocation of a call fails in turn, in a process of its own. None of the calls has the dict of a cache grow:
# the `setdefault` of Python 3.13.0 itself breaks a dict that has no memory for that.
FAILURES = """
    import os
    import _testcapi
    from tickwheel import COMPILED, TTLCache, VirtualClock

    def check(cache):
        items = cache._store.items
        listed = list(cache.items())
        assert len(cache) == len(listed) == cache.weight, (len(cache), listed, cache.weight)
        assert all(str(key) == value for key, value in listed), listed
        assert all(cache.peek(key) == value for key, value in listed), listed
        assert all(items.kept[at].place == at for at in range(0, len(items.kept), 3)), items.kept
        if COMPILED:  # interpreted, each number that the wheel counts is an allocation
            items.wheel.check()

    def attempt(fail_at):
        clock = VirtualClock()
        cache = TTLCache(14, 60, clock=clock)
        for number in range({items}):
            cache[number] = str(number)
        {before}
        _testcapi.set_nomemory(fail_at, fail_at + 1)
        try:
            {call}
        except MemoryError:
            pass
        finally:
            _testcapi.remove_mem_hooks()
        check(cache)
        for number in range(20, 40):
            cache[number] = str(number)
            check(cache)
        clock.advance(61)
        check(cache)
        assert len(cache) == 0
        assert not cache._store.items.kept

    for fail_at in range(40):
        child = os.fork()
        if child == 0:
            attempt(fail_at)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, -6), (fail_at, code)  # -6: mypyc ends a process that has no memory for an int
"""


@pytest.mark.parametrize(
    ("items", "before", "call"),
    [
        (14, "", "cache.clear()"),
        (5, "", "cache.pop(0)"),
        (12, "", "cache[99] = '99'"),
        (13, "", "cache[99] = '99'"),
        (14, "", "cache[99] = '99'"),
        (14, "", "cache.set(99, '99', ttl=3)"),
        (14, "", "cache.set(0, '0', ttl=3)"),
        (14, "len(cache)", "cache.set(99, '99', ttl=1e-9)"),
        (14, "clock.advance(61)", "cache.expire()"),
    ],
)
def test_a_cache_is_whole_after_memory_was_short(items: int, before: str, call: str) -> None:
    pytest.importorskip("_testcapi")
    run(FAILURES.format(items=items, before=before, call=call), "compiled" if COMPILED else "pure")


def test_a_call_that_fails_for_lack_of_memory_leaves_the_cache_unlocked() -> None:
    """One allocation fails, each in turn, when there is no list that Python could use again."""
    script = """
        import gc, threading
        import _testcapi
        from tickwheel import TTLCache

        gc.disable()
        lists = []
        for nth in range(12):
            cache = TTLCache(3, 60)
            for key in range(4):
                cache[key] = key
            lists += [[] for _ in range(300)]
            _testcapi.set_nomemory(nth, nth + 1)
            try:
                cache["new"] = 1
            except MemoryError:
                pass
            finally:
                _testcapi.remove_mem_hooks()
            counted = []
            other = threading.Thread(target=lambda: counted.append(len(cache)), daemon=True)
            other.start()
            other.join(60)
            assert counted in ([2], [3]), (nth, counted)
        print("unlocked")
    """
    assert run(script, "compiled").stdout == "unlocked\n"
