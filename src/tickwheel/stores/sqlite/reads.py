"""Everything that is only read from the file."""

import logging
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

import apsw
import msgspec

from tickwheel.stores import validation
from tickwheel.stores.contract import Due, Finish, Lease, Rank
from tickwheel.stores.quarantine import unreadable
from tickwheel.stores.sqlite.renewals import Renewals
from tickwheel.stores.sqlite.statements import SQL
from tickwheel.tasks.fields import sayable
from tickwheel.tasks.record import LISTED, Run, Status, Task, UnreadableTask

__all__ = [
    "NUMBERS",
    "Row",
    "counts",
    "due",
    "finishable",
    "get",
    "held_of",
    "history",
    "is_past",
    "last_runs",
    "load",
    "orphans",
    "overdue",
    "task_of",
]

Row = tuple[int, Task]  # with its serial

STATUSES: Final = LISTED
NUMBERS: Final = {status: number for number, status in enumerate(STATUSES)}

PRIORITY_MAX: Final = 2**31  # above every one
LAST_ID: Final = "\U0010ffff"  # after every id
PASSED_MAX: Final = 10_000  # rows that are looked at in one call, where some are left out: some milliseconds

log = logging.getLogger("tickwheel.stores")

_decode_run = msgspec.json.Decoder(Run).decode
_attempt = attrgetter("attempt")


def task_of(connection: apsw.Connection, body: bytes, task_id: str, serial: int | None = None) -> Task:
    """Read a task from its row, which is found again by its serial or id if it cannot be read; an id may be unknown."""
    try:
        return _decode(body, task_id)
    except (ValueError, RecursionError) as error:
        name, key = ("row_by_id", task_id) if serial is None else ("row_by_serial", serial)
        [(body, task_id, part, status, run_at, priority, version, finished_at, handler)] = connection.execute(
            SQL[name], (key,)
        )
        return unreadable(
            body,
            error,
            id=task_id,
            partition=part,
            status=STATUSES[status],
            run_at=run_at,
            priority=priority,
            version=version,
            finished_at=finished_at,
            handler=handler,
        )


def _decode(body: bytes, task_id: str) -> Task:
    task = validation.decode(body)
    if task_id and task.id != task_id:
        raise ValueError(f"it has the data of task {task.id!r:.300}")
    return task


def held_of(connection: apsw.Connection, leases: Sequence[Lease], renewals: Renewals) -> dict[int, tuple[Lease, int]]:
    """Leave out leases that are not their holders' any more; return the others by partition, with their checkpoint."""
    rows = list(connection.execute(SQL["partitions"]))
    held = {}
    for lease in leases:
        if 0 <= lease.partition < len(rows):
            part, node, epoch, nonce, stamp, ttl_ms, checkpoint = rows[lease.partition]
            ours = (lease.node, lease.epoch, lease.nonce) == (node, epoch, nonce)
            if ours and renewals.is_held(part, epoch, stamp, ttl_ms):
                held[part] = lease, checkpoint
    return held


def finishable(connection: apsw.Connection, finishes: Sequence[Finish]) -> list[bool]:
    """Tell whose leases still count for what ran under them: no other node has a newer one, expired or not."""
    rows = list(connection.execute(SQL["partitions"]))
    return [_is_finishable(rows, finish.lease) for finish in finishes]


def _is_finishable(rows: Sequence[tuple[Any, ...]], lease: Lease) -> bool:
    if not 0 <= lease.partition < len(rows):
        return False
    _, node, epoch, nonce, *_ = rows[lease.partition]
    return (lease.epoch, lease.nonce) == (epoch, nonce) or (lease.node == node and lease.epoch < epoch)


def get(connection: apsw.Connection, ids: Sequence[str]) -> list[Task | None]:
    """Return tasks by id."""
    found = load(connection, ids)
    return [found[task_id][1] if task_id in found else None for task_id in ids]


def load(connection: apsw.Connection, ids: Sequence[str]) -> dict[str, Row]:
    """Read those tasks that are there."""
    rows = connection.execute(SQL["load"], (listed(ids),))
    return {task_id: (serial, task_of(connection, body, task_id, serial)) for serial, task_id, body in rows}


def listed(values: Sequence[str] | Sequence[int]) -> str:
    """Write values as SQL takes a list of them: one statement for all is half the work of one for each."""
    try:
        return msgspec.json.encode(values).decode()
    except UnicodeEncodeError:  # no task is called that
        return listed([each for each in values if isinstance(each, str) and sayable(each)])


