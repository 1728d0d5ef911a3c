"""Locks on a file that other libraries in this process cannot drop.

SQLite locks with POSIX record locks. They belong to the process, and the kernel drops *all* of them when *any*
descriptor of the file is closed: by another SQLite library (the standard library's `sqlite3`), by `open()`, by C code.
Then another process may delete the write-ahead log, or write at the same time. Open file description (OFD) locks have
neither flaw: they belong to one descriptor, and conflict with POSIX locks, also with those of their own process. So the
locks that must not be lost are held a second time, on descriptors of our own:

    database   shared bytes    as long as it is open   nobody else is the last to close it, and deletes the log
    -shm       byte 128        as long as it is open   nobody else takes the log's index for abandoned, and empties it
    database   TURN_BYTE       during a transaction    no two processes of ours write or checkpoint at once
    database   a name byte     as long as it is open   no two processes have the file open under two names
    -shm       a random byte   a POSIX lock, on purpose: once it is gone, so are SQLite's locks on -shm

SQLite finds the log by the name of the database. Under two names (the file is mounted somewhere else, without its
folder) it would keep two logs for one file, and lose what is in one of them. The name byte is drawn from the inode of
`-shm`: who opens the file under the same name has the same one, and a lock on any other is that of another name.

The last one is a canary. If it is gone after something was read, that is read again. If it is gone before a commit, and
SQLite has no lock to write any more, the transaction is rolled back.
"""

import errno
import logging
import os
import secrets
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tickwheel.errors import StoreUnavailable
from tickwheel.stores.sqlite.errors import BUSY_MS

__all__ = ["FileLocks", "check_other_names", "is_index_locked"]

log = logging.getLogger("tickwheel.stores.sqlite")

# The layout of struct flock, and open file description locks, are those of 64-bit Linux.
if sys.platform == "linux" and sys.maxsize > 2**32:
    import fcntl

    SUPPORTED = True
else:
    SUPPORTED = False

FLOCK: Final = struct.Struct("hhqqi4x")  # type, whence, start, length, process

# From SQLite's os.h and os_unix.c.
PENDING_BYTE: Final = 0x40000000
SHARED_BYTES: Final = (PENDING_BYTE + 2, 510)
WRITE_LOCK: Final = (120, 1)
DEAD_MAN_SWITCH: Final = (128, 1)

TURN_BYTE: Final = (PENDING_BYTE + 512, 1)  # the first one after those that SQLite locks
CANARY_BYTES: Final = 2**40  # far behind any index of a log; one byte for each process, drawn from as many
NAME_BYTES: Final = 2**40  # far behind what SQLite locks; one byte for each name, drawn from as many

DROPPED: Final = (
    "%s: other code in this process closed the file (ATTACH from sqlite3, a C library), which drops SQLite's locks; "
    "nothing is lost, but use another process for that (so far: %d times)"
)

UNSUPPORTED: Final = (errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)

PAUSES_MS: Final = (1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50, 100)  # as SQLite waits; the last one again and again


