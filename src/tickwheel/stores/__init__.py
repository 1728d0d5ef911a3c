"""Where durable tasks are kept: one contract, and a URL that says which store it is.

    memory://                       in this process, for tests and for tasks that need not last

>>> import asyncio
>>> async def main():
...     store = await open_store("memory://")
...     counted = await store.counts()
...     await store.close()
...     return sum(counted.values())
>>> asyncio.run(main())
0
"""

import time
from collections.abc import Callable
from typing import Final

from tickwheel.errors import UnknownStore
from tickwheel.stores.contract import Conflict, Due, Filter, Finish, Lease, OnConflict, Page, Store
from tickwheel.stores.memory import MemoryStore

__all__ = [
    "Conflict",
    "Due",
    "Filter",
    "Finish",
    "Lease",
    "MemoryStore",
    "OnConflict",
    "Page",
    "Store",
    "open_store",
]

KNOWN: Final = ("memory://",)
PARTITIONS: Final = 64  # enough to divide among some ten nodes, few enough to hold all leases in one call


def wall_ms() -> int:
    """Read the time of day; the only place a store finds one that it was not given."""
    return time.time_ns() // 1_000_000


async def open_store(url: str, *, now_ms: Callable[[], int] | None = None, partitions: int = PARTITIONS) -> Store:
    """Open the store a URL names; how many partitions there are is decided when it is made."""
    now_ms = now_ms or wall_ms
    if url == "memory://":
        return MemoryStore(now_ms=now_ms, partitions=partitions)
    raise UnknownStore(url, KNOWN)
