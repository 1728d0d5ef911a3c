"""The partitions this node owns, and until when it may count on that.

    renew sent             answer                 stop by our own clock     lease ends by the store's
    |----------------------|----------------------|-------------------------|
    0                                             ttl - margin              ttl

The end is counted from before the call: however long the answer took, we stop before anyone else may begin. That
is for order; what keeps a late writer from doing harm is the fencing token in every write.
"""

from tickwheel.clock import Clock
from tickwheel.stores.contract import Lease, Store

__all__ = ["Holdings"]

MARGIN = 0.25  # the share of a lease that is left unused, for clocks that do not run alike


class Holdings:
    """The leases of one node."""

    def __init__(self, store: Store, node: str, clock: Clock, ttl_ms: int) -> None:
        self._store = store
        self._node = node
        self._clock = clock
        self._ttl_ms = ttl_ms
        self._leases: dict[int, Lease] = {}
        self._safe_until_ns = 0

    def leases(self) -> list[Lease]:
        """Return what is ours for certain: nothing, if the leases could not be renewed in time."""
        return list(self._leases.values()) if self._clock.monotonic_ns() < self._safe_until_ns else []

    def of(self, partition: int) -> Lease | None:
        """Return the lease of a partition, in time or not: the store is the judge of that."""
        return self._leases.get(partition)

    async def take(self) -> list[Lease]:
        """Hold on to what we have and take what nobody holds; return what is new."""
        begun_ns = self._clock.monotonic_ns()
        kept = await self._store.renew(list(self._leases.values()), self._ttl_ms) if self._leases else []
        self._leases = {lease.partition: lease for lease in kept}
        free = [partition for partition in range(self._store.partitions) if partition not in self._leases]
        new = await self._store.acquire(free, self._node, self._ttl_ms) if free else []
        self._leases.update((lease.partition, lease) for lease in new)
        self._safe_until_ns = begun_ns + int(self._ttl_ms * (1.0 - MARGIN) * 1_000_000)
        return new

    async def give_back(self) -> None:
        """Let others have them at once."""
        leases = list(self._leases.values())
        self._leases = {}
        if leases:
            await self._store.release(leases)
