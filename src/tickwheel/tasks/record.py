"""A durable task: what is to be done, when, and how it went so far.

A record is never changed in place; every step of its life makes a new one with `msgspec.structs.replace`:

                 +--------------- retry, next occurrence ---------------+
                 v                                                      |
    add ----> pending ---- claim ----> running ---- finish ----> completed | failed | cancelled
               |   ^                                                    |
         pause |   | resume                                             | by hand: retry, run now
               v   |                                                    |
              paused          pending <---------------------------------+

Times are milliseconds since 1970, in UTC. `occurrence_at` is the moment a run is for, and `run_at` when it is
to be made: later than that for a retry, never earlier.
"""

from enum import StrEnum
from typing import Any

import msgspec

from tickwheel.tasks.delivery import Webhook, queue_of
from tickwheel.tasks.policies import NEVER_AGAIN, RUN_ONCE, LatePolicy, RetryPolicy
from tickwheel.tasks.triggers import ONCE, Trigger

__all__ = ["ENDED", "LEGAL", "Run", "Status", "Task", "UnreadableTask"]

TIMEOUT_MS = 300_000  # five minutes for a run, unless told


class Status(StrEnum):
    """Where a task is in its life."""

    PENDING = "pending"
    PAUSED = "paused"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})

# What may become of what. Whoever changes a task in a store checks it against this.
LEGAL: dict[Status, frozenset[Status]] = {
    Status.PENDING: frozenset({Status.PENDING, Status.RUNNING, Status.PAUSED, Status.CANCELLED, Status.FAILED}),
    Status.PAUSED: frozenset({Status.PAUSED, Status.PENDING, Status.CANCELLED}),
    Status.RUNNING: frozenset(
        {Status.PENDING, Status.PAUSED, Status.COMPLETED, Status.FAILED, Status.CANCELLED},
    ),
    Status.COMPLETED: frozenset({Status.PENDING}),
    Status.FAILED: frozenset({Status.PENDING}),
    Status.CANCELLED: frozenset({Status.PENDING}),
}


class Task(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One task, as stores keep it.

    What is as usual is not written down, and the usual is part of the format: it cannot be changed here without
    changing what is in stores. Records hold JSON and no way back to themselves: the garbage collector passes them by.
    """

    id: str
    handler: str  # the name it is registered under, or a way of delivery: see delivery.py
    webhook: Webhook | None = None  # where it is sent
    args: dict[str, Any] = {}
    meta: dict[str, Any] = {}
    tags: list[str] = []  # to find it by
    trigger: Trigger = ONCE
    retry: RetryPolicy = NEVER_AGAIN
    late: LatePolicy = RUN_ONCE
    timeout_ms: int = TIMEOUT_MS
    priority: int = 0  # of those due in the same moment, higher ones begin first
    times: int = 1  # how many occurrences there are; -1 for ever
    at_most_once: bool = False  # after a crash in the middle of a run: fail, do not run again
    expires_at: int | None = None  # what comes due after this is not run any more

    partition: int = 0
    status: Status = Status.PENDING
    run_at: int
    occurrence_at: int
    attempt: int = 0  # how often it was claimed, ever; with the id it fences the owner's writes
    failures: int = 0  # of the present occurrence
    runs: int = 0  # occurrences that are over
    version: int = 0  # counts changes made by anyone
    cancel_requested: bool = False  # asked for while it ran

    created_at: int
    started_at: int | None = None
    finished_at: int | None = None
    result: Any = None  # of the last run that gave one
    error: str | None = None  # of the last run that raised, with its trace
    reason: str | None = None  # why it is as it is, in words

    @property
    def queue(self) -> str | None:
        """The queue it waits in for whoever leases it; None if it is run or sent."""
        return queue_of(self.handler)

    @property
    def occurrence_id(self) -> str:
        """Name the occurrence, the same in each attempt at it: what a handler may use to be idempotent."""
        return f"{self.id}@{self.occurrence_at}"


class UnreadableTask(Task, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A task whose stored data this version cannot read: what the store's index knows of it, and the data as they are.

    Of its own fields only `id`, `handler`, `partition`, `status`, `priority`, `run_at`, `version` and `finished_at` are
    known; the others have their defaults. It is shown and can be deleted, and is never written.
    """

    why: str
    raw: str
    reason_code: str = "unreadable"


class Run(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One run that is over, for the history."""

    task_id: str
    attempt: int
    occurrence_at: int
    started_at: int
    finished_at: int
    status: Status  # what the run came to: completed, failed or cancelled
    error: str | None = None
    reason: str | None = None
    due_at: int | None = None  # when this attempt was; a later one than the occurrence, if it was tried again
    node: str | None = None  # which scheduler ran it

    @property
    def late_ms(self) -> int:
        """How long after its time it began."""
        return max(self.started_at - (self.occurrence_at if self.due_at is None else self.due_at), 0)
