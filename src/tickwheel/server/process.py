"""A server as a process: it says where it is when it is ready, and ends in order when it is told to.

    SIGTERM, SIGINT --> no more connections, streams end --> requests are answered --> runs end, leases are given back

All of it has `grace_s`; what does not end by then is run again by whoever comes next, and the process ends with 0 anyway.
"""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator

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
    """uvicorn, but signals are ours."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


async def serve(scheduler: AsyncScheduler, config: Config, say: Callable[[str], None] = print) -> None:
    """Serve until told to stop."""
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

    def stop() -> None:
        service.say_goodbye()
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    if server.started:
        say(f"tickwheel: {scheduler.recovery or 'it adds, others run'}")
        say(f"tickwheel: ready at {url_of(listening, config)}")
    await serving
    if not server.started:
        raise InvalidConfig("it could not start; the lines above say why")
    say("tickwheel: stopped")


def bind(config: Config) -> socket.socket:
    """Take the address."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listening = socket.socket(family)
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
