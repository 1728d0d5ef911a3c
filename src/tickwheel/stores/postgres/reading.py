"""Everything that is only read."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from tickwheel.stores.contract import Due, Filter, Lease, Page
from tickwheel.stores.postgres.rows import NUMBERS, STATUSES, leases_of, run_of, sayable, task_of
from tickwheel.stores.postgres.sessions import Record, Sessions
from tickwheel.tasks.record import Run, Status, Task

__all__ = ["counts", "due", "get", "history", "leases", "orphans", "query"]

BEYOND: Final = "\U0010ffff" * 256  # after a prefix: behind every id that begins with it, for none is that long
FAIR: Final = 2  # times its fair share of a page: what is asked of each partition at first
SPARE: Final = 16  # and so many more, for pages that are small


async def get(sessions: Sessions, ids: Sequence[str]) -> list[Task | None]:
    """Return tasks by id."""
    rows = await sessions.fetch("load", [each for each in set(ids) if sayable(each)])
    found = {task.id: task for task in (task_of(*row) for row in rows)}
    return [found.get(each) for each in ids]


async def query(sessions: Sessions, wanted: Filter, before: int, limit: int) -> Page:
    """List tasks, newest first."""
    name, more = _listing(wanted)
    if not all(sayable(text) for text in (wanted.handler or "", wanted.id_prefix or "")):
        return Page(tasks=[], cursor=None)
    rows = await sessions.fetch(name, before, limit + 1, *more)
    cursor = str(rows[limit - 1][0]) if len(rows) > limit else None
    return Page(tasks=[task_of(*row[1:]) for row in rows[:limit]], cursor=cursor)


def _listing(wanted: Filter) -> tuple[str, list[Any]]:
    """Choose the statement that reads least, and what it wants to know."""
    status = None if wanted.status is None else NUMBERS[wanted.status]
    if wanted.status is Status.RUNNING:
        prefix = wanted.id_prefix or None
        return "list_running", [wanted.handler, prefix, prefix and prefix + BEYOND]
    if wanted.id_prefix:
        return "list_by_prefix", [status, wanted.handler, wanted.id_prefix, wanted.id_prefix + BEYOND]
    if wanted.handler is not None:
        return "list_by_handler", [status, wanted.handler]
    if status is not None:
        return "list_by_status", [status]
    return "list_all", []


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
    """List what comes due in owned partitions, by run_at and id.

    Each partition has an order of its own, and gives its first few: a little more than its share of the page. That is
    the page, up to where the first partition that has more to give stopped; if that is too short, each gives as much
    as a whole page.
    """
    if not owned:
        return []
    begin = after or (-1, "")
    each = min(FAIR * limit // len(owned) + SPARE, limit)
    rows = await sessions.fetch("due", *leases_of(owned), now, *begin, until, each)
    known = _known(rows, each)
    if each < limit and known is not None and known < limit:
        rows = await sessions.fetch("due", *leases_of(owned), now, *begin, until, limit)
    return [Due(*row) for row in rows[:limit]]


def _known(rows: Sequence[Record], each: int) -> int | None:
    """Return how many rows come before what a partition may have held back; None if there is no such thing."""
    given: Counter[int] = Counter()
    for number, row in enumerate(rows, 1):
        given[row[2]] += 1
        if given[row[2]] == each:
            return number
    return None


async def orphans(sessions: Sessions, owned: Sequence[Lease], now: int | None, limit: int) -> list[Task]:
    """List running tasks that were claimed under an earlier lease, oldest first."""
    return [task_of(*row) for row in await sessions.fetch("orphans", *leases_of(owned), now, limit)]
