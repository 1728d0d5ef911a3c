"""Which nodes live: each has a key that hangs on a lease."""

from tickwheel.stores.etcd.keys import spelled
from tickwheel.stores.etcd.requests import ask_all, ask_key, put, transaction
from tickwheel.stores.etcd.tenure import Tenure, lease_of
from tickwheel.stores.etcd.writing import Ground

__all__ = ["Nodes"]


class Nodes:
    """The nodes of a cluster, and the leases of those that this process spoke for."""

    def __init__(self, ground: Ground, tenure: Tenure) -> None:
        self._ground = ground
        self._tenure = tenure
        self._leases: dict[str, int] = {}

    async def heartbeat(self, node: str, ttl_ms: int) -> list[str]:
        """Say that a node lives; return all that live."""
        await self._tenure.clear()
        keys = self._ground.keys
        lease = self._leases.get(node)
        if lease is None or lease not in await self._tenure.keep([lease], ttl_ms):
            lease, _ = await self._tenure.grant(ttl_ms)
            value = b"%x %s" % (lease, spelled(node))
            written = put(keys.node(node), value, self._tenure.binding(lease))
            await self._ground.members.write_again(transaction([], [written]))
            self._leases[node] = lease
        [living] = await self._ground.members.read([ask_all(keys.nodes)])
        return sorted(pair.value.split(b" ", 1)[1].decode() for pair in living.kvs)

    async def leave(self, node: str) -> None:
        """Say that a node lives no more."""
        self._leases.pop(node, None)
        [found] = await self._ground.members.read([ask_key(self._ground.keys.node(node))])
        await self._tenure.revoke([lease_of(pair.value) for pair in found.kvs])
        await self._tenure.clear()
