"""Everything that changes the file, each inside a transaction that somebody else begins and ends."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Final

import apsw
import msgspec
from msgspec.structs import replace

from tickwheel.errors import UnknownTask
from tickwheel.stores import validation
from tickwheel.stores.contract import ClockStep, Conflict, Finish, Lease, OnConflict
from tickwheel.stores.mutations import settle, step_for
from tickwheel.stores.notifications import News
from tickwheel.stores.quarantine import NUMBERS
from tickwheel.stores.sqlite.reads import Row, finishable, held_of, last_runs, listed, load
from tickwheel.stores.sqlite.renewals import Renewals
from tickwheel.stores.sqlite.statements import SQL
from tickwheel.tasks import transitions
from tickwheel.tasks.record import ENDED, Run, Status, Task, UnreadableTask

__all__ = ["PURGE_ROWS", "Adds", "Transaction"]

PURGE_ROWS: Final = 1000  # deleted in one call, so that others get their turn in between

# Many rows a statement: after each one another thread may have the interpreter, and keeps it for a while.
ROW: Final = "(?, ?, ?, ?, ?, ?, 0, ?, ?, ?)"
INSERTS: Final = {rows: SQL["insert"].replace(ROW, ", ".join([ROW] * rows)) for rows in (64, 32, 16, 8, 4, 2, 1)}

_status = attrgetter("listed_status")
_encode_run = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, eq=False)
class Adds:
    """A call that adds tasks. Others look into it, for what is added at the same time can be written together."""

    tasks: Sequence[Task]
    bodies: Sequence[bytes]
    on_conflict: OnConflict

    def __call__(self, transaction: "Transaction") -> list[Conflict]:
        """Add them, or raise."""
        return transaction.add(self)


class Transaction:
    """What one call writes with: it remembers what it changed, and how the counts change."""

    def __init__(self, connection: apsw.Connection, now: int, renewals: Renewals) -> None:
        self._connection = connection
        self._now = now
        self.renewals = renewals
        self.touched = News()
        self.counted: Counter[int] = Counter()
        self.on_commit: list[Callable[[], None]] = []  # what is to be done once this is in the file

    @property
    def connection(self) -> apsw.Connection:
        """What it writes to."""
        return self._connection

    @property
    def now(self) -> int:
        """When the call is made, by the store's clock."""
        return self._now

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
        for task in tasks:
            self.touched.see(task)
        return True

    def add(self, adds: Adds) -> list[Conflict]:
        """Add tasks, or raise."""
        tasks, on_conflict = adds.tasks, adds.on_conflict
        if self.insert(tasks, adds.bodies):  # almost always
            return [Conflict(task, added=True) for task in tasks]
        there = load(self._connection, [task.id for task in tasks])
        settled = settle({task_id: task for task_id, (_, task) in there.items()}, tasks, on_conflict)
        anew = [settled.changed[task_id] for task_id in settled.changed if task_id in settled.anew]
        self._keep_last_runs([task.id for task in anew if task.id in there])
        self._connection.executemany(SQL["renew_task"], ((*_new_row(task, validation.encode(task)),) for task in anew))
        placed = [(there[task_id][0], task) for task_id, task in settled.changed.items() if task_id not in settled.anew]
        self._replace(placed)
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
        [task] = self.each([task_id], lambda task: transitions.reschedule(task, run_at))
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
            changed[task.id] = transitions.update(changed.get(task.id) or there[task.id][1], task, self._now)
            answers.append(changed[task.id])
        self._replace((there[task_id][0], task) for task_id, task in changed.items())
        for task in changed.values():
            self._note(there[task.id][1], task)
        return answers

    def remove(self, ids: Sequence[str]) -> list[Task | None]:
        """Delete tasks that do not run."""
        there = load(self._connection, ids)
        gone = [row for row in there.values() if not self._runs(*row)]
        self._connection.executemany(SQL["remove"], ((serial,) for serial, _ in gone))
        self._connection.executemany(SQL["purge_runs_of"], ((task.id,) for _, task in gone))
        self.counted.subtract(NUMBERS[task.listed_status] for _, task in gone)
        self.touched.touch(*(task.partition for _, task in gone))
        for serial, task in gone:
            if task.status is Status.RUNNING:  # nobody runs it any more, and it is not there to stay
                there[task.id] = serial, replace(task, status=Status.PENDING)
        return [there[task_id][1] if task_id in there else None for task_id in ids]

    def _runs(self, serial: int, task: Task) -> bool:
        """Tell whether a task runs; one that cannot be read does only while the lease it was claimed under is held."""
        if task.status is not Status.RUNNING or not isinstance(task, UnreadableTask):
            return task.status is Status.RUNNING
        claimed_under = self._connection.execute(SQL["claimed_under"], (serial,)).fetchone()
        return claimed_under is not None and self.renewals.is_held(*claimed_under)

    def cancel(self, ids: Sequence[str], reason: str, *, run_only: bool) -> list[Task | None]:
        """Cancel tasks, or ask them to stop."""
        return self.each(ids, step_for(transitions.cancel, reason, self._now, run_only=run_only))

    def resume(self, ids: Sequence[str], *, run_missed: bool) -> list[Task | None]:
        """Let paused tasks begin again."""
        return self.each(ids, step_for(transitions.resume, self._now, run_missed=run_missed))

    def run_now(self, ids: Sequence[str]) -> list[Task | None]:
        """Let tasks that wait run now."""
        return self.each(ids, step_for(transitions.run_now, self._now))

    def purge(self, before: int) -> tuple[int, int]:
        """Delete some of what was over before a moment; return how many tasks, and how many rows."""
        gone = list(self._connection.execute(SQL["purge_tasks"], (before, PURGE_ROWS)))
        self.counted.subtract(status for _, status in gone)
        self._connection.executemany(SQL["purge_runs_of"], ((task_id,) for task_id, _ in gone))
        self._connection.execute(SQL["purge_runs"], (before, PURGE_ROWS))
        return len(gone), max(len(gone), self._connection.changes())

    def keep_clock_steps(self, steps: Sequence[ClockStep]) -> None:
        """Keep some steps of the clock instead of those before."""
        self._connection.execute(SQL["forget_clock_steps"])
        self._connection.executemany(SQL["add_clock_step"], steps)

    # -- owners

    def claim(self, leases: Sequence[Lease], ids: Sequence[str], until: int) -> tuple[list[Task], list[UnreadableTask]]:
        """Make pending tasks running; return those, and what could not be read of what was wanted."""
        held = held_of(self._connection, leases, self.renewals)
        there = load(self._connection, ids)
        passed = [task for _, task in there.values() if isinstance(task, UnreadableTask)]
        for unreadable in passed:
            del there[unreadable.id]
        claimed = list[Task]()
        serials = dict[int, list[int]]()  # by the epoch they are claimed under
        for serial, task in map(there.__getitem__, filter(there.__contains__, dict.fromkeys(ids))):
            if transitions.may_claim(task, until) and task.partition in held:
                claimed.append(transitions.claim(task, until))
                serials.setdefault(held[task.partition][0].epoch, []).append(serial)
        for epoch, group in serials.items():
            self._connection.execute(SQL["claim"], (epoch, until, listed(group)))
        self._count(Status.PENDING, Status.RUNNING, len(claimed))
        return claimed, passed

    def move(self, leases: Sequence[Lease], ids: Sequence[str], partition: int) -> list[str]:
        """Move pending tasks to another partition; return which."""
        held = held_of(self._connection, leases, self.renewals)
        moved = [
            (serial, transitions.move(task, partition))
            for serial, task in load(self._connection, ids).values()
            if task.partition in held and transitions.may_move(task, partition)
        ]
        self._connection.executemany(
            SQL["move"], ((partition, task.version, validation.encode(task), serial) for serial, task in moved)
        )
        for _, task in moved:
            self.touched.see(task)
        return [task.id for _, task in moved]

    def finish(self, finishes: Sequence[Finish], after: Sequence[Task], bodies: Sequence[bytes]) -> list[bool]:
        """Put finished tasks back; brought along is how they will be if nobody has changed them since the claim."""
        ours = finishable(self._connection, finishes)
        if all(ours) and not any(transitions.depends_on_stored(finish.task) for finish in finishes):
            self._keep_last_runs([finish.task.id for finish in finishes if finish.task.attempt > 1])
            before = self._connection.total_changes()
            self._connection.executemany(SQL["finish"], map(_finished_row, finishes, after, bodies))
            if self._connection.total_changes() - before == len(finishes):  # almost always: each was as it was claimed
                for status, tasks in Counter(map(_status, after)).items():
                    self._count(Status.RUNNING, status, tasks)
                self._remember(finishes, after)
                return ours
            self._connection.execute("ROLLBACK TO call")
        return self._finish_each(finishes, ours)

    def _finish_each(self, finishes: Sequence[Finish], ours: list[bool]) -> list[bool]:
        there = load(self._connection, [finish.task.id for finish in finishes])
        changed: dict[str, Row] = {}
        written: list[Finish] = []
        others: dict[str, Row] = {}  # that have another handler or priority from now on
        for number, finish in enumerate(finishes):
            row = there.get(finish.task.id)
            if row is None or finish.task.id in changed or finish.task.id in others or not _is_this_run(row[1], finish):
                ours[number] = False
            if row is not None and ours[number]:
                after, skipped = transitions.conclude(
                    row[1], finish.task, self._now, finish.skipped, given_back=finish.given_back
                )
                written.append(replace(finish, skipped=skipped))
                if transitions.was_merged(finish.task, after):
                    self.touched.see(after)  # its owner knows only what it wrote
                same = after.handler == row[1].handler and after.priority == row[1].priority
                (changed if same else others)[after.id] = row[0], after
                self._count(Status.RUNNING, after.listed_status, 1)
        self._keep_last_runs([finish.task.id for finish in written if finish.task.attempt > 1])
        self._change(changed.values())
        self._replace(others.values())
        rows = changed | others
        self._connection.executemany(
            SQL["set_last_run"],
            ((_last_run(finish, rows[finish.task.id][1]), rows[finish.task.id][0]) for finish in written),
        )
        self._remember(written, [rows[finish.task.id][1] for finish in written])
        return ours

    def _remember(self, finishes: Sequence[Finish], after: Sequence[Task]) -> None:
        """Write what the history remembers, but for the runs that tasks ended with: these are in their rows."""
        runs = [
            finish.run for finish, task in zip(finishes, after, strict=True) if finish.run and task.status not in ENDED
        ]
        runs += [run for finish in finishes for run in finish.skipped]
        self._add_runs(runs)

    def _keep_last_runs(self, ids: Sequence[str]) -> None:
        """Give the runs that tasks ended with rows of their own: another run follows, or another task of that id."""
        self._add_runs(last_runs(self._connection, ids))

    def _add_runs(self, runs: Iterable[Run]) -> None:
        self._connection.executemany(
            SQL["add_run"], ((run.task_id, run.attempt, run.finished_at, _encode_run(run)) for run in runs)
        )

    # -- within

    def _change(self, rows: Iterable[Row]) -> None:
        self._connection.executemany(SQL["change"], ((*_changed_row(task), serial) for serial, task in rows))

    def _replace(self, rows: Iterable[Row]) -> None:
        """Write tasks of which columns change that an index is on, too."""
        self._connection.executemany(
            SQL["replace"], ((*_new_row(task, validation.encode(task))[1:], serial) for serial, task in rows)
        )

    def _note(self, before: Task | None, after: Task) -> None:
        if before is not None:
            self.counted[NUMBERS[before.listed_status]] -= 1
            self.touched.touch(before.partition)
        self.counted[NUMBERS[after.listed_status]] += 1
        self.touched.see(after)

    def _count(self, before: Status, after: Status, tasks: int) -> None:
        self.counted[NUMBERS[before]] -= tasks
        self.counted[NUMBERS[after]] += tasks


