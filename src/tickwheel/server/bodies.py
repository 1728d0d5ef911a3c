"""What requests may say: structs that know no other fields, with bounds on all of them."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwheel.scheduler.verbs import Action
from tickwheel.stores.contract import PAGE_MAX, OnConflict, Order
from tickwheel.tasks import Status

__all__ = [
    "AckBody",
    "ActionBody",
    "AddBody",
    "AmendBody",
    "BatchBody",
    "CancelBody",
    "CronBody",
    "ExtendBody",
    "FilterBody",
    "LateBody",
    "LeaseBody",
    "ListQuery",
    "NackBody",
    "OperationBody",
    "ResumeBody",
    "RetryBody",
    "RunsQuery",
    "SessionBody",
    "WebhookBody",
]

Name = Annotated[str, Meta(min_length=1, max_length=255)]
Tag = Annotated[str, Meta(min_length=1, max_length=64)]
Tags = Annotated[list[Tag], Meta(max_length=20)]
Text = Annotated[str, Meta(max_length=255)]
Queue = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.\-]+$")]
LeaseToken = Annotated[str, Meta(max_length=100)]
Span = Annotated[str, Meta(max_length=64, description='"5m", "1h30m", "PT5M"')] | Annotated[float, Meta(ge=0)]
Moment = Annotated[datetime, Meta(tz=True)]
Number = Annotated[int, Meta(ge=-1000, le=1000)]
LateMode = Literal["run_once", "run_all", "skip"]
Overlap = Literal["skip", "queue_one"]


class Strict(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A body that refuses what it does not know."""


class RetryBody(Strict, kw_only=True):
    """How often to try again, and how long to wait before."""

    retries: Annotated[int, Meta(ge=0, le=1000)] | UnsetType = UNSET
    first: Span | UnsetType = UNSET
    factor: Annotated[float, Meta(ge=1, le=100)] | UnsetType = UNSET
    cap: Span | UnsetType = UNSET
    jitter: Annotated[float, Meta(ge=0, le=1)] | UnsetType = UNSET
    age: Span | UnsetType | None = UNSET


class LateBody(Strict, kw_only=True):
    """What to do with runs whose time has passed."""

    mode: LateMode = "run_once"
    grace: Span | UnsetType = UNSET
    catch_up: Annotated[int, Meta(ge=1, le=10_000)] | UnsetType = UNSET


class AmendBody(Strict, kw_only=True):
    """What can be changed about a task that waits; what is not said stays."""

    args: dict[str, Any] | UnsetType = UNSET
    delay: Span | UnsetType = UNSET
    at: Moment | UnsetType = UNSET
    every: Span | UnsetType = UNSET
    cron: Annotated[str, Meta(max_length=256)] | UnsetType = UNSET
    tz: Annotated[str, Meta(max_length=64)] | UnsetType = UNSET
    retry: RetryBody | UnsetType = UNSET
    timeout: Span | UnsetType = UNSET
    late: LateMode | LateBody | UnsetType = UNSET
    priority: Number | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET
    expires_at: Moment | UnsetType | None = UNSET
    overlap: Overlap | UnsetType = UNSET
    max_crashes: int | UnsetType = UNSET


class WebhookBody(Strict, kw_only=True):
    """Where a task is sent when it is due."""

    url: Annotated[str, Meta(min_length=1, max_length=2048)]
    headers: dict[str, str] = {}


class AddBody(AmendBody, kw_only=True):
    """A task to be added, for a handler, a webhook or a queue."""

    handler: Name | UnsetType = UNSET
    webhook: WebhookBody | UnsetType = UNSET
    queue: Queue | UnsetType = UNSET
    id: Name | UnsetType = UNSET
    times: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | UnsetType = UNSET
    retries: Annotated[int, Meta(ge=0, le=1000)] | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = UNSET
    at_most_once: bool | UnsetType = UNSET
    on_conflict: OnConflict = "reject"


class BatchBody(Strict, kw_only=True):
    """Many tasks; each is read by itself, so that one that is wrong harms no other."""

    tasks: list[msgspec.Raw]
    on_conflict: OnConflict = "reject"


class ActionBody(Strict, kw_only=True):
    """Nothing: the action says it all."""


class CancelBody(ActionBody, kw_only=True):
    """Why, and whether to stop only the present run of a recurring task."""

    reason: Annotated[str, Meta(max_length=1000)] = "cancelled by hand"
    run_only: bool = False


class ResumeBody(ActionBody, kw_only=True):
    """Whether the missed-run policy applies to the occurrences that a recurring task was paused for."""

    run_missed: bool = False


class FilterBody(Strict, kw_only=True):
    """Which tasks; what is not given does not matter."""

    status: Status | UnsetType = UNSET
    name: Name | UnsetType = UNSET
    tag: Tag | UnsetType = UNSET
    text: Text | UnsetType = UNSET
    due_after: Moment | UnsetType = UNSET
    due_before: Moment | UnsetType = UNSET
    id_prefix: Text | UnsetType = UNSET


class ListQuery(FilterBody, kw_only=True):
    """Which tasks, in which order, and how many."""

    order: Order = "newest"
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 50
    cursor: Annotated[str, Meta(max_length=1000)] | UnsetType = UNSET
    masked: bool = False


class RunsQuery(Strict, kw_only=True):
    """How many runs."""

    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 100


class OperationBody(Strict, kw_only=True):
    """The same for many tasks."""

    action: Action
    filter: FilterBody
    dry_run: bool = False


class CronBody(Strict, kw_only=True):
    """When a cron expression is due."""

    cron: Annotated[str, Meta(max_length=256)]
    tz: Annotated[str, Meta(max_length=64)] = "UTC"
    count: Annotated[int, Meta(ge=1, le=1000)] = 10


class LeaseBody(Strict, kw_only=True):
    """How many messages, for how long, and how long to wait for the first of them."""

    max: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 10
    lease: Span = "30s"
    wait: Span = 0.0


class AckBody(Strict, kw_only=True):
    """Which lease it was."""

    lease_token: LeaseToken


class NackBody(Strict, kw_only=True):
    """Why it could not be done, and when to try again if not by its policy."""

    lease_token: LeaseToken
    reason: Annotated[str, Meta(max_length=1000)] = "given back"
    delay: Span | UnsetType = UNSET


class ExtendBody(Strict, kw_only=True):
    """How long the lease lasts from now."""

    lease_token: LeaseToken
    lease: Span = "30s"


class SessionBody(Strict, kw_only=True):
    """A token, to be exchanged for a cookie."""

    token: Annotated[str, Meta(max_length=255)]
