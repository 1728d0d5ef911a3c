"""Whose time it is: the store's, for nodes whose own clock is wrong, and for who adds."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.campaign import Campaign
from tests.cluster.nodes import Nodes, play
from tests.cluster.places import Place
from tests.cluster.stream import PER_S
from tickwheel import VirtualClock
from tickwheel.cluster import StoreClock

HOUR_NS = 3600 * 10**9
MS = 1_000_000
LEASE_MS = 10_000  # no node dies here, and none is to lose its lease because the machine is busy


class Timekeeper:
    """The clock of a store, which takes its time to answer."""

    local_clock = False

    def __init__(self, own: VirtualClock, ahead_ns: int) -> None:
        self.own, self.ahead_ns, self.there_ns, self.back_ns = own, ahead_ns, 0, 0

    async def time(self) -> int:
        self.own.advance_ns(self.there_ns)
        read = (self.own.time_ns() + self.ahead_ns) // MS
        self.own.advance_ns(self.back_ns)
        return read


def ask(clock: StoreClock, store: Any) -> None:
    asyncio.run(clock.set_by(store))


def test_a_clock_that_agrees_is_left_alone() -> None:
    own = VirtualClock()
    clock, store = StoreClock(own), Timekeeper(own, 0)
    for store.there_ns, store.back_ns in ((0, 0), (5 * MS, 0), (0, 5 * MS), (HOUR_NS, 0), (0, HOUR_NS)):
        ask(clock, store)
        assert clock.time_ns() == own.time_ns()


@pytest.mark.parametrize("ahead_ns", [HOUR_NS, -HOUR_NS, 20 * MS, -20 * MS])
@pytest.mark.parametrize("way_ns", [(0, 0), (3 * MS, 4 * MS), (0, 7 * MS), (7 * MS, 0)])
def test_a_clock_that_is_off_is_set_rather_late_than_early(ahead_ns: int, way_ns: tuple[int, int]) -> None:
    own = VirtualClock()
    clock, store = StoreClock(own), Timekeeper(own, ahead_ns + 999_999)
    store.there_ns, store.back_ns = way_ns
    ask(clock, store)
    behind_ns = own.time_ns() + store.ahead_ns - clock.time_ns()
    assert 0 <= behind_ns < way_ns[1] + MS
    store.there_ns = store.back_ns = 0
    ask(clock, store)
    assert 0 <= own.time_ns() + store.ahead_ns - clock.time_ns() < MS, "a quick answer sets it right"


def test_a_step_of_the_nodes_own_clock_changes_nothing_until_the_store_is_asked() -> None:
    own = VirtualClock()
    clock = StoreClock(own)
    assert clock.in_doubt
    ask(clock, Timekeeper(own, 0))
    assert not clock.in_doubt
    before_ns = clock.time_ns()
    own.step_wall(HOUR_NS)
    assert clock.time_ns() == before_ns
    assert clock.in_doubt
    ask(clock, Timekeeper(own, -HOUR_NS))  # a server's clock, which was not set
    assert clock.time_ns() == before_ns
    ask(clock, Timekeeper(own, 0))  # a file's, which is this machine's
    assert clock.time_ns() == before_ns + HOUR_NS
    own.advance(61)
    assert clock.in_doubt, "it asks again now and then"


def test_the_machines_clock_is_that_of_a_file_at_every_moment() -> None:
    own = VirtualClock()
    clock, store = StoreClock(own), Timekeeper(own, 0)
    store.local_clock = True
    ask(clock, store)
    for step_ns in (-HOUR_NS, 2 * HOUR_NS, -3):
        own.step_wall(step_ns)
        assert clock.time_ns() == own.time_ns()
    store.ahead_ns = HOUR_NS  # it was opened with another clock
    ask(clock, store)
    assert clock.time_ns() == own.time_ns() // MS * MS + HOUR_NS


class SetMeanwhile(Timekeeper):
    """A store that answers while the wall clock is set, some times; between its reading and the answer, or before."""

    def __init__(self, own: VirtualClock, steps_ns: list[int], *, before: bool) -> None:
        super().__init__(own, 0)
        self.steps_ns, self.before, self.asked = steps_ns, before, 0

    async def time(self) -> int:
        self.asked += 1
        step_ns = self.steps_ns.pop() if self.steps_ns else 0
        if self.before:
            self.own.step_wall(step_ns)
            return await super().time()
        read = await super().time()
        self.own.step_wall(step_ns)
        return read


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("step_ns", [HOUR_NS, -HOUR_NS])
def test_a_step_while_the_store_is_asked_is_not_lost(step_ns: int, local: bool, before: bool) -> None:
    # A machine that was suspended looks the same: its clock, and a server's, are ahead of the one that stood still.
    own = VirtualClock()
    clock = StoreClock(own)
    ask(clock, Timekeeper(own, 0))
    store = SetMeanwhile(own, [step_ns], before=before)
    store.local_clock = local
    ask(clock, store)
    assert 0 <= own.time_ns() - clock.time_ns() < MS
    assert not clock.in_doubt
    own.step_wall(step_ns)
    assert clock.in_doubt
    assert (clock.time_ns() == own.time_ns()) == local, "whether the clock is the machine's is known as well"


def test_a_clock_that_is_set_again_and_again_stays_in_doubt() -> None:
    own = VirtualClock()
    clock, store = StoreClock(own), SetMeanwhile(own, [HOUR_NS] * 100, before=False)
    ask(clock, store)
    assert store.asked < 10
    assert clock.in_doubt
    store.steps_ns.clear()
    ask(clock, store)
    assert not clock.in_doubt
    assert clock.time_ns() == own.time_ns()


def test_a_slow_answer_of_a_file_does_not_hide_that_its_clock_is_the_machines() -> None:
    own = VirtualClock()
    clock, store = StoreClock(own), Timekeeper(own, 0)
    store.local_clock, store.there_ns, store.back_ns = True, HOUR_NS, HOUR_NS
    ask(clock, store)
    own.step_wall(-HOUR_NS)
    assert clock.time_ns() == own.time_ns()


def test_nodes_whose_clocks_are_an_hour_off_run_everything_in_time(served_place: Place, tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        async with Campaign.on(nodes, served_place, 0, PER_S // 2) as campaign:
            async with campaign.stream.flowing():
                for wrong_s in (3600, -3600):
                    name = await campaign.join(clock_off_s=wrong_s)
                    await campaign.settle()
                    await nodes.until_begun(name)
            verdict = await campaign.judge()
        assert verdict.good, str(verdict)

    play(tmp_path, served_place.url, story, LEASE_MS)
