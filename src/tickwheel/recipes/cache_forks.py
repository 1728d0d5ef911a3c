"""Holds the locks of all caches while the process forks: a child made in the middle of a write would have half of it.

    before the fork         take the lock of each cache, waiting for the writes that are under way
    after it, parent        release them
    after it, child         release them, and replace those that a thread of the parent held for too long

Compiled, an interrupt cannot come between taking a lock and noting it, or between releasing two of them.
"""

from threading import get_ident
from time import monotonic
from typing import Final

from tickwheel.recipes.cache_store import CacheStore

__all__ = ["hold_all", "let_go_all", "renew_all", "settle_all"]

# How long a fork waits for writes that are under way, in all caches together. A write takes microseconds; one that
# waits for something in the code of a key must not hold up the fork.
WAIT_SECONDS: Final = 1.0

_held: Final[dict[int, list[CacheStore]]] = {}  # by thread that forks: the stores whose locks it holds


def hold_all(stores: list[CacheStore]) -> None:
    """Take the locks of all stores; raise what a signal handler has raised meanwhile when that is done."""
    end = monotonic() + WAIT_SECONDS
    held: list[CacheStore] = []
    _held[get_ident()] = held  # now: whatever interrupts this, what was taken is released
    interrupt: BaseException | None = None
    for store in stores:
        interrupt = _hold(store, end, held) or interrupt
    if interrupt is not None:
        raise interrupt  # Python prints it, and forks nevertheless


def _hold(store: CacheStore, end: float, held: list[CacheStore]) -> BaseException | None:
    """Take the lock of a store, and return what has interrupted that."""
    try:
        store.hold(max(end - monotonic(), 0.0), held)
    except BaseException as error:  # noqa: BLE001 - returned
        return _hold(store, end, held) or error
    return None


def let_go_all() -> None:
    """Release the locks in the process that has forked."""
    for store in _held.get(get_ident(), []):
        store.let_go()
    settle_all()


def renew_all(stores: list[CacheStore]) -> None:
    """Release or replace the locks in the child, where only the thread that has forked exists."""
    held = _held.get(get_ident(), [])
    _held.clear()  # of threads that were about to fork as well
    _held[get_ident()] = held
    held_ids = {id(store) for store in held}
    for store in stores:
        store.begin_anew(held=id(store) in held_ids)


def settle_all() -> None:
    """Deliver what destructors have made leave while this thread held the locks."""
    held = _held.pop(get_ident(), [])
    for store in held:
        store.settle()
