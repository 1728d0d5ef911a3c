"""Tasks in an SQLite file: durable on one machine, for any number of its processes."""

from tickwheel.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
