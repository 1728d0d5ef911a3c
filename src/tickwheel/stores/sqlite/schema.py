"""What a file has to be, and what it is made into: the check before anything is written, and the migrations.

application_id    user_version    tables
0                 0               none                  a new file: it gets the schema
0                 1, 2            of that version       a file from before there was an id: it gets one
of the schema     1, 2, ...       of that version       ours: brought up to date
of the schema     newer           any                   SchemaTooNew: nothing is written
anything else                                           of another program: nothing is written
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import apsw

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

    def migrate(self, connection: apsw.Connection, prepare: Callable[[apsw.Connection], None]) -> None:
        """Bring the schema up to date, and prepare a new file, in one transaction that only one process makes."""
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


TASKS: Final = Schema("tasks", 0x7477686C, MIGRATIONS)  # "twhl"
