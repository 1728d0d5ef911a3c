"""What `get` and `list` say of tasks that do not run, in virtual time."""

import asyncio

import pytest

from tests.cluster.virtual import AwayStore
from tests.scheduler.worlds import World
from tickwheel.errors import StoreUnavailable
from tickwheel.scheduler import AsyncScheduler


@pytest.fixture
def world() -> World:
    return World()


async def code_of(scheduler: AsyncScheduler, task_id: str) -> str | None:
    """Return the code of a task: the same, however it is asked for."""
    task = await scheduler.get(task_id)
    [listed] = [each for each in (await scheduler.list(limit=1000)).tasks if each.id == task_id]
    assert (listed.reason_code, listed.reason) == (task.reason_code, task.reason)
    assert (task.reason is None) == (task.reason_code is None)
    return task.reason_code


def test_a_task_says_what_it_waits_for(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("single", concurrency=1)
        async def single() -> None:
            await asyncio.sleep(60)

        client = await AsyncScheduler(world.store, run=False, clock=world.clock).start()
        await scheduler.add("note", {"what": "x"}, delay="1h", id="later")
        await scheduler.add("note", {"what": "x"}, id="paused", delay=1)
        await scheduler.pause("paused")
        await scheduler.add("fail", {"what": "x"}, id="failed")
        await client.add("nobody.has.it", id="strange")
        await scheduler.add("single", id="first")
        await scheduler.add("single", id="second")
        await asyncio.sleep(0.5)
        for asked in (scheduler, client):
            assert await code_of(asked, "later") == "not_due"
            assert await code_of(asked, "paused") == "paused"
            assert await code_of(asked, "failed") == "waiting_for_retry"
            assert await code_of(asked, "strange") == "no_handler"
            assert await code_of(asked, "first") is None, "it runs"
        assert (
            await client.get("strange")
        ).reason == "waiting for a node with handler 'nobody.has.it'; nodes online: 1"
        assert await code_of(scheduler, "second") == "limit_reached"
        assert await code_of(client, "second") == "no_capacity", "what limits it is known to its node alone"

    world.play(story)


def test_without_a_node_there_is_nobody_who_has_the_handler(world: World) -> None:
    async def story() -> None:
        client = await AsyncScheduler(world.store, run=False, clock=world.clock).start()
        await client.add("note", {"what": "x"}, id="a")
        assert (await client.get("a")).reason == "waiting for a node with handler 'note'; nodes online: 0"

    world.perform(story)


def test_a_full_node_says_so(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        for task_id in ("first", "second"):
            await scheduler.add("work", {"what": task_id, "seconds": 60}, id=task_id)
        await asyncio.sleep(0.5)
        assert [what for _, what in world.ran] == ["first"]
        assert await code_of(scheduler, "second") == "no_capacity"

    world.play(story, in_flight_max=1)


WRITES = ("claim", "finish", "release", "acquire", "renew", "heartbeat", "leave", "checkpoint", "purge")


@pytest.mark.parametrize("refused", [("claim",), ("claim", "release"), ("claim", "acquire"), WRITES])
def test_a_node_that_cannot_write_says_so(world: World, refused: tuple[str, ...]) -> None:
    class FullStore(AwayStore):
        """Can be read, but not written to."""

        def __getattr__(self, name: str) -> object:
            if self.away and name in refused:
                raise StoreUnavailable("the disk is full")
            return getattr(self._store, name)

    async def story() -> None:
        full = FullStore(world.store, 0, after=False)
        options = {**world.options, "lease_ttl_ms": 60_000}
        scheduler = AsyncScheduler(full, clock=world.clock, **options)  # type: ignore[arg-type]
        ran = asyncio.Event()

        @scheduler.task("ring")
        async def ring() -> None:
            ran.set()

        async with scheduler:
            full.away = True
            await scheduler.add("ring", id="a")
            for _ in range(30):  # also after it has given up its leases, for a claim may have been made
                await asyncio.sleep(1)
                assert await code_of(scheduler, "a") == "store_unavailable"
            full.away = False
            async with asyncio.timeout(60):
                await ran.wait()

    world.perform(story)
