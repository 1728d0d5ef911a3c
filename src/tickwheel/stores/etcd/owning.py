"""What only the owner of a partition does. Every write demands that the partition has no other owner by then.

The key of an owner says on which lease it hangs, under which epoch, and by which nonce:

    o/0004      2f6a8d9c01b4e07 3 5e0f6b1c9d3a7740 node-1

It does not change for as long as the lease is held, so that a transaction has only to demand what it is. Whoever takes
the partition over finds it gone, and writes another.
"""

import secrets
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from tickwheel.stores.contract import Lease
from tickwheel.stores.etcd.keys import spelled
from tickwheel.stores.etcd.members import abreast
from tickwheel.stores.etcd.requests import (
    Comparison,
    Operation,
    ask_all,
    delete,
    holds,
    put,
    separately,
    stands,
)
from tickwheel.stores.etcd.tenure import Tenure, lease_of
from tickwheel.stores.etcd.writing import Ground

__all__ = ["acquire", "checkpoint", "held", "leases", "release", "renew", "token_of"]


def token_of(lease: Lease) -> bytes:
    """Return what the key of the owner has to be for a lease to be good."""
    nonce, _, bound = lease.nonce.partition("@")
    return b"%s %d %s %s" % (spelled(bound), lease.epoch, spelled(nonce), spelled(lease.node))


def _lease_of(lease: Lease) -> int:
    return int(lease.nonce.partition("@")[2], 16)


async def acquire(ground: Ground, tenure: Tenure, partitions: Sequence[int], node: str, ttl_ms: int) -> list[Lease]:
    """Take leases that nobody holds."""
    await tenure.clear()
    keys = ground.keys
    owners, epochs, checkpoints = await ground.members.read(
        [ask_all(each) for each in (keys.owners, keys.epochs, keys.checkpoints)]
    )
    taken = {keys.partition_of(pair.key) for pair in owners.kvs}
    before = {keys.partition_of(pair.key): pair for pair in epochs.kvs}
    moments = {keys.partition_of(pair.key): int(pair.value) for pair in checkpoints.kvs}
    free = [each for each in dict.fromkeys(partitions) if 0 <= each < ground.partitions and each not in taken]
    granted = await abreast(lambda _: tenure.grant(ttl_ms), free)
    wanted = [
        Lease(
            partition=partition,
            node=node,
            epoch=1 + (int(before[partition].value) if partition in before else 0),
            nonce=f"{secrets.token_hex(8)}@{bound:x}",
            expires_at=end,
            checkpoint=moments.get(partition, 0),
        )
        for partition, (bound, end) in zip(free, granted, strict=True)
    ]

    def case(lease: Lease) -> tuple[list[Comparison], list[Operation]]:
        owner, epoch = keys.owner(lease.partition), keys.epoch(lease.partition)
        known = before[lease.partition].mod_revision if lease.partition in before else 0
        binding = tenure.binding(_lease_of(lease))
        return (
            [stands(owner, 0), stands(epoch, known)],
            [put(owner, token_of(lease), binding), put(epoch, b"%d" % lease.epoch)],
        )

    got = await _each(ground, wanted, case)
    await tenure.revoke([_lease_of(lease) for lease in wanted if lease not in got])
    return got


async def held(ground: Ground, tenure: Tenure, owned: Iterable[Lease]) -> list[Lease]:
    """Leave out leases that are not their holders' any more, and copies."""
    await tenure.clear()
    [owners] = await ground.members.read([ask_all(ground.keys.owners)])
    tokens = {ground.keys.partition_of(pair.key): pair.value for pair in owners.kvs}
    good = {lease.partition: lease for lease in owned if tokens.get(lease.partition) == token_of(lease)}
    return list(good.values())


async def renew(ground: Ground, tenure: Tenure, owned: Sequence[Lease], ttl_ms: int) -> list[Lease]:
    """Hold on to leases."""
    good = await held(ground, tenure, owned)
    ends = await tenure.keep([_lease_of(lease) for lease in good], ttl_ms)
    [checkpoints] = await ground.members.read([ask_all(ground.keys.checkpoints)])
    moments = {ground.keys.partition_of(pair.key): int(pair.value) for pair in checkpoints.kvs}
    return [
        replace(lease, expires_at=ends[_lease_of(lease)], checkpoint=moments.get(lease.partition, 0))
        for lease in good
        if _lease_of(lease) in ends
    ]


async def release(ground: Ground, tenure: Tenure, owned: Sequence[Lease]) -> None:
    """Give leases back; who watches sees the owner go."""
    good = await held(ground, tenure, owned)
    keys = ground.keys
    given = await _each(
        ground,
        good,
        lambda lease: (
            [holds(keys.owner(lease.partition), token_of(lease))],
            [delete(keys.owner(lease.partition))],
        ),
    )
    await tenure.revoke([_lease_of(lease) for lease in given])


async def checkpoint(ground: Ground, tenure: Tenure, owned: Sequence[Lease], moment: int) -> None:
    """Note how far owned partitions are."""
    good = await held(ground, tenure, owned)
    keys = ground.keys
    await _each(
        ground,
        good,
        lambda lease: (
            [holds(keys.owner(lease.partition), token_of(lease))],
            [put(keys.checkpoint(lease.partition), b"%d" % moment)],
        ),
    )


async def _each(
    ground: Ground, owned: Sequence[Lease], case: Callable[[Lease], tuple[list[Comparison], list[Operation]]]
) -> list[Lease]:
    """Do something for each lease for which it can be done; return those."""
    answers = await abreast(ground.members.write, separately(map(case, owned)))
    done = [each.response_txn.succeeded for answer in answers for each in answer.responses]
    return [lease for lease, succeeded in zip(owned, done, strict=True) if succeeded]


async def leases(ground: Ground, tenure: Tenure) -> list[Lease]:
    """List the leases that are held now."""
    await tenure.clear()
    keys = ground.keys
    owners, checkpoints = await ground.members.read([ask_all(keys.owners), ask_all(keys.checkpoints)])
    moments = {keys.partition_of(pair.key): int(pair.value) for pair in checkpoints.kvs}
    ends = await tenure.ends([lease_of(pair.value) for pair in owners.kvs])
    return [
        _listed(keys.partition_of(pair.key), pair.value, ends[lease_of(pair.value)], moments)
        for pair in owners.kvs
        if lease_of(pair.value) in ends
    ]


def _listed(partition: int, token: bytes, end: int, moments: dict[int, int]) -> Lease:
    _, epoch, _, node = token.split(b" ", 3)
    return Lease(
        partition=partition,
        node=node.decode(),
        epoch=int(epoch),
        nonce="",
        expires_at=end,
        checkpoint=moments.get(partition, 0),
    )
