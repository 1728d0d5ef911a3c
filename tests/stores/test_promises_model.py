"""Memory and SQLite stores make of tasks what the reference model does, whatever is done to them."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from msgspec.structs import replace

from tickwheel.clock import VirtualClock
from tickwheel.stores import Store, open_store
from tickwheel.stores.memory import MemoryStore
from tickwheel.tasks.record import Following, Status
from tickwheel.testing.stores.legal import check
from tickwheel.testing.stores.promises import check_against_reference
from tickwheel.testing.stores.scenario import task

FUZZING = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"


def some(examples: int, steps: int) -> settings | None:
    """Say how many examples are enough where nothing is looked for."""
    return None if FUZZING else settings(max_examples=examples, stateful_step_count=steps)


def test_a_running_task_may_be_replaced_or_updated_twice_by_the_same_one() -> None:
    series = task("a", status=Status.RUNNING, attempt=1, version=2, following=Following("replace", task("a")))
    check(series, replace(series, version=3), left=True)
    with pytest.raises(AssertionError, match="running became running"):
        check(series, replace(series, version=3))


def test_memory_keeps_the_promises() -> None:
    @asynccontextmanager
    async def fresh(clock: VirtualClock) -> AsyncIterator[Store]:
        yield MemoryStore(now_ms=lambda: clock.time_ns() // 1_000_000, partitions=8)

    check_against_reference(fresh, settings=some(40, 40))


def test_sqlite_keeps_the_promises() -> None:
    @asynccontextmanager
    async def fresh(clock: VirtualClock) -> AsyncIterator[Store]:
        with TemporaryDirectory() as folder:
            url = f"sqlite:///{Path(folder) / 'tasks.db'}"
            store = await open_store(url, now_ms=lambda: clock.time_ns() // 1_000_000, partitions=8)
            try:
                yield store
            finally:
                await store.close()

    check_against_reference(fresh, settings=some(10, 30))
