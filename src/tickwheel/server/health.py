"""/livez (or /healthz), /readyz and /metrics: for those who watch over the server."""

import asyncio
from typing import Final, Literal

import msgspec
from litestar import get

from tickwheel.errors import TickwheelError
from tickwheel.observe.metrics import CONTENT_TYPE
from tickwheel.server.answers import Answer, answer
from tickwheel.server.service import Asked, Service, service_of

__all__ = ["Health", "handlers"]

STORE_S: Final = 2.0  # for the store to answer


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How it is, and why."""

    status: Literal["ok", "not ready"]
    reason: str


@get(["/livez", "/healthz"], opt={"role": None})
async def live() -> Answer:
    """Say that the process lives."""
    return answer(Health(status="ok", reason="it answers"))


@get("/readyz", opt={"role": None})
async def ready(request: Asked) -> Answer:
    """Say whether requests should be sent here."""
    service: Service = request.app.state.service
    reason = await unready(service)
    if reason is None:
        whose = "others run the tasks" if service.scheduler.picture() is None else "tasks are run"
        return answer(Health(status="ok", reason=f"the store answers and {whose}"))
    return answer(Health(status="not ready", reason=reason), 503)


async def unready(service: Service) -> str | None:
    """Return why nothing should be sent here; None if it may be."""
    if service.stopping:
        return "it is stopping"
    if not service.scheduler.is_open:
        return "it has not started"
    try:
        async with asyncio.timeout(STORE_S):
            await service.scheduler.counts()
    except TimeoutError:
        return f"the store did not answer within {STORE_S:g} s"
    except TickwheelError as error:
        return str(error)
    return None


@get("/metrics", opt={"role": "read"})
async def metrics(request: Asked) -> Answer:
    """Return figures for Prometheus."""
    return Answer(service_of(request).metrics.render(), media_type=CONTENT_TYPE)


handlers = [live, ready, metrics]
