"""The store itself: a thread and a connection, on which instances go on one after the other, and two more to read.

All calls that wait share a transaction, each within a savepoint of its own, so that many instances that are due at once
cost few commits. SQLite lets one process write at a time, and so an instance has one writer. Reading waits for no one.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import apsw

from tickwheel.stores.sqlite.connection import Database, open_database
from tickwheel.stores.sqlite.connection_thread import ConnectionThread
from tickwheel.stores.sqlite.forks import run_in_use
from tickwheel.stores.sqlite.group_commit import GroupCommit, Reader
from tickwheel.workflow.instances.contract import Change, Loaded, Notice
from tickwheel.workflow.instances.rows import instance_of, item_of, notice_of, row_of
from tickwheel.workflow.instances.sqlite.schema import INSTANCES, SQL
from tickwheel.workflow.instances.tables import Tables

__all__ = ["SqliteInstances"]

T = TypeVar("T")
R = TypeVar("R")
Row = Sequence[Any]


class SqliteInstances(Tables):
    """Instances in a file, for one event loop; open it with `open`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        writer, reader = GroupCommit(database), Reader(database)
        self._writes: ConnectionThread[apsw.Connection] = ConnectionThread("tickwheel-instances", writer.do)
        self._reads: ConnectionThread[apsw.Connection] = ConnectionThread("tickwheel-instances-reader", reader.do)

    @classmethod
    async def open(cls, path: Path) -> "SqliteInstances":
        """Open a file, and make it if need be."""
        return cls(await open_database(path, INSTANCES, lambda _: None))

    async def close(self) -> None:
        """Do what waits, and let go of the file."""
        await self._reads.close()
        await self._writes.close()
        await asyncio.to_thread(run_in_use, self._database.close)

    async def change(self, instance_id: str, work: Callable[[Loaded | None], Change[T]]) -> T:
        """Change an instance in one transaction."""

        def transaction(writer: apsw.Connection) -> T:
            found = [instance_of(row) for row in run(writer, "get", [instance_id])]
            items = [item_of(row) for row in run(writer, "pending", [instance_id])] if found else []
            change = work(Loaded(found[0], items) if found else None)
            if change.instance is not None:
                run(writer, "save", row_of(change.instance))
            for item in change.items:
                run(writer, "save_item", row_of(item))
            return change.answer

        return await self._writes.call(transaction)

    async def tell(self, notice: Notice) -> Notice | None:
        """Note that somebody was told, and who has the item now."""

        def transaction(writer: apsw.Connection) -> Notice | None:
            told = [notice_of(row) for row in run(writer, "tell", row_of(notice))]
            if told and notice.kind == "escalate":
                run(writer, "assign", [notice.item, notice.target])
            return told[0] if told else None

        return await self._writes.call(transaction)

    async def purge(self, before: int, limit: int) -> int:
        """Delete what was over before a moment."""

        def transaction(writer: apsw.Connection) -> int:
            old = run(writer, "finished", [before, limit])
            for row in old:
                for name in ("forget_notices", "forget_items", "forget"):
                    run(writer, name, row)
            return len(old)

        return await self._writes.call(transaction)

    async def _all(self, name: str, values: Sequence[Any], read: Callable[[Row], R]) -> list[R]:
        def answer(reader: apsw.Connection) -> list[R]:
            return [read(row) for row in run(reader, name, values)]

        return await self._reads.call(answer)

    async def _say(self, name: str, *values: Any) -> None:
        await self._writes.call(lambda writer: run(writer, name, values))


def run(connection: apsw.Connection, name: str, values: Sequence[Any]) -> list[Row]:
    """Do a statement, and return its rows."""
    return list(connection.execute(SQL[name], tuple(values)))
