"""What a forked child does first: new locks for everything, and only then letting go of what is its parent's.

    fork ----> every lock is renewed ----> everything begins anew ----> what was there is let go of

A thread of the parent may hold any of the locks, and does not exist in the child. What is let go of may run
destructors, which may use anything: they would wait for a lock that is not renewed yet for ever, and what they start
would be lost where something has not begun anew.
"""

import gc
import os
from collections.abc import Callable
from typing import Final

__all__ = ["after_fork_in_child"]

Renew = Callable[[], None]
BeginAnew = Callable[[], Callable[[], object]]  # returns what lets go of what was there

_renewals: Final[list[Renew]] = []
_beginnings: Final[list[BeginAnew]] = []


def after_fork_in_child(renew_locks: Renew, begin_anew: BeginAnew | None = None) -> None:
    """Have locks renewed in every child, and what they guard begin anew when that is done for all of them."""
    _renewals.append(renew_locks)
    if begin_anew is not None:
        _beginnings.append(begin_anew)


def _begin_child() -> None:
    collects = gc.isenabled()
    gc.disable()  # what it finds may run destructors as well
    try:
        for renew_locks in _renewals:
            renew_locks()
        left = [begin_anew() for begin_anew in _beginnings]
    finally:
        if collects:
            gc.enable()
    for let_go in left:
        let_go()


os.register_at_fork(after_in_child=_begin_child)
