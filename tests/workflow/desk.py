"""A small workflow engine of the kind that companies write themselves: a table of what is on people's desks."""

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tickwheel.workflow import WorkItem

__all__ = ["Desk"]

TABLES = """
CREATE TABLE IF NOT EXISTS items (id TEXT PRIMARY KEY, node TEXT, state TEXT, assignee TEXT, ended_by TEXT, reason TEXT,
    variables TEXT);
CREATE TABLE IF NOT EXISTS told (key TEXT PRIMARY KEY, item TEXT, kind TEXT, target TEXT, reason TEXT);
CREATE TABLE IF NOT EXISTS instances (id TEXT PRIMARY KEY, process TEXT, variables TEXT, finished_at INTEGER);
"""


class Desk:
    """Keeps the contract in an SQLite file: what is done, and the key it was done under, in one transaction."""

    def __init__(self, path: Path) -> None:
        self._file = sqlite3.connect(path, timeout=10)
        self._file.executescript("PRAGMA synchronous = OFF;" + TABLES)
        self.failures = 0  # how often it is to fail before it answers

    def put(self, item_id: str, node: str, assignee: str | None = None) -> None:
        with self._file:
            self._file.execute(
                "INSERT INTO items (id, node, state, assignee) VALUES (?, ?, 'pending', ?)", (item_id, node, assignee)
            )

    def told(self) -> list[tuple[str, str, str | None, str]]:
        return self._file.execute("SELECT item, kind, target, reason FROM told ORDER BY rowid").fetchall()

    def instances(self) -> dict[str, tuple[str, dict[str, Any]]]:
        rows = self._file.execute("SELECT id, process, variables FROM instances").fetchall()
        return {instance: (process, json.loads(variables)) for instance, process, variables in rows}

    def finish(self, instance: str, moment: int) -> None:
        with self._file:
            self._file.execute("UPDATE instances SET finished_at = ? WHERE id = ?", (moment, instance))

    # -- the contract

    async def find(self, item_id: str) -> WorkItem | None:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the desk is not there")
        row = self._file.execute(
            "SELECT id, node, state, assignee, ended_by, reason FROM items WHERE id = ?", (item_id,)
        ).fetchone()
        names = ("id", "node", "state", "assignee", "ended_by", "reason")
        return None if row is None else WorkItem(**dict(zip(names, row, strict=True)))

    async def complete(
        self, item_id: str, *, by: str, reason: str | None = None, variables: Mapping[str, Any] | None = None
    ) -> bool:
        with self._file:
            changed = self._file.execute(
                "UPDATE items SET state = 'completed', ended_by = ?, reason = ?, variables = ? "
                "WHERE id = ? AND state = 'pending'",
                (by, reason, json.dumps(dict(variables or {})), item_id),
            )
        return changed.rowcount == 1

    async def escalate(self, item_id: str, target: str, *, reason: str, key: str) -> bool:
        with self._file:
            if not self._tell(key, item_id, "escalate", target, reason):
                return False
            self._file.execute("UPDATE items SET assignee = ? WHERE id = ?", (target, item_id))
        return True

    async def notify(self, item_id: str, target: str | None, *, reason: str, key: str) -> bool:
        with self._file:
            return self._tell(key, item_id, "notify", target, reason)

    async def start(self, process: str, variables: Mapping[str, Any] | None = None, *, id: str) -> str:  # noqa: A002
        with self._file:
            self._file.execute(
                "INSERT INTO instances VALUES (?, ?, ?, NULL) ON CONFLICT DO NOTHING",
                (id, process, json.dumps(dict(variables or {}))),
            )
        return id

    async def purge(self, before: int, limit: int) -> int:
        with self._file:
            return self._file.execute(
                "DELETE FROM instances WHERE id IN (SELECT id FROM instances WHERE finished_at < ? LIMIT ?)",
                (before, limit),
            ).rowcount

    def _tell(self, key: str, item: str, kind: str, target: str | None, reason: str) -> bool:
        told = self._file.execute(
            "INSERT INTO told SELECT ?, id, ?, coalesce(?, assignee), ? FROM items WHERE id = ? AND state = 'pending' "
            "ON CONFLICT DO NOTHING",
            (key, kind, target, reason, item),
        )
        return told.rowcount == 1
