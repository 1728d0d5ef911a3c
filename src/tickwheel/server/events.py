"""/v1/events: what happens, as server-sent events."""

from collections.abc import AsyncIterator

from litestar import get
from litestar.response import Stream

from tickwheel.server.event_stream import TooManyListeners
from tickwheel.server.problems import Problem
from tickwheel.server.service import Asked, service_of

__all__ = ["handlers"]


@get("/v1/events", opt={"role": "read"})
async def listen(request: Asked) -> Stream:
    """Tell what happens until the listener leaves."""
    service = service_of(request)
    try:
        frames: AsyncIterator[bytes] = service.stream.listen(request.headers.get("last-event-id"))
    except TooManyListeners:
        detail = f"{service.config.streams_max} listen already; try again later"
        raise Problem(429, "too-many-streams", "Too many streams", detail, headers={"retry-after": "5"}) from None
    headers = {"cache-control": "no-store", "x-accel-buffering": "no", "x-content-type-options": "nosniff"}
    return Stream(frames, media_type="text/event-stream", headers=headers)


handlers = [listen]
