"""Errors of SQLite, as the errors of a store that say what to do."""

from pathlib import Path
from typing import Final

import apsw

from tickwheel.errors import StoreUnavailable

__all__ = ["BUSY_MS", "translate_error"]

BUSY_MS: Final = 5000  # how long to wait for another process's transaction

CAUSES: Final[list[tuple[type[apsw.Error], str]]] = [
    (apsw.FullError, "the disk is full"),
    (apsw.ReadOnlyError, "it, or its folder, is read-only; let this user write both"),
    (apsw.BusyError, f"another process held it for more than {BUSY_MS // 1000} seconds"),
    (apsw.NotADBError, "it is not an SQLite database"),
    (apsw.CorruptError, "it is damaged; restore it from a backup"),
    (apsw.CantOpenError, "it cannot be opened; see whether its folder is there, and may be written"),
]


def translate_error(path: Path, error: apsw.Error) -> StoreUnavailable:
    """Say in words why a file cannot be used."""
    why = next((words for kind, words in CAUSES if isinstance(error, kind)), "it could not be read or written")
    return StoreUnavailable(f"{path}: {why} (SQLite says: {error})")
