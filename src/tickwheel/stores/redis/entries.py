"""Tasks and leases as scripts take and give them: see lua/common.lua for what is kept where."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

import msgspec

from tickwheel.stores.contract import Due, Lease
from tickwheel.stores.quarantine import NUMBERS, Columns, read_row, unreadable
from tickwheel.tasks.record import ENDED, LISTED, Run, Task, UnreadableTask

__all__ = [
    "NUMBERS",
    "STATUSES",
    "Entry",
    "Token",
    "due_of",
    "encode_run",
    "leases_of",
    "moment_of",
    "prefix_of",
    "prefixes_of",
    "rows_of",
    "run_of",
    "value_of",
]

STATUSES: Final = LISTED

Token = tuple[int, int, str]  # a lease: partition, epoch, nonce

_decode_text = msgspec.json.Decoder(str).decode
_decode_run = msgspec.json.Decoder(Run).decode
_encode = msgspec.json.Encoder().encode
_header_of = attrgetter("version", "attempt", "priority", "created_at", "handler")


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A task as it was read: changed on condition that header and mark are still these."""

    task: Task
    header: str
    mark: str  # '' if it does not run

    @classmethod
    def of(cls, task_id: str, part: int, value: bytes, mark: bytes | None) -> "Entry":
        """Read what is in the store, or what can be said of it; a claim is not in the task, but in its mark."""
        written, _, body = value.partition(b"\n")
        header = written.decode(errors="surrogateescape")
        columns = Columns(task_id, partition=part)
        claimed_at = None if mark is None else int(mark.partition(b" ")[2])
        task = read_row(body, columns, claimed_at)
        if not isinstance(task, UnreadableTask) and not _agrees(header, task, claimed=mark is not None):
            why = ValueError(f"header mismatch: {header!r:.300} does not agree with its data")
            task = unreadable(body, why, columns, claimed=mark is not None)
        return cls(task, header, "" if mark is None else mark.decode())

    @property
    def serial(self) -> int:
        """Its place in the order of arrival."""
        return int(self.header.rpartition(" ")[2])

    @property
    def prefix(self) -> str:
        """The header without the serial."""
        return self.header.rpartition(" ")[0] + " "


def prefix_of(task: Task, claims: int = 0) -> str:
    """Write a header but for its serial, as it was so many claims ago: what a script compares."""
    counted = f"{task.version - claims} {task.attempt - claims}"
    return f"{counted} {task.priority} {task.created_at} {_quoted(task.handler)} "


def _agrees(header: str, task: Task, *, claimed: bool) -> bool:
    """Tell whether a header goes with a task as it is, or as it was before its claim."""
    head, _, serial = header.rpartition(" ")
    return serial.isdigit() and (head + " " == prefix_of(task) or (claimed and head + " " == prefix_of(task, 1)))


def prefixes_of(tasks: Sequence[Task]) -> list[str]:
    """Write the same for many tasks, of which most are alike."""
    written: dict[tuple[Any, ...], str] = {}
    prefixes = []
    for task, header in zip(tasks, map(_header_of, tasks), strict=True):
        prefix = written.get(header)
        if prefix is None:
            prefix = written[header] = prefix_of(task)
        prefixes.append(prefix)
    return prefixes


def value_of(task: Task, serial: int, body: bytes) -> str:
    """Write a task as it is kept."""
    return f"{prefix_of(task)}{serial}\n{body.decode()}"


@lru_cache(maxsize=1024)
def _quoted(handler: str) -> str:
    """Write a handler so that it has no newline; there are few of them."""
    return _encode(handler).decode()


def moment_of(task: Task) -> int:
    """Return by when a task is found: when it is due, or when it was over."""
    return (task.finished_at or 0) if task.status in ENDED else task.run_at


def due_of(run_at: int, task_id: str, part: int, header: bytes) -> Due | None:
    """Read what a wheel needs to know; None if that is damaged."""
    try:
        version, _, priority, _, rest = header.split(b" ", 4)
        handler = _decode_text(rest.rpartition(b" ")[0])
        return Due(run_at, task_id, part, int(priority), int(version), handler)
    except ValueError:
        return None


def leases_of(leases: Iterable[Lease], partitions: int) -> list[Token]:
    """Return leases as scripts take them, without copies and what cannot be one."""
    tokens = ((lease.partition, lease.epoch, lease.nonce) for lease in leases)
    return [token for token in dict.fromkeys(tokens) if 0 <= token[0] < partitions]


def rows_of(answer: Sequence[Any], width: int) -> list[Sequence[Any]]:
    """Divide what a script answered into rows."""
    return [answer[first : first + width] for first in range(0, len(answer), width)]


def encode_run(run: Run | None) -> str:
    """Write a run: what it is found by, and itself as JSON; or nothing."""
    return "" if run is None else f"{run.attempt} {run.finished_at} {_encode(run).decode()}"


def run_of(body: bytes) -> Run:
    """Read a run."""
    return _decode_run(body)
