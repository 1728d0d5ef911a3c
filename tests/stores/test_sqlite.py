"""The SQLite store passes the suite."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tickwheel.clock import VirtualClock
from tickwheel.stores import Store
from tickwheel.stores.sqlite import SqliteStore, reads
from tickwheel.testing.stores import ClockStepsConformance, RankingConformance, RoutingConformance, StoreConformance


class TestSqliteStore(StoreConformance, RankingConformance, RoutingConformance, ClockStepsConformance):
    node_locks = True

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "tasks.db"

    @asynccontextmanager
    async def open(self, clock: VirtualClock) -> AsyncIterator[Store]:
        store = await SqliteStore.open(
            self.path,
            now_ms=lambda: clock.time_ns() // 1_000_000,
            boottime_ns=clock.boottime_ns,
            partitions=8,
            node_locks=self.node_locks,
        )
        try:
            yield store
        finally:
            await store.close()


class TestSqliteStoreWithoutNodeLocks(TestSqliteStore):
    node_locks = False


class TestSqliteStoreThatPassesFewRowsAtATime(RankingConformance):
    """What is left out is passed in steps, so that others can read in between; the result is the same."""

    open = TestSqliteStore.open
    _folder = TestSqliteStore._folder
    node_locks = True

    @pytest.fixture(autouse=True)
    def _few_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reads, "PASSED_MAX", 1)
