"""From a body to what the scheduler takes: each field by itself, so that a problem can point to it."""

from datetime import datetime
from typing import Any, Final

from msgspec import UNSET
from msgspec.structs import asdict, replace

from tickwheel.durations import Duration
from tickwheel.errors import InvalidSchedule, InvalidTask
from tickwheel.scheduler.draft import moment_of, to_ms
from tickwheel.server.bodies import AddBody, AmendBody, FilterBody, LateBody, RetryBody
from tickwheel.server.problems import pointing
from tickwheel.stores.bounds import check_moment
from tickwheel.stores.contract import Filter, Order
from tickwheel.tasks import Cron, Every, LatePolicy, RetryPolicy
from tickwheel.tasks.delivery import OFFERED_AGAIN, SENT_AGAIN, check_function, check_webhook

__all__ = ["filter_of", "is_empty", "wishes_of"]

RECIPIENTS: Final = ("handler", "webhook", "queue")
SPANS: Final = ("delay", "every", "timeout")
MOMENTS: Final = ("at", "expires_at")


def wishes_of(body: AmendBody, at: str = "", retry: RetryPolicy | None = None) -> dict[str, Any]:
    """Return what a body wishes for, or raise a problem; `at` is where it stands in the whole body."""
    wishes = {name: value for name, value in asdict(body).items() if value is not UNSET}
    if isinstance(body, AddBody):
        del wishes["on_conflict"]  # that is about others
        _check_recipient(wishes, at)
    _check_when(wishes, at)
    for name in SPANS:
        if name in wishes:
            with pointing(f"{at}/{name}"):
                _check_span(name, wishes[name])
    for name in MOMENTS:
        if isinstance(wishes.get(name), datetime):
            with pointing(f"{at}/{name}"):
                check_moment(moment_of(wishes[name]))
    if "cron" in wishes:
        with pointing(f"{at}/cron"):
            Cron(expression=wishes["cron"])
        with pointing(f"{at}/tz"):
            Cron(expression=wishes["cron"], tz=wishes.get("tz", "UTC"))
    if "retry" in wishes:
        with pointing(f"{at}/retry"):
            wishes["retry"] = _retry(wishes["retry"], retry or _usual(body))
    if isinstance(wishes.get("late"), LateBody):
        with pointing(f"{at}/late"):
            wishes["late"] = _late(wishes["late"])
    return wishes


def _check_recipient(wishes: dict[str, Any], at: str) -> None:
    """Refuse what goes to nobody, or to more than one of a handler, a webhook and a queue."""
    given = [name for name in RECIPIENTS if name in wishes]
    if len(given) != 1:
        with pointing(f"{at}/{given[1] if given else 'handler'}"):
            raise InvalidTask(f"a task goes to a handler, a webhook or a queue, not to {' and '.join(given) or 'none'}")
    if "webhook" in wishes:
        with pointing(f"{at}/webhook"):
            wishes["webhook"] = check_webhook(asdict(wishes["webhook"]))
    if "handler" in wishes:
        with pointing(f"{at}/handler"):
            check_function(wishes["handler"])


def _usual(body: AmendBody) -> RetryPolicy:
    """Return how a task is tried again unless it says otherwise."""
    if isinstance(body, AddBody) and body.webhook is not UNSET:
        return SENT_AGAIN
    return OFFERED_AGAIN if isinstance(body, AddBody) and body.queue is not UNSET else RetryPolicy()


def _check_span(name: str, span: Duration) -> None:
    span_ms = to_ms(span)
    if name == "every":
        Every(interval_ms=span_ms)
    if name == "timeout" and span_ms < 1:
        raise InvalidTask("a run needs some time; timeout cannot be 0")


def _check_when(wishes: dict[str, Any], at: str) -> None:
    """Refuse what contradicts itself."""
    for one, other in (("delay", "at"), ("every", "cron")):
        if one in wishes and other in wishes:
            with pointing(f"{at}/{other}"):
                raise InvalidSchedule(f"a task has {one} or {other}, not both")
    if "tz" in wishes and "cron" not in wishes:
        with pointing(f"{at}/tz"):
            raise InvalidSchedule("tz goes with cron; a time brings its own time zone")
    if "retry" in wishes and "retries" in wishes:
        with pointing(f"{at}/retries"):
            raise InvalidTask("give retries, or retry with all of it, not both")
    if wishes.get("times") == 0:
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
