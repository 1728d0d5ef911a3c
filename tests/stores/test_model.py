"""The stores do what the memory store does, whatever is done to them."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings

from tests.etcd import Prefix
from tests.postgres import Database
from tests.redis import Redis
from tickwheel.clock import VirtualClock
from tickwheel.stores import Store, open_store
from tickwheel.testing.redis import RedisCluster, RedisServer
from tickwheel.testing.stores.model import check_against_memory

FUZZING = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"


@asynccontextmanager
async def opened(url: str, clock: VirtualClock) -> AsyncIterator[Store]:
    store = await open_store(url, now_ms=lambda: clock.time_ns() // 1_000_000, partitions=8)
    try:
        yield store
    finally:
        await store.close()


def some(examples: int, steps: int) -> settings | None:
    """Say how many examples are enough where nothing is looked for."""
    return None if FUZZING else settings(max_examples=examples, stateful_step_count=steps)


def test_sqlite_does_what_memory_does() -> None:
    @asynccontextmanager
    async def fresh(clock: VirtualClock) -> AsyncIterator[Store]:
        with TemporaryDirectory() as folder:
            async with opened(f"sqlite:///{Path(folder) / 'tasks.db'}", clock) as store:
                yield store

    check_against_memory(fresh, settings=some(25, 40))


def test_postgres_does_what_memory_does(database: Database) -> None:
    check_against_memory(lambda clock: opened(database.url(database.fresh_schema()), clock), settings=some(12, 30))


def test_redis_does_what_memory_does(redis_server: RedisServer) -> None:
    redis = Redis(redis_server.url)
    check_against_memory(lambda clock: opened(redis.url(redis.fresh_name()), clock), settings=some(12, 30))


def test_a_redis_cluster_does_what_memory_does(redis_cluster: RedisCluster) -> None:
    redis = Redis(redis_cluster.url)
    check_against_memory(lambda clock: opened(redis.url(redis.fresh_name()), clock), settings=some(7, 30))


def test_etcd_does_what_memory_does(prefix: Prefix) -> None:
    check_against_memory(lambda clock: opened(prefix.url(prefix.fresh_name()), clock), settings=some(7, 30))
