"""A durable task: what is to be done, when, and how it went so far.

A record is never changed in place: handlers and listeners get copies of its data, and every step of its life makes a
new one with `msgspec.structs.replace`:

                 +--------- retry, crash, next occurrence ---------+
                 v                                                 |
    add ----> pending ---- claim ----> running ---- finish --------+----> completed | failed | cancelled
                 ^                                                                     |
                 +------------------------------- retry by hand ----------------------+

`paused` is a flag beside the status: a pending task with it does not begin, and a running one is paused when its run
is over. What each verb makes of a task is in `transitions`.

Times are milliseconds since 1970, in UTC. `occurrence_at` is the moment a run is for, and `run_at` when it is
to be made: later than that for a retry, never earlier.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tickwheel.tasks.destinations import Webhook, parse_queue
from tickwheel.tasks.fields import MOMENT_MAX, NAME_CHARS_MAX, SPAN_MS_MAX
from tickwheel.tasks.policies import NEVER_AGAIN, RUN_ONCE, LatePolicy, Overlap, RetryPolicy
from tickwheel.tasks.triggers import ONCE, Once, Trigger

__all__ = [
    "ENDED",
    "INDEX_MAX",
    "LEGAL",
    "LISTED",
    "Following",
    "LastRun",
    "Run",
    "RunStatus",
    "Status",
    "Task",
    "UnreadableTask",
    "copy_json",
]

TIMEOUT_MS = 300_000  # five minutes for a run by default
CRASHES_MAX = 3  # deaths of the process during one occurrence; then it has failed
INDEX_MAX = 2**31 - 1  # what columns of priorities and partitions hold

# What is beyond these was never written: it is damage, or means something else in a newer version. Each step of the
# life of a task, and each column of a store, can be taken with what is within. Checked when a record is read.
Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
Moment = Annotated[int, Meta(ge=0, le=MOMENT_MAX)]
Bound = Annotated[int, Meta(ge=-MOMENT_MAX, le=MOMENT_MAX)]  # a moment that may lie before 1970
Count = Annotated[int, Meta(ge=0, le=MOMENT_MAX)]  # of changes, attempts and the like: far from the end of 64 bits
Times = Annotated[int, Meta(ge=-1, le=MOMENT_MAX)]
Span = Annotated[int, Meta(ge=1, le=SPAN_MS_MAX)]
Index = Annotated[int, Meta(ge=0, le=INDEX_MAX)]
Priority = Annotated[int, Meta(ge=-INDEX_MAX, le=INDEX_MAX)]


class Status(StrEnum):
    """Where a task is in its life; `PAUSED` is what filters and counts call a pending task that is paused."""

    PENDING = "pending"
    PAUSED = "paused"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class RunStatus(StrEnum):
    """What a run came to."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"  # asked to stop, or interrupted by stop()
    SKIPPED = "skipped"  # it did not begin
    SNOOZED = "snoozed"


ENDED = (Status.COMPLETED, Status.FAILED, Status.CANCELLED)  # a tuple: a set would call the hash of an enum
LISTED = tuple(Status)  # a store keeps a status as its place in here

# What may become of what. The conformance suite checks every change in a store against this.
LEGAL: dict[Status, frozenset[Status]] = {
    Status.PENDING: frozenset({Status.PENDING, Status.RUNNING, Status.CANCELLED, Status.FAILED}),
    Status.RUNNING: frozenset({Status.PENDING, Status.COMPLETED, Status.FAILED, Status.CANCELLED}),
    Status.COMPLETED: frozenset({Status.PENDING}),
    Status.FAILED: frozenset({Status.PENDING}),
    Status.CANCELLED: frozenset({Status.PENDING}),
}


