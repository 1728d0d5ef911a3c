"""`DelayQueue`: items come out when they are due, in order, to one getter each."""

import copy
import queue
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any
from weakref import ref

import numpy as np
import pytest

from tests.builds import Build
from tests.interrupts import said
from tests.wheels.processes import run
from tickwheel import AsyncDelayQueue, DelayQueue, SystemClock, VirtualClock
from tickwheel.errors import InvalidBlock, InvalidClock, InvalidDuration, InvalidOption, NotCopyable
from tickwheel.recipes.delayed_items import DelayedItems

PATIENCE_SECONDS = 30

BAD_DELAYS = [-1, -0.001, "banana", "-5s", float("nan"), float("inf"), 1e300, 10**30, True, None, [5]]


class WatchedClock(VirtualClock):
    """A clock that tells which threads have read it.

    `get` reads it under the queue's lock, which it holds until it waits: whoever takes the lock afterwards finds it
    waiting.
    """

    def __init__(self) -> None:
        super().__init__()
        self._read_by: defaultdict[threading.Thread, threading.Event] = defaultdict(threading.Event)

    def monotonic_ns(self) -> int:
        self._read_by[threading.current_thread()].set()
        return super().monotonic_ns()

    def forget_readers(self) -> None:
        self._read_by.clear()

    def wait_for_reader(self, thread: threading.Thread) -> None:
        assert self._read_by[thread].wait(PATIENCE_SECONDS)


class Call(threading.Thread):
    """A call in a thread of its own, and how it ended."""

    def __init__(self, function: Callable[..., Any], *args: Any, **options: Any) -> None:
        super().__init__(daemon=True)
        self._call = partial(function, *args, **options)
        self._outcome: list[Any] = []
        self.start()

    def run(self) -> None:
        try:
            self._outcome.append(self._call())
        except Exception as error:  # noqa: BLE001 - for the test to look at
            self._outcome.append(error)

    def outcome(self) -> Any:
        """Wait for the end; return the result, or the exception."""
        self.join(PATIENCE_SECONDS)
        assert not self.is_alive(), "it waits for ever"
        return self._outcome[0]


@pytest.fixture
def clock() -> WatchedClock:
    return WatchedClock()


@pytest.fixture
def delayed(clock: WatchedClock) -> DelayQueue[Any]:
    return DelayQueue(clock=clock)


def start_getters(delayed: DelayQueue[str], clock: WatchedClock, count: int) -> list[Call]:
    getters = [Call(delayed.get) for _ in range(count)]
    for getter in getters:
        clock.wait_for_reader(getter)
    return getters


# -- order and time


def test_items_come_out_when_due_and_not_before(delayed: DelayQueue[str], clock: VirtualClock) -> None:
    delayed.put("later", delay="5m")
    delayed.put("now")
    assert delayed.get_nowait() == "now"
    clock.advance("4m59.999s")
    with pytest.raises(queue.Empty):
        delayed.get_nowait()
    assert (delayed.qsize(), delayed.due()) == (1, 0)
    clock.advance("1ms")
    assert delayed.due() == 1
    assert delayed.get_nowait() == "later"


def test_order_is_by_due_time_and_then_as_put(delayed: DelayQueue[str], clock: VirtualClock) -> None:
    for item, delay in (("c", 2), ("a", 1), ("d", 2), ("b", 1)):
        delayed.put(item, delay=delay)
    clock.advance(2)
    delayed.put("e")
    assert [delayed.get_nowait() for _ in range(5)] == list("abcde")


def test_items_without_a_delay_are_due_when_they_are_put(delayed: DelayQueue[str], clock: VirtualClock) -> None:
    delayed.put("a", delay=1)
    delayed.put("c", delay=2)
    clock.advance(1.5)
    delayed.put("b")
    clock.advance(1.5)
    delayed.put("d")
    assert delayed.due() == 4
    assert [delayed.get_nowait() for _ in range(4)] == list("abcd")


def test_counting_due_items_changes_nothing(delayed: DelayQueue[str], clock: VirtualClock) -> None:
    delayed.put("a")
    clock.advance(1)
    delayed.put("b", delay=1)
    assert delayed.due() == 1
    assert delayed.get_nowait() == "a"
    with pytest.raises(queue.Empty):
        delayed.get_nowait()
    clock.advance(1)
    assert delayed.get_nowait() == "b"


