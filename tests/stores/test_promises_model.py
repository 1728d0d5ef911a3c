"""Memory and SQLite stores make of tasks what the reference model does, whatever is done to them."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings

from tickwheel.clock import VirtualClock
from tickwheel.stores import Store, open_store
from tickwheel.stores.memory import MemoryStore
from tickwheel.testing.stores.promises import check_against_reference

FUZZING = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"


def some(examples: int, steps: int) -> settings | None:
    """Say how many examples are enough where nothing is looked for."""
    return None if FUZZING else settings(max_examples=examples, stateful_step_count=steps)


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
