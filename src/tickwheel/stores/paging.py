"""Pages of tasks, from whatever a store can read in order: what an index cannot tell is compared task by task.

A store brings one function, which reads so many tasks beyond a place. Stores that keep an order in each partition have
each partition give a few, and go on asking only if that was not enough: `by_turns`.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from typing import Final, TypeVar

from tickwheel.stores import listing
from tickwheel.stores.contract import LOOKED_AT_MAX, Filter, Page, Total
from tickwheel.tasks.record import Task

__all__ = ["Placed", "Reading", "by_turns", "count", "query"]

R = TypeVar("R")
Placed = tuple[listing.Place, Task]
Reading = Callable[[listing.Place, int], Awaitable[list[Placed]]]  # so many beyond a place; fewer are the last

GROWTH: Final = 4  # how many times more are read when what was read did not do
FAIR: Final = 2  # times its fair share of a page: what is asked of each partition at first
SPARE: Final = 16  # and so many more, for pages that are small


async def query(read: Reading, wanted: Filter, after: listing.Place, limit: int, *, exact: bool) -> Page:
    """Make a page; what is read is `exact` if all of it fits."""
    tasks: list[Task] = []
    last, looked_at = after, 0  # what comes until there is on this page, or does not fit
    async for place, task in _read_on(read, after, limit + 1, LOOKED_AT_MAX + 1):
        fitting = exact or listing.fits(task, wanted)
        if (fitting and len(tasks) == limit) or looked_at == LOOKED_AT_MAX:
            return Page(tasks=tasks, cursor=listing.cursor_of(last, wanted.order))
        if fitting:
            tasks.append(task)
        last, looked_at = place, looked_at + 1
    return Page(tasks=tasks, cursor=None)


async def count(read: Reading, wanted: Filter, most: int, *, exact: bool) -> Total:
    """Count tasks by looking at so many at most."""
    found, looked_at = 0, 0
    async for _, task in _read_on(read, listing.place_of(None, wanted.order), LOOKED_AT_MAX, most + 1):
        if looked_at == most:
            return Total(found, exact=False)
        found += exact or listing.fits(task, wanted)
        looked_at += 1
    return Total(found, exact=True)


async def _read_on(read: Reading, after: listing.Place, first: int, most: int) -> AsyncIterator[Placed]:
    """Read in order: as many as may do at first, and then more and more."""
    size = first
    while most > 0:
        size = min(size, most, LOOKED_AT_MAX)
        rows = await read(after, size)
        for row in rows:
            yield row
        if len(rows) < size:
            return
        after = rows[-1][0]
        most, size = most - size, size * GROWTH


async def by_turns(
    fetch: Callable[[int], Awaitable[list[R]]], source: Callable[[R], Hashable], sources: int, limit: int
) -> list[R]:
    """Return the first rows of many sources, each of which has an order of its own; `fetch` merges so many of each.

    Each gives its first few: a little more than its share. They are the first of all, up to where the first source
    that may have more to give stopped; if that is too short, each gives as much as is wanted of all.
    """
    each = min(FAIR * limit // sources + SPARE, limit)
    rows = await fetch(each)
    known = _known([source(row) for row in rows], each)
    if each < limit and known is not None and known < limit:
        rows = await fetch(limit)
    return rows[:limit]


def _known(sources: Sequence[Hashable], each: int) -> int | None:
    """Return how many rows come before what a source may have held back; None if there is no such thing."""
    given: Counter[Hashable] = Counter()
    for number, source in enumerate(sources, 1):
        given[source] += 1
        if given[source] == each:
            return number
    return None
