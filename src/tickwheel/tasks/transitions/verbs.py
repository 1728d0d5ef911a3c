"""What anyone may do to a task, by the state it is in.

A verb that changes nothing returns the very task it was given. One that cannot be done raises.

                pending         paused          running                             finished
    cancel      cancelled       cancelled       asked to stop                       -
    pause       paused          -               paused when the run is over         TaskFinished
    resume      -               goes on         clears the flag                     TaskFinished
    reschedule  moved           moved           TaskRunning                         TaskFinished
    update      changed         changed         recurring: from the next occurrence TaskFinished
                                                one-off: TaskRunning
                a series whose `times` is lowered to what it has run is completed, now or when its run is over
    run_now     runs now        once, now       TaskRunning                         TaskFinished
    retry       -               -               -                                   pending
"""

from typing import Final, Literal

from msgspec.structs import replace

from tickwheel.errors import DuplicateTask, InvalidTask, TaskFinished, TaskRunning, TaskUnreadable, VersionMismatch
from tickwheel.tasks.policies import OnConflict
from tickwheel.tasks.record import ENDED, Following, Status, Task, UnreadableTask
from tickwheel.tasks.transitions.clock import set_back
from tickwheel.tasks.transitions.series import FRESH, anchor, end_task, first_point_after, is_used_up, point_used_up

__all__ = [
    "FREE",
    "add",
    "cancel",
    "check_debounce",
    "check_waits",
    "pause",
    "reschedule",
    "resume",
    "retry",
    "run_now",
    "update",
]

# What an `add` of the same id begins anew, whatever its `on_conflict`.
FREE: Final = frozenset({Status.FAILED, Status.CANCELLED})


def add(there: Task | None, new: Task, on_conflict: OnConflict) -> tuple[Task, bool]:
    """Bring a task to where one with its id may be already; return what is there then, and whether that is the new one.

    An id that failed or was cancelled is free. One that completed is not, as long as it is kept: it runs once.
    """
    check_debounce(new, on_conflict)
    if there is None:
        return new, True
    if isinstance(there, UnreadableTask):
        raise DuplicateTask(there, unreadable=True)
    if there.status not in FREE:
        if on_conflict == "keep":
            return there, False
        if on_conflict == "reject":
            raise DuplicateTask(there)
        if on_conflict == "debounce":
            check_debounce(there, on_conflict)
        if on_conflict == "debounce" and there.status is not Status.COMPLETED:
            return _debounce(there, new), False
        if there.status is Status.RUNNING:
            return _replace_running(there, new), False
    # The attempts go on, so that a node that still runs the old one cannot finish the new one.
    return replace(new, attempt=there.attempt, version=there.version + 1), True


def check_debounce(task: Task, on_conflict: OnConflict) -> None:
    """Raise if a recurring task is to be debounced."""
    if on_conflict == "debounce" and task.is_recurring:
        raise InvalidTask(f"task {task.id!r}: debounce is for tasks that run once, not for recurring ones")


def _debounce(there: Task, new: Task) -> Task:
    """Let a task run at another time with other arguments; where it goes does not change."""
    if there.handler != new.handler:
        raise InvalidTask(
            f"task {there.id!r} is for handler {there.handler!r}, and debounce does not give it to {new.handler!r}; "
            "use another id, or on_conflict='replace'"
        ).within("handler")
    if there.webhook != new.webhook:
        raise InvalidTask(
            f"task {there.id!r} goes to another webhook, and debounce does not change that; "
            "use another id, or on_conflict='replace'"
        ).within("webhook")
    before = there if there.following is None else there.following.task
    expires_at = before.expires_at if new.expires_at is None else new.expires_at
    if there.status is Status.RUNNING or there.following is not None:
        following = replace(new, following=None, expires_at=expires_at)
        return replace(there, following=Following("debounce", following), version=there.version + 1)
    return replace(
        there,
        args=new.args,
        run_at=new.run_at,
        occurrence_at=new.run_at,
        expires_at=expires_at,
        version=there.version + 1,
        **FRESH,
    )


