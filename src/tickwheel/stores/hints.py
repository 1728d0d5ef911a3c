"""Who wants to know when something changes, within one process and one event loop.

    watch = hints.watch([0, 1])
    hints.tell({1, 7})
    await anext(watch)              # {1}

What nobody asked for yet is kept as a set of partitions, so that it cannot grow beyond their number.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from collections.abc import Set as AbstractSet
from weakref import WeakSet

__all__ = ["Hints", "Watch"]


class Watch(AsyncIterator[set[int]]):
    """Tells of news in some partitions, from when it was made until it is dropped."""

    __slots__ = ("__weakref__", "_news", "_open", "_wanted", "_woken")

    def __init__(self, partitions: Sequence[int]) -> None:
        self._wanted = frozenset(partitions)
        self._news: set[int] = set()
        self._woken = asyncio.Event()
        self._open = True

    def tell(self, partitions: AbstractSet[int]) -> None:
        """Take in news."""
        self._news |= self._wanted & partitions
        if self._news:
            self._woken.set()

    def close(self) -> None:
        """End it, after what is left to tell."""
        self._open = False
        self._woken.set()

    async def __anext__(self) -> set[int]:
        await self._woken.wait()
        if not self._news:
            raise StopAsyncIteration
        news, self._news = self._news, set()
        if self._open:
            self._woken.clear()
        return news


class Hints:
    """All the watches of a store; those that are not read any more are forgotten."""

    def __init__(self) -> None:
        self._watches: WeakSet[Watch] = WeakSet()

    def __bool__(self) -> bool:
        return bool(self._watches)

    def watch(self, partitions: Sequence[int]) -> Watch:
        """Begin to listen."""
        watch = Watch(partitions)
        self._watches.add(watch)
        return watch

    def tell(self, partitions: AbstractSet[int]) -> None:
        """Tell all who listen."""
        for watch in list(self._watches):
            watch.tell(partitions)

    def close(self) -> None:
        """End all watches."""
        for watch in list(self._watches):
            watch.close()
