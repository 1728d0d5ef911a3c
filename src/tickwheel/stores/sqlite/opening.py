"""Opening the file: what it has to be, what it is made into, and what is said when it cannot be."""

from pathlib import Path
from typing import Final

import apsw

from tickwheel.errors import SchemaTooNew, StoreUnavailable
from tickwheel.stores.sqlite.forks import close_in_children
from tickwheel.stores.sqlite.statements import MIGRATIONS

__all__ = ["connect", "connect_reader", "unavailable"]

BUSY_MS: Final = 5000  # how long to wait for another process's transaction
LOG_PAGES: Final = 4_096  # 16 MiB of log before it is brought into the file: a batch changes some hundreds
CACHE_KIB: Final = 16 * 1024  # of pages, for each of the two connections

WORDS: Final[list[tuple[type[apsw.Error], str]]] = [
    (apsw.FullError, "the disk is full"),
    (apsw.ReadOnlyError, "it is read-only"),
    (apsw.BusyError, f"another process held it for more than {BUSY_MS // 1000} seconds"),
    (apsw.NotADBError, "it is not an SQLite database"),
    (apsw.CorruptError, "it is damaged; restore it from a backup"),
    (apsw.CantOpenError, "it cannot be opened; see whether its folder is there, and may be written"),
]


def unavailable(path: Path, error: apsw.Error) -> StoreUnavailable:
    """Say in words why the file cannot be used."""
    why = next((words for kind, words in WORDS if isinstance(error, kind)), "it could not be read or written")
    return StoreUnavailable(f"{path}: {why} (SQLite says: {error})")


def connect(path: Path, partitions: int) -> tuple[apsw.Connection, int]:
    """Open the file for writing, with the present schema; return how many partitions it has, too."""
    if not path.parent.is_dir():
        raise StoreUnavailable(f"{path}: there is no folder {path.parent}; make it first")
    connection = None
    try:
        connection = close_in_children(apsw.Connection(str(path)))
        connection.set_busy_timeout(BUSY_MS)
        _check(connection, path)
        connection.pragma("journal_mode", "wal")
        _tune(connection)
        return connection, _migrate(connection, path, partitions)
    except BaseException as error:
        if connection is not None:
            connection.close(force=True)
        if isinstance(error, apsw.Error):
            raise unavailable(path, error) from error
        raise


def connect_reader(path: Path) -> apsw.Connection:
    """Open the file once more, for reading."""
    try:
        connection = close_in_children(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE))
        connection.set_busy_timeout(BUSY_MS)
        _tune(connection)
        connection.pragma("query_only", 1)
    except apsw.Error as error:
        raise unavailable(path, error) from error
    return connection


def _tune(connection: apsw.Connection) -> None:
    connection.pragma("synchronous", "full")  # a commit is on the disk when it returns
    connection.pragma("foreign_keys", 0)
    connection.pragma("cache_size", -CACHE_KIB)
    connection.pragma("wal_autocheckpoint", LOG_PAGES)


def _version(connection: apsw.Connection) -> int:
    found: int = connection.pragma("user_version")
    if found > len(MIGRATIONS):
        raise SchemaTooNew(found, len(MIGRATIONS))
    return found


def _check(connection: apsw.Connection, path: Path) -> None:
    """Refuse a file that is not ours to write, before anything in it is touched."""
    connection.execute("BEGIN")  # another process may be making the tables between one question and the next
    found = _version(connection)
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    connection.execute("COMMIT")
    if connection.readonly("main"):
        raise StoreUnavailable(f"{path}: it is read-only; let this user write it, and its folder")
    if found == 0 and tables:
        raise StoreUnavailable(f"{path}: it is a database of something else; choose another file")


def _migrate(connection: apsw.Connection, path: Path, partitions: int) -> int:
    """Bring the schema up to date, in one transaction that only one process makes."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = _version(connection)  # once more: another process may have been here meanwhile
        for script in MIGRATIONS[found:]:
            connection.execute(script)
        if found == 0:
            connection.executemany("INSERT INTO partitions (part) VALUES (?)", ((n,) for n in range(partitions)))
        if found < len(MIGRATIONS):
            connection.pragma("user_version", len(MIGRATIONS))
        stored: int = connection.execute("SELECT count(*) FROM partitions").get
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    if stored < 1:
        raise StoreUnavailable(f"{path}: it has no partitions; it is damaged")
    return stored
