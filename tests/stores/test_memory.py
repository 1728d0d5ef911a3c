"""The memory store passes the suite."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tickwheel.clock import VirtualClock
from tickwheel.stores import MemoryStore, Store
from tickwheel.testing.stores import ClockStepsConformance, RankingConformance, RoutingConformance, StoreConformance


class TestMemoryStore(StoreConformance, RankingConformance, RoutingConformance, ClockStepsConformance):
    @asynccontextmanager
    async def open(self, clock: VirtualClock) -> AsyncIterator[Store]:
        store = MemoryStore(now_ms=lambda: clock.time_ns() // 1_000_000, partitions=8)
        yield store
        await store.close()
