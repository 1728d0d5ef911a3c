"""How threads that miss the same key of a `TTLCache` share one call of its loader.

    thread 1    get_or_load("a")   calls the loader ............ sets the item, returns it
    thread 2          get_or_load("a")   waits ................. returns it
    thread 3                     get_or_load("b")   calls the loader

A load is listed in `CacheStore.loads` until it ends or its key is written; a call after that starts another load.
"""

import os
from collections.abc import Callable, Coroutine
from threading import Lock, RLock, get_ident
from types import CoroutineType
from typing import Any, NoReturn

from tickwheel.durations import Duration, to_ns
from tickwheel.errors import AsyncLoader, RecursiveLoad
from tickwheel.recipes.cache_store import MISSING, CacheStore
from tickwheel.timers.forks import after_fork_in_child

__all__ = ["load"]


class Load:
    """One call of a loader, and what came of it."""

    __slots__ = ("error", "gate", "over", "process", "thread", "value")

    def __init__(self) -> None:
        self.process = os.getpid()
        self.thread = get_ident()
        self.gate = Lock()  # closed until it is over; unlike an Event, it is opened in one step that nothing interrupts
        self.gate.acquire()
        self.over = False
        self.value: Any = MISSING  # still so at the end if the thread was interrupted: others have to try themselves
        self.error: Exception | None = None

    def runs(self) -> bool:
        """Tell whether it is worth waiting for: in a forked child the threads of the parent do not exist."""
        return not self.over and self.process == os.getpid()


# Which load a thread waits for, in all caches: a loader may load from another cache, which waits for the first.
_waiting: dict[int, Load] = {}
_waiting_lock = RLock()  # a destructor may load on the thread that holds it


def load(store: CacheStore, key: Any, loader: Callable[[Any], Any], ttl: Duration | None) -> Any:
    """Return the value of a key that was missing, by calling the loader or waiting for a thread that does."""
    while True:
        own = Load()
        running: Any = None
        try:
            running = store.begin_load(key, own)
            if running is own:
                value = loader(key)
                if type(value) is CoroutineType:  # isinstance would run code of the value, here and below
                    _refuse(key, value)
                store.write_absent(key, value, store.ttl_ns(key, value) if ttl is None else to_ns(ttl), own)
                return value
        except Exception as error:
            own.error = error
            running = None  # as below
            raise
        finally:
            store.end_load(key, own)
            del own  # refers to the error, which refers to this frame
        if type(running) is not Load:
            return running
        recursive = not _wait(running)
        value, failed = running.value, running.error
        del running  # as above
        if recursive:
            raise RecursiveLoad(key)
        if value is not MISSING:
            return value
        if failed is not None:
            try:
                raise failed
            finally:
                del failed  # as above


def _refuse(key: Any, coroutine: Coroutine[Any, Any, Any]) -> NoReturn:
    coroutine.close()
    raise AsyncLoader(key)


def _wait(running: Load) -> bool:
    """Wait until a load is over; False if it waits for this thread itself."""
    thread = get_ident()
    try:
        with _waiting_lock:
            ahead: Load | None = running
            while ahead is not None and not ahead.over and ahead.thread != thread:
                ahead = _waiting.get(ahead.thread)
            if ahead is not None and not ahead.over:
                return False
            _waiting[thread] = running
        with running.gate:  # one after the other; each opens it for the next
            return True
    finally:
        with _waiting_lock:
            _waiting.pop(thread, None)


def _renew_lock() -> None:
    global _waiting_lock  # noqa: PLW0603 - a thread that does not exist in the child may hold it
    _waiting_lock = RLock()
    _waiting.clear()


after_fork_in_child(_renew_lock)
