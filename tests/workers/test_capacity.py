"""How much is worth claiming: what can begin at once, and what is likely to end in a moment."""

import asyncio
from threading import Event as Flag

from tickwheel import aio
from tickwheel.clock import VirtualClock
from tickwheel.tasks import Task
from tickwheel.tasks.registry import Registry
from tickwheel.workers import Workers
from tickwheel.workers.capacity import WINDOW_S, Capacity, EndRate
from tickwheel.workers.workers import LOOP_AHEAD


def task(task_id: str, handler: str) -> Task:
    return Task(id=task_id, handler=handler, run_at=0, occurrence_at=0, created_at=0)


def admitted(capacity: Capacity, name: str, most: int = 1000) -> int:
    return sum(capacity.admits(name) for _ in range(most))


def test_runs_that_ended_are_expected_to_go_on_ending_for_a_window() -> None:
    rate = EndRate()
    assert rate.expected(100.02) == 0
    for _ in range(5):
        rate.add(100.02)
    assert rate.expected(100.02) == 5
    assert rate.expected(100.02 + WINDOW_S) == 5, "the window before counts"
    rate.add(100.02 + WINDOW_S)
    assert rate.expected(100.02 + WINDOW_S) == 5
    assert rate.expected(100.02 + 2 * WINDOW_S) == 1
    assert rate.expected(100.02 + 9 * WINDOW_S) == 0


def test_a_pool_and_a_limit_bound_what_is_claimed() -> None:
    registry = Registry()
    end = Flag()
    registry.register("plain")(end.wait)
    registry.register("limited", concurrency=2)(end.wait)
    registry.register("in a process", pool="process", concurrency=2)(end.wait)

    @registry.register("async")
    async def run_async() -> None: ...

    async def main() -> None:
        workers = Workers(threads=4)
        assert admitted(workers.capacity(registry, {}), "plain") == 4
        assert admitted(workers.capacity(registry, {}), "limited") == 2
        assert admitted(workers.capacity(registry, {}), "async") == LOOP_AHEAD
        assert admitted(workers.capacity(registry, {}), "unknown") == 0
        assert admitted(workers.capacity(registry, {}), "in a process") == 0, "there are none"
        assert not workers.capacity(registry, {}).admits_at_once("in a process")
        assert admitted(workers.capacity(registry, {}), "") == 1000, "the store does not tell"
        assert admitted(workers.capacity(registry, {"plain": 3}), "plain") == 1, "claimed ones count"
        assert admitted(workers.capacity(registry, {"limited": 1}), "limited") == 1
        capacity = workers.capacity(registry, {})
        assert (admitted(capacity, "limited"), admitted(capacity, "plain")) == (2, 2), "they share the pool"
        for number in range(3):
            workers.begin(registry.find("limited"), task(str(number), "limited"), lambda *_: None)
        assert admitted(workers.capacity(registry, {}), "limited") == 0, "two run, and one waits"
        assert admitted(workers.capacity(registry, {}), "plain") == 1
        assert workers.withdraw("2")
        assert admitted(workers.capacity(registry, {}), "plain") == 2
        freed = asyncio.Event()
        workers.on_free = freed.set
        end.set()
        await freed.wait()
        assert admitted(workers.capacity(registry, {}), "limited") >= 1
        await workers.close()

    asyncio.run(main())


def test_of_runs_that_end_quickly_more_are_claimed_than_there_are_places() -> None:
    registry = Registry()

    @registry.register("quick", concurrency=1)
    async def quick() -> None: ...

    async def main() -> None:
        workers = Workers(threads=0)
        for number in range(20):
            await workers.run(registry.find("quick"), task(str(number), "quick"))
        assert admitted(workers.capacity(registry, {}), "quick") == 21
        await asyncio.sleep(1)
        assert admitted(workers.capacity(registry, {}), "quick") == 1

    aio.run(main(), clock=VirtualClock())


def test_what_must_begin_at_once_keeps_those_that_rank_behind_it_from_being_claimed_ahead() -> None:
    registry = Registry()
    registry.register("plain")(int)
    registry.register("limited", concurrency=2)(int)
    registry.register("other", concurrency=2)(int)

    def full(pools: int, free: int) -> Capacity:
        return Capacity(registry, {"thread": pools}, {"thread": free}, lambda _: (0, 5), {})

    capacity = full(9, 0)
    assert admitted(capacity, "plain", 2) == 2, "what ranks before it"
    assert not capacity.admits_at_once("plain")
    assert admitted(capacity, "plain") == 0
    capacity = full(9, 4)
    assert not capacity.admits_at_once("limited")
    assert admitted(capacity, "limited") == 0
    assert admitted(capacity, "other") == 5, "another limit is not its own"
    assert admitted(capacity, "plain") == 4
