"""Tasks in order, page by page: an index leads there, and what it cannot tell is compared task by task.

status, handler, id_prefix, due order      by an index, whatever the tables hold
tag, text, times                           in what is read, at most so many tasks a page
"""

from collections.abc import AsyncIterator
from typing import Any, Final

from tickwheel.stores import listing
from tickwheel.stores.contract import LOOKED_AT_MAX, Filter, Page, Total
from tickwheel.stores.postgres.reading import counts, part_of
from tickwheel.stores.postgres.rows import NUMBERS, sayable, task_of
from tickwheel.stores.postgres.sessions import Sessions
from tickwheel.stores.turns import by_turns
from tickwheel.tasks.record import Status, Task

__all__ = ["count", "query"]

BEYOND: Final = "\U0010ffff" * 256  # after a prefix: behind every id that begins with it, for none is that long
FIRST_MOMENT: Final = -1
LAST_MOMENT: Final = 2**62
GROWTH: Final = 4  # how many times more are read when what was read did not do

Placed = tuple[listing.Place, Task]


async def query(sessions: Sessions, wanted: Filter, partitions: int, after: listing.Place, limit: int) -> Page:
    """List tasks, newest first unless told."""
    tasks: list[Task] = []
    last, looked_at = after, 0  # what comes until there is on this page, or does not fit
    plain = listing.is_plain(wanted)
    async for place, task in _read(sessions, wanted, partitions, after, limit + 1, LOOKED_AT_MAX + 1):
        fitting = plain or listing.fits(task, wanted)
        if (fitting and len(tasks) == limit) or looked_at == LOOKED_AT_MAX:
            return Page(tasks=tasks, cursor=listing.cursor_of(last, wanted.order))
        if fitting:
            tasks.append(task)
        last, looked_at = place, looked_at + 1
    return Page(tasks=tasks, cursor=None)


async def count(sessions: Sessions, wanted: Filter, partitions: int, most: int) -> Total:
    """Count tasks; those of a status are counted already."""
    plain = listing.is_plain(wanted)
    if plain and wanted.handler is None and not wanted.id_prefix and wanted.order != "due":
        known = await counts(sessions)
        return Total(sum(known.values()) if wanted.status is None else known[wanted.status], exact=True)
    found, looked_at = 0, 0
    begin = listing.place_of(None, wanted.order)
    async for _, task in _read(sessions, wanted, partitions, begin, LOOKED_AT_MAX, most + 1):
        if looked_at == most:
            return Total(found, exact=False)
        found += plain or listing.fits(task, wanted)
        looked_at += 1
    return Total(found, exact=True)


async def _read(
    sessions: Sessions, wanted: Filter, partitions: int, after: listing.Place, first: int, most: int
) -> AsyncIterator[Placed]:
    """Read what an index can find, in order: as many as may do at first, and then more and more."""
    size = first
    while most > 0:
        size = min(size, most, LOOKED_AT_MAX)
        rows = await _rows(sessions, wanted, partitions, after, size)
        for row in rows:
            yield row
        if len(rows) < size:
            return
        after = rows[-1][0]
        most, size = most - size, size * GROWTH


async def _rows(sessions: Sessions, wanted: Filter, partitions: int, after: listing.Place, limit: int) -> list[Placed]:
    if not all(sayable(text) for text in (wanted.handler or "", wanted.id_prefix or "", after[1])):
        return []  # no task can be called that
    if wanted.order == "due":
        low = FIRST_MOMENT if wanted.due_after is None else wanted.due_after
        high = LAST_MOMENT if wanted.due_before is None else wanted.due_before
        given = (*after, low, high)
        rows = await by_turns(lambda each: sessions.fetch("list_due", *given, each), part_of, partitions, limit)
        return [((row[0], row[1]), task_of(*row[3:])) for row in rows]
    name, more = _listing(wanted)
    rows = await sessions.fetch(f"{name}_{wanted.order}", after[0], limit, *more)
    return [((row[0], ""), task_of(*row[1:])) for row in rows]


def _listing(wanted: Filter) -> tuple[str, list[Any]]:
    """Choose the statement that reads least, and what it wants to know."""
    status = None if wanted.status is None else NUMBERS[wanted.status]
    prefix = wanted.id_prefix or None
    beyond = None if prefix is None else prefix + BEYOND
    if wanted.status is Status.RUNNING:
        return "list_running", [wanted.handler, prefix, beyond]
    if prefix is not None:
        return "list_by_prefix", [status, wanted.handler, prefix, beyond]
    if wanted.handler is not None:
        return "list_by_handler", [status, wanted.handler]
    if status is not None:
        return "list_by_status", [status]
    return "list_all", []
