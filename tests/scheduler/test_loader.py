"""The due index is bounded, and what is left out of it keeps nothing else from running."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from tests.scheduler.worlds import World
from tickwheel.errors import StoreUnavailable
from tickwheel.scheduler import AsyncScheduler
from tickwheel.scheduler.engine import loader, ready_tasks
from tickwheel.scheduler.engine.ready_tasks import SLACK, ReadyTasks
from tickwheel.stores import Due, Store
from tickwheel.stores.contract import Change, due_entry
from tickwheel.stores.memory import MemoryStore
from tickwheel.tasks import Status

SHARE = 5_000  # of a handler here, so that fewer tasks are more than that


def due(task_id: str, handler: str = "h", priority: int = 0, run_at: int = 0) -> Due:
    return Due(run_at, task_id, 0, priority, 0, handler)


@pytest.fixture(autouse=True)
def small_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready_tasks, "SHARE_MAX", SHARE)


def anything(_: str) -> bool:
    return True


def test_of_a_handler_that_has_more_than_its_share_the_best_stay() -> None:
    ready = ReadyTasks()
    for number in range(3 * SHARE):
        ready.put(due(f"{number:06}", priority=number % 7))
    assert SHARE <= len(ready) <= SHARE + SLACK
    assert list(ready.left_out()) == ["h"]
    ready.put(due("behind", priority=-1))
    assert "behind" not in ready
    ready.put(due("urgent", priority=99))
    ready.put(due("other", "another handler", priority=-1))
    assert ready.take(1, anything)[0].id == "urgent"
    best = sorted((-(number % 7), f"{number:06}") for number in range(3 * SHARE))
    assert [each.id for each in ready.take(SHARE, anything)] == [task_id for _, task_id in best[:SHARE]]
    assert ready.wanting == {"h"}
    ready.admit_again()
    ready.put(due("behind", priority=-1))
    assert "behind" in ready


def test_shares_are_smaller_the_more_handlers_there_are() -> None:
    ready = ReadyTasks()
    for number in range(40_000):
        ready.put(due(str(number), f"handler {number % 40}"))
    assert len(ready) <= 40 * (ready.share + SLACK)
    assert ready.share < SHARE


@pytest.fixture
def world() -> World:
    return World(rescan_ms=30_000, lease_ttl_ms=30_000)


@pytest.mark.parametrize("blocked", ["slow", "nobody has it"])
def test_many_due_tasks_that_cannot_begin_keep_no_other_from_running(world: World, blocked: str) -> None:
    many = 3 * SHARE

    async def story(scheduler: AsyncScheduler) -> None:
        async with world.scheduler(run=False) as adder:
            adder.task("slow")(print)
            for first in range(0, many, SHARE):
                await adder.add_many({"handler": blocked, "priority": 5} for _ in range(first, first + SHARE))
            await asyncio.sleep(2)
            begun = world.now()
            await adder.add_many(
                {"handler": "note", "args": {"what": str(priority)}, "priority": priority} for priority in (-3, 9, 2)
            )
            await asyncio.sleep(3)
        assert [what for _, what in world.ran] == ["9", "2", "-3"]
        assert world.ran[-1][0] - begun <= 1000
        engine: Any = scheduler._engine
        assert len(engine._index) <= SHARE + SLACK
        counts = await scheduler.counts()
        assert counts[Status.RUNNING] <= 2

    async def start() -> None:
        scheduler = world.scheduler()

        @scheduler.task("slow", concurrency=1)
        async def slow() -> None:
            await asyncio.sleep(3600)

        async with scheduler:
            await story(scheduler)
            await scheduler.stop(0)

    world.perform(start)


@pytest.mark.slow
def test_what_was_left_out_runs_when_there_is_room_highest_priority_first(world: World) -> None:
    many = 2 * SHARE + 1500

    async def story() -> None:
        async with world.scheduler(run=False) as adder:
            for first in range(0, many, 500):
                await adder.add_many(
                    {"handler": "note", "args": {"what": f"{number % 3}"}, "priority": number % 3}
                    for number in range(first, first + 500)
                )
        scheduler = world.scheduler()
        async with scheduler:
            await asyncio.sleep(60)
            assert (await scheduler.counts())[Status.COMPLETED] == many
        order = [what for _, what in world.ran]
        assert order == sorted(order, reverse=True)

    world.perform(story)


@pytest.mark.slow
def test_what_was_left_out_is_read_on_from_where_it_was_left(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    many = 4 * SHARE
    read: list[int] = []
    store = cast("MemoryStore", world.store)
    overdue = store.overdue

    async def counted(*arguments: Any) -> list[Due]:
        page = await overdue(*arguments)
        read.append(len(page))
        return page

    async def story() -> None:
        async with world.scheduler(run=False) as adder:
            for first in range(0, many, SHARE):
                await adder.add_many(
                    {"handler": "note", "args": {"what": str(number)}} for number in range(first, first + SHARE)
                )
            await asyncio.sleep(1)
        monkeypatch.setattr(store, "overdue", counted)
        async with world.scheduler() as scheduler:
            await asyncio.sleep(20)  # less than until the next rescan
            assert (await scheduler.counts())[Status.COMPLETED] == many

    world.perform(story)
    assert sum(read) < 2 * many  # and not again and again from the beginning, which would be 2.5 times


@pytest.mark.slow
def test_a_start_does_not_wait_until_everything_is_loaded(world: World) -> None:
    async def story() -> None:
        async with world.scheduler(run=False) as adder:
            for _ in range(3):
                await adder.add_many({"handler": "note", "args": {"what": "x"}} for _ in range(8_000))
            await asyncio.sleep(1)
        async with world.scheduler() as scheduler:
            assert scheduler.startup_report is not None
            assert scheduler.startup_report.overdue == 10_000
            await asyncio.sleep(30)
            assert len(world.ran) == 24_000

    world.perform(story)


@pytest.mark.slow
def test_what_is_due_much_later_stays_in_the_store(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "WHEEL_MAX", 1_000)

    async def story(scheduler: AsyncScheduler) -> None:
        await asyncio.sleep(1)
        for _ in range(6):
            await scheduler.add_many(
                {"handler": "note", "args": {"what": "x"}, "delay": 100 + number} for number in range(1000)
            )
        await asyncio.sleep(2)
        engine: Any = scheduler._engine
        assert len(engine._index) <= 2_000
        await asyncio.sleep(1200)
        assert len(world.ran) == 6_000

    world.play(story)
    assert max(event.late_ms or 0 for event in world.events) == 0


class SlowStore:
    """Any store, but what is read arrives three seconds later."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in ("due", "overdue"):
            return found

        async def read(*arguments: Any) -> list[Due]:
            page: list[Due] = await found(*arguments)
            await asyncio.sleep(3)
            return page

        return read


