"""URLs of stores: their parts, and which file one of SQLite names; what would silently name another is an error.

>>> print(path_of("sqlite:///some%20tasks.db"))
some tasks.db
>>> path_of("sqlite:///a#1.db")
Traceback (most recent call last):
tickwheel.errors.UnknownStore: 'sqlite:///a#1.db' is no store: # begins a fragment; write it as %23 in a name
>>> path_of("sqlite://tasks.db")
Traceback (most recent call last):
tickwheel.errors.UnknownStore: 'sqlite://tasks.db' is no store: a file has three slashes: sqlite:///tasks.db
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, quote, unquote, urlsplit

from tickwheel.errors import UnknownStore
from tickwheel.tasks.fields import sayable

__all__ = ["absolute_url", "is_file_url", "path_of", "split_url"]

CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
SCHEME: Final = "sqlite:"
PREFIX: Final = "sqlite:///"
RESERVED: Final = {
    "#": "# begins a fragment; write it as %23 in a name",
    "?": "a file has no parameters; write ? as %3F in a name",
}


def is_file_url(url: str) -> bool:
    """Tell whether a URL begins as one of an SQLite file."""
    return url[: len(SCHEME)].lower() == SCHEME


def path_of(url: str) -> Path:
    """Return the path in a URL that begins with `sqlite:`."""
    control = CONTROL.search(url)
    if control is not None:
        raise UnknownStore(url, why=f"it has a control character; write it as %{ord(control[0]):02X}")
    name = url[len(PREFIX) :]
    if url[: len(PREFIX)].lower() != PREFIX:
        rest = url[len(SCHEME) :].lstrip("/")
        example = rest if rest and "@" not in rest else "tasks.db"
        raise UnknownStore(url, why=f"a file has three slashes: {PREFIX}{example}")
    for character, why in RESERVED.items():
        if character in name:
            raise UnknownStore(url, why=why)
    try:
        path = unquote(name, errors="strict")
    except UnicodeDecodeError:
        path = ""
    if path == ":memory:":
        raise UnknownStore(url, why="tasks in memory are in memory://")
    if not path or not sayable(path):
        raise UnknownStore(url, why=f"expected the path of a file as UTF-8, as in {PREFIX}tasks.db")
    return Path(path)


def absolute_url(url: str) -> str:
    """Return a URL that names the same file from any folder; one that names none is for `open_store` to refuse."""
    if not is_file_url(url):
        return url
    try:
        if path_of(url).is_absolute():
            return url
        absolute = f"{PREFIX}{quote(Path.cwd().as_posix())}/{url[len(PREFIX) :]}"
        path_of(absolute)
    except (UnknownStore, UnicodeError, OSError):  # also: the folder was deleted, or no URL can name it
        return url
    return absolute


def split_url(url: str, known: Sequence[str]) -> SplitResult:
    """Return the parts of a URL; what is none names no store."""
    try:
        return urlsplit(url)
    except ValueError:
        raise UnknownStore(url, known) from None