def test_more_items_of_one_moment_than_are_moved_in_one_step_keep_their_order(clock: VirtualClock) -> None:
    delayed: DelayQueue[int] = DelayQueue(clock=clock)
    for number in range(5000):
        delayed.put(number, delay="1h")
    clock.advance("1h")
    assert delayed.get_nowait() == 0
    delayed.put(5000)
    assert [delayed.get_nowait() for _ in range(5000)] == list(range(1, 5001))


def test_a_delay_counts_from_the_call_of_put(clock: WatchedClock) -> None:
    delayed: DelayQueue[str] = DelayQueue(maxsize=1, clock=clock)
    delayed.put("first")
    putter = Call(delayed.put, "second", delay=10)
    clock.wait_for_reader(putter)
    clock.advance(9)
    assert delayed.get_nowait() == "first"
    assert putter.outcome() is None
    assert delayed.due() == 0
    clock.advance(1)
    assert delayed.get_nowait() == "second"


# -- the standard methods


def test_size_counts_every_item_and_due_those_that_can_be_taken(clock: VirtualClock) -> None:
    delayed: DelayQueue[str] = DelayQueue(maxsize=2, clock=clock)
    delayed.put("a", delay=10)
    assert (delayed.qsize(), delayed.due(), delayed.empty(), delayed.full()) == (1, 0, False, False)
    delayed.put_nowait("b")
    assert (delayed.qsize(), delayed.due(), delayed.empty(), delayed.full()) == (2, 1, False, True)
    with pytest.raises(queue.Full):
        delayed.put_nowait("c", delay=1)
    delayed.get_nowait()
    delayed.put_nowait("c", delay=1)
    clock.advance(10)
    assert [delayed.get_nowait(), delayed.get_nowait()] == ["c", "a"]
    assert delayed.empty()


def test_get_gives_up_after_its_timeout_though_the_clock_stands_still(delayed: DelayQueue[str]) -> None:
    delayed.put("far", delay="1h")
    with pytest.raises(queue.Empty):
        delayed.get(timeout=0.01)
    for timeout in (-1, float("nan")):
        with pytest.raises(ValueError, match=r"timeout: .* must (not be negative|be a finite number)"):
            delayed.get(timeout=timeout)
    with pytest.raises(queue.Empty):
        delayed.get(block=False, timeout=-1)


def test_join_waits_for_delayed_items(delayed: DelayQueue[str], clock: VirtualClock) -> None:
    delayed.put("a", delay=1)
    assert delayed.unfinished_tasks == 1
    joiner = Call(delayed.join)
    clock.advance(1)
    delayed.get_nowait()
    delayed.task_done()
    assert joiner.outcome() is None
    with pytest.raises(ValueError, match="task_done"):
        delayed.task_done()


@pytest.mark.parametrize("delay", BAD_DELAYS, ids=repr)
def test_a_bad_delay_puts_nothing_in(delayed: DelayQueue[str], delay: Any) -> None:
    for put in (delayed.put, delayed.put_nowait):
        with pytest.raises(InvalidDuration, match=r"^delay: invalid duration"):
            put("a", delay=delay)
    assert (delayed.qsize(), delayed.unfinished_tasks) == (0, 0)


@pytest.mark.parametrize("delay", [5, 0.5, "5m", timedelta(seconds=5)], ids=repr)
def test_a_delay_that_is_given_by_position_is_refused(delayed: DelayQueue[str], delay: Any) -> None:
    with pytest.raises(InvalidBlock, match="pass a delay by name, as delay="):
        delayed.put("a", delay)
    assert (delayed.qsize(), delayed.unfinished_tasks) == (0, 0)
    for block in (True, False, 0):
        delayed.put("a", block)  # type: ignore[arg-type]
    assert delayed.qsize() == 3


