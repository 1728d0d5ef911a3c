"""The store itself: an instance has a lock of its own, and whoever has it is its only writer, in any process.

The work in the middle of a change is done on a thread, while the transaction is open: the server ends one that does
nothing for five seconds, so that a script that takes longer is an error and holds up nobody for ever.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tickwheel.stores.postgres.address import Address
from tickwheel.stores.postgres.sessions import Connection, Sessions
from tickwheel.workflow.instances.contract import Change, Loaded, Notice
from tickwheel.workflow.instances.postgres.opening import SQL, prepare
from tickwheel.workflow.instances.rows import instance_of, item_of, notice_of, row_of
from tickwheel.workflow.instances.tables import Tables

__all__ = ["PostgresInstances"]

T = TypeVar("T")
R = TypeVar("R")
Row = Sequence[Any]


class PostgresInstances(Tables):
    """Instances in a database; open it with `open`."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    @classmethod
    async def open(cls, url: str) -> "PostgresInstances":
        """Connect, and make the tables if need be."""
        address = Address.of(url)
        await prepare(address)
        return cls(await Sessions.open(address))

    async def close(self) -> None:
        """Let go of the server."""
        await self._sessions.close()

    async def change(self, instance_id: str, work: Callable[[Loaded | None], Change[T]]) -> T:
        """Change an instance in one transaction."""

        async def transaction(connection: Connection) -> T:
            await connection.execute(SQL["lock"], instance_id)
            row = await connection.fetchrow(SQL["get"], instance_id)
            pending = await connection.fetch(SQL["pending"], instance_id) if row else []
            loaded = Loaded(instance_of(tuple(row)), [item_of(tuple(item)) for item in pending]) if row else None
            change = await asyncio.to_thread(work, loaded)
            if change.instance is not None:
                await connection.execute(SQL["save"], *row_of(change.instance))
            await connection.executemany(SQL["save_item"], [row_of(item) for item in change.items])
            return change.answer

        return await self._sessions.transact(transaction)

    async def tell(self, notice: Notice) -> Notice | None:
        """Note that somebody was told, and who has the item now."""

        async def transaction(connection: Connection) -> Notice | None:
            row = await connection.fetchrow(SQL["tell"], *row_of(notice))
            if row is not None and notice.kind == "escalate":
                await connection.execute(SQL["assign"], notice.item, notice.target)
            return None if row is None else notice_of(tuple(row))

        return await self._sessions.transact(transaction)

    async def purge(self, before: int, limit: int) -> int:
        """Delete what was over before a moment."""

        async def transaction(connection: Connection) -> int:
            old = [tuple(row) for row in await connection.fetch(SQL["finished"], before, limit)]
            for name in ("forget_notices", "forget_items", "forget"):
                await connection.executemany(SQL[name], old)
            return len(old)

        return await self._sessions.transact(transaction)

    async def _say(self, name: str, *values: Any) -> None:
        await self._all(name, values, tuple)

    async def _all(self, name: str, values: Sequence[Any], read: Callable[[Row], R]) -> list[R]:
        async def answer(connection: Connection) -> list[R]:
            return [read(tuple(row)) for row in await connection.fetch(SQL[name], *values)]

        return await self._sessions.do(answer)
