"""Frees the memory of what expires in a `TTLCache`, by a timer, whether anyone uses the cache or not.

One timer is pending, for when something expires next:

    written, expires 10 s      written, expires 5 s       5 s: one is freed
    timer for 10 s             timer for 5 s              timer for 10 s

It refers to the cache weakly, and is cancelled when the cache is gone. `AsyncTimers` may be used on the thread of their
loop only, so a write on another thread leaves the timer to the loop.
"""

import logging
from asyncio import AbstractEventLoop, _get_running_loop
from threading import RLock
from typing import Any, Final
from weakref import ref

from tickwheel.errors import TimersStopped
from tickwheel.timers.asyncio_driver import AsyncTimers
from tickwheel.timers.handle import TimerHandle
from tickwheel.timers.timers import AbstractTimers, tell

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
        self._registry = timers._registry
        self._loop = timers._loop if isinstance(timers, AsyncTimers) else None
        self._timer: TimerHandle | None = None
        self._due_ns = -1  # -1: no timer is pending
        self._lock = RLock()  # a destructor may write to the cache on the thread that holds it

    def plan(self, expires_ns: int) -> None:
        """Take note that an item was written; nearly always a timer is pending that comes before it expires."""
        if self._registry.stopped or (self._loop is not None and self._loop.is_closed()):
            self._give_up()
        elif not 0 <= self._due_ns <= expires_ns:
            cache = self._cache()
            if cache is not None:  # as it is while the cache is collected
                self._start(cache)

    def _give_up(self) -> None:
        """Say, once, that nothing is swept any more: the timers were stopped, or their loop was closed."""
        cache = self._cache()
        with self._lock:
            timers, self._timers = self._timers, None
        if timers is None or cache is None:
            return
        cache._store.planner = None
        # The cache itself as the only argument would be taken for a mapping of arguments.
        message = "the timers of %s were stopped; expired items are freed on writes only"
        tell(logging.WARNING, message, repr(cache), logger=log)

    def _start(self, cache: Any) -> None:
        look_ns: int | None = cache._store.next_look_ns()
        if look_ns is None:
            return
        timers = self._timers
        try:  # from before it says that there is a timer until there is one
            with self._lock:
                timers = self._timers
                if timers is None or 0 <= self._due_ns <= look_ns:
                    return
                self._due_ns = look_ns
                loop = _loop_elsewhere(timers)
                replaced = None
                if loop is None:
                    replaced, self._timer = self._timer, None
            # Outside the locks: the timers have one of their own.
            if replaced is not None:
                replaced.cancel()
            if loop is not None:
                loop.call_soon_threadsafe(_start_on_loop, self._cache)
            else:
                wait_ns = max(look_ns - cache._store.now_ns(), 0)
                self._timer = timers.after(min(wait_ns, WAIT_NS_MAX) / 1e9, _sweep, self._cache)
        except Exception as error:  # noqa: BLE001 - the item is in the cache: its write has not failed
            if isinstance(error, TimersStopped) or (timers is not None and _on_closed_loop(timers)):
                self._give_up()
            else:
                self._due_ns = -1
                message = "cannot start a timer to free expired items of %s; the next write retries"
                tell(logging.ERROR, message, repr(cache), error=error, logger=log)
        except BaseException:  # an interrupt: there is no timer
            self._due_ns = -1
            raise

    def restart(self, cache: Any) -> None:
        """Start the timer, on the thread of the loop, that a write on another thread has asked for."""
        self._due_ns = -1
        self._start(cache)

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
        self._lock = RLock()  # a thread that does not exist may hold the old one

    def __del__(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _on_closed_loop(timers: AbstractTimers) -> bool:
    return isinstance(timers, AsyncTimers) and not timers.running


def _loop_elsewhere(timers: AbstractTimers) -> AbstractEventLoop | None:
    """Return the loop of the timers, if they have one and this is not its thread."""
    if not isinstance(timers, AsyncTimers) or _get_running_loop() is timers._loop:
        return None
    return timers._loop


def _start_on_loop(cache: "ref[Any]") -> None:
    alive = cache()
    if alive is not None:
        alive._sweeper.restart(alive)


def _sweep(cache: "ref[Any]") -> None:
    alive = cache()
    if alive is not None:
        alive._sweeper.sweep(alive)
