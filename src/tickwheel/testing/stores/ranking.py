"""What is due, by priority: for stores that can list it so."""

from typing import cast

from tickwheel.clock import VirtualClock
from tickwheel.stores.contract import RanksOverdue
from tickwheel.testing.stores.legal import LegalStore
from tickwheel.testing.stores.scenario import Opening, ids, own, scenario, task

__all__ = ["RankingConformance"]


class RankingConformance(Opening):
    """`overdue`, a capability: `hasattr(store, "overdue")`."""

    @scenario
    async def test_overdue_tasks_come_by_priority_then_by_time(self, legal: LegalStore, _clock: VirtualClock) -> None:
        store = cast("RanksOverdue", legal.store)
        await legal.add(
            [
                task("low", 10, priority=-5),
                task("b", 2000, partition=1),
                task("a", 2000, partition=2),
                task("early", 1000),
                task("high", 2999, priority=1000),
                task("higher-than-usual", 3000, priority=1, partition=3),
                task("second", 3000, priority=1, partition=2),
                task("to-come", 3001, priority=1000),
                task("paused", 10, priority=7),
                task("lowest", 10, priority=-1000),
            ]
        )
        await legal.pause(["paused"])
        leases = await own(legal)
        order = ["high", "higher-than-usual", "second", "early", "a", "b", "low", "lowest"]
        assert ids(await store.overdue(leases, 3000, None, 10)) == order
        assert ids(await store.overdue([leases[2], leases[0]], 3000, None, 3)) == ["high", "second", "early"]
        assert await store.overdue([], 3000, None, 10) == []
        for limit in (1, 2, 3):
            found, after = [], None
            while page := await store.overdue(leases, 3000, after, limit):
                found += ids(page)
                after = page[-1].rank
            assert found == order, limit

    @scenario
    async def test_some_handlers_can_be_left_out(self, legal: LegalStore, _clock: VirtualClock) -> None:
        store = cast("RanksOverdue", legal.store)
        names = ["a", "b", "c'\"", "a"]
        await legal.add([task(f"{n}", handler=name, priority=n % 2) for n, name in enumerate(names)])
        leases = await own(legal)
        assert ids(await store.overdue(leases, 3000, None, 10, ["a"])) == ["1", "2"]
        assert ids(await store.overdue(leases, 3000, None, 10, {"c'\"", "nobody"})) == ["1", "3", "0"]
        assert await store.overdue(leases, 3000, None, 10, ["a", "b", "c'\""]) == []

    @scenario
    async def test_it_tells_what_may_run_at_most_once(self, legal: LegalStore, _clock: VirtualClock) -> None:
        store = cast("RanksOverdue", legal.store)
        await legal.add([task("once", at_most_once=True), task("usual", args={"text": '"at_most_once":true'})])
        leases = await own(legal)
        for found in (await store.overdue(leases, 3000, None, 10), await legal.due(leases, 3000, None, 10)):
            assert [(due.id, bool(due.at_most_once)) for due in found] == [("once", True), ("usual", False)]

    @scenario
    async def test_what_is_claimed_moved_or_removed_is_not_overdue(
        self, legal: LegalStore, _clock: VirtualClock
    ) -> None:
        store = cast("RanksOverdue", legal.store)
        await legal.add([task(f"{priority}{letter}", priority=priority) for priority in (0, 3) for letter in "abcd"])
        leases = await own(legal)
        await legal.claim(leases, ["0a", "3a"], 1000)
        for name in ("0b", "3b"):
            await legal.reschedule(name, 5000)
        await legal.remove(["0c", "3c"])
        assert ids(await store.overdue(leases, 3000, None, 10)) == ["3d", "0d"]
        assert ids(await store.overdue(leases, 5000, None, 10)) == ["3d", "3b", "0d", "0b"]
