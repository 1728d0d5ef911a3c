"""Rows that cannot be read: each is set aside by itself, and nobody else waits for it.

    row ---- decode ----> Task                         claimed, listed, changed
               `--------> UnreadableTask               listed with its raw data, deleted; never claimed or changed

What cannot be read here may have been written by a newer version: a node of that version reads and runs it. So the row
stays as it is, and nothing about it is written down.
"""

import logging
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from tickwheel.tasks.record import Status, UnreadableTask

__all__ = ["Quarantine", "unreadable"]

log = logging.getLogger("tickwheel.stores")

REPORTED_MAX: Final = 10_000  # rows that are remembered; of more, the oldest are logged once more


def unreadable(
    body: bytes,
    error: Exception,
    *,
    id: str,  # noqa: A002 - as the field is called
    partition: int,
    status: Status,
    run_at: int,
    priority: int,
    version: int,
    finished_at: int | None,
    handler: str,
) -> UnreadableTask:
    """Make of a row that cannot be decoded what can be said about it."""
    return UnreadableTask(
        id=id,
        handler=handler,
        partition=partition,
        status=Status.PENDING if status is Status.PAUSED else status,
        paused=status is Status.PAUSED,
        priority=priority,
        run_at=run_at,
        occurrence_at=run_at,
        created_at=0,
        finished_at=finished_at,
        version=version,
        reason=f"unreadable: {error}",
        why=str(error),
        raw=body.decode(errors="backslashreplace"),
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
