"""Connections that only go where they may: a name is looked up once, and what was found is what is connected to.

    example.org --look up--> 93.184.215.14 --guard--> connect to 93.184.215.14 --TLS--> as example.org
                             10.0.0.1      --refused

Who owns a name can have it answered differently each time. Here there is no second time: the address that was checked
is the one that is connected to, while the request and the certificate are still those of the name. A connection that
is kept for the next request was checked when it was made.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from tickwheel.errors import MissingExtra
from tickwheel.webhooks.addresses import Guard

try:
    import httpcore
except ImportError as error:
    raise MissingExtra("webhooks", "httpcore", "server") from error

__all__ = ["UNREACHABLE", "GuardedNetwork", "Resolve", "look_up"]

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

ADDRESSES_MAX: Final = 4  # of a name that are tried, one after the other

# What is raised if nobody is there, does not answer, or answers with something else than HTTP.
UNREACHABLE: Final = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)


async def look_up(host: str, port: int) -> Sequence[str]:
    """Ask the system for the addresses of a name."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[4][0]) for address in found]


class GuardedNetwork(httpcore.AsyncNetworkBackend):
    """What a connection pool reaches the network through."""

    def __init__(self, guard: Guard, resolve: Resolve) -> None:
        self._guard = guard
        self._resolve = resolve
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - as the others have it
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to a host, if every address it has may be connected to."""
        try:
            async with asyncio.timeout(timeout):
                found = await self._resolve(host, port)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(f"the name {host!r} could not be looked up in time") from error
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"the name {host!r} could not be looked up: {error}") from error
        addresses = [self._guard.check(host, address) for address in found]
        failed: Exception = httpcore.ConnectError(f"the name {host!r} has no address")
        for address in addresses[:ADDRESSES_MAX]:
            try:
                return await self._network.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        raise failed

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
