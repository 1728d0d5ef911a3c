"""The first of many partitions, each of which has an order of its own: what stores read when they list what is due."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

__all__ = ["by_turns"]

Row = TypeVar("Row")

FAIR: Final = 2  # times its fair share of a page: what is asked of each partition at first
SPARE: Final = 16  # and so many more, for pages that are small


async def by_turns(
    fetch: Callable[[int], Awaitable[list[Row]]], partition_of: Callable[[Row], int], partitions: int, limit: int
) -> list[Row]:
    """Return the first rows of all partitions; `fetch` gives the first so many of each, in order.

    Each gives its first few: a little more than its share. They are the first of all, up to where the first partition
    that may have more to give stopped; if that is too short, each gives as much as is wanted of all.
    """
    each = min(FAIR * limit // partitions + SPARE, limit)
    rows = await fetch(each)
    known = _known([partition_of(row) for row in rows], each)
    if each < limit and known is not None and known < limit:
        rows = await fetch(limit)
    return rows[:limit]


def _known(partitions: Sequence[int], each: int) -> int | None:
    """Return how many rows come before what a partition may have held back; None if there is no such thing."""
    given: Counter[int] = Counter()
    for number, partition in enumerate(partitions, 1):
        given[partition] += 1
        if given[partition] == each:
            return number
    return None
