"""`AsyncDelayQueue`: as `DelayQueue`, on any event loop; mostly on virtual time, where an hour takes no time."""

import asyncio
import gc
import weakref
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from time import monotonic_ns
from typing import Any

import pytest
import uvloop

from tests.recipes.test_delay_queue import BAD_DELAYS, PATIENCE_SECONDS, HookedWheel, LazyProxy, interrupt, refuse
from tickwheel import AsyncDelayQueue, VirtualClock, aio
from tickwheel.durations import Duration
from tickwheel.errors import InvalidDuration

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.SelectorEventLoop, uvloop.new_event_loop, aio.EventLoop]

FLOAT_ERROR_SECONDS = 1e-9  # of sums and differences of a loop's time


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run on virtual time, for a day at most."""
    aio.run(asyncio.wait_for(main, 86_400), clock=VirtualClock())


async def start_getters(delayed: AsyncDelayQueue[str], count: int) -> list[asyncio.Task[str]]:
    getters = [asyncio.create_task(delayed.get()) for _ in range(count)]
    await asyncio.sleep(0)
    return getters


@pytest.mark.parametrize("loop_factory", LOOPS, ids=["asyncio", "uvloop", "tickwheel"])
def test_items_come_out_when_due_on_any_loop(loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        delays = {"now": 0.0, "sooner": 0.01, "later": 0.03}
        for item in ("later", "sooner", "now"):
            await delayed.put(item, delay=delays[item])
        assert delayed.qsize() == 3
        for item, delay in delays.items():
            assert await asyncio.wait_for(delayed.get(), PATIENCE_SECONDS) == item
            assert loop.time() - begin > delay - FLOAT_ERROR_SECONDS
        assert delayed.empty()

    delayed: AsyncDelayQueue[str] = AsyncDelayQueue()  # outside of the loop, as asyncio.Queue
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())


@pytest.mark.parametrize("loop_factory", LOOPS, ids=["asyncio", "uvloop", "tickwheel"])
def test_a_delay_counts_from_the_call_though_the_loop_has_not_looked_at_the_clock(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def main() -> None:
        delayed: AsyncDelayQueue[int] = AsyncDelayQueue()
        for delay_ns in (5_000_000, 5_300_000):
            busy_until_ns = monotonic_ns() + 10_000_000
            while monotonic_ns() < busy_until_ns:
                pass
            begin_ns = monotonic_ns()
            delayed.put_nowait(1, delay=delay_ns / 1e9)
            await asyncio.wait_for(delayed.get(), PATIENCE_SECONDS)
            assert monotonic_ns() - begin_ns >= delay_ns

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())


def test_a_getter_is_woken_at_the_moment_each_item_is_due() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        delayed: AsyncDelayQueue[float] = AsyncDelayQueue()
        delays = [0.001, 0.0015, 0.5, 60.25, 3600.0, 3600.0, 20_000.123]
        for delay in reversed(delays):
            await delayed.put(delay, delay=delay)
        for delay in delays:
            assert await delayed.get() == delay
            assert -FLOAT_ERROR_SECONDS < loop.time() - delay < 0.0015

    run(main())


def test_rounding_errors_of_the_loops_time_do_not_hold_items_up() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        delayed: AsyncDelayQueue[int] = AsyncDelayQueue()
        rng = Random(1)
        for milliseconds in sorted(rng.sample(range(10**7), 1000)):
            delayed.put_nowait(milliseconds, delay=milliseconds / 1000)
        while not delayed.empty():
            milliseconds = await delayed.get()
            late = loop.time() - milliseconds / 1000
            assert -FLOAT_ERROR_SECONDS < late < 0.0025  # a tick of the queue and one of the loop

    run(main())


def test_items_without_a_delay_are_due_when_they_are_put() -> None:
    async def main() -> None:
        delayed: AsyncDelayQueue[str] = AsyncDelayQueue()
        delayed.put_nowait("a", delay=1)
        delayed.put_nowait("c", delay=2)
        await asyncio.sleep(1.5)
        delayed.put_nowait("b")
        await asyncio.sleep(1.5)
        delayed.put_nowait("d")
        assert delayed.due() == 4
        assert [delayed.get_nowait() for _ in range(4)] == list("abcd")

    run(main())


def test_more_items_of_one_moment_than_are_moved_in_one_step_keep_their_order() -> None:
    async def main() -> None:
        delayed: AsyncDelayQueue[int] = AsyncDelayQueue()
        for number in range(5000):
            delayed.put_nowait(number, delay="1h")
        getters = [asyncio.create_task(delayed.get()) for _ in range(1000)]
        assert await asyncio.gather(*getters) == list(range(1000))
        delayed.put_nowait(5000)
        assert [await delayed.get() for _ in range(4001)] == list(range(1000, 5001))

    run(main())


def test_without_a_running_loop_only_a_delay_is_refused() -> None:
    delayed: AsyncDelayQueue[str] = AsyncDelayQueue()
    delayed.put_nowait("a")
    with pytest.raises(RuntimeError, match="no running event loop"):
        delayed.put_nowait("b", delay=1)
    assert (delayed.qsize(), delayed.due()) == (1, 1)
    assert delayed.get_nowait() == "a"


def test_size_counts_every_item_and_putters_wait_for_a_place() -> None:
    async def main() -> None:
        delayed: AsyncDelayQueue[str] = AsyncDelayQueue(maxsize=2)
        delayed.put_nowait("a", delay=1)
        assert (delayed.qsize(), delayed.due(), delayed.empty(), delayed.full()) == (1, 0, False, False)
        with pytest.raises(asyncio.QueueEmpty):
            delayed.get_nowait()
        delayed.put_nowait("c", delay=20)
        assert delayed.full()
        with pytest.raises(asyncio.QueueFull):
            delayed.put_nowait("d", delay=1)
        putter = asyncio.create_task(delayed.put("b", delay=10))  # from now on, though it waits a second for its place
        assert [await delayed.get() for _ in range(3)] == ["a", "b", "c"]
        assert asyncio.get_running_loop().time() == pytest.approx(20, abs=0.01)
        await putter
        assert delayed.empty()

    run(main())


def test_join_waits_for_delayed_items() -> None:
    async def main() -> None:
        delayed: AsyncDelayQueue[str] = AsyncDelayQueue()
        delayed.put_nowait("a", delay=5)
        joiner = asyncio.create_task(delayed.join())
        await asyncio.sleep(1)
        assert not joiner.done()
        await delayed.get()
        delayed.task_done()
        await joiner

    run(main())


@pytest.mark.parametrize("delay", BAD_DELAYS, ids=repr)
def test_a_bad_delay_puts_nothing_in(delay: Any) -> None:
    async def main() -> None:
        delayed: AsyncDelayQueue[str] = AsyncDelayQueue()
        with pytest.raises(InvalidDuration, match=r"^delay: invalid duration"):
            await delayed.put("a", delay=delay)
        with pytest.raises(InvalidDuration, match=r"^delay: invalid duration"):
            delayed.put_nowait("a", delay=delay)
        assert delayed.qsize() == 0
        await delayed.join()

    run(main())


def test_drain_takes_everything_in_due_order_and_the_queue_goes_on() -> None:
    async def main() -> None:
        delayed: AsyncDelayQueue[str] = AsyncDelayQueue(maxsize=4)
        for item, delay in (("d", "1000d"), ("b", 0), ("c", 5), ("a", 0)):
            delayed.put_nowait(item, delay=delay)
        putters = [asyncio.create_task(delayed.put(item, delay=1)) for item in "xy"]
        await asyncio.sleep(0)
        assert delayed.drain() == ["b", "a", "c", "d"]
        await asyncio.gather(*putters)
        assert (delayed.qsize(), delayed.due()) == (2, 0)
        assert [await delayed.get() for _ in range(2)] == ["x", "y"]
        assert delayed.drain() == []
        for _ in range(6):
            delayed.task_done()
        await delayed.join()

    run(main())


def test_repr_lists_the_items_that_are_due_at_the_moment() -> None:
    async def main() -> None:
        delayed: AsyncDelayQueue[str] = AsyncDelayQueue()
        delayed.put_nowait("a", delay=1)
        delayed.put_nowait("b", delay=10)
        assert "_queue=[]" in repr(delayed)
        await asyncio.sleep(1)
        assert "_queue=['a']" in repr(delayed)
        assert (delayed.qsize(), await delayed.get()) == (2, "a")

    run(main())


# -- what comes in the middle of a call


def test_an_interrupted_get_loses_no_item() -> None:
    async def main() -> None:
        delayed: AsyncDelayQueue[int] = AsyncDelayQueue()
        for number in range(300):
            delayed.put_nowait(number, delay=1)
        await asyncio.sleep(2)
        HookedWheel(delayed._queue, interrupt)
        with pytest.raises(KeyboardInterrupt):
            delayed.get_nowait()
        assert [delayed.get_nowait() for _ in range(300)] == list(range(300))
        assert delayed.empty()

    run(main())


def test_an_interrupted_drain_takes_nothing() -> None:
    async def main() -> None:
        delayed: AsyncDelayQueue[int] = AsyncDelayQueue()
        for number in range(300):
            delayed.put_nowait(number, delay=10)
        HookedWheel(delayed._queue, interrupt)
        with pytest.raises(KeyboardInterrupt):
            delayed.drain()
        assert (delayed.qsize(), delayed.due()) == (300, 0)
        delayed.put_nowait(-1, delay=5)
        assert delayed.drain() == [-1, *range(300)]

    run(main())


@pytest.mark.parametrize("call", ["get_nowait", "due", "drain"])
@pytest.mark.parametrize("wait_seconds", [0, 5, 50])
def test_a_destructor_that_uses_the_queue_in_the_middle_of_a_call_loses_no_item(call: str, wait_seconds: int) -> None:
    taken: list[int] = []

    async def main() -> None:
        delayed: AsyncDelayQueue[int] = AsyncDelayQueue()
        for number in range(300):
            delayed.put_nowait(number, delay=1 + number / 10)
        await asyncio.sleep(wait_seconds)

        def use() -> None:
            taken.extend(delayed.drain())
            delayed.put_nowait(1_000)
            delayed.put_nowait(1_001, delay=1)

        HookedWheel(delayed._queue, use)
        with suppress(asyncio.QueueEmpty):
            result: Any = getattr(delayed, call)()
            taken.extend(result if call == "drain" else [result] if call == "get_nowait" else [])
        await asyncio.sleep(2)
        while not delayed.empty():
            taken.append(delayed.get_nowait())

    run(main())
    assert sorted(taken) == [*range(300), 1_000, 1_001]


# -- waking


def test_a_waiting_getter_is_woken_for_an_earlier_item() -> None:
    async def main() -> None:
        delayed: AsyncDelayQueue[str] = AsyncDelayQueue()
        delayed.put_nowait("far", delay="1h")
        (getter,) = await start_getters(delayed, 1)
        delayed.put_nowait("near", delay=2)
        assert await getter == "near"
        assert asyncio.get_running_loop().time() == pytest.approx(2, abs=0.01)

    run(main())


def test_getters_are_served_in_turn() -> None:
    async def main() -> None:
        delayed: AsyncDelayQueue[str] = AsyncDelayQueue()
        getters = await start_getters(delayed, 3)
        for item, delay in (("a", 1), ("b", 2), ("c", 4), ("d", 3)):
            delayed.put_nowait(item, delay=delay)
            await asyncio.sleep(0)
        assert await asyncio.gather(*getters) == ["a", "b", "d"]

    run(main())


@pytest.mark.parametrize("steps", range(6))
def test_a_getter_cancelled_at_any_moment_leaves_the_item_to_the_next(steps: int) -> None:
    async def main() -> None:
        delayed: AsyncDelayQueue[str] = AsyncDelayQueue()
        first, second = await start_getters(delayed, 2)
        delayed.put_nowait("item", delay=1)
        await asyncio.sleep(1)
        for _ in range(steps):
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        if not first.cancelled():
            assert first.result() == "item"
            delayed.put_nowait("another")
        assert await second == ("item" if first.cancelled() else "another")

    run(main())


def test_a_queue_is_freed_though_a_cancelled_getter_waited_for_an_item() -> None:
    async def main() -> None:
        delayed: AsyncDelayQueue[str] = AsyncDelayQueue()
        delayed.put_nowait("far", delay="1h")
        (getter,) = await start_getters(delayed, 1)
        getter.cancel()
        await asyncio.wait([getter])
        freed = weakref.ref(delayed)
        del delayed, getter
        gc.collect()
        assert freed() is None

    run(main())


@pytest.mark.parametrize("seed", range(5))
def test_getters_with_timeouts_take_every_item_once_and_none_early(seed: int) -> None:
    async def main() -> None:
        rng = Random(seed)
        loop = asyncio.get_running_loop()
        delayed: AsyncDelayQueue[tuple[int, float]] = AsyncDelayQueue(maxsize=100)
        taken: Counter[int] = Counter()

        async def put(producer: int) -> None:
            for index in range(250):
                delay = rng.choice([0, rng.uniform(0, 1)])
                await delayed.put((producer * 250 + index, loop.time() + delay), delay=delay)
                await asyncio.sleep(rng.choice([0, rng.uniform(0, 0.02)]))

        async def take() -> None:
            while True:
                try:
                    async with asyncio.timeout(rng.choice([None, 0, rng.uniform(0, 0.1)])):
                        number, due = await delayed.get()
                except TimeoutError:
                    continue
                assert loop.time() > due - FLOAT_ERROR_SECONDS
                taken[number] += 1
                delayed.task_done()

        takers = [asyncio.create_task(take()) for _ in range(10)]
        await asyncio.gather(*(put(number) for number in range(4)))
        await delayed.join()
        assert len(taken) == 1000
        assert set(taken.values()) == {1}
        for taker in takers:
            taker.cancel()
        await asyncio.wait(takers)
        assert all(taker.cancelled() for taker in takers)

    run(main())


# -- items whose class is computed, and subclasses


def test_a_proxy_that_cannot_be_evaluated_comes_out_as_it_was_put_in() -> None:
    async def main() -> None:
        delayed: AsyncDelayQueue[LazyProxy] = AsyncDelayQueue()
        now, later = LazyProxy(refuse), LazyProxy(refuse)
        await delayed.put(later, delay=1)
        await delayed.put(now)
        assert await delayed.get() is now
        assert await delayed.get() is later

    run(main())


class StampedQueue(AsyncDelayQueue[Any]):
    """Wraps each item, as a subclass of `asyncio.Queue` may."""

    def put_nowait(self, item: Any, *, delay: Duration = 0.0) -> None:
        super().put_nowait(("stamp", item), delay=delay)


def test_put_hands_items_and_delays_to_an_overridden_put_nowait() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        stamped = StampedQueue()
        begin = loop.time()
        await stamped.put("later", delay="1h")
        await stamped.put("now")
        assert await stamped.get() == ("stamp", "now")
        assert await stamped.get() == ("stamp", "later")
        assert loop.time() - begin == pytest.approx(3600)

    run(main())


def test_the_delay_of_a_put_that_waits_for_a_place_counts_from_its_call_in_a_subclass() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        stamped = StampedQueue(maxsize=1)
        await stamped.put("first")
        begin = loop.time()
        waits = asyncio.create_task(stamped.put("second", delay="10s"))
        await asyncio.sleep(4)
        assert await stamped.get() == ("stamp", "first")
        await waits
        assert await stamped.get() == ("stamp", "second")
        assert loop.time() - begin == pytest.approx(10)

    run(main())


def test_a_cancelled_put_with_a_delay_leaves_its_place_to_the_next() -> None:
    async def main() -> None:
        delayed: AsyncDelayQueue[str] = AsyncDelayQueue(maxsize=1)
        await delayed.put("first")
        puts = [asyncio.create_task(delayed.put(item, delay=1)) for item in ("second", "third")]
        await asyncio.sleep(0)
        assert delayed.get_nowait() == "first"  # wakes the second
        puts[0].cancel()
        with suppress(asyncio.CancelledError):
            await puts[0]
        await puts[1]
        assert await delayed.get() == "third"

    run(main())


class UniqueQueue(AsyncDelayQueue[str]):
    def _init(self, maxsize: int) -> None:
        super()._init(maxsize)
        self.seen: list[str] = []

    def _put(self, item: str) -> None:
        if item not in self.seen:
            self.seen.append(item)
            super()._put(item)


def test_an_overridden_put_hook_sees_the_items_themselves() -> None:
    async def main() -> None:
        unique = UniqueQueue()
        await unique.put("a", delay=10)
        await asyncio.sleep(1)
        unique.put_nowait("a", delay=10)
        unique.put_nowait("b")
        assert unique.seen == ["a", "b"]
        assert (unique.qsize(), unique.due()) == (2, 1)

    run(main())
