"""What is due and waits to be leased: ids by queue, the highest priority first, and of the same the one due first.

    emails     [ order-7  order-9  order-12 ]        takes from the front
    reports    [ monthly-2026-11 ]
    thumbs     [ t1  t2  t3 ... t10000 ] more        full: of what ranks behind, only the store knows

Like the due index it is derived from the store, and may be out of date or thrown away. A queue that nobody reads is
kept short: the best are here, what ranks behind is left out, and read from the store again when the line has become
empty.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush, nsmallest
from typing import Final

from tickwheel.stores.contract import Due, Rank

__all__ = ["LAST", "Backlog", "Place", "behind"]

LINE_MAX: Final = 10_000  # tasks; read again in some ten calls of the store
LINES_MAX: Final = 1_000  # queues; with all of them full, some 2 GB
SLACK_SHARE: Final = 10  # a line may be longer by this share before some are left out: that takes some milliseconds
GONE_MIN: Final = 64  # fewer entries that were dropped are not worth sweeping

Place = tuple[float, int, str]  # lower comes first
LAST: Final[Place] = (float("inf"), 0, "")  # behind everything


def behind(rank: Rank) -> Place:
    """Return the first place behind a task."""
    priority, run_at, task_id = rank
    return -priority, run_at, f"{task_id}\0"


class Line:
    """What waits in one queue."""

    __slots__ = ("_came", "_heap", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Due] = {}  # an entry of the heap that is not in here was dropped, or replaced
        self._heap: list[tuple[Place, int, Due]] = []
        self._came = 0

    def put(self, due: Due, place: Place) -> None:
        self._came += 1
        self.entries[due.id] = due
        heappush(self._heap, (place, self._came, due))

    def drop(self, task_id: str) -> None:
        del self.entries[task_id]
        if len(self._heap) > 2 * len(self.entries) + GONE_MIN:
            self._heap = [each for each in self._heap if self.entries.get(each[2].id) is each[2]]
            heapify(self._heap)

    def take(self, limit: int) -> list[Due]:
        taken: list[Due] = []
        while self._heap and len(taken) < limit:
            due = heappop(self._heap)[2]
            if self.entries.get(due.id) is due:
                del self.entries[due.id]
                taken.append(due)
        return taken

    def keep_before(self, cut: Place) -> list[Due]:
        """Drop what does not rank before a place, and return it."""
        gone = [due for due in self.entries.values() if _place(due) >= cut]
        for due in gone:
            self.drop(due.id)
        return gone


class Backlog:
    """Entries of tasks that are due, one line a queue."""

    def __init__(self, line_max: int = LINE_MAX, lines_max: int = LINES_MAX) -> None:
        self.line_max = line_max
        self._lines_max = lines_max
        self._lines: dict[str, Line] = {}
        self._queues: dict[str, str] = {}  # by task
        self._cut: dict[str, Place] = {}  # by queue: of what is due from here on, the store may know more
        self._crowded = False  # whether something was left out of a queue that has no line

    def put(self, due: Due) -> None:
        """Let a task wait at its place, unless it waits there already, or was left out."""
        queue = due.queue
        assert queue is not None
        line = self._lines.get(queue)
        if line is not None and line.entries.get(due.id) == due:
            return
        self.drop(due.id)
        line, place = self._lines.get(queue), _place(due)
        if line is None and len(self._lines) >= self._lines_max:
            self._crowded = True
        elif place < self._cut.get(queue, LAST):
            if line is None:
                line = self._lines[queue] = Line()
            line.put(due, place)
            self._queues[due.id] = queue
            if len(line.entries) > self.line_max + self.line_max // SLACK_SHARE:
                best = nsmallest(self.line_max, map(_place, line.entries.values()))
                self._leave_out(queue, (*best[-1][:2], f"{best[-1][2]}\0"))

    def drop(self, task_id: str) -> None:
        """Take a task out, if it is there."""
        queue = self._queues.pop(task_id, None)
        if queue is not None:
            self._lines[queue].drop(task_id)
            self._tidy(queue)

    def take(self, queue: str, limit: int) -> list[Due]:
        """Take out the best, at most so many."""
        line = self._lines.get(queue)
        taken = [] if line is None else line.take(limit)
        for due in taken:
            del self._queues[due.id]
        self._tidy(queue)
        return taken

    def _tidy(self, queue: str) -> None:
        line = self._lines.get(queue)
        if line is not None and not line.entries:
            del self._lines[queue]

    def holds(self, queue: str) -> bool:
        """Tell whether anything waits in a queue."""
        return queue in self._lines

    # -- what is in the store alone

    def left_out(self) -> list[str]:
        """List the queues of which something was left out."""
        return list(self._cut)

    def leave_out_behind(self, rank: Rank, known: Iterable[str]) -> list[str]:
        """Leave out what ranks behind a task of queues that are full, besides those that are known; return which.

        To be called by who reads what is due in order: the rest of these queues is not read then.
        """
        full = [queue for queue, line in self._lines.items() if len(line.entries) >= self.line_max]
        queues = {*full, *self._cut}.difference(known)
        for queue in queues:
            self._leave_out(queue, behind(rank))
        return list(queues)

    def _leave_out(self, queue: str, first: Place) -> None:
        cut = self._cut[queue] = min(first, self._cut.get(queue, LAST))
        line = self._lines.get(queue)
        for due in [] if line is None else line.keep_before(cut):
            del self._queues[due.id]
        self._tidy(queue)

    def is_cut(self, queue: str) -> bool:
        """Tell whether the store may know of more that waits in a queue."""
        return queue in self._cut or (self._crowded and queue not in self._lines)

    def refill(self, queue: str, found: Iterable[Due], cut: Place | None) -> None:
        """Enter what was read of a queue from the store: all that ranks before a place, or all there is."""
        if cut is None:
            self._cut.pop(queue, None)
        else:
            self._cut[queue] = cut
        for due in found:
            self.put(due)

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._queues

    def __len__(self) -> int:
        return len(self._queues)


def _place(due: Due) -> Place:
    return -due.priority, due.run_at, due.id
