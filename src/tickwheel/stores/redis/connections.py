"""The connections to one server: a few of them, and a bound on everything that is asked over them.

Several commands go together, and their answers come together: a round trip for all. Nothing is sent twice, for what was
sent over a connection that broke may have been done. A new connection is greeted before it is used: see greeting.py.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from redis.asyncio.connection import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ResponseError

from tickwheel.stores.redis.address import Address

__all__ = ["CONNECT_S", "Command", "Connections", "Place", "ask", "connect"]

Command = Sequence[str | bytes | int]
Place = tuple[str, int]

CONNECTIONS_MAX: Final = 5  # one each to add, claim, finish, hold leases, and read
CONNECT_S: Final = 5.0
ANSWER_S: Final = 15.0  # for a script; the largest batch takes a fraction of a second


async def connect(address: Address, place: Place) -> Connection:
    """Make a connection by itself, and log in."""
    host, port = place
    kind = SSLConnection if address.tls else Connection
    more: dict[str, Any] = {"ssl_ca_certs": address.ca_file} if address.tls else {}
    connection = kind(
        host=host,
        port=port,
        db=address.db,
        username=address.username,
        password=address.password,
        socket_timeout=ANSWER_S + address.wait_ms / 1000,
        socket_connect_timeout=CONNECT_S,
        retry=Retry(NoBackoff(), 0),
        client_name="tickwheel",
        driver_info=None,
        protocol=2,
        **more,
    )
    await connection.connect()  # type: ignore[no-untyped-call] # the driver says nothing about it
    return connection


class Connections:
    """Some connections, made when they are needed, to wherever the server is then."""

    def __init__(
        self,
        address: Address,
        locate: Callable[[], Awaitable[Place]],
        greet: Callable[[Connection], Awaitable[None]],
    ) -> None:
        self._address = address
        self._locate = locate
        self._greet = greet
        self._idle: list[Connection] = []
        self._forgotten = 0  # how often all connections were: those in use then are not used again
        self._turns = asyncio.Semaphore(CONNECTIONS_MAX)

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands together and return their answers; one that was refused is answered by its error."""
        async with self._turns:
            connection, since = await self._take(), self._forgotten
            try:
                answers = await ask(connection, commands)
            except BaseException:  # whatever was asked may be answered later, and then to somebody else
                await connection.disconnect(nowait=True)
                await self.forget()
                raise
            if since == self._forgotten:
                self._idle.append(connection)
            else:
                await connection.disconnect(nowait=True)
            return answers

    async def _take(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection._reader is not None and not connection._reader.at_eof():
                return connection
            await connection.disconnect(nowait=True)
        async with asyncio.timeout(CONNECT_S):
            place = await self._locate()
        connection = await connect(self._address, place)
        try:
            await self._greet(connection)
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection

    async def forget(self) -> None:
        """Use none of the connections that there are any more."""
        self._forgotten += 1
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.disconnect(nowait=True)

    async def close(self) -> None:
        """Let go of the server, when what is being asked is answered."""
        for _ in range(CONNECTIONS_MAX):
            await self._turns.acquire()
        await self.forget()
        for _ in range(CONNECTIONS_MAX):
            self._turns.release()


async def ask(connection: Connection, commands: Sequence[Command]) -> list[Any]:
    """Send commands together and read their answers."""
    await connection.send_packed_command(connection.pack_commands(commands))
    answers: list[Any] = []
    for _ in commands:
        try:
            answers.append(await connection.read_response(disable_decoding=True))
        except ResponseError as error:
            answers.append(error)
    return answers
