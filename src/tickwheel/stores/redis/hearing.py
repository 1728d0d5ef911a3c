"""Notifications by PUBLISH and SUBSCRIBE: a connection to say, and another to hear.

In a cluster every server passes on what any of them is told.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress

from redis.asyncio.connection import Connection

from tickwheel.errors import StoreUnavailable
from tickwheel.stores.redis.address import Address
from tickwheel.stores.redis.connections import CONNECT_S, Place, ask, checked, connect, send
from tickwheel.stores.redis.failures import AWAY, told
from tickwheel.stores.wire import Line

__all__ = ["dialling"]


class RedisLine:
    """Two connections, one of which reads all the time."""

    def __init__(self, address: Address, place: Place, speaking: Connection, lost: Callable[[], None]) -> None:
        self._address = address
        self._place = place
        self._speaking = speaking
        self._hearing: Connection | None = None
        self._reading: asyncio.Task[None] | None = None
        self._lost = lost

    async def listen(self, hear: Callable[[str], None]) -> None:
        """Begin to hear what anyone says."""
        with told(self._address):
            self._hearing = await connect(self._address, self._place)
            checked(await ask(self._hearing, [["SUBSCRIBE", self._address.channel]]))
        self._reading = asyncio.create_task(self._read(self._hearing, hear))

    async def _read(self, hearing: Connection, hear: Callable[[str], None]) -> None:
        with suppress(*AWAY):
            while True:
                kind, _, *payload = await hearing.read_response(timeout=math.inf, disable_decoding=True)
                if kind == b"message":
                    hear(payload[0].decode())
        self._lost()

    async def say(self, hint: str) -> None:
        """Let everyone who listens hear something."""
        await self._ask(["PUBLISH", self._address.channel, hint])

    async def probe(self) -> None:
        """See whether both connections are still there."""
        await self._ask(["PING"])
        if self._hearing is not None:
            with told(self._address):
                await send(self._hearing, [["PING"]])

    async def _ask(self, command: list[str]) -> None:
        if self._reading is not None and self._reading.done():
            raise StoreUnavailable(f"{self._address.shown}: the connection was lost")
        with told(self._address):
            checked(await ask(self._speaking, [command]))

    async def hang_up(self) -> None:
        """End both."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        for connection in (self._speaking, self._hearing):
            if connection is not None:
                await connection.disconnect(nowait=True)


def dialling(
    address: Address, locate: Callable[[], Awaitable[Place]]
) -> Callable[[Callable[[], None]], Awaitable[Line]]:
    """Return how to connect."""

    async def dial(lost: Callable[[], None]) -> Line:
        with told(address):
            async with asyncio.timeout(CONNECT_S):
                place = await locate()
            return RedisLine(address, place, await connect(address, place), lost)

    return dial
