"""`shutdown` of both delay queues, on Python 3.13 and later, where the standard queues have it."""

import asyncio
import queue
import sys

from tests.recipes.test_async_delay_queue import run
from tests.recipes.test_async_delay_queue import start_getters as start_tasks
from tests.recipes.test_delay_queue import Call, WatchedClock, start_getters
from tickwheel import AsyncDelayQueue, DelayQueue


def test_the_delay_queues_have_it_where_the_standard_queues_do() -> None:
    for ours, standard in ((DelayQueue, queue.Queue), (AsyncDelayQueue, asyncio.Queue)):
        assert hasattr(ours, "shutdown") == hasattr(standard, "shutdown") == (sys.version_info >= (3, 13))


if sys.version_info >= (3, 13):
    import pytest

    def test_getters_wait_for_delayed_items_and_raise_after_the_last() -> None:
        clock = WatchedClock()
        delayed: DelayQueue[str] = DelayQueue(clock=clock)
        delayed.put("a", delay=0.02)
        delayed.put("b", delay=0.04)
        getters = start_getters(delayed, clock, 4)
        delayed.shutdown()
        with pytest.raises(queue.ShutDown):
            delayed.put("c", delay=1)
        with pytest.raises(queue.Empty):
            delayed.get_nowait()
        clock.advance(0.04)
        outcomes = [getter.outcome() for getter in getters]
        assert sorted(outcome for outcome in outcomes if isinstance(outcome, str)) == ["a", "b"]
        assert sum(isinstance(outcome, queue.ShutDown) for outcome in outcomes) == 2
        with pytest.raises(queue.ShutDown):
            delayed.get_nowait()

    def test_taking_the_last_item_releases_getters_that_wait_for_long() -> None:
        clock = WatchedClock()
        delayed: DelayQueue[str] = DelayQueue(clock=clock)
        delayed.put("a", delay="1h")
        getters = start_getters(delayed, clock, 2)
        clock.forget_readers()
        delayed.shutdown()
        for getter in getters:
            clock.wait_for_reader(getter)
        with delayed.mutex:  # they wait again, for an hour of real time
            clock.advance("1h")
        outcomes = [getter.outcome() for getter in (Call(delayed.get), *getters)]
        assert outcomes.count("a") == 1
        assert sum(isinstance(outcome, queue.ShutDown) for outcome in outcomes) == 2

    def test_an_immediate_shutdown_drops_delayed_items_and_releases_everyone() -> None:
        clock = WatchedClock()
        delayed: DelayQueue[str] = DelayQueue(maxsize=3, clock=clock)
        for item, delay in (("a", "1h"), ("b", "1000d"), ("c", 1)):
            delayed.put(item, delay=delay)
        (getter,) = start_getters(delayed, clock, 1)
        putter, joiner = Call(delayed.put, "d"), Call(delayed.join)
        delayed.shutdown(immediate=True)
        assert isinstance(getter.outcome(), queue.ShutDown)
        assert isinstance(putter.outcome(), queue.ShutDown)
        assert joiner.outcome() is None
        assert (delayed.qsize(), delayed.due(), delayed.drain()) == (0, 0, [])

    def test_draining_a_queue_that_is_shut_down_releases_its_getters() -> None:
        clock = WatchedClock()
        delayed: DelayQueue[str] = DelayQueue(clock=clock)
        delayed.put("a", delay="1h")
        getters = start_getters(delayed, clock, 2)
        delayed.shutdown()
        assert delayed.drain() == ["a"]
        assert [type(getter.outcome()) for getter in getters] == [queue.ShutDown] * 2

    def test_async_getters_wait_for_delayed_items_and_raise_after_the_last() -> None:
        async def main() -> None:
            delayed: AsyncDelayQueue[str] = AsyncDelayQueue()
            delayed.put_nowait("a", delay=1)
            delayed.put_nowait("b", delay=2)
            getters = await start_tasks(delayed, 4)
            delayed.shutdown()
            with pytest.raises(asyncio.QueueShutDown):
                await delayed.put("c", delay=1)
            with pytest.raises(asyncio.QueueEmpty):
                delayed.get_nowait()
            outcomes = await asyncio.gather(*getters, return_exceptions=True)
            assert asyncio.get_running_loop().time() == pytest.approx(2, abs=0.01)
            assert sorted(outcome for outcome in outcomes if isinstance(outcome, str)) == ["a", "b"]
            assert sum(isinstance(outcome, asyncio.QueueShutDown) for outcome in outcomes) == 2
            with pytest.raises(asyncio.QueueShutDown):
                delayed.get_nowait()

        run(main())

    def test_an_immediate_async_shutdown_drops_delayed_items_and_releases_everyone() -> None:
        async def main() -> None:
            delayed: AsyncDelayQueue[str] = AsyncDelayQueue(maxsize=3)
            for item, delay in (("a", "1h"), ("b", "1000d"), ("c", 1)):
                delayed.put_nowait(item, delay=delay)
            (getter,) = await start_tasks(delayed, 1)
            putter, joiner = asyncio.create_task(delayed.put("d")), asyncio.create_task(delayed.join())
            await asyncio.sleep(0)
            delayed.shutdown(immediate=True)
            await joiner
            for task in (getter, putter):
                with pytest.raises(asyncio.QueueShutDown):
                    await task
            assert (delayed.qsize(), delayed.due(), delayed.drain()) == (0, 0, [])
            await asyncio.sleep(2)  # past the time of a dropped item

        run(main())

    def test_draining_an_async_queue_that_is_shut_down_releases_its_getters() -> None:
        async def main() -> None:
            delayed: AsyncDelayQueue[str] = AsyncDelayQueue()
            delayed.put_nowait("a", delay="1h")
            getters = await start_tasks(delayed, 2)
            delayed.shutdown()
            await asyncio.sleep(0)
            assert delayed.drain() == ["a"]
            outcomes = await asyncio.gather(*getters, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [asyncio.QueueShutDown] * 2

        run(main())
