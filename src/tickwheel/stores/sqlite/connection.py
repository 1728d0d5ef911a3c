"""A database file, opened twice: a connection to write, and one to read.

connect      SQLite opens the file, checks that it is ours, and brings the schema up to date
enter        its locks are held a second time, and other code in this process may not open it any more
turn         ... BEGIN IMMEDIATE ... check_locks, COMMIT, check_in_place: each transaction
leave        the last store of this process brings the log back into the file
"""

import asyncio
import errno
import os
import stat
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import apsw

from tickwheel.errors import StoreUnavailable
from tickwheel.stores.sqlite.errors import BUSY_MS, translate_error
from tickwheel.stores.sqlite.forks import close_in_children, run_in_use
from tickwheel.stores.sqlite.node_locks import is_in_use
from tickwheel.stores.sqlite.open_files import OPENING, OpenFile, check_name, enter, leave
from tickwheel.stores.sqlite.schema import Schema

__all__ = ["Database", "connect", "is_text", "open_database"]

LOG_PAGES: Final = 4_096  # 16 MiB of log before it is brought into the file: a batch changes some hundreds
CACHE_KIB: Final = 16 * 1024  # of pages, for each of the two connections
RETRY_MS: Final = 10  # between two attempts to begin the log of a file that other processes have open


class Database:
    """An open file with its two connections; open it with `open`, and close it on any thread."""

    def __init__(self, path: Path, writer: apsw.Connection, reader: apsw.Connection, file: OpenFile) -> None:
        self.path = path
        self.writer = writer
        self.reader = reader
        self.locks = file.locks
        self._file = file
        self._closed = False
        self._place = os.path.abspath(path)  # noqa: PTH100 - where it is, whatever folder the program goes to

    @classmethod
    def open(
        cls, path: Path, schema: Schema, prepare: Callable[[apsw.Connection], None], *, create: bool = True
    ) -> "Database":
        """Open a file, or create it if that is wanted; what is not ours is left as it is."""
        with OPENING.lock:
            writer = reader = None
            check_links(path)
            check_name(path)
            try:
                writer = connect(path, schema, prepare, create=create)
                reader = connect_reader(path)
                return cls(path, writer, reader, enter(path))
            except BaseException as error:
                for connection in (reader, writer):
                    if connection is not None:
                        connection.close(force=True)
                if isinstance(error, apsw.Error):
                    raise translate_error(path, error) from error
                if isinstance(error, OSError):
                    raise StoreUnavailable(f"{path}: it cannot be locked ({error}); try again") from error
                raise

    def close(self) -> None:
        """Let go of the file."""
        with OPENING.lock:
            if self._closed:
                return
            self._closed = True
            if self._file.stores == 1:
                self.locks.release()  # or SQLite could not be alone with the file, and bring the log back into it
            try:
                self.reader.close()
                self.writer.close()
            finally:
                leave(self._file)

    def check_in_place(self) -> None:
        """Raise if the file was deleted or replaced: what is in it is not to be acknowledged."""
        self._file.check_in_place(self._place)

    def check_locks(self, drops: int) -> None:
        """Raise if a transaction has lost its lock to write, given how many drops there were before it."""
        if not self.locks.may_commit(drops):
            raise StoreUnavailable(
                f"{self.path}: other code in this process closed the file, which dropped SQLite's locks during a "
                "transaction; nothing of it was kept, try again"
            )


async def open_database(
    path: Path, schema: Schema, prepare: Callable[[apsw.Connection], None], *, create: bool = True
) -> Database:
    """Open a file on a thread; who stops waiting for it leaves nothing open."""
    open_file = partial(Database.open, create=create)
    opening = asyncio.ensure_future(asyncio.to_thread(run_in_use, open_file, path, schema, prepare))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(close_unwanted)
        raise


def close_unwanted(opening: "asyncio.Future[Database]") -> None:
    """Close a file that nobody waits for any more."""
    if not opening.cancelled() and opening.exception() is None:
        opening.get_loop().run_in_executor(None, run_in_use, opening.result().close)


