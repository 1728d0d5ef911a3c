"""The SQLite store passes the suite."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tickwheel.clock import VirtualClock
from tickwheel.stores import Store, open_store
from tickwheel.testing.stores import StoreConformance


class TestSqliteStore(StoreConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "tasks.db"

    @asynccontextmanager
    async def open(self, clock: VirtualClock) -> AsyncIterator[Store]:
        store = await open_store(f"sqlite:///{self.path}", now_ms=lambda: clock.time_ns() // 1_000_000, partitions=8)
        try:
            yield store
        finally:
            await store.close()
