"""`IdleTimeouts`: notice what has been idle for too long, at a price paid once a timeout and not once a packet.

    timeouts = IdleTimeouts(Timers())
    timeouts.watch(connection, "30s", connection.close)
    timeouts.touch(connection)                  # on every packet: one clock reading, one dict entry

Touching does not move the timer. When it comes due it looks at the time of the last touch, and waits for what
is left:

    watched 0 s        touched 20 s      due 30 s, idle for 10 s: wait 20 s more      due 50 s, idle for 30 s: tell
"""

from collections.abc import Callable, Hashable
from typing import Any

from tickwheel.durations import Duration, to_ns
from tickwheel.errors import DuplicateKey, MissingCallback
from tickwheel.timers import TimerHandle
from tickwheel.timers.timer_set import TimerSet

__all__ = ["IdleTimeouts"]


class IdleTimeouts:
    """Watches over keys on any set of timers; safe where the timers are."""

    def __init__(self, timers: TimerSet) -> None:
        self._timers = timers
        self._now_ns: Callable[[], int] = timers.own_ns
        self._touched_ns: dict[Hashable, int] = {}
        self._handles: dict[Hashable, TimerHandle] = {}

    def watch(self, key: Hashable, timeout: Duration, on_idle: Callable[..., object], *args: Any) -> None:
        """Call back, once, when a key has not been touched for a timeout; with the key if without arguments."""
        if key in self._touched_ns:
            raise DuplicateKey(key)
        if not callable(on_idle):
            raise MissingCallback(on_idle)
        timeout_ns = to_ns(timeout)
        self._touched_ns[key] = self._now_ns()
        self._handles[key] = self._timers.after(timeout_ns / 1e9, self._look, key, timeout_ns, on_idle, args or (key,))

    def touch(self, key: Hashable) -> bool:
        """Say that a key is not idle; False if it is not watched."""
        if key in self._touched_ns:
            self._touched_ns[key] = self._now_ns()
            return True
        return False

    def forget(self, key: Hashable) -> bool:
        """Watch a key no longer; False if it was not watched."""
        handle = self._handles.pop(key, None)
        if handle is None:
            return False
        del self._touched_ns[key]
        handle.cancel()
        return True

    def idle_for(self, key: Hashable) -> float | None:
        """Tell for how many seconds a key has not been touched; None if it is not watched."""
        touched_ns = self._touched_ns.get(key)
        return None if touched_ns is None else (self._now_ns() - touched_ns) / 1e9

    def __len__(self) -> int:
        return len(self._handles)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._handles

    def _look(self, key: Hashable, timeout_ns: int, on_idle: Callable[..., object], args: tuple[Any, ...]) -> None:
        touched_ns = self._touched_ns.get(key)
        if touched_ns is None:
            return  # forgotten while we were on our way
        left_ns = touched_ns + timeout_ns - self._now_ns()
        if left_ns > 0:
            self._handles[key].touch(left_ns / 1e9)
            return
        del self._handles[key], self._touched_ns[key]
        on_idle(*args)
