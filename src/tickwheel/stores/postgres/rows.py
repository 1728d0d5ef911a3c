"""Tasks and leases as the server takes and gives them: batches go as arrays, one for each column."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from tickwheel.stores.contract import Lease
from tickwheel.stores.quarantine import NUMBERS, Columns, read_row
from tickwheel.tasks.record import ENDED, LISTED, Run, Status, Task

__all__ = [
    "NUMBERS",
    "RUNNING",
    "STATUSES",
    "brief",
    "columns_of",
    "encode_run",
    "leases_of",
    "lines",
    "run_of",
    "task_of",
    "written",
]

T = TypeVar("T")

STATUSES: Final = LISTED
RUNNING: Final = NUMBERS[Status.RUNNING]

_decode_run = msgspec.json.Decoder(Run).decode
_encode = msgspec.json.Encoder().encode


def task_of(
    status: int,
    claimed_at: int,
    body: str,
    task_id: str,
    part: int,
    run_at: int,
    priority: int,
    version: int,
    attempt: int,
    finished_at: int | None,
    handler: str,
) -> Task:
    """Read a task; a claim is not in its body."""
    columns = Columns(task_id, status, part, run_at, priority, version, handler, attempt, finished_at)
    return read_row(body, columns, claimed_at if status == RUNNING else None)


def columns_of(tasks: Sequence[Task], bodies: Sequence[bytes]) -> tuple[Any, ...]:
    """Return tasks as the columns id, handler, body, part, status, run_at, priority, version, attempt, finished_at.

    finished_at is counted from 1, and 0 if there is none.
    """
    return (
        [task.id for task in tasks],
        brief([task.handler for task in tasks]),
        lines(bodies),
        written([task.partition for task in tasks]),
        brief([NUMBERS[task.listed_status] for task in tasks]),
        written([task.run_at for task in tasks]),
        brief([task.priority for task in tasks]),
        brief([task.version for task in tasks]),
        brief([task.attempt for task in tasks]),
        brief([_ended_at(task) + 1 for task in tasks]),
    )


def brief(column: list[T]) -> list[T]:
    """Say once what is the same in all rows; a column with its end missing goes on like its first row."""
    return column[:1] if column.count(column[0]) == len(column) else column


def written(numbers: list[int]) -> str:
    """Write an array of numbers as text, which the server reads faster than the driver encodes it."""
    return f"{{{str(numbers)[1:-1]}}}"


def lines(bodies: Iterable[bytes]) -> str:
    """Write JSON with a body in each line: it has no line ends of its own."""
    return b"\n".join(bodies).decode()


def _ended_at(task: Task) -> int:
    return task.finished_at if task.status in ENDED and task.finished_at is not None else -1


def leases_of(leases: Iterable[Lease]) -> tuple[list[int], list[int], list[str]]:
    """Return leases as the columns part, epoch, nonce."""
    tokens = dict.fromkeys((lease.partition, lease.epoch, lease.nonce) for lease in leases)
    return [part for part, _, _ in tokens], [epoch for _, epoch, _ in tokens], [nonce for _, _, nonce in tokens]


def encode_run(run: Run | None) -> bytes:
    """Write a run as JSON, and none as nothing."""
    return b"" if run is None else _encode(run)


def run_of(body: str) -> Run:
    """Read a run."""
    return _decode_run(body)
