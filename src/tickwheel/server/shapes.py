"""What the answers look like, field by field: the structs are what is sent, and what /openapi.json describes."""

from functools import lru_cache
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from tickwheel.server.moments import moment, moment_or_none, seconds
from tickwheel.tasks import ENDED, Cron, Every, LatePolicy, RetryPolicy, Run, Status, Task, UnreadableTask
from tickwheel.tasks.triggers import ONCE

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
    priority: int
    times: int
    timeout: float
    retry: RetryShape
    late: LateShape
    at_most_once: bool
    due: str
    occurrence: str
    created: str
    started: str | None
    finished: str | None
    expires: str | None
    attempt: int
    failures: int
    runs: int
    version: int
    cancel_requested: bool
    result: Any
    error: str | None
    reason: str | None
    reason_code: str | UnsetType = UNSET
    raw: str | UnsetType = UNSET  # what is stored, of a task that this version cannot read
    next_runs: list[str] | UnsetType = UNSET
    where: str | UnsetType = UNSET
    why: str | UnsetType = UNSET


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
    started: str
    finished: str
    late: float
    took: float
    status: Status
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
    why: str | UnsetType = UNSET,
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
        priority=task.priority,
        times=task.times,
        timeout=seconds(task.timeout_ms),
        retry=_retry(task.retry),
        late=_late(task.late),
        at_most_once=task.at_most_once,
        due=due,
        occurrence=due if task.occurrence_at == task.run_at else moment(task.occurrence_at),
        created=moment(task.created_at),
        started=moment_or_none(task.started_at),
        finished=moment_or_none(task.finished_at),
        expires=moment_or_none(task.expires_at),
        attempt=task.attempt,
        failures=task.failures,
        runs=task.runs,
        version=task.version,
        cancel_requested=task.cancel_requested,
        result=task.result,
        error=task.error,
        reason=task.reason,
        reason_code=task.reason_code if isinstance(task, UnreadableTask) else UNSET,
        raw=task.raw if isinstance(task, UnreadableTask) else UNSET,
        next_runs=next_runs,
        where=where,
        why=why,
    )


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
    left = NEXT_RUNS_MAX if task.times < 0 else min(task.times - task.runs, NEXT_RUNS_MAX)
    listed = [] if task.status is Status.RUNNING else [moment(task.run_at)]
    following = task.trigger.next_after(task.occurrence_at)
    while following is not None and len(listed) < left:
        listed.append(moment(following))
        following = task.trigger.next_after(following)
    return listed


def shape_of_run(run: Run) -> RunShape:
    """Write a run."""
    return RunShape(
        attempt=run.attempt,
        occurrence=moment(run.occurrence_at),
        started=moment(run.started_at),
        finished=moment(run.finished_at),
        due=moment(run.occurrence_at if run.due_at is None else run.due_at),
        late=seconds(run.late_ms),
        took=seconds(run.finished_at - run.started_at),
        status=run.status,
        error=run.error,
        reason=run.reason,
        worker=run.node,
    )
