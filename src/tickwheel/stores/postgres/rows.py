"""Tasks and leases as the server takes and gives them: batches go as arrays, one for each column."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from tickwheel.errors import StoreError
from tickwheel.stores import steps
from tickwheel.stores.contract import Lease
from tickwheel.tasks.record import ENDED, Run, Status, Task

__all__ = ["NUMBERS", "RUNNING", "STATUSES", "columns_of", "encode_run", "leases_of", "run_of", "task_of"]

STATUSES: Final = list(Status)  # a status is kept as its place in here
NUMBERS: Final = {status: number for number, status in enumerate(STATUSES)}
RUNNING: Final = NUMBERS[Status.RUNNING]

_decode_task = msgspec.json.Decoder(Task).decode
_decode_run = msgspec.json.Decoder(Run).decode
_encode = msgspec.json.Encoder().encode


def task_of(status: int, claimed_at: int, body: str) -> Task:
    """Read a task; a claim is not in its body."""
    try:
        task = _decode_task(body)
    except (msgspec.DecodeError, ValueError) as error:
        raise StoreError(f"a task in the store cannot be read ({error}): {body!r:.200}") from error
    if status == RUNNING and task.status is not Status.RUNNING:
        return steps.claim(task, claimed_at)
    return task


def columns_of(tasks: Sequence[Task], bodies: Sequence[bytes]) -> tuple[list[Any], ...]:
    """Return tasks as the columns id, handler, body, part, status, run_at, priority, version, attempt, finished_at.

    A column of nothing but 0 is empty, and finished_at is counted from 1: to send a number takes as long as to write
    it.
    """
    return (
        [task.id for task in tasks],
        [task.handler for task in tasks],
        [body.decode() for body in bodies],
        _sparse([task.partition for task in tasks]),
        _sparse([NUMBERS[task.status] for task in tasks]),
        _sparse([task.run_at for task in tasks]),
        _sparse([task.priority for task in tasks]),
        _sparse([task.version for task in tasks]),
        _sparse([task.attempt for task in tasks]),
        _sparse([_ended_at(task) + 1 for task in tasks]),
    )


def _sparse(numbers: list[int]) -> list[int]:
    return numbers if any(numbers) else []


def _ended_at(task: Task) -> int:
    return task.finished_at if task.status in ENDED and task.finished_at is not None else -1


def leases_of(leases: Iterable[Lease]) -> tuple[list[int], list[int], list[str]]:
    """Return leases as the columns part, epoch, nonce."""
    tokens = dict.fromkeys((lease.partition, lease.epoch, lease.nonce) for lease in leases)
    return [part for part, _, _ in tokens], [epoch for _, epoch, _ in tokens], [nonce for _, _, nonce in tokens]


def encode_run(run: Run) -> str:
    """Write a run as JSON."""
    return _encode(run).decode()


def run_of(body: str) -> Run:
    """Read a run."""
    return _decode_run(body)
