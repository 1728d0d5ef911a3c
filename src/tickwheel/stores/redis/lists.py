"""Tasks in order, page by page: each partition gives the next few of each of its shelves, and they are merged.

status, due order                          by an index, however many tasks there are
handler, id_prefix, tag, text, times       in what is read, at most so many tasks a page
"""

from functools import partial
from operator import itemgetter
from typing import Any, Final

from tickwheel.stores import listing, paging, validation
from tickwheel.stores.contract import Filter, Page, Total
from tickwheel.stores.redis.entries import rows_of
from tickwheel.stores.redis.reading import counts, in_order
from tickwheel.stores.redis.shards import Shards
from tickwheel.tasks.record import Status

__all__ = ["count", "query"]

FIRST_MOMENT: Final = -1
LAST_MOMENT: Final = 2**53
SHELVES: Final = {
    Status.PENDING: ["open"],  # running ones stand with the pending ones: a claim moves nothing
    Status.PAUSED: ["paused"],
    Status.COMPLETED: ["completed"],
    Status.FAILED: ["failed"],
    Status.CANCELLED: ["cancelled"],
    None: ["open", "paused", "completed", "failed", "cancelled"],
}

Row = tuple[listing.Place, int, str, bytes]  # place, partition, shelf, id


async def query(shards: Shards, wanted: Filter, after: listing.Place, limit: int) -> Page:
    """List tasks, newest first by default."""
    return await paging.query(partial(_read, shards, wanted), wanted, after, limit, exact=False)


async def count(shards: Shards, wanted: Filter, most: int) -> Total:
    """Count tasks; those of a status are counted already."""
    if listing.is_plain(wanted) and wanted.handler is None and not wanted.id_prefix and wanted.order != "due":
        known = await counts(shards)
        return Total(sum(known.values()) if wanted.status is None else known[wanted.status], exact=True)
    return await paging.count(partial(_read, shards, wanted), wanted, most, exact=False)


async def _read(shards: Shards, wanted: Filter, after: listing.Place, limit: int) -> list[paging.Placed]:
    """Read so many tasks beyond a place; some may be gone, and are as if they had never been there."""
    if not validation.sayable(after[1]):
        return []  # no task can be called that
    placed: list[paging.Placed] = []
    while True:
        size = limit - len(placed)
        rows = await _rows(shards, wanted, after, size)
        tasks = await in_order(shards, [(part, task_id) for _, part, _, task_id in rows])
        placed += [(row[0], task) for row, task in zip(rows, tasks, strict=True) if task is not None]
        if len(rows) < size or len(placed) == limit:
            return placed
        after = rows[-1][0]


async def _rows(shards: Shards, wanted: Filter, after: listing.Place, limit: int) -> list[Row]:
    if wanted.order == "due":
        fetch, sources = partial(_due, shards, wanted, after), shards.partitions
    elif wanted.status is Status.RUNNING:
        return (await _running(shards, wanted, after))[:limit]
    else:
        shelves = SHELVES[wanted.status]
        fetch, sources = partial(_shelved, shards, wanted, after), shards.partitions * len(shelves)
    return await paging.by_turns(fetch, itemgetter(1, 2), sources, limit)


async def _due(shards: Shards, wanted: Filter, after: listing.Place, each: int) -> list[Row]:
    low = FIRST_MOMENT if wanted.due_after is None else wanted.due_after
    begin = max(after, (low, ""))  # beyond all of that moment, where no id is told
    last = LAST_MOMENT if wanted.due_before is None else wanted.due_before - 1
    messages = {shard: (parts, *begin, last, each) for shard, parts in shards.all().items()}
    answers = await shards.ask("list_due", messages)
    return sorted(
        ((int(moment), task_id.decode()), part, "", task_id)
        for answer in answers.values()
        for moment, part, task_id in rows_of(answer, 3)
    )


async def _shelved(shards: Shards, wanted: Filter, after: listing.Place, each: int) -> list[Row]:
    shelves = SHELVES[wanted.status]
    messages = {shard: (parts, shelves, wanted.order, after[0], each) for shard, parts in shards.all().items()}
    answers = await shards.ask("list", messages)
    rows = (
        ((int(serial), ""), part, shelf.decode(), task_id)
        for answer in answers.values()
        for serial, part, shelf, task_id in rows_of(answer, 4)
    )
    return sorted(rows, reverse=wanted.order == "newest")


async def _running(shards: Shards, wanted: Filter, after: listing.Place) -> list[Row]:
    asked: dict[int, Any] = {shard: [(part,) for part in parts] for shard, parts in shards.all().items()}
    answers = await shards.ask("list_running", asked)
    newest = wanted.order == "newest"
    rows = (
        ((int(serial), ""), part, "", task_id)
        for answer in answers.values()
        for serial, part, task_id in rows_of(answer, 3)
    )
    beyond = [row for row in rows if (row[0] < after if newest else row[0] > after)]
    return sorted(beyond, reverse=newest)
