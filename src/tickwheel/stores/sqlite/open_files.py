"""The databases that stores of this process have open, and the audit hook that keeps other code from opening them.

    store opens tasks.db             -> OPEN has the device and inode of tasks.db, tasks.db-wal and tasks.db-shm
    sqlite3.connect("tasks.db")      -> audit event -> stat: in OPEN -> StoreFileInUse, before there is a descriptor
    open("notes.txt")                -> audit event -> stat: not in OPEN -> opened
    store closes tasks.db            -> no longer in OPEN

Why it is rejected: file_locks.py. apsw raises no audit events, and all stores of a process share its SQLite. What
raises none either (`ATTACH`, C code, `os.open` relative to `dir_fd`) is not seen here; the locks there withstand it.
"""

import os
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from tickwheel.errors import StoreFileInUse, StoreUnavailable
from tickwheel.stores.sqlite.file_locks import FileLocks, check_other_names

__all__ = ["OPENING", "OpenFile", "check_name", "enter", "leave"]

Identity = tuple[int, int]  # device and inode

SUFFIXES: Final = ("", "-wal", "-shm")
URI: Final = "file:"


class OpenFile:
    """A database that at least one store of this process has open."""

    def __init__(self, path: Path) -> None:
        self.path = path  # without symbolic links, as SQLite names the log
        self.identities: list[Identity] = [identify(f"{path}{suffix}") for suffix in SUFFIXES]
        self._log = [f"{path}{suffix}" for suffix in SUFFIXES[1:]]
        self.locks = FileLocks(path)
        self.stores = 0

    def check_in_place(self, path: str) -> None:
        """Raise if a path does not name the open file any more, or its log is gone: what is written is lost."""
        for name, identity in zip((path, *self._log), self.identities, strict=True):
            try:
                found = identify(name)
            except OSError:
                found = None
            if found != identity:
                fate = "deleted or moved" if found is None else "replaced"
                raise StoreUnavailable(
                    f"{name}: the file was {fate} while it was open; nothing is acknowledged any more; stop every "
                    "process that uses it, put the file back or restore a backup, and start again"
                )


class Opening:
    """The lock under which files are opened and closed, and what is open; a forked child begins with neither."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.files: dict[Identity, OpenFile] = {}
        self.hooked = False

    def forget(self) -> None:
        """Begin anew in a forked child: the files are its parent's, and so are the locks."""
        for file in self.files.values():
            file.locks.close()
        self.files.clear()
        OPEN.clear()
        self.lock = threading.Lock()


OPEN: Final[dict[Identity, Path]] = {}  # of each file its database; what the audit hook looks at
OPENING: Final = Opening()

if sys.platform != "win32":
    os.register_at_fork(after_in_child=OPENING.forget)


def check_name(path: Path) -> None:
    """Reject a database that has several names, or is open under another one, before SQLite opens it.

    The caller holds the lock.
    """
    real = path.resolve()
    try:
        found = real.stat()
    except OSError:
        return  # SQLite creates it, or says what is wrong with it
    if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
        raise StoreUnavailable(
            f"{path}: the file has {found.st_nlink} names (hard links); SQLite would keep a log for each of them, and "
            "tasks would be lost; nothing was changed; delete the other names (`find / -samefile` lists them)"
        )
    file = OPENING.files.get((found.st_dev, found.st_ino))
    if file is None:
        check_other_names(real)
    elif file.path != real:
        raise StoreUnavailable(
            f"{path}: the file is open as {file.path}; SQLite would keep two logs for one file; "
            "use one name for it everywhere"
        )


def enter(path: Path) -> OpenFile:
    """Note that a store has a database open, which SQLite has opened before; the caller holds the lock."""
    real = path.resolve()
    identity = identify(real)
    file = OPENING.files.get(identity)
    if file is None:
        file = OPENING.files[identity] = OpenFile(real)
        OPEN.update(dict.fromkeys(file.identities, real))
        if not OPENING.hooked:  # for good: a hook cannot be removed
            OPENING.hooked = True
            sys.addaudithook(reject_foreign_open)
    file.stores += 1
    return file


def leave(file: OpenFile) -> None:
    """Note that a store has closed a database, and close the locks of the last one; the caller holds the lock."""
    file.stores -= 1
    if file.stores:
        return
    OPENING.files.pop(file.identities[0], None)  # it is not there in a forked child
    for identity in file.identities:
        OPEN.pop(identity, None)
    file.locks.close()


def identify(path: str | Path) -> Identity:
    """Return the device and inode of a file."""
    found = os.stat(path)  # noqa: PTH116 - for each transaction: a Path takes longer
    return found.st_dev, found.st_ino


def reject_foreign_open(event: str, arguments: tuple[Any, ...]) -> None:
    """Raise if other code is about to open a database of a store; called for every audit event of the program."""
    if (event == "open" or event == "sqlite3.connect") and OPEN:  # noqa: PLR1714 - a tuple takes longer
        path = find_open(event, arguments[0])
        if path is not None:
            raise StoreFileInUse(str(path), f"{event}()")


def find_open(event: str, name: Any) -> Path | None:
    """Return the database that a file belongs to, whatever its name."""
    try:
        for each in name_files(name) if event == "sqlite3.connect" else (name,):
            found = os.stat(each)  # noqa: PTH116 - as above, and any name that `open` takes
            path = OPEN.get((found.st_dev, found.st_ino))
            if path is not None:
                return path
    except Exception:  # noqa: BLE001, S110 - no file, or no name of one: who opens it is told so
        pass
    return None


def name_files(name: Any) -> Iterator[str | bytes]:
    """Return what a name given to `sqlite3.connect` can mean: a file, or a URI."""
    name = os.fspath(name)
    text = os.fsdecode(name)
    if text.startswith(URI):
        path = text[len(URI) :].partition("#")[0].partition("?")[0]
        if path.startswith("//"):
            path = f"/{path[2:].partition('/')[2]}"  # without the host
        yield unquote(path)
    else:
        yield name
