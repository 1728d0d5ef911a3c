"""What a file has to be, and what it is made into: the check before anything is written, and the migrations.

application_id    user_version    tables
0                 0               none                  a new file: it gets the schema
0                 1, 2            of that version       a file from before there was an id: it gets one
of the schema     1, 2, ...       of that version       ours: brought up to date
of the schema     newer           any                   SchemaTooNew: nothing is written
anything else                                           of another program: nothing is written
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import apsw

from tickwheel.clock import SystemClock
from tickwheel.errors import SchemaTooNew, StoreUnavailable, shown
from tickwheel.stores.sqlite.statements import MIGRATIONS

__all__ = ["TASKS", "Schema"]

# SQLite's own begin with sqlite_, and may be there or not.
TABLES: Final = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND substr(name, 1, 7) <> 'sqlite_'"
NAMES_MAX: Final = 3  # tables named in a message


@dataclass(frozen=True)
class Schema:
    """The tables of one kind of file, and the number in its header that tells it from others."""

    contents: str  # as a message says it: "tasks"
    application_id: int
    migrations: Sequence[str]
    before_migrating: Callable[[apsw.Connection, Path, int], None] = lambda *_: None  # is given the version of the file

    def check(self, connection: apsw.Connection, path: Path) -> None:
        """Reject a file of another program, or of a newer version; nothing is written."""
        connection.execute("BEGIN")  # another process may be making the tables between one question and the next
        try:
            application_id: int = connection.pragma("application_id")
            found: int = connection.pragma("user_version")
            tables = {name for (name,) in connection.execute(TABLES)}
        finally:
            if connection.in_transaction:
                connection.execute("COMMIT")
        if connection.readonly("main"):
            raise StoreUnavailable(f"{path}: it is read-only; let this user write it, and its folder")
        if application_id not in (0, self.application_id):
            raise self._foreign(path, f"its application_id is {application_id:#x}")
        if found > len(self.migrations) and application_id:
            raise SchemaTooNew(found, len(self.migrations))
        known = 0 <= found <= len(self.migrations)
        expected = make_tables(tuple(self.migrations[:found])) if known else frozenset()
        if tables - expected:
            raise self._foreign(path, f"it has {describe_tables(tables - expected)}")
        if expected - tables:
            raise self._foreign(path, f"it lacks {describe_tables(expected - tables)}")

    def migrate(self, connection: apsw.Connection, path: Path, prepare: Callable[[apsw.Connection], None]) -> None:
        """Bring the schema up to date, and prepare a new file, in one transaction that only one process makes."""
        if 0 < (found := self._version(connection)) < len(self.migrations):
            self.before_migrating(connection, path, found)
        connection.execute("BEGIN IMMEDIATE")
        try:
            found = self._version(connection)  # once more: another process may have been here meanwhile
            for script in self.migrations[found:]:
                connection.execute(script)
            if found == 0:
                prepare(connection)
            if found < len(self.migrations):
                connection.pragma("user_version", len(self.migrations))
            if connection.pragma("application_id") != self.application_id:
                connection.pragma("application_id", self.application_id)
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def _version(self, connection: apsw.Connection) -> int:
        found: int = connection.pragma("user_version")
        if found > len(self.migrations):
            raise SchemaTooNew(found, len(self.migrations))
        return found

    def _foreign(self, path: Path, why: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"{path}: it is a database of something else, not of {self.contents}: {why}; nothing was changed, "
            "choose another file"
        )


@cache
def make_tables(migrations: tuple[str, ...]) -> frozenset[str]:
    """Run migrations in memory, and return the names of the tables they make."""
    connection = apsw.Connection(":memory:")
    for script in migrations:
        connection.execute(script)
    tables = frozenset(name for (name,) in connection.execute(TABLES))
    connection.close()
    return tables


def describe_tables(names: Iterable[str]) -> str:
    """Name some tables."""
    first, more = sorted(names)[:NAMES_MAX], len(list(names)) - NAMES_MAX
    listed = ", ".join(map(shown, first)) + (f" and {more} more" if more > 0 else "")
    return f"the table{'' if len(first) == 1 else 's'} {listed}"


def wait_for_older_nodes(connection: apsw.Connection, path: Path, version: int) -> None:
    """Raise if a node of a version before node locks still renews its leases; wait for it if it is about to stop.

    The clock does not say: a process whose clock was an hour ahead may have died, with leases that end in an hour.
    """
    if version >= NODE_LOCKS_VERSION:
        return
    before = list(connection.execute(OLD_LEASES))
    until = SystemClock.monotonic() + OLDER_NODES_S
    while before and SystemClock.monotonic() < until:
        time.sleep(OLDER_NODES_LOOK_S)
        if connection.pragma("user_version") >= NODE_LOCKS_VERSION:
            return  # another process has migrated it
        now = list(connection.execute(OLD_LEASES))
        if set(now) - set(before):
            raise StoreUnavailable(
                f"{path}: a process with an older version of tickwheel runs tasks from this file, and cannot share it "
                "with this version; stop it first"
            )
        before = now


NODE_LOCKS_VERSION: Final = 3  # from which on leases do not expire by time
OLDER_NODES_S: Final = 3.0  # in which a node of an older version renews its leases several times
OLDER_NODES_LOOK_S: Final = 0.1
OLD_LEASES: Final = "SELECT part, nonce, expires_at FROM partitions WHERE expires_at > 0"

TASKS: Final = Schema("tasks", 0x7477686C, MIGRATIONS, wait_for_older_nodes)  # "twhl"
