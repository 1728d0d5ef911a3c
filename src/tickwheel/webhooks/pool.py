"""Connections that are kept for the next request to the same place.

    https://example.org    [ c1  c4 ]        the one used last is used next: the others grow old, and go
    https://shop.example   [ c2 ]

httpcore has a pool of its own, which looks at every connection for every request: with some dozens of them that took
several times as long as the request itself. How many are in use at once is for the caller to limit.
"""

import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpcore
from httpcore import Request, Response

__all__ = ["Pool", "Request", "Response"]

IDLE_S: Final = 15.0  # how long a connection is kept; servers close theirs after some more

Place = tuple[bytes, bytes, int]


class Pool:
    """Connections by the place they lead to, at most so many of them idle."""

    def __init__(self, network: httpcore.AsyncNetworkBackend, tls: ssl.SSLContext, idle_max: int) -> None:
        self._network = network
        self._tls = tls
        self._idle_max = idle_max
        self._idle: dict[Place, OrderedDict[httpcore.AsyncHTTPConnection, None]] = {}
        self._places: OrderedDict[httpcore.AsyncHTTPConnection, Place] = OrderedDict()  # of idle ones, oldest first

    @asynccontextmanager
    async def post(self, request: Request) -> AsyncIterator[Response]:
        """Send a request over a connection that is kept, or a new one."""
        origin = request.url.origin
        place = (origin.scheme, origin.host, origin.port)
        connection = await self._take(place) or httpcore.AsyncHTTPConnection(
            origin, ssl_context=self._tls, keepalive_expiry=IDLE_S, network_backend=self._network
        )
        try:
            response = await connection.handle_async_request(request)
            try:
                yield response
            finally:
                await response.aclose()
        finally:
            if connection.is_idle() and not connection.is_closed():
                self._places[connection] = place
                self._idle.setdefault(place, OrderedDict())[connection] = None
                await self._release()
            else:
                await connection.aclose()

    async def _take(self, place: Place) -> httpcore.AsyncHTTPConnection | None:
        """Take the connection that was used last, of those that still stand."""
        while place in self._idle:
            connection = next(reversed(self._idle[place]))
            self._forget(connection)
            if not connection.has_expired():
                return connection
            await connection.aclose()
        return None

    async def _release(self) -> None:
        """Close those that are too old, or too many."""
        while self._places:
            oldest = next(iter(self._places))
            if len(self._places) <= self._idle_max and not oldest.has_expired():
                break
            self._forget(oldest)
            await oldest.aclose()

    def _forget(self, connection: httpcore.AsyncHTTPConnection) -> None:
        place = self._places.pop(connection)
        del self._idle[place][connection]
        if not self._idle[place]:
            del self._idle[place]

    async def close(self) -> None:
        """Close all that are idle."""
        for connection in list(self._places):
            self._forget(connection)
            await connection.aclose()