def _replace_running(there: Task, new: Task) -> Task:
    """Let a recurring task be another one from its next occurrence on."""
    if not there.is_recurring or (there.cancel_requested and not there.cancel_run_only):
        raise TaskRunning(there.id)
    return replace(there, following=Following("replace", new), paused=False, version=there.version + 1)


def cancel(task: Task, reason: str, now: int, *, run_only: bool = False) -> Task:
    """Cancel a task that waits; ask one that runs to stop, once. With `run_only`, a series goes on afterwards.

    What was debounced after a first request is discarded by a second one.
    """
    if task.status in ENDED or isinstance(task, UnreadableTask):
        return task
    if task.status is Status.RUNNING:
        run_only = run_only and task.is_recurring
        following = task.following if run_only else None
        if task.cancel_requested and (run_only or not task.cancel_run_only) and following is task.following:
            return task
        return replace(
            task,
            cancel_requested=True,
            cancel_run_only=run_only,
            following=following,
            reason=reason,
            version=task.version + 1,
        )
    if run_only:
        return task
    return replace(
        task,
        status=Status.CANCELLED,
        paused=False,
        run_now_requested=False,
        following=None,
        reason=reason,
        finished_at=now,
        version=task.version + 1,
    )


def pause(task: Task) -> Task:
    """Keep a task from beginning: at once if it waits, otherwise when its run is over.

    A run_now that has not begun is withdrawn.
    """
    if isinstance(task, UnreadableTask):
        return task
    if task.status in ENDED:
        raise TaskFinished(task.id, task.status)
    if task.paused and not (task.status is Status.PENDING and task.run_now_requested):
        return task
    if task.status is Status.PENDING and task.run_now_requested:
        task = _withdraw_run_now(task)
    return replace(task, paused=True, run_now_requested=False, version=task.version + 1)


def _withdraw_run_now(task: Task) -> Task:
    if task.has_begun and task.retry_at is not None:
        return replace(task, run_at=task.retry_at, retry_at=None, run_now_requested=False)
    if task.next_at is None or task.has_begun:
        return replace(task, run_now_requested=False)
    return replace(task, run_at=task.next_at, occurrence_at=task.next_at, next_at=None, run_now_requested=False)


def resume(task: Task, now: int, *, run_missed: bool = False) -> Task:
    """Let a paused task begin again: an overdue one now, a series with its next occurrence.

    With `run_missed`, the missed-run policy applies to what a series missed meanwhile.
    """
    if task.status in ENDED:
        raise TaskFinished(task.id, task.status)
    if not task.paused or isinstance(task, UnreadableTask):
        return task
    task = replace(task, paused=False, version=task.version + 1)
    if task.status is Status.RUNNING or not task.is_recurring or task.has_begun:
        return task
    due_at = task.run_at if task.next_at is None else task.next_at
    coming = first_point_after(task, now)
    if due_at > now or coming is None:  # a calendar that has come to its end makes up for its last occurrence
        return task
    if run_missed:
        return replace(task, missed_until=now)
    if task.next_at is not None:
        return replace(task, next_at=coming, grid_at=None)
    return replace(task, run_at=coming, occurrence_at=coming, grid_at=None, missed_until=None)


def reschedule(task: Task, run_at: int) -> Task:
    """Give a task that waits another time; a series goes on at the first point of its grid that is later than both.

    What waits to be tried again is still the same occurrence. A run_now is made all the same.
    """
    check_waits(task)
    version = task.version + 1
    if task.has_begun and task.run_now_requested:
        return replace(task, retry_at=run_at, version=version)  # the time it has if the run_now is withdrawn
    if task.has_begun:
        grid_at = (
            anchor(task) if task.is_recurring and task.next_at is None and run_at < task.occurrence_at else task.grid_at
        )
        occurrence_at = min(task.occurrence_at, run_at)
        return replace(
            task, run_at=run_at, occurrence_at=occurrence_at, grid_at=grid_at, retry_at=None, version=version
        )
    grid_at = anchor(task) if task.is_recurring else None
    if task.next_at is not None or task.run_now_requested:
        return replace(task, next_at=run_at, grid_at=grid_at, version=version)
    return replace(task, run_at=run_at, occurrence_at=run_at, grid_at=grid_at, missed_until=None, version=version)


