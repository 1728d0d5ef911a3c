"""Where durable tasks are kept: one contract, and a URL that says which store it is.

    memory://                       in this process, for tests and for tasks that need not last
    sqlite:///tasks.db              a file in the present folder
    sqlite:////var/lib/tasks.db     a file anywhere
    postgresql://ann@host/shop      a database, for processes on any number of machines (extra `postgres`)
    redis://host:6379/0             Redis, likewise (extra `redis`); rediss:// by TLS
    redis+sentinel://a,b/shop/0     the master that sentinels watch as `shop`
    redis+cluster://a:7000,b:7000   a Redis Cluster
    etcd://a:2379,b:2379,c:2379/x   below a prefix of an etcd cluster, for small sets that matter (extra `etcd`)

>>> import asyncio
>>> async def main():
...     store = await open_store("memory://")
...     counted = await store.counts()
...     await store.close()
...     return sum(counted.values())
>>> asyncio.run(main())
0
"""

from collections.abc import Callable
from typing import Final

from tickwheel.clock import SystemClock
from tickwheel.errors import MissingExtra, StoreError, UnknownStore
from tickwheel.stores.contract import Conflict, Due, Filter, Finish, Lease, OnConflict, Order, Page, Store, Total
from tickwheel.stores.memory import MemoryStore
from tickwheel.stores.urls import is_file_url, path_of, split_url

__all__ = [
    "Conflict",
    "Due",
    "Filter",
    "Finish",
    "Lease",
    "MemoryStore",
    "OnConflict",
    "Order",
    "Page",
    "Store",
    "Total",
    "open_store",
]

KNOWN: Final = (
    "memory://",
    "sqlite:///",
    "postgresql://",
    "redis://",
    "rediss://",
    "redis+sentinel://",
    "redis+cluster://",
    "etcd://",
    "etcds://",
)
PARTITIONS: Final = 64  # enough to divide among some ten nodes, few enough to hold all leases in one call
PARTITIONS_MAX: Final = 4096


def wall_ms() -> int:
    """Read the time of day."""
    return SystemClock.time_ns() // 1_000_000


async def open_store(
    url: str,
    *,
    now_ms: Callable[[], int] | None = None,
    boottime_ns: Callable[[], int] = SystemClock.boottime_ns,
    partitions: int = PARTITIONS,
    create: bool = True,
) -> Store:
    """Open the store a URL names; how many partitions there are is decided when it is made.

    Without a clock it goes by the store's own: a server's, or this machine's. Where the leases of a file expire, they
    do so by `boottime_ns`, which nobody sets. With `create=False`, a file that is missing raises `StoreUnavailable`.
    """
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise StoreError(f"a store has from 1 to {PARTITIONS_MAX:,} partitions, not {partitions!r}")
    if is_file_url(url):
        path = path_of(url)
        from tickwheel.stores.sqlite import SqliteStore  # noqa: PLC0415 - backends load only when they are used

        return await SqliteStore.open(
            path, now_ms=now_ms or wall_ms, boottime_ns=boottime_ns, partitions=partitions, create=create
        )
    parts = split_url(url, KNOWN)
    if parts.scheme in ("postgresql", "postgres"):
        try:
            from tickwheel.stores.postgres import PostgresStore  # noqa: PLC0415 - backends load only when they are used
        except ModuleNotFoundError as error:
            raise MissingExtra("PostgreSQL stores", str(error.name), "postgres") from error

        return await PostgresStore.open(url, now_ms=now_ms, partitions=partitions)
    if f"{parts.scheme}://" in KNOWN and parts.scheme.startswith("redis") and parts.netloc:
        try:
            from tickwheel.stores.redis import RedisStore  # noqa: PLC0415 - backends load only when they are used
        except ModuleNotFoundError as error:
            raise MissingExtra("Redis stores", str(error.name), "redis") from error

        return await RedisStore.open(url, now_ms=now_ms, partitions=partitions)
    if parts.scheme in ("etcd", "etcds"):
        try:
            from tickwheel.stores.etcd import EtcdStore  # noqa: PLC0415 - backends load only when they are used
        except ModuleNotFoundError as error:
            raise MissingExtra("etcd stores", str(error.name), "etcd") from error

        return await EtcdStore.open(url, now_ms=now_ms, partitions=partitions)
    if url == "memory://":
        return MemoryStore(now_ms=now_ms or wall_ms, partitions=partitions, timed_leases=False)
    raise UnknownStore(url, KNOWN)
