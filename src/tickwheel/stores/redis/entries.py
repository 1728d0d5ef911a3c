"""Tasks and leases as scripts take and give them: see lua/common.lua for what is kept where."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

import msgspec

from tickwheel.errors import StoreError
from tickwheel.stores import validation
from tickwheel.stores.contract import Due, Lease
from tickwheel.tasks import transitions
from tickwheel.tasks.record import ENDED, LISTED, Run, Status, Task

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
NUMBERS: Final = {status: number for number, status in enumerate(STATUSES)}

Token = tuple[int, int, str]  # a lease: partition, epoch, nonce

_decode_run = msgspec.json.Decoder(Run).decode
_encode = msgspec.json.Encoder().encode
_header_of = attrgetter("version", "attempt", "priority", "created_at", "handler")


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A task as it was read: changed on condition that header and mark are still these."""

    task: Task
    header: str
    mark: str  # '' if it does not run

    @classmethod
    def of(cls, value: bytes, mark: bytes | None) -> "Entry":
        """Read what is in the store; a claim is not in the task, but in its mark."""
        header, _, body = value.partition(b"\n")
        try:
            task = validation.decode(body)
        except (msgspec.DecodeError, ValueError) as error:
            raise StoreError(f"a task in the store cannot be read ({error}): {body!r:.200}") from error
        if mark is not None and task.status is not Status.RUNNING:
            task = transitions.claim(task, int(mark.partition(b" ")[2]))
        return cls(task, header.decode(), "" if mark is None else mark.decode())

    @property
    def serial(self) -> int:
        """Its place in the order of arrival."""
        return int(self.header.rpartition(" ")[2])

    @property
    def prefix(self) -> str:
        """The header without the serial."""
        return self.header.rpartition(" ")[0] + " "


def prefix_of(task: Task) -> str:
    """Write a header but for its serial: what a script compares."""
    return f"{task.version} {task.attempt} {task.priority} {task.created_at} {_quoted(task.handler)} "


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


def due_of(run_at: int, task_id: str, part: int, header: bytes) -> Due:
    """Read what a wheel needs to know."""
    version, _, priority, _, rest = header.split(b" ", 4)
    handler: str = msgspec.json.decode(rest.rpartition(b" ")[0])
    return Due(run_at, task_id, part, int(priority), int(version), handler)


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
