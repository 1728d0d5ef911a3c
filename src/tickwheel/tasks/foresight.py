"""What would run, and when: nothing is executed, and nobody asks a clock.

>>> from tickwheel.tasks.triggers import Every
>>> minutely = Every(interval_ms=60_000)
>>> task = Task(id="a", handler="h", trigger=minutely, times=3, run_at=0, occurrence_at=0, created_at=0)
>>> list(foresee(task, begin=1, end=3_600_000))
[60000, 120000]

It is assumed that every run succeeds and takes no time, and that nobody changes anything.
"""

from collections.abc import Iterable, Iterator
from heapq import nsmallest
from itertools import islice

from tickwheel.tasks.record import Status, Task, UnreadableTask
from tickwheel.tasks.triggers import Cron, Every

__all__ = ["COMING", "Foreseen", "foresee", "foresee_all"]

Foreseen = tuple[int, str, str]  # when, the id of the task, and its handler

COMING = frozenset({Status.PENDING, Status.RUNNING})


def foresee(task: Task, begin: int, end: int) -> Iterator[int]:
    """Yield the moments at which a task will run, from one to another and with both."""
    if task.status not in COMING or isinstance(task, UnreadableTask):
        return
    left = task.times - task.runs  # below 0: for ever
    moment: int | None = task.run_at
    occurrence = task.occurrence_at
    while moment is not None and moment <= end and left != 0:
        if moment >= begin:
            yield moment
            passed = 1
        else:
            occurrence, passed = skip(task, occurrence, begin, left)
        left -= passed
        moment = task.trigger.next_after(occurrence)
        occurrence = occurrence if moment is None else moment


def skip(task: Task, occurrence: int, begin: int, left: int) -> tuple[int, int]:
    """Return the last occurrence before a moment that can be found at once, and how many that passes by."""
    trigger = task.trigger
    if isinstance(trigger, Every) and occurrence < begin:
        passed = (begin - 1 - occurrence) // trigger.interval_ms
        passed = passed if left < 0 else min(passed, left - 1)
        return occurrence + passed * trigger.interval_ms, passed + 1
    if isinstance(trigger, Cron) and left < 0:
        return max(begin - 1, occurrence), 1
    return occurrence, 1


def foresee_all(tasks: Iterable[Task], begin: int, end: int, limit: int) -> list[Foreseen]:
    """List the first runs of many tasks between two moments, by time; of each task no more than are listed in all."""
    return nsmallest(
        limit,
        ((moment, task.id, task.handler) for task in tasks for moment in islice(foresee(task, begin, end), limit)),
    )
