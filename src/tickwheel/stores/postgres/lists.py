"""Tasks in order, page by page: an index leads there, and what it cannot tell is compared task by task.

status, handler, id_prefix, due order      by an index, whatever the tables hold
tag, text, times                           in what is read, at most so many tasks a page
"""

from functools import partial
from typing import Any, Final

from tickwheel.stores import listing, paging, validation
from tickwheel.stores.contract import Filter, Page, Total
from tickwheel.stores.postgres.reading import PART, counts
from tickwheel.stores.postgres.rows import NUMBERS, task_of
from tickwheel.stores.postgres.sessions import Sessions
from tickwheel.tasks.record import Status

__all__ = ["count", "query"]

BEYOND: Final = "\U0010ffff" * 256  # after a prefix: behind every id that begins with it, for none is that long
FIRST_MOMENT: Final = -1
LAST_MOMENT: Final = 2**62


async def query(sessions: Sessions, wanted: Filter, partitions: int, after: listing.Place, limit: int) -> Page:
    """List tasks, newest first by default."""
    return await paging.query(
        partial(_rows, sessions, wanted, partitions), wanted, after, limit, exact=listing.is_plain(wanted)
    )


async def count(sessions: Sessions, wanted: Filter, partitions: int, most: int) -> Total:
    """Count tasks; those of a status are counted already."""
    plain = listing.is_plain(wanted)
    if plain and wanted.handler is None and not wanted.id_prefix and wanted.order != "due":
        known = await counts(sessions)
        return Total(sum(known.values()) if wanted.status is None else known[wanted.status], exact=True)
    return await paging.count(partial(_rows, sessions, wanted, partitions), wanted, most, exact=plain)


async def _rows(
    sessions: Sessions, wanted: Filter, partitions: int, after: listing.Place, limit: int
) -> list[paging.Placed]:
    if not all(validation.sayable(text) for text in (wanted.handler or "", wanted.id_prefix or "", after[1])):
        return []  # no task can be called that
    if wanted.order == "due":
        low = FIRST_MOMENT if wanted.due_after is None else wanted.due_after
        high = LAST_MOMENT if wanted.due_before is None else wanted.due_before
        given = (*after, low, high)
        rows = await paging.by_turns(lambda each: sessions.fetch("list_due", *given, each), PART, partitions, limit)
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
