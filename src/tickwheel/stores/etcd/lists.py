"""Tasks in order, page by page: by their places, and what those cannot tell is compared task by task.

status, due order                          by the keys of places and queues
handler, id_prefix, tag, text, times       in what is read, at most so many tasks a page

From the newest on, a page takes as long as it is. From the oldest on, etcd sorts all there is of a status.
"""

from collections.abc import AsyncIterator

from tickwheel.stores import listing
from tickwheel.stores.contract import LOOKED_AT_MAX, PAGE_MAX, Filter, Page, Total
from tickwheel.stores.etcd.keys import STATUSES
from tickwheel.stores.etcd.reading import counts, queued
from tickwheel.stores.etcd.records import place_of
from tickwheel.stores.etcd.requests import Question, ask_all
from tickwheel.stores.etcd.writing import Ground
from tickwheel.tasks.record import Status, Task

__all__ = ["count", "query"]

LAST_MOMENT = 10**16 - 1  # the last one that has a place in a queue

Placed = tuple[listing.Place, str]


async def query(ground: Ground, wanted: Filter, after: listing.Place, limit: int) -> Page:
    """List tasks, newest first unless told."""
    tasks: list[Task] = []
    end = last = after  # the place of the last task on the page, and of the last one that was looked at
    looked_at = 0
    async for place, task in _read(ground, wanted, after, limit + 1):
        fitting = listing.fits(task, wanted)
        if fitting and len(tasks) == limit:
            return Page(tasks=tasks, cursor=listing.cursor_of(end, wanted.order))
        if looked_at == LOOKED_AT_MAX:
            return Page(tasks=tasks, cursor=listing.cursor_of(last, wanted.order))
        if fitting:
            tasks.append(task)
            end = place
        last, looked_at = place, looked_at + 1
    return Page(tasks=tasks, cursor=None)


async def count(ground: Ground, wanted: Filter, most: int) -> Total:
    """Count tasks; of a status, etcd counts them."""
    if listing.is_plain(wanted) and wanted.handler is None and not wanted.id_prefix and wanted.order != "due":
        known = await counts(ground)
        return Total(sum(known.values()) if wanted.status is None else known[wanted.status], exact=True)
    found, looked_at = 0, 0
    async for _, task in _read(ground, wanted, listing.place_of(None, wanted.order), PAGE_MAX):
        if looked_at == most:
            return Total(found, exact=False)
        found += listing.fits(task, wanted)
        looked_at += 1
    return Total(found, exact=True)


async def _read(
    ground: Ground, wanted: Filter, after: listing.Place, size: int
) -> AsyncIterator[tuple[listing.Place, Task]]:
    """Read tasks in order, so many at a time at first, and then more."""
    placed: list[Placed] = [(after, "")]
    while placed:
        placed = await _places(ground, wanted, placed[-1][0], size)
        there = await ground.load(task_id for _, task_id in placed)
        for place, task_id in placed:
            if task_id in there:  # otherwise it has just gone
                yield place, there[task_id].task
        if len(placed) < size:
            return
        size = PAGE_MAX


async def _places(ground: Ground, wanted: Filter, after: listing.Place, limit: int) -> list[Placed]:
    """Return the next places, and whose they are."""
    if wanted.order == "due":
        low = -1 if wanted.due_after is None else wanted.due_after
        high = LAST_MOMENT if wanted.due_before is None else wanted.due_before
        found = await queued(ground, range(ground.partitions), after, (low, high), limit)
        return [((due.run_at, due.id), due.id) for due in found]
    statuses = STATUSES if wanted.status is None else [wanted.status]
    newest = wanted.order == "newest"
    answers = await ground.members.read(
        [_beyond(ground, status, after[0], limit, newest=newest) for status in statuses]
    )
    pairs = [(ground.keys.number_of(pair.key), place_of(pair.value)[1]) for answer in answers for pair in answer.kvs]
    return [((number, ""), task_id) for number, task_id in sorted(pairs, reverse=newest)[:limit]]


def _beyond(ground: Ground, status: Status, number: int, limit: int, *, newest: bool) -> Question:
    """Ask for the places that come after a number."""
    places, place = ground.keys.listed(status), ground.keys.place(status, number)
    if newest:
        return ask_all(places, begin=place + b"\0", limit=limit)
    return ask_all(places, end=place, limit=limit, backwards=True)
