"""Everything that is only read."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from tickwheel.stores import validation
from tickwheel.stores.contract import Due, Lease
from tickwheel.stores.paging import by_turns
from tickwheel.stores.postgres.rows import STATUSES, leases_of, run_of, task_of
from tickwheel.stores.postgres.sessions import Sessions
from tickwheel.tasks.record import Run, Status, Task, UnreadableTask

__all__ = ["PART", "counts", "due", "get", "history", "leases", "orphans"]

PART: Final = itemgetter(2)  # where the partition is in a row of what is due


async def get(sessions: Sessions, ids: Sequence[str]) -> list[Task | None]:
    """Return tasks by id."""
    rows = await sessions.fetch("load", [each for each in set(ids) if validation.sayable(each)])
    found = {task.id: task for task in (task_of(*row) for row in rows)}
    return [found.get(each) for each in ids]


async def counts(sessions: Sessions) -> dict[Status, int]:
    """Return how many tasks there are of each status."""
    [row] = await sessions.fetch("counts")
    return dict(zip(STATUSES, row, strict=True))


async def history(sessions: Sessions, task_id: str, limit: int) -> list[Run]:
    """Return the runs of a task, latest first."""
    rows = await sessions.fetch("history", task_id, limit) if validation.sayable(task_id) else []
    return [run_of(body) for (body,) in rows]


async def leases(sessions: Sessions, now: int | None) -> list[Lease]:
    """List the leases that are held now."""
    return [
        Lease(partition=part, node=node, epoch=epoch, nonce="", expires_at=expires_at, checkpoint=checkpoint)
        for part, node, epoch, expires_at, checkpoint in await sessions.fetch("leases", now)
    ]


async def due(
    sessions: Sessions,
    owned: Sequence[Lease],
    now: int | None,
    until: int,
    after: tuple[int, str] | None,
    limit: int,
) -> list[Due]:
    """List what comes due in owned partitions, by run_at and id."""
    begin = after or (-1, "")
    given = (*leases_of(owned), now, *begin, until)
    if not owned:
        return []
    rows = await by_turns(lambda each: sessions.fetch("due", *given, each), PART, len(owned), limit)
    return [Due(*row) for row in rows]


async def orphans(
    sessions: Sessions, owned: Sequence[Lease], now: int | None, limit: int
) -> tuple[list[Task], list[UnreadableTask]]:
    """List running tasks that were claimed under an earlier lease, oldest first; and what could not be read of them."""
    most = limit
    while True:
        rows = await sessions.fetch("orphans", *leases_of(owned), now, most)
        tasks = [task_of(*row) for row in rows]
        passed = [task for task in tasks if isinstance(task, UnreadableTask)]
        found = [task for task in tasks if not isinstance(task, UnreadableTask)]
        if len(rows) < most or len(found) >= limit:
            return found[:limit], passed
        most *= 2  # there may be more beyond what cannot be read
