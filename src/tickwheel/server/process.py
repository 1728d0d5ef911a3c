"""A server as a process: it says where it is when it is ready, and ends in order when it is told to.

    SIGTERM, SIGINT --> no more connections, streams end --> requests are answered --> runs end, leases are given back

All of it has `grace_s`. What does not end by then is run again by whoever comes next, and the process ends with 0.
"""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import uvicorn

from tickwheel.errors import InvalidConfig
from tickwheel.scheduler import AsyncScheduler
from tickwheel.server.app import create_app
from tickwheel.server.config import Config
from tickwheel.server.service import Service

__all__ = ["serve"]

log = logging.getLogger("tickwheel.server")

REQUESTS_SHARE = 0.25  # of the grace that requests have; the rest is for runs


class Server(uvicorn.Server):
    """uvicorn, but signals are ours, and it tells when it is ready."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        if self.started:
            self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


async def serve(
    scheduler: AsyncScheduler,
    config: Config,
    say: Callable[[str], None] = print,
    along: Callable[[], Awaitable[Any]] | None = None,
) -> None:
    """Serve until told to stop; what goes along begins when it is ready, and is broken off when it stops."""
    listening = bind(config)
    app = create_app(scheduler, config)
    server = Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            ws="none",
            limit_concurrency=config.connections_max,
            timeout_graceful_shutdown=max(1, round(config.grace_s * REQUESTS_SHARE)),
            ssl_certfile=config.tls_cert,
            ssl_keyfile=config.tls_key,
        )
    )
    service: Service = app.state.service
    beside: list[asyncio.Future[Any]] = []
    stopping = False

    def stop() -> None:
        nonlocal stopping
        stopping = True
        service.say_goodbye()
        for work in beside:
            work.cancel()
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    greeting = asyncio.create_task(server.ready.wait())
    await asyncio.wait([serving, greeting], return_when=asyncio.FIRST_COMPLETED)
    if not server.started:
        greeting.cancel()
        await serving
        if not stopping:
            raise InvalidConfig("it could not start; the lines above say why")
    # Requests leave hardly any cycles, and what is there now stays: looking for garbage less often saves a tenth.
    gc.set_threshold(20_000, 50, 100)
    gc.collect()
    gc.freeze()
    say(f"tickwheel: {scheduler.startup_report or 'it adds, others run'}")
    if not stopping:  # otherwise the socket may be closed
        say(f"tickwheel: ready at {url_of(listening, config)}")
        if along is not None:
            beside.append(asyncio.ensure_future(along()))
    await serving
    await asyncio.gather(*beside, return_exceptions=True)
    say("tickwheel: stopped")


def bind(config: Config) -> socket.socket:
    """Take the address."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    # With its protocol named, asyncio sends small answers at once: otherwise each waits 40 ms for an acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((config.host, config.port))
    except OSError as error:
        listening.close()
        raise InvalidConfig(f"it cannot listen on {config.host}, port {config.port}: {error}") from None
    return listening


def url_of(listening: socket.socket, config: Config) -> str:
    """Return where it is."""
    host, port = listening.getsockname()[:2]
    scheme = "http" if config.tls_cert is None else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"
