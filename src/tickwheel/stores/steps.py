"""What each call makes of a task: the rules of the contract, without a store.

Stores that can run Python between reading and writing use these as they are; the others say the same in their own
language, and the conformance suite tells whether they do.

>>> task = Task(id="a", handler="h", run_at=1000, occurrence_at=1000, created_at=0)
>>> running = claim(task, now=1003)
>>> running.status.value, running.attempt, running.started_at, running.version
('running', 1, 1003, 1)
>>> cancel(running, "not needed", now=1004).cancel_requested
True
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from tickwheel.errors import DuplicateTask, InvalidTask, TaskHasChanged, TaskIsOver, TaskIsRunning, TaskUnreadable
from tickwheel.stores.contract import Conflict, Finish, OnConflict
from tickwheel.tasks.record import ENDED, Status, Task, UnreadableTask
from tickwheel.tasks.triggers import Once

__all__ = [
    "FREE",
    "Settled",
    "amend",
    "arrive",
    "cancel",
    "claim",
    "finish",
    "may_finish",
    "move",
    "pause",
    "resume",
    "revive",
    "settle",
]

# What an `add` of the same id begins anew, whatever its `on_conflict`.
FREE: Final = frozenset({Status.FAILED, Status.CANCELLED})


def arrive(there: Task | None, new: Task, on_conflict: OnConflict) -> Conflict:
    """Bring a task to where one with its id may be already.

    An id that failed or was cancelled is free. One that completed is not, as long as it is kept: it runs once.
    """
    if there is None:
        return Conflict(new, added=True)
    if isinstance(there, UnreadableTask):
        raise DuplicateTask(there, unreadable=True)
    if there.status not in FREE:
        if on_conflict == "keep":
            return Conflict(there, added=False)
        if on_conflict == "reject":
            raise DuplicateTask(there)
        if there.status is Status.RUNNING:
            raise TaskIsRunning(there.id)
        if on_conflict == "debounce":
            if not (isinstance(there.trigger, Once) and isinstance(new.trigger, Once)):
                raise InvalidTask(f"task {there.id!r}: debounce is for tasks that run once, not for recurring ones")
            if there.status is not Status.COMPLETED:
                return Conflict(replace(move(there, new.run_at), args=new.args), added=False)
    # The attempts go on, so that whoever still runs the old one cannot finish the new one.
    return Conflict(replace(new, attempt=there.attempt, version=there.version + 1), added=True)


class Settled(msgspec.Struct, frozen=True):
    """What a batch that was brought comes to: the answers, the tasks to write, and which of those begin a new life."""

    conflicts: list[Conflict]
    changed: dict[str, Task]
    anew: set[str]


def settle(there: Mapping[str, Task], tasks: Sequence[Task], on_conflict: OnConflict) -> Settled:
    """Bring a whole batch, one after the other, or raise."""
    settled = Settled([], {}, set())
    for new in tasks:
        old = settled.changed.get(new.id) or there.get(new.id)
        conflict = arrive(old, new, on_conflict)
        settled.conflicts.append(conflict)
        if conflict.task is not old:
            settled.changed[new.id] = conflict.task
        if old is None or (conflict.added and old.status in ENDED):
            settled.anew.add(new.id)
    return settled


def amend(there: Task, wanted: Task) -> Task:
    """Make of a task that waits what was made of it when it was read."""
    _check_waits(there)
    if there.version != wanted.version:
        raise TaskHasChanged(there.id, there.version)
    return replace(
        wanted,
        partition=there.partition,
        status=there.status,
        attempt=there.attempt,
        created_at=there.created_at,
        version=there.version + 1,
    )


def _check_waits(task: Task) -> None:
    if isinstance(task, UnreadableTask):
        raise TaskUnreadable(task.id, task.why)
    if task.status is Status.RUNNING:
        raise TaskIsRunning(task.id)
    if task.status in ENDED:
        raise TaskIsOver(task.id, task.status)


def move(task: Task, run_at: int) -> Task:
    """Give a task another time; for a retry it is still the same occurrence, otherwise the occurrence moves along."""
    _check_waits(task)
    occurrence_at = min(task.occurrence_at, run_at) if task.failures else run_at
    return replace(task, run_at=run_at, occurrence_at=occurrence_at, version=task.version + 1)


def cancel(task: Task, reason: str, now: int) -> Task:
    """Cancel a task that waits; ask one that runs to stop, once."""
    if task.status in ENDED or (task.status is Status.RUNNING and task.cancel_requested) or _is_unreadable(task):
        return task
    if task.status is Status.RUNNING:
        return replace(task, cancel_requested=True, reason=reason, version=task.version + 1)
    return replace(task, status=Status.CANCELLED, reason=reason, finished_at=now, version=task.version + 1)


def pause(task: Task) -> Task:
    """Keep a pending task from coming due."""
    if task.status is not Status.PENDING or _is_unreadable(task):
        return task
    return replace(task, status=Status.PAUSED, version=task.version + 1)


def resume(task: Task) -> Task:
    """Let a paused task come due again."""
    if task.status is not Status.PAUSED or _is_unreadable(task):
        return task
    return replace(task, status=Status.PENDING, version=task.version + 1)


def revive(task: Task, run_at: int) -> Task:
    """Begin a task that is over once more."""
    if task.status not in ENDED or _is_unreadable(task):
        return task
    return replace(
        task,
        status=Status.PENDING,
        run_at=run_at,
        occurrence_at=run_at,
        failures=0,
        runs=0,
        version=task.version + 1,
        cancel_requested=False,
        started_at=None,
        finished_at=None,
        result=None,
        error=None,
        reason=None,
    )


def _is_unreadable(task: Task) -> bool:
    """Tell whether nothing can be made of a task: it stays as it is."""
    return isinstance(task, UnreadableTask)


def claim(task: Task, now: int) -> Task:
    """Let a pending task run."""
    return replace(
        task, status=Status.RUNNING, attempt=task.attempt + 1, started_at=now, version=task.version + 1, reason=None
    )


def may_finish(there: Task, wanted: Finish) -> bool:
    """Tell whether it is this run of the task that is finished; whether the lease holds is for the store to say."""
    same = (
        there.version == wanted.task.version  # all that is known of a row that was damaged while it ran
        if isinstance(there, UnreadableTask)
        else there.attempt == wanted.task.attempt
    )
    return there.status is Status.RUNNING and same and there.partition == wanted.lease.partition


def finish(running: Task, wanted: Task, now: int) -> Task:
    """Make of a running task what its owner wants; whether it is the owner's to change was found out before."""
    if isinstance(running, UnreadableTask):
        running = wanted  # what its owner had read is all there is
    status, reason, finished_at = wanted.status, wanted.reason, wanted.finished_at
    if running.cancel_requested and status not in ENDED:
        status, finished_at = Status.CANCELLED, None
    if running.cancel_requested and status is Status.CANCELLED:
        reason = running.reason
    if status in ENDED and finished_at is None:
        finished_at = now
    return replace(
        wanted,
        handler=running.handler,
        partition=running.partition,
        priority=running.priority,
        created_at=running.created_at,
        status=status,
        reason=reason,
        finished_at=finished_at,
        version=running.version + 1,
        cancel_requested=running.cancel_requested and status in ENDED,
    )
