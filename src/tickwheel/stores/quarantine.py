"""Rows that cannot be read: each is set aside by itself, and nobody else waits for it.

    row ---- read_row ----> Task                       claimed, listed, changed
                 `--------> UnreadableTask             listed with its raw data, deleted; never claimed or changed

What is read as a task can be written again, now and after any step of its life: its data are JSON, within bounds, and
what else the row says agrees with them. Every store reads its rows here, so that nothing raises for them later.

What cannot be read here may have been written by a newer version: a node of that version reads and runs it. So the row
stays as it is, and nothing about it is written down.
"""

import logging
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from tickwheel.stores import validation
from tickwheel.tasks.fields import MOMENT_MAX
from tickwheel.tasks.record import ENDED, LISTED, Status, Task, UnreadableTask
from tickwheel.tasks.transitions import claim

__all__ = ["NUMBERS", "Columns", "Quarantine", "read_row", "unreadable"]

log = logging.getLogger("tickwheel.stores")

NUMBERS: Final = {status: number for number, status in enumerate(LISTED)}

REPORTED_MAX: Final = 10_000  # rows that are remembered; of more, the oldest are logged once more


class Columns(NamedTuple):
    """What a row says of a task besides its data; None where a store has no such column."""

    id: str
    status: int | None = None  # its number in `LISTED`
    partition: int | None = None
    run_at: int | None = None
    priority: int | None = None
    version: int | None = None
    handler: str | None = None
    attempt: int | None = None
    finished_at: int | None = None


def read_row(body: bytes | str, columns: Columns | tuple[Any, ...], claimed_at: int | None = None) -> Task:
    """Read a task, or what can be said of it; some stores write down apart from it that and when it was claimed.

    The columns may be given as any tuple of theirs.
    """
    try:
        task = validation.decode(body)
        if claimed_at is not None and task.status is not Status.RUNNING:
            task = claim(task, claimed_at)
        attempt, finished_at = columns[7:]
        number = LISTED.index(task.listed_status)  # most wait, and are found at once
        said = (
            task.id, number, task.partition, task.run_at, task.priority, task.version, task.handler,
            attempt if attempt is None else task.attempt, finished_at,
        )  # fmt: skip
        if said != columns or (finished_at is not None and task.status not in ENDED):
            check_columns(task, number, Columns(*columns))
    except (ValueError, RecursionError) as error:
        return unreadable(body, error, Columns(*columns), claimed=claimed_at is not None)
    return task


def check_columns(task: Task, number: int, columns: Columns) -> None:
    """Raise `ValueError` if a row says something else than its data: it would be looked for where it is not."""
    if columns.finished_at is not None and task.status not in ENDED:
        raise ValueError(f"its status is {task.status} in its data, and it is over by its row")
    if columns.id != task.id:
        raise ValueError(f"it has the data of task {task.id!r:.300}")
    if columns.status not in (None, number):
        raise ValueError(f"its status is {task.listed_status} in its data, and number {columns.status} in its row")
    for name in ("partition", "run_at", "priority", "version", "handler", "attempt"):
        here, there = getattr(task, name), getattr(columns, name)
        if there not in (None, here):
            raise ValueError(f"its {name} is {here!r:.300} in its data, and {there!r:.300} in its row")


class PartialTask(msgspec.Struct):
    """What can be read of data that are JSON all the same, where a store has no columns."""

    status: Status = Status.PENDING
    paused: bool = False
    partition: int = 0
    run_at: int = 0
    priority: int = 0
    version: int = 0
    handler: str = ""
    attempt: int = 0
    finished_at: int | None = None


_decode_partial: Final = msgspec.json.Decoder(PartialTask).decode


def complete_columns(body: bytes | str, columns: Columns) -> Columns:
    """Fill in from the data what a row does not say itself, as far as that can be read."""
    if columns.status is not None:
        return columns
    try:
        seen = _decode_partial(body)
    except (ValueError, RecursionError):
        return columns
    status = Status.PAUSED if seen.paused and seen.status is Status.PENDING else seen.status
    known = {name: value for name, value in columns._asdict().items() if value is not None}
    named = {name: getattr(seen, name) for name in Columns._fields if name not in ("id", "status")}
    return Columns(**{**named, "status": NUMBERS[status], **known})


def unreadable(body: bytes | str, error: Exception, columns: Columns, *, claimed: bool = False) -> UnreadableTask:
    """Make of a row that cannot be read what can be said about it; a status that there is not is taken for pending."""
    columns = complete_columns(body, columns)
    run_at = min(max(columns.run_at or 0, 0), MOMENT_MAX)  # whatever it is, it has to be shown
    number = columns.status or 0
    status = LISTED[number] if 0 <= number < len(LISTED) else Status.PENDING
    status = Status.RUNNING if claimed else status
    return UnreadableTask(
        id=columns.id,
        handler=columns.handler or "",
        partition=columns.partition or 0,
        status=Status.PENDING if status is Status.PAUSED else status,
        paused=status is Status.PAUSED,
        priority=columns.priority or 0,
        run_at=run_at,
        occurrence_at=run_at,
        created_at=0,
        finished_at=None if columns.finished_at is None else min(max(columns.finished_at, 0), MOMENT_MAX),
        version=columns.version or 0,
        attempt=columns.attempt or 0,
        reason=f"unreadable: {error}",
        why=str(error),
        raw=body.decode(errors="backslashreplace") if isinstance(body, bytes) else body,
    )


class Quarantine:
    """Which rows one store has found unreadable, so that each is logged once and not with every scan."""

    def __init__(self) -> None:
        self._reported: OrderedDict[tuple[str, int], None] = OrderedDict()

    def report(self, found: Iterable[UnreadableTask]) -> None:
        """Log what is new among rows that were passed over; one that was written since is new."""
        for task in found:
            row = (task.id, task.version)
            if row not in self._reported:
                log.warning(
                    "task %r cannot be read by this version and does not run here (%s); `tickwheel show` prints what "
                    "is stored, upgrade this process or delete the task",
                    task.id,
                    task.why,
                )
            self._reported[row] = None
            self._reported.move_to_end(row)
            if len(self._reported) > REPORTED_MAX:
                self._reported.popitem(last=False)
