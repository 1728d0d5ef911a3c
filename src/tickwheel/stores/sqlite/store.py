"""The store itself: every call goes to the writing or the reading thread, and comes back when it is done.

What is written goes through one thread and one connection, in groups: all calls that wait share a transaction, each
within a savepoint of its own, so that one that is refused takes nothing with it. A caller is answered when the
transaction is on the disk, and not before. What is read has a thread and a connection besides, and waits for no one.

Several processes may open the file: SQLite lets one write at a time, and leases say whose tasks are whose. What the
others changed is noticed a few times a second.

    store = await SqliteStore.open(Path("tasks.db"), now_ms=now_ms)
"""

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import apsw

from tickwheel.errors import StoreClosed, StoreUnavailable
from tickwheel.stores import bounds, listing, steps
from tickwheel.stores.contract import COUNT_MAX, Conflict, Due, Filter, Finish, Lease, OnConflict, Page, Total
from tickwheel.stores.hints import Hints
from tickwheel.stores.quarantine import Quarantine
from tickwheel.stores.sqlite import lists, reads
from tickwheel.stores.sqlite.connection import Database, open_database
from tickwheel.stores.sqlite.errors import translate_error
from tickwheel.stores.sqlite.forks import run_in_use
from tickwheel.stores.sqlite.groups import Reader, Writer
from tickwheel.stores.sqlite.lane import Lane
from tickwheel.stores.sqlite.schema import TASKS
from tickwheel.stores.sqlite.statements import SQL
from tickwheel.stores.sqlite.writes import PURGE_ROWS, Adds, Pen
from tickwheel.tasks.record import Run, Status, Task

__all__ = ["SqliteStore"]


