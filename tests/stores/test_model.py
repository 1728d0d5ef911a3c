"""The stores do what the memory store does, whatever is done to them."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings

from tests.etcd import Prefix
from tests.postgres import Database
from tickwheel.clock import VirtualClock
from tickwheel.stores import Store, open_store
from tickwheel.testing.stores.model import check_against_memory

FUZZING = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"


@asynccontextmanager
async def opened(clock: VirtualClock) -> AsyncIterator[Store]:
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'tasks.db'}"
        store = await open_store(url, now_ms=lambda: clock.time_ns() // 1_000_000, partitions=8)
        try:
            yield store
        finally:
            await store.close()


def test_sqlite_does_what_memory_does() -> None:
    check_against_memory(opened, settings=None if FUZZING else settings(max_examples=40, stateful_step_count=40))


def test_postgres_does_what_memory_does(database: Database) -> None:
    @asynccontextmanager
    async def fresh(clock: VirtualClock) -> AsyncIterator[Store]:
        url = database.url(database.fresh_schema())
        store = await open_store(url, now_ms=lambda: clock.time_ns() // 1_000_000, partitions=8)
        try:
            yield store
        finally:
            await store.close()

    check_against_memory(fresh, settings=None if FUZZING else settings(max_examples=20, stateful_step_count=30))


def test_etcd_does_what_memory_does(prefix: Prefix) -> None:
    @asynccontextmanager
    async def fresh(clock: VirtualClock) -> AsyncIterator[Store]:
        url = prefix.url(prefix.fresh_name())
        store = await open_store(url, now_ms=lambda: clock.time_ns() // 1_000_000, partitions=8)
        try:
            yield store
        finally:
            await store.close()

    check_against_memory(fresh, settings=None if FUZZING else settings(max_examples=10, stateful_step_count=30))