def test_drain_takes_everything_in_due_order_and_the_queue_goes_on(clock: WatchedClock) -> None:
    delayed: DelayQueue[str] = DelayQueue(maxsize=4, clock=clock)
    for item, delay in (("d", "1000d"), ("b", 0), ("c", 5), ("a", 0)):
        delayed.put(item, delay=delay)
    putters = [Call(delayed.put, item, delay=1) for item in "xy"]
    for putter in putters:
        clock.wait_for_reader(putter)
    assert delayed.drain() == ["b", "a", "c", "d"]
    assert [putter.outcome() for putter in putters] == [None, None]
    assert delayed.unfinished_tasks == 6
    assert (delayed.qsize(), delayed.due()) == (2, 0)
    clock.advance(1)
    assert {delayed.get_nowait(), delayed.get_nowait()} == {"x", "y"}
    assert delayed.drain() == []


# -- threads


def test_a_getter_that_gives_up_leaves_the_item_to_the_next(delayed: DelayQueue[str], clock: WatchedClock) -> None:
    first = Call(delayed.get, timeout=0.05)
    clock.wait_for_reader(first)
    (second,) = start_getters(delayed, clock, 1)
    delayed.put("item", delay=0.1)  # notifies the first, whose timeout is over before the clock goes on
    assert isinstance(first.outcome(), queue.Empty)
    clock.advance(0.1)
    assert second.outcome() == "item"


def test_a_waiting_getter_is_woken_for_an_earlier_item(delayed: DelayQueue[str], clock: WatchedClock) -> None:
    delayed.put("far", delay="1h")
    (getter,) = start_getters(delayed, clock, 1)
    delayed.put("near", delay=0.02)
    clock.advance(0.02)
    assert getter.outcome() == "near"


def test_a_getter_that_waits_for_a_thousand_years_takes_an_earlier_item(
    delayed: DelayQueue[str], clock: WatchedClock
) -> None:
    delayed.put("far", delay="365250d")
    (getter,) = start_getters(delayed, clock, 1)
    delayed.put("now")
    assert getter.outcome() == "now"


def test_items_due_at_once_wake_a_getter_each(delayed: DelayQueue[str], clock: WatchedClock) -> None:
    getters = start_getters(delayed, clock, 3)
    for item in "abc":
        delayed.put(item, delay=0.02)
    clock.advance(0.02)
    assert {getter.outcome() for getter in getters} == {"a", "b", "c"}


def test_getters_that_another_thread_forestalls_wait_for_the_other_items(
    delayed: DelayQueue[str], clock: WatchedClock
) -> None:
    getters = start_getters(delayed, clock, 3)
    for item, delay in (("a", 0.01), ("b", 0.02), ("c", 0.03), ("d", 0.04)):
        delayed.put(item, delay=delay)
    clock.advance(0.04)
    taken = [delayed.get(timeout=PATIENCE_SECONDS), *(getter.outcome() for getter in getters)]
    assert sorted(taken) == list("abcd")


def test_threads_take_every_item_once_and_none_early() -> None:
    clock = SystemClock()
    delayed: DelayQueue[tuple[int, int] | None] = DelayQueue(maxsize=8000, clock=clock)
    taken: Counter[tuple[int, int]] = Counter()
    early: list[tuple[int, int]] = []
    lock = threading.Lock()

    def put(producer: int) -> None:
        rng = Random(producer)
        for index in range(5000):
            delay_ns = rng.choice([0, rng.randrange(200_000_000)])
            due_ns = clock.monotonic_ns() + delay_ns
            delayed.put((due_ns, producer * 5000 + index), delay=delay_ns / 1e9)

    def take(consumer: int) -> None:
        rng = Random(consumer)
        while True:
            try:
                item = delayed.get(timeout=rng.choice([None, 0, 0.001, 0.01]))
            except queue.Empty:
                continue
            now_ns = clock.monotonic_ns()
            delayed.task_done()
            if item is None:
                return
            with lock:
                taken[item] += 1
                early.extend([item] if now_ns < item[0] else [])

    producers = [Call(put, number) for number in range(4)]
    consumers = [Call(take, number) for number in range(4)]
    assert [producer.outcome() for producer in producers] == [None] * 4
    for _ in consumers:
        delayed.put(None, delay=0.3)  # due after all others
    assert [consumer.outcome() for consumer in consumers] == [None] * 4
    assert early == []
    assert len(taken) == 20_000
    assert set(taken.values()) == {1}
    delayed.join()


