"""The retention: what was over for long enough to be deleted, whatever happened to the wall clock.

    wall        day 1    day 2    year 9           day 2 of year 9
    lag         0        0        7 years          7 years, for the retention; then all that was over before is old
    cutoff is counted from
                day 1    day 2    day 2            day 3

The lag is what the clock was set forward by within the retention. Time in which nobody ran tasks counts as a step: the
clock may have been set meanwhile. Where a store can, it keeps the steps, written when there is one and before anything
is purged or noted by the new clock: a node that starts after a step goes by it as if it had seen it.
"""

from collections.abc import Sequence
from typing import Final, cast

from tickwheel.clock import STEP_NS, Clock, ClockSteps, boottime_of
from tickwheel.stores.contract import ClockStep, KeepsClockSteps, Store

__all__ = ["Retention"]

PARTS: Final = 16  # of a retention: in each, two steps are told apart at most, so that restarts add up to few


class Retention:
    """Tells before which moment a task must be over to be deleted: a step deletes nothing."""

    def __init__(self, store: Store, clock: Clock, retention_ms: int) -> None:
        self._keeper = cast("KeepsClockSteps", store) if hasattr(store, "clock_steps") else None
        self._wall_ns = clock.time_ns
        self._boottime_ns = boottime_of(clock)  # what passes while the machine is suspended has passed
        self._retention_ns = retention_ms * 1_000_000
        self._clock_steps: ClockSteps | None = None  # since it is known how long nobody ran tasks
        self._steps: list[tuple[int, int]] = []  # when by `boottime_ns`, and how far forward, the earliest first
        self._noticed = 0  # steps, also those back
        self._kept = 0  # so many of them are in the store

    async def begin(self, last_seen: int) -> None:
        """Go by the steps that are kept, and by the time since tasks were last known to run; 0 if they never were."""
        if self._clock_steps is None:
            kept = await self._keeper.clock_steps() if self._keeper is not None else []
            self._clock_steps = ClockSteps(self._wall_ns, self._boottime_ns)
            now = self._wall_ns() // 1_000_000
            last_seen = max([last_seen, *(step.at for step in kept)]) or now
            self._steps = self._within_retention(kept, min(last_seen, now))
            down_ns = self._wall_ns() - last_seen * 1_000_000
            if down_ns > STEP_NS:
                self._add(down_ns)
            elif down_ns < -STEP_NS:
                # The clock was set back. Whether what is kept knows of that step cannot be told; too long a lag only
                # keeps more, until the retention is over. The moments of what is kept are written anew, by this clock.
                self._noticed += 1
        await self.keep_steps()

    async def keep_steps(self) -> None:
        """Write to the store how the clock was set, if it was since the last time."""
        self._notice()
        if (noticed := self._noticed) == self._kept:
            return
        if self._keeper is not None:
            await self._keeper.keep_clock_steps(self._listed())
        self._kept = noticed

    async def cutoff(self) -> int | None:
        """Return the moment before which a task must be over to be deleted, in milliseconds; None if that is not known.

        A node that noticed more than this one is believed.
        """
        if self._clock_steps is None:
            return None
        await self.keep_steps()
        if self._keeper is not None:
            self._adopt(await self._keeper.clock_steps())
        self._notice()
        return max((self._wall_ns() - self._lag_ns() - self._retention_ns) // 1_000_000, 0)

    def _lag_ns(self) -> int:
        oldest_ns = self._boottime_ns() - self._retention_ns
        self._steps = [step for step in self._steps if step[0] > oldest_ns]
        return sum(step_ns for _, step_ns in self._steps)

    def _notice(self) -> None:
        if self._clock_steps is not None and (step_ns := self._clock_steps.take()):
            self._add(step_ns)

    def _add(self, step_ns: int) -> None:
        """Note a step that was made just now; one back undoes the last ones forward."""
        self._noticed += 1
        now_ns = self._boottime_ns()
        if step_ns > 0:
            if len(self._steps) > 1 and now_ns - self._steps[-2][0] < self._retention_ns // PARTS:
                step_ns += self._steps.pop()[1]
            self._steps.append((now_ns, step_ns))
        while step_ns < 0 and self._steps:
            at_ns, forward_ns = self._steps.pop()
            step_ns += forward_ns
            if step_ns > 0:
                self._steps.append((at_ns, step_ns))

    def _adopt(self, kept: Sequence[ClockStep]) -> None:
        """Go by what another node kept if that is more."""
        steps = self._within_retention(kept, self._wall_ns() // 1_000_000)
        if sum(step_ns for _, step_ns in steps) > self._lag_ns() + STEP_NS:
            self._steps = steps

    def _within_retention(self, kept: Sequence[ClockStep], seen: int) -> list[tuple[int, int]]:
        """Return steps that were not too long ago at a moment by the wall clock, as if it was now."""
        now_ns = self._boottime_ns()
        ago = ((max(seen - at, 0) * 1_000_000, step_ms * 1_000_000) for at, step_ms in kept)
        return [(now_ns - ago_ns, step_ns) for ago_ns, step_ns in ago if ago_ns < self._retention_ns]

    def _listed(self) -> list[ClockStep]:
        """Return the steps with their moments by the wall clock as it is now."""
        ahead_ns = self._wall_ns() - self._boottime_ns()
        return [ClockStep((at_ns + ahead_ns) // 1_000_000, step_ns // 1_000_000) for at_ns, step_ns in self._steps]
