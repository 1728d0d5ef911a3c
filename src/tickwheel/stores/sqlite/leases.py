"""Nodes and the partitions they own.

A node that holds a lock file (node_locks.py) owns its partitions until it releases them or dies; their leases are
stored with `FOREVER` as their stamp. Where locks do not work, a node has to renew itself and its leases in time, and
each renewal makes the stamp (`expires_at`) larger; how long ago that was is up to who looks (renewals.py). Both kinds
may share a file.
"""

import secrets
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import apsw
from msgspec.structs import replace

from tickwheel.stores.contract import MEMBERS, Lease
from tickwheel.stores.sqlite.node_locks import Member, NodeLocks
from tickwheel.stores.sqlite.reads import held_of, text_of
from tickwheel.stores.sqlite.renewals import FOREVER, Renewals
from tickwheel.stores.sqlite.statements import SQL
from tickwheel.stores.sqlite.writes import Transaction

__all__ = [
    "acquire",
    "beat",
    "checkpoint",
    "forget",
    "join",
    "leases",
    "leave",
    "members",
    "publish",
    "reap",
    "release",
    "renew",
    "still_held",
]


def members(connection: apsw.Connection) -> list[Member]:
    """List all nodes that were not found dead so far."""
    found = []
    for node, active, lock, inode, process, database, expires_at, handlers, version, ttl_ms in connection.execute(
        SQL["members"]
    ):
        try:
            names = node.decode(), lock.decode(), process.decode()
        except UnicodeDecodeError:
            continue  # nobody can say whether it lives: it is taken for dead
        said = None if handlers is None else text_of(handlers)
        found.append(
            Member(names[0], active, names[1], inode, names[2], database, expires_at, said, text_of(version), ttl_ms)
        )
    return found


def leases(connection: apsw.Connection, now: int, renewals: Renewals) -> tuple[list[Lease], list[Member]]:
    """List the leases that are held now, with their end as far as this process can tell, and the nodes."""
    held = []
    for part, node, epoch, stamp, ttl_ms, checkpoint in connection.execute(SQL["leases"]):
        left_ms = None if stamp >= FOREVER else renewals.left_ms(part, epoch, stamp, ttl_ms)
        if left_ms != 0:
            end = None if left_ms is None else now + left_ms
            held.append(Lease(partition=part, node=node, epoch=epoch, nonce="", expires_at=end, checkpoint=checkpoint))
    return held, members(connection)


# -- nodes with a lock


def join(transaction: Transaction, member: Member, locks: NodeLocks, in_place: Callable[[], bool]) -> bool:
    """Write a node that holds its lock; False if its lock file was deleted meanwhile, and it needs another one."""
    if not in_place():
        return False
    known = {each.lock for each in members(transaction.connection)} | {member.lock}
    locks.remove_leftovers(known)
    transaction.connection.execute(
        SQL["join"],
        (
            member.node,
            member.active,
            member.lock,
            member.inode,
            member.process,
            member.database,
            FOREVER,
            member.handlers,
            member.version,
        ),
    )
    transaction.touched.touch(MEMBERS)
    return True


def publish(transaction: Transaction, node: str, handlers: str | None, version: str) -> None:
    """Write which handlers a node has, if it is there."""
    if transaction.connection.execute(SQL["publish"], (handlers, version, node)).get is not None:
        transaction.touched.touch(MEMBERS)


def leave(transaction: Transaction, member: Member, locks: NodeLocks) -> bool:
    """Want no partitions any more; return whether the node is gone: it had none."""
    if not transaction.connection.execute(SQL["is_owner"], (member.node,)).get:
        return reap(transaction, [member.node], locks, lambda _: True) == [member.node]
    if transaction.connection.execute(SQL["deactivate"], (member.node,)).get is not None:
        transaction.touched.touch(MEMBERS)
    return False


def reap(
    transaction: Transaction, nodes: Iterable[str], locks: NodeLocks, is_dead: Callable[[Member], bool]
) -> list[str]:
    """Forget nodes, and free what they own, if they are still dead; return those.

    Their lock files are deleted when that is committed. If it cannot be, a file that nobody locks shows who is dead.
    """
    found = {member.node: member for member in members(transaction.connection)}
    gone = [found[node] for node in nodes if node in found and is_dead(found[node])]
    for member in gone:
        transaction.touched.touch(*(part for (part,) in transaction.connection.execute(SQL["free"], (member.node,))))
        transaction.connection.execute(SQL["leave"], (member.node,))
        transaction.touched.touch(MEMBERS)
        transaction.on_commit.append(partial(locks.remove, member))
    return [member.node for member in gone]


