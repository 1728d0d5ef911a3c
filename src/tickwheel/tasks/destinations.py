"""Where a task goes when it is due, if not to a function here: to a web address, or to whoever reads a queue.

    handler          who gets the task
    orders.cancel    the function of that name, in a process that has it
    webhook          `task.webhook.url`, by a signed POST
    queue:emails     whoever leases from queue "emails"

What the task says as `handler` decides, and so the two last kinds of names are no function's.

>>> parse_queue("queue:emails"), parse_queue("orders.cancel")
('emails', None)
>>> check_webhook(Webhook(url="ftp://example.org/"))
Traceback (most recent call last):
tickwheel.errors.InvalidTask: webhook: a webhook goes to http://… or https://…, not to 'ftp://example.org/'
"""

import re
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import asdict

from tickwheel.errors import InvalidTask
from tickwheel.tasks.fields import invalid, json_object
from tickwheel.tasks.policies import RetryPolicy

__all__ = [
    "OFFERED_AGAIN",
    "SENT_AGAIN",
    "WEBHOOK",
    "WEBHOOK_TIMEOUT_MS",
    "Webhook",
    "check_function",
    "check_queue",
    "check_webhook",
    "handler_for_queue",
    "is_reserved",
    "parse_queue",
]

WEBHOOK: Final = "webhook"
QUEUE: Final = "queue:"

# A receiver that is being restarted or mended: from 10 s on, over three quarters of an hour.
SENT_AGAIN: Final = RetryPolicy(retries=8)
WEBHOOK_TIMEOUT_MS: Final = 30_000  # a receiver takes note, and does its work later
# A queue promises at least once: from a second on, up to every five minutes, for more than three days.
OFFERED_AGAIN: Final = RetryPolicy(retries=1000, first_ms=1_000, cap_ms=300_000)

URL_CHARS_MAX: Final = 2_048  # what every server takes
HEADERS_MAX: Final = 20
HEADER_CHARS_MAX: Final = 1_024  # of a name or a value
QUEUE_NAME: Final = re.compile(r"[A-Za-z0-9_.\-]{1,100}")
URL: Final = re.compile(r"[!-~]+")  # printable ASCII without spaces; anything else is written %C3%A9 or xn--
HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token, RFC 9110
HEADER_VALUE: Final = re.compile(r"[!-~]([ -~]*[!-~])?")

# What the sender says itself, or what is about the connection and not about the message.
OWN_HEADERS: Final = frozenset(
    {"connection", "content-encoding", "content-length", "content-type", "expect", "host", "keep-alive", "te"}
    | {"trailer", "transfer-encoding", "upgrade"}
)
OWN_PREFIXES: Final = ("proxy-", "tickwheel-", "webhook-")


class Webhook(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Where to send a task, and what to say there besides."""

    url: str
    headers: dict[str, str] = {}


def handler_for_queue(queue: str) -> str:
    """Return what a task for a queue has as its handler."""
    return QUEUE + queue


def parse_queue(handler: str) -> str | None:
    """Return the queue that a task with such a handler goes to; None if it goes somewhere else."""
    return handler[len(QUEUE) :] if handler.startswith(QUEUE) else None


def is_reserved(name: str) -> bool:
    """Tell whether a name stands for a way of delivery, and so for no function."""
    return name == WEBHOOK or name.startswith(QUEUE)


def check_function(name: str) -> str:
    """Return the name of a function, or say that it is none."""
    if is_reserved(name):
        raise InvalidTask(f"no function is called {name!r:.120}; say webhook or queue instead").within("handler")
    return name


def check_queue(queue: object) -> str:
    """Return the name of a queue, or say what is wrong with it."""
    if not isinstance(queue, str) or not QUEUE_NAME.fullmatch(queue):
        raise invalid("queue", queue, "a name of 1 to 100 letters, digits, '_', '.' and '-'")
    return str.__str__(queue)


def check_webhook(webhook: object) -> Webhook:
    """Return where to send a task, or say what is wrong with it."""
    try:
        wanted = _read_webhook(webhook)
        _check_url(wanted.url)
        _check_headers(wanted.headers)
    except InvalidTask as error:
        raise error.within("webhook") from None
    return wanted


def _read_webhook(webhook: object) -> Webhook:
    """Make one of a URL, or of what has a URL and headers, each as plain text."""
    if isinstance(webhook, str):
        return Webhook(url=str.__str__(webhook))
    given = asdict(webhook) if isinstance(webhook, Webhook) else webhook  # one may have been made of anything
    try:
        return msgspec.convert(json_object("webhook", given), Webhook)
    except msgspec.ValidationError as error:
        raise InvalidTask(f"a webhook is a URL, or has one as url, and headers: {error}") from None


def _check_url(url: str) -> None:
    if len(url) > URL_CHARS_MAX or not URL.fullmatch(url) or "\\" in url:
        raise InvalidTask(f"a URL has at most {URL_CHARS_MAX:,} characters of ASCII without spaces, not {url!r:.120}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidTask(f"{url!r:.120} is no URL: {error}") from None
    if parts.scheme not in ("http", "https"):
        raise InvalidTask(f"a webhook goes to http://… or https://…, not to {url!r:.120}")
    if not parts.hostname or port == 0:
        raise InvalidTask(f"a webhook needs a host to go to, and {url!r:.120} has none")
    if parts.username is not None or parts.password is not None:
        raise InvalidTask("a URL with a name or a password in it is shown and logged; say them in a header")


def _check_headers(headers: dict[str, str]) -> None:
    if len(headers) > HEADERS_MAX:
        raise InvalidTask(f"a webhook has at most {HEADERS_MAX} headers of its own, not {len(headers)}")
    for name, value in headers.items():
        _check_header(name, value)


def _check_header(name: str, value: str) -> None:
    if not HEADER_NAME.fullmatch(name) or len(name) > HEADER_CHARS_MAX:
        raise InvalidTask(f"{name!r:.120} is no name of a header")
    if name.lower() in OWN_HEADERS or name.lower().startswith(OWN_PREFIXES):
        raise InvalidTask(f"header {name!r:.120} is the sender's to say; leave it out")
    if not HEADER_VALUE.fullmatch(value) or len(value) > HEADER_CHARS_MAX:
        # The value itself may be a secret.
        raise InvalidTask(f"the value of header {name!r} is 1 to {HEADER_CHARS_MAX:,} printable characters of ASCII")
