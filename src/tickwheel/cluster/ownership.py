"""The partitions this node owns, how long it may count on that, and how it comes by its share of them.

    renew sent             answer                 stop by our own clock     lease ends by the store's
    |----------------------|----------------------|-------------------------|
    0                                             ttl - margin              ttl

The end is counted from before the call: however long the answer took, we stop before anyone else may begin. That
is for order; what keeps a late writer from doing harm is the fencing token in every write.

A round is a heartbeat, a renewal of all leases, and a look at who holds what. Then a node that has less than its share
takes what is free, and one that has more lets go of the rest:

    free --take--> kept --let go--> leaving --nothing of it runs any more--> given back, and free
                     ^                 |
                     +-----------------+ something of it still runs after two seconds

What is leaving is renewed as long as something of it runs here, but nothing more is begun in it. Where that would take
long it is kept, and tried again later: what is due there does not wait for the longest run. The next round comes after
a third of a lease, or as soon as something is free: when it was given back, or when its lease ends.

Some stores know by themselves which nodes are alive (`timed_leases` is False). Their leases hold until the node dies:
nothing is renewed, and a round asks the store for nothing unless it told that nodes came or went.
"""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from functools import cache
from importlib import metadata
from typing import Final, cast

from tickwheel.clock import Clock, boottime_of
from tickwheel.cluster.assignment import fair, to_give_back, to_take
from tickwheel.stores.contract import MEMBERS, Change, Lease, RoutesTasks, Store

__all__ = ["Ownership"]

MARGIN: Final = 0.25  # the share of a lease that is left unused, for clocks that do not run alike
ROUNDS: Final = 3  # in the time of a lease: one may fail
LOOK_S: Final = 0.1  # between two looks for free partitions, at the least
DRAIN_NS: Final = 2 * 10**9  # for the runs in a partition to end, while nothing begins there and others wait for it
STAY_NS: Final = 10 * 10**9  # and then before that is tried again, if they did not
UNTIMED_NS: Final = 30 * 10**9  # between two full rounds where leases are not timed: in case nobody told of a change


