"""The store itself: every call goes to the writing or the reading thread, and comes back when it is done.

What is written goes through one thread and one connection, in groups: all calls that wait share a transaction, each
within a savepoint of its own, so that one that is refused takes nothing with it. A caller is answered when the
transaction is on the disk, and not before. What is read has a thread and a connection besides, and waits for no one.

Several processes may open the file: SQLite lets one write at a time, and leases say whose tasks are whose. A node owns
its partitions until it releases them or its process ends (node_locks.py, leases.py). What the others change they tell
(notifier.py).

    store = await SqliteStore.open(Path("tasks.db"), now_ms=now_ms)
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import apsw

from tickwheel.clock import SystemClock
from tickwheel.errors import StoreClosed, StoreUnavailable
from tickwheel.stores import listing, validation
from tickwheel.stores.contract import (
    COUNT_MAX,
    MEMBERS,
    Change,
    ClockStep,
    Conflict,
    Due,
    Filter,
    Finish,
    Lease,
    Node,
    OnConflict,
    Page,
    Rank,
    Rest,
    Total,
)
from tickwheel.stores.mutations import check_added, check_move, step_for
from tickwheel.stores.notifications import News, Notifications
from tickwheel.stores.quarantine import Quarantine
from tickwheel.stores.sqlite import leases as owning
from tickwheel.stores.sqlite import lists, reads
from tickwheel.stores.sqlite.connection import Database, open_database
from tickwheel.stores.sqlite.connection_thread import Call, ConnectionThread
from tickwheel.stores.sqlite.errors import translate_error
from tickwheel.stores.sqlite.forks import run_in_use
from tickwheel.stores.sqlite.group_commit import Reader, Writer
from tickwheel.stores.sqlite.nodes import Nodes
from tickwheel.stores.sqlite.notifier import Notifier
from tickwheel.stores.sqlite.renewals import Renewals
from tickwheel.stores.sqlite.schema import TASKS
from tickwheel.stores.sqlite.statements import SQL
from tickwheel.stores.sqlite.writes import PURGE_ROWS, Adds, Transaction
from tickwheel.tasks import transitions
from tickwheel.tasks.fields import MOMENT_MAX
from tickwheel.tasks.record import Run, Status, Task

__all__ = ["SqliteStore"]


ENCODED_MAX: Final = 250  # outcomes in one step of the loop: some milliseconds


class SqliteStore:
    """A store in an SQLite file, for one event loop; open it with `open`."""

    keeps_skipped = True
    local_clock = True
    finish_by_epoch = True

    def __init__(
        self,
        database: Database,
        partitions: int,
        now_ms: Callable[[], int],
        boottime_ns: Callable[[], int],
        *,
        node_locks: bool = True,
    ) -> None:
        self.path = database.path
        self.partitions = partitions
        self._now_ms = now_ms
        self._renewals = Renewals(boottime_ns)
        self._hints = Notifications()
        self._quarantine = Quarantine()
        self._database = database
        everywhere = News.unknown([MEMBERS, *range(partitions)])
        self._notifier = notifier = Notifier(database.path, everywhere, self._hints.tell)
        self._writer = Writer(database, notifier, everywhere, now_ms, self._renewals)
        self._reader = Reader(database)
        self._writes: ConnectionThread[Transaction] = ConnectionThread(
            "tickwheel-writer", self._writer.do, look=self._look, tell=self._hints.tell, abandon=self._abandon
        )
        self._reads: ConnectionThread[apsw.Connection] = ConnectionThread("tickwheel-reader", self._reader.do)
        self._nodes = Nodes(
            database.path, notifier, self._writes, self._reads, now_ms, self._renewals, use_locks=node_locks
        )
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self.running_changes = notifier.running_changes  # asked before each run: one call less

    @property
    def timed_leases(self) -> bool:
        """Whether leases expire by time: only where node locks do not work."""
        return self._nodes.timed

    @property
    def commits(self) -> int:
        """How many transactions it has written so far."""
        return self._writer.commits

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        now_ms: Callable[[], int],
        boottime_ns: Callable[[], int] = SystemClock.boottime_ns,
        partitions: int = 64,
        node_locks: bool = True,
        create: bool = True,
    ) -> "SqliteStore":
        """Open a file, or create it if that is wanted; how many partitions it has is decided then.

        Without node locks, leases expire by `boottime_ns`, whatever happens to the wall clock (`now_ms`).
        """

        def make_partitions(connection: apsw.Connection) -> None:
            connection.executemany(SQL["add_partition"], ((number,) for number in range(partitions)))

        database = await open_database(path, TASKS, make_partitions, create=create)
        try:
            stored = run_in_use(_check_tables, database)
            return cls(database, stored, now_ms, boottime_ns, node_locks=node_locks)
        except BaseException as error:
            run_in_use(database.close)  # whatever it is: nothing of a store that is not there stays open
            if isinstance(error, apsw.Error):
                raise translate_error(path, error) from error
            raise

    async def close(self) -> None:
        """Do what waits, and let go of the file."""
        self._closed = True
        await self._nodes.close()
        await self._reads.close()
        await self._writes.close()
        self._hints.close()
        run_in_use(self._database.close)  # here: at the end of a program no thread can be started any more

    async def time(self) -> int:
        """Read the clock it was given."""
        if self._closed:
            raise StoreClosed
        return self._now_ms()

    async def changed_at(self) -> int:
        """Return when anything was changed last, by any process."""
        return await self._reads.call(reads.changed_at)

    async def clock_steps(self) -> list[ClockStep]:
        """Return the steps that were kept last, by any process."""
        return await self._reads.call(reads.clock_steps)

    async def keep_clock_steps(self, steps: Sequence[ClockStep]) -> None:
        """Keep some steps instead."""
        await self._writes.call(lambda transaction: transaction.keep_clock_steps(steps))

    # -- anyone

    async def add(self, tasks: Sequence[Task], on_conflict: OnConflict = "reject") -> list[Conflict]:
        """Add tasks, all of them or none; they are on the disk when this returns."""
        check_added(tasks, self.partitions, on_conflict)
        bodies = [validation.encode(task) for task in tasks]
        return await self._writes.call(Adds(tasks, bodies, on_conflict), len(tasks))

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        """Return tasks by id."""
        validation.check_batch(ids)
        return await self._reads.call(lambda file: reads.get(file, ids))

    async def query(self, wanted: Filter, cursor: str | None = None, limit: int = 100) -> Page:
        """List tasks, newest first by default."""
        validation.check_limit(limit)
        listing.check_filter(wanted)
        after = listing.place_of(cursor, wanted.order)
        return await self._reads.call(lambda file: lists.query(file, wanted, after, limit))

    async def count(self, wanted: Filter, most: int = COUNT_MAX) -> Total:
        """Count tasks, looking at so many at most."""
        validation.check_limit(most, validation.COUNT_ROWS_MAX)
        listing.check_filter(wanted)
        return await self._reads.call(lambda file: lists.count(file, wanted, most))

    async def counts(self) -> dict[Status, int]:
        """Return how many tasks there are of each status."""
        return await self._reads.call(reads.counts)

    async def history(self, task_id: str, limit: int = 100) -> list[Run]:
        """Return the runs of a task, latest first."""
        validation.check_limit(limit)
        return await self._reads.call(lambda file: reads.history(file, task_id, limit))

    async def cancel(self, ids: Sequence[str], reason: str, *, run_only: bool = False) -> list[Task | None]:
        """Cancel tasks, or ask them to stop."""
        validation.check_batch(ids)
        return await self._writes.call(lambda transaction: transaction.cancel(ids, reason, run_only=run_only), len(ids))

    async def reschedule(self, task_id: str, run_at: int) -> Task:
        """Move a task."""
        validation.check_moment(run_at)
        return await self._writes.call(lambda transaction: transaction.reschedule(task_id, run_at))

    async def amend(self, tasks: Sequence[Task]) -> list[Task]:
        """Put tasks in the place of those they were made from."""
        validation.check_amended(tasks)
        return await self._writes.call(lambda transaction: transaction.amend(tasks), len(tasks))

    async def remove(self, ids: Sequence[str]) -> list[Task | None]:
        """Delete tasks that do not run."""
        validation.check_batch(ids)
        return await self._writes.call(lambda transaction: transaction.remove(ids), len(ids))

    async def pause(self, ids: Sequence[str]) -> list[Task | None]:
        """Keep tasks from beginning."""
        validation.check_batch(ids)
        return await self._writes.call(lambda transaction: transaction.each(ids, step_for(transitions.pause)), len(ids))

    async def resume(self, ids: Sequence[str], *, run_missed: bool = False) -> list[Task | None]:
        """Let paused tasks begin again."""
        validation.check_batch(ids)
        return await self._writes.call(lambda transaction: transaction.resume(ids, run_missed=run_missed), len(ids))

    async def run_now(self, ids: Sequence[str]) -> list[Task | None]:
        """Let tasks that wait run now."""
        validation.check_batch(ids)
        return await self._writes.call(lambda transaction: transaction.run_now(ids), len(ids))

    async def revive(self, ids: Sequence[str], run_at: int) -> list[Task | None]:
        """Begin tasks that are over once more."""
        validation.check_batch(ids)
        validation.check_moment(run_at)
        return await self._writes.call(
            lambda transaction: transaction.each(ids, step_for(transitions.retry, run_at)), len(ids)
        )

    async def purge(self, before: int, rest: Rest | None = None) -> int:
        """Delete what was over before a moment, some at a time; if there is nothing to delete, nothing is written."""
        purged = 0
        while await self._reads.call(lambda file: reads.is_past(file, before)):
            tasks, rows = await self._writes.call(lambda transaction: transaction.purge(before), PURGE_ROWS)
            purged += tasks
            if rows < PURGE_ROWS:
                break
            if rest is not None:
                await rest()
        return purged

    # -- nodes

    async def heartbeat(
        self, node: str, ttl_ms: int, handlers: Collection[str] | None = None, version: str = ""
    ) -> list[str]:
        """Say that a node lives, and which handlers it has."""
        return await self._nodes.heartbeat(node, ttl_ms, handlers, version)

    async def nodes(self) -> list[Node]:
        """List the nodes that live, with the handlers they have."""
        return await self._nodes.online()

    async def leave(self, node: str) -> None:
        """Say that a node lives no more."""
        await self._nodes.leave(node)

    async def leases(self) -> list[Lease]:
        """List the leases that are held now."""
        return await self._nodes.leases()

    async def unresponsive(self) -> list[tuple[str, int | None]]:
        """Return nodes of other processes that live and do not respond, with their pid if it is visible here."""
        return await self._nodes.unresponsive()

    # -- owners

    async def acquire(self, partitions: Sequence[int], node: str, ttl_ms: int) -> list[Lease]:
        """Take leases that nobody holds."""
        return await self._nodes.acquire(partitions, node, ttl_ms)

    async def renew(self, leases: Sequence[Lease], ttl_ms: int) -> list[Lease]:
        """Hold on to leases."""
        return await self._nodes.renew(leases, ttl_ms)

    async def release(self, leases: Sequence[Lease]) -> None:
        """Give leases back."""
        await self._nodes.release(leases)

    async def due(self, leases: Sequence[Lease], until: int, after: tuple[int, str] | None, limit: int) -> list[Due]:
        """List what comes due, by run_at and id."""
        validation.check_limit(limit)
        return await self._reads.call(lambda file: reads.due(file, leases, self._renewals, until, after, limit))

    async def overdue(
        self, leases: Sequence[Lease], until: int, after: Rank | None, limit: int, without: Collection[str] = ()
    ) -> list[Due]:
        """List what is due, by priority."""
        validation.check_limit(limit)
        left_out, found = list(without), list[Due]()
        while True:  # others read in between
            rows, after = await self._reads.call(
                partial(reads.overdue, leases, self._renewals, until, after, limit - len(found), left_out)
            )
            found += rows
            if after is None:
                return found

    async def claim(self, leases: Sequence[Lease], ids: Sequence[str], until: int) -> list[Task]:
        """Make pending tasks running."""
        validation.check_batch(ids)
        claimed, passed = await self._writes.call(lambda transaction: transaction.claim(leases, ids, until), len(ids))
        self._quarantine.report(passed)
        return claimed

    async def move(self, leases: Sequence[Lease], ids: Sequence[str], partition: int) -> list[str]:
        """Move pending tasks to another partition."""
        check_move(ids, partition, self.partitions)
        return await self._writes.call(lambda transaction: transaction.move(leases, ids, partition), len(ids))

    async def finish(self, finishes: Sequence[Finish]) -> list[bool]:
        """Put finished tasks back."""
        validation.check_finishes(finishes)
        now = self._now_ms()
        after, bodies = list[Task](), list[bytes]()
        for first in range(0, len(finishes), ENCODED_MAX):
            if first:
                await asyncio.sleep(0)  # others on the loop have their turn
            chunk = finishes[first : first + ENCODED_MAX]
            after += [transitions.finish(each.task, each.task, now, each.skipped) for each in chunk]
            bodies += [validation.encode(task) for task in after[first:]]
        return await self._writes.call(lambda transaction: transaction.finish(finishes, after, bodies), len(finishes))

    async def orphans(self, leases: Sequence[Lease], limit: int) -> list[Task]:
        """List running tasks that were claimed under an earlier lease."""
        validation.check_limit(limit)
        found, passed = await self._reads.call(lambda file: reads.orphans(file, leases, self._renewals, limit))
        self._quarantine.report(passed)
        return found

    async def checkpoint(self, leases: Sequence[Lease], moment: int) -> None:
        """Note how far owned partitions are."""
        validation.check_moment(moment)
        await self._writes.call(lambda transaction: owning.checkpoint(transaction, leases, moment))

    def changes(self, partitions: Sequence[int]) -> AsyncIterator[dict[int, Change]]:
        """Tell in which partitions something changes from now on."""
        self._writes.look_around()
        return self._hints.watch(partitions)

    # -- on the writing thread

    def _look(self) -> tuple[News, float]:
        self._nodes.keep_locks()
        return self._writer.look()

    def _abandon(self) -> None:
        """Give up the nodes of a loop that was closed without closing the store."""
        self._writer.do([Call(self._nodes.give_up, asyncio.Future(loop=self._loop), 1)])
        self._nodes.drop_all()


def _check_tables(database: Database) -> int:
    """Return how many partitions there are; raise if a table has not the rows that it always has."""
    try:
        rows = list(database.reader.execute(SQL["partitions"]))
    except UnicodeDecodeError:
        raise StoreUnavailable(
            f"{database.path}: it is damaged: its table partitions has text that is not UTF-8"
        ) from None
    for part, _, epoch, *_ in rows:
        if not 0 <= epoch <= MOMENT_MAX:
            raise StoreUnavailable(f"{database.path}: it is damaged: partition {part} has the epoch {epoch}")
    parts = [row[0] for row in rows]
    if not parts or parts != list(range(len(parts))):
        said = "has no rows" if not parts else f"has {len(parts):,} rows, and they are not numbered from 0"
        raise StoreUnavailable(f"{database.path}: it is damaged: its table partitions {said}; restore it from a backup")
    changes = [number for (number,) in database.reader.execute(SQL["last_change"])]
    if len(changes) != 1:
        raise StoreUnavailable(
            f"{database.path}: it is damaged: its table changes has {len(changes):,} rows instead of one; restore it "
            "from a backup, or correct that"
        )
    return len(parts)
