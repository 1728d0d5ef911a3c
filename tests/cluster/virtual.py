"""Nodes on one store, in virtual time, and stores that are slow, or away."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from tests.scheduler.flaky import NOT_AWAITED, FlakyStore
from tests.scheduler.worlds import World
from tickwheel import aio
from tickwheel.errors import StoreUnavailable
from tickwheel.scheduler import AsyncScheduler
from tickwheel.scheduler.task_builder import partition_of
from tickwheel.stores import Store

__all__ = ["TTL_S", "AwayStore", "Cluster", "SlowStore", "id_in"]

TTL_S = 3.0


class Cluster(World):
    """A store and nodes that share it."""

    def __init__(self) -> None:
        super().__init__(lease_ttl_ms=int(TTL_S * 1000), rescan_ms=30_000, horizon_ms=600_000)
        self.by: list[tuple[str, str]] = []  # who ran what
        self.nodes: dict[str, AsyncScheduler] = {}

    async def join(self, name: str, store: Store | None = None) -> AsyncScheduler:
        """Start a node that knows one more handler, `whose`."""
        shared, self.store = self.store, store or self.store
        scheduler = self.scheduler()
        self.store = shared

        @scheduler.task("whose")
        async def whose(what: str, seconds: float = 0.0) -> str:
            self.by.append((name, what))
            await asyncio.sleep(seconds)
            return name

        self.nodes[name] = await scheduler.start()
        return scheduler

    async def leave(self, name: str) -> None:
        await self.nodes.pop(name).stop()

    def die(self, name: str) -> None:
        """Let a node do nothing any more, from one moment to the next."""
        engine: Any = self.nodes.pop(name)._engine
        engine._ending = True
        for loop in engine._loops:
            loop.cancel()
        for flight in engine._executor._flights.values():
            flight.waits = False
        for job, run in engine._executor._workers._begun.items():
            job.tell = print  # which nobody of that node hears
            run.cancel()

    async def held(self) -> dict[str, int]:
        """Count the partitions of each node that has some."""
        ids = {self.engine(name)._ownership._node: name for name in self.nodes}
        return dict(Counter(ids.get(lease.node, "nobody we know") for lease in await self.store.leases()))

    def engine(self, name: str) -> Any:
        return self.nodes[name]._engine

    async def until(self, held: dict[str, int], seconds: float) -> None:
        """Wait until partitions are held so, but not for longer."""
        async with asyncio.timeout(seconds):
            while await self.held() != held:  # noqa: ASYNC110 - nobody tells a test
                await asyncio.sleep(0.01)

    def live(self, story: Callable[[], Awaitable[None]]) -> None:
        async def main() -> None:
            await story()
            for name in list(self.nodes):
                await self.leave(name)

        aio.run(main(), clock=self.clock)


def id_in(partition: int, prefix: str = "task") -> str:
    return next(name for number in range(10_000) if partition_of(name := f"{prefix}-{number}", 64) == partition)


class SlowStore(FlakyStore):
    """Takes its time for one thing, half a second to find what is due unless told, however little is asked for."""

    slow_at, takes_s = "due", 0.5

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if name != self.slow_at:
            return found

        async def call(*args: Any) -> Any:
            await asyncio.sleep(self.takes_s)
            return await found(*args)

        return call


class AwayStore(FlakyStore):
    """Cannot be reached for a while."""

    away = False

    def __getattr__(self, name: str) -> Any:
        if self.away and name not in NOT_AWAITED:
            raise StoreUnavailable("it is away")
        return super().__getattr__(name)
