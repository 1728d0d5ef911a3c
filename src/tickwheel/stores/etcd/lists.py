"""Tasks in order, page by page: by their places, and what those cannot tell is compared task by task.

status, due order                          by the keys of places and queues
handler, id_prefix, tag, text, times       in what is read, at most so many tasks a page

Pending tasks are kept by time alone: if there are many, they too are found among all. From the newest on, a page takes
as long as it is. From the oldest on, etcd sorts all there is.
"""

from collections.abc import AsyncIterator
from typing import Final

from tickwheel.stores import listing
from tickwheel.stores.contract import LOOKED_AT_MAX, PAGE_MAX, Filter, Page, Total
from tickwheel.stores.etcd.reading import counts, queued
from tickwheel.stores.etcd.records import arrival_of, claims_of, place_of
from tickwheel.stores.etcd.requests import Question, ask_all
from tickwheel.stores.etcd.writing import Ground
from tickwheel.tasks.record import Status, Task

__all__ = ["count", "query"]

LAST_MOMENT: Final = 10**16 - 1  # the last one that has a place in a queue
FEW_MAX: Final = 10_000  # pending tasks that are put into the order of their arrival here: about a megabyte

Placed = tuple[listing.Place, str]


async def query(ground: Ground, wanted: Filter, after: listing.Place, limit: int) -> Page:
    """List tasks, newest first by default."""
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
    newest = wanted.order == "newest"
    pairs = await _numbered(ground, wanted.status, after[0], limit, newest=newest)
    beyond = [pair for pair in pairs if (pair[0] < after[0]) == newest and pair[0] != after[0]]
    return [((number, ""), task_id) for number, task_id in sorted(beyond, reverse=newest)[:limit]]


async def _numbered(
    ground: Ground, status: Status | None, after: int, limit: int, *, newest: bool
) -> list[tuple[int, str]]:
    """Return the numbers and ids of tasks: those that come next, or all of a status if there are few."""
    keys = ground.keys
    if status is Status.RUNNING:
        [answer] = await ground.members.read([ask_all(keys.claims)])
        return list({pair for group in answer.kvs for pair in claims_of(group)})
    if status is Status.PENDING:
        [answer] = await ground.members.read([ask_all(keys.queues, limit=FEW_MAX)])
        if not answer.more:
            return [arrival_of(keys, pair) for pair in answer.kvs]
    listed = None if status in (None, Status.PENDING) else status
    [answer] = await ground.members.read([_beyond(ground, listed, after, limit, newest=newest)])
    numbers = [keys.number_of(pair.key) for pair in answer.kvs]
    ids = [pair.value.decode() if listed is None else place_of(pair.value)[1] for pair in answer.kvs]
    return list(zip(numbers, ids, strict=True))


def _beyond(ground: Ground, status: Status | None, number: int, limit: int, *, newest: bool) -> Question:
    """Ask for the places that come after a number."""
    keys = ground.keys
    places = keys.arrivals if status is None else keys.listed(status)
    place = keys.arrival(number) if status is None else keys.place(status, number)
    if newest:
        return ask_all(places, begin=place + b"\0", limit=limit)
    return ask_all(places, end=place, limit=limit, backwards=True)
