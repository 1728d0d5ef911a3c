"""The server as an ASGI application, to be served by itself or mounted into another.

    app = create_app(AsyncScheduler("sqlite:///tasks.db"))

Its lifespan starts the scheduler, unless it was started, and stops what it started. A framework that mounts it without
running its lifespan does so itself:

    async with running(app):
        ...
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from tickwheel.errors import MissingExtra

try:
    from litestar import Litestar
    from litestar.datastructures import State
    from litestar.exceptions import HTTPException
except ImportError as error:
    raise MissingExtra("servers", "litestar", "server") from error

from tickwheel.scheduler import AsyncScheduler
from tickwheel.server import (
    batch,
    cron,
    events,
    health,
    openapi,
    operations,
    queues,
    session,
    static,
    stats,
    tasks,
    wheels,
)
from tickwheel.server.config import Config
from tickwheel.server.problems import answer_for
from tickwheel.server.sending import webhooks_of
from tickwheel.server.service import Service

__all__ = ["create_app", "running"]

TOPICS: Final = (tasks, batch, queues, operations, cron, wheels, stats, events, health, session, openapi, static)


def create_app(scheduler: AsyncScheduler, config: Config | None = None) -> Litestar:
    """Make an application around a scheduler."""
    service = Service(scheduler, config or Config())
    if service.config.webhook_secret_file is not None:
        scheduler.send_with(webhooks_of(service.config.webhook_secret_file, service.config.webhook_networks))
    return Litestar(
        [handler for topic in TOPICS for handler in topic.handlers],
        before_request=service.doors.guard,  # a guard would be given a copy of the handler, for 40 µs
        exception_handlers={HTTPException: answer_for, Exception: answer_for},
        lifespan=[lifespan],
        state=State({"service": service}),
        request_max_body_size=service.config.body_bytes_max,
        openapi_config=None,
        logging_config=None,
        debug=False,
    )


@asynccontextmanager
async def lifespan(app: Litestar) -> AsyncIterator[None]:
    """Live as long as the application is served."""
    async with running(app):
        yield


def running(app: Litestar) -> AbstractAsyncContextManager[None]:
    """Run an application that is mounted into another."""
    service: Service = app.state.service
    return service.running()
