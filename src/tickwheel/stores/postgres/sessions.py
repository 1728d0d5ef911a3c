"""The connections to the server: a few of them, and a bound on everything that is asked over them.

Nothing that changes between two calls is kept in a session, so that none has to be reset. The planner is told to go by
ids and by order, whatever it believes about a table that it has not analysed yet.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeAlias, TypeVar

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from tickwheel.errors import StoreClosed, StoreError
from tickwheel.stores.postgres.address import Address
from tickwheel.stores.postgres.failures import AGAIN, told
from tickwheel.stores.postgres.statements import SQL

__all__ = ["Connection", "Record", "Sessions", "connect"]

T = TypeVar("T")
Record: TypeAlias = "asyncpg.Record"
Connection: TypeAlias = "asyncpg.Connection[Record] | PoolConnectionProxy[Record]"

SESSIONS_MAX: Final = 5  # one each to add, claim, finish, hold leases, and read
CONNECT_S: Final = 10.0
ANSWER_S: Final = 30.0  # for a statement; the largest batch takes a fraction of a second
GOODBYE_S: Final = 1.0  # at the end, when everything was answered: no more than the server's part of it is missing
TRIES: Final = 5  # of what others were in the way of

SETTINGS: Final = {
    "application_name": "tickwheel",
    "timezone": "UTC",
    "client_min_messages": "warning",
    "jit": "off",  # takes longer than our statements do
    # One plan for each statement, by index and in loops: estimates of an unanalysed table change nothing.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    # What a suspended process has locked is free again after this; the second is for large answers that it does not
    # take, and does nothing on a socket of the same machine.
    "idle_in_transaction_session_timeout": "5s",
    "tcp_user_timeout": "10s",
}


class Unreset(asyncpg.Connection):
    """A connection that goes back to the pool as it is."""

    def get_reset_query(self) -> str:
        """Ask for nothing: it saves a round trip with every call."""
        return ""


def options_of(address: Address, **settings: str) -> dict[str, Any]:
    """Return what every connection is made with."""
    return {
        "dsn": address.url,
        "timeout": CONNECT_S,
        "command_timeout": ANSWER_S,
        "max_cached_statement_lifetime": 0,
        "server_settings": {**SETTINGS, "search_path": f"{address.schema}, pg_temp", **settings},
    }


async def connect(address: Address, **settings: str) -> "asyncpg.Connection[Record]":
    """Make a connection by itself."""
    with told(address):
        connection: asyncpg.Connection[Record] = await asyncpg.connect(**options_of(address, **settings))
        return connection


class Sessions:
    """Some connections, made when they are needed."""

    def __init__(self, address: Address, pool: "asyncpg.Pool[Record]") -> None:
        self.address = address
        self._pool = pool
        self._closed = False
        self._doing = 0  # calls
        self._quiet = asyncio.Event()  # while there are none
        self._quiet.set()

    @classmethod
    async def open(cls, address: Address) -> "Sessions":
        """Get ready; connections are made when they are needed, and none is kept up while the server is away."""
        with told(address):
            pool = await asyncpg.create_pool(
                **options_of(address), min_size=0, max_size=SESSIONS_MAX, connection_class=Unreset
            )
        return cls(address, pool)

    async def close(self) -> None:
        """Let go of the server; what is being done is done first, and nobody waits for a server that is silent."""
        if self._closed:
            return
        self._closed = True
        try:
            await self._quiet.wait()
            with suppress(StoreError), told(self.address):
                async with asyncio.timeout(GOODBYE_S):
                    await self._pool.close()
        finally:
            self._pool.terminate()

    def check(self) -> None:
        """Refuse to go on after the end."""
        if self._closed:
            raise StoreClosed

    async def fetch(self, name: str, *values: Any) -> list[Record]:
        """Do one statement, which is a transaction by itself."""

        async def work(connection: Connection) -> list[Record]:
            return await connection.fetch(SQL[name], *values)

        return await self.do(work)

    async def transact(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do several statements in a transaction; they may be done more than once, if others are in the way."""

        async def transaction(connection: Connection) -> T:
            async with connection.transaction():
                return await work(connection)

        return await self.do(transaction)

    async def do(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do something with a connection, and again if others were in the way: each statement is by itself."""
        self.check()
        self._doing += 1
        self._quiet.clear()
        try:
            with told(self.address):
                return await self._do(work)
        finally:
            self._doing -= 1
            if not self._doing:
                self._quiet.set()

    async def _do(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        for _ in range(TRIES - 1):
            async with self._pool.acquire(timeout=ANSWER_S) as connection:
                try:
                    return await work(connection)
                except AGAIN:
                    continue
        async with self._pool.acquire(timeout=ANSWER_S) as connection:
            return await work(connection)
