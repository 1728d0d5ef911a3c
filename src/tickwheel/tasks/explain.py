"""Why a task is not running: a code for programs, and a sentence that says what it waits for.

    not_due             its time has not come
    waiting_for_retry   the same, after an attempt that failed, was snoozed or interrupted
    paused              it is paused
    no_handler          no node that is online has its handler, and workers for it
    limit_reached       as many runs of its handler as may run at once do
    no_capacity         no worker is free; or, in a queue, no consumer has leased it
    store_unavailable   the store can be read, but its node cannot write to it
    unreadable, expired, skipped    stored with the task
    stuck               it runs, and its handler ignores its timeout

The code is computed when a task is read, from its record and from what is known around it, and is not stored.

>>> task = Task(id="a", handler="orders.cancel", run_at=5000, occurrence_at=5000, created_at=0)
>>> explain(task, Around(now=4000)).reason
'waiting for its due time, 1970-01-01T00:00:05Z'
>>> late = explain(task, Around(now=6000, nodes=2, handlers={"mail.send"}))
>>> late.reason_code, late.reason
('no_handler', "waiting for a node with handler 'orders.cancel'; nodes online: 2")
"""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from tickwheel.tasks.destinations import WEBHOOK
from tickwheel.tasks.record import ENDED, Status, Task, UnreadableTask

__all__ = ["NO_POOL", "STUCK", "Around", "Obstacle", "ReasonCode", "explain", "is_due"]

ReasonCode = Literal[
    "not_due",
    "paused",
    "no_handler",
    "no_capacity",
    "limit_reached",
    "waiting_for_retry",
    "unreadable",
    "store_unavailable",
    "expired",
    "skipped",
    "stuck",
]
Obstacle = Literal[
    "no_handler", "no_threads", "no_processes", "no_capacity", "limit_reached", "store_unavailable", "stuck"
]

NO_POOL: Final = {
    "no_threads": "this node has it, but no threads to run it on: set threads to 1 or more",
    "no_processes": "this node has it, but no processes to run it in: set processes to 1 or more",
}
STUCK: Final = "stuck: its handler ignores its timeout"


class Around(msgspec.Struct, frozen=True, kw_only=True):
    """What is known besides a task when it is read."""

    now: int  # by the store's clock
    nodes: int | None = None  # that are online; None if nobody asked
    handlers: Collection[str] | None = None  # that these have; None if that is not known of all


def is_due(task: Task, now: int) -> bool:
    """Tell whether a task could run now: what it waits for is a node, or a worker."""
    return task.listed_status is Status.PENDING and task.run_at <= now and not isinstance(task, UnreadableTask)


def explain(task: Task, around: Around, obstacle: Obstacle | None = None) -> Task:
    """Return a task with why it is not running as `reason_code` and `reason`.

    `obstacle` is what keeps it from beginning at this node, where its owner is this one. What is stored as the reason
    of a finished task stays.
    """
    if isinstance(task, UnreadableTask) or task.status in ENDED:
        return task
    if task.status is Status.RUNNING:
        return replace(task, reason=STUCK, reason_code="stuck") if obstacle == "stuck" else task
    code, sentence = _waits_for(task, around, obstacle)
    return replace(task, reason=sentence, reason_code=code)


def _waits_for(task: Task, around: Around, obstacle: Obstacle | None) -> tuple[ReasonCode, str]:
    if task.listed_status is Status.PAUSED:
        return "paused", "paused; waiting to be resumed"
    if not is_due(task, around.now):
        wait = _at(task.run_at)
        stored = f": {task.reason}" if task.reason else ""
        if task.has_begun:
            return "waiting_for_retry", f"waiting for its next attempt, {wait}{stored}"
        if task.reason_code in ("no_handler", "no_capacity"):  # it was put off
            return task.reason_code, f"waiting to be tried again, {wait}{stored}"  # type: ignore[return-value]
        return "not_due", f"waiting for its due time, {wait}{stored}"
    if task.queue is not None:
        return "no_capacity", f"waiting in queue {task.queue!r} for a consumer"
    return _is_due(task, around, obstacle)


def _is_due(task: Task, around: Around, obstacle: Obstacle | None) -> tuple[ReasonCode, str]:
    unknown = around.handlers is not None and task.handler not in around.handlers
    if obstacle in NO_POOL and around.handlers is not None and not unknown:
        obstacle = None  # another node can run it, and is about to get it
    if around.nodes == 0 or unknown or obstacle == "no_handler" or obstacle in NO_POOL:
        wanted = "that sends webhooks" if task.handler == WEBHOOK else f"with handler {task.handler!r}"
        online = "" if around.nodes is None else f"; nodes online: {around.nodes}"
        here = f"; {NO_POOL[obstacle]}" if obstacle in NO_POOL else ""
        return "no_handler", f"waiting for a node {wanted}{online}{here}"
    if obstacle == "store_unavailable":
        return "store_unavailable", "waiting for the store: it cannot be written to"
    overdue = f"due since {_at(task.run_at)}"
    if obstacle == "limit_reached":
        return "limit_reached", f"waiting for another run of {task.handler!r} to end: its limit is reached; {overdue}"
    if obstacle is None:  # it is another node's, which knows more
        return "no_capacity", f"waiting for its node, for a free worker or for its handler's limit; {overdue}"
    return "no_capacity", f"waiting for a free worker; {overdue}"


def _at(ms: int) -> str:
    """Write a moment in UTC, the same whenever the task is read."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError):  # after the year 9999
        return f"{ms:,} ms after 1970"
