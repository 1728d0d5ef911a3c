"""Everything that changes the file, each inside a transaction that somebody else begins and ends."""

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from operator import attrgetter
from typing import Final

import apsw
import msgspec
from msgspec.structs import replace

from tickwheel.errors import UnknownTask
from tickwheel.stores import bounds, steps
from tickwheel.stores.contract import Conflict, Finish, Lease, OnConflict
from tickwheel.stores.sqlite.reads import NUMBERS, Row, held_of, load
from tickwheel.stores.sqlite.statements import SQL
from tickwheel.tasks.record import ENDED, Status, Task, UnreadableTask

__all__ = ["PURGE_ROWS", "Adds", "Pen"]

PURGE_ROWS: Final = 1000  # deleted in one call, so that others get their turn in between

# Many rows a statement: after each one another thread may have the interpreter, and keeps it for a while.
ROW: Final = "(?, ?, ?, ?, ?, ?, 0, ?, ?, ?)"
INSERTS: Final = {rows: SQL["insert"].replace(ROW, ", ".join([ROW] * rows)) for rows in (64, 32, 16, 8, 4, 2, 1)}

_status, _partition = attrgetter("status"), attrgetter("partition")
_encode_run = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, eq=False)
class Adds:
    """A call that adds tasks. Others look into it, for what is added at the same time can be written together."""

    tasks: Sequence[Task]
    bodies: Sequence[bytes]
    on_conflict: OnConflict

    def __call__(self, pen: "Pen") -> list[Conflict]:
        """Add them, or raise."""
        return pen.add(self)


