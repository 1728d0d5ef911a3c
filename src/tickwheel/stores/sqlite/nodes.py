"""The nodes of a store: those of this process, which hold their locks, and those of others, which may die.

    heartbeat   makes a lock file, locks it, writes the node; from then on it only reads
    a peer dies a pidfd or a probe tells: one transaction forgets it, deletes its file and frees its partitions
    leave       the node is written as one that wants nothing; with its last partition it is gone, and so is its lock
    close       all of that at once

Where a lock file cannot be made or locked, the node has no lock, and it and its leases expire by time (renewals.py).
"""

import asyncio
import errno
import logging
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import apsw
import msgspec
from msgspec.structs import replace

from tickwheel.errors import StoreError, StoreUnavailable
from tickwheel.stores.contract import Lease, Node
from tickwheel.stores.sqlite import leases as owning
from tickwheel.stores.sqlite.connection_thread import ConnectionThread
from tickwheel.stores.sqlite.node_locks import Member, NodeLock, NodeLocks, Peers, visible_pid
from tickwheel.stores.sqlite.notifier import Notifier, ping
from tickwheel.stores.sqlite.renewals import Renewals
from tickwheel.stores.sqlite.writes import Transaction

__all__ = ["Nodes"]

log = logging.getLogger("tickwheel.stores.sqlite")

ATTEMPTS_MAX: Final = 10  # to make a lock file that nobody deletes
RESPONSE_S: Final = 2.0  # for an event loop that has much to do
NOTHING: Final = None, ""  # of handlers and a version was said
AGAIN_S: Final = 0.1  # after what a dead node had could not be freed

# What keeps a lock file from being made for the moment, where locks do work.
SHORTAGES: Final = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM}

UNSUPPORTED: Final = (
    "%s: node locks do not work here (%s); leases expire by time instead, so that a task may run again if its process "
    "is suspended, and a dead process is noticed when its lease is over (3 to 4 s)"
)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[str]).decode