class SqliteStore:
    """A store in an SQLite file, for one event loop; open it with `open`."""

    def __init__(self, database: Database, partitions: int, now_ms: Callable[[], int]) -> None:
        self.path = database.path
        self.partitions = partitions
        self._now_ms = now_ms
        self._hints = Hints()
        self._quarantine = Quarantine()
        self._database = database
        self._writer = Writer(database, partitions, now_ms)
        self._reader = Reader(database)
        self._writes: Lane[Pen] = Lane(
            "tickwheel-writer", self._writer.do, look=self._writer.look, tell=self._hints.tell
        )
        self._reads: Lane[apsw.Connection] = Lane("tickwheel-reader", self._reader.do)
        self._closed = False

    @property
    def commits(self) -> int:
        """How many transactions it has written so far."""
        return self._writer.commits

    @classmethod
    async def open(cls, path: Path, *, now_ms: Callable[[], int], partitions: int = 64) -> "SqliteStore":
        """Open a file, or make it; how many partitions it has is decided then."""

        def make_partitions(connection: apsw.Connection) -> None:
            connection.executemany(SQL["add_partition"], ((number,) for number in range(partitions)))

        database = await open_database(path, TASKS, make_partitions)
        try:
            stored = run_in_use(_count_partitions, database)
        except apsw.Error as error:
            run_in_use(database.close)
            raise translate_error(path, error) from error
        if stored < 1:
            run_in_use(database.close)
            raise StoreUnavailable(f"{path}: it has no partitions; it is damaged")
        return cls(database, stored, now_ms)

    async def close(self) -> None:
        """Do what waits, and let go of the file."""
        self._closed = True
        await self._reads.close()
        await self._writes.close()
        self._hints.close()
        run_in_use(self._database.close)  # here: at the end of a program no thread can be started any more

    async def time(self) -> int:
        """Read the clock it was given."""
        if self._closed:
            raise StoreClosed
        return self._now_ms()

    # -- anyone

    async def add(self, tasks: Sequence[Task], on_conflict: OnConflict = "reject") -> list[Conflict]:
        """Add tasks, all of them or none; they are on the disk when this returns."""
        bounds.check_on_conflict(on_conflict)
        bounds.check_new(tasks, self.partitions)
        bodies = [bounds.encode(task) for task in tasks]
        return await self._writes.call(Adds(tasks, bodies, on_conflict), len(tasks))

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        """Return tasks by id."""
        bounds.check_batch(ids)
        return await self._reads.call(lambda file: reads.get(file, ids))

    async def query(self, wanted: Filter, cursor: str | None = None, limit: int = 100) -> Page:
        """List tasks, newest first unless told."""
        bounds.check_limit(limit)
        listing.check_filter(wanted)
        after = listing.place_of(cursor, wanted.order)
        return await self._reads.call(lambda file: lists.query(file, wanted, after, limit))

    async def count(self, wanted: Filter, most: int = COUNT_MAX) -> Total:
        """Count tasks, looking at so many at most."""
        bounds.check_limit(most, bounds.COUNT_ROWS_MAX)
        listing.check_filter(wanted)
        return await self._reads.call(lambda file: lists.count(file, wanted, most))

    async def counts(self) -> dict[Status, int]:
        """Return how many tasks there are of each status."""
        return await self._reads.call(reads.counts)

    async def history(self, task_id: str, limit: int = 100) -> list[Run]:
        """Return the runs of a task, latest first."""
        bounds.check_limit(limit)
        return await self._reads.call(lambda file: reads.history(file, task_id, limit))

    async def cancel(self, ids: Sequence[str], reason: str) -> list[Task | None]:
        """Cancel tasks, or ask them to stop."""
        bounds.check_batch(ids)
        return await self._writes.call(lambda pen: pen.cancel(ids, reason), len(ids))

    async def reschedule(self, task_id: str, run_at: int) -> Task:
        """Move a task."""
        bounds.check_moment(run_at)
        return await self._writes.call(lambda pen: pen.reschedule(task_id, run_at))

    async def amend(self, tasks: Sequence[Task]) -> list[Task]:
        """Put tasks in the place of those they were made from."""
        bounds.check_amended(tasks)
        return await self._writes.call(lambda pen: pen.amend(tasks), len(tasks))

    async def remove(self, ids: Sequence[str]) -> list[Task | None]:
        """Delete tasks that do not run."""
        bounds.check_batch(ids)
        return await self._writes.call(lambda pen: pen.remove(ids), len(ids))

    async def pause(self, ids: Sequence[str]) -> list[Task | None]:
        """Keep pending tasks from coming due."""
        bounds.check_batch(ids)
        return await self._writes.call(lambda pen: pen.each(ids, steps.pause), len(ids))

    async def resume(self, ids: Sequence[str]) -> list[Task | None]:
        """Let paused tasks come due again."""
        bounds.check_batch(ids)
        return await self._writes.call(lambda pen: pen.each(ids, steps.resume), len(ids))

    async def revive(self, ids: Sequence[str], run_at: int) -> list[Task | None]:
        """Begin tasks that are over once more."""
        bounds.check_batch(ids)
        bounds.check_moment(run_at)
        return await self._writes.call(lambda pen: pen.each(ids, lambda task: steps.revive(task, run_at)), len(ids))

    async def purge(self, before: int) -> int:
        """Delete what was over before a moment, some at a time."""
        purged, rows = 0, PURGE_ROWS
        while rows == PURGE_ROWS:
            tasks, rows = await self._writes.call(lambda pen: pen.purge(before), PURGE_ROWS)
            purged += tasks
        return purged

    # -- nodes

    async def heartbeat(self, node: str, ttl_ms: int) -> list[str]:
        """Say that a node lives."""
        return await self._writes.call(lambda pen: pen.heartbeat(node, ttl_ms))

    async def leave(self, node: str) -> None:
        """Say that a node lives no more."""
        await self._writes.call(lambda pen: pen.leave(node))

    async def leases(self) -> list[Lease]:
        """List the leases that are held now."""
        return await self._reads.call(lambda file: reads.leases(file, self._now_ms()))

    # -- owners

    async def acquire(self, partitions: Sequence[int], node: str, ttl_ms: int) -> list[Lease]:
        """Take leases that nobody holds."""
        return await self._writes.call(lambda pen: pen.acquire(partitions, node, ttl_ms))

    async def renew(self, leases: Sequence[Lease], ttl_ms: int) -> list[Lease]:
        """Hold on to leases."""
        return await self._writes.call(lambda pen: pen.renew(leases, ttl_ms))

    async def release(self, leases: Sequence[Lease]) -> None:
        """Give leases back."""
        await self._writes.call(lambda pen: pen.release(leases))

    async def due(self, leases: Sequence[Lease], until: int, after: tuple[int, str] | None, limit: int) -> list[Due]:
        """List what comes due, by run_at and id."""
        bounds.check_limit(limit)
        return await self._reads.call(lambda file: reads.due(file, leases, self._now_ms(), until, after, limit))

    async def claim(self, leases: Sequence[Lease], ids: Sequence[str], until: int) -> list[Task]:
        """Make pending tasks running."""
        bounds.check_batch(ids)
        claimed, passed = await self._writes.call(lambda pen: pen.claim(leases, ids, until), len(ids))
        self._quarantine.report(passed)
        return claimed

    async def finish(self, finishes: Sequence[Finish]) -> list[bool]:
        """Put finished tasks back."""
        bounds.check_finishes(finishes)
        now = self._now_ms()
        after = [steps.finish(finish.task, finish.task, now) for finish in finishes]
        bodies = [bounds.encode(task) for task in after]
        return await self._writes.call(lambda pen: pen.finish(finishes, after, bodies), len(finishes))

    async def orphans(self, leases: Sequence[Lease], limit: int) -> list[Task]:
        """List running tasks that were claimed under an earlier lease."""
        bounds.check_limit(limit)
        found, passed = await self._reads.call(lambda file: reads.orphans(file, leases, self._now_ms(), limit))
        self._quarantine.report(passed)
        return found

    async def checkpoint(self, leases: Sequence[Lease], moment: int) -> None:
        """Note how far owned partitions are."""
        bounds.check_moment(moment)
        await self._writes.call(lambda pen: pen.checkpoint(leases, moment))

    def changes(self, partitions: Sequence[int]) -> AsyncIterator[set[int]]:
        """Tell in which partitions something changes from now on; what other processes change may be anywhere."""
        self._writes.look_around()
        return self._hints.watch(partitions)


def _count_partitions(database: Database) -> int:
    count: int = database.reader.execute(SQL["count_partitions"]).get
    return count