def update(there: Task, wanted: Task, now: int) -> Task:
    """Make of a task what was made of it when it was read; of a running series, from its next occurrence on.

    A series that waits and has no run left is completed.
    """
    if there.status is not Status.RUNNING or not there.is_recurring:
        check_waits(there)
    if isinstance(there, UnreadableTask):
        raise TaskUnreadable(there.id, there.why)
    if there.version != wanted.version:
        raise VersionMismatch(there.id, there.version)
    if there.status is Status.RUNNING:
        if there.cancel_requested and not there.cancel_run_only:
            raise TaskRunning(there.id)
        how: Literal["update", "replace"] = (
            "replace" if there.following is not None and there.following.how == "replace" else "update"
        )
        task = replace(wanted, status=Status.PENDING, version=0, attempt=0, following=None, cancel_requested=False)
        before = there.following.task if there.following is not None and there.following.keeps_time else there
        keeps_time = (wanted.trigger, wanted.occurrence_at) == (before.trigger, before.occurrence_at)
        return replace(there, following=Following(how, task, keeps_time), version=there.version + 1)
    after = replace(
        wanted,
        partition=there.partition,
        status=there.status,
        paused=there.paused,
        attempt=there.attempt,
        created_at=there.created_at,
        version=there.version + 1,
    )
    replaced = after.following is not None and after.following.how == "replace"  # by another task, which is to run
    if not after.is_recurring or replaced or not is_used_up(after, after.runs):
        return after
    reason = f"it has run {after.runs:,} times, and is to run {after.times:,} times"
    return end_task(replace(after, paused=False, following=None), Status.COMPLETED, after.runs, reason, now)


def run_now(task: Task, now: int) -> Task:
    """Let a task that waits run now, also if it is paused; a series gets one more run, and its grid stays.

    What `retry` asked for is to run now as well: after a clock that was ahead was set back, this is that run.
    """
    check_waits(task)
    if task.run_now_requested or (task.run_at <= now and not task.paused):
        return task
    version = task.version + 1
    if task.retry_at == task.run_at and not task.has_begun:
        task = set_back(task, now)
        if task.run_at <= now and not task.paused:
            return replace(task, version=version)
    if task.has_begun:
        return replace(
            task, run_at=min(task.run_at, now), retry_at=task.run_at, run_now_requested=True, version=version
        )
    if not task.is_recurring:
        moment = min(task.run_at, now)
        next_at = None if moment == task.run_at else task.run_at
        return replace(
            task, run_at=moment, occurrence_at=moment, next_at=next_at, run_now_requested=True, version=version
        )
    return replace(task, run_at=now, occurrence_at=now, next_at=task.run_at, run_now_requested=True, version=version)


def retry(task: Task, now: int) -> Task:
    """Run a finished task again, now. A series makes one occurrence and then follows its grid: one at the least."""
    if task.status not in ENDED or isinstance(task, UnreadableTask):
        return task
    runs, fresh = 0, {**FRESH, "grid_at": point_used_up(task, now), "retry_at": now}
    if task.is_recurring:
        runs = min(task.runs, task.times - 1) if task.times > 0 else task.runs
    return replace(
        task,
        status=Status.PENDING,
        paused=False,
        run_at=now,
        occurrence_at=now,
        runs=runs,
        version=task.version + 1,
        cancel_requested=False,
        cancel_run_only=False,
        missed_until=None,
        started_at=None,
        finished_at=None,
        result=None,
        error=None,
        reason=None,
        reason_code=None,
        **fresh,
    )


def check_waits(task: Task) -> None:
    """Raise unless a task is pending, paused or not."""
    if isinstance(task, UnreadableTask):
        raise TaskUnreadable(task.id, task.why)
    if task.status is Status.RUNNING:
        raise TaskRunning(task.id)
    if task.status in ENDED:
        raise TaskFinished(task.id, task.status)
