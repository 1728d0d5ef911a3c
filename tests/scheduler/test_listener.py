"""What other processes change is found, also if nobody tells of it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from tests.scheduler.worlds import World
from tickwheel.scheduler import AsyncScheduler
from tickwheel.stores.contract import Change
from tickwheel.tasks import Status


class Mute:
    """A store whose notifications are lost, and which looks up as many tasks at once as it may."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.asked: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get(self, ids: Sequence[str]) -> Any:
        self.asked.append(len(ids))
        return await self._store.get(ids)

    def changes(self, _partitions: Sequence[int]) -> AsyncIterator[dict[int, Change]]:
        return self._never()

    async def _never(self) -> AsyncIterator[dict[int, Change]]:
        await asyncio.Event().wait()
        yield {}


def test_a_cancel_of_a_running_task_whose_notification_is_lost_is_found() -> None:
    world = World(lease_ttl_ms=3_000, rescan_ms=5_000)
    mute: Any = Mute(world.store)
    store, world.store = world.store, mute

    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add_many({"handler": "work", "args": {"what": "x", "seconds": 3600}} for _ in range(2_500))
        await scheduler.add("work", {"what": "a", "seconds": 3600}, id="a", priority=1)
        await asyncio.sleep(1)
        [asked] = await store.cancel(["a"], "not needed")
        assert asked is not None
        assert asked.cancel_requested
        await asyncio.sleep(7)
        assert (await scheduler.get("a")).status is Status.CANCELLED
        assert max(mute.asked) <= 1_000, "in batches, however many run"
        await scheduler.stop(0)

    world.play(story, in_flight_max=5_000)


class Counting:
    """A store that counts the rows which are read to be loaded."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.rows = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def due(self, *args: Any) -> Any:
        found = await self._store.due(*args)
        self.rows += len(found)
        return found

    async def overdue(self, *args: Any) -> Any:
        found = await self._store.overdue(*args)
        self.rows += len(found)
        return found


def test_what_others_add_is_read_and_nothing_besides() -> None:
    world = World(lease_ttl_ms=3_000, rescan_ms=30_000, horizon_ms=600_000)
    store, counting = world.store, Counting(world.store)

    async def story() -> None:
        world.store = counting
        async with world.scheduler():
            world.store = store
            async with world.scheduler(run=False) as other:
                for first in range(0, 8_000, 1_000):
                    delays = range(first, first + 1_000)
                    await other.add_many(
                        {"handler": "note", "args": {"what": "x"}, "delay": 60 + number % 500} for number in delays
                    )
                await asyncio.sleep(5)
                counting.rows = 0
                for number in range(20):  # far away, soon, and now
                    await other.add("note", {"what": "far"}, delay="1d")
                    await other.add("note", {"what": "soon"}, delay=10 + number / 7)
                    await other.add("note", {"what": "now"})
                    await asyncio.sleep(0.25)
                assert counting.rows <= 100, "those that were added, and of their moments little else"
                await asyncio.sleep(15)
                ran = [what for _, what in world.ran]
                assert (ran.count("soon"), ran.count("now")) == (20, 20)

    world.perform(story)


def test_what_others_add_within_the_loaded_range_runs_on_time() -> None:
    for lost in (False, True):
        world = World(lease_ttl_ms=3_000, rescan_ms=30_000, horizon_ms=600_000)
        store: Any = world.store

        async def story(world: World = world, store: Any = store, lost: bool = lost) -> None:
            world.store = Mute(store) if lost else store
            async with world.scheduler():
                world.store = store
                async with world.scheduler(run=False) as other:
                    await asyncio.sleep(1)
                    due = (await other.add("note", {"what": "later"}, delay=300)).run_at
                    await asyncio.sleep(310)
                    assert [moment - due for moment, _ in world.ran] == [0]

        world.perform(story)


def test_a_cancel_of_a_leased_message_whose_notification_is_lost_is_found() -> None:
    world = World(lease_ttl_ms=3_000, rescan_ms=5_000)
    mute: Any = Mute(world.store)
    store, world.store = world.store, mute

    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add_many({"queue": "emails", "id": str(number)} for number in range(2_500))
        await asyncio.sleep(1)
        leased = [each for _ in range(25) for each in await scheduler.lease("emails", limit=100, lease="1h")]
        assert len(leased) == 2_500
        mute.asked.clear()
        [asked] = await store.cancel(["2000"], "not needed")
        assert asked is not None
        assert asked.cancel_requested
        await asyncio.sleep(7)
        assert (await scheduler.get("2000")).status is Status.CANCELLED
        assert max(mute.asked) <= 1_000, "in batches, however many are leased"

    world.play(story)


class Slow:
    """A store that takes two milliseconds to read what is due."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def due(self, *args: Any) -> Any:
        await asyncio.sleep(0.002)
        return await self._store.due(*args)

    async def overdue(self, *args: Any) -> Any:
        await asyncio.sleep(0.002)
        return await self._store.overdue(*args)


@pytest.mark.parametrize("many", [40, 3_000])
def test_what_others_add_in_many_partitions_begins_by_priority(many: int) -> None:
    world = World(lease_ttl_ms=3_000, rescan_ms=30_000)
    store: Any = world.store
    began: list[int] = []

    async def story() -> None:
        world.store = Slow(store)
        scheduler = world.scheduler()

        @scheduler.task("one", concurrency=1)
        async def one(number: int) -> None:
            began.append(number)
            await asyncio.sleep(0.01)

        async with scheduler:
            world.store = store
            async with world.scheduler(run=False) as other:
                await asyncio.sleep(1)
                await other.add_many(
                    {"handler": "one", "args": {"number": number}, "priority": number % 1000} for number in range(many)
                )
                await asyncio.sleep(1)
            await scheduler.stop(0)

    world.perform(story)
    priorities = [number % 1000 for number in began[:30]]
    assert len(priorities) == 30
    assert priorities[0] == min(many - 1, 999)
    assert priorities == sorted(priorities, reverse=True)
