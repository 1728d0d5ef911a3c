"""Tasks in order, page by page: an index leads there, and what it cannot tell is compared task by task.

status, handler, id_prefix, due order      by an index, whatever the file holds
tag, text, times                           in what is read, at most so many tasks a page
"""

import sys
from collections.abc import Iterator
from typing import Any, Final

import apsw

from tickwheel.stores import listing
from tickwheel.stores.contract import LOOKED_AT_MAX, Filter, Page, Total
from tickwheel.stores.quarantine import NUMBERS
from tickwheel.stores.sqlite.reads import counts, task_of
from tickwheel.stores.sqlite.statements import SQL
from tickwheel.tasks.record import Task

__all__ = ["count", "query"]

SURROGATES: Final = 0xD800  # the first of those that are no characters
AFTER_SURROGATES: Final = 0xE000

FIRST_MOMENT: Final = -1
LAST_MOMENT: Final = 2**62


def query(connection: apsw.Connection, wanted: Filter, after: listing.Place, limit: int) -> Page:
    """List tasks, newest first by default."""
    plain = listing.is_plain(wanted)
    tasks: list[Task] = []
    last = after  # what comes until there is on this page, or does not fit
    for number, (place, task) in enumerate(rows(connection, wanted, after, limit + 1 if plain else LOOKED_AT_MAX + 1)):
        fitting = plain or listing.fits(task, wanted)
        if (fitting and len(tasks) == limit) or number == LOOKED_AT_MAX:
            return Page(tasks=tasks, cursor=listing.cursor_of(last, wanted.order))
        if fitting:
            tasks.append(task)
        last = place
    return Page(tasks=tasks, cursor=None)


def count(connection: apsw.Connection, wanted: Filter, most: int) -> Total:
    """Count tasks; those of a status are counted already."""
    if listing.is_plain(wanted) and wanted.handler is None and not wanted.id_prefix and wanted.order != "due":
        known = counts(connection)
        return Total(sum(known.values()) if wanted.status is None else known[wanted.status], exact=True)
    plain = listing.is_plain(wanted)
    found = 0
    for number, (_, task) in enumerate(rows(connection, wanted, listing.place_of(None, wanted.order), most + 1)):
        if number == most:
            return Total(found, exact=False)
        found += plain or listing.fits(task, wanted)
    return Total(found, exact=True)


def rows(
    connection: apsw.Connection, wanted: Filter, after: listing.Place, limit: int
) -> Iterator[tuple[listing.Place, Task]]:
    """Read what an index can find, in order."""
    bindings: dict[str, Any] = {
        "after": after[0],
        "limit": limit,
        "handler": wanted.handler,
        "status": None if wanted.status is None else NUMBERS[wanted.status],
    }
    name = "list_all"
    if wanted.order == "due":
        name = "list_due"
        bindings |= {
            "after_id": after[1],
            "due_after": FIRST_MOMENT if wanted.due_after is None else wanted.due_after,
            "due_before": LAST_MOMENT if wanted.due_before is None else wanted.due_before,
        }
    elif wanted.id_prefix:
        name = "list_by_prefix"
        bindings |= {"low": wanted.id_prefix, "high": beyond(wanted.id_prefix)}
    elif wanted.handler is not None:
        name = "list_by_handler"
    elif wanted.status is not None:
        name = "list_by_status"
    statement = SQL[name if wanted.order == "due" else f"{name}_{wanted.order}"]
    for row in connection.execute(statement, bindings):
        task = task_of(row)
        yield (row[0], task.id), task


def beyond(prefix: str) -> str | bytes:
    """Return what sorts right after everything that begins with a prefix."""
    stem = prefix.rstrip(chr(sys.maxunicode))
    if not stem:
        return b""  # SQLite sorts bytes after all text
    point = ord(stem[-1]) + 1
    return stem[:-1] + chr(AFTER_SURROGATES if point == SURROGATES else point)
