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

__all__ = ["CONNECT_S", "Command", "Connections", "Login", "Place", "ask", "checked", "connect", "send"]

Command = Sequence[str | bytes | int]
Place = tuple[str, int]
Login = tuple[str | None, str | None]  # who, and the password

CONNECTIONS_MAX: Final = 5  # one each to add, claim, finish, hold leases, and read
CONNECT_S: Final = 5.0
ANSWER_S: Final = 15.0  # for a script; the largest batch takes a fraction of a second


async def connect(address: Address, place: Place, login: Login | None = None) -> Connection:
    """Make a connection by itself, and log in; a sentinel has another login, and no databases."""
    host, port = place
    kind = SSLConnection if address.tls else Connection
    more: dict[str, Any] = {"ssl_ca_certs": address.ca_file} if address.tls else {}
    connection = kind(
        host=host,
        port=port,
        socket_timeout=ANSWER_S + address.wait_ms / 1000,
        socket_connect_timeout=CONNECT_S,
        retry=Retry(NoBackoff(), 0),
        redis_connect_func=_attach,
        protocol=2,
        **more,
    )
    await connection.connect()  # type: ignore[no-untyped-call] # the driver says nothing about it
    username, password = (address.username, address.password) if login is None else login
    commands: list[Command] = [["AUTH", username or "default", password]] if password else []
    commands += [["SELECT", address.db]] if address.db and login is None else []
    try:
        checked(await ask(connection, [*commands, ["CLIENT", "SETNAME", "tickwheel"]]))
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    return connection


def _attach(connection: Any) -> None:
    """Make a connection ready; what the driver would say first is said by us, see `send`."""
    connection._parser.on_connect(connection)


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
    await send(connection, commands)
    answers: list[Any] = []
    for _ in commands:
        try:
            answers.append(await connection.read_response(disable_decoding=True))
        except ResponseError as error:
            answers.append(error)
    return answers


async def send(connection: Connection, commands: Sequence[Command]) -> None:
    """Send commands together.

    They are written here, and not by the driver: on Python 3.11 that loses a cancellation that comes at the wrong time
    (asyncio.wait_for).
    """
    writer = connection._writer
    if writer is None:
        raise ConnectionError("the connection was closed")
    async with asyncio.timeout(ANSWER_S):
        writer.writelines(connection.pack_commands(commands))
        await writer.drain()


def checked(answers: list[Any]) -> list[Any]:
    """Return answers, or raise the first of them that is an error."""
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers
