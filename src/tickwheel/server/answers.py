"""What handlers answer with: a body that is written already, and sent as it is.

The framework's own response also knows cookies, background work and how to write any type; for what is JSON already
that takes longer than checking a task and storing it.
"""

from typing import Final

import msgspec
from litestar.types import Receive, Scope, Send

__all__ = ["Answer", "answer"]

ALWAYS: Final = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
JSON: Final = "application/json"


class Answer:
    """A status, a body, and headers besides those that every answer has."""

    __slots__ = ("body", "headers", "media_type", "status")

    def __init__(
        self, body: bytes, status: int = 200, headers: dict[str, str] | None = None, media_type: str = JSON
    ) -> None:
        self.body = body
        self.status = status
        self.headers = headers or {}
        self.media_type = media_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as ASGI has it
        """Send it."""
        headers = [
            *ALWAYS,
            (b"content-type", self.media_type.encode()),
            (b"content-length", b"%d" % len(self.body)),
            *[(name.encode(), value.encode("latin-1")) for name, value in self.headers.items()],
        ]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


def answer(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    """Answer with JSON."""
    return Answer(msgspec.json.encode(value), status, headers)
