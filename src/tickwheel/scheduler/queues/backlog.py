"""What is due and waits to be leased: ids by queue, first come, first served.

    emails     [ order-7  order-9  order-12 ]        takes from the front, new ones at the end
    reports    [ monthly-2026-11 ]
    thumbs     [ t1  t2  t3 ... t10000 ] more        full: of the rest only the store knows

Like the due index it is derived from the store, and may be out of date or thrown away. A queue that nobody reads is
kept short: what does not fit is left out, and read from the store again when the line has become empty.
"""

from collections import OrderedDict
from typing import Final

from tickwheel.stores.contract import Due

__all__ = ["Backlog"]

LINE_MAX: Final = 10_000  # tasks; read again in some ten calls of the store
LINES_MAX: Final = 1_000  # queues; with all of them full, some 2 GB


class Backlog:
    """Entries of tasks that are due, one line a queue."""

    def __init__(self, line_max: int = LINE_MAX, lines_max: int = LINES_MAX) -> None:
        self._line_max = line_max
        self._lines_max = lines_max
        self._lines: dict[str, OrderedDict[str, Due]] = {}
        self._queues: dict[str, str] = {}  # by task
        self._cut: set[str] = set()  # queues of which something was left out
        self._crowded = False  # whether something was left out of a queue that has no line

    def put(self, due: Due) -> None:
        """Let a task wait at the end, unless it waits already, or there is no room."""
        assert due.queue is not None
        if self._queues.get(due.id) == due.queue:
            self._lines[due.queue][due.id] = due  # it keeps its place
            return
        self.drop(due.id)
        line = self._lines.get(due.queue)
        if line is None and len(self._lines) >= self._lines_max:
            self._crowded = True
        elif line is not None and len(line) >= self._line_max:
            self._cut.add(due.queue)
        else:
            self._lines.setdefault(due.queue, OrderedDict())[due.id] = due
            self._queues[due.id] = due.queue

    def drop(self, task_id: str) -> None:
        """Take a task out, if it is there."""
        queue = self._queues.pop(task_id, None)
        if queue is not None:
            del self._lines[queue][task_id]
            self._tidy(queue)

    def take(self, queue: str, limit: int) -> list[Due]:
        """Take out those that have waited longest, at most so many."""
        line = self._lines.get(queue, OrderedDict())
        taken = [line.popitem(last=False)[1] for _ in range(min(limit, len(line)))]
        for due in taken:
            del self._queues[due.id]
        self._tidy(queue)
        return taken

    def _tidy(self, queue: str) -> None:
        if not self._lines.get(queue, True):
            del self._lines[queue]

    def holds(self, queue: str) -> bool:
        """Tell whether anything waits in a queue."""
        return queue in self._lines

    def full(self) -> list[str]:
        """List the queues in which there is no room for more."""
        return [queue for queue, line in self._lines.items() if len(line) >= self._line_max]

    def is_cut(self, queue: str) -> bool:
        """Tell whether the store may know of more that waits in a queue."""
        return queue in self._cut or (self._crowded and queue not in self._lines)

    def mend(self, queue: str) -> None:
        """Take note that a queue is being read from the store, from its beginning."""
        self._cut.discard(queue)

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._queues

    def __len__(self) -> int:
        return len(self._queues)
