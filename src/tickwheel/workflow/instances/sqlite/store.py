"""The store itself: one thread and one connection, on which instances go on one after the other.

All calls that wait share a transaction, each within a savepoint of its own, so that many instances that are due at once
cost few commits. SQLite lets one process write at a time, and so an instance has one writer.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import apsw

from tickwheel.stores.sqlite.lane import Call, Lane
from tickwheel.stores.sqlite.opening import unavailable
from tickwheel.workflow.instances.contract import Change, Loaded, Notice
from tickwheel.workflow.instances.rows import instance_of, item_of, notice_of, row_of
from tickwheel.workflow.instances.sqlite.opening import SQL, connect
from tickwheel.workflow.instances.tables import Tables

__all__ = ["SqliteInstances"]

T = TypeVar("T")
R = TypeVar("R")
Row = Sequence[Any]


class SqliteInstances(Tables):
    """Instances in a file, for one event loop; open it with `open`."""

    def __init__(self, path: Path, connection: apsw.Connection) -> None:
        self._path = path
        self._connection = connection
        self._lane: Lane[None] = Lane("tickwheel-instances", self._do)

    @classmethod
    async def open(cls, path: Path) -> "SqliteInstances":
        """Open a file, and make it if need be."""
        return cls(path, await asyncio.to_thread(connect, path))

    async def close(self) -> None:
        """Do what waits, and let go of the file."""
        await self._lane.close()
        await asyncio.to_thread(self._connection.close)

    async def change(self, instance_id: str, work: Callable[[Loaded | None], Change[T]]) -> T:
        """Change an instance in one transaction."""

        def transaction(_: None) -> T:
            found = [instance_of(row) for row in self._run("get", [instance_id])]
            items = [item_of(row) for row in self._run("pending", [instance_id])] if found else []
            change = work(Loaded(found[0], items) if found else None)
            if change.instance is not None:
                self._run("save", row_of(change.instance))
            for item in change.items:
                self._run("save_item", row_of(item))
            return change.answer

        return await self._lane.call(transaction)

    async def tell(self, notice: Notice) -> Notice | None:
        """Note that somebody was told, and who has the item now."""

        def transaction(_: None) -> Notice | None:
            told = [notice_of(row) for row in self._run("tell", row_of(notice))]
            if told and notice.kind == "escalate":
                self._run("assign", [notice.item, notice.target])
            return told[0] if told else None

        return await self._lane.call(transaction)

    async def purge(self, before: int, limit: int) -> int:
        """Delete what was over before a moment."""

        def transaction(_: None) -> int:
            old = self._run("finished", [before, limit])
            for row in old:
                for name in ("forget_notices", "forget_items", "forget"):
                    self._run(name, row)
            return len(old)

        return await self._lane.call(transaction)

    async def _all(self, name: str, values: Sequence[Any], read: Callable[[Row], R]) -> list[R]:
        def answer(_: None) -> list[R]:
            return [read(row) for row in self._run(name, values)]

        return await self._lane.call(answer)

    # -- on the lane's thread

    def _run(self, name: str, values: Sequence[Any]) -> list[Row]:
        return list(self._connection.execute(SQL[name], tuple(values)))

    def _do(self, group: list[Call]) -> None:
        """Do calls in one transaction: each is kept or refused by itself, but none is answered before the commit."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for call in group:
                if not call.future.cancelled():
                    self._do_one(call)
            self._connection.execute("COMMIT")
        except apsw.Error as error:
            if self._connection.in_transaction:
                with suppress(apsw.Error):
                    self._connection.execute("ROLLBACK")
            for call in group:
                call.error = unavailable(self._path, error)

    def _do_one(self, call: Call) -> None:
        self._connection.execute("SAVEPOINT call")
        try:
            call.answer = call.work(None)
        except apsw.Error:  # the file's fault, and everybody's problem
            raise
        except Exception as error:  # noqa: BLE001 - its caller gets it, the others get their answers
            call.error = error
            self._connection.execute("ROLLBACK TO call")
        self._connection.execute("RELEASE call")
