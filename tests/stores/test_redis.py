"""The Redis store passes the suite, on one server and on a cluster."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.redis import Redis
from tickwheel.clock import VirtualClock
from tickwheel.stores import Store, open_store
from tickwheel.testing.redis import RedisCluster, RedisServer
from tickwheel.testing.stores import StoreConformance


class OnRedis(StoreConformance):
    redis: Redis

    @asynccontextmanager
    async def open(self, clock: VirtualClock) -> AsyncIterator[Store]:
        store = await open_store(self.redis.url(), now_ms=lambda: clock.time_ns() // 1_000_000, partitions=8)
        try:
            yield store
        finally:
            await store.close()


class TestRedisStore(OnRedis):
    @pytest.fixture(autouse=True)
    def _server(self, redis_server: RedisServer) -> None:
        self.redis = Redis(redis_server.url)


class TestRedisCluster(OnRedis):
    @pytest.fixture(autouse=True)
    def _cluster(self, redis_cluster: RedisCluster) -> None:
        self.redis = Redis(redis_cluster.url)
