"""/v1/events: what happens, as server-sent events."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from litestar import get
from litestar.types import Receive, Scope, Send

from tickwheel.server.event_stream import Listener, TooManyListeners
from tickwheel.server.problems import Problem
from tickwheel.server.service import Asked, service_of

__all__ = ["handlers"]

HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]


class Told:
    """An answer that goes on until its listener leaves, is let go, or does not read what it is told."""

    def __init__(self, listener: Listener, frames: AsyncGenerator[bytes, None]) -> None:
        self._listener = listener
        self._frames = frames

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as ASGI has it
        """Send it."""
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        ends = [asyncio.create_task(end) for end in (self._tell(send), left(receive), self._listener.parted())]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()
            await asyncio.gather(*ends, return_exceptions=True)

    async def _tell(self, send: Send) -> None:
        async with aclosing(self._frames):
            async for frame in self._frames:
                await send({"type": "http.response.body", "body": frame, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def left(receive: Receive) -> None:
    """Wait until whoever asked has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


@get("/v1/events", opt={"role": "read"})
async def listen(request: Asked) -> Told:
    """Tell what happens until the listener leaves."""
    service = service_of(request)
    try:
        return Told(*service.stream.listen(request.headers.get("last-event-id")))
    except TooManyListeners:
        detail = f"{service.config.streams_max} listen already; try again later"
        raise Problem(429, "too-many-streams", "Too many streams", detail, headers={"retry-after": "5"}) from None


handlers = [listen]
