"""What ran under a lease that was lost and taken again is over, or runs again; it never stays running for ever."""

import asyncio
from collections.abc import Sequence
from typing import Any

from tests.scheduler.worlds import World
from tickwheel.errors import StoreUnavailable
from tickwheel.scheduler import AsyncScheduler
from tickwheel.stores.contract import Finish, Lease
from tickwheel.tasks import Status


class Forgetful:
    """A store whose server goes away and comes back without the leases: outcomes wait meanwhile."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.away = False
        self.refused = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def renew(self, leases: Sequence[Lease], ttl_ms: int) -> list[Lease]:
        if self.away:
            await self._store.release(leases)
        renewed: list[Lease] = await self._store.renew(leases, ttl_ms)
        return renewed

    async def finish(self, finishes: Sequence[Finish]) -> list[bool]:
        if self.away:
            self.refused += 1
            raise StoreUnavailable("it is away")
        accepted: list[bool] = await self._store.finish(finishes)
        return accepted


def test_what_ended_under_a_lease_that_was_lost_and_taken_again_is_over() -> None:
    world = World(lease_ttl_ms=3_000)
    store: Any = Forgetful(world.store)
    world.store = store

    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("note", {"what": "a"}, id="a", delay=1)
        store.away = True
        await asyncio.sleep(5)
        assert store.refused > 0
        store.away = False
        await asyncio.sleep(5)
        assert (await scheduler.get("a")).status is Status.COMPLETED
        assert len(world.ran) == 1

    world.play(story)
