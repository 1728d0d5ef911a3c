"""A cache stays whole when something uses it, stops it or copies it in the middle of a write.

a destructor that the garbage collector runs        the code of a key        an interrupt        a fork
"""

import asyncio
import gc
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Event, Thread
from types import FrameType
from typing import Any, ClassVar

import pytest

from tickwheel import COMPILED, AsyncTimers, ManualTimers, TTLCache, VirtualClock


class Key:
    """A key that runs code when it is compared; all of them share one hash, so that they are."""

    on_compare: ClassVar[Callable[[], object] | None] = None

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        if Key.on_compare is not None:
            Key.on_compare()
        return isinstance(other, Key) and other.number == self.number


@pytest.fixture(autouse=True)
def quiet_keys() -> Iterator[None]:
    yield
    Key.on_compare = None


@pytest.fixture
def frequent_collections() -> Iterator[None]:
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()  # what other tests of this process have left is not looked at each time, now or later
    gc.set_threshold(7)
    yield
    gc.set_threshold(*thresholds)


# -- destructors


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.usefixtures("frequent_collections")
def test_what_leaves_is_noticed_once_though_destructors_write_to_the_cache(seed: int) -> None:
    rng = random.Random(seed)
    noticed: Counter[int] = Counter()
    written: list[int] = []
    busy = False
    cache: TTLCache[int, int] = TTLCache(6, "1h", on_evict=lambda _, value, __: noticed.update([value]))

    def write() -> None:
        value = len(written)
        written.append(value)
        cache[rng.randrange(8)] = value

    class Session:
        def __init__(self) -> None:
            self.itself = self  # only the collector frees it

        def __del__(self) -> None:
            nonlocal busy
            if not busy:
                busy = True
                write() if rng.random() < 0.5 else cache.pop(rng.randrange(8), None)
                busy = False

    kept: list[Any] = []
    for number in range(2_000):
        Session()
        kept.append((number, [number]))
        if len(kept) > 300:
            kept.clear()
        write() if rng.random() < 0.7 else cache.pop(rng.randrange(8), None)
    gc.disable()
    try:
        assert len(list(cache)) == len(cache) <= 6
        cache.clear()
        assert [value for value in written if noticed[value] != 1] == []
    finally:
        gc.enable()


@pytest.mark.usefixtures("frequent_collections")
def test_the_hand_is_not_moved_back_though_destructors_write_at_a_later_time() -> None:
    clock = VirtualClock()
    cache: TTLCache[Any, int] = TTLCache(2, "1h", clock=clock)
    errors: list[BaseException] = []

    class Session:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            clock.advance("5ms")
            try:
                cache["closed"] = 1
            except BaseException as error:  # noqa: BLE001 - or it would be printed only
                errors.append(error)

    gc.set_threshold(50)
    for made_before in range(60):  # so that each object that a write makes is once the one that starts a collection
        gc.collect()  # frees the lists that Python keeps for reuse too
        Session()
        clock.advance("1ms")
        kept: list[list[int]] = [[] for _ in range(made_before)]
        cache[made_before % 5] = len(kept)
    assert errors == []
    assert len(list(cache)) == len(cache)


# -- the code of keys


@pytest.mark.parametrize("nth", range(1, 5))
def test_a_value_that_is_replaced_while_its_item_is_evicted_is_noticed_once(nth: int) -> None:
    gone: list[int] = []
    cache: TTLCache[Any, int] = TTLCache(2, "1h", on_evict=lambda _, value, __: gone.append(value))
    first, second = Key(1), Key(2)
    cache[first], cache[second] = 1, 2

    compared = 0

    def replace() -> None:
        nonlocal compared
        compared += 1
        if compared == nth:
            Key.on_compare = None
            cache[first] = 10

    Key.on_compare = replace
    cache[Key(3)] = 3
    Key.on_compare = None
    assert sorted([*gone, *cache.values()]) == [1, 2, 3, 10]
    assert len(cache) == 2


