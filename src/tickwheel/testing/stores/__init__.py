"""The suite that every store has to pass, for those who write one.

    from contextlib import asynccontextmanager
    from tickwheel.testing.stores import StoreConformance

    class TestMyStore(StoreConformance):
        @asynccontextmanager
        async def open(self, clock):
            store = await MyStore.open(now_ms=lambda: clock.time_ns() // 1_000_000)
            try:
                yield store
            finally:
                await store.close()

Plain pytest runs it: each test opens a fresh, empty store of at least eight partitions, whose leases expire by the
virtual clock that it is given. Every call goes through `LegalStore`, which holds each change against the table of
what may become of what. `tickwheel.testing.stores.model`, which needs Hypothesis, compares a store with
`MemoryStore` step by step.

A store that can list what is due by priority passes `RankingConformance` as well, a class to inherit from besides; one
that knows which node has which handlers, and can move tasks there, passes `RoutingConformance`; one that keeps how the
wall clock was set passes `ClockStepsConformance`. A store that has one of these capabilities and does not inherit the
class fails.
"""

from tickwheel.clock import VirtualClock
from tickwheel.testing.stores.adding import Adding
from tickwheel.testing.stores.amending import Amending
from tickwheel.testing.stores.changing import Changing
from tickwheel.testing.stores.claiming import Claiming
from tickwheel.testing.stores.clock_steps import ClockStepsConformance
from tickwheel.testing.stores.leasing import Leasing
from tickwheel.testing.stores.legal import LegalStore
from tickwheel.testing.stores.listing import Listing
from tickwheel.testing.stores.meeting import Meeting
from tickwheel.testing.stores.ranking import RankingConformance
from tickwheel.testing.stores.routing import RoutingConformance
from tickwheel.testing.stores.running import Running
from tickwheel.testing.stores.scenario import scenario
from tickwheel.testing.stores.searching import Searching

__all__ = ["ClockStepsConformance", "LegalStore", "RankingConformance", "RoutingConformance", "StoreConformance"]


class StoreConformance(Adding, Changing, Amending, Listing, Searching, Meeting, Leasing, Claiming, Running):
    """Every sentence of the contract, as tests."""

    @scenario
    async def test_a_store_passes_the_suite_of_each_capability_it_has(
        self, store: LegalStore, _clock: VirtualClock
    ) -> None:
        for capability, suite in (
            ("overdue", RankingConformance),
            ("move", RoutingConformance),
            ("clock_steps", ClockStepsConformance),
        ):
            assert hasattr(store.store, capability) == isinstance(self, suite), capability
