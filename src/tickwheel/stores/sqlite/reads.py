"""Everything that is only read from the file."""

import logging
import re
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

import apsw
import msgspec

from tickwheel.stores.contract import ClockStep, Due, Finish, Lease, Rank
from tickwheel.stores.quarantine import NUMBERS, read_row
from tickwheel.stores.sqlite.connection import is_text
from tickwheel.stores.sqlite.renewals import Renewals
from tickwheel.stores.sqlite.statements import SQL
from tickwheel.tasks.fields import sayable
from tickwheel.tasks.record import Run, Status, Task, UnreadableTask

__all__ = [
    "Row",
    "clock_steps",
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
    "text_of",
]

Row = tuple[int, Task]  # with its serial

# What is due, but for what has text that cannot be read: to look at each is slow, and almost never needed.
READABLE: Final = {
    name: SQL[name].replace(
        "WHERE status = 0", "WHERE is_text(CAST(id AS BLOB)) AND is_text(CAST(handler AS BLOB)) AND status = 0"
    )
    for name in ("due", "overdue", "overdue_ranked")
}

# The same tasks, whatever their text is.
LOAD_BYTES: Final = SQL["load"].replace(" id,", " CAST(id AS BLOB),").replace(" handler,", " CAST(handler AS BLOB),")

RUNNING: Final = NUMBERS[Status.RUNNING]
PRIORITY_MAX: Final = 2**31  # above every one
LAST_ID: Final = "\U0010ffff"  # after every id
PASSED_MAX: Final = 10_000  # rows that are looked at in one call, where some are left out: some milliseconds

log = logging.getLogger("tickwheel.stores")

_decode_run = msgspec.json.Decoder(Run).decode
_attempt = attrgetter("attempt")


def task_of(row: tuple[Any, ...]) -> Task:
    """Read a task from its row, whose text may come as bytes: it may have been written by anything, and be no UTF-8."""
    columns = row[3:]
    if type(row[3]) is bytes or type(row[9]) is bytes:
        columns = (text_of(row[3]), *row[4:9], text_of(row[9]), *row[10:])
    return read_row(row[1], columns, row[2] if row[4] == RUNNING else None)


def text_of(written: bytes | str) -> str:
    """Return text as it is in a file, or as it is shown if it cannot be read."""
    if isinstance(written, str):
        return written
    try:
        return written.decode()
    except UnicodeDecodeError:
        return written.decode(errors="backslashreplace")


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
    found = {}
    try:
        rows = list(connection.execute(SQL["load"], (listed(ids),)))
    except UnicodeDecodeError:
        rows = list(connection.execute(LOAD_BYTES, (listed(ids),)))
    for row in rows:
        task = task_of(row)
        found[task.id] = row[0], task
    for task_id in ids:
        if "\\x" in task_id and task_id not in found and (row := _misspelled(connection, task_id)) is not None:
            found[task_id] = row
    return found


def _misspelled(connection: apsw.Connection, task_id: str) -> Row | None:
    """Read a task whose id is no UTF-8 by the id it is shown with."""
    written = re.sub(rb"\\x([0-9a-f]{2})", lambda byte: bytes.fromhex(byte[1].decode()), task_id.encode())
    if not is_text(written):
        for row in connection.execute(SQL["load_misspelled"], (written,)):
            return row[0], task_of(row)
    return None


def listed(values: Sequence[str] | Sequence[int]) -> str:
    """Write values as SQL takes a list of them: one statement for all is half the work of one for each."""
    try:
        return msgspec.json.encode(values).decode()
    except UnicodeEncodeError:  # no task is called that
        return listed([each for each in values if isinstance(each, str) and sayable(each)])


def counts(connection: apsw.Connection) -> dict[Status, int]:
    """Return how many tasks there are of each status."""
    counted = dict(connection.execute(SQL["counts"]))
    return {status: counted.get(number, 0) for status, number in NUMBERS.items()}


def changed_at(connection: apsw.Connection) -> int:
    """Return when anything was changed last, by the clock of whoever changed it."""
    [(moment,)] = connection.execute(SQL["changed_at"])
    return int(moment)


def clock_steps(connection: apsw.Connection) -> list[ClockStep]:
    """Return the steps of the clock that were kept last."""
    return sorted(ClockStep(*row) for row in connection.execute(SQL["clock_steps"]))


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
    return _due_of(connection, "due", (begin, last_id, until, parts, limit))


def _due_of(connection: apsw.Connection, name: str, bindings: tuple[Any, ...]) -> list[Due]:
    """List what is due; what has an id or handler that is no UTF-8 is looked for, and left out, only if it is there."""
    try:
        return [Due(*row) for row in connection.execute(SQL[name], bindings)]
    except UnicodeDecodeError:
        return [Due(*row) for row in connection.execute(READABLE[name], bindings)]


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
        end = _end_of(connection, f"overdue_end{ranked}", (*bound, PASSED_MAX)) if without else None
        last = end or (until, LAST_ID)
        bindings = (priority, begin, last_id, *last, parts, left_out, limit - len(found))
        found += _due_of(connection, f"overdue{ranked}", bindings)
        if len(found) == limit:
            break
        if end is not None:
            return found, (priority, *end)
        priority, begin, last_id = _next_priority(connection, priority), -1, ""
    return found, None


def _end_of(connection: apsw.Connection, name: str, bindings: tuple[Any, ...]) -> tuple[int, str] | None:
    found = connection.execute(SQL[name], bindings).fetchone()
    return None if found is None else (found[0], text_of(found[1]))


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
        [row] = connection.execute(SQL["load_running"], (serial,))
        task = task_of(row)
        if isinstance(task, UnreadableTask):
            passed.append(task)
            continue
        found.append(task)
        if len(found) == limit:
            break
    return found, passed
