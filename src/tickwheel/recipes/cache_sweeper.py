"""Frees the memory of what expires in a `TTLCache`, by a timer, whether anyone uses the cache or not.

One timer is pending, for when something expires next:

    written, expires 10 s      written, expires 5 s       5 s: one is freed
    timer for 10 s             timer for 5 s              timer for 10 s

It refers to the cache weakly, and is cancelled when the cache is gone.
"""

import logging
from typing import Any, Final
from weakref import ref

from tickwheel.errors import TimersStopped
from tickwheel.timers.asyncio_driver import AsyncTimers
from tickwheel.timers.handle import TimerHandle
from tickwheel.timers.timers import AbstractTimers

__all__ = ["CacheSweeper"]

# A ttl may be as long as a timer can wait, and what expires is looked at up to a tick later. Then a sweep finds nothing
# to free, and starts the next timer.
WAIT_NS_MAX: Final = 365 * 86_400 * 10**9

log = logging.getLogger("tickwheel.recipes")


class CacheSweeper:
    """The timer of one cache, and when it is due by the clock of the cache."""

    def __init__(self, cache: Any, timers: AbstractTimers) -> None:
        self._cache: ref[Any] = ref(cache)
        self._timers: AbstractTimers | None = timers
        self._timer: TimerHandle | None = None
        self._due_ns = -1  # -1: no timer is pending

    def plan(self, expires_ns: int) -> None:
        """Take note that an item was written; nearly always a timer is pending that comes before it expires."""
        if not 0 <= self._due_ns <= expires_ns:
            cache = self._cache()
            if cache is not None:  # as it is while the cache is collected
                self._start(cache)

    def _start(self, cache: Any) -> None:
        store = cache._store
        store.acquire()
        try:
            look_ns = store.items.next_look_ns()
            if look_ns is None or self._timers is None or 0 <= self._due_ns <= look_ns:
                return
            self._due_ns = look_ns
            wait_ns = max(look_ns - store.now_ns(), 0)
            replaced, self._timer = self._timer, None
        finally:
            store.release()
        if replaced is not None:
            replaced.cancel()
        try:  # outside the lock: the timers have one of their own
            self._timer = self._timers.after(min(wait_ns, WAIT_NS_MAX) / 1e9, _sweep, self._cache)
        except Exception as error:  # the item is in the cache: its write has not failed
            if isinstance(error, TimersStopped) or _on_closed_loop(self._timers):
                self._timers = None
                log.warning("the timers of %r were stopped; expired items are freed on writes only", cache)
            else:
                self._due_ns = -1
                log.exception("cannot start a timer to free expired items of %r; the next write retries", cache)

    def sweep(self, cache: Any) -> None:
        """Free what has expired, and start the next timer, whatever happens."""
        self._due_ns = -1
        try:
            cache._store.expire(to_the_ns=False)
        finally:
            self._start(cache)

    def forget_timer(self) -> None:
        """Have the next write start a timer: a forked child has none of its parent's."""
        self._timer = None
        self._due_ns = -1

    def __del__(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _on_closed_loop(timers: AbstractTimers) -> bool:
    return isinstance(timers, AsyncTimers) and not timers.running


def _sweep(cache: "ref[Any]") -> None:
    alive = cache()
    if alive is not None:
        alive._sweeper.sweep(alive)
