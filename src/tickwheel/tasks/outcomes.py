"""What becomes of a task when a run of it is over: the one place that decides.

Each function takes a task as it was claimed and returns it as it is to be from now on, with the run to remember:

    succeed     the next occurrence, or completed
    fail        the next attempt, the next occurrence if there are attempts no more, or failed
    fail_for_good   the next occurrence without another attempt, or failed
    give_up     failed, occurrences and all
    skip        it was too late to run: the next occurrence, or cancelled
    expire      nobody wants it any more: cancelled, occurrences and all
    stop        cancelled, occurrences and all
    orphan      its worker died in the middle: again, or failed if it must not run twice

They only compute: moments and chance are passed in, and stores do the writing.
"""

from msgspec.structs import replace

from tickwheel.tasks.record import Run, Status, Task
from tickwheel.tasks.triggers import Cron, Every

__all__ = ["expire", "fail", "fail_for_good", "give_up", "has_expired", "is_late", "orphan", "skip", "stop", "succeed"]


def succeed(task: Task, result: object, now: int) -> tuple[Task, Run]:
    """Return a task whose run gave a result."""
    task = replace(task, result=result, error=None)
    return _end_occurrence(task, Status.COMPLETED, None, now), _run(task, Status.COMPLETED, now)


def fail(task: Task, error: str, now: int, chance: float, asked_ms: int | None = None) -> tuple[Task, Run]:
    """Return a task whose run raised; `chance`, from 0 to 1, spreads the retries, unless it asked for another wait."""
    failures = task.failures + 1
    task = replace(task, error=error, failures=failures)
    run = _run(task, Status.FAILED, now)
    wait_ms = task.retry.wait_ms(failures, chance, now - task.occurrence_at)
    if wait_ms is None:
        tried = "it failed" if failures == 1 else f"it failed {failures} times"
        return _end_occurrence(task, Status.FAILED, f"{tried}; there are no retries left", now), run
    wait_ms = wait_ms if asked_ms is None else asked_ms
    reason = f"attempt {failures} of {task.retry.retries + 1} failed; the next one is in {wait_ms / 1000:g} s"
    return replace(task, status=Status.PENDING, run_at=now + wait_ms, reason=reason), run


def fail_for_good(task: Task, error: str, reason: str, now: int) -> tuple[Task, Run]:
    """Return a task whose occurrence failed and is not tried again; its series goes on."""
    task = replace(task, error=error, failures=task.failures + 1)
    run = _run(task, Status.FAILED, now)
    return _end_occurrence(task, Status.FAILED, f"{reason}; it is not tried again", now), run


def give_up(task: Task, error: str, now: int) -> tuple[Task, Run]:
    """Return a task whose run raised, and said that there is no use in another."""
    task = replace(task, error=error, failures=task.failures + 1)
    run = _run(task, Status.FAILED, now)
    return replace(task, status=Status.FAILED, runs=task.runs + 1, finished_at=now, reason="it gave up"), run


def skip(task: Task, now: int) -> tuple[Task, Run]:
    """Return a task that was too late to be run."""
    reason = f"skipped: {(now - task.occurrence_at) / 1000:g} s late"
    run = _run(task, Status.CANCELLED, now, reason)
    return _end_occurrence(task, Status.CANCELLED, reason, now), run


def expire(task: Task, now: int) -> tuple[Task, None]:
    """Return a task that came due when it was of no use any more; there is no run to remember."""
    assert task.expires_at is not None
    reason = f"expired {(now - task.expires_at) / 1000:g} s before it came due"
    return replace(task, status=Status.CANCELLED, finished_at=now, reason=reason), None


def stop(task: Task, reason: str, now: int) -> tuple[Task, Run]:
    """Return a task that was cancelled while it ran."""
    stopped = replace(task, status=Status.CANCELLED, finished_at=now, reason=reason)
    return stopped, _run(task, Status.CANCELLED, now, reason)


def orphan(task: Task, now: int) -> tuple[Task, Run]:
    """Return a task whose worker died while it ran."""
    reason = "its worker died while it ran"
    run = _run(task, Status.FAILED, now, reason)
    if task.at_most_once:
        return _end_occurrence(task, Status.FAILED, f"{reason}; it must not run twice", now), run
    return replace(task, status=Status.PENDING, run_at=now, reason=f"{reason}; it runs again"), run


def is_late(task: Task, now: int) -> bool:
    """Tell whether an occurrence is later than its policy calls in time; a retry never is."""
    return task.failures == 0 and now - task.occurrence_at > task.late.grace_ms


def has_expired(task: Task, now: int) -> bool:
    """Tell whether a task is of no use any more."""
    return task.expires_at is not None and now > task.expires_at


def _end_occurrence(task: Task, status: Status, reason: str | None, now: int) -> Task:
    """Go on with the next occurrence if there is one, or end with a status."""
    runs = task.runs + 1
    following = None if runs == task.times else _next_occurrence(task, now)
    if following is None:
        return replace(task, status=status, runs=runs, finished_at=now, reason=reason)
    return replace(
        task, status=Status.PENDING, runs=runs, failures=0, run_at=following, occurrence_at=following, reason=reason
    )


def _next_occurrence(task: Task, now: int) -> int | None:
    """Return when a task is due next: what was missed meanwhile comes first, or not at all, by its late policy."""
    following = task.trigger.next_after(task.occurrence_at)
    if following is None or following > now - task.late.grace_ms:
        return following
    if task.late.mode == "run_all":
        return _catch_up(task, following, now)
    if isinstance(task.trigger, Every):
        missed = (now - following) // task.trigger.interval_ms
        return following + (missed + 1) * task.trigger.interval_ms
    return task.trigger.next_after(now)


def _catch_up(task: Task, following: int, now: int) -> int | None:
    """Return the first of the missed occurrences that is still to be made up for: at most `catch_up` of them."""
    if isinstance(task.trigger, Every):
        missed = (now - following) // task.trigger.interval_ms + 1
        return following + max(missed - task.late.catch_up, 0) * task.trigger.interval_ms
    assert isinstance(task.trigger, Cron)
    moment: int | None = following
    for _ in range(task.late.catch_up):
        moment = None if moment is None else task.trigger.next_after(moment)
        if moment is None or moment > now:
            return following
    return task.trigger.next_after(now)  # more were missed than there are to be made up for: go on from here


def _run(task: Task, status: Status, now: int, reason: str | None = None) -> Run:
    return Run(
        task_id=task.id,
        attempt=task.attempt,
        occurrence_at=task.occurrence_at,
        started_at=now if task.started_at is None else task.started_at,
        finished_at=now,
        status=status,
        error=task.error if status is Status.FAILED else None,
        reason=reason,
        due_at=task.run_at,
    )