@pytest.mark.parametrize("stops_after_s", range(30, 42))  # one period of reading on
def test_partitions_that_are_taken_over_while_others_are_read_are_read_too(stops_after_s: int) -> None:
    world = World(rescan_ms=600_000, horizon_ms=20_000, lease_ttl_ms=3_000)
    world.store = cast("Store", SlowStore(world.store))

    async def story() -> int:
        async with world.scheduler(run=False) as adder, world.scheduler():
            leaving = world.scheduler()
            await leaving.start()
            first_ms = world.now()
            await adder.add_many(
                {"handler": "note", "args": {"what": str(number)}, "delay": 30 + number / 10} for number in range(400)
            )
            await asyncio.sleep(stops_after_s)
            await leaving.stop(0)
            await asyncio.sleep(700)
            return first_ms

    first_ms = world.perform(story)
    assert len(world.ran) == 400
    assert max(at - first_ms - 30_000 - 100 * int(what) for at, what in world.ran) < 20_000


class SuspendedStore:
    """Any store, but the second look at what is overdue takes eight seconds, and it tells nothing of changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._looks = 0
        self.lost = asyncio.Event()  # and from then on, that some may have been lost

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name != "overdue":
            return found

        async def overdue(*arguments: Any) -> list[Due]:
            self._looks += 1
            if self._looks == 2:
                await asyncio.sleep(8)
            page: list[Due] = await found(*arguments)
            return page

        return overdue

    async def changes(self, _: object) -> AsyncIterator[dict[int, Change]]:
        await self.lost.wait()
        self.lost.clear()
        raise StoreUnavailable("notifications may have been lost")
        yield {}


def test_a_node_that_was_suspended_while_it_read_what_is_overdue_reads_it_again_soon(world: World) -> None:
    async def story() -> None:
        memory, suspended = world.store, SuspendedStore(world.store)
        async with world.scheduler(run=False) as adder:
            world.store = cast("Store", suspended)
            async with world.scheduler():
                await asyncio.sleep(9)
                world.store = memory
                await adder.add("note", {"what": "x"})
                begun_ms = world.now()
                await asyncio.sleep(0.5)
                suspended.lost.set()
                await asyncio.sleep(20)
        assert [what for _, what in world.ran] == ["x"]
        assert world.ran[0][0] - begun_ms < 2_000

    world.perform(story)


class LateAnswers:
    """A store whose answers to `due` come late, while that is wanted: they tell what was so when it was asked."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.late_s = 0.0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name != "due":
            return found

        async def due(*arguments: Any) -> list[Due]:
            page: list[Due] = await found(*arguments)
            await asyncio.sleep(self.late_s)
            return page

        return due


def test_what_ran_while_it_was_read_waits_for_its_next_time(world: World) -> None:
    async def story() -> None:
        late = LateAnswers(MemoryStore(now_ms=world.now, partitions=1))
        world.store = cast("Store", late)
        async with world.scheduler() as node, world.scheduler(run=False) as client:
            series = await node.add("note", {"what": "series"}, every="2s", id="series")
            await asyncio.sleep(1.8)
            late.late_s = 0.5
            await client.add("note", {"what": "other"}, at=datetime.fromtimestamp(series.run_at / 1000, UTC))
            await asyncio.sleep(0.6)
            late.late_s = 0.0
            await asyncio.sleep(10)
            assert [what for _, what in world.ran].count("series") == 6

    world.perform(story)


def test_what_cannot_be_claimed_as_it_was_read_is_looked_at_again(world: World) -> None:
    async def story() -> None:
        async with world.scheduler() as node:
            series = await node.add("note", {"what": "series"}, every="2s", id="series")
            await asyncio.sleep(2.5)
            engine: Any = node._engine
            engine._loader.enter([due_entry(series)])
            await asyncio.sleep(10)
            assert [what for _, what in world.ran].count("series") == 6

    world.perform(story)
