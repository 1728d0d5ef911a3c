"""Forks: no connection is in use while the process forks, and the child closes its copies of them.

SQLite notes once per process and file which locks it holds. A fork copies the notes, and not the locks:

    parent    notes: tasks.db is locked, shared              kernel: shared lock of the parent
    child     notes: tasks.db is locked, shared (copied)     kernel: nothing

A connection that the child opens then goes by these notes and takes no locks. When the parent closes the file, it
deletes the log that the child still writes to, and with it tasks that the child has acknowledged. Therefore the child
closes its copies before anything else runs in it. That changes nothing but its own memory and descriptors: there is no
checkpoint, and no transaction to roll back, because a fork waits for the calls that are under way.
"""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, ParamSpec, TypeVar
from weakref import WeakSet

import apsw

__all__ = ["IN_USE", "close_in_children", "run_in_use"]

P = ParamSpec("P")
T = TypeVar("T")


class InUse:
    """Held around whatever uses a connection, by any number of threads; a fork waits until none does."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._calls = 0
        self._forks = 0  # that wait, or are being made

    def __enter__(self) -> None:
        with self._changed:
            while self._forks:
                self._changed.wait()
            self._calls += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._calls -= 1
            self._changed.notify_all()

    def before_fork(self) -> None:
        """Wait until no connection is in use, and keep it so."""
        self._changed.acquire()
        self._forks += 1
        while self._calls:
            self._changed.wait()

    def after_fork(self) -> None:
        """Let connections be used again."""
        self._forks -= 1
        self._changed.notify_all()
        self._changed.release()

    def after_fork_in_child(self) -> None:
        """Forget the threads of the parent, and close the copies of its connections."""
        self._reset()
        for connection in list(_CONNECTIONS):
            with suppress(apsw.Error):
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                connection.close(force=True)


IN_USE: Final = InUse()
_CONNECTIONS: Final[WeakSet[apsw.Connection]] = WeakSet()


def close_in_children(connection: apsw.Connection) -> apsw.Connection:
    """Have the copies of a connection closed in every child that this process forks, and return it."""
    _CONNECTIONS.add(connection)
    return connection


def run_in_use(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that uses a connection; no fork happens meanwhile."""
    with IN_USE:
        return function(*args, **kwargs)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=IN_USE.before_fork,
        after_in_parent=IN_USE.after_fork,
        after_in_child=IN_USE.after_fork_in_child,
    )
