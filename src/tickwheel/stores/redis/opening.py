"""Opening the store: which servers there are, and what is made on them."""

from collections.abc import Callable
from typing import Final

from tickwheel.errors import SchemaTooNew, StoreError
from tickwheel.stores.redis.address import Address
from tickwheel.stores.redis.cluster import Cluster
from tickwheel.stores.redis.keys import META
from tickwheel.stores.redis.shards import Shards, Single

__all__ = ["SCHEMA", "prepare"]

SCHEMA: Final = 1  # the version of what lua/common.lua describes


async def prepare(address: Address, partitions: int, now_ms: Callable[[], int] | None) -> Shards:
    """Connect, and make the store if there is none; how many partitions there are is decided then."""
    shards = Shards(address, Cluster(address) if address.clustered else Single(address), now_ms)
    try:
        schema, stored = await shards.ask_one("open", META, (SCHEMA, partitions), lasting=True)
        await shards.settle(checked(address, schema, stored))
    except BaseException:
        await shards.close()
        raise
    return shards


def checked(address: Address, schema: bytes | None, partitions: bytes | None) -> int:
    """Return how many partitions there are, if it is a store that we know."""
    if schema is None or partitions is None:
        raise StoreError(f"{address.shown}: there is something else under this name; choose another with ?name=")
    if int(schema) > SCHEMA:
        raise SchemaTooNew(int(schema), SCHEMA)
    return int(partitions)
