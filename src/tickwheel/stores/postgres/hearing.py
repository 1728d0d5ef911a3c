"""Notifications by LISTEN and NOTIFY, on a connection apart.

A hint is a statement by itself, after the commit: what is notified within a commit makes all commits wait for each
other. Only while a process has no line yet do its changes carry their hints: that costs less than to make one.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import asyncpg

from tickwheel.stores.postgres.address import Address
from tickwheel.stores.postgres.failures import told
from tickwheel.stores.postgres.sessions import Record, connect
from tickwheel.stores.postgres.statements import SQL
from tickwheel.stores.wire import Line

__all__ = ["dialling"]

PROBE_ANSWER_S: Final = 5.0


class PostgresLine:
    """A connection that notifies and listens."""

    def __init__(self, address: Address, connection: "asyncpg.Connection[Record]") -> None:
        self._address = address
        self._connection = connection

    async def listen(self, hear: Callable[[str], None]) -> None:
        """Begin to hear what anyone says."""

        def heard(_connection: object, _pid: int, _channel: str, payload: Any) -> None:
            hear(str(payload))

        with told(self._address):
            await self._connection.add_listener(self._address.channel, heard)

    async def say(self, hint: str) -> None:
        """Let everyone who listens hear something."""
        with told(self._address):
            await self._connection.execute(SQL["notify"], self._address.channel, hint)

    async def probe(self) -> None:
        """See whether it is still there."""
        with told(self._address):
            await self._connection.execute("SELECT", timeout=PROBE_ANSWER_S)

    async def hang_up(self) -> None:
        """End it."""
        self._connection.terminate()


def dialling(address: Address) -> Callable[[Callable[[], None]], Awaitable[Line]]:
    """Return how to connect."""

    async def dial(lost: Callable[[], None]) -> Line:
        connection = await connect(address, synchronous_commit="off")  # a hint need not be on the disk
        connection.add_termination_listener(lambda _: lost())
        return PostgresLine(address, connection)

    return dial
