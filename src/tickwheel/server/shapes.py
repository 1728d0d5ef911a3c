"""What the answers look like, field by field: the structs are what is sent, and what /openapi.json describes."""

from functools import lru_cache
from itertools import islice
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from tickwheel.server.moments import moment, moment_or_none, seconds
from tickwheel.tasks import (
    ENDED,
    Cron,
    Every,
    LastRun,
    LatePolicy,
    RetryPolicy,
    Run,
    RunStatus,
    Status,
    Task,
    UnreadableTask,
)
from tickwheel.tasks.explain import ReasonCode
from tickwheel.tasks.policies import Overlap
from tickwheel.tasks.triggers import ONCE
from tickwheel.tasks.upcoming_runs import preview_runs

__all__ = [
    "Added",
    "Extended",
    "LateShape",
    "MessageShape",
    "Messages",
    "RetryShape",
    "RunShape",
    "Runs",
    "TaskPage",
    "TaskShape",
    "TriggerShape",
    "next_runs",
    "shape_of",
    "shape_of_run",
]

NEXT_RUNS_MAX = 5
MOMENT_MAX = 253_402_300_799_999  # the end of the year 9999


class TriggerShape(msgspec.Struct, frozen=True, kw_only=True):
    """When a task comes: once, every so often, or by the calendar."""

    type: Literal["once", "every", "cron"]
    interval: float | UnsetType = UNSET
    expression: str | UnsetType = UNSET
    tz: str | UnsetType = UNSET


ONCE_SHAPE: Final = TriggerShape(type="once")


class RetryShape(msgspec.Struct, frozen=True, kw_only=True):
    """What is done when a run fails; durations in seconds."""

    retries: int
    first: float
    factor: float
    cap: float
    jitter: float
    age: float | None


class LateShape(msgspec.Struct, frozen=True, kw_only=True):
    """What is done with runs whose time has passed."""

    mode: Literal["run_once", "run_all", "skip"]
    grace: float
    catch_up: int


class LastRunShape(msgspec.Struct, frozen=True, kw_only=True):
    """The last run of a recurring task."""

    status: RunStatus
    attempt: int
    started: str | None
    finished: str


class TaskShape(msgspec.Struct, frozen=True, kw_only=True):
    """A task; `next_runs`, `where` and `why` are told when it is asked for alone."""

    id: str
    name: str
    kind: Literal["handler", "webhook", "queue"]
    webhook: dict[str, Any] | None
    queue: str | None
    args: dict[str, Any]
    tags: list[str]
    meta: dict[str, Any]
    trigger: TriggerShape
    status: Status
    paused: bool
    priority: int
    times: int
    timeout: float
    retry: RetryShape
    late: LateShape
    overlap: Overlap
    at_most_once: bool
    max_crashes: int
    due: str
    occurrence: str
    created: str
    started: str | None
    finished: str | None
    expires: str | None
    attempt: int
    failures: int
    crashes: int
    snoozes: int
    consecutive_failures: int
    runs: int
    last_run: LastRunShape | None
    version: int
    cancel_requested: bool
    result: Any
    error: str | None
    reason: str | None
    reason_code: ReasonCode | None
    raw: str | UnsetType = UNSET  # what is stored, of a task that this version cannot read
    next_runs: list[str] | UnsetType = UNSET
    where: str | UnsetType = UNSET


class MessageShape(msgspec.Struct, frozen=True, kw_only=True):
    """A task that was leased from a queue."""

    id: str
    args: dict[str, Any]
    meta: dict[str, Any]
    attempt: int
    due: str
    lease_token: str
    expires: str


class Messages(msgspec.Struct, frozen=True, kw_only=True):
    """What was leased."""

    messages: list[MessageShape]


class Extended(msgspec.Struct, frozen=True, kw_only=True):
    """When a lease ends now."""

    expires: str


class TaskPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some tasks, and where to go on."""

    tasks: list[TaskShape]
    cursor: str | None
    total: int
    total_is_exact: bool


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """What an add came to."""

    task: TaskShape
    deduplicated: bool


class RunShape(msgspec.Struct, frozen=True, kw_only=True):
    """One run that is over; durations in seconds."""

    attempt: int
    occurrence: str
    due: str
    started: str | None  # null if it was skipped
    finished: str
    late: float
    took: float
    status: RunStatus
    error: str | None
    reason: str | None
    worker: str | None


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of a task, latest first."""

    runs: list[RunShape]


