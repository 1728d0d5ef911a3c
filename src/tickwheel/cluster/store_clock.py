"""The time by which tasks are due: the store's, which is the same for all nodes, whatever their own clocks say.

    asked                    answered
    |------- the store read its clock somewhere here -------|
    s                                                       e        by our clock that only goes forward

    the store is ahead of it by at least `read - e`, and by less than `read + 1 ms - s`

As long as what we believed lies between the two, it stays as it is: nothing jumps, and a node whose own clock agrees
goes by that. Otherwise it is set to the lesser one: rather late than early. A step of the node's own clock changes
nothing, but for stores that have no other (`local_clock`): there the machine's clock is the store's, at every moment.

How far the wall clock is ahead is read before the store is asked. A step that comes later, also before the answer is
there, is one since then: the store is asked again.
"""

from typing import Final

from tickwheel.clock import STEP_NS, Clock, ClockSteps, boottime_of
from tickwheel.stores.contract import Store

__all__ = ["StoreClock"]

READING_NS: Final = 1_000_000  # a store tells the time in whole milliseconds
CHECK_NS: Final = 60 * 10**9  # who holds no leases asks that often, when it adds something, or after a step
ASKED_MAX: Final = 3  # times in one call: then it stays in doubt, since a clock that is set each time is set once more


class StoreClock:
    """A node's clock, set by a store's."""

    __slots__ = ("_ahead_ns", "_checked_ns", "_clock", "_local", "_steps", "boottime_ns", "monotonic_ns")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.monotonic_ns = clock.monotonic_ns
        self.boottime_ns = boottime_of(clock)
        self._ahead_ns = clock.time_ns() - clock.monotonic_ns()
        self._steps = ClockSteps(clock.time_ns, clock.monotonic_ns)  # since before the store was asked
        self._checked_ns = -CHECK_NS
        self._local = False  # whether the store goes by the machine's clock

    def time_ns(self) -> int:
        """Time of day, by the store."""
        return self._clock.time_ns() if self._local else self.monotonic_ns() + self._ahead_ns

    @property
    def in_doubt(self) -> bool:
        """Whether it is time to ask again."""
        return self.monotonic_ns() - self._checked_ns >= CHECK_NS or self._steps.peek() != 0

    async def set_by(self, store: Store) -> None:
        """Ask a store for the time, and go by that."""
        for _ in range(ASKED_MAX):
            await self._ask(store)
            if not self._steps.peek():
                return

    async def _ask(self, store: Store) -> None:
        steps = ClockSteps(self._clock.time_ns, self.monotonic_ns)
        wall_ns = self._clock.time_ns()
        asked_ns = self.monotonic_ns()
        read_ns = await store.time() * 1_000_000
        answered_ns = self.monotonic_ns()
        least_ns, most_ns = read_ns - answered_ns, read_ns + READING_NS - asked_ns
        if not least_ns <= self._ahead_ns <= most_ns:
            self._ahead_ns = least_ns
        # It may have been given another clock.
        self._local = store.local_clock and wall_ns - STEP_NS < read_ns < self._clock.time_ns() + STEP_NS
        self._steps = steps
        self._checked_ns = answered_ns