class Pen:
    """What one call writes with: it remembers where it changed something, and how the counts change."""

    def __init__(self, connection: apsw.Connection, now: int) -> None:
        self._connection = connection
        self._now = now
        self.touched: set[int] = set()
        self.counted: Counter[int] = Counter()

    # -- anyone

    def insert(self, tasks: Sequence[Task], bodies: Sequence[bytes]) -> bool:
        """Add tasks of which none is there; False, and as it was before this call, if one is."""
        before = self._connection.total_changes()
        rows = list(map(_new_row, tasks, bodies))
        first = 0
        for size, statement in INSERTS.items():
            while len(rows) - first >= size:
                self._connection.execute(statement, tuple(chain.from_iterable(rows[first : first + size])))
                first += size
        if self._connection.total_changes() - before != len(tasks):
            self._connection.execute("ROLLBACK TO call")
            return False
        for status, count in Counter(map(_status, tasks)).items():
            self.counted[NUMBERS[status]] += count
        self.touched.update(map(_partition, tasks))
        return True

    def add(self, adds: Adds) -> list[Conflict]:
        """Add tasks, or raise."""
        tasks, on_conflict = adds.tasks, adds.on_conflict
        if self.insert(tasks, adds.bodies):  # almost always
            return [Conflict(task, added=True) for task in tasks]
        there = load(self._connection, [task.id for task in tasks])
        settled = steps.settle({task_id: task for task_id, (_, task) in there.items()}, tasks, on_conflict)
        anew = [settled.changed[task_id] for task_id in settled.changed if task_id in settled.anew]
        self._connection.executemany(SQL["renew_task"], ((*_new_row(task, bounds.encode(task)),) for task in anew))
        placed = [(there[task_id][0], task) for task_id, task in settled.changed.items() if task_id not in settled.anew]
        self._connection.executemany(
            SQL["replace"], ((*_new_row(task, bounds.encode(task))[1:], serial) for serial, task in placed)
        )
        for task in settled.changed.values():
            self._note(there[task.id][1] if task.id in there else None, task)
        return settled.conflicts

    def each(self, ids: Sequence[str], step: Callable[[Task], Task]) -> list[Task | None]:
        """Take a step with each task that is there."""
        there = load(self._connection, ids)
        changed: dict[str, Row] = {}
        answers: list[Task | None] = []
        for task_id in ids:
            row = changed.get(task_id) or there.get(task_id)
            if row is None:
                answers.append(None)
                continue
            after = step(row[1])
            if after is not row[1]:
                changed[task_id] = row[0], after
            answers.append(after)
        self._change(changed.values())
        for task_id, (_, task) in changed.items():
            self._note(there[task_id][1], task)
        return answers

    def reschedule(self, task_id: str, run_at: int) -> Task:
        """Move a task, or raise."""
        [task] = self.each([task_id], lambda task: steps.move(task, run_at))
        if task is None:
            raise UnknownTask(task_id)
        return task

    def amend(self, tasks: Sequence[Task]) -> list[Task]:
        """Put tasks in the place of those they were made from, or raise."""
        there = load(self._connection, [task.id for task in tasks])
        changed: dict[str, Task] = {}
        answers = []
        for task in tasks:
            if task.id not in there:
                raise UnknownTask(task.id)
            changed[task.id] = steps.amend(changed.get(task.id) or there[task.id][1], task)
            answers.append(changed[task.id])
        self._connection.executemany(
            SQL["replace"],
            ((*_new_row(task, bounds.encode(task))[1:], there[task_id][0]) for task_id, task in changed.items()),
        )
        self.touched.update(task.partition for task in answers)
        return answers

    def remove(self, ids: Sequence[str]) -> list[Task | None]:
        """Delete tasks that do not run."""
        there = load(self._connection, ids)
        gone = [row for row in there.values() if not self._runs(*row)]
        self._connection.executemany(SQL["remove"], ((serial,) for serial, _ in gone))
        self._connection.executemany(SQL["purge_runs_of"], ((task.id,) for _, task in gone))
        self.counted.subtract(NUMBERS[task.status] for _, task in gone)
        self.touched.update(task.partition for _, task in gone)
        for serial, task in gone:
            if task.status is Status.RUNNING:  # nobody runs it any more, and it is not there to stay
                there[task.id] = serial, replace(task, status=Status.PENDING)
        return [there[task_id][1] if task_id in there else None for task_id in ids]

    def _runs(self, serial: int, task: Task) -> bool:
        """Tell whether a task runs; one that cannot be read does only while the lease it was claimed under is held."""
        if task.status is not Status.RUNNING or not isinstance(task, UnreadableTask):
            return task.status is Status.RUNNING
        return bool(self._connection.execute(SQL["is_held"], (serial, self._now)).get)

    def cancel(self, ids: Sequence[str], reason: str) -> list[Task | None]:
        """Cancel tasks, or ask them to stop."""
        return self.each(ids, lambda task: steps.cancel(task, reason, self._now))

    def purge(self, before: int) -> tuple[int, int]:
        """Delete some of what was over before a moment; return how many tasks, and how many rows."""
        gone = list(self._connection.execute(SQL["purge_tasks"], (before, PURGE_ROWS)))
        self.counted.subtract(status for _, status in gone)
        self._connection.executemany(SQL["purge_runs_of"], ((task_id,) for task_id, _ in gone))
        self._connection.execute(SQL["purge_runs"], (before, PURGE_ROWS))
        return len(gone), max(len(gone), self._connection.changes())

    # -- nodes

    def heartbeat(self, node: str, ttl_ms: int) -> list[str]:
        """Say that a node lives, and return all that do."""
        self._connection.execute(SQL["heartbeat"], (node, self._now + ttl_ms))
        self._connection.execute(SQL["forget_the_dead"], (self._now,))
        return [living for (living,) in self._connection.execute(SQL["nodes"])]

    def leave(self, node: str) -> None:
        """Say that a node lives no more."""
        self._connection.execute(SQL["leave"], (node,))

    # -- owners

    def acquire(self, partitions: Sequence[int], node: str, ttl_ms: int) -> list[Lease]:
        """Take leases that nobody holds."""
        rows = list(self._connection.execute(SQL["partitions"]))
        got = []
        for part in dict.fromkeys(partitions):
            if 0 <= part < len(rows) and rows[part][3] <= self._now:
                _, epoch, _, _, checkpoint = rows[part]
                lease = Lease(
                    partition=part,
                    node=node,
                    epoch=epoch + 1,
                    nonce=secrets.token_hex(8),
                    expires_at=self._now + ttl_ms,
                    checkpoint=checkpoint,
                )
                got.append(lease)
        self._lease(got)
        return got

    def renew(self, leases: Sequence[Lease], ttl_ms: int) -> list[Lease]:
        """Hold on to leases."""
        held = held_of(self._connection, leases, self._now)
        renewed = [
            replace(lease, expires_at=self._now + ttl_ms, checkpoint=checkpoint) for lease, checkpoint in held.values()
        ]
        self._lease(renewed)
        return renewed

    def release(self, leases: Sequence[Lease]) -> None:
        """Give leases back."""
        held = held_of(self._connection, leases, self._now)
        self._lease([replace(lease, node="", nonce="", expires_at=0) for lease, _ in held.values()])
        self.touched |= held.keys()

    def checkpoint(self, leases: Sequence[Lease], moment: int) -> None:
        """Note how far owned partitions are."""
        held = held_of(self._connection, leases, self._now)
        self._connection.executemany(SQL["checkpoint"], ((moment, part) for part in held))

    def claim(self, leases: Sequence[Lease], ids: Sequence[str], until: int) -> tuple[list[Task], list[UnreadableTask]]:
        """Make pending tasks running; return those, and what could not be read of what was wanted."""
        held = held_of(self._connection, leases, self._now)
        there = load(self._connection, ids)
        passed = [task for _, task in there.values() if isinstance(task, UnreadableTask)]
        for task in passed:
            del there[task.id]
        claimed = [
            (serial, steps.claim(task, until))
            for serial, task in map(there.__getitem__, filter(there.__contains__, dict.fromkeys(ids)))
            if task.status is Status.PENDING and task.run_at <= until and task.partition in held
        ]
        self._connection.executemany(
            SQL["claim"],
            ((task.version, held[task.partition][0].epoch, bounds.encode(task), serial) for serial, task in claimed),
        )
        self._count(Status.PENDING, Status.RUNNING, len(claimed))
        return [task for _, task in claimed], passed

    def finish(self, finishes: Sequence[Finish], after: Sequence[Task], bodies: Sequence[bytes]) -> list[bool]:
        """Put finished tasks back; brought along is how they will be if nobody has changed them since the claim."""
        held = held_of(self._connection, [finish.lease for finish in finishes], self._now)
        ours = [_holds(held, finish) for finish in finishes]
        if all(ours):
            before = self._connection.total_changes()
            self._connection.executemany(SQL["finish"], map(_finished_row, finishes, after, bodies))
            if self._connection.total_changes() - before == len(finishes):  # almost always: each was as it was claimed
                for task in after:
                    self._count(Status.RUNNING, task.status, 1)
                self._remember(finishes)
                return ours
            self._connection.execute("ROLLBACK TO call")
        return self._finish_each(finishes, ours)

    def _finish_each(self, finishes: Sequence[Finish], ours: list[bool]) -> list[bool]:
        there = load(self._connection, [finish.task.id for finish in finishes])
        changed: dict[str, Row] = {}
        for number, finish in enumerate(finishes):
            row = there.get(finish.task.id)
            if row is None or finish.task.id in changed or not steps.may_finish(row[1], finish):
                ours[number] = False
            if row is not None and ours[number]:
                after = steps.finish(row[1], finish.task, self._now)
                changed[after.id] = row[0], after
                self._count(Status.RUNNING, after.status, 1)
        self._change(changed.values())
        self._remember(compress(finishes, ours))
        return ours

    def _remember(self, finishes: Iterable[Finish]) -> None:
        runs = [(finish.task.id, finish.run) for finish in finishes if finish.run is not None]
        self._connection.executemany(
            SQL["add_run"], ((task_id, run.attempt, run.finished_at, _encode_run(run)) for task_id, run in runs)
        )

    # -- within

    def _change(self, rows: Iterable[Row]) -> None:
        self._connection.executemany(
            SQL["change"],
            (
                (NUMBERS[task.status], task.run_at, task.version, _ended_at(task), bounds.encode(task), serial)
                for serial, task in rows
            ),
        )

    def _lease(self, leases: Iterable[Lease]) -> None:
        self._connection.executemany(
            SQL["lease"],
            ((lease.node, lease.epoch, lease.nonce, lease.expires_at, lease.partition) for lease in leases),
        )

    def _note(self, before: Task | None, after: Task) -> None:
        if before is not None:
            self.counted[NUMBERS[before.status]] -= 1
            self.touched.add(before.partition)
        self.counted[NUMBERS[after.status]] += 1
        self.touched.add(after.partition)

    def _count(self, before: Status, after: Status, tasks: int) -> None:
        self.counted[NUMBERS[before]] -= tasks
        self.counted[NUMBERS[after]] += tasks


def _holds(held: Mapping[int, tuple[Lease, int]], finish: Finish) -> bool:
    lease = held.get(finish.lease.partition)
    return lease is not None and lease[0].nonce == finish.lease.nonce


def _finished_row(
    finish: Finish, task: Task, body: bytes
) -> tuple[int, int, int, int | None, bytes, str, int, int, str, int]:
    return (
        NUMBERS[task.status],
        task.run_at,
        task.version,
        _ended_at(task),
        body,
        task.id,
        task.version - 1,
        finish.lease.partition,
        task.handler,
        task.priority,
    )


def _ended_at(task: Task) -> int | None:
    return task.finished_at if task.status in ENDED else None


def _new_row(task: Task, body: bytes) -> tuple[str, int, int, int, int, int, int | None, str, bytes]:
    return (
        task.id,
        task.partition,
        NUMBERS[task.status],
        task.run_at,
        task.priority,
        task.version,
        _ended_at(task),
        task.handler,
        body,
    )
