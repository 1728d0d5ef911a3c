"""Opening the file: it has to be ours, or empty."""

from pathlib import Path
from typing import Final

import apsw

from tickwheel.errors import SchemaTooNew, StoreUnavailable
from tickwheel.stores.scripts import read_scripts
from tickwheel.stores.sqlite.forks import close_in_children
from tickwheel.stores.sqlite.opening import BUSY_MS, unavailable

__all__ = ["SQL", "connect"]

SQL, MIGRATIONS = read_scripts("tickwheel.workflow.instances.sqlite")

OURS: Final = 0x7469636B  # "tick": files with tasks have none, and are not for instances


def connect(path: Path) -> apsw.Connection:
    """Open the file, with the present schema."""
    if not path.parent.is_dir():
        raise StoreUnavailable(f"{path}: there is no folder {path.parent}; make it first")
    connection = None
    try:
        connection = close_in_children(apsw.Connection(str(path)))
        connection.set_busy_timeout(BUSY_MS)
        connection.execute("BEGIN IMMEDIATE")
        _check(connection, path)
        _migrate(connection)
        connection.execute("COMMIT")
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "full")  # a commit is on the disk when it returns
    except BaseException as error:
        if connection is not None:
            connection.close(force=True)
        if isinstance(error, apsw.Error):
            raise unavailable(path, error) from error
        raise
    return connection


def _check(connection: apsw.Connection, path: Path) -> None:
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if tables and connection.pragma("application_id") != OURS:
        raise StoreUnavailable(
            f"{path}: it is no file of process instances; they have one of their own: choose another"
        )


def _migrate(connection: apsw.Connection) -> None:
    found: int = connection.pragma("user_version")
    if found > len(MIGRATIONS):
        raise SchemaTooNew(found, len(MIGRATIONS))
    for script in MIGRATIONS[found:]:
        connection.execute(script)
    connection.pragma("user_version", len(MIGRATIONS))
    connection.pragma("application_id", OURS)