class Ownership:
    """The leases of one node; `lost` is told of partitions that we keep no more, or only under another lease."""

    def __init__(
        self,
        store: Store,
        node: str,
        clock: Clock,
        ttl_ms: int,
        lost: Callable[[Collection[int]], None],
        handlers: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._store = store
        self._routes = hasattr(store, "move")
        self._handlers = handlers  # that this node has, to be published
        self._node = node
        self._clock = clock
        self._boottime_ns = boottime_of(clock)
        self._ttl_ms = ttl_ms
        self._tell_lost = lost
        self._leases: dict[int, Lease] = {}
        self._last: dict[int, Lease] = {}  # of each partition that was ours, also when it is not any more
        self._safe_until_ns = 0
        self._next_round_ns = 0
        self._new: set[int] = set()  # nobody has looked yet what is in them
        self._leaving: dict[int, float] = {}  # until when their runs may end, by the monotonic clock
        self._busy_until_ns: dict[int, int] = {}  # those whose runs did not: when they may be tried again
        self._others: dict[int, tuple[Lease, int]] = {}  # the leases of others when we looked last, with their end
        self._lived: set[str] = set()  # the nodes, then
        self._full_round_ns = 0  # when the next one is due where leases are not timed
        self.moves: Counter[str] = Counter()  # how partitions came to us, and left
        self._retiring = False
        self._woken = asyncio.Event()
        self._changes: AsyncIterator[dict[int, Change]] | None = None  # since the first round
        self._taking = asyncio.Lock()

    @property
    def node(self) -> str:
        """The name of this node."""
        return self._node

    # -- what is ours

    def leases(self) -> list[Lease]:
        """Return what is ours to begin work in: nothing, if the leases could not be renewed in time."""
        return self.kept() if self.lease_valid else []

    def kept(self) -> list[Lease]:
        """Return what is ours and not about to leave, in time or not: to read by, for it may be renewed yet."""
        return [lease for partition, lease in self._leases.items() if partition not in self._leaving]

    @property
    def lease_valid(self) -> bool:
        """Whether what is ours is still ours for certain: it was renewed in time."""
        if not self._store.timed_leases:
            return bool(self._leases)
        return self._boottime_ns() < self._safe_until_ns

    def covers(self, partition: int, epoch: int) -> bool:
        """Tell, on any thread, whether the lease of a partition under an epoch is still ours for certain."""
        lease = self._leases.get(partition)
        if lease is None or lease.epoch != epoch:
            return False
        return lease.expires_at is None or self._boottime_ns() < self._safe_until_ns

    def last(self, partition: int) -> Lease | None:
        """Return the last lease of a partition, also if it was lost: what ran under it may be finished by it."""
        return self._last.get(partition)

    def of(self, partition: int) -> Lease | None:
        """Return the lease of a partition, in time or not, leaving or not: the store is the judge of that."""
        return self._leases.get(partition)

    def keeps(self, partition: int) -> bool:
        """Tell whether a partition is ours, and not about to leave."""
        return partition in self._leases and partition not in self._leaving

    def had_last(self, partition: int) -> bool:
        """Tell whether a partition is ours, or was and nobody else was seen to have it since."""
        return partition in self._last and partition not in self._others

    @property
    def leaving(self) -> bool:
        """Whether there is something to be given back."""
        return bool(self._leaving)

    def new(self) -> list[Lease]:
        """Return the leases of partitions that nobody has looked through yet."""
        return [self._leases[partition] for partition in sorted(self._new)]

    def mark_recovered(self, leases: Collection[Lease]) -> None:
        """Note that it is known what is in some partitions, unless they are ours by another lease now."""
        known = {(lease.partition, lease.epoch) for lease in leases}
        self._new -= {partition for partition in self._new if (partition, self._leases[partition].epoch) in known}

    # -- a round

    async def take(self, busy: Collection[int] = ()) -> bool:
        """Hold on to what we have, and come nearer to our share; of what is too much, busy partitions go last.

        Return whether the store was asked: nodes may have changed then.
        """
        async with self._taking:
            begun_ns = self._clock.monotonic_ns()
            if not self._woken.is_set() and begun_ns < self._full_round_ns:
                self._next_round_ns = begun_ns + self._ttl_ms * 1_000_000 // ROUNDS
                return False
            self._woken.clear()
            self._full_round_ns = 0  # unless this one succeeds
            asked_ns = self._boottime_ns()  # a lease goes on to run out while the machine is suspended
            # Alive before the leases, and so dead before them: once they are free, nobody leaves them to the dead.
            living = await self._live()
            if self._changes is None:  # before we look at who owns what, so that nothing comes in between
                self._changes = self._store.changes(
                    range(self._store.partitions) if self._store.timed_leases else [MEMBERS]
                )
            kept = await self._store.renew(list(self._leases.values()), self._ttl_ms) if self._leases else []
            lost = self._leases.keys() - {lease.partition for lease in kept}
            self.moves["lost"] += len(lost)
            self._drop(lost)
            self._leases = {lease.partition: lease for lease in kept}
            self._safe_until_ns = asked_ns + int(self._ttl_ms * (1.0 - MARGIN) * 1_000_000)
            alone = living == [self._node] and len(self._leases) == self._store.partitions
            others_end_ns = await self._share(living, busy) if living and not alone else None
            self._lived = set(living)
            self._next_round_ns = begun_ns + self._ttl_ms * 1_000_000 // ROUNDS
            if not self._store.timed_leases:
                self._full_round_ns = begun_ns + UNTIMED_NS
            if others_end_ns is not None:
                self._next_round_ns = min(self._next_round_ns, others_end_ns)
                self._full_round_ns = min(self._full_round_ns, others_end_ns)  # some are timed, on a file of both kinds
            return True

    async def _live(self) -> list[str]:
        """Say that we live, and return who does; nobody, for our purposes, once we go."""
        if not self._retiring and self._routes:
            store = cast("RoutesTasks", self._store)
            return await store.heartbeat(self._node, self._ttl_ms, self._handlers(), version())
        if not self._retiring:
            return await self._store.heartbeat(self._node, self._ttl_ms)
        await self._store.leave(self._node)
        return []

    async def _share(self, living: list[str], busy: Collection[int]) -> int | None:
        """Let go of what is too much, take what is free; return when the first of others' leases ends, by our clock."""
        held = await self._store.leases()
        owners = {lease.partition: lease.node for lease in held}
        partitions = self._store.partitions
        share = fair(partitions, living, owners)[self._node]
        self._offer(to_give_back(self._leases.keys() - self._leaving.keys(), share, busy), busy)
        wanted = to_take(self._node, partitions, living, owners)
        taken = await self._store.acquire(wanted, self._node, self._ttl_ms) if wanted else []
        self._leases.update((lease.partition, lease) for lease in taken)
        self._last.update((lease.partition, lease) for lease in taken)
        self._new.update(lease.partition for lease in taken)
        self.moves.update(self._how(lease.partition, living) for lease in taken)
        others = [lease for lease in held if lease.partition not in self._leases]
        asked_ns = self._boottime_ns()  # by which their ends are remembered: the store's clock may be set meanwhile
        now = await self._store.time() if others else 0
        left_ns = {
            lease.partition: max(lease.expires_at - now, 1) * 1_000_000
            for lease in others
            if lease.expires_at is not None
        }
        self._others = {lease.partition: (lease, asked_ns + left_ns.get(lease.partition, 0)) for lease in others}
        return self._clock.monotonic_ns() + min(left_ns.values()) if left_ns else None

    def _how(self, partition: int, living: list[str]) -> str:
        """Say how a partition came to us, given its last lease of another node as far as we saw."""
        if partition not in self._others:
            return "free"
        seen, end_ns = self._others[partition]
        if seen.expires_at is not None:
            # Free before its end: it was given back.
            return "handed_over" if self._boottime_ns() < end_ns else "taken_over"
        # Who leaves in order is seen without wanting partitions before it is gone.
        return "taken_over" if seen.node in self._lived and seen.node not in living else "handed_over"

    def publish(self) -> None:
        """Have the next round now: this node has other handlers."""
        self._woken.set()

    async def watch(self) -> None:
        """Have the next round as soon as a partition is free, or nodes came or went, as far as that is told."""
        if self._changes is None:
            self._woken.set()  # the next round begins to listen
            await asyncio.sleep(LOOK_S)
            return
        try:
            async for _ in self._changes:
                if await self._may_want():
                    self._woken.set()
                await asyncio.sleep(LOOK_S)
        finally:
            self._changes = None

    async def _may_want(self) -> bool:
        """Tell whether a change calls for a round."""
        if not self._store.timed_leases:
            return True
        # Most of what is told is about tasks; and one that has all partitions knows without asking.
        wants = len(self._leases) < self._store.partitions and not self._retiring
        return wants and len(await self._store.leases()) < self._store.partitions

    async def rest(self, most_s: float | None = None) -> bool:
        """Wait for the next round, or only for so long; return whether it is time for it."""
        left_s = (self._next_round_ns - self._clock.monotonic_ns()) / 1e9
        try:
            async with asyncio.timeout(max(left_s, 0) if most_s is None else min(max(left_s, 0), most_s)):
                await self._woken.wait()
        except TimeoutError:
            return most_s is None or left_s <= most_s
        return True

    # -- giving back

    def release_all(self) -> None:
        """Begin nothing more under the leases that we have; it may well be that we take the partitions again."""
        self._release(self._leases, math.inf)

    async def retire(self) -> None:
        """Let go of everything, and take nothing any more."""
        self._retiring = True
        async with self._taking:  # broken off, it might leave us leases that we do not know of
            self.release_all()
        self._woken.set()

    async def give_back(self, busy: Collection[int] = (), occupied: Collection[int] = ()) -> None:
        """Let others have what is leaving, but for what is busy, at once; what is occupied for too long stays ours."""
        self._keep(occupied)
        idle = self.idle(busy)
        if idle:
            await self._store.release(idle)
            self.moves["given_back"] += len(idle)
        for lease in idle:
            del self._leases[lease.partition]
        self._drop([lease.partition for lease in idle])

    def idle(self, busy: Collection[int]) -> list[Lease]:
        """Return what is leaving and can go at once."""
        return [self._leases[partition] for partition in self._leaving if partition not in busy]

    async def leave(self) -> None:
        """Let others have everything, at once."""
        await self.retire()
        await self.give_back()
        await self._store.leave(self._node)

    def _offer(self, partitions: Iterable[int], busy: Collection[int]) -> None:
        """Begin nothing more in partitions that others shall have, and give their runs some time to end."""
        now_ns = self._clock.monotonic_ns()
        tried = {partition for partition in busy if now_ns < self._busy_until_ns.get(partition, 0)}
        self._release(set(partitions) - tried, now_ns + DRAIN_NS)

    def _keep(self, occupied: Collection[int]) -> None:
        """Stay with what has been leaving for long and has something running: others that are due there wait."""
        now_ns = self._clock.monotonic_ns()
        kept = [partition for partition, until in self._leaving.items() if until <= now_ns and partition in occupied]
        for partition in kept:
            del self._leaving[partition]
            self._busy_until_ns[partition] = now_ns + STAY_NS
        self._new.update(kept)

    def _release(self, partitions: Iterable[int], runs_end: float = 0) -> None:
        asked = set(partitions)
        going = asked - self._leaving.keys()
        for partition in asked:
            self._leaving[partition] = max(runs_end, self._leaving.get(partition, 0))
        self._new -= asked
        if going:
            self._tell_lost(going)

    def _drop(self, partitions: Collection[int]) -> None:
        """Note what is not ours any more."""
        self._release(partitions)
        for partition in partitions:
            self._leaving.pop(partition, None)
            self._busy_until_ns.pop(partition, None)


@cache
def version() -> str:
    """Return the version of tickwheel; "" if it is not installed as a package."""
    try:
        return metadata.version("tickwheel")
    except metadata.PackageNotFoundError:
        return ""