class LastRun(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The last run of a recurring task."""

    status: RunStatus
    attempt: int
    started_at: int | None = None
    finished_at: int


class Task(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One task, as stores keep it.

    What is as usual is not written down, and the usual is part of the format: it cannot be changed here without
    changing what is in stores. Records hold JSON and no way back to themselves: the garbage collector passes them by.
    """

    id: Name
    handler: Name  # the name it is registered under, or a way of delivery: see delivery.py
    webhook: Webhook | None = None  # where it is sent
    args: dict[str, Any] = {}
    meta: dict[str, Any] = {}
    tags: list[str] = []  # to find it by
    trigger: Trigger = ONCE
    retry: RetryPolicy = NEVER_AGAIN
    late: LatePolicy = RUN_ONCE
    timeout_ms: Span = TIMEOUT_MS
    priority: Priority = 0  # of those due in the same moment, higher ones begin first
    times: Times = 1  # how many occurrences there are; -1 for ever
    overlap: Overlap = "skip"  # what becomes of an occurrence that comes due while another one is active
    at_most_once: bool = False  # after a crash in the middle of a run: fail, do not run again
    max_crashes: Count = CRASHES_MAX  # deaths of the process during one occurrence; then it has failed
    expires_at: Bound | None = None  # what comes due after this is not run any more

    partition: Index = 0
    status: Status = Status.PENDING  # never PAUSED: that is the flag
    paused: bool = False
    run_at: Moment
    occurrence_at: Moment
    # The grid point of the series that this run stands for, if the run was given a moment of its own.
    grid_at: Bound | None = None
    next_at: Bound | None = None  # when it is due after a run that was asked for with run_now
    # When it was to be tried again, before run_now asked for that; or when `retry` asked for the run it waits for.
    retry_at: Bound | None = None
    # When `run_at` was chosen, if that was not about when the last attempt began: that took longer than a second, by a
    # clock that may have been set; or the clock was set back since, and the wait shortened; or another claim was made,
    # and is not known to have begun.
    timed_at: Bound | None = None
    run_now_requested: bool = False  # and not made yet; such a run is made though the task is paused
    missed_until: Bound | None = None  # what was due until then was missed: the missed-run policy applies
    attempt: Count = 0  # how often it was claimed or skipped, ever; with the id it fences the owner's writes
    failures: Count = 0  # of the present occurrence, like the next three
    crashes: Count = 0
    snoozes: Count = 0
    interrupted: bool = False  # by a stop(), and not tried again since
    consecutive_failures: Count = 0  # occurrences that failed since one completed
    runs: Count = 0  # occurrences that are over, without skipped ones and those of run_now
    version: Count = 0  # counts changes made by anyone
    cancel_requested: bool = False  # asked for while it ran
    cancel_run_only: bool = False  # the series goes on afterwards
    following: "Following | None" = None  # what takes its place when the present occurrence is over

    created_at: Moment
    started_at: Bound | None = None
    finished_at: Bound | None = None
    result: Any = None  # of the last run that gave one
    error: str | None = None  # of the last run that raised, with its trace
    reason: str | None = None  # why it is as it is, in words
    reason_code: str | None = None  # the same for programs, where it cannot be seen from the other fields
    last_run: LastRun | None = None  # of a recurring task
    deduplicated: bool = False  # on what add(on_conflict="keep") returns, if it was there before; never stored

    @property
    def listed_status(self) -> Status:
        """What filters, counts and displays call its status: a pending task that is paused is `paused`."""
        if self.paused and self.status is Status.PENDING and not self.run_now_requested:
            return Status.PAUSED
        return self.status

    @property
    def is_recurring(self) -> bool:
        """Whether there may be another occurrence after the present one."""
        return type(self.trigger) is not Once

    @property
    def has_begun(self) -> bool:
        """Whether there was an attempt at the present occurrence: it is active until its last one."""
        return bool(self.failures or self.crashes or self.snoozes or self.interrupted)

    @property
    def queue(self) -> str | None:
        """The queue it waits in for whoever leases it; None if it is run or sent."""
        return parse_queue(self.handler)

    @property
    def occurrence_id(self) -> str:
        """Name the occurrence, the same in each attempt at it: what a handler may use to be idempotent."""
        return f"{self.id}@{self.occurrence_at}"


class Following(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A change of a running task that takes effect when the present occurrence is over."""

    how: Literal["update", "replace", "debounce"]
    task: Task  # as it is to be; `attempt`, `version` and what its runs left do not matter
    keeps_time: bool = False  # an update that leaves the times of a series alone, wherever it stands by then


class UnreadableTask(Task, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A task whose stored data this version cannot read: what the store's index knows of it, and the data as they are.

    Of its own fields only `id`, `handler`, `partition`, `status`, `priority`, `run_at`, `version` and `finished_at` are
    known; the others have their defaults. It is shown and can be deleted, and is never written.
    """

    why: str
    raw: str
    reason_code: str | None = "unreadable"


class Run(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One run that is over, or an occurrence that was skipped, for the history."""

    task_id: str
    attempt: int
    occurrence_at: int
    started_at: int | None  # None if it was skipped
    finished_at: int
    status: RunStatus
    error: str | None = None
    reason: str | None = None
    due_at: int | None = None  # when this attempt was due; later than the occurrence, if it was tried again
    node: str | None = None  # which scheduler ran it

    @property
    def late_ms(self) -> int:
        """How long after its time it began; 0 if it was skipped."""
        if self.started_at is None:
            return 0
        return max(self.started_at - (self.occurrence_at if self.due_at is None else self.due_at), 0)


def copy_json(value: Any) -> Any:
    """Return data of a record that may be changed without changing the record."""
    return msgspec.json.decode(msgspec.json.encode(value)) if type(value) in (dict, list) else value
