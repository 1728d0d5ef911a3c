"""Tasks that are due and wait to be claimed: by handler, and of each handler the highest priority first.

orders.cancel   (9, 12:00:01, a)  (0, 12:00:00, b)          priority, due time, id
mail.send       (0, 11:59:58, c)  (0, 11:59:59, d)
"""

from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet
from heapq import heapify, heappop, heappush, heapreplace, nlargest, nsmallest
from typing import Final

from tickwheel.stores.contract import Due

__all__ = ["ReadyTasks"]

Place = tuple[int, int, str, int, Due]  # lower comes first; an id may be there again, with another number
Lane = tuple[str, bool]  # a handler, and whether these run at most once

SHARED: Final = 50_000  # entries, divided among the handlers; some 400 bytes each
SHARE_MAX: Final = 20_000  # of one handler: two seconds of work, if it is quick
SHARE_MIN: Final = 500
SLACK: Final = 1_000  # entries more than that, before some are left out: that takes some milliseconds
GONE_MIN: Final = 64  # fewer entries that were dropped are not worth sweeping


class ReadyTasks:
    """Entries of tasks that are due, one heap for each handler.

    `take` chooses the best of all handlers that can begin one; the tasks of a handler that is at its limit, or whose
    pool is full, wait without being in the way of others:

        take(3), orders.cancel may begin one        a, c, d

    A handler has a bounded share. Of one that has more, the best are here, and the rest is in the store alone: nothing
    that ranks behind what was left out is entered, until the handler is `wanting` and its tasks are read again.
    Tasks that may run at most once have heaps of their own: they are claimed for a worker that is free, no others.
    """

    def __init__(self, shared: int = SHARED) -> None:
        self._shared = shared
        self.share = SHARE_MAX  # how many entries a handler may have
        self._heaps: dict[Lane, list[Place]] = {}
        self._entries: dict[str, Due] = {}  # an entry that is not in here was dropped, or replaced
        self._counts: dict[str, int] = {}  # entries by handler
        self._left_out: dict[str, Place] = {}  # by handler, the best of what is in the store alone
        self._last: dict[str, Place] = {}  # by handler: nothing ranks behind it of what was entered
        self.wanting: set[str] = set()  # handlers with room for more of what was left out
        self._gone = 0  # places of entries that were dropped
        self.came = 0

    # -- shares

    def _divide(self) -> None:
        self.share = max(min(self._shared // max(len(self._counts), 1), SHARE_MAX), SHARE_MIN)

    def is_full(self, handler: str) -> bool:
        """Tell whether a handler has its share."""
        return self._counts.get(handler, 0) >= self.share

    def leave_out(self, due: Due, handler: str | None = None) -> None:
        """Note that a task, and all of its or another handler that rank behind it, are in the store alone."""
        handler, place = handler or due.handler, self._place(due)
        known = self._left_out.get(handler)
        if known is None or place < known:
            self._left_out[handler] = place

    def left_out(self) -> Collection[str]:
        """Return the handlers of which some tasks are in the store alone."""
        return self._left_out.keys()

    def admit_again(self) -> tuple[set[str], Due | None]:
        """Enter again, from now on, what was left out of handlers that have room; return these, and the best of it."""
        handlers = {handler for handler in self.wanting if handler in self._left_out}
        self.wanting.clear()
        first = min((self._left_out.pop(handler) for handler in handlers), default=None)
        return handlers, None if first is None else first[4]

    def _trim(self, handler: str) -> None:
        """Keep the best of a handler that has more than its share."""
        heaps = [self._heaps.get((handler, once), []) for once in (False, True)]
        places = [place for heap in heaps for place in heap if self._entries.get(place[2]) is place[4]]
        # A heap has its best at the front: backwards, most are found to be better than the worst at once.
        worst = nlargest(len(places) - self.share, reversed(places))
        for place in worst:
            self.drop(place[2])
        self.leave_out(worst[-1][4])
        self.wanting.discard(handler)

    # -- entries

    def put(self, due: Due) -> None:
        """Enter a task, or change it; one that ranks behind what was left out stays in the store."""
        known = self._entries.get(due.id)
        if known is not None:
            if known == due:
                return
            self.drop(due.id)
        place = self._place(due)
        first_out = self._left_out.get(due.handler)
        if first_out is not None and place[:3] >= first_out[:3]:
            return
        count = self._counts.get(due.handler, 0) + 1
        last = self._last.get(due.handler)
        if last is None or place > last:
            if count > self.share:
                self.leave_out(due)
                return
            self._last[due.handler] = place
        self._entries[due.id] = due
        self._counts[due.handler] = count
        if count == 1:
            self._divide()
        lane = (due.handler, due.at_most_once)
        heap = self._heaps.get(lane)
        if heap is None:
            heap = self._heaps[lane] = []
        heappush(heap, place)
        if count > self.share + SLACK:
            self._trim(due.handler)

    def _place(self, due: Due) -> Place:
        self.came += 1
        return -due.priority, due.run_at, due.id, self.came, due

    def drop(self, task_id: str) -> None:
        """Take a task out, if it is there."""
        due = self._entries.pop(task_id, None)
        if due is not None:
            self._count_down(due.handler)
            self._gone += 1
            if self._gone > max(GONE_MIN, len(self._entries)):
                self._sweep()

    def _count_down(self, handler: str) -> None:
        count = self._counts[handler] - 1
        self._counts[handler] = count
        if handler in self._left_out and count <= self.share // 2:
            self.wanting.add(handler)
        if not count:
            del self._counts[handler]
            self._last.pop(handler, None)
            self._divide()

    def drop_partitions(self, partitions: Collection[int]) -> None:
        """Take out all tasks of some partitions."""
        if partitions:
            for due in list(self._entries.values()):
                if due.partition in partitions:
                    self.drop(due.id)

    def take(
        self, limit: int, admits: Callable[[str], bool], admits_at_once: Callable[[str], bool] | None = None
    ) -> list[Due]:
        """Take out the best, at most so many, of handlers that can begin them; `admits` counts each as begun.

        `admits_at_once` does so for tasks that may run at most once.
        """
        once_admits = admits_at_once or admits
        heads: list[tuple[Place, Lane]] = []
        for lane in list(self._heaps):
            head = self._head(lane)
            if head is not None:
                heads.append((head, lane))
        heapify(heads)
        taken: list[Due] = []
        while heads and len(taken) < limit:
            place, lane = heads[0]
            if not (once_admits if lane[1] else admits)(lane[0]):
                heappop(heads)
                continue
            heappop(self._heaps[lane])
            due = place[4]
            del self._entries[due.id]
            self._count_down(due.handler)
            taken.append(due)
            head = self._head(lane)
            if head is None:
                heappop(heads)
            elif len(heads) == 1:
                heads[0] = (head, lane)
            else:
                heapreplace(heads, (head, lane))
        return taken

    def handlers(self) -> Collection[str]:
        """Return the handlers of all entries."""
        return self._counts.keys()

    def best(self, handler: str, limit: int) -> list[Due]:
        """Return the best entries of a handler, at most so many; they stay."""
        lanes = ((handler, False), (handler, True))
        places = (place for lane in lanes for place in self._heaps.get(lane, ()))
        return [due for *_, due in nsmallest(limit, (each for each in places if self._entries.get(each[2]) is each[4]))]

    def ids(self) -> AbstractSet[str]:
        """Return the ids of all entries."""
        return self._entries.keys()

    def oldest_due(self) -> int | None:
        """Return since when the oldest entry has been due; None if there is none."""
        return min((due.run_at for due in self._entries.values()), default=None)

    def _head(self, lane: Lane) -> Place | None:
        """Return the best entry of a heap that is still here."""
        heap = self._heaps[lane]
        while heap:
            if self._entries.get(heap[0][2]) is heap[0][4]:
                return heap[0]
            heappop(heap)
            self._gone -= 1
        del self._heaps[lane]
        return None

    def _sweep(self) -> None:
        for lane, heap in list(self._heaps.items()):
            heap[:] = [place for place in heap if self._entries.get(place[2]) is place[4]]
            heapify(heap)
            if not heap:
                del self._heaps[lane]
        self._gone = 0

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._entries

    def __len__(self) -> int:
        return len(self._entries)
