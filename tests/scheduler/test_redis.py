"""The engine on Redis: one server, and a cluster."""

import pytest

from tests.redis import Redis
from tests.scheduler.on_a_store import OnAStore
from tickwheel.testing.redis import RedisCluster, RedisServer


class TestRedis(OnAStore):
    @pytest.fixture
    def url(self, redis_server: RedisServer) -> str:
        return Redis(redis_server.url).url()


class TestRedisCluster(OnAStore):
    @pytest.fixture
    def url(self, redis_cluster: RedisCluster) -> str:
        return Redis(redis_cluster.url).url()
