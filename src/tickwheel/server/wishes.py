"""From a body to what the scheduler takes, and checks: its errors name the field, which is where a problem points."""

from typing import Any, Final

from msgspec import UNSET
from msgspec.structs import asdict, replace

from tickwheel.errors import InvalidTask
from tickwheel.scheduler.task_builder import moment_of, to_ms
from tickwheel.server.bodies import AddBody, AmendBody, FilterBody, LateBody, RetryBody
from tickwheel.server.problems import pointing
from tickwheel.stores.contract import Filter, Order
from tickwheel.tasks import LatePolicy, RetryPolicy
from tickwheel.tasks.destinations import OFFERED_AGAIN, SENT_AGAIN, check_webhook

__all__ = ["filter_of", "wishes_of"]

RECIPIENTS: Final = ("handler", "webhook", "queue")


def wishes_of(body: AmendBody, at: str = "", retry: RetryPolicy | None = None) -> dict[str, Any]:
    """Return what a body wishes for; `at` is where it stands in the whole body. The scheduler checks what it says."""
    wishes = {name: value for name, value in asdict(body).items() if value is not UNSET}
    if isinstance(body, AddBody):
        del wishes["on_conflict"]  # that is about others
        _check_recipient(wishes, at)
    if "retry" in wishes and "retries" not in wishes:
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


def _usual(body: AmendBody) -> RetryPolicy:
    """Return how a task is tried again unless it says otherwise."""
    if isinstance(body, AddBody) and body.webhook is not UNSET:
        return SENT_AGAIN
    return OFFERED_AGAIN if isinstance(body, AddBody) and body.queue is not UNSET else RetryPolicy()


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
