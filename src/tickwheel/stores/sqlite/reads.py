"""Everything that is only read from the file."""

from collections.abc import Sequence
from itertools import islice
from typing import Final

import apsw
import msgspec

from tickwheel.errors import StoreError
from tickwheel.stores.contract import Due, Lease
from tickwheel.stores.sqlite.statements import SQL
from tickwheel.tasks.record import Run, Status, Task

__all__ = ["NUMBERS", "Row", "counts", "due", "get", "held_of", "history", "leases", "load", "orphans", "task_of"]

Row = tuple[int, Task]  # with its serial

STATUSES: Final = list(Status)  # a status is kept as its place in here
NUMBERS: Final = {status: number for number, status in enumerate(STATUSES)}

_decode_task = msgspec.json.Decoder(Task).decode
_decode_run = msgspec.json.Decoder(Run).decode


def task_of(body: bytes) -> Task:
    """Read a task."""
    try:
        return _decode_task(body)
    except (msgspec.DecodeError, ValueError) as error:
        raise StoreError(f"a task in the store cannot be read ({error}): {body!r:.200}") from error


def held_of(connection: apsw.Connection, leases: Sequence[Lease], now: int) -> dict[int, tuple[Lease, int]]:
    """Leave out leases that are not their holders' any more; return the others by partition, with their checkpoint."""
    rows = list(connection.execute(SQL["partitions"]))
    held = {}
    for lease in leases:
        if 0 <= lease.partition < len(rows):
            part, epoch, nonce, expires_at, checkpoint = rows[lease.partition]
            if lease.epoch == epoch and lease.nonce == nonce and now < expires_at:
                held[part] = lease, checkpoint
    return held


def get(connection: apsw.Connection, ids: Sequence[str]) -> list[Task | None]:
    """Return tasks by id."""
    found = load(connection, ids)
    return [found[task_id][1] if task_id in found else None for task_id in ids]


def load(connection: apsw.Connection, ids: Sequence[str]) -> dict[str, Row]:
    """Read those tasks that are there."""
    rows = connection.execute(SQL["load"], (listed(ids),))
    loaded = ((serial, task_of(body)) for serial, body in rows)
    return {row[1].id: row for row in loaded}


def listed(values: Sequence[str] | Sequence[int]) -> str:
    """Write values as SQL takes a list of them: one statement for all is half the work of one for each."""
    return msgspec.json.encode(values).decode()


def counts(connection: apsw.Connection) -> dict[Status, int]:
    """Return how many tasks there are of each status."""
    return {STATUSES[number]: tasks for number, tasks in connection.execute(SQL["counts"])}


def history(connection: apsw.Connection, task_id: str, limit: int) -> list[Run]:
    """Return the runs of a task, latest first."""
    return [_decode_run(body) for (body,) in connection.execute(SQL["history"], (task_id, limit))]


def leases(connection: apsw.Connection, now: int) -> list[Lease]:
    """List the leases that are held now."""
    return [
        Lease(partition=part, node=node, epoch=epoch, nonce="", expires_at=expires_at, checkpoint=checkpoint)
        for part, node, epoch, expires_at, checkpoint in connection.execute(SQL["leases"], (now,))
    ]


def due(
    connection: apsw.Connection,
    leases: Sequence[Lease],
    now: int,
    until: int,
    after: tuple[int, str] | None,
    limit: int,
) -> list[Due]:
    """List what comes due in owned partitions."""
    parts = listed(list(held_of(connection, leases, now)))
    begin, last_id = after or (-1, "")
    return [Due(*row) for row in connection.execute(SQL["due"], (begin, last_id, until, parts, limit))]


def orphans(connection: apsw.Connection, leases: Sequence[Lease], now: int, limit: int) -> list[Task]:
    """List running tasks that were claimed under an earlier lease, oldest first."""
    epochs = {part: lease.epoch for part, (lease, _) in held_of(connection, leases, now).items()}
    running = connection.execute(SQL["running"])
    left = list(islice(((serial,) for part, epoch, serial in running if epoch < epochs.get(part, 0)), limit))
    running.close()
    return [task_of(body) for (body,) in connection.executemany(SQL["body"], left)]
