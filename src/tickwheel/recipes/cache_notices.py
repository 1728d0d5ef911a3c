"""Tells the user of a `TTLCache` what has left it, one notice after the other.

`on_evict` may use the cache, and so make other items leave. Their notices wait until the present ones are delivered:

    cache["c"] = 3      "a" leaves:  on_evict("a", ...) sets cache["d"]       "b" leaves: its notice waits
                                     on_evict("b", ...)
"""

import logging
from collections.abc import Callable
from threading import get_ident
from types import CoroutineType
from typing import Any, Final, Literal, final

from tickwheel.timers.timers import tell

__all__ = ["Cause", "EvictionNotices"]

Cause = Literal["expired", "size", "replaced", "deleted"]

log: Final = logging.getLogger("tickwheel.recipes")


@final
class EvictionNotices:
    """Calls `on_evict`, in the thread that made the items leave and outside the lock."""

    def __init__(self, on_evict: Callable[[Any, Any, Cause], object]) -> None:
        self._on_evict = on_evict
        self._delivering: dict[int, list[Any]] = {}  # by thread: notices that a call further up delivers

    def deliver(self, gone: list[Any]) -> None:
        """Deliver a notice of each (key, value, cause); raise what ends the program after the last of them."""
        thread = get_ident()
        waiting = self._delivering.get(thread)
        if waiting is not None:
            waiting.extend(gone)
            return
        self._delivering[thread] = gone
        done = 0
        end: BaseException | None = None
        try:
            while done < len(gone):
                key, value, cause = gone[done]
                done += 1
                try:
                    self._deliver_one(key, value, cause)
                except BaseException as error:  # noqa: BLE001 - raised at the end
                    end = error if end is None else end
        finally:
            del self._delivering[thread]  # no call, which the recursion limit might refuse
        if end is not None:
            raise end

    def _deliver_one(self, key: Any, value: Any, cause: Any) -> None:
        """Deliver a notice and log what `on_evict` raises, unless it ends the program."""
        try:
            result: Any = self._on_evict(key, value, cause)
            if type(result) is CoroutineType:
                result.close()
                message = "on_evict returned a coroutine for key %r (cause: %s), which was closed without running"
                tell(logging.ERROR, message, key, cause, logger=log)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - logged
            tell(logging.ERROR, "on_evict raised for key %r (cause: %s)", key, cause, error=error, logger=log)

    def begin_anew(self) -> None:
        """Go on in a forked child, where only the thread that has forked still delivers."""
        thread = get_ident()
        own = self._delivering.get(thread)
        self._delivering.clear()
        if own is not None:
            self._delivering[thread] = own
