"""What makes a key go away when nobody holds on to it any more: etcd's leases, or a clock of one's own, for tests.

etcd counts down each lease by itself, on its leader, and a new leader begins anew: it may end late, never early. It
tells how long it lasts; when it ends is reckoned from that, for being looked at only. Its leases last whole seconds,
two at least with its usual settings.

With a clock of one's own the end of each lease is written down, and whoever comes first clears away what is over.
"""

import secrets
from collections.abc import Callable, Collection
from typing import Final, Protocol

from aetcd import rpc

from tickwheel.stores.etcd.keys import Keys
from tickwheel.stores.etcd.members import Members, abreast
from tickwheel.stores.etcd.requests import ask_all, ask_key, delete, exists, put, separately, stands

__all__ = ["ClockTenure", "EtcdTenure", "Tenure", "lease_of"]

ID_BITS: Final = 62


def lease_of(value: bytes) -> int:
    """Read which lease the key of an owner or a node hangs on: it is the first word of it, in hexadecimal."""
    return int(value.split(b" ", 1)[0], 16)


class Tenure(Protocol):
    """Leases that keys hang on."""

    async def clear(self) -> None:
        """See that what is over is gone."""

    async def grant(self, ttl_ms: int) -> tuple[int, int]:
        """Begin a lease; return it and its end."""

    def binding(self, lease: int) -> int:
        """Return what a key is written with to hang on it."""

    async def keep(self, leases: Collection[int], ttl_ms: int) -> dict[int, int]:
        """Hold on to leases; return the ends of those that are not over."""

    async def ends(self, leases: Collection[int]) -> dict[int, int]:
        """Return when leases end, without those that are over."""

    async def revoke(self, leases: Collection[int]) -> None:
        """End leases, with what hangs on them."""


class EtcdTenure:
    """etcd's own leases."""

    def __init__(self, members: Members, now_ms: Callable[[], int]) -> None:
        self._members = members
        self._now_ms = now_ms
        self._seen: dict[int, tuple[int, int]] = {}  # when each lease ends, and until when not to ask again

    async def clear(self) -> None:
        """Leave it to etcd."""

    async def grant(self, ttl_ms: int) -> tuple[int, int]:
        """Begin a lease."""
        now = self._now_ms()
        request = rpc.LeaseGrantRequest(TTL=max(-(-ttl_ms // 1000), 1))
        answer = await self._members.ask_lease("LeaseGrant", request)
        return answer.ID, now + answer.TTL * 1000

    def binding(self, lease: int) -> int:
        """Return the lease."""
        return lease

    async def keep(self, leases: Collection[int], ttl_ms: int) -> dict[int, int]:
        """Hold on to leases; they last as long again as when they were begun."""
        del ttl_ms
        now = self._now_ms()
        kept = await self._members.keep_alive(list(leases)) if leases else {}
        return {lease: now + ttl_s * 1000 for lease, ttl_s in kept.items()}

    async def ends(self, leases: Collection[int]) -> dict[int, int]:
        """Ask how long each lasts, but for those of which half is left by the last answer.

        That is told in whole seconds, rounded down: a lease that lasts for 0 s is one that is held.
        """
        now = self._now_ms()
        seen = {each: self._seen[each] for each in leases if now < self._seen.get(each, (0, 0))[1]}
        asked = [rpc.LeaseTimeToLiveRequest(ID=each) for each in leases if each not in seen]
        for answer in await abreast(lambda each: self._members.ask_lease("LeaseTimeToLive", each), asked):
            if answer.TTL >= 0:
                left_ms = answer.TTL * 1000 + 500
                seen[answer.ID] = now + left_ms, now + left_ms // 2
        self._seen = seen
        return {lease: end for lease, (end, _) in seen.items()}

    async def revoke(self, leases: Collection[int]) -> None:
        """End leases."""
        await abreast(self._members.revoke, leases)


class ClockTenure:
    """Leases by a clock that was given."""

    def __init__(self, keys: Keys, members: Members, now_ms: Callable[[], int]) -> None:
        self._keys = keys
        self._members = members
        self._now_ms = now_ms

    async def clear(self) -> None:
        """Delete the leases that are over, and what hangs on them."""
        leases, owners, nodes = await self._members.read(
            [ask_all(each) for each in (self._keys.leases, self._keys.owners, self._keys.nodes)]
        )
        now = self._now_ms()
        over = [pair for pair in leases.kvs if int(pair.value) <= now]
        good = {pair.key for pair in leases.kvs if int(pair.value) > now}
        hanging = [*owners.kvs, *nodes.kvs]
        over += [pair for pair in hanging if self._keys.lease(lease_of(pair.value)) not in good]
        for request in separately(([stands(pair.key, pair.mod_revision)], [delete(pair.key)]) for pair in over):
            await self._members.write_again(request)

    async def grant(self, ttl_ms: int) -> tuple[int, int]:
        """Begin a lease."""
        lease, end = secrets.randbits(ID_BITS), self._now_ms() + ttl_ms
        for request in separately([([], [put(self._keys.lease(lease), b"%d" % end)])]):
            await self._members.write_again(request)
        return lease, end

    def binding(self, lease: int) -> int:
        """Return that it hangs on nothing of etcd's."""
        del lease
        return 0

    async def keep(self, leases: Collection[int], ttl_ms: int) -> dict[int, int]:
        """Write a new end to each that is there."""
        end = self._now_ms() + ttl_ms
        keys = {lease: self._keys.lease(lease) for lease in leases}
        for request in separately(([exists(key)], [put(key, b"%d" % end)]) for key in keys.values()):
            await self._members.write_again(request)
        return await self.ends(leases)

    async def ends(self, leases: Collection[int]) -> dict[int, int]:
        """Read the end of each."""
        answers = await self._members.read([ask_key(self._keys.lease(lease)) for lease in leases])
        pairs = zip(leases, answers, strict=True)
        return {lease: int(answer.kvs[0].value) for lease, answer in pairs if answer.kvs}

    async def revoke(self, leases: Collection[int]) -> None:
        """Delete leases; what hangs on them is cleared away."""
        for request in separately(([], [delete(self._keys.lease(lease))]) for lease in leases):
            await self._members.write_again(request)
