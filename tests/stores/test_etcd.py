"""The etcd store passes the suite."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.etcd import Prefix
from tickwheel.clock import VirtualClock
from tickwheel.stores import Store, open_store
from tickwheel.testing.stores import StoreConformance


class TestEtcdStore(StoreConformance):
    @pytest.fixture(autouse=True)
    def _prefix(self, prefix: Prefix) -> None:
        self.prefix = prefix

    @asynccontextmanager
    async def open(self, clock: VirtualClock) -> AsyncIterator[Store]:
        store = await open_store(self.prefix.url(), now_ms=lambda: clock.time_ns() // 1_000_000, partitions=8)
        try:
            yield store
        finally:
            await store.close()
