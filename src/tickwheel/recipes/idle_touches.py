"""When keys were last touched: the part of `IdleTimeouts` that is compiled, because it is called on every packet.

`IdleTimeouts` is an ordinary class on top of this one: a native class that is generic cannot be referred to weakly.
"""

from threading import RLock
from typing import Any, Final, final

from mypy_extensions import mypyc_attr

from tickwheel.timers.registry import TimerRegistry

__all__ = ["IdleTouches", "Touch"]

# Between any two lines of the interpreted build another thread may run.
INTERPRETED: Final[bool] = __file__.endswith(".py")

ENDED: Final = -1  # instead of a time: the key is idle, or forgotten, and cannot be touched any more


@final
@mypyc_attr(acyclic=True)
class Touch:
    """When a key was last touched: all that a touch writes, so that two of them fit into one line of the cache."""

    __slots__ = ("last_ns",)

    def __init__(self, now_ns: int) -> None:
        self.last_ns = now_ns


@mypyc_attr(allow_interpreted_subclasses=True)
class IdleTouches:
    """The touches of all keys. Either a key is touched, or it is found idle: never both."""

    def __init__(self, registry: TimerRegistry) -> None:
        self._registry = registry
        self._time = registry.time
        self._touches: dict[Any, Touch] = {}
        self._touch_lock: Any = RLock()  # the code of a key may touch another

    def touch(self, key: Any) -> bool:
        """Note that a key is not idle; False if it is not watched."""
        touch = self._touches.get(key)
        if touch is None or self._registry.stopped:
            return False
        now_ns = self._time.now_ns()  # after the code of the key, which may take long
        if INTERPRETED:
            with self._touch_lock:
                return _touch(touch, now_ns)
        return _touch(touch, now_ns)

    def idle_for(self, key: Any) -> float | None:
        """Return for how many seconds a key has not been touched; None if it is not watched."""
        touch = self._touches.get(key)
        now_ns = self._time.now_ns()  # as above
        last_ns = ENDED if touch is None or self._registry.stopped else touch.last_ns
        return None if last_ns == ENDED else max(now_ns - last_ns, 0) / 1e9

    def _end_if_idle(self, touch: Touch, timeout_ns: int) -> int:
        """Return how long a key has until it is idle; if that is 0 or less, it cannot be touched any more."""
        now_ns = self._time.now_ns()
        if INTERPRETED:
            with self._touch_lock:
                return _end(touch, timeout_ns - now_ns)
        return _end(touch, timeout_ns - now_ns)


def _touch(touch: Touch, now_ns: int) -> bool:
    if touch.last_ns == ENDED:
        return False
    touch.last_ns = max(touch.last_ns, now_ns)  # another thread may have read the clock later, and be here before
    return True


def _end(touch: Touch, more_ns: int) -> int:
    left_ns = touch.last_ns + more_ns
    if left_ns <= 0:
        touch.last_ns = ENDED
    return left_ns
