"""What would run, and when: nothing is executed, and nobody asks a clock.

>>> from tickwheel.tasks.triggers import Every
>>> minutely = Every(interval_ms=60_000)
>>> task = Task(id="a", handler="h", trigger=minutely, times=3, run_at=0, occurrence_at=0, created_at=0)
>>> list(preview_runs(task, begin=1, end=3_600_000))
[60000, 120000]

It is assumed that every run succeeds and takes no time, and that nobody changes anything.
"""

from collections.abc import Iterable, Iterator
from heapq import nsmallest
from itertools import islice

from msgspec.structs import replace

from tickwheel.tasks.record import Status, Task, UnreadableTask
from tickwheel.tasks.transitions.series import first_point_after
from tickwheel.tasks.triggers import Cron, Every

__all__ = ["COMING", "UpcomingRun", "preview_all", "preview_runs"]

UpcomingRun = tuple[int, str, str]  # when, the id of the task, and its handler

COMING = frozenset({Status.PENDING, Status.RUNNING})


def preview_runs(task: Task, begin: int, end: int) -> Iterator[int]:
    """Yield the moments at which a task will run, from one to another and with both."""
    if task.listed_status not in COMING or isinstance(task, UnreadableTask):
        return
    if task.next_at is not None and task.is_recurring:  # a run_now, and then the series as it was
        if begin <= task.run_at <= end:
            yield task.run_at
        task = replace(task, run_at=task.next_at, occurrence_at=task.next_at, next_at=None)
    left = task.times - task.runs  # below 0: for ever
    if task.grid_at is not None and task.is_recurring:  # a run that was moved, and then the grid
        if begin <= task.run_at <= end:
            yield task.run_at
        following = first_point_after(task, max(task.occurrence_at, task.grid_at))
        left -= 1
        if following is None:
            return
        task = replace(task, run_at=following, occurrence_at=following, grid_at=None)
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


def preview_all(tasks: Iterable[Task], begin: int, end: int, limit: int) -> list[UpcomingRun]:
    """List the first runs of many tasks between two moments, by time; of each task no more than are listed in all."""
    return nsmallest(
        limit,
        ((moment, task.id, task.handler) for task in tasks for moment in islice(preview_runs(task, begin, end), limit)),
    )
