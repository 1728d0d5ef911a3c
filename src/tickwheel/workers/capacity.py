"""How many more runs are worth claiming now: those that can begin at once, and those that will within a moment.

    threads: 8, 5 of them busy, 120 runs ended in the last 100 ms       3 + 120
    a handler with concurrency=1, which runs, and none ended lately     0

Tasks are claimed in batches, some milliseconds ahead. Of handlers whose runs end quickly, many can begin in that time;
of those that hang, none.
"""

from collections.abc import Callable, Mapping
from typing import Final

from tickwheel.tasks import Handler, PoolName
from tickwheel.tasks.registry import Registry

__all__ = ["WINDOW_S", "Capacity", "EndRate", "room_ahead"]

WINDOW_S: Final = 0.1  # what begins within this is worth claiming: half of it is spent on claims themselves


class EndRate:
    """How many runs ended within the present window, or the one before if these were more."""

    __slots__ = ("_before", "_ended", "_window")

    def __init__(self) -> None:
        self._window = 0
        self._ended = 0
        self._before = 0

    def add(self, now_s: float) -> int:
        """Count a run that ended, and return how many are likely to end within a window."""
        if int(now_s / WINDOW_S) != self._window:
            self._roll(now_s)
        self._ended += 1
        return max(self._before, self._ended)

    def expected(self, now_s: float) -> int:
        """Return how many are likely to end within a window."""
        self._roll(now_s)
        return max(self._ended, self._before)

    def _roll(self, now_s: float) -> None:
        window = int(now_s / WINDOW_S)
        if window != self._window:
            self._before = self._ended if window == self._window + 1 else 0
            self._ended = 0
            self._window = window


def room_ahead(room: int, ending: int) -> int:
    """Return how many to claim where so many could begin now, less those that wait, and so many are about to end.

    Nothing, while half of those that can begin in a window wait: a claim is a commit, and better made for many.
    """
    return 0 if room <= 0 and -room > ending // 2 else room + ending


class Capacity:
    """What each pool and each limited handler could begin about now; counted down while tasks are chosen."""

    def __init__(
        self,
        registry: Registry,
        pools: Mapping[PoolName, int],
        free: Mapping[PoolName, int],
        room_of: Callable[[Handler], tuple[int, int]],
        claimed: Mapping[str, int],
    ) -> None:
        self._registry = registry
        self._pools = dict(pools)
        self._free = dict(free)  # workers that have nothing to do, and that nothing waits for
        self._room_of = room_of  # of a limited handler: now, and also in a moment
        self._claimed = claimed  # by handler: tasks that wait for their moment
        self._limits: dict[str, tuple[int, int]] = {}
        for name, tasks in claimed.items():
            handler = registry.get(name)
            if handler is not None and handler.runs_in in self._pools:
                self._pools[handler.runs_in] -= tasks
                self._free[handler.runs_in] -= tasks

    def admits(self, name: str) -> bool:
        """Tell whether a handler could begin one more task now or in a moment, and count it.

        One that is not known here cannot; of one that the store does not tell, it is found out when it begins.
        """
        handler = self._registry.get(name)
        return not name if handler is None else self._admit(handler, at_once=False)

    def admits_at_once(self, name: str) -> bool:
        """Tell whether there is a worker for one more task of a handler right now, and count it.

        If there is none, the next one is kept for it: nothing that ranks behind it is claimed ahead.
        """
        handler = self._registry.get(name)
        return handler is not None and self._admit(handler, at_once=True)

    def _admit(self, handler: Handler, *, at_once: bool) -> bool:
        pool = handler.runs_in
        if self._pools.get(pool, 0) <= 0:  # it is full, or not there
            return False
        if at_once and self._free[pool] <= 0:
            self._pools[pool] = 0
            return False
        if handler.concurrency is not None:
            now, soon = self._limits.get(handler.name) or self._rooms_of(handler)
            if soon <= 0:
                return False
            if at_once and now <= 0:
                self._limits[handler.name] = now, 0
                return False
            self._limits[handler.name] = now - 1, soon - 1
        self._pools[pool] -= 1
        self._free[pool] -= 1
        return True

    def _rooms_of(self, handler: Handler) -> tuple[int, int]:
        now, soon = self._room_of(handler)
        claimed = self._claimed.get(handler.name, 0)
        return now - claimed, soon - claimed
