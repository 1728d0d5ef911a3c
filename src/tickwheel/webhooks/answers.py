"""What a receiver's answer means for the task.

    2xx                       it is done
    410                       the receiver wants no more: the task has failed, without retries
    else, with Retry-After    it is tried again then
    else, and no answer       it is tried again by its retry policy

>>> wait_ms("120", now_ms=0), wait_ms("Thu, 01 Jan 1970 00:01:00 GMT", now_ms=15_000), wait_ms("soon", now_ms=0)
(120000, 45000, None)
"""

from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

from tickwheel.errors import Fail, RetryAfter, WebhookFailed

__all__ = ["judge", "wait_ms"]

WAIT_MS_MAX: Final = 86_400_000  # a receiver may ask for a day; then it is asked again
RETRY_AFTER_CHARS_MAX: Final = 64


def judge(where: str, status: int, retry_after: str | None, now_ms: int) -> None:
    """Return if a webhook was taken; raise what is to become of it otherwise."""
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return
    if status == HTTPStatus.GONE:
        raise Fail(f"{where} answered 410: it wants no more of these")
    asked_ms = None if retry_after is None else wait_ms(retry_after, now_ms)
    if asked_ms is not None:
        raise RetryAfter(asked_ms / 1000, f"{where} answered {status}")
    moved = "; redirects are not followed, give the new URL" if HTTPStatus(300) <= status < HTTPStatus(400) else ""
    raise WebhookFailed(f"{where} answered {status}{moved}")


def wait_ms(retry_after: str, now_ms: int) -> int | None:
    """Read how long to wait, as seconds or as a date, up to a day; None if it cannot be read."""
    text = retry_after.strip()
    if len(text) > RETRY_AFTER_CHARS_MAX:
        return None
    if text.isascii() and text.isdigit():
        return min(int(text) * 1000, WAIT_MS_MAX)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return min(max(int(moment.timestamp() * 1000) - now_ms, 0), WAIT_MS_MAX)