@pytest.mark.parametrize("timeout", [float("inf"), 1e300, 10**400])
def test_any_timeout_will_do_if_an_item_is_there(delayed: DelayQueue[str], timeout: float) -> None:
    delayed.put("a")
    assert delayed.get(timeout=timeout) == "a"


class HookedWheel:
    """The wheel of a queue, which calls a hook, once, after a call of one of its methods."""

    def __init__(self, items: DelayedItems[Any], hook: Callable[[], object]) -> None:
        self._wheel: Any = items.wheel
        self._hook: Callable[[], object] | None = hook
        items.wheel = self  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._wheel)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._wheel, name)
        return partial(self._call, found) if callable(found) else found

    def _call(self, method: Callable[..., Any], *args: Any) -> Any:
        result = method(*args)
        hook, self._hook = self._hook, None
        if hook is not None:
            hook()
        return result


def interrupt() -> None:
    raise KeyboardInterrupt


def test_an_interrupted_get_loses_no_item(delayed: DelayQueue[int], clock: VirtualClock) -> None:
    for number in range(300):
        delayed.put(number, delay=1)
    clock.advance(2)
    HookedWheel(delayed.queue, interrupt)
    with pytest.raises(KeyboardInterrupt):
        delayed.get_nowait()
    assert delayed.qsize() == 300
    assert [delayed.get_nowait() for _ in range(300)] == list(range(300))
    for _ in range(300):
        delayed.task_done()
    delayed.join()


@pytest.mark.parametrize("taken_before", [0, 1, 299])
def test_an_interrupted_count_loses_no_item(delayed: DelayQueue[int], clock: VirtualClock, taken_before: int) -> None:
    for number in range(1_000):
        delayed.put(number, delay=1)
    clock.advance(2)
    taken = [delayed.get_nowait() for _ in range(taken_before)]
    HookedWheel(delayed.queue, interrupt)
    with pytest.raises(KeyboardInterrupt):
        delayed.due()
    assert delayed.qsize() == delayed.due() == 1_000 - taken_before
    assert taken + [delayed.get_nowait() for _ in range(1_000 - taken_before)] == list(range(1_000))


def test_an_interrupted_drain_takes_nothing(delayed: DelayQueue[str], clock: VirtualClock) -> None:
    delayed.put("now")
    for name in "abc":
        delayed.put(name, delay=10)
    HookedWheel(delayed.queue, interrupt)
    with pytest.raises(KeyboardInterrupt):
        delayed.drain()
    assert (delayed.qsize(), delayed.due()) == (4, 1)
    delayed.put("sooner", delay=5)
    clock.advance(5)
    assert [delayed.get_nowait(), delayed.get_nowait(), delayed.due()] == ["now", "sooner", 0]
    assert delayed.drain() == ["a", "b", "c"]


def test_drain_keeps_the_order_of_items_that_are_on_their_way_down_the_wheel(clock: VirtualClock) -> None:
    delayed: DelayQueue[int] = DelayQueue(clock=clock)
    for number in range(5_000):  # more than one step moves from a dial to the next
        delayed.put(number, delay=100)
    clock.advance(100)
    delayed.queue.poll(100_000)
    for number in range(5_000, 5_010):
        delayed.queue.append(number, 0, 100_000)
    assert delayed.drain() == list(range(5_010))


def test_what_a_standard_queue_lists_can_be_cleared(delayed: DelayQueue[str]) -> None:
    delayed.put("now")
    delayed.put("later", delay=10)
    with delayed.mutex:
        delayed.queue.clear()
    assert delayed.empty()


def test_the_items_of_a_queue_are_those_that_are_due_at_the_moment(
    delayed: DelayQueue[str], clock: VirtualClock
) -> None:
    delayed.put("c", delay=2)
    delayed.put("a", delay=1)
    clock.advance(1)
    delayed.put("b")
    delayed.put("d", delay="1h")
    assert list(delayed.queue) == ["a", "b"]
    clock.advance(1)
    with delayed.mutex:
        assert (list(delayed.queue), delayed.queue[0], delayed.queue[-1]) == (["a", "b", "c"], "a", "c")
        with pytest.raises(IndexError):
            delayed.queue[3]
    assert "c" in delayed.queue
    assert "d" not in delayed.queue
    assert (len(delayed.queue), delayed.qsize()) == (4, 4)
    for item in delayed.queue:
        assert delayed.get_nowait() == item
    assert list(delayed.queue) == []
    clock.advance("1h")
    assert list(delayed.queue) == ["d"]


