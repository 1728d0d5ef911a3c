"""Items come out of a delay queue when they are due, in order, to one taker each."""

import asyncio
import queue
import threading
from collections import Counter
from random import Random

import pytest

from tickwheel import AsyncDelayQueue, DelayQueue, VirtualClock
from tickwheel.errors import InvalidDuration

PATIENCE_SECONDS = 30


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def delayed(clock: VirtualClock) -> DelayQueue[str]:
    return DelayQueue(clock=clock)


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


def test_maxsize_counts_what_is_not_due(clock: VirtualClock) -> None:
    delayed: DelayQueue[str] = DelayQueue(maxsize=2, clock=clock)
    delayed.put("a", delay=10)
    delayed.put_nowait("b")
    assert delayed.full()
    with pytest.raises(queue.Full):
        delayed.put_nowait("c", delay=1)
    delayed.get_nowait()
    delayed.put_nowait("c", delay=1)


def test_get_gives_up_after_its_timeout() -> None:
    delayed: DelayQueue[str] = DelayQueue()
    delayed.put("far", delay="1h")
    with pytest.raises(queue.Empty):
        delayed.get(timeout=0.01)
    with pytest.raises(ValueError, match="non-negative"):
        delayed.get(timeout=-1)


def test_a_waiting_taker_is_woken_for_an_earlier_item() -> None:
    delayed: DelayQueue[str] = DelayQueue()
    delayed.put("far", delay="1h")
    got: list[str] = []
    taker = threading.Thread(target=lambda: got.append(delayed.get(timeout=PATIENCE_SECONDS)))
    taker.start()
    delayed.put("near", delay=0.02)
    taker.join(PATIENCE_SECONDS)
    assert got == ["near"]


def test_task_done_and_join_work_as_in_any_queue(delayed: DelayQueue[str], clock: VirtualClock) -> None:
    delayed.put("a", delay=1)
    clock.advance(1)
    delayed.get_nowait()
    delayed.task_done()
    delayed.join()
    with pytest.raises(ValueError, match="task_done"):
        delayed.task_done()


def test_a_bad_delay_puts_nothing_in(delayed: DelayQueue[str]) -> None:
    with pytest.raises(InvalidDuration):
        delayed.put("a", delay=-1)
    assert delayed.qsize() == 0


def test_many_threads_lose_and_double_nothing() -> None:
    delayed: DelayQueue[tuple[int, int]] = DelayQueue()
    got: Counter[tuple[int, int]] = Counter()
    lock = threading.Lock()

    def put(number: int) -> None:
        chance = Random(number)
        for index in range(200):
            delayed.put((number, index), delay=chance.uniform(0, 0.2))

    def take() -> None:
        for _ in range(200):
            item = delayed.get(timeout=PATIENCE_SECONDS)
            with lock:
                got[item] += 1

    threads = [threading.Thread(target=put, args=(number,)) for number in range(10)]
    threads += [threading.Thread(target=take) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert len(got) == 2000
    assert set(got.values()) == {1}


# -- asyncio


def test_async_items_come_out_when_due() -> None:
    async def main() -> None:
        delayed: AsyncDelayQueue[str] = AsyncDelayQueue()
        await delayed.put("later", delay=0.03)
        await delayed.put("sooner", delay=0.01)
        await delayed.put("now")
        assert (delayed.qsize(), delayed.due()) == (3, 1)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert [await delayed.get() for _ in range(3)] == ["now", "sooner", "later"]
        assert delayed.empty()
        for _ in range(3):
            delayed.task_done()
        await delayed.join()

    asyncio.run(main())


def test_async_maxsize_counts_what_is_not_due_and_putters_wait() -> None:
    async def main() -> None:
        delayed: AsyncDelayQueue[str] = AsyncDelayQueue(maxsize=2)
        delayed.put_nowait("a", delay=0.01)
        delayed.put_nowait("b", delay=0.02)
        with pytest.raises(asyncio.QueueFull):
            delayed.put_nowait("c", delay=1)
        putter = asyncio.create_task(delayed.put("c", delay=0.01))
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert [await delayed.get() for _ in range(3)] == ["a", "b", "c"]
            await putter

    asyncio.run(main())


def test_async_close_hands_back_what_was_not_due() -> None:
    async def main() -> None:
        delayed: AsyncDelayQueue[str] = AsyncDelayQueue()
        delayed.put_nowait("b", delay=20)
        delayed.put_nowait("a", delay=10)
        assert delayed.close() == ["a", "b"]
        with pytest.raises(InvalidDuration):
            await delayed.put("c", delay="soon")

    asyncio.run(main())