@pytest.mark.parametrize("nth", range(1, 7))
def test_an_interrupted_eviction_loses_no_item(nth: int) -> None:
    gone: list[int] = []
    cache: TTLCache[Any, int] = TTLCache(3, "1h", on_evict=lambda _, value, __: gone.append(value))
    keys = [Key(number) for number in range(3)]
    for key in keys:
        cache[key] = key.number
    compared = 0

    def interrupt() -> None:
        nonlocal compared
        compared += 1
        if compared == nth:
            raise KeyboardInterrupt

    Key.on_compare = interrupt
    with pytest.raises(KeyboardInterrupt):
        cache[Key(9)] = 9
    Key.on_compare = None
    listed = [key.number for key in cache]
    assert len(cache) == len(listed)
    assert sorted(listed + gone) == [0, 1, 2]
    assert [cache.peek(key) for key in keys if key.number in listed] == listed
    cache[Key(9)] = 9
    assert cache[Key(9)] == 9
    assert len(cache) == 3


class HookedKey:
    """A key that runs code, once, when it is hashed."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.on_hash: Callable[[], object] | None = None

    def __hash__(self) -> int:
        on_hash, self.on_hash = self.on_hash, None
        if on_hash is not None:
            on_hash()
        return self.number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HookedKey) and other.number == self.number


def test_a_key_that_is_written_while_another_is_evicted_for_it_costs_no_item() -> None:
    gone: list[int] = []
    cache: TTLCache[HookedKey, int] = TTLCache(2, "1h", on_evict=lambda _, value, __: gone.append(value))
    first, second, third = (HookedKey(number) for number in range(3))
    cache[first], cache[second] = 1, 2

    def write() -> None:
        del cache[second]
        cache[third] = 30

    first.on_hash = write
    cache[third] = 3
    assert third in cache
    assert len(cache) == len(list(cache))
    assert sorted([*gone, *cache.values()]) == [1, 2, 3, 30]
    cache[first] = 10
    assert cache.peek(first) == 10
    assert sorted([*gone, *cache.values()]) == [1, 2, 3, 10, 30]


def test_a_key_that_is_written_while_its_item_is_evicted_keeps_what_was_written() -> None:
    gone: list[int] = []
    cache: TTLCache[HookedKey, int] = TTLCache(2, "1h", on_evict=lambda _, value, __: gone.append(value))
    first, second, third = (HookedKey(number) for number in range(3))
    cache[first], cache[second] = 1, 2
    first.on_hash = lambda: cache.set(HookedKey(0), 10)
    cache[third] = 3
    assert (len(cache), len(list(cache))) == (2, 2)
    assert sorted([*gone, *cache.values()]) == [1, 2, 3, 10]


def test_a_key_that_is_written_while_its_item_is_listed_again_costs_no_item() -> None:
    gone: list[int] = []
    cache: TTLCache[HookedKey, int] = TTLCache(9, "1h", on_evict=lambda _, value, __: gone.append(value))
    first, second = HookedKey(1), HookedKey(2)
    cache[first], cache[second] = 1, 2
    first.number = 2  # so that the other item is found by it
    second.on_hash = lambda: cache.set(HookedKey(2), 20)
    assert cache.popitem() == (first, 1)
    assert len(cache) == len(list(cache)) == 1
    assert cache[second] == 20
    assert sorted(gone) == [1, 2]


@pytest.mark.parametrize("what", ["an interrupt", "a write"])
def test_what_happens_while_changed_keys_are_cleared_away_costs_no_item(what: str) -> None:
    clock = VirtualClock()
    cache: TTLCache[Any, int] = TTLCache(99, "1h", clock=clock)
    hooked, last = HookedKey(-1), HookedKey(-2)
    cache[hooked], cache[last] = 1, 2
    happened: list[str] = []

    def happen() -> None:
        happened.append(what)
        if what == "an interrupt":
            raise KeyboardInterrupt
        cache[last] = 20
        cache[HookedKey(-3)] = 30

    hooked.on_hash = happen
    for number in range(100):
        key = HookedKey(number)
        with suppress(KeyboardInterrupt):
            cache.set(key, number, ttl="1s")
        key.number = -9
        clock.advance("2s")
        cache.expire()
    assert happened == [what]
    assert cache[hooked] == 1
    assert dict(cache) == ({hooked: 1, last: 2} if what == "an interrupt" else {hooked: 1, last: 20, HookedKey(-3): 30})
    assert len(cache) == len(dict(cache))
    assert len(cache._store.items.by_key) < 50


# -- notices


def test_sys_exit_in_on_evict_is_raised_after_the_last_notice() -> None:
    told: list[int] = []

    def on_evict(key: int, _value: int, _cause: str) -> None:
        told.append(key)
        if key == 0:
            sys.exit(3)

    cache: TTLCache[int, int] = TTLCache(10, "1h", on_evict=on_evict)
    for number in range(4):
        cache[number] = number
    with pytest.raises(SystemExit, match="3"):
        cache.clear()
    assert told == [0, 1, 2, 3]
    cache[7] = 7
    del cache[7]
    assert told[-1] == 7


def usable(cache: "TTLCache[Any, Any]") -> bool:
    """Tell whether another thread can get the lock."""
    other = Thread(target=cache.peek, args=("anything",), daemon=True)
    other.start()
    other.join(60)
    return not other.is_alive()


CALLS: dict[str, Callable[[Any], object]] = {
    "set": lambda cache: cache.set(Key(1), 2),
    "get": lambda cache: cache.get(Key(1)),
    "peek": lambda cache: cache.peek(Key(1)),
    "in": lambda cache: Key(1) in cache,
    "ttl": lambda cache: cache.ttl(Key(1)),
    "pop": lambda cache: cache.pop(Key(1)),
    "setdefault": lambda cache: cache.setdefault(Key(2), 2),
    "get_or_load": lambda cache: cache.get_or_load(Key(2), lambda _: 2),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_the_code_of_a_key_makes_leave_is_noticed_outside_the_lock(call: str) -> None:
    told: list[Any] = []
    cache: TTLCache[Any, int] = TTLCache(9, "1h", on_evict=lambda key, *_: told.append((key, usable(cache))))
    cache[Key(1)] = 1
    cache["victim"] = 1

    def pop() -> None:
        Key.on_compare = None
        cache.pop("victim")

    Key.on_compare = pop
    CALLS[call](cache)
    assert told[0] == ("victim", True)
    assert all(outside for _, outside in told)


@pytest.mark.parametrize("call", CALLS)
def test_what_the_code_of_a_key_makes_leave_is_dropped_outside_the_lock(call: str) -> None:
    dropped: list[bool] = []

    class Session:
        def __del__(self) -> None:
            dropped.append(usable(cache))

    cache: TTLCache[Any, Any] = TTLCache(9, "1h")
    cache[Key(1)] = 1
    cache["victim"] = Session()

    def delete() -> None:
        Key.on_compare = None
        del cache["victim"]

    Key.on_compare = delete
    CALLS[call](cache)
    assert dropped == [True]


@pytest.mark.parametrize("leaves", ["on_evict raises KeyboardInterrupt", "the code of a key writes"])
def test_an_item_is_swept_whatever_happens_in_the_write(leaves: str) -> None:
    timers = ManualTimers()
    interrupts = leaves.startswith("on_evict")

    def on_evict(key: Any, _value: int, _cause: str) -> None:
        gone.append(key)
        if interrupts and key == "old":
            raise KeyboardInterrupt

    gone: list[Any] = []
    cache: TTLCache[Any, int] = TTLCache(1 if interrupts else 9, "1h", timers=timers, on_evict=on_evict)
    if interrupts:
        cache["old"] = 1
        with pytest.raises(KeyboardInterrupt):
            cache.set("new", 2, ttl="1s")
    else:
        cache[Key(1)] = 1

        def write() -> None:
            Key.on_compare = None
            cache.set("new", 2, ttl="1s")

        Key.on_compare = write
        cache.peek(Key(1))
    timers.advance("2s")
    assert gone[-1] == "new"


# -- timers


def test_an_item_written_on_another_thread_is_swept_by_the_loop_of_its_timers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        swept = asyncio.Event()
        cache: TTLCache[str, int] = TTLCache(9, "1ms", timers=AsyncTimers(), on_evict=lambda *_: swept.set())
        await asyncio.to_thread(cache.set, "a", 1)
        await asyncio.wait_for(swept.wait(), 60)

    asyncio.run(main(), debug=True)  # the loop refuses timers of other threads
    assert "cannot start a timer" not in caplog.text


def test_a_message_of_the_sweeper_names_the_cache(caplog: pytest.LogCaptureFixture) -> None:
    timers = ManualTimers()
    cache: TTLCache[str, int] = TTLCache(9, "1h", timers=timers)
    timers.stop()
    cache["a"] = 1
    cache.clear()  # a handler may format a message later
    message = caplog.records[0].getMessage()
    assert message.startswith("the timers of <TTLCache items=1 maxsize=9 hits=0 misses=0> were stopped")


def test_a_write_after_the_loop_of_its_timers_was_closed_warns_and_succeeds(caplog: pytest.LogCaptureFixture) -> None:
    async def make() -> "TTLCache[str, int]":
        return TTLCache(9, "1h", timers=AsyncTimers())

    cache = asyncio.run(make())
    cache["a"] = 1
    cache["b"] = 2
    assert dict(cache.items()) == {"a": 1, "b": 2}
    assert caplog.text.count("were stopped; expired items are freed on writes only") == 1


STOPPED = "were stopped; expired items are freed on writes only"


def test_timers_that_are_stopped_while_a_sweep_is_pending_are_noticed_by_the_next_write(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = VirtualClock()
    timers = ManualTimers(clock)
    cache: TTLCache[str, int] = TTLCache(9, "1h", timers=timers)
    cache["a"] = 1
    timers.stop()
    assert caplog.text == ""
    cache["b"] = 2  # expires after the sweep that will not come
    cache["c"] = 3
    assert caplog.text.count(STOPPED) == 1
    clock.advance("1h")
    cache["d"] = 4
    assert dict(cache.items()) == {"d": 4}


def test_a_loop_that_is_closed_while_a_sweep_is_pending_is_noticed_by_the_next_write(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def make() -> "TTLCache[str, int]":
        cache: TTLCache[str, int] = TTLCache(9, "1h", timers=AsyncTimers())
        cache["a"] = 1
        return cache

    cache = asyncio.run(make())
    cache["b"] = 2
    cache["c"] = 3
    assert caplog.text.count(STOPPED) == 1


# -- forks


def exit_code_of_child(check: Callable[[], bool]) -> int:
    child = os.fork()
    if child == 0:
        passed = False
        try:
            passed = check()
        finally:
            os._exit(0 if passed else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_is_told_what_left_though_a_thread_of_its_parent_was_being_told() -> None:
    begun, end = Event(), Event()
    told: list[Any] = []

    def on_evict(key: Any, _value: int, _cause: str) -> None:
        if key == "slow":
            begun.set()
            end.wait()
        told.append(key)

    cache: TTLCache[Any, int] = TTLCache(9, "1h", on_evict=on_evict)
    cache["slow"] = 1
    thread = Thread(target=cache.pop, args=("slow",))
    thread.start()
    begun.wait()

    def told_in_new_thread() -> bool:
        cache[7] = 7
        remover = Thread(target=cache.pop, args=(7,))  # gets the identifier of the thread that does not exist here
        remover.start()
        remover.join()
        return told == [7]

    code = exit_code_of_child(told_in_new_thread)
    end.set()
    thread.join()
    assert code == 0


def test_a_fork_in_on_evict_leaves_the_remaining_notices_to_both_processes() -> None:
    told: list[int] = []
    children: list[int] = []

    def on_evict(key: int, _value: int, _cause: str) -> None:
        told.append(key)
        if key == 0:
            children.append(os.fork())

    cache: TTLCache[int, int] = TTLCache(9, "1h", on_evict=on_evict)
    for number in range(3):
        cache[number] = number
    try:
        cache.clear()
    finally:
        if children == [0]:
            os._exit(0 if told == [0, 1, 2] else 1)
    assert told == [0, 1, 2]
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0


def test_a_signal_handler_that_raises_while_a_fork_waits_leaves_no_cache_locked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    idle: TTLCache[str, int] = TTLCache(9, "1h")  # locked before the busy one, which the fork waits for
    busy: TTLCache[Any, int] = TTLCache(9, "1h")
    begun, end = Event(), Event()
    ignored: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)  # Python prints what is raised there

    def wait() -> None:
        Key.on_compare = None
        begun.set()
        end.wait()

    busy[Key(1)] = 1
    Key.on_compare = wait
    writer = Thread(target=busy.set, args=(Key(1), 2))
    writer.start()
    begun.wait()

    def interrupt(_: int, frame: FrameType | None) -> None:
        # Interpreted, only where it waits: between two lines an interrupt may lose a lock.
        waits = COMPILED or (frame is not None and frame.f_locals.get("self") is busy._store)
        while frame is not None and frame.f_code.co_name != "_before_fork":
            frame = frame.f_back
        if waits and frame is not None:
            raise InterruptedError

    handler = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)  # several times while the fork waits for a second
    try:
        code = exit_code_of_child(lambda: usable(idle) and usable(busy))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        end.set()
        writer.join()
    assert code == 0
    assert usable(idle)
    assert usable(busy)
    assert {type(each.exc_value) for each in ignored} <= {InterruptedError}


@pytest.mark.slow
@pytest.mark.parametrize("make_key", [int, Key], ids=["int", "Key"])
def test_a_child_forked_while_threads_write_has_a_whole_cache(make_key: Callable[[int], Any]) -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    cache: TTLCache[Any, int] = TTLCache(10, "1h", on_evict=lambda *_: None)
    stop = Event()

    def write(number: int) -> None:
        while not stop.is_set():
            number += 7
            cache[make_key(number % 20)] = number % 20
            cache.pop(make_key((number + 3) % 20), None)

    def whole() -> bool:
        listed = list(cache.items())
        for number in range(20):
            cache[make_key(number)] = number
        after = [cache.get(make_key(number)) for number in range(10, 20)]
        return (
            all(key == make_key(value) for key, value in listed)
            and len(cache) == len(list(cache)) == 10
            and after == list(range(10, 20))
        )

    threads = [Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    codes = [exit_code_of_child(whole) for _ in range(40)]
    stop.set()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
    assert codes == [0] * 40


def test_a_write_that_is_interrupted_before_its_timer_is_started_leaves_that_to_the_next() -> None:
    """At each line of the sweeper in turn, as a signal handler that raises would do."""
    interrupted = 0
    for nth in range(1, 40):
        timers, lines = ManualTimers(), 0
        gone: list[str] = []
        cache: TTLCache[str, int] = TTLCache(9, 5, timers=timers, on_evict=lambda key, *_, gone=gone: gone.append(key))

        def trace(frame: FrameType, event: str, _: object, nth: int = nth) -> Any:
            nonlocal lines
            if event == "line" and frame.f_code.co_name == "_start":
                lines += 1
                if lines == nth:
                    raise KeyboardInterrupt
            return trace if frame.f_code.co_filename.endswith("cache_sweeper.py") else None

        sys.settrace(trace)
        try:
            cache["a"] = 1
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.settrace(None)
        cache["b"] = 2
        timers.advance(60)
        assert sorted(gone) == ["a", "b"], f"after an interrupt at line {nth}"
    assert interrupted > 3
