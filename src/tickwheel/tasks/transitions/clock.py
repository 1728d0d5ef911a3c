"""What a step of the wall clock changes: nothing that is due at a moment, and whatever waits for a span of time.

    the clock is set back from 12:00 to 11:00
    delay, at, cron           12:10    stays: they wait for the wall clock
    every 1 min               12:01    11:01, the first point of its grid from now on
    a retry that waits 2 s    12:00:02 11:00:02 in a series of every; otherwise not before the task's own time, 12:00
    run_now, retry            12:00    11:00, as soon as it is noticed

Whether a time was chosen by a clock that was ahead is seen from the task: it was added, run or tried later than now.
"""

from typing import Final

from msgspec.structs import replace

from tickwheel.tasks.record import Task
from tickwheel.tasks.transitions.series import STEP_MS, first_point_after, point_used_up
from tickwheel.tasks.triggers import Every

__all__ = ["STEP_MS", "set_back", "set_back_since_claim"]

NOTICED_MS: Final = STEP_MS  # a step is noticed about so much later


def set_back(task: Task, now: int, before: int = 0) -> Task:
    """Return a pending or released task as it is to be after the clock was set back; itself, if nothing changes.

    `before` is what the clock showed then, as far as it is known: nothing is known of when a series was resumed.
    """
    task = _set_back_following(task, now)
    if task.next_at is not None and task.next_at == task.retry_at and not task.has_begun:
        if task.next_at > now + STEP_MS:  # `retry` asked for it now, by a clock that was ahead
            task = replace(task, next_at=now, retry_at=now, grid_at=point_used_up(task, now))
    elif task.next_at is not None and (point := _point_from_now(task, task.next_at, now, before, 0)) is not None:
        task = replace(task, next_at=point)  # after a run that run_now asked for, and that is made now
    if task.run_at <= now + STEP_MS:
        return task
    if task.run_now_requested:
        return replace(task, run_at=now)
    if task.retry_at == task.run_at:  # it was asked for now, too, and by a clock that was ahead
        return replace(task, run_at=now, occurrence_at=now, retry_at=now, grid_at=point_used_up(task, now))
    if task.has_begun or task.run_at > task.occurrence_at:
        chosen_at = task.run_at if task.interrupted else _chosen_at(task)  # to be run again at once
        return _shorten_wait(task, now, chosen_at - now)
    point = _point_from_now(task, task.run_at, now, before, NOTICED_MS)
    return task if point is None else replace(task, run_at=point, occurrence_at=point, missed_until=None)


def set_back_since_claim(task: Task, now: int) -> Task:
    """Return a claimed task as it is to be released: it was due then, and is not if the clock was set back since.

    Of one that is due, nothing can be said: a series may wait for longer than its interval by itself.
    """
    return set_back(task, now) if task.run_at > now + STEP_MS else task


def _set_back_following(task: Task, now: int) -> Task:
    """Do the same with the series that a task is to be from its next occurrence on."""
    following = task.following
    if following is None or following.how == "debounce" or following.keeps_time:
        return task
    point = _point_from_now(following.task, following.task.run_at, now, 0, 0)
    if point is None:
        return task
    return replace(task, following=replace(following, task=replace(following.task, run_at=point, occurrence_at=point)))


def _point_from_now(task: Task, due_at: int, now: int, before: int, passed_ms: int) -> int | None:
    """Return where a series of `every` goes on from now; None if it is to wait for the moment it has.

    A point that was passed since the step, at most `passed_ms` ago, is still to come; but not one that came before its
    last run ended.
    """
    if not isinstance(task.trigger, Every) or task.grid_at is not None:
        return None  # a moment that somebody asked for
    interval_ms = task.trigger.interval_ms
    if due_at <= now + interval_ms + STEP_MS:
        return None
    passed_ms = min(interval_ms, passed_ms, max(before - _chosen_at(task), 0))
    return first_point_after(task, now - passed_ms)


def _shorten_wait(task: Task, now: int, ahead_ms: int) -> Task:
    """Let an attempt wait as long as it would have; what is due at a moment is not tried before that."""
    if ahead_ms <= STEP_MS:
        return task
    earliest = now if isinstance(task.trigger, Every) else max(now, task.occurrence_at)
    run_at = max(task.run_at - ahead_ms, earliest)
    return replace(task, run_at=run_at, timed_at=now) if run_at < task.run_at else task


def _chosen_at(task: Task) -> int:
    """Return when its time was chosen, at the earliest: when it was added, begun, or ran last."""
    if task.timed_at is not None:
        return task.timed_at
    ran_at = 0 if task.last_run is None else task.last_run.finished_at
    began_at = max(task.started_at or 0, ran_at)
    return began_at if task.has_begun and began_at else max(task.created_at, began_at)
