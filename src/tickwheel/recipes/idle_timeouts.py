"""`IdleTimeouts`: notice what has been idle for too long, at a price paid once a timeout and not once a packet.

    timeouts = IdleTimeouts(Timers())
    timeouts.watch(connection, "30s", Connection.close)
    timeouts.touch(connection)                  # on every packet: one clock reading, one look into a dict

Touching does not move the timer. When it comes due it looks at the time of the last touch, and waits for what
is left:

    watched 0 s        touched 20 s      due 30 s, idle for 10 s: wait 20 s more      due 50 s, idle for 30 s: tell
"""

from collections.abc import Callable, Hashable
from typing import Any, final

from mypy_extensions import mypyc_attr

from tickwheel.durations import Duration, to_ns
from tickwheel.errors import DuplicateKey, MissingCallback
from tickwheel.timers.handle import TimerHandle
from tickwheel.timers.scaled_clock import ScaledClock
from tickwheel.timers.timers import AbstractTimers

__all__ = ["IdleTimeouts"]


@final
@mypyc_attr(acyclic=True)
class Pulse:
    """When a key was last touched: all that a touch writes, and two of them fit into one line of the cache."""

    __slots__ = ("touched_ns",)

    def __init__(self, now_ns: int) -> None:
        self.touched_ns = now_ns


class Watch:
    """One key that is watched."""

    __slots__ = ("args", "handle", "on_idle", "pulse", "timeout_ns")

    def __init__(self, timeout_ns: int, on_idle: Callable[..., object], args: tuple[Any, ...], pulse: Pulse) -> None:
        self.timeout_ns = timeout_ns
        self.on_idle = on_idle
        self.args = args
        self.pulse = pulse
        self.handle: TimerHandle | None = None


class IdleTimeouts:
    """Watches over keys on any set of timers; safe where the timers are."""

    def __init__(self, timers: AbstractTimers) -> None:
        self._timers = timers
        self._time: ScaledClock = timers._time
        self._watches: dict[Hashable, Watch] = {}
        self._pulses: dict[Hashable, Pulse] = {}

    def watch(self, key: Hashable, timeout: Duration, on_idle: Callable[..., object], *args: Any) -> None:
        """Call back, once, when a key has not been touched for a timeout; with the key if without arguments."""
        if key in self._watches:
            raise DuplicateKey(key)
        if not callable(on_idle):
            raise MissingCallback(on_idle)
        timeout_ns = to_ns(timeout)
        pulse = Pulse(self._time.now_ns())
        watch = Watch(timeout_ns, on_idle, args or (key,), pulse)
        self._watches[key] = watch  # before the timer, which may come due at once
        self._pulses[key] = pulse
        try:
            watch.handle = self._timers.after(timeout_ns / 1e9, self._look, key, watch)
        except BaseException:
            self._drop(key)
            raise

    def touch(self, key: Hashable) -> bool:
        """Say that a key is not idle; False if it is not watched."""
        pulse = self._pulses.get(key)
        if pulse is None:
            return False
        pulse.touched_ns = self._time.now_ns()
        return True

    def forget(self, key: Hashable) -> bool:
        """Watch a key no longer; False if it was not watched."""
        watch = self._drop(key)
        if watch is None:
            return False
        if watch.handle is not None:
            watch.handle.cancel()
        return True

    def idle_for(self, key: Hashable) -> float | None:
        """Tell for how many seconds a key has not been touched; None if it is not watched."""
        pulse = self._pulses.get(key)
        return None if pulse is None else (self._time.now_ns() - pulse.touched_ns) / 1e9

    def __len__(self) -> int:
        return len(self._watches)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._watches

    def _look(self, key: Hashable, watch: Watch) -> None:
        if self._watches.get(key) is not watch:
            return  # forgotten while we were on our way
        left_ns = watch.pulse.touched_ns + watch.timeout_ns - self._time.now_ns()
        if left_ns > 0:
            watch.handle = self._timers.after(left_ns / 1e9, self._look, key, watch)
        else:
            self._drop(key)
            watch.on_idle(*watch.args)

    def _drop(self, key: Hashable) -> Watch | None:
        self._pulses.pop(key, None)
        return self._watches.pop(key, None)
