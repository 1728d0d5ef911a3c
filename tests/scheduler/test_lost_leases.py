"""What ran under a lease that was lost and taken again is over, or runs again; it never stays running for ever."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from tests.scheduler.lockstep import Lockstep
from tests.scheduler.worlds import World
from tickwheel import VirtualClock
from tickwheel.errors import StoreUnavailable
from tickwheel.scheduler import AsyncScheduler
from tickwheel.stores.contract import Finish, Lease
from tickwheel.stores.memory import MemoryStore
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


def test_what_another_node_died_with_runs_again_though_an_earlier_run_of_it_goes_on_here() -> None:
    """A node is suspended, another one takes over its task and dies, and the first one has the task again."""
    clock = VirtualClock()
    steps, store = Lockstep(clock), MemoryStore(now_ms=lambda: clock.time_ns() // 1_000_000)
    loops = [steps.loop(), steps.loop()]
    begun: list[int] = []
    nodes = []
    for number, loop in enumerate(loops):
        node = AsyncScheduler(store, clock=clock, lease_ttl_ms=3_000, rng=Random(number))

        @node.task("work")
        async def work(number: int = number) -> None:
            begun.append(number)
            await asyncio.sleep(60)

        nodes.append(node)
        if number:
            steps.suspend(loops[0])
        steps.run(loop, node.start())
        if not number:
            steps.run(loop, node.add("work", id="work"))
            steps.pass_time(1)
    steps.pass_time(10)
    assert begun == [0, 1]
    steps.kill(loops[1])
    steps.resume(loops[0])
    steps.pass_time(150)
    assert begun == [0, 1, 0]
    assert steps.run(loops[0], nodes[0].get("work")).status is Status.COMPLETED
    steps.end()
