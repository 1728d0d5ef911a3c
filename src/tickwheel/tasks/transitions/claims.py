"""The owner's steps: a claim, and a finish, which merges an outcome with what others changed while the task ran.

    claimed, version 5 ---- runs ----------------------------> outcome ---- finish
                             pause, cancel, update: version 6                 |  both hold
                                                                              v
An owner computes an outcome from the task as it was claimed. Meanwhile others may have asked it to stop, paused it, or
left a change for afterwards; none of that is lost, and the outcome is not, either.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from tickwheel.tasks.record import ENDED, Run, Status, Task, UnreadableTask
from tickwheel.tasks.transitions.series import continue_series, take_over

__all__ = [
    "claim",
    "conclude",
    "depends_on_stored",
    "finish",
    "may_claim",
    "may_finish",
    "may_move",
    "move",
    "unclaimed",
    "was_merged",
]


def may_claim(task: Task, until: int) -> bool:
    """Tell whether a task waits and is due until a moment."""
    return task.run_at <= until and task.listed_status is Status.PENDING and not isinstance(task, UnreadableTask)


def claim(task: Task, now: int) -> Task:
    """Let a pending task run."""
    timed_at = task.timed_at
    if timed_at is None and task.started_at is not None and task.has_begun:
        timed_at = task.started_at
    if timed_at is not task.timed_at or task.reason is not None or task.reason_code is not None:
        task = replace(task, timed_at=timed_at, reason=None, reason_code=None)
    return replace(task, status=Status.RUNNING, attempt=task.attempt + 1, started_at=now, version=task.version + 1)


def unclaimed(task: Task) -> Task:
    """Return a claimed task as it is to its own process until it begins: it waits, and this is no attempt yet."""
    return replace(task, status=Status.PENDING, attempt=task.attempt - 1, started_at=None)


def may_move(task: Task, partition: int) -> bool:
    """Tell whether a task waits, and in another partition."""
    waits = task.listed_status is Status.PENDING and not isinstance(task, UnreadableTask)
    return waits and task.partition != partition


def move(task: Task, partition: int) -> Task:
    """Put a pending task into another partition: its owner runs it from now on. It is no attempt."""
    return replace(task, partition=partition, version=task.version + 1)


def may_finish(there: Task, wanted: Task, partition: int) -> bool:
    """Tell whether it is this run of the task that is finished; whether the lease holds is for the store to say."""
    same = (
        there.version == wanted.version  # all that is known of a row that was damaged while it ran
        if isinstance(there, UnreadableTask)
        else there.attempt == wanted.attempt
    )
    return there.status is Status.RUNNING and same and there.partition == partition


def finish(running: Task, wanted: Task, now: int, skipped: Sequence[Run] = (), *, given_back: bool = False) -> Task:
    """Make of a running task what its owner wants; whether it is the owner's to change was found out before.

    One that is given back was claimed and did not run.
    """
    return conclude(running, wanted, now, skipped, given_back=given_back)[0]


def depends_on_stored(wanted: Task) -> bool:
    """Tell whether what becomes of a task takes how it is stored, though nobody changed it since its claim."""
    return wanted.cancel_requested or wanted.following is not None


def conclude(
    running: Task, wanted: Task, now: int, skipped: Sequence[Run], *, given_back: bool = False
) -> tuple[Task, Sequence[Run]]:
    """Do the same, and return besides which skipped occurrences the history is to remember."""
    if running is wanted and not (skipped or wanted.cancel_requested or wanted.paused or _lacks_end(wanted)):
        return replace(wanted, version=wanted.version + 1), skipped  # as most: nobody changed it while it ran
    if isinstance(running, UnreadableTask):
        running = wanted  # what its owner had read is all there is
    after = wanted
    if running is not wanted and _was_changed(running, wanted):
        after = replace(
            wanted,
            handler=running.handler,
            priority=running.priority,
            created_at=running.created_at,
            paused=running.paused,
            run_now_requested=wanted.run_now_requested and running.run_now_requested,
        )
    if running is not wanted or running.cancel_requested:
        after, skipped = _merge(running, after, now, skipped, given_back=given_back)
    ended = after.status in ENDED
    after = replace(
        after,
        partition=running.partition,
        attempt=max([wanted.attempt, *(run.attempt for run in skipped)]) if skipped else wanted.attempt,
        version=running.version + 1,
        paused=after.paused and not ended,
        finished_at=(now if after.finished_at is None else after.finished_at) if ended else after.finished_at,
        cancel_requested=running.cancel_requested and ended,
        cancel_run_only=False,
    )
    return after, skipped


def _lacks_end(task: Task) -> bool:
    return task.finished_at is None and task.status in ENDED


def _was_changed(running: Task, wanted: Task) -> bool:
    """Tell whether others gave a running task fields that its owner does not know of."""
    return (
        running.priority != wanted.priority
        or running.paused is not wanted.paused
        or running.handler != wanted.handler
        or running.created_at != wanted.created_at
        or (wanted.run_now_requested and not running.run_now_requested)
    )


def was_merged(wanted: Task, after: Task) -> bool:
    """Tell whether a task is not to be claimed as its owner wanted: at another time, otherwise, or not at all."""
    return (
        after.listed_status is not wanted.listed_status
        or after.run_at != wanted.run_at
        or after.at_most_once is not wanted.at_most_once
        or after.handler != wanted.handler
        or after.priority != wanted.priority
    )


def _before(running: Task, wanted: Task) -> dict[str, Any]:
    """Return where a series stood before the run; what was missed then, its owner found out when it began."""
    before = {name: getattr(running, name) for name in ("occurrence_at", "next_at", "grid_at", "runs")}
    missed_until = wanted.missed_until if wanted.missed_until is not None else running.missed_until
    return {**before, "missed_until": missed_until}


def _merge(
    running: Task, wanted: Task, now: int, skipped: Sequence[Run], *, given_back: bool
) -> tuple[Task, Sequence[Run]]:
    """Apply what was asked for during the run."""
    over = _is_over(running, wanted, given_back=given_back)
    cancelled = running.cancel_requested and not running.cancel_run_only
    if cancelled and running.following is None:  # otherwise it was debounced since then, and another run follows
        if wanted.status is Status.COMPLETED:
            return replace(wanted, following=None), ()
        at = wanted.finished_at if wanted.status in ENDED else None
        return replace(
            wanted,
            status=Status.CANCELLED,
            runs=running.runs,
            finished_at=at,
            reason=running.reason,
            following=None,
        ), ()
    stopped = not over or wanted.status in (Status.FAILED, Status.CANCELLED)
    if running.cancel_run_only and stopped:  # the run alone is: its series goes on
        ended = replace(wanted, **_before(running, wanted), following=running.following, finished_at=None)
        return continue_series(ended, Status.CANCELLED, running.reason, now)
    if not over and not cancelled:
        return replace(wanted, following=running.following), ()
    if running.following is not None:
        return take_over(
            replace(wanted, **_before(running, wanted)), running.following, _result(wanted), wanted.reason, now
        )
    return wanted, skipped


def _is_over(running: Task, wanted: Task, *, given_back: bool) -> bool:
    """Tell whether the occurrence is over.

    One that is given back may be due sooner, for the clock was set back; then the next one may be at the same moment.
    """
    if wanted.status in ENDED or not (given_back or wanted.has_begun):
        return True
    moved = (wanted.occurrence_at, wanted.next_at) != (running.occurrence_at, running.next_at)
    return moved and not (given_back and wanted.occurrence_at <= running.occurrence_at)


def _result(wanted: Task) -> Status:
    """Return what the occurrence of a task came to; a series that goes on for its owner shows it by its last run."""
    if wanted.status in ENDED:
        return wanted.status
    last = wanted.last_run
    if last is None or last.attempt != wanted.attempt:
        return Status.CANCELLED  # it was skipped
    return Status(last.status.value)
