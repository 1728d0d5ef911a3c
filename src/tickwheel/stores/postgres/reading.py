"""Everything that is only read."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from tickwheel.stores.contract import Due, Lease
from tickwheel.stores.postgres.rows import STATUSES, leases_of, run_of, sayable, task_of
from tickwheel.stores.postgres.sessions import Record, Sessions
from tickwheel.tasks.record import Run, Status, Task

__all__ = ["by_turns", "counts", "due", "get", "history", "leases", "orphans"]

PART: Final = 2  # where the partition is in a row of what is due
FAIR: Final = 2  # times its fair share of a page: what is asked of each partition at first
SPARE: Final = 16  # and so many more, for pages that are small


async def get(sessions: Sessions, ids: Sequence[str]) -> list[Task | None]:
    """Return tasks by id."""
    rows = await sessions.fetch("load", [each for each in set(ids) if sayable(each)])
    found = {task.id: task for task in (task_of(*row) for row in rows)}
    return [found.get(each) for each in ids]


async def counts(sessions: Sessions) -> dict[Status, int]:
    """Return how many tasks there are of each status."""
    [row] = await sessions.fetch("counts")
    return dict(zip(STATUSES, row, strict=True))


async def history(sessions: Sessions, task_id: str, limit: int) -> list[Run]:
    """Return the runs of a task, latest first."""
    rows = await sessions.fetch("history", task_id, limit) if sayable(task_id) else []
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
    rows = await by_turns(lambda each: sessions.fetch("due", *given, each), len(owned), limit) if owned else []
    return [Due(*row) for row in rows]


async def by_turns(fetch: Callable[[int], Awaitable[list[Record]]], partitions: int, limit: int) -> list[Record]:
    """Return the first rows of many partitions, each of which has an order of its own.

    Each gives its first few: a little more than its share. They are the first of all, up to where the first partition
    that may have more to give stopped; if that is too short, each gives as much as is wanted of all.
    """
    each = min(FAIR * limit // partitions + SPARE, limit)
    rows = await fetch(each)
    known = _known(rows, each)
    if each < limit and known is not None and known < limit:
        rows = await fetch(limit)
    return rows[:limit]


def _known(rows: Sequence[Record], each: int) -> int | None:
    """Return how many rows come before what a partition may have held back; None if there is no such thing."""
    given: Counter[int] = Counter()
    for number, row in enumerate(rows, 1):
        part = row[PART]
        given[part] += 1
        if given[part] == each:
            return number
    return None


async def orphans(sessions: Sessions, owned: Sequence[Lease], now: int | None, limit: int) -> list[Task]:
    """List running tasks that were claimed under an earlier lease, oldest first."""
    return [task_of(*row) for row in await sessions.fetch("orphans", *leases_of(owned), now, limit)]
