"""From a body to what the scheduler takes: each field by itself, so that a problem can point to it."""

from datetime import datetime
from typing import Any

from msgspec import UNSET
from msgspec.structs import asdict, replace

from tickwheel.durations import to_ns
from tickwheel.errors import InvalidSchedule, InvalidTask
from tickwheel.scheduler.draft import moment_of, to_ms
from tickwheel.server.bodies import AddBody, AmendBody, FilterBody, LateBody, RetryBody, WebhookBody
from tickwheel.server.problems import pointing
from tickwheel.stores.bounds import check_moment
from tickwheel.stores.contract import Filter, Order
from tickwheel.tasks import Cron, Every, LatePolicy, RetryPolicy
from tickwheel.tasks.delivery import OFFERED_AGAIN, SENT_AGAIN, check_function, check_webhook

__all__ = ["filter_of", "is_empty", "recipient_of", "wishes_of"]

PLAIN = ("id", "args", "tz", "times", "retries", "priority", "meta", "tags", "at_most_once")


def wishes_of(body: AmendBody, at: str = "", retry: RetryPolicy | None = None) -> dict[str, Any]:
    """Return what a body wishes for, or raise a problem; `at` is where it stands in the whole body."""
    wishes: dict[str, Any] = {name: value for name in PLAIN if (value := getattr(body, name, UNSET)) is not UNSET}
    _check_when(body, at)
    wishes |= _spans(body, at)
    wishes |= _moments(body, at)
    if isinstance(body.cron, str):
        with pointing(f"{at}/cron"):
            Cron(expression=body.cron)
        with pointing(f"{at}/tz"):
            Cron(expression=body.cron, tz=wishes.get("tz", "UTC"))
        wishes["cron"] = body.cron
    if isinstance(body.retry, RetryBody):
        with pointing(f"{at}/retry"):
            wishes["retry"] = _retry(body.retry, retry or _usual(body))
    if body.late is not UNSET:
        with pointing(f"{at}/late"):
            wishes["late"] = _late(body.late) if isinstance(body.late, LateBody) else body.late
    return wishes


def recipient_of(body: AddBody, at: str = "") -> dict[str, Any]:
    """Return who is to get a task: a handler, a webhook or a queue."""
    given = {name: value for name in ("handler", "webhook", "queue") if (value := getattr(body, name)) is not UNSET}
    if len(given) != 1:
        with pointing(f"{at}/{list(given)[1] if given else 'handler'}"):
            raise InvalidTask(f"a task goes to a handler, a webhook or a queue, not to {' and '.join(given) or 'none'}")
    if isinstance(body.webhook, WebhookBody):
        with pointing(f"{at}/webhook"):
            given["webhook"] = check_webhook(asdict(body.webhook))
    if isinstance(body.handler, str):
        with pointing(f"{at}/handler"):
            check_function(body.handler)
    return given


def _usual(body: AmendBody) -> RetryPolicy:
    """Return how a task is tried again unless it says otherwise."""
    if isinstance(body, AddBody) and body.webhook is not UNSET:
        return SENT_AGAIN
    return OFFERED_AGAIN if isinstance(body, AddBody) and body.queue is not UNSET else RetryPolicy()


def _spans(body: AmendBody, at: str) -> dict[str, Any]:
    wishes: dict[str, Any] = {}
    for name in ("delay", "every", "timeout"):
        span = getattr(body, name)
        if span is not UNSET:
            with pointing(f"{at}/{name}"):
                to_ns(span)
                if name == "every":
                    Every(interval_ms=to_ms(span))
                if name == "timeout" and to_ms(span) < 1:
                    raise InvalidTask("a run needs some time; timeout cannot be 0")
            wishes[name] = span
    return wishes


def _moments(body: AmendBody, at: str) -> dict[str, Any]:
    wishes: dict[str, Any] = {}
    for name in ("at", "expires_at"):
        moment = getattr(body, name)
        if isinstance(moment, datetime):
            with pointing(f"{at}/{name}"):
                check_moment(moment_of(moment))
        if moment is not UNSET:
            wishes[name] = moment
    return wishes


def _check_when(body: AmendBody, at: str) -> None:
    """Refuse what contradicts itself."""
    given = {name for name in ("delay", "at", "every", "cron", "tz") if getattr(body, name) is not UNSET}
    for one, other in (("delay", "at"), ("every", "cron")):
        if {one, other} <= given:
            with pointing(f"{at}/{other}"):
                raise InvalidSchedule(f"a task has {one} or {other}, not both")
    if "tz" in given and "cron" not in given:
        with pointing(f"{at}/tz"):
            raise InvalidSchedule("tz goes with cron; a time brings its own time zone")
    if isinstance(body, AddBody):
        if body.retry is not UNSET and body.retries is not UNSET:
            with pointing(f"{at}/retries"):
                raise InvalidTask("give retries, or retry with all of it, not both")
        if body.times == 0:
            with pointing(f"{at}/times"):
                raise InvalidTask("times is how often it is due, at least 1, or -1 for ever")


def _retry(body: RetryBody, usual: RetryPolicy) -> RetryPolicy:
    said: dict[str, Any] = {
        name: value for name in ("retries", "factor", "jitter") if (value := getattr(body, name)) is not UNSET
    }
    for name in ("first", "cap", "age"):
        span = getattr(body, name)
        if span is not UNSET:
            said[f"{name}_ms"] = None if span is None else to_ms(span)
    return replace(usual, **said)


def _late(body: LateBody) -> LatePolicy:
    said: dict[str, Any] = {"mode": body.mode}
    if body.grace is not UNSET:
        said["grace_ms"] = to_ms(body.grace)
    if body.catch_up is not UNSET:
        said["catch_up"] = body.catch_up
    return LatePolicy(**said)


def filter_of(body: FilterBody, order: Order = "newest") -> Filter:
    """Return what a body asks for."""
    fields: dict[str, Any] = {"handler": body.name, "status": body.status, "order": order}
    fields |= {name: getattr(body, name) for name in ("tag", "text", "id_prefix")}
    for name in ("due_after", "due_before"):
        moment = getattr(body, name)
        fields[name] = moment if moment is UNSET else moment_of(moment)
    return Filter(**{name: value for name, value in fields.items() if value is not UNSET})


def is_empty(wanted: Filter) -> bool:
    """Tell whether a filter lets everything through."""
    plain = replace(wanted, text=wanted.text or None, id_prefix=wanted.id_prefix or None)
    return plain == Filter(order=wanted.order)
