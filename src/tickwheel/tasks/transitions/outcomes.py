"""What a run comes to: each function takes a task as it was claimed, and returns how it is to be from now on.

begin         it can be run; or it has expired, or was missed and is skipped
succeed       the next occurrence, or completed
fail          the next attempt; without retries left the next occurrence, or failed
fail_for_good the next occurrence without another attempt, or failed
snooze        the same occurrence again, later; that is no failure
stop          cancelled on request
crash         its process died: again, after a wait; failed after `max_crashes` of them, or if at most once
interrupt     it was running when its scheduler stopped: again, and neither a failure nor a crash
release       it was claimed and did not begin: as it was before
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from tickwheel.tasks.record import LastRun, Run, RunStatus, Status, Task
from tickwheel.tasks.transitions.series import (
    SKIPPED_MAX,
    STEP_MS,
    anchor,
    continue_series,
    due_points,
    first_point_after,
    grace_ms,
    is_missed,
    recent_points,
    skip_rows,
)
from tickwheel.tasks.triggers import Every, Once

__all__ = [
    "Ended",
    "begin",
    "crash",
    "expire",
    "fail",
    "fail_for_good",
    "has_expired",
    "interrupt",
    "release",
    "skip_missed",
    "snooze",
    "stop",
    "succeed",
]

CRASH_WAIT_MS: Final = 1_000  # after the first crash; twice as long after each further one, give or take a half


class Ended(NamedTuple):
    """What a claimed task is to be from now on, and what the history remembers of it."""

    task: Task
    run: Run | None = None
    skipped: Sequence[Run] = ()  # other occurrences


def begin(task: Task, now: int, owned_since: int = 0) -> Task | Ended:
    """Return a claimed task as it begins to run, or what becomes of it if it must not.

    `owned_since` is when its node took over its partition: what was due before that was missed. When its handler is
    called is for the caller to note, in `started_at`.
    """
    if task.expires_at is not None and has_expired(task, now):
        return expire(task, now)
    if is_missed(task, owned_since):
        missed_until = max(owned_since, task.missed_until or 0)
        ended = skip_missed(task, now, missed_until)
        if ended is not None:
            return ended
        if task.is_recurring:
            task = replace(task, missed_until=missed_until)
    return replace(task, interrupted=False) if task.interrupted else task


def succeed(task: Task, result: object, now: int) -> Ended:
    """End a run that returned a result."""
    if result is not task.result or task.error is not None or task.consecutive_failures:
        task = replace(task, result=result, error=None, consecutive_failures=0)
    return _end_occurrence(task, Status.COMPLETED, None, now)


def fail(task: Task, error: str, now: int, chance: float, asked_ms: int | None = None) -> Ended:
    """End a run that raised; `chance`, from 0 to 1, spreads the retries, unless it asked for a wait."""
    failures = task.failures + 1
    task = replace(task, error=error, failures=failures)
    wait_ms = None if task.at_most_once else task.retry.wait_ms(failures, chance, now - task.occurrence_at)
    if wait_ms is None:
        tried = "it failed" if failures == 1 else f"it failed {failures} times"
        return _end_failed(task, f"{tried}; there are no retries left", now)
    wait_ms = wait_ms if asked_ms is None else asked_ms
    reason = f"attempt {failures} of {task.retry.retries + 1} failed; the next one is in {wait_ms / 1000:g} s"
    return _again(task, RunStatus.FAILED, now + wait_ms, reason, now)


def fail_for_good(task: Task, error: str, reason: str, now: int) -> Ended:
    """End a run whose occurrence has failed and is not tried again; its series goes on."""
    return _end_failed(replace(task, error=error, failures=task.failures + 1), f"{reason}; it is not tried again", now)


def snooze(task: Task, delay_ms: int, why: str, now: int) -> Ended:
    """End a run that asked to be run again later; a task that runs at most once has failed then."""
    if task.at_most_once:
        return fail_for_good(task, why, "it asked to run again, and runs at most once", now)
    task = replace(task, snoozes=task.snoozes + 1)
    return _again(task, RunStatus.SNOOZED, now + delay_ms, f"snoozed for {delay_ms / 1000:g} s", now)


def stop(task: Task, reason: str, now: int) -> Ended:
    """End a run that was cancelled: the task with all that was to come, or just this run of a series."""
    if task.cancel_run_only and task.is_recurring:
        return _end_occurrence(task, Status.CANCELLED, reason, now)
    run = _run(task, RunStatus.CANCELLED, now, reason)
    task = replace(task, status=Status.CANCELLED, finished_at=now, reason=reason, following=None)
    return Ended(_remember(task, run), run)


def crash(task: Task, now: int, chance: float) -> Ended:
    """End a run whose process died. The wait, spread by chance, parts the culprit from those that died with it."""
    crashes = task.crashes + 1
    task = replace(task, crashes=crashes)
    reason = "worker died while running this task"
    if task.at_most_once:
        return _end_failed(task, f"{reason}; it runs at most once", now, why=reason)
    if crashes >= task.max_crashes:
        times = "once" if crashes == 1 else f"{crashes} times"
        return _end_failed(task, f"worker died {times} while running this task", now, why=reason)
    wait_ms = int(CRASH_WAIT_MS * 2 ** min(crashes - 1, 10) * (0.5 + chance))
    again = f"{reason}; it runs again in {wait_ms / 1000:g} s"
    return _again(task, RunStatus.FAILED, now + wait_ms, again, now, why=reason)


def interrupt(task: Task, now: int) -> Ended:
    """End a run that was interrupted by stop(): it runs again, unless it runs at most once."""
    reason = "interrupted: the scheduler was stopped"
    if task.at_most_once:
        return _end_failed(task, f"{reason}; it runs at most once", now, why=reason)
    return _again(replace(task, interrupted=True), RunStatus.CANCELLED, now, reason, now, why=reason)


def release(task: Task, reason: str | None = None, run_at: int | None = None) -> Ended:
    """Give up the claim of a task that has not begun; there is no run to remember."""
    run_at = task.run_at if run_at is None else run_at
    return Ended(replace(task, status=Status.PENDING, started_at=None, run_at=run_at, reason=reason))


def has_expired(task: Task, now: int) -> bool:
    """Tell whether a task must not begin any more."""
    return task.expires_at is not None and now > task.expires_at


def expire(task: Task, now: int) -> Ended:
    """Cancel a task that would begin after it expired, with its series; there is no run to remember."""
    assert task.expires_at is not None
    reason = f"expired {(now - task.expires_at) / 1000:g} s before it could begin"
    return Ended(replace(task, status=Status.CANCELLED, finished_at=now, reason=reason, reason_code="expired"))


def skip_missed(task: Task, now: int, missed_until: int) -> Ended | None:
    """Pass over missed occurrences by the task's policy; None if the one that was claimed is to be run."""
    if task.late.mode == "run_once" or (task.late.mode == "run_all" and not task.is_recurring):
        return None
    first = task.occurrence_at
    if task.late.mode == "run_all":
        wanted, more = due_points(task, first, missed_until, task.late.catch_up)
        if not more:
            return None
        return _pass_over(task, wanted[0] - 1, now, missed_until)
    if not task.is_recurring:
        reason = f"skipped: {(now - first) / 1000:g} s late"
        run = _skipped(task, reason, now)
        after = replace(task, status=Status.CANCELLED, finished_at=now, started_at=None)
        return Ended(replace(after, reason=reason, reason_code="skipped"), run)
    return _pass_over(task, missed_until - grace_ms(task) - 1, now, None)


