"""Who wants to know when something changes, within one process and one event loop.

    watch = hints.watch([0, 1])
    hints.tell(News.of([task]))                     # which is pending, in partition 1
    await anext(watch)                              # {1: Change(first=task.run_at, last=task.run_at, runs=False)}

What nobody asked for yet is kept by partition, so that it cannot grow beyond their number.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from weakref import WeakSet

from tickwheel.stores.contract import ANYTHING, NOTHING, Change
from tickwheel.tasks.record import Status, Task

__all__ = ["News", "Notifications", "Watch"]


class News(dict[int, Change]):
    """What changed, by partition."""

    __slots__ = ()

    @classmethod
    def of(cls, tasks: Iterable[Task]) -> "News":
        """Return where tasks were changed to be as they are now."""
        news = cls()
        for task in tasks:
            news.see(task)
        return news

    @classmethod
    def unknown(cls, partitions: Iterable[int]) -> "News":
        """Return that anything may have changed in partitions."""
        return cls((partition, ANYTHING) for partition in partitions)

    def see(self, task: Task) -> None:
        """Add that a task was changed to be as it is now."""
        status = task.listed_status
        if status is Status.PENDING:
            self.add(task.partition, Change(task.run_at, task.run_at, runs=False))
        else:
            self.add(task.partition, NOTHING._replace(runs=status is Status.RUNNING))

    def touch(self, *partitions: int) -> None:
        """Add that something changed which no owner needs to read: a partition is free, or nodes came or went."""
        for partition in partitions:
            self.setdefault(partition, NOTHING)

    def add(self, partition: int, change: Change) -> None:
        """Add what changed in a partition."""
        known = self.get(partition)
        self[partition] = change if known is None else known.join(change)

    def merge(self, others: dict[int, Change]) -> None:
        """Add what else changed."""
        for partition, change in others.items():
            self.add(partition, change)


class Watch(AsyncIterator[dict[int, Change]]):
    """Tells of news in some partitions, from when it was made until it is dropped."""

    __slots__ = ("__weakref__", "_news", "_open", "_wanted", "_woken")

    def __init__(self, partitions: Sequence[int]) -> None:
        self._wanted = frozenset(partitions)
        self._news = News()
        self._woken = asyncio.Event()
        self._open = True

    def tell(self, news: dict[int, Change]) -> None:
        """Take in news."""
        for partition, change in news.items():
            if partition in self._wanted:
                self._news.add(partition, change)
        if self._news:
            self._woken.set()

    def close(self) -> None:
        """End it, after what is left to tell."""
        self._open = False
        self._woken.set()

    async def __anext__(self) -> dict[int, Change]:
        await self._woken.wait()
        if not self._news:
            raise StopAsyncIteration
        news, self._news = self._news, News()
        if self._open:
            self._woken.clear()
        return news


class Notifications:
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

    def tell(self, news: dict[int, Change]) -> None:
        """Tell all who listen."""
        for watch in list(self._watches):
            watch.tell(news)

    def close(self) -> None:
        """End all watches."""
        for watch in list(self._watches):
            watch.close()
