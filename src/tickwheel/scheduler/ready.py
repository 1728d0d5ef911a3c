"""Tasks that are due and wait to be claimed: by handler, and of each handler the highest priority first.

    orders.cancel   (9, 12:00:01, a)  (0, 12:00:00, b)          priority, due time, id
    mail.send       (0, 11:59:58, c)  (0, 11:59:59, d)

A task is claimed when a worker can begin it. `take` chooses the best of all handlers that can begin one; the tasks of a
handler that is at its limit, or whose pool is full, wait without being in anybody's way:

    take(3), orders.cancel may begin one        a, c, d

Like the agenda it is derived from the store, and may be out of date or thrown away.
"""

from collections.abc import Callable, Collection
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from tickwheel.stores.contract import Due

__all__ = ["ReadyTasks"]

Place = tuple[int, int, str, int, Due]  # lower comes first; an id may be there again, with another number

GONE_MIN: Final = 64  # fewer entries that were dropped are not worth sweeping


class ReadyTasks:
    """Entries of tasks that could begin, one heap for each handler."""

    def __init__(self) -> None:
        self._heaps: dict[str, list[Place]] = {}
        self._entries: dict[str, Due] = {}  # an entry that is not in here was dropped, or replaced
        self._gone = 0  # places of such entries
        self._came = 0

    def put(self, due: Due) -> None:
        """Enter a task, or change it."""
        known = self._entries.get(due.id)
        if known is not None:
            if known == due:
                return
            self.drop(due.id)
        self._came += 1
        self._entries[due.id] = due
        heappush(self._heaps.setdefault(due.handler, []), (-due.priority, due.run_at, due.id, self._came, due))

    def drop(self, task_id: str) -> None:
        """Take a task out, if it is there."""
        if self._entries.pop(task_id, None) is not None:
            self._gone += 1
            if self._gone > max(GONE_MIN, len(self._entries)):
                self._sweep()

    def drop_partitions(self, partitions: Collection[int]) -> None:
        """Take out all tasks of some partitions."""
        if partitions:
            for due in list(self._entries.values()):
                if due.partition in partitions:
                    self.drop(due.id)

    def take(self, limit: int, admits: Callable[[str], bool]) -> list[Due]:
        """Take out the best, at most so many, of handlers that can begin them; `admits` counts each as begun."""
        heads: list[tuple[Place, str]] = []
        for name in list(self._heaps):
            head = self._head(name)
            if head is not None:
                heads.append((head, name))
        heapify(heads)
        taken: list[Due] = []
        while heads and len(taken) < limit:
            place, name = heads[0]
            if not admits(name):
                heappop(heads)
                continue
            heappop(self._heaps[name])
            due = place[4]
            del self._entries[due.id]
            taken.append(due)
            head = self._head(name)
            if head is None:
                heappop(heads)
            else:
                heapreplace(heads, (head, name))
        return taken

    def oldest_due(self) -> int | None:
        """Return since when the oldest entry has been due; None if there is none."""
        return min((due.run_at for due in self._entries.values()), default=None)

    def _head(self, name: str) -> Place | None:
        """Return the best entry of a handler that is still here."""
        heap = self._heaps[name]
        while heap:
            if self._entries.get(heap[0][2]) is heap[0][4]:
                return heap[0]
            heappop(heap)
            self._gone -= 1
        del self._heaps[name]
        return None

    def _sweep(self) -> None:
        for name, heap in list(self._heaps.items()):
            heap[:] = [place for place in heap if self._entries.get(place[2]) is place[4]]
            heapify(heap)
            if not heap:
                del self._heaps[name]
        self._gone = 0

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._entries

    def __len__(self) -> int:
        return len(self._entries)
