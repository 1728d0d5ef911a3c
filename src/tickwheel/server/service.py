"""All parts of a server, and the life they share.

service = Service(scheduler, config)
async with service.running():       # starts the scheduler unless somebody did, and stops it if it was started here
    ...
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from litestar import Request

from tickwheel.clock import SystemClock
from tickwheel.observe.masking import SECRET_WORDS, Mask
from tickwheel.observe.metrics import Metrics
from tickwheel.scheduler import AsyncScheduler
from tickwheel.server.bulk import Operations
from tickwheel.server.config import Config
from tickwheel.server.doors import Doors
from tickwheel.server.event_stream import EventStream
from tickwheel.server.figures import Figures
from tickwheel.server.idempotency import Idempotency
from tickwheel.server.problems import Problem
from tickwheel.server.static import Dashboard
from tickwheel.server.tokens import Tokens

__all__ = ["Asked", "Service", "service_of"]

Asked = Request[Any, Any, Any]  # its user is a `Holder`, or None
TICK_S: Final = 1.0


class Service:
    """What handlers work with."""

    def __init__(self, scheduler: AsyncScheduler, config: Config) -> None:
        self.scheduler = scheduler
        self.config = config
        self.clock = SystemClock()
        tokens = None if config.token_file is None else Tokens.read(Path(config.token_file))
        self.doors = Doors(config, tokens, self.clock)
        # Microseconds since 1970: greater than what an earlier process can have counted up to.
        self.stream = EventStream(self.clock.time_ns() // 1_000, config.events_kept, config.streams_max)
        self.figures = Figures()
        self.operations = Operations(scheduler, self.clock)
        self.idempotency = Idempotency(config.idempotency_keys_max, self.clock)
        self.dashboard = Dashboard()
        self.mask = Mask((*SECRET_WORDS, *config.mask))
        self.metrics = Metrics(scheduler)
        self.stopping = False
        self.goodbye = asyncio.Event()  # whoever waits is sent away

    def now(self) -> int:
        """Read the clock."""
        return self.clock.time_ns() // 1_000_000

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Live: begin with what was begun already, and end what was begun here."""
        async with AsyncExitStack() as ends:  # the last that began ends first
            for hear in (self.stream.hear, self.figures.hear):
                ends.callback(self.scheduler.events.listen(hear))
            if not self.scheduler.is_open:
                await self.scheduler.start()
                ends.push_async_callback(self.scheduler.stop)
            self.stopping = False
            self.goodbye.clear()
            self.stream.open()
            ends.push_async_callback(self.operations.close)
            ticking = asyncio.create_task(self._tick())
            ends.callback(ticking.cancel)
            ends.callback(self.say_goodbye)
            yield

    def say_goodbye(self) -> None:
        """End the streams and say to whoever asks that no more should be sent here."""
        self.stopping = True
        self.goodbye.set()
        self.stream.close()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.figures.tick(self.now(), self.scheduler.picture())


def service_of(request: Asked) -> Service:
    """Return the service a request came to."""
    service: Service = request.app.state["service"]
    if not service.scheduler.is_open:
        detail = "the scheduler is not open: a mounted app has to be run by the one around it, see docs/http.md"
        raise Problem(503, "not-started", "It was not started", detail, headers={"retry-after": "1"})
    return service