def shape_of(
    task: Task,
    next_runs: list[str] | UnsetType = UNSET,
    where: str | UnsetType = UNSET,
) -> TaskShape:
    """Write a task, and what else is told about it."""
    due, queue = moment(task.run_at), task.queue
    return TaskShape(
        id=task.id,
        name=task.handler,
        kind="webhook" if task.webhook else "queue" if queue else "handler",
        webhook=None if task.webhook is None else {"url": task.webhook.url},  # its headers may be secrets
        queue=queue,
        args=task.args,
        tags=task.tags,
        meta=task.meta,
        trigger=_trigger(task),
        status=task.status,
        paused=task.paused,
        priority=task.priority,
        times=task.times,
        timeout=seconds(task.timeout_ms),
        retry=_retry(task.retry),
        late=_late(task.late),
        overlap=task.overlap,
        at_most_once=task.at_most_once,
        max_crashes=task.max_crashes,
        due=due,
        occurrence=due if task.occurrence_at == task.run_at else moment(task.occurrence_at),
        created=moment(task.created_at),
        started=moment_or_none(task.started_at),
        finished=moment_or_none(task.finished_at),
        expires=moment_or_none(task.expires_at),
        attempt=task.attempt,
        failures=task.failures,
        crashes=task.crashes,
        snoozes=task.snoozes,
        consecutive_failures=task.consecutive_failures,
        runs=task.runs,
        last_run=_last_run(task.last_run),
        version=task.version,
        cancel_requested=task.cancel_requested,
        result=task.result,
        error=task.error,
        reason=task.reason,
        reason_code=cast("ReasonCode | None", task.reason_code),
        raw=task.raw if isinstance(task, UnreadableTask) else UNSET,
        next_runs=next_runs,
        where=where,
    )


def _last_run(run: LastRun | None) -> LastRunShape | None:
    if run is None:
        return None
    started, finished = moment_or_none(run.started_at), moment(run.finished_at)
    return LastRunShape(status=run.status, attempt=run.attempt, started=started, finished=finished)


@lru_cache(maxsize=256)  # most tasks share a few policies
def _retry(policy: RetryPolicy) -> RetryShape:
    return RetryShape(
        retries=policy.retries,
        first=seconds(policy.first_ms),
        factor=policy.factor,
        cap=seconds(policy.cap_ms),
        jitter=policy.jitter,
        age=None if policy.age_ms is None else seconds(policy.age_ms),
    )


@lru_cache(maxsize=256)
def _late(policy: LatePolicy) -> LateShape:
    return LateShape(mode=policy.mode, grace=seconds(policy.grace_ms), catch_up=policy.catch_up)


def _trigger(task: Task) -> TriggerShape:
    if isinstance(task.trigger, Every):
        return TriggerShape(type="every", interval=seconds(task.trigger.interval_ms))
    if isinstance(task.trigger, Cron):
        return TriggerShape(type="cron", expression=task.trigger.expression, tz=task.trigger.tz)
    return ONCE_SHAPE


def next_runs(task: Task) -> list[str]:
    """List when a task is due next, as things stand."""
    if task.status in ENDED or isinstance(task, UnreadableTask):
        return []
    if task.trigger is ONCE:  # as most are
        return [] if task.status is Status.RUNNING else [moment(task.run_at)]
    coming = islice(preview_runs(replace(task, paused=False), 0, MOMENT_MAX), NEXT_RUNS_MAX + 1)
    first = 1 if task.status is Status.RUNNING else 0
    return [moment(at) for at in coming][first : first + NEXT_RUNS_MAX]


def shape_of_run(run: Run) -> RunShape:
    """Write a run."""
    return RunShape(
        attempt=run.attempt,
        occurrence=moment(run.occurrence_at),
        started=moment_or_none(run.started_at),
        finished=moment(run.finished_at),
        due=moment(run.occurrence_at if run.due_at is None else run.due_at),
        late=seconds(run.late_ms),
        took=0.0 if run.started_at is None else seconds(run.finished_at - run.started_at),
        status=run.status,
        error=run.error,
        reason=run.reason,
        worker=run.node,
    )
