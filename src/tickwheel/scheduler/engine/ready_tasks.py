"""Tasks that are due and wait to be claimed: by handler, and of each handler the highest priority first.

orders.cancel   (9, 12:00:01, a)  (0, 12:00:00, b)          priority, due time, id
mail.send       (0, 11:59:58, c)  (0, 11:59:59, d)
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from collections.abc import Set as AbstractSet
from heapq import heapify, heappop, heappush, heapreplace, nlargest, nsmallest
from itertools import chain
from operator import attrgetter
from typing import Final

from tickwheel.stores.contract import Due

__all__ = ["ReadyTasks"]

Place = tuple[int, int, str, int, Due]  # lower comes first; an id may be there again, with another number
Kind = tuple[str, bool]  # a handler, and whether these run at most once

SHARED: Final = 50_000  # entries, divided among the handlers; some 400 bytes each
SHARE_MAX: Final = 20_000  # of one handler: two seconds of work, if it is quick
SHARE_MIN: Final = 500
SLACK: Final = 1_000  # entries more than that, before some are left out: that takes some milliseconds
GONE_MIN: Final = 64  # fewer entries that were dropped are not worth sweeping

_handler = attrgetter("handler")


class Lane:
    """The tasks of one handler, best first: most come in order and cost one comparison, the others wait in a heap.

    in order    (0, 12:00:00, b)  (0, 12:00:02, e)
    late        (9, 12:00:01, a)                            it came after b
    """

    __slots__ = ("_late", "_ordered")

    def __init__(self) -> None:
        self._ordered: deque[Place] = deque()
        self._late: list[Place] = []

    def __iter__(self) -> Iterator[Place]:
        return chain(self._ordered, self._late)

    def add(self, place: Place) -> None:
        """Put in a place."""
        if not self._ordered or self._ordered[-1] < place:
            self._ordered.append(place)
        else:
            heappush(self._late, place)

    def first(self) -> Place | None:
        """Return the best; None if there is none."""
        if self._late and (not self._ordered or self._late[0] < self._ordered[0]):
            return self._late[0]
        return self._ordered[0] if self._ordered else None

    def drop_first(self, first: Place) -> None:
        """Take out the best."""
        if self._ordered and self._ordered[0] is first:
            self._ordered.popleft()
        else:
            heappop(self._late)

    def sweep(self, keeps: Callable[[Place], bool]) -> None:
        """Keep some."""
        self._ordered = deque(filter(keeps, self._ordered))
        self._late = list(filter(keeps, self._late))
        heapify(self._late)


class ReadyTasks:
    """Entries of tasks that are due, in a lane for each handler.

    `take` chooses the best of all handlers that can begin one; the tasks of a handler that is at its limit, or whose
    pool is full, wait without being in the way of others:

        take(3), orders.cancel may begin one        a, c, d

    A handler has a bounded share. Of one that has more, the best are here, and the rest is in the store alone: nothing
    that ranks behind what was left out is entered, until the handler is `wanting` and its tasks are read again.
    Tasks that may run at most once have lanes of their own: they are claimed for a worker that is free, no others.
    """

    def __init__(self, shared: int = SHARED) -> None:
        self._shared = shared
        self.share = SHARE_MAX  # how many entries a handler may have
        self._lanes: dict[Kind, Lane] = {}
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
        places = [place for place in self._places_of(handler) if self._is_here(place)]
        # A lane has its best at the front: backwards, most are found to be better than the worst at once.
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
        handler, place = due.handler, self._place(due)
        if self._left_out and handler in self._left_out and place[:3] >= self._left_out[handler][:3]:
            return
        count = self._counts.get(handler, 0) + 1
        last = self._last.get(handler)
        if last is None or place > last:
            if count > self.share:
                self.leave_out(due)
                return
            self._last[handler] = place
        self._entries[due.id] = due
        self._counts[handler] = count
        if count == 1:
            self._divide()
        kind = (handler, due.at_most_once)
        lane = self._lanes.get(kind)
        if lane is None:
            lane = self._lanes[kind] = Lane()
        lane.add(place)
        if count > self.share + SLACK:
            self._trim(handler)

    def _place(self, due: Due) -> Place:
        self.came += 1
        return -due.priority, due.run_at, due.id, self.came, due

    def drop(self, task_id: str) -> None:
        """Take a task out, if it is there."""
        due = self._entries.pop(task_id, None)
        if due is not None:
            self._count_down(due.handler, 1)
            self._gone += 1
            if self._gone > max(GONE_MIN, len(self._entries)):
                self._sweep()

    def _count_down(self, handler: str, tasks: int) -> None:
        count = self._counts[handler] - tasks
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
        heads: list[tuple[Place, Kind]] = []
        for kind in list(self._lanes):
            head = self._head(kind)
            if head is not None:
                heads.append((head, kind))
        heapify(heads)
        taken: list[Due] = []
        while heads and len(taken) < limit:
            place, kind = heads[0]
            if not (once_admits if kind[1] else admits)(kind[0]):
                heappop(heads)
                continue
            self._lanes[kind].drop_first(place)
            del self._entries[place[2]]
            taken.append(place[4])
            head = self._head(kind)
            if head is None:
                heappop(heads)
            elif len(heads) == 1:
                heads[0] = (head, kind)
            else:
                heapreplace(heads, (head, kind))
        for handler, tasks in Counter(map(_handler, taken)).items():
            self._count_down(handler, tasks)
        return taken

    def handlers(self) -> Collection[str]:
        """Return the handlers of all entries."""
        return self._counts.keys()

    def best(self, handler: str, limit: int) -> list[Due]:
        """Return the best entries of a handler, at most so many; they stay."""
        return [due for *_, due in nsmallest(limit, filter(self._is_here, self._places_of(handler)))]

    def ids(self) -> AbstractSet[str]:
        """Return the ids of all entries."""
        return self._entries.keys()

    def oldest_due(self) -> int | None:
        """Return since when the oldest entry has been due; None if there is none."""
        return min((due.run_at for due in self._entries.values()), default=None)

    def _places_of(self, handler: str) -> Iterator[Place]:
        """Return the places of a handler, with those of entries that were dropped."""
        return chain.from_iterable(self._lanes.get((handler, once), ()) for once in (False, True))

    def _is_here(self, place: Place) -> bool:
        return self._entries.get(place[2]) is place[4]

    def _head(self, kind: Kind) -> Place | None:
        """Return the best entry of a lane that is still here."""
        lane, entries = self._lanes[kind], self._entries
        while (place := lane.first()) is not None:
            if entries.get(place[2]) is place[4]:
                return place
            lane.drop_first(place)
            self._gone -= 1
        del self._lanes[kind]
        return None

    def _sweep(self) -> None:
        for kind, lane in list(self._lanes.items()):
            lane.sweep(self._is_here)
            if lane.first() is None:
                del self._lanes[kind]
        self._gone = 0

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._entries

    def __len__(self) -> int:
        return len(self._entries)
