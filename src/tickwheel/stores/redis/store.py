"""The store itself: every call is a script or two, each of which runs alone on its server.

    adding      groups that share a script          claims, finishes      one script each, fenced by leases
    changing    read, changed, and put back if      hints                 connections apart
                nobody changed it meanwhile

Leases end by the server's clock, so that the clocks of the nodes need not agree about that.

    store = await RedisStore.open("redis://db.example")
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
from tickwheel.stores.mutations import Mutations, check_added
from tickwheel.stores.quarantine import Quarantine
from tickwheel.stores.redis import changing, lists, opening, owning, reading
from tickwheel.stores.redis.adding import adder
from tickwheel.stores.redis.address import Address
from tickwheel.stores.redis.hearing import dialling
from tickwheel.stores.redis.keys import META
from tickwheel.stores.redis.shards import Shards
from tickwheel.stores.wire import Wire
from tickwheel.tasks.record import Run, Status, Task

__all__ = ["RedisStore"]


class RedisStore(Mutations):
    """A store on Redis, for one event loop; open it with `open`."""

    timed_leases = True
    finish_by_epoch = False

    def __init__(self, shards: Shards, now_ms: Callable[[], int] | None) -> None:
        self.partitions = shards.partitions
        self._shards = shards
        self._now_ms = now_ms
        self._wire = Wire(dialling(shards.address, shards.servers.place), shards.partitions, cheap=True)
        self._adder = adder(shards, self._wire)
        shards.dropped = self._wire.tell  # an owner may have passed it by meanwhile
        self._quarantine = Quarantine()
        self._claiming = asyncio.Lock()  # who asks first, claims first

    @classmethod
    async def open(cls, url: str, *, now_ms: Callable[[], int] | None = None, partitions: int = 64) -> "RedisStore":
        """Open a store, and make it if there is none; how many partitions there are is decided then.

        A clock is for tests: without one the server's own is used.
        """
        return cls(await opening.prepare(Address.of(url), partitions, now_ms), now_ms)

    async def close(self) -> None:
        """Do what waits, and let go of the server."""
        await self._adder.close()
        await self._wire.close()
        await self._shards.close()

    async def time(self) -> int:
        """Read the server's clock, or the one it was given."""
        self._shards.check()
        if self._now_ms is not None:
            return self._now_ms()
        return int(await self._shards.ask_one("time", META, 0))

    # -- anyone

    async def add(self, tasks: Sequence[Task], on_conflict: OnConflict = "reject") -> list[Conflict]:
        """Add tasks, all of them or none; they are as durable as the servers are told to be when this returns."""
        check_added(tasks, self.partitions, on_conflict)
        return await self._adder.add(tasks, on_conflict)

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        """Return tasks by id."""
        validation.check_batch(ids)
        return await reading.get(self._shards, ids)

    async def query(self, wanted: Filter, cursor: str | None = None, limit: int = 100) -> Page:
        """List tasks, newest first by default."""
        validation.check_limit(limit)
        listing.check_filter(wanted)
        after = listing.place_of(cursor, wanted.order)
        return await lists.query(self._shards, wanted, after, limit)

    async def count(self, wanted: Filter, most: int = COUNT_MAX) -> Total:
        """Count tasks, looking at so many at most."""
        validation.check_limit(most, validation.COUNT_ROWS_MAX)
        listing.check_filter(wanted)
        return await lists.count(self._shards, wanted, most)

    async def counts(self) -> dict[Status, int]:
        """Return how many tasks there are of each status."""
        return await reading.counts(self._shards)

    async def history(self, task_id: str, limit: int = 100) -> list[Run]:
        """Return the runs of a task, latest first."""
        validation.check_limit(limit)
        return await reading.history(self._shards, task_id, limit)

    async def amend(self, tasks: Sequence[Task]) -> list[Task]:
        """Put tasks in the place of those they were made from."""
        validation.check_amended(tasks)
        spell = self._wire.carried()
        amended = await changing.amend(self._shards, tasks, await self.time(), spell)
        self._wire.tell({task.partition for task in amended}, carried=spell is not None)
        return amended

    async def remove(self, ids: Sequence[str]) -> list[Task | None]:
        """Delete tasks that do not run."""
        validation.check_batch(ids)
        spell = self._wire.carried()
        answers = await changing.remove(self._shards, ids, spell)
        self._wire.tell({task.partition for task in answers if task is not None}, carried=spell is not None)
        return answers

    async def purge(self, before: int, rest: Rest | None = None) -> int:
        """Delete what was over before a moment, some at a time."""
        return await changing.purge(self._shards, before, rest)

    async def _each(self, ids: Sequence[str], step: Callable[[Task], Task]) -> list[Task | None]:
        validation.check_batch(ids)
        spell = self._wire.carried()
        answers = await changing.change_each(self._shards, ids, step, spell)
        self._wire.tell({task.partition for task in answers if task is not None}, carried=spell is not None)
        return answers

    # -- nodes

    async def heartbeat(self, node: str, ttl_ms: int) -> list[str]:
        """Say that a node lives."""
        return sorted(each.decode() for each in await self._shards.ask_one("heartbeat", META, (node, ttl_ms)))

    async def leave(self, node: str) -> None:
        """Say that a node lives no more."""
        await self._shards.ask_one("heartbeat", META, (node, 0))

    async def leases(self) -> list[Lease]:
        """List the leases that are held now."""
        return await reading.leases(self._shards)

    # -- owners

    async def acquire(self, partitions: Sequence[int], node: str, ttl_ms: int) -> list[Lease]:
        """Take leases that nobody holds."""
        return await owning.acquire(self._shards, partitions, node, ttl_ms)

    async def renew(self, leases: Sequence[Lease], ttl_ms: int) -> list[Lease]:
        """Hold on to leases."""
        return await owning.renew(self._shards, leases, ttl_ms)

    async def release(self, leases: Sequence[Lease]) -> None:
        """Give leases back."""
        self._wire.tell(await owning.release(self._shards, leases))

    async def due(self, leases: Sequence[Lease], until: int, after: tuple[int, str] | None, limit: int) -> list[Due]:
        """List what comes due, by run_at and id."""
        validation.check_limit(limit)
        return await reading.due(self._shards, leases, until, after, limit)

    async def claim(self, leases: Sequence[Lease], ids: Sequence[str], until: int) -> list[Task]:
        """Make pending tasks running."""
        validation.check_batch(ids)
        async with self._claiming:
            claimed, passed = await owning.claim(self._shards, leases, ids, until)
        self._quarantine.report(passed)
        return claimed

    async def finish(self, finishes: Sequence[Finish]) -> list[bool]:
        """Put finished tasks back."""
        validation.check_finishes(finishes)
        if not finishes:
            return []
        return await owning.finish(self._shards, finishes, self.time)

    async def orphans(self, leases: Sequence[Lease], limit: int) -> list[Task]:
        """List running tasks that were claimed under an earlier lease."""
        validation.check_limit(limit)
        found, passed = await reading.orphans(self._shards, leases, limit)
        self._quarantine.report(passed)
        return found

    async def checkpoint(self, leases: Sequence[Lease], moment: int) -> None:
        """Note how far owned partitions are."""
        validation.check_moment(moment)
        await owning.checkpoint(self._shards, leases, moment)

    def changes(self, partitions: Sequence[int]) -> AsyncIterator[dict[int, Change]]:
        """Tell in which partitions something changes from now on, by this process or another."""
        return self._wire.watch(partitions)

    def running_changes(self) -> Mapping[int, int]:
        """Count nothing: what is heard is that something changed in a partition, and not what."""
        return {}
