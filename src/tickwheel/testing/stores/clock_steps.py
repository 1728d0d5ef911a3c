"""Steps of the wall clock, kept for nodes that start later: for stores that can keep them."""

from typing import cast

from tickwheel.clock import VirtualClock
from tickwheel.stores.contract import ClockStep, KeepsClockSteps
from tickwheel.testing.stores.legal import LegalStore
from tickwheel.testing.stores.scenario import Opening, scenario, task

__all__ = ["ClockStepsConformance"]

HOUR_MS = 3_600_000


class ClockStepsConformance(Opening):
    """`clock_steps` and `keep_clock_steps`, a capability: `hasattr(store, "clock_steps")`."""

    @scenario
    async def test_steps_of_the_clock_are_kept_until_others_take_their_place(
        self, legal: LegalStore, clock: VirtualClock
    ) -> None:
        store = cast("KeepsClockSteps", legal.store)
        assert await store.clock_steps() == []
        now = await legal.time()
        steps = [ClockStep(now - HOUR_MS, 10 * 365 * 24 * HOUR_MS), ClockStep(now, 1)]
        await store.keep_clock_steps(steps)
        assert await store.clock_steps() == steps
        clock.step_wall(-HOUR_MS * 10**6)
        await legal.add([task("a")])
        assert await store.clock_steps() == steps
        await store.keep_clock_steps(steps[:1])
        assert await store.clock_steps() == steps[:1]
        await store.keep_clock_steps([])
        assert await store.clock_steps() == []

    @scenario
    async def test_steps_of_the_clock_come_with_the_earliest_first(
        self, legal: LegalStore, _clock: VirtualClock
    ) -> None:
        store = cast("KeepsClockSteps", legal.store)
        await store.keep_clock_steps([ClockStep(3, 1), ClockStep(1, 3), ClockStep(2, 2)])
        assert [step.at for step in await store.clock_steps()] == [1, 2, 3]
