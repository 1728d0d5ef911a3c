"""Pending tasks by priority and then by due time, for a store that keeps them in memory.

    priority 9    (partition 3, orders.cancel)   (12:00:01, a)
    priority 0    (partition 3, mail.send)       (11:59:58, c)  (11:59:59, d)
                  (partition 7, orders.cancel)   (12:00:00, b)

One sorted list for each priority, partition and handler: what is to be left out costs nothing, however much it is.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterator
from heapq import merge
from itertools import islice

from tickwheel.stores.contract import Rank
from tickwheel.tasks.record import Task

__all__ = ["Ranking"]

Key = tuple[int, str]  # run_at and id


class Ranking:
    """The pending tasks of a store."""

    def __init__(self) -> None:
        self._lists: dict[int, dict[tuple[int, str], list[Key]]] = {}  # by priority, then by partition and handler

    def add(self, task: Task) -> None:
        """Enter a task that is pending."""
        lists = self._lists.setdefault(task.priority, {})
        insort(lists.setdefault((task.partition, task.handler), []), (task.run_at, task.id))

    def remove(self, task: Task) -> None:
        """Take out a task that was pending."""
        lists = self._lists[task.priority]
        place = task.partition, task.handler
        keys = lists[place]
        del keys[bisect_left(keys, (task.run_at, task.id))]
        if not keys:
            del lists[place]
        if not lists:
            del self._lists[task.priority]

    def overdue(
        self, partitions: Collection[int], until: int, after: Rank | None, without: Collection[str]
    ) -> Iterator[str]:
        """Walk through the ids of what is due until a moment, highest priority first, beyond a rank."""
        for priority in sorted(self._lists, reverse=True):
            if after is not None and priority > after[0]:
                continue
            beyond = after[1:] if after is not None and priority == after[0] else None
            ranges = [
                islice(keys, 0 if beyond is None else bisect_right(keys, beyond), bisect_left(keys, (until + 1, "")))
                for (partition, handler), keys in self._lists[priority].items()
                if partition in partitions and handler not in without
            ]
            for _, task_id in merge(*ranges):
                yield task_id
