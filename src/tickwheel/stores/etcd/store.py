"""The store itself: every call reads what it needs, decides by the rules of all stores, and writes if nothing changed.

    anyone      one transaction, whatever the size of the batch up to a megabyte or 95 tasks that are there already;
                beyond that, a large batch: see batches.py
    owners      claims and finishes in several transactions side by side, each fenced by the keys of the owners
    hints       a watch

Leases are counted down by etcd. When a task is due is told by the clocks of its members: see clock.py.

    store = await EtcdStore.open("etcd://a.example:2379,b.example:2379,c.example:2379/shop")
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from tickwheel.stores import listing, validation
from tickwheel.stores.contract import (
    COUNT_MAX,
    Change,
    Conflict,
    Due,
    Filter,
    Finish,
    Lease,
    OnConflict,
    Page,
    Rest,
    Total,
)
from tickwheel.stores.etcd import changing, lists, opening, owning, reading
from tickwheel.stores.etcd.adding import GROUP_TASKS_MAX, Additions
from tickwheel.stores.etcd.address import Address
from tickwheel.stores.etcd.claiming import Claims
from tickwheel.stores.etcd.clock import MembersClock
from tickwheel.stores.etcd.hearing import Wire
from tickwheel.stores.etcd.keys import Keys
from tickwheel.stores.etcd.meeting import Nodes
from tickwheel.stores.etcd.members import Members
from tickwheel.stores.etcd.tenure import ClockTenure, EtcdTenure, Tenure
from tickwheel.stores.etcd.writing import Ground
from tickwheel.stores.grouping import Adder
from tickwheel.stores.mutations import Mutations, check_added
from tickwheel.tasks.record import Run, Status, Task

__all__ = ["EtcdStore"]


class EtcdStore(Mutations):
    """A store below a prefix of an etcd cluster, for one event loop; open it with `open`."""

    timed_leases = True
    finish_by_epoch = False

    def __init__(self, ground: Ground, tenure: Tenure, clock: MembersClock | Callable[[], int]) -> None:
        self.partitions = ground.partitions
        self._ground = ground
        self._tenure = tenure
        self._clock = clock
        self._wire = Wire(ground)
        additions = Additions(ground)
        # Nobody has to be told: who listens to the cluster hears of every write.
        self._adder = Adder(additions.add_all, additions.settle, None, GROUP_TASKS_MAX)
        self._claims = Claims(ground, tenure)
        self._nodes = Nodes(ground, tenure)

    @classmethod
    async def open(cls, url: str, *, now_ms: Callable[[], int] | None = None, partitions: int = 64) -> "EtcdStore":
        """Open a store, and begin it if there is none; how many partitions there are is decided then.

        A clock is for tests: without one leases are etcd's, and the time is that of its members.
        """
        address = Address.of(url)
        keys, members, clock = Keys(address.prefix), Members(address), MembersClock(address)
        try:
            ground = Ground(keys, members, await opening.prepare(keys, members, partitions))
            if now_ms is not None:
                return cls(ground, ClockTenure(keys, members, now_ms), now_ms)
            await clock.start()
        except BaseException:
            await members.close()
            raise
        return cls(ground, EtcdTenure(members, clock.now_ms), clock)

    async def close(self) -> None:
        """Do what waits, and let go of the cluster."""
        await self._adder.close()
        await self._wire.close()
        if isinstance(self._clock, MembersClock):
            await self._clock.close()
        await self._ground.members.close()

    async def time(self) -> int:
        """Tell the time by the members, or by the clock it was given."""
        self._ground.members.check()
        if not isinstance(self._clock, MembersClock):
            return self._clock()
        await self._clock.settle()
        return self._clock.now_ms()

    # -- anyone

    async def add(self, tasks: Sequence[Task], on_conflict: OnConflict = "reject") -> list[Conflict]:
        """Add tasks, all of them or none; most members have written them when this returns."""
        check_added(tasks, self.partitions, on_conflict)
        return await self._adder.add(tasks, on_conflict)

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        """Return tasks by id."""
        validation.check_batch(ids)
        self._ground.members.check()
        return await reading.get(self._ground, ids)

    async def query(self, wanted: Filter, cursor: str | None = None, limit: int = 100) -> Page:
        """List tasks, newest first by default."""
        validation.check_limit(limit)
        listing.check_filter(wanted)
        return await lists.query(self._ground, wanted, listing.place_of(cursor, wanted.order), limit)

    async def count(self, wanted: Filter, most: int = COUNT_MAX) -> Total:
        """Count tasks, looking at so many at most."""
        validation.check_limit(most, validation.COUNT_ROWS_MAX)
        listing.check_filter(wanted)
        return await lists.count(self._ground, wanted, most)

    async def counts(self) -> dict[Status, int]:
        """Return how many tasks there are of each status."""
        return await reading.counts(self._ground)

    async def history(self, task_id: str, limit: int = 100) -> list[Run]:
        """Return the runs of a task, latest first."""
        validation.check_limit(limit)
        return await reading.history(self._ground, task_id, limit)

    async def amend(self, tasks: Sequence[Task]) -> list[Task]:
        """Put tasks in the place of those they were made from."""
        validation.check_amended(tasks)
        return await changing.amend(self._ground, tasks, await self.time())

    async def remove(self, ids: Sequence[str]) -> list[Task | None]:
        """Delete tasks that do not run."""
        validation.check_batch(ids)
        return await changing.remove(self._ground, ids)

    async def purge(self, before: int, rest: Rest | None = None) -> int:
        """Delete what was over before a moment, some at a time."""
        return await changing.purge(self._ground, before, rest)

    async def _each(self, ids: Sequence[str], step: Callable[[Task], Task]) -> list[Task | None]:
        validation.check_batch(ids)
        return await changing.change_each(self._ground, ids, step)

    # -- nodes

    async def heartbeat(self, node: str, ttl_ms: int) -> list[str]:
        """Say that a node lives."""
        return await self._nodes.heartbeat(node, ttl_ms)

    async def leave(self, node: str) -> None:
        """Say that a node lives no more."""
        await self._nodes.leave(node)

    async def leases(self) -> list[Lease]:
        """List the leases that are held now."""
        return await owning.leases(self._ground, self._tenure)

    # -- owners

    async def acquire(self, partitions: Sequence[int], node: str, ttl_ms: int) -> list[Lease]:
        """Take leases that nobody holds."""
        return await owning.acquire(self._ground, self._tenure, partitions, node, ttl_ms)

    async def renew(self, leases: Sequence[Lease], ttl_ms: int) -> list[Lease]:
        """Hold on to leases."""
        return await owning.renew(self._ground, self._tenure, leases, ttl_ms)

    async def release(self, leases: Sequence[Lease]) -> None:
        """Give leases back."""
        await owning.release(self._ground, self._tenure, leases)

    async def due(self, leases: Sequence[Lease], until: int, after: tuple[int, str] | None, limit: int) -> list[Due]:
        """List what comes due, by run_at and id."""
        validation.check_limit(limit)
        # What was decided and never carried out may be due as well.
        settled = self._ground.batches.settled()
        held, _ = await asyncio.gather(owning.held(self._ground, self._tenure, leases), settled)
        return await reading.due(self._ground, held, until, after, limit)

    async def claim(self, leases: Sequence[Lease], ids: Sequence[str], until: int) -> list[Task]:
        """Make pending tasks running."""
        validation.check_batch(ids)
        return await self._claims.claim(leases, ids, until)

    async def finish(self, finishes: Sequence[Finish]) -> list[bool]:
        """Put finished tasks back."""
        validation.check_finishes(finishes)
        return await self._claims.finish(finishes, await self.time())

    async def orphans(self, leases: Sequence[Lease], limit: int) -> list[Task]:
        """List running tasks that were claimed under an earlier lease."""
        validation.check_limit(limit)
        return await reading.orphans(self._ground, await owning.held(self._ground, self._tenure, leases), limit)

    async def checkpoint(self, leases: Sequence[Lease], moment: int) -> None:
        """Note how far owned partitions are."""
        validation.check_moment(moment)
        await owning.checkpoint(self._ground, self._tenure, leases, moment)

    def changes(self, partitions: Sequence[int]) -> AsyncIterator[dict[int, Change]]:
        """Tell in which partitions something changes from now on, by this process or another."""
        return self._wire.watch(partitions)

    def running_changes(self) -> Mapping[int, int]:
        """Count nothing: what is heard is that something changed in a partition, and not what."""
        return {}