def test_items_are_looked_at_while_another_thread_takes_them(build: Build) -> None:
    script = """
        import sys, threading, time
        from tickwheel import DelayQueue
        sys.setswitchinterval(1e-6)
        queue = DelayQueue()
        done = threading.Event()
        def use():
            while not done.is_set():
                for number in range(20):
                    queue.put(number, delay=1e-6)
                for number in range(20):
                    assert queue.get() == number
        user = threading.Thread(target=use)
        user.start()
        try:
            until = time.monotonic() + 1
            while time.monotonic() < until:
                seen = list(queue.queue)
                assert seen == sorted(seen) and None not in seen, seen
        finally:
            done.set()
            user.join()
        print("in order")
    """
    assert run(script, build.name).stdout == "in order\n"


def test_a_queue_is_freed_as_soon_as_it_is_dropped() -> None:
    queues: list[Any] = [DelayQueue(), AsyncDelayQueue()]
    freed = [ref(queue) for queue in queues]
    queues.clear()
    assert [queue() for queue in freed] == [None, None]


@pytest.mark.parametrize("kind", [DelayQueue, AsyncDelayQueue])
def test_a_queue_cannot_be_copied(kind: type[Any]) -> None:
    with pytest.raises(NotCopyable, match="cannot be copied"):
        copy.copy(kind())


def test_an_item_without_a_delay_comes_before_one_that_is_due_at_the_end_of_its_millisecond() -> None:
    clock = VirtualClock()
    queue: DelayQueue[str] = DelayQueue(clock=clock)
    queue.put("due at the end of the first millisecond", delay="1us")
    clock.advance("500us")
    queue.put("in the first millisecond")
    clock.advance("500us")
    queue.put("at the beginning of the second")
    assert queue.drain() == [
        "in the first millisecond",
        "due at the end of the first millisecond",
        "at the beginning of the second",
    ]


def test_an_invalid_clock_is_refused() -> None:
    with pytest.raises(InvalidClock, match="invalid clock 5"):
        DelayQueue(clock=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidClock, match="VirtualClock"):
        DelayQueue(clock=VirtualClock)  # type: ignore[arg-type]


def test_an_interrupted_call_leaves_the_queue_unlocked(build: Build) -> None:
    script = """
        from tickwheel import DelayQueue
        queue = DelayQueue()
        def pass_one():
            queue.put(1)
            queue.get()
        for _ in range(1000):
            repeat(pass_one)
            assert not queue.mutex.locked()
        print("unlocked")
    """
    assert said(script, build.name) == "unlocked\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "wait"),
    [
        ("DelayQueue()", "queue.get(timeout=0.0001)"),
        ("DelayQueue(1); queue.put(1, delay=1000)", "queue.put(2, timeout=0.0001)"),
        ("DelayQueue(); queue.put(1, delay=1000)", "queue.join()"),
    ],
)
def test_an_interrupted_wait_frees_no_lock_that_another_thread_has(build: Build, make: str, wait: str) -> None:
    script = f"""
        import sys
        from queue import Empty, Full
        from tickwheel import DelayQueue
        sys.setswitchinterval(1e-5)
        queue = {make}
        errors = []
        done = threading.Event()
        def look():
            while not done.is_set():
                try:
                    queue.qsize()
                except RuntimeError as error:
                    errors.append(error)
        def wait():
            try:
                {wait}
            except (Empty, Full):
                pass
        other = threading.Thread(target=look)
        other.start()
        try:
            for _ in range(800):
                repeat(wait)
        finally:
            done.set()
            other.join()
        print(errors, queue.mutex.locked())
    """
    assert said(script, build.name) == "[] False\n"