def _is_this_run(there: Task, finish: Finish) -> bool:
    return transitions.may_finish(there, finish.task, finish.lease.partition)


def _last_run(finish: Finish, task: Task) -> bytes | None:
    return None if finish.run is None or task.status not in ENDED else _encode_run(finish.run)


def _finished_row(
    finish: Finish, task: Task, body: bytes
) -> tuple[int, int, int, int | None, bytes, bytes | None, str, int, int, str, int]:
    return (
        NUMBERS[task.listed_status],
        task.run_at,
        task.version,
        _ended_at(task),
        body,
        _last_run(finish, task),
        task.id,
        task.version - 1,
        finish.lease.partition,
        task.handler,
        task.priority,
    )


def _ended_at(task: Task) -> int | None:
    return task.finished_at if task.status in ENDED else None


def _changed_row(task: Task) -> tuple[int, int, int, int | None, bytes]:
    return NUMBERS[task.listed_status], task.run_at, task.version, _ended_at(task), validation.encode(task)


def _new_row(task: Task, body: bytes) -> tuple[str, int, int, int, int, int, int | None, str, bytes]:
    return (
        task.id,
        task.partition,
        NUMBERS[task.listed_status],
        task.run_at,
        task.priority,
        task.version,
        _ended_at(task),
        task.handler,
        body,
    )
