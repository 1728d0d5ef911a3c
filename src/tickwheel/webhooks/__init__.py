"""Webhooks: tasks that are sent by a signed POST when they are due, and what receivers check them with.

    scheduler = AsyncScheduler("sqlite:///tasks.db", webhooks=Webhooks("whsec_…"))
    await scheduler.add(webhook="https://example.org/hook", args={"order_id": 7}, delay="30m")

Signed as Standard Webhooks says: whoever has a library for those can check them. In Python without one:

>>> secret = new_secret()
>>> headers = sign([secret], "order-7@1800000000000", 1_800_000_000, b"{}")
>>> verify(secret, headers, b"{}", now=1_800_000_007)
'order-7@1800000000000'
>>> verify(secret, headers, b'{"paid": true}', now=1_800_000_007)
Traceback (most recent call last):
tickwheel.errors.InvalidSignature: this webhook is not to be trusted: no signature is right
"""

from typing import TYPE_CHECKING, Any

from tickwheel.webhooks.signing import new_secret, sign, verify

if TYPE_CHECKING:
    from tickwheel.webhooks.sender import Webhooks

__all__ = ["Webhooks", "new_secret", "sign", "verify"]


def __getattr__(name: str) -> Any:
    # Who only receives webhooks need not have what sends them.
    if name != "Webhooks":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tickwheel.webhooks.sender import Webhooks  # noqa: PLC0415 - as above

    return Webhooks