def connect(
    path: Path, schema: Schema, prepare: Callable[[apsw.Connection], None], *, create: bool = True
) -> apsw.Connection:
    """Open the file for writing, with the present schema."""
    if not path.parent.is_dir():
        raise StoreUnavailable(f"{path}: there is no folder {path.parent}; make it first")
    flags = apsw.SQLITE_OPEN_READWRITE
    if is_missing(path):
        check_creation(path, create=create)
        flags |= apsw.SQLITE_OPEN_CREATE  # only here: a file that is moved away just now is not made again
    check_writable(path)
    has_log = Path(f"{path}-wal").exists()
    connection = close_in_children(apsw.Connection(str(path), flags=flags))
    try:
        connection.set_busy_timeout(BUSY_MS)
        # The log of a file that turns out to be another program's is that program's business.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(has_log))
        schema.check(connection, path)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        _begin_log(connection, path)
        _tune(connection)
        schema.migrate(connection, path, prepare)
    except BaseException:
        connection.close(force=True)
        raise
    return connection


def check_links(path: Path) -> None:
    """Raise if symbolic links lead in a circle."""
    try:
        path.resolve().stat()
    except FileNotFoundError:
        pass
    except (OSError, RuntimeError) as error:
        if isinstance(error, RuntimeError) or error.errno == errno.ELOOP:
            raise StoreUnavailable(f"{path}: its symbolic links lead in a circle; give the file itself") from error


def is_missing(path: Path) -> bool:
    """Tell whether there is no database; SQLite takes an empty file for a new one, and deletes the log beside it."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False  # SQLite says what is wrong with it
    return stat.S_ISREG(found.st_mode) and found.st_size == 0


def check_creation(path: Path, *, create: bool) -> None:
    """Raise if a file that is missing must not be created: its log may have tasks that are nowhere else."""
    if is_in_use(path) and is_missing(path):  # in this order: that process may have created it just now
        raise StoreUnavailable(
            f"{path}: the file is missing, but a running process has it open: it was moved or deleted; no new file was "
            "created, for that would destroy what the process has not yet written to the old one. Move the file back, "
            "or stop the process first"
        )
    if not create and not path.exists():
        raise StoreUnavailable(
            f"no such file: {path}; check the path, or create it with `tickwheel add`, `worker` or `serve`"
        )


def check_writable(path: Path) -> None:
    """Raise if a file may only be read, before SQLite opens it: it would make a log beside it with the same rights.

    Such a log keeps the file from being written even when the file itself may be again.
    """
    real = path.resolve()  # as SQLite names the log
    if is_read_only(real):
        raise StoreUnavailable(f"{path}: it is read-only; let this user write it, and its folder")
    for beside in (f"{real}-wal", f"{real}-shm"):
        if is_read_only(beside):
            raise StoreUnavailable(
                f"{beside}: it is read-only, and without it {path} cannot be written; let this user write it, and do "
                "not delete it: it may have tasks that are nowhere else"
            )


def is_read_only(path: Path | str) -> bool:
    """Tell whether a file is there and may not be written; nothing is opened, for that could drop SQLite's locks."""
    may = partial(os.access, path, effective_ids=os.access in os.supports_effective_ids)
    return may(os.F_OK) and not may(os.W_OK)


def connect_reader(path: Path) -> apsw.Connection:
    """Open the file once more, for reading."""
    connection = close_in_children(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE))
    connection.set_busy_timeout(BUSY_MS)
    _tune(connection)
    connection.pragma("query_only", 1)
    connection.create_scalar_function("is_text", lambda *given: is_text(given[0]), 1, deterministic=True)
    return connection


def is_text(written: Any) -> bool:
    """Tell whether bytes can be read as text: SQLite keeps any as text."""
    try:
        written.decode()
    except UnicodeDecodeError:
        return False
    return True


def _begin_log(connection: apsw.Connection, path: Path) -> None:
    """Have SQLite keep a write-ahead log; it needs the file alone for that, and does not wait for others by itself."""
    for _ in range(BUSY_MS // RETRY_MS):
        try:
            mode = connection.pragma("journal_mode", "wal")
        except apsw.BusyError:
            time.sleep(RETRY_MS / 1000)
            continue
        if mode != "wal":
            raise StoreUnavailable(f"{path}: SQLite cannot keep a write-ahead log there; use a local disk")
        return
    raise apsw.BusyError("database is locked")


def _tune(connection: apsw.Connection) -> None:
    connection.pragma("synchronous", "full")  # a commit is on the disk when it returns
    connection.pragma("foreign_keys", 0)
    connection.pragma("cache_size", -CACHE_KIB)
    connection.pragma("wal_autocheckpoint", LOG_PAGES)