class FileLocks:
    """The locks of this process on one database, which its connections share."""

    def __init__(self, path: Path) -> None:
        self.drops = 0
        self._path = path
        self._turn = threading.Lock()
        self._checking = threading.Lock()
        self._canary = (CANARY_BYTES + secrets.randbelow(CANARY_BYTES), 1)
        self._database = self._index = -1
        self._held = SUPPORTED and self._hold()
        if not self._held:
            log.warning(
                "%s: no open file description locks here; do not open the file with anything else in this process", path
            )

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Write alone: wait for the transactions of other stores and processes."""
        if not self._turn.acquire(timeout=BUSY_MS / 1000):
            raise self._busy()
        try:
            if self._held:
                self._wait_for_turn()
            yield
        finally:
            if self._held:
                lock(self._database, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, TURN_BYTE)
            self._turn.release()

    def count_drops(self) -> int:
        """Return how many times SQLite's locks were found dropped so far."""
        if not self._dropped():
            return self.drops
        with self._checking:
            if self._dropped():  # still: another thread may have been faster
                self.drops += 1  # before the canary is back: who sees it back sees this, too
                lock(self._index, fcntl.F_SETLK, fcntl.F_RDLCK, self._canary)
                if self.drops & (self.drops - 1) == 0:  # the 1st, 2nd, 4th, ...: it may happen all the time
                    log.warning(DROPPED, self._path, self.drops)
        return self.drops

    def may_commit(self, drops: int) -> bool:
        """Say whether SQLite has the lock under which it writes, given how many drops there were before."""
        return self.count_drops() == drops or ask(self._index, WRITE_LOCK) == (fcntl.F_WRLCK, os.getpid())

    def release(self) -> None:
        """Release what keeps others from being the last to close the file; SQLite's own locks are not touched."""
        if self._held:
            self._held = False
            for descriptor in (self._database, self._index):
                lock(descriptor, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, (0, 0))

    def close(self) -> None:
        """Close the descriptors, and with them drop every POSIX lock of this process on the file."""
        for descriptor in (self._database, self._index):
            if descriptor >= 0:
                os.close(descriptor)
        self._database = self._index = -1
        self._held = False

    def _hold(self) -> bool:
        """Take the locks; False if the file system has none of this kind."""
        self._database = os.open(self._path, os.O_RDWR)
        try:
            self._index = os.open(f"{self._path}-shm", os.O_RDWR)
            lock(self._database, fcntl.F_OFD_SETLK, fcntl.F_RDLCK, SHARED_BYTES)
            lock(self._index, fcntl.F_OFD_SETLK, fcntl.F_RDLCK, DEAD_MAN_SWITCH)
            lock(self._index, fcntl.F_SETLK, fcntl.F_RDLCK, self._canary)
            name_byte = find_name_byte(os.fstat(self._index).st_ino)
            lock(self._database, fcntl.F_OFD_SETLK, fcntl.F_RDLCK, (name_byte, 1))
            if has_other_name(self._database, name_byte):  # opened at the same time: one of them, or both, give up
                raise other_name(self._path)
        except OSError as error:
            if error.errno in UNSUPPORTED:
                return False  # the descriptors stay open: closing them now would drop SQLite's locks
            self.close()
            raise
        except StoreUnavailable:
            self.close()
            raise
        return True

    def _dropped(self) -> bool:
        return self._held and ask(self._index, self._canary)[0] == fcntl.F_UNLCK

    def _wait_for_turn(self) -> None:
        waited_ms, attempt = 0, 0
        while not try_lock(self._database, TURN_BYTE):
            if waited_ms >= BUSY_MS:
                raise self._busy()
            pause_ms = PAUSES_MS[min(attempt, len(PAUSES_MS) - 1)]
            time.sleep(pause_ms / 1000)
            waited_ms += pause_ms
            attempt += 1

    def _busy(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self._path}: another process held it for more than {BUSY_MS // 1000} seconds; nothing was written, "
            "try again, and see whether a process that uses it is suspended"
        )


def lock(descriptor: int, command: int, kind: int, area: tuple[int, int]) -> None:
    """Lock or unlock some bytes, or raise."""
    fcntl.fcntl(descriptor, command, FLOCK.pack(kind, os.SEEK_SET, *area, 0))


def ask(descriptor: int, area: tuple[int, int]) -> tuple[int, int]:
    """Return the kind of lock that is on some bytes, and the process that has it, this one included."""
    question = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, *area, 0)
    kind, _, _, _, process = FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, question))
    return kind, process


def check_other_names(path: Path) -> None:
    """Raise if another process has a database open under another name; the caller knows that this one has not."""
    if not SUPPORTED:
        return
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return  # SQLite says what is wrong with it
    try:
        index = find_index(path)
        while has_other_name(descriptor, NAME_BYTES if index is None else find_name_byte(index)):
            asked_for, index = index, find_index(path)
            if asked_for == index:  # otherwise, it was just opened under this name, or closed and opened again
                raise other_name(path)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
    finally:
        os.close(descriptor)


def find_index(path: Path) -> int | None:
    """Return the inode of a log's index; None if there is none: nobody has the file open under this name."""
    try:
        return os.stat(f"{path}-shm").st_ino  # noqa: PTH116 - as everywhere here
    except FileNotFoundError:
        return None


def find_name_byte(inode: int) -> int:
    """Return which byte of a database is locked by all who have the log with this index."""
    return NAME_BYTES + 1 + inode % (NAME_BYTES - 2)


def has_other_name(descriptor: int, name_byte: int) -> bool:
    """Tell whether the name byte of another name is locked."""
    lower, upper = (NAME_BYTES, name_byte - NAME_BYTES), (name_byte + 1, 2 * NAME_BYTES - name_byte - 1)
    return any(area[1] > 0 and ask(descriptor, area)[0] != fcntl.F_UNLCK for area in (lower, upper))


def other_name(path: Path) -> StoreUnavailable:
    """Return the error for a file that is open under another name."""
    return StoreUnavailable(
        f"{path}: another process has this file open under another name; SQLite would keep two logs for one file, and "
        "tasks would be lost; nothing was changed; use one name for it everywhere, and mount its folder, not the file"
    )


def is_index_locked(path: str) -> bool:
    """Tell whether another process has a log's index open; the caller knows that this one has not."""
    if not SUPPORTED:
        return False
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return ask(descriptor, DEAD_MAN_SWITCH)[0] != fcntl.F_UNLCK
    except OSError as error:
        if error.errno in UNSUPPORTED:
            return False
        raise
    finally:
        os.close(descriptor)


def try_lock(descriptor: int, area: tuple[int, int]) -> bool:
    """Lock some bytes for this descriptor alone; False if another one has them."""
    try:
        lock(descriptor, fcntl.F_OFD_SETLK, fcntl.F_WRLCK, area)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True
