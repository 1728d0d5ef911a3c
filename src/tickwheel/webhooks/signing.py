"""Signatures of webhooks, by https://www.standardwebhooks.com: who sent it, when, and that nobody changed it.

    webhook-id          order-7%2E1@1800000000000          the same in each attempt: receivers use it to do things once
    webhook-timestamp   1800000000                         of this attempt
    webhook-signature   v1,K5oZfzN95Z9UVu1EsfQmf...= v1,...

A signature is the HMAC-SHA256 of `id.timestamp.body`. While a secret is replaced by another there are two of them: the
sender signs with both, and receivers change over when they like.
"""

import binascii
import hmac
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from secrets import token_bytes
from typing import Final
from urllib.parse import quote

from tickwheel.clock import SystemClock
from tickwheel.durations import Duration, to_ns
from tickwheel.errors import InvalidSecret, InvalidSignature

__all__ = ["SECRETS_MAX", "check_secrets", "message_id", "new_secret", "sign", "verify"]

PREFIX: Final = "whsec_"
KEY_BYTES_MIN: Final = 24  # these three as Standard Webhooks has them
KEY_BYTES_MAX: Final = 64
TOLERANCE: Final = "5m"
KEY_BYTES: Final = 32  # as long as the digest
SECRETS_MAX: Final = 2  # the new one, and the old one while there are receivers that know no other
SIGNATURES_MAX: Final = 16  # that are looked at; anyone can send more
TIMESTAMP_CHARS_MAX: Final = 15


def new_secret() -> str:
    """Make a secret that nobody knows."""
    return PREFIX + b64encode(token_bytes(KEY_BYTES)).decode()


def check_secrets(secrets: Sequence[str]) -> tuple[bytes, ...]:
    """Return the keys of one secret, or of two; what is wrong is said without showing them."""
    if not 1 <= len(secrets) <= SECRETS_MAX:
        raise InvalidSecret(f"webhooks are signed with 1 or {SECRETS_MAX} secrets, not {len(secrets)}")
    return tuple(map(_key, secrets))


def _key(secret: str) -> bytes:
    try:
        key = b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidSecret("this secret is no base64") from None
    if not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
        raise InvalidSecret(f"this secret has {len(key)} bytes")
    return key


def message_id(occurrence_id: str) -> str:
    """Write an id so that a header takes it, and no full stop in it can be taken for one between the signed parts."""
    return quote(occurrence_id, safe="@:/+=,").replace(".", "%2E")


def sign(secrets: Sequence[str], message: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the three headers of a message, signed with each of the secrets; the time is in seconds since 1970."""
    return signed(check_secrets(secrets), message, timestamp, body)


def signed(keys: Iterable[bytes], message: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of a message, signed with keys."""
    return {
        "webhook-id": message,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{_signature(key, message, str(timestamp), body)}" for key in keys),
    }


def _signature(key: bytes, message: str, timestamp: str, body: bytes) -> str:
    return b64encode(hmac.digest(key, f"{message}.{timestamp}.".encode() + body, "sha256")).decode()


def verify(
    secret: str | Sequence[str],
    headers: Mapping[str, str],
    body: bytes,
    *,
    tolerance: Duration = TOLERANCE,
    now: float | None = None,
) -> str:
    """Return the id of a message that was signed with the secret just now; raise `InvalidSignature` for any other.

    The body is that of the request, byte for byte. What was sent longer ago than `tolerance` is refused: it may have
    been overheard, and sent again. Within it, remember ids to do things once.
    """
    keys = check_secrets([secret] if isinstance(secret, str) else secret)
    told = {name.lower(): value for name, value in headers.items()}
    try:
        message, timestamp, signatures = (told[f"webhook-{part}"] for part in ("id", "timestamp", "signature"))
    except KeyError as missing:
        raise InvalidSignature(f"it has no header {missing.args[0]!r}") from None
    expected = [_signature(key, message, timestamp, body).encode() for key in keys]
    given = [signature.partition(",") for signature in signatures.split(" ", SIGNATURES_MAX)[:SIGNATURES_MAX]]
    # Every one is compared, in a time that says nothing about any.
    matches = [
        version == "v1" and hmac.compare_digest(right, signature.encode(errors="replace"))
        for version, _, signature in given
        for right in expected
    ]
    if not any(matches):
        raise InvalidSignature("no signature is right")
    _check_time(timestamp, SystemClock.time_ns() / 1e9 if now is None else now, to_ns(tolerance) / 1e9)
    return message


def _check_time(timestamp: str, now: float, tolerance_s: float) -> None:
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= TIMESTAMP_CHARS_MAX):
        raise InvalidSignature("its timestamp is no number of seconds")
    age_s = now - int(timestamp)
    if abs(age_s) > tolerance_s:
        raise InvalidSignature(f"it is {abs(age_s):.0f} s {'old' if age_s > 0 else 'ahead of the clock here'}")