def counts(connection: apsw.Connection) -> dict[Status, int]:
    """Return how many tasks there are of each status."""
    return {STATUSES[number]: tasks for number, tasks in connection.execute(SQL["counts"])}


def is_past(connection: apsw.Connection, before: int) -> bool:
    """Tell whether a task or a run was over before a moment."""
    return bool(connection.execute(SQL["is_past"], {"before": before}).get)


def history(connection: apsw.Connection, task_id: str, limit: int) -> list[Run]:
    """Return the runs of a task, latest first."""
    if not sayable(task_id):
        return []
    rows = connection.execute(SQL["history"], (task_id, limit))
    runs = [run for (body,) in rows if (run := _run_of(task_id, body)) is not None]
    # Skipped occurrences may be later than the run that a task ended with.
    return sorted([*runs, *last_runs(connection, [task_id])], key=_attempt, reverse=True)[:limit]


def last_runs(connection: apsw.Connection, ids: Sequence[str]) -> list[Run]:
    """Return the runs that tasks ended with: they are in the rows of these tasks."""
    rows = connection.execute(SQL["last_runs"], (listed(ids),)) if ids else ()
    return [run for task_id, body in rows if (run := _run_of(task_id, body)) is not None]


def _run_of(task_id: str, body: bytes) -> Run | None:
    try:
        return _decode_run(body)
    except ValueError as error:
        log.warning("a run of task %r cannot be read and is left out (%s): %.200r", task_id, error, body)
        return None


def due(
    connection: apsw.Connection,
    leases: Sequence[Lease],
    renewals: Renewals,
    until: int,
    after: tuple[int, str] | None,
    limit: int,
) -> list[Due]:
    """List what comes due in owned partitions."""
    parts = listed(list(held_of(connection, leases, renewals)))
    begin, last_id = after or (-1, "")
    return [Due(*row) for row in connection.execute(SQL["due"], (begin, last_id, until, parts, limit))]


def overdue(
    leases: Sequence[Lease],
    renewals: Renewals,
    until: int,
    after: Rank | None,
    limit: int,
    without: Sequence[str],
    connection: apsw.Connection,
) -> tuple[list[Due], Rank | None]:
    """List what is due in owned partitions, by priority, one after the other.

    Where much is to be left out, it ends before the limit is reached; it is to be called again with the rank that is
    returned. Otherwise that is None.
    """
    parts, left_out = listed(list(held_of(connection, leases, renewals))), listed(without)
    found: list[Due] = []
    priority, begin, last_id = after or (_next_priority(connection, PRIORITY_MAX + 1), -1, "")
    while priority is not None:
        ranked = "_ranked" if priority else ""
        bound = (priority, begin, last_id, until)
        end = connection.execute(SQL[f"overdue_end{ranked}"], (*bound, PASSED_MAX)).fetchone() if without else None
        last = end or (until, LAST_ID)
        rows = connection.execute(
            SQL[f"overdue{ranked}"], (priority, begin, last_id, *last, parts, left_out, limit - len(found))
        )
        found += [Due(*row) for row in rows]
        if len(found) == limit:
            break
        if end is not None:
            return found, (priority, *end)
        priority, begin, last_id = _next_priority(connection, priority), -1, ""
    return found, None


def _next_priority(connection: apsw.Connection, below: int) -> int | None:
    """Return the next lower priority that pending tasks have, or may have: most have none of their own."""
    found: int | None = connection.execute(SQL["next_priority"], (below,)).get
    return max(found or 0, 0) if below > 0 else found


def orphans(
    connection: apsw.Connection, leases: Sequence[Lease], renewals: Renewals, limit: int
) -> tuple[list[Task], list[UnreadableTask]]:
    """List running tasks that were claimed under an earlier lease, oldest first; and what could not be read of them."""
    epochs = {part: lease.epoch for part, (lease, _) in held_of(connection, leases, renewals).items()}
    left = [serial for part, epoch, serial in connection.execute(SQL["running"]) if epoch < epochs.get(part, 0)]
    found: list[Task] = []
    passed: list[UnreadableTask] = []
    for serial in left:
        task = task_of(connection, connection.execute(SQL["body"], (serial,)).get, "", serial)
        if isinstance(task, UnreadableTask):
            passed.append(task)
            continue
        found.append(task)
        if len(found) == limit:
            break
    return found, passed