def test_an_interrupted_put_is_counted_if_its_item_is_in_and_wakes_a_getter(build: Build) -> None:
    script = """
        import time
        from tickwheel import COMPILED, DelayQueue
        queue = DelayQueue()
        def take():
            while True:
                queue.get()
                queue.task_done()
        threading.Thread(target=take, daemon=True).start()
        def put():
            queue.put(1)
            if COMPILED:  # an interrupt can break an interpreted wheel
                queue.put(2, delay=1e-6)
        for _ in range(800):
            interrupt_once(put)
            until = time.monotonic() + 30
            while (queue.qsize() or queue.unfinished_tasks) and time.monotonic() < until:
                time.sleep(0.00005)
            assert (queue.qsize(), queue.unfinished_tasks) == (0, 0)
        print("all taken")
    """
    assert said(script, build.name) == "all taken\n"


def test_an_interrupted_get_leaves_the_item_to_another_thread_that_waits(build: Build) -> None:
    script = """
        import time
        from queue import Empty
        from tickwheel import DelayQueue
        queue = DelayQueue()
        def take():
            while True:
                queue.get()
        def put():
            while go.acquire():
                queue.put(1)
        def get():
            try:
                queue.get(timeout=0.0002)
            except Empty:
                pass
        go = threading.Semaphore(0)
        for target in (take, put):
            threading.Thread(target=target, daemon=True).start()
        for _ in range(800):
            go.release()
            interrupt_once(get)
            until = time.monotonic() + 30
            while queue.qsize() and time.monotonic() < until:
                time.sleep(0.00005)
            assert queue.qsize() == 0
        print("all taken")
    """
    assert said(script, build.name) == "all taken\n"


# -- items whose class is computed, as that of lazy proxies


class LazyProxy:
    """An item whose class is found by evaluating it, as that of Django's or werkzeug's lazy objects."""

    def __init__(self, evaluate: Callable[[], object]) -> None:
        self._evaluate = evaluate

    @property  # type: ignore[misc] # read-only, as theirs
    def __class__(self) -> Any:
        return type(self._evaluate())


def refuse() -> object:
    raise RuntimeError("working outside of request context")


@pytest.mark.parametrize("delay", [0, 1])
def test_a_proxy_that_cannot_be_evaluated_comes_out_as_it_was_put_in(
    delayed: DelayQueue[LazyProxy], clock: VirtualClock, delay: int
) -> None:
    proxy = LazyProxy(refuse)
    delayed.put(proxy, delay=delay)
    clock.advance(delay)
    assert delayed.get() is proxy
    delayed.task_done()
    delayed.join()


@pytest.mark.parametrize("delay", [0, 1])
def test_a_proxy_that_uses_the_queue_when_it_is_evaluated_does_not_wait_for_itself(
    delayed: DelayQueue[object], clock: VirtualClock, delay: int
) -> None:
    proxy = LazyProxy(lambda: delayed.put("evaluated"))
    assert Call(delayed.put, proxy, delay=delay).outcome() is None
    clock.advance(delay)
    assert Call(delayed.get).outcome() is proxy
    assert delayed.qsize() == 0


# -- subclasses


class UniqueQueue(DelayQueue[str]):
    """The usual subclass of `queue.Queue` that takes each item once."""

    def _init(self, maxsize: int) -> None:
        super()._init(maxsize)
        self.seen: list[str] = []

    def _put(self, item: str) -> None:
        if item not in self.seen:
            self.seen.append(item)
            super()._put(item)


def test_an_overridden_put_hook_sees_the_items_themselves(clock: VirtualClock) -> None:
    unique = UniqueQueue(clock=clock)
    unique.put("a", delay=10)
    clock.advance(1)
    unique.put("a", delay=10)
    unique.put("b")
    assert unique.seen == ["a", "b"]
    assert (unique.qsize(), unique.due()) == (2, 1)
    clock.advance(9)
    assert unique.drain() == ["b", "a"]


class RequeueingQueue(DelayQueue[str]):
    """Puts each item in again, by the hook, when it is taken."""

    def _get(self) -> str:
        item = super()._get()
        self._put(item)
        return item


def test_a_hook_called_outside_of_put_adds_an_item_without_a_delay(clock: VirtualClock) -> None:
    queue_of_one = RequeueingQueue(clock=clock)
    queue_of_one.put("a", delay=10)
    clock.advance(10)
    assert [queue_of_one.get_nowait(), queue_of_one.get_nowait()] == ["a", "a"]