def _pass_over(task: Task, until: int, now: int, missed_until: int | None) -> Ended:
    """Skip the claimed occurrence and all others until a moment."""
    following = first_point_after(task, max(task.occurrence_at, anchor(task)))
    coming = following if following is None or following > until else first_point_after(task, until)
    points, more = ([], False) if following is None else recent_points(task, following, until, SKIPPED_MAX)
    reason = f"skipped: {(now - task.occurrence_at) / 1000:g} s late"
    run = _skipped(task, reason, now)
    rows = skip_rows(task, points, more, now, "it was missed")
    if coming is None:
        over = replace(task, status=Status.CANCELLED, finished_at=now, reason=reason, reason_code="skipped")
        return Ended(over, run, rows)
    after = replace(
        task,
        status=Status.PENDING,
        run_at=coming,
        occurrence_at=coming,
        grid_at=None,
        missed_until=missed_until,
        started_at=None,
        reason=reason,
    )
    return Ended(after, run, rows)


def _skipped(task: Task, reason: str, now: int) -> Run:
    return replace(_run(task, RunStatus.SKIPPED, now, reason), started_at=None)


def _again(task: Task, outcome: RunStatus, run_at: int, reason: str, now: int, why: str | None = None) -> Ended:
    """Let the same occurrence be tried again; a run_now was made, unless the run was interrupted.

    A clock that was set back makes no attempt early. The grid of `every` does not wait for a clock.
    """
    if type(task.trigger) is not Every:
        run_at = max(run_at, task.occurrence_at)
    run = _run(task, outcome, now, why)
    requested = task.run_now_requested and outcome is RunStatus.CANCELLED
    at_begin = run.started_at is not None and now - run.started_at <= STEP_MS
    after = replace(
        task,
        status=Status.PENDING,
        run_at=run_at,
        reason=reason,
        retry_at=None,
        timed_at=None if at_begin else now,
        run_now_requested=requested,
        started_at=None if task.started_at is None else run.started_at,
    )
    return Ended(_remember(after, run), run)


def _end_failed(task: Task, reason: str, now: int, why: str | None = None) -> Ended:
    task = replace(task, consecutive_failures=task.consecutive_failures + 1)
    return _end_occurrence(task, Status.FAILED, reason, now, why)


def _end_occurrence(task: Task, status: Status, reason: str | None, now: int, why: str | None = None) -> Ended:
    outcome = RunStatus.COMPLETED if status is Status.COMPLETED else RunStatus(status)
    run = _run(task, outcome, now, reason if status is Status.CANCELLED else why)
    task = _remember(task, run)
    after, skipped = continue_series(task, status, reason, now)
    return Ended(after, run, skipped)


def _remember(task: Task, run: Run) -> Task:
    """Keep the last run of a recurring task beside it: it has no final state to be seen by."""
    if type(task.trigger) is Once:
        return task
    last = LastRun(status=run.status, attempt=run.attempt, started_at=run.started_at, finished_at=run.finished_at)
    return replace(task, last_run=last)


def _run(task: Task, status: RunStatus, now: int, reason: str | None = None) -> Run:
    return Run(
        task_id=task.id,
        attempt=task.attempt,
        occurrence_at=task.occurrence_at,
        started_at=now if task.started_at is None else min(task.started_at, now),  # the clock may be set back
        finished_at=now,
        status=status,
        error=task.error if status is RunStatus.FAILED else None,
        reason=reason,
        due_at=task.run_at,
    )