class Nodes:
    """Who runs the tasks of a file; for one event loop."""

    def __init__(
        self,
        path: Path,
        notifier: Notifier,
        writes: ConnectionThread[Transaction],
        reads: ConnectionThread[apsw.Connection],
        now_ms: Callable[[], int],
        renewals: Renewals,
        *,
        use_locks: bool,
    ) -> None:
        self._path = path
        self._notifier = notifier
        self._writes = writes
        self._reads = reads
        self._now_ms = now_ms
        self._renewals = renewals
        self._loop = asyncio.get_running_loop()
        self._locks = NodeLocks(path)
        self._peers = Peers(self._locks, self._on_death)
        self._ours: dict[str, tuple[NodeLock, Member]] = {}
        self._changing: Counter[str] = Counter()  # nodes that are just being written or given up
        self._published: dict[str, tuple[str | None, str]] = {}  # handlers and version of nodes of this store
        self._tasks: set[asyncio.Task[None]] = set()
        self._reaping = False
        self._died = False  # somebody did, since the last look
        self._next_look: asyncio.TimerHandle | None = None  # for nodes without a lock
        self.timed = not use_locks

    # -- nodes

    async def heartbeat(self, node: str, ttl_ms: int, handlers: Collection[str] | None, version: str) -> list[str]:
        """Say that a node lives, and which handlers it has; return all that do."""
        if handlers is not None:
            self._published[node] = _encode(sorted(handlers)).decode(), version
        said = self._published.get(node, NOTHING)
        found = await self._reads.call(owning.members)
        ours = self._ours.get(node)
        there = [each for each in found if each.active and ours is not None and each.lock == ours[0].name]
        if not there and await self._enter(node, active=1):
            found = await self._reads.call(owning.members)
        elif there and (there[0].handlers, there[0].version) != said:
            await self._writes.call(lambda transaction: owning.publish(transaction, node, *said))
        if self.timed:
            found = await self._writes.call(lambda transaction: owning.beat(transaction, node, ttl_ms, *said))
        found = await self._without_dead(found)
        self._watch(found)
        return [member.node for member in found if member.active]

    async def online(self) -> list[Node]:
        """List the nodes that live and take partitions."""
        found = await self._reads.call(owning.members)
        return [
            Node(each.node, handlers_of(each), each.version) for each in found if each.active and self._is_alive(each)
        ]

    async def leave(self, node: str) -> None:
        """Let a node want nothing more."""
        ours = self._ours.get(node)
        if ours is None:
            await self._writes.call(lambda transaction: owning.forget(transaction, [node]))
        else:
            with self._change({node}):
                if await self._writes.call(lambda transaction: owning.leave(transaction, ours[1], self._locks)):
                    self._drop(node)

    async def leases(self) -> list[Lease]:
        """List the leases that are held by nodes that live."""
        now = self._now_ms()
        held, found = await self._reads.call(lambda file: owning.leases(file, now, self._renewals))
        living = {member.node for member in found if self._is_alive(member)}
        return [lease for lease in held if lease.expires_at is not None or lease.node in living]

    async def unresponsive(self) -> list[tuple[str, int | None]]:
        """Return the nodes of other processes that live and do not respond, with their pid if it is visible here."""
        found = [
            member
            for member in await self._reads.call(owning.members)
            if member.lock and not self._locks.is_ours(member) and self._locks.is_alive(member)
        ]
        asked = (asyncio.to_thread(ping, self._locks.path(member), RESPONSE_S) for member in found)
        answers = zip(found, await asyncio.gather(*asked), strict=True)
        pids = {member.node: visible_pid(member.process) for member in found}
        return [(each.node, (pids[each.node] or (None,))[0]) for each, answer in answers if answer is False]

    async def close(self) -> None:
        """Give up all nodes of this store, with what they own."""
        self._peers.close()
        self._look_again([])
        for task in list(self._tasks):
            task.cancel()
        if self._ours:
            with suppress(StoreError), self._change(set(self._ours)):
                await self._writes.call(self.give_up)
                self.drop_all()
        self.drop_all()

    def give_up(self, transaction: Transaction) -> None:
        """Forget the nodes of this store, and free what they own; on the writing thread."""
        owning.reap(transaction, list(self._ours), self._locks, lambda _: True)

    def drop_all(self) -> None:
        """Release all locks; on any thread, when nothing else uses them."""
        for node in list(self._ours):
            self._drop(node)
        self._notifier.end()

    # -- owners

    async def acquire(self, partitions: Sequence[int], node: str, ttl_ms: int) -> list[Lease]:
        """Take leases that nobody holds."""
        if node not in self._ours:
            await self._enter(node, active=0)
        if self.timed:
            return await self._writes.call(lambda transaction: owning.acquire(transaction, partitions, node, ttl_ms))
        for _ in range(ATTEMPTS_MAX):
            got = await self._writes.call(lambda transaction: self._acquire(transaction, partitions, node))
            if got is not None:
                return got
            await self._enter(node, active=1)
        raise self._unlockable()

    def _acquire(self, transaction: Transaction, partitions: Sequence[int], node: str) -> list[Lease] | None:
        lock, _ = self._ours[node]
        if all(member.lock != lock.name for member in owning.members(transaction.connection)):
            return None  # others took us for dead
        return owning.acquire(transaction, partitions, node, None)

    async def renew(self, leases: Sequence[Lease], ttl_ms: int) -> list[Lease]:
        """Hold on to leases, or see which are still held."""
        if self.timed:
            return await self._writes.call(lambda transaction: owning.renew(transaction, leases, ttl_ms))
        return await self._reads.call(lambda file: owning.still_held(file, leases, self._renewals))

    async def release(self, leases: Sequence[Lease]) -> None:
        """Give leases back."""
        with self._change({lease.node for lease in leases}):
            for node in await self._writes.call(lambda transaction: owning.release(transaction, leases, self._locks)):
                self._drop(node)

    @contextmanager
    def _change(self, nodes: set[str]) -> Iterator[None]:
        """Do not miss the lock files of nodes that are just being written or given up."""
        self._changing.update(nodes)
        try:
            yield
        finally:
            self._changing.subtract(nodes)

    # -- locks of ours

    async def _enter(self, node: str, active: int) -> bool:
        """Write a node once its lock is held; False if locks do not work here."""
        with self._change({node}):  # others delete a file that they see before it is locked: another one is made here
            for _ in range(ATTEMPTS_MAX):
                ours = self._ours.get(node)
                if ours is None or not ours[0].in_place():
                    ours = None if self.timed else self._make(node)
                if ours is None:
                    return False
                lock, member = ours
                handlers, version = self._published.get(node, NOTHING)
                wanted = replace(member, active=active, handlers=handlers, version=version)
                join = partial(owning.join, member=wanted, locks=self._locks, in_place=lock.in_place)
                if await self._writes.call(join):
                    return True
        raise self._unlockable()

    def _make(self, node: str) -> tuple[NodeLock, Member] | None:
        try:
            lock, member = self._locks.make(node)
        except OSError as error:
            if not self._ours and error.errno not in SHORTAGES:
                self.timed = True
                log.warning(UNSUPPORTED, self._path, error)
                return None
            raise self._unlockable(error) from error
        before = self._ours.get(node)
        self._ours[node] = lock, member
        self._notifier.listen(lock.path)
        if before is not None:
            self._notifier.close(before[0].path)
            before[0].close()
        return lock, member

    def _drop(self, node: str) -> None:
        self._published.pop(node, None)
        ours = self._ours.pop(node, None)
        if ours is not None:
            self._notifier.close(ours[0].path)
            ours[0].close()

    def keep_locks(self) -> None:
        """See that the locks of this store are there; on the writing thread, every second."""
        for node, (lock, _) in list(self._ours.items()):
            lock.hold()
            if self._changing[node] <= 0 and not lock.in_place():
                with suppress(RuntimeError):  # the loop is closed
                    self._loop.call_soon_threadsafe(self._replace, node)

    def _replace(self, node: str) -> None:
        if node in self._ours and self._changing[node] <= 0 and not self._ours[node][0].in_place():
            log.warning("%s: the lock file of this node was deleted; making another one", self._path)
            self._spawn(self._reenter(node))

    async def _reenter(self, node: str) -> None:
        found = await self._reads.call(owning.members)
        await self._enter(node, next((member.active for member in found if member.node == node), 1))

    def _unlockable(self, error: OSError | None = None) -> StoreUnavailable:
        reason = "" if error is None else f": {error}"
        return StoreUnavailable(
            f"{self._path}: its folder lets no lock file be made, or something deletes them (…-node-…){reason}; let "
            "this user write there, and nothing else delete them"
        )

    # -- locks of others

    def _is_alive(self, member: Member) -> bool:
        return self._locks.is_alive(member) if member.lock else self._left_ms(member) > 0

    def _left_ms(self, member: Member) -> int:
        return self._renewals.left_ms(member.node, 0, member.expires_at, member.ttl_ms)

    async def _without_dead(self, found: list[Member]) -> list[Member]:
        """Forget nodes that died, and return the others."""
        self._renewals.forget_all_but({member.node for member in found})
        alive = [member for member in found if self._is_alive(member)]
        dead = [member.node for member in found if member.lock and member not in alive]
        silent = [member.node for member in found if not member.lock and member not in alive]
        if dead:
            reaped = await self._writes.call(
                lambda transaction: owning.reap(transaction, dead, self._locks, lambda each: not self._is_alive(each))
            )
            if reaped:
                log.info("%s: taking over from nodes whose process ended: %s", self._path, ", ".join(reaped))
        if silent:
            await self._writes.call(
                lambda transaction: owning.forget(transaction, silent, lambda each: not self._is_alive(each))
            )
        self._look_again(alive)
        return alive

    def _watch(self, alive: list[Member]) -> None:
        self._peers.watch(member for member in alive if member.node not in self._ours)

    def _look_again(self, alive: list[Member]) -> None:
        """Look whether nodes without a lock were renewed when the first could be over; one without does so anyway."""
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None
        left_ms = [self._left_ms(member) for member in alive if not member.lock]
        if left_ms and not self.timed:
            self._next_look = self._loop.call_later(min(left_ms) / 1000, self._on_death)

    def _on_death(self) -> None:
        self._died = True
        if not self._reaping:
            self._reaping = True
            self._spawn(self._reap())

    async def _reap(self) -> None:
        try:
            while self._died:
                self._died = False
                self._watch(await self._without_dead(await self._reads.call(owning.members)))
        except StoreError as error:
            log.warning("%s: what a dead node owned is not free yet: %s; trying again", self._path, error)
            self._loop.call_later(AGAIN_S, self._on_death)
        finally:
            self._reaping = False

    def _spawn(self, step: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(step)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("%s: %s", self._path, error)


def handlers_of(member: Member) -> frozenset[str] | None:
    """Return the handlers of a node; None if it did not say, or what it said cannot be read."""
    if member.handlers is None:
        return None
    try:
        return frozenset(_decode(member.handlers))
    except ValueError as error:
        log.warning("the handlers of node %r cannot be read, and it is sent no tasks (%s)", member.node, error)
        return None
