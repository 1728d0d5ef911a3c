"""Which node has which handlers, and tasks that are moved to it: for stores that can do that."""

import asyncio
from typing import cast

from msgspec.structs import replace

from tickwheel.clock import VirtualClock
from tickwheel.errors import InvalidTask
from tickwheel.stores.contract import MEMBERS, Filter, Finish, Node, RoutesTasks
from tickwheel.tasks.record import Run, RunStatus, Status
from tickwheel.testing.stores.legal import LegalStore
from tickwheel.testing.stores.scenario import TTL_MS, Opening, ids, lapse, own, raised, scenario, start, task

__all__ = ["RoutingConformance"]


class RoutingConformance(Opening):
    """`nodes`, `move` and heartbeats that publish handlers, a capability: `hasattr(store, "move")`."""

    @scenario
    async def test_nodes_publish_their_handlers(self, legal: LegalStore, _clock: VirtualClock) -> None:
        store = cast("RoutesTasks", legal.store)
        assert await store.nodes() == []
        assert await store.heartbeat("m", TTL_MS, ["b", "a'\""], "1.0") == ["m"]
        assert await legal.heartbeat("k", TTL_MS) == ["k", "m"]
        assert await store.nodes() == [Node("k"), Node("m", frozenset({"a'\"", "b"}), "1.0")]
        await legal.heartbeat("m", TTL_MS)
        assert (await store.nodes())[1].handlers == frozenset({"a'\"", "b"}), "a heartbeat without handlers leaves them"
        await store.heartbeat("m", TTL_MS, ["b"], "1.1")
        await store.heartbeat("k", TTL_MS, [], "1.1")
        assert await store.nodes() == [Node("k", frozenset(), "1.1"), Node("m", frozenset({"b"}), "1.1")]

    @scenario
    async def test_a_node_that_left_or_expired_is_not_online(self, legal: LegalStore, clock: VirtualClock) -> None:
        store = cast("RoutesTasks", legal.store)
        for node in "kmn":
            await store.heartbeat(node, TTL_MS, ["h"])
        await own(legal, 0, node="k")
        await legal.leave("k")
        assert [node.name for node in await store.nodes()] == ["m", "n"], "it has a partition, and takes no more"
        clock.advance_ns(TTL_MS * 1_000_000)
        assert bool(await store.nodes()) == (not legal.timed_leases)
        await legal.heartbeat("k", TTL_MS)
        assert (await store.nodes())[0].name == "k"

    @scenario
    async def test_new_handlers_are_told(self, legal: LegalStore, _clock: VirtualClock) -> None:
        store = cast("RoutesTasks", legal.store)
        await store.heartbeat("m", TTL_MS, ["a"])
        if legal.timed_leases:
            return  # there every node looks at the others whenever it renews its leases
        watch = legal.changes([MEMBERS])
        told = asyncio.ensure_future(anext(watch))
        await store.heartbeat("m", TTL_MS, ["a"])
        await asyncio.sleep(0.01)
        assert not told.done(), "nothing is new"
        await store.heartbeat("m", TTL_MS, ["a", "b"])
        assert (await asyncio.wait_for(told, 10)).keys() == {MEMBERS}

    @scenario
    async def test_a_task_that_is_moved_keeps_everything_else(self, legal: LegalStore, _clock: VirtualClock) -> None:
        store = cast("RoutesTasks", legal.store)
        leases, [running] = await start(legal, task("a", priority=3, args={"n": 1}))
        run = Run(task_id="a", attempt=1, occurrence_at=1000, started_at=1, finished_at=2, status=RunStatus.FAILED)
        assert await legal.finish([Finish(lease=leases[0], task=replace(running, status=Status.PENDING), run=run)])
        [before] = await legal.get(["a"])
        assert before is not None
        assert await store.move(leases, ["a", "a", "unknown"], 5) == ["a"]
        after = replace(before, partition=5, version=before.version + 1)
        assert await legal.get(["a"]) == [after]
        assert (await legal.query(Filter())).tasks == [after]
        assert await legal.history("a") == [run]
        assert (await legal.counts())[Status.PENDING] == 1
        assert await legal.due(leases, 10**6, None, 10) == []
        assert await legal.claim(leases, ["a"], 1000) == []
        theirs = await own(legal, 5, node="there")
        [due] = await legal.due(theirs, 10**6, None, 10)
        assert (due.partition, due.version) == (5, after.version)
        [claimed] = await legal.claim(theirs, ["a"], 1000)
        assert claimed.attempt == 2, "a move is no attempt"
        done = replace(claimed, status=Status.COMPLETED)
        assert await legal.finish([Finish(lease=leases[0], task=done)]) == [False]
        assert await legal.finish([Finish(lease=theirs[0], task=done)]) == [True]

    @scenario
    async def test_a_task_that_was_moved_is_found_by_its_id(self, legal: LegalStore, _clock: VirtualClock) -> None:
        store = cast("RoutesTasks", legal.store)
        names = ["paused", "later", "changed", "now", "deleted", "replaced", "cancelled"]
        await legal.add([task(name) for name in names])
        assert sorted(await store.move(await own(legal, 0), names, 7)) == sorted(names)
        await legal.pause(["paused"])
        await legal.reschedule("later", 9000)
        [there] = await legal.get(["changed"])
        assert there is not None
        await legal.amend([replace(there, priority=9, partition=0)])
        await legal.run_now(["now"])
        await legal.remove(["deleted"])
        await legal.add([task("replaced", 2000)], "replace")
        await legal.cancel(["cancelled"], "no")
        found = {each.id: each for each in await legal.get(names) if each is not None}
        where = {name: each.partition for name, each in found.items()}
        assert where.pop("replaced") == 0, "it is where the new one belongs"
        assert where == dict.fromkeys(["paused", "later", "changed", "now", "cancelled"], 7)
        assert found["paused"].paused
        assert (found["changed"].priority, found["later"].run_at) == (9, 9000)
        assert found["cancelled"].status is Status.CANCELLED
        await legal.revive(["cancelled"], 1000)
        theirs = await own(legal, 7, node="there")
        due = await legal.due(theirs, 10**6, None, 10)
        assert sorted(ids(due)) == ["cancelled", "changed", "later", "now"]

    @scenario
    async def test_only_pending_tasks_of_owned_partitions_are_moved(
        self, legal: LegalStore, clock: VirtualClock
    ) -> None:
        store = cast("RoutesTasks", legal.store)
        leases, _ = await start(legal, task("running"))
        await legal.add(
            [task("a"), task("paused"), task("over"), task("other", partition=1), task("there", partition=5)]
        )
        await legal.pause(["paused"])
        await legal.cancel(["over"], "no")
        all_of_them = ["running", "paused", "over", "other", "there"]
        assert await store.move(leases, all_of_them, 5) == []
        forged = [replace(leases[0], nonce="0" * 16), replace(leases[0], partition=1)]
        assert await store.move(forged, ["a", "other"], 5) == []
        assert await store.move(leases, ["a"], 0) == [], "it is there"
        await raised(InvalidTask, store.move(leases, ["a"], legal.partitions))
        await lapse(legal, clock, leases)
        assert await store.move(leases, ["a"], 5) == [], "the lease ended"
        await own(legal, 0, node="there")
        assert await store.move(leases, ["a"], 5) == [], "another node owns it"
        assert [each.partition for each in await legal.get(["a"]) if each is not None] == [0]

    @scenario
    async def test_a_move_is_told_where_the_tasks_go(self, legal: LegalStore, _clock: VirtualClock) -> None:
        store = cast("RoutesTasks", legal.store)
        await legal.add([task("a"), task("b", partition=1)])
        leases = await own(legal, 0, 1)
        watch = legal.changes([2, 3])
        told = asyncio.ensure_future(anext(watch))
        assert sorted(await store.move(leases, ["a", "b"], 3)) == ["a", "b"], "from several partitions at once"
        assert (await asyncio.wait_for(told, 10)).keys() == {3}