class FailingQueue(DelayQueue[str]):
    def _put(self, item: str) -> None:
        if item == "bad":
            raise ValueError(item)
        super()._put(item)


def test_a_hook_that_fails_leaves_its_delay_to_no_other_item(clock: VirtualClock) -> None:
    failing = FailingQueue(clock=clock)
    with pytest.raises(ValueError, match="bad"):
        failing.put("bad", delay=10)
    failing.put("good")
    assert failing.get_nowait() == "good"


# -- arguments


@pytest.mark.parametrize("block", [1, 5, 0.5, "5m", np.array([1, 2])], ids=repr)
def test_a_delay_in_the_place_of_block_is_refused(delayed: DelayQueue[str], block: Any) -> None:
    with pytest.raises(InvalidBlock, match="expected True or False; pass a delay by name, as delay="):
        delayed.put("a", block)
    assert delayed.empty()


@pytest.mark.parametrize("timeout", [0.01, "10ms", "PT0.01S", timedelta(milliseconds=10)])
def test_a_timeout_is_any_duration(clock: VirtualClock, timeout: Any) -> None:
    delayed: DelayQueue[str] = DelayQueue(1, clock=clock)
    with pytest.raises(queue.Empty):
        delayed.get(timeout=timeout)
    delayed.put("a", timeout=timeout)
    with pytest.raises(queue.Full):
        delayed.put("b", timeout=timeout)


@pytest.mark.parametrize("timeout", [float("nan"), -1, "banana", [5]])
@pytest.mark.parametrize("maxsize", [0, 1])
def test_a_bad_timeout_is_refused(clock: VirtualClock, maxsize: int, timeout: Any) -> None:
    delayed: DelayQueue[str] = DelayQueue(maxsize, clock=clock)
    with pytest.raises(InvalidDuration, match=r"^timeout: invalid duration"):
        delayed.get(timeout=timeout)
    with pytest.raises(InvalidDuration, match=r"^timeout: invalid duration"):
        delayed.put("a", timeout=timeout)
    assert delayed.empty()


@pytest.mark.parametrize("kind", [DelayQueue, AsyncDelayQueue])
@pytest.mark.parametrize("maxsize", ["5", None, float("nan"), True])
def test_a_bad_maxsize_is_refused(kind: Any, maxsize: Any) -> None:
    with pytest.raises(InvalidOption, match=r"maxsize must be a number \(0 for no limit\), not "):
        kind(maxsize)


def test_a_subclass_that_takes_an_item_before_its_time_makes_no_other_early(clock: VirtualClock) -> None:
    class Skipping(DelayQueue[str]):
        skipped = frozenset({"a"})

        def _get(self) -> str:
            item = super()._get()
            while item in self.skipped and self._qsize():
                item = super()._get()
            return item

    delayed = Skipping(clock=clock)
    delayed.put("a")
    for name in ("b", "c"):
        delayed.put(name, delay=100)
    delayed.put("d", delay=200)
    assert delayed.get(block=False) == "b"  # as it asked for
    assert delayed.due() == 0
    delayed.put("sooner", delay=1)
    delayed.put("at the same time", delay=100)
    taken: list[str] = []
    for _ in range(4):
        with pytest.raises(queue.Empty):
            delayed.get(block=False)
        clock.advance(1 if not taken else 99 if taken == ["sooner"] else 100)
        while delayed.due():
            taken.append(delayed.get(block=False))
    assert taken == ["sooner", "c", "at the same time", "d"]


def test_a_queue_whose_only_item_was_taken_before_its_time_takes_an_earlier_one(clock: VirtualClock) -> None:
    class Eager(DelayQueue[str]):
        def take_first(self) -> str:
            with self.mutex:
                return self._get()

    delayed = Eager(clock=clock)
    delayed.put("in an hour", delay="1h")
    assert delayed.take_first() == "in an hour"
    delayed.put("in a minute", delay="1m")
    assert delayed.due() == 0
    clock.advance("1m")
    assert delayed.get_nowait() == "in a minute"
