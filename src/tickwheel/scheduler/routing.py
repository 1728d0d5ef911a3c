"""Who gets a task: a function, a web address, or whoever reads a queue. Exactly one of them has to be said.

    add("orders.cancel", {"order_id": 7})          a handler, by name or as it is
    add(webhook="https://example.org/hook")        handler "webhook"
    add(queue="emails")                            handler "queue:emails"

What comes of it is a `Handler`: it brings the name, and how its tasks are tried again unless they say otherwise.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, Protocol

from tickwheel.errors import InvalidTask
from tickwheel.tasks import destinations
from tickwheel.tasks.fields import NAME_CHARS_MAX, invalid, is_a, text
from tickwheel.tasks.registry import Handler, Registry

__all__ = ["WebhookSender", "find_handler"]


class WebhookSender(Protocol):
    """What sends webhooks: `tickwheel.webhooks.Webhooks`."""

    @property
    def handler(self) -> Handler:
        """What is called with each task that is to be sent."""

    async def close(self) -> None:
        """Let go of its connections; it may be used again."""


def find_handler(registry: Registry, wishes: Mapping[str, Any], *, here: bool) -> Handler:
    """Return who gets a task; `here` if it is to be someone whom this process knows."""
    handler = wishes.get("handler")
    if "webhook" not in wishes and "queue" not in wishes:
        return _function(registry, handler, here=here)
    if handler is not None or ("webhook" in wishes and "queue" in wishes):
        given = [name for name in ("handler", "webhook", "queue") if wishes.get(name) is not None]
        raise InvalidTask("a task goes to a handler, a webhook or a queue: say one of them").within(given[-1])
    if "queue" in wishes:
        return _queue(destinations.check_queue(wishes["queue"]))
    if here and destinations.WEBHOOK not in registry:
        raise InvalidTask("this scheduler sends no webhooks; make it with webhooks=Webhooks(secret)").within("webhook")
    return SENT


def _function(registry: Registry, handler: str | Callable[..., Any] | None, *, here: bool) -> Handler:
    if handler is None:
        raise InvalidTask("a task goes to a handler, a webhook or a queue: say which").within("handler")
    if not is_a(handler, str):
        if not callable(handler):
            raise invalid("handler", handler, "the name of a handler, or its function")
        return registry.find(registry.name_of(handler))
    name = str.__str__(handler)  # which is hashed
    if here:
        return registry.find(destinations.check_function(name))
    elsewhere = _elsewhere(name)
    return registry.get(elsewhere.name) or elsewhere  # one that is registered here brings its policy


@lru_cache(maxsize=1024)  # asked for with every task that is added
def _elsewhere(name: str) -> Handler:
    """Return what stands for a handler that only the processes know that run tasks."""
    return Handler(name=destinations.check_function(text("handler", name, NAME_CHARS_MAX)), function=run_elsewhere)


@lru_cache(maxsize=1024)
def _queue(queue: str) -> Handler:
    return Handler(name=destinations.handler_for_queue(queue), function=run_elsewhere, retry=destinations.OFFERED_AGAIN)


def run_elsewhere(**_: Any) -> None:
    """Do nothing: it is never run here."""


SENT: Final = Handler(
    name=destinations.WEBHOOK,
    function=run_elsewhere,
    retry=destinations.SENT_AGAIN,
    timeout_ms=destinations.WEBHOOK_TIMEOUT_MS,
)