# -- nodes without


def beat(transaction: Transaction, node: str, ttl_ms: int, handlers: str | None, version: str) -> list[Member]:
    """Say that a node without a lock lives, and return all nodes."""
    found = {member.node: member for member in members(transaction.connection)}
    before = found.get(node)
    if before is None or (before.handlers, before.version) != (handlers, version):
        transaction.touched.touch(MEMBERS)
    stamp = max(transaction.now + ttl_ms, before.expires_at + 1 if before else 0)  # it grows, also after a step back
    transaction.connection.execute(SQL["beat"], (node, stamp, ttl_ms, handlers, version))
    transaction.renewals.left_ms(node, 0, stamp, ttl_ms)
    return members(transaction.connection)


def forget(transaction: Transaction, nodes: Iterable[str], is_gone: Callable[[Member], bool] = lambda _: True) -> None:
    """Forget nodes without a lock, if they are still gone; their leases stay as they are."""
    found = {member.node: member for member in members(transaction.connection) if not member.lock}
    for node in nodes:
        if node in found and is_gone(found[node]):
            transaction.connection.execute(SQL["leave"], (node,))
            transaction.touched.touch(MEMBERS)


# -- owners


def acquire(transaction: Transaction, partitions: Sequence[int], node: str, ttl_ms: int | None) -> list[Lease]:
    """Take leases that nobody holds; without a time they are held until the node releases them, or dies."""
    rows = list(transaction.connection.execute(SQL["partitions"]))
    nodes = {member.node for member in members(transaction.connection)}
    stamp = FOREVER if ttl_ms is None else transaction.now + ttl_ms
    got = []
    for part in dict.fromkeys(partitions):
        if not 0 <= part < len(rows):
            continue
        _, owner, epoch, _, seen, seen_ttl_ms, checkpoint = rows[part]
        if transaction.renewals.is_held(part, epoch, seen, seen_ttl_ms) and (seen < FOREVER or owner in nodes):
            continue
        lease = Lease(
            partition=part,
            node=node,
            epoch=epoch + 1,
            nonce=secrets.token_hex(8),
            expires_at=None if ttl_ms is None else stamp,
            checkpoint=checkpoint,
        )
        transaction.connection.execute(SQL["lease"], (node, lease.epoch, lease.nonce, stamp, ttl_ms or 0, part))
        if ttl_ms is not None:
            transaction.renewals.left_ms(part, lease.epoch, stamp, ttl_ms)
        got.append(lease)
    return got


def renew(transaction: Transaction, held: Sequence[Lease], ttl_ms: int) -> list[Lease]:
    """Hold on to leases that expire."""
    renewed = [
        replace(lease, expires_at=transaction.now + ttl_ms)
        for lease in still_held(transaction.connection, held, transaction.renewals)
    ]
    for lease in renewed:
        stamp = transaction.connection.execute(SQL["renew"], (transaction.now + ttl_ms, ttl_ms, lease.partition)).get
        transaction.renewals.left_ms(lease.partition, lease.epoch, stamp, ttl_ms)
    return renewed


def still_held(connection: apsw.Connection, held: Sequence[Lease], renewals: Renewals) -> list[Lease]:
    """Return those leases that are still their holders'."""
    return [replace(lease, checkpoint=checkpoint) for lease, checkpoint in held_of(connection, held, renewals).values()]


def release(transaction: Transaction, held: Sequence[Lease], locks: NodeLocks) -> list[str]:
    """Give leases back; return the nodes that are gone with their last one."""
    ours = held_of(transaction.connection, held, transaction.renewals)
    transaction.connection.executemany(SQL["release"], ((part,) for part in ours))
    transaction.touched.touch(*ours)
    if ours:
        transaction.touched.touch(MEMBERS)
    leaving = {member.node: member for member in members(transaction.connection) if not member.active and member.lock}
    nodes = {lease.node for lease, _ in ours.values()}
    return [node for node in nodes if node in leaving and leave(transaction, leaving[node], locks)]


def checkpoint(transaction: Transaction, held: Sequence[Lease], moment: int) -> None:
    """Note how far owned partitions are."""
    ours = held_of(transaction.connection, held, transaction.renewals)
    if ours:
        transaction.connection.execute(SQL["keep_changed_at"], (moment,))
        transaction.connection.executemany(SQL["checkpoint"], ((moment, part) for part in ours))
        transaction.connection.execute(SQL["forget_changed_at"], (moment,))
