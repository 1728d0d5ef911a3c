"""Nodes on one store, in virtual time: who has what, when it moves, and that nothing is run twice or not at all."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.cluster.virtual import TTL_S, Cluster, SlowStore, id_in
from tests.scheduler.flaky import FlakyStore
from tickwheel.errors import StoreUnavailable
from tickwheel.observe.picture import MOVES
from tickwheel.scheduler import AsyncScheduler
from tickwheel.tasks import LatePolicy, Status


def test_the_first_node_has_everything_when_it_is_started(cluster: Cluster) -> None:
    async def story() -> None:
        await cluster.join("a")
        assert await cluster.held() == {"a": 64}

    cluster.live(story)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_node_that_could_not_start_is_in_nobodys_way(cluster: Cluster, after: bool) -> None:
    async def story() -> None:
        for fail_at in range(1, 6):
            flaky: Any = FlakyStore(cluster.store, fail_at, after=after)
            with pytest.raises(StoreUnavailable):
                await cluster.join("a", flaky)
            assert await cluster.store.heartbeat("b", 1) == ["b"], flaky.failed
            answer_lost = after and flaky.failed == "acquire"  # nobody can give back what nobody knows of
            assert bool(await cluster.store.leases()) == answer_lost, flaky.failed
            await asyncio.sleep(TTL_S)

    cluster.live(story)


def test_nodes_that_join_and_leave_share_fairly(cluster: Cluster) -> None:
    async def story() -> None:
        await cluster.join("a")
        await cluster.join("b")
        await cluster.until({"a": 32, "b": 32}, TTL_S / 2)
        await cluster.join("c")
        await asyncio.sleep(TTL_S)
        held = await cluster.held()
        assert sorted(held.values()) == [21, 21, 22]
        await cluster.leave("a")
        await cluster.until({"b": 32, "c": 32}, 0.3)
        before = await cluster.store.leases()
        await asyncio.sleep(60)
        assert [lease.epoch for lease in before] == [lease.epoch for lease in await cluster.store.leases()]
        await cluster.leave("c")
        await cluster.until({"b": 64}, 0.3)

    cluster.live(story)


def test_a_node_that_takes_long_for_its_rounds_gives_others_their_share(cluster: Cluster) -> None:
    async def story() -> None:
        slow: Any = SlowStore(cluster.store, 0, after=False)
        slow.slow_at, slow.takes_s = "leases", TTL_S * 0.4  # a round is due every third of a lease
        await cluster.join("a", slow)
        await cluster.join("b")
        await cluster.until({"a": 32, "b": 32}, TTL_S * 2)

    cluster.live(story)


def test_what_a_dead_node_had_is_taken_over_when_its_lease_ends(cluster: Cluster) -> None:
    async def story() -> None:
        a = await cluster.join("a")
        await cluster.join("b")
        await cluster.until({"a": 32, "b": 32}, TTL_S / 2)
        for partition in range(64):
            await a.add("whose", {"what": str(partition), "seconds": 0.1}, delay=0.2, id=id_in(partition))
        await asyncio.sleep(0.25)
        assert Counter(name for name, _ in cluster.by) == {"a": 32, "b": 32}
        cluster.die("a")
        await cluster.until({"b": 64}, TTL_S + 0.01)
        await asyncio.sleep(2)  # a task waits for about a second before it runs again: it may have been to blame
        assert Counter(name for name, _ in cluster.by) == {"a": 32, "b": 64}
        results = [(await cluster.nodes["b"].get(id_in(partition))).result for partition in range(64)]
        assert results == ["b"] * 64

    cluster.live(story)


def moves(scheduler: AsyncScheduler) -> dict[str, int]:
    """Return how partitions came and went."""
    picture = scheduler.picture()
    assert picture is not None
    assert set(picture.moves) <= set(MOVES)
    return {move: partitions for move, partitions in picture.moves.items() if partitions}


def test_how_partitions_move_is_counted(cluster: Cluster) -> None:
    async def story() -> None:
        a = await cluster.join("a")
        assert moves(a) == {"free": 64}
        b = await cluster.join("b")
        await cluster.until({"a": 32, "b": 32}, TTL_S / 2)
        assert moves(a) == {"free": 64, "given_back": 32}
        assert moves(b) == {"handed_over": 32}
        cluster.die("a")
        await cluster.until({"b": 64}, TTL_S + 0.01)
        assert moves(b) == {"handed_over": 32, "taken_over": 32}
        c = await cluster.join("c")
        await cluster.until({"b": 32, "c": 32}, TTL_S / 2)
        b_engine = cluster.engine("b")
        b_engine._ownership._store = FlakyStore(cluster.store, 1, after=False)  # a round fails, and the next is late
        b_engine._ownership._next_round_ns = cluster.clock.monotonic_ns() + int(2 * TTL_S * 1e9)
        await asyncio.sleep(3 * TTL_S)
        assert moves(c)["taken_over"] == 32
        assert moves(b)["lost"] == 32

    cluster.live(story)


def test_a_partition_is_given_back_only_when_nothing_runs_in_it(cluster: Cluster) -> None:
    async def story() -> None:
        a = await cluster.join("a")
        for partition in range(64):
            await a.add("whose", {"what": str(partition), "seconds": 10.0 + partition / 10}, id=id_in(partition))
        await asyncio.sleep(1)
        assert len(cluster.by) == 64
        await cluster.join("b")
        await asyncio.sleep(8)
        assert await cluster.held() == {"a": 64}
        await cluster.until({"a": 32, "b": 32}, 10)
        await asyncio.sleep(10)
        assert Counter(cluster.by).most_common(1)[0][1] == 1
        assert len(cluster.by) == 64
        assert (await a.counts())[Status.COMPLETED] == 64
        assert {event.kind for event in cluster.events} == {"added", "started", "completed"}, "none lost or recovered"

    cluster.live(story)


def test_quiet_partitions_are_given_back_at_once_though_others_are_busy(cluster: Cluster) -> None:
    async def story() -> None:
        a = await cluster.join("a")
        for partition in range(32, 64):
            await a.add("whose", {"what": str(partition), "seconds": 60.0}, id=id_in(partition))
        await asyncio.sleep(1)
        await cluster.join("b")
        await cluster.until({"a": 32, "b": 32}, TTL_S / 2)
        assert [
            lease.partition
            for lease in await cluster.store.leases()
            if cluster.engine("a")._ownership.of(lease.partition)
        ] == list(range(32, 64))

    cluster.live(story)


def test_a_node_that_waits_for_its_last_runs_gives_the_rest_away_at_once(cluster: Cluster) -> None:
    async def story() -> None:
        a = await cluster.join("a")
        await cluster.join("b")
        await cluster.until({"a": 32, "b": 32}, TTL_S / 2)
        mine = next(partition for partition in range(64) if cluster.engine("a")._ownership.of(partition))
        await a.add("whose", {"what": "long", "seconds": 20.0}, id=id_in(mine))
        await asyncio.sleep(1)
        leaving = asyncio.create_task(cluster.leave("a"))
        await asyncio.sleep(0.5)
        held = await cluster.held()
        assert held["b"] == 63
        await cluster.nodes["b"].add("whose", {"what": "next"}, id=id_in(mine, "next"))
        await asyncio.sleep(10)
        assert cluster.by == [("a", "long")], "nobody else begins something there meanwhile"
        await leaving
        await cluster.until({"b": 64}, 0.3)
        await asyncio.sleep(0.1)
        assert cluster.by == [("a", "long"), ("b", "next")]

    cluster.live(story)


def test_what_is_waiting_moves_along_and_is_forgotten_by_who_had_it(cluster: Cluster) -> None:
    async def story() -> None:
        a = await cluster.join("a")
        await asyncio.sleep(0.1)  # until it knows what is to come
        await a.add_many({"handler": "whose", "args": {"what": str(number)}, "delay": 60} for number in range(640))
        assert len(cluster.engine("a")._index) == 640
        b = await cluster.join("b")
        await cluster.until({"a": 32, "b": 32}, TTL_S / 2)
        await asyncio.sleep(0.1)
        indexed = [len(cluster.engine(name)._index) for name in "ab"]
        assert sum(indexed) == 640
        assert min(indexed) > 200
        await asyncio.sleep(60)
        assert sorted(int(what) for _, what in cluster.by) == list(range(640))
        assert (await b.counts())[Status.COMPLETED] == 640

    cluster.live(story)


def test_a_stream_of_tasks_runs_once_while_nodes_come_and_go(cluster: Cluster) -> None:
    async def story() -> None:
        await cluster.join("a")
        adder = cluster.scheduler(run=False)
        adder.task("whose")(lambda: None)
        await adder.start()
        for number in range(3000):
            if number % 500 == 250:
                await cluster.join(f"node{number}")
            if number % 700 == 699:
                await cluster.leave(min(cluster.nodes))
            await adder.add("whose", {"what": str(number), "seconds": 0.05}, delay=(number % 7) / 10)
            await asyncio.sleep(0.01)
        await asyncio.sleep(31)
        assert sorted(int(what) for _, what in cluster.by) == list(range(3000))
        assert len({name for name, _ in cluster.by}) > 4

    cluster.live(story)
    late = [event.late_ms for event in cluster.events if event.late_ms is not None]
    assert min(late) >= 0
    assert max(late) < 1000, "who is new somewhere finds there what waits"


def test_leases_are_kept_however_long_it_takes_to_load_what_is_due(cluster: Cluster) -> None:
    cluster.options["batch_max"] = 10
    slow: Any = SlowStore(cluster.store, 0, after=False)
    slow.slow_at, slow.takes_s = "overdue", 1.0

    async def story() -> None:
        adder = await cluster.scheduler(run=False).start()
        await adder.add_many({"handler": "whose", "args": {"what": str(number)}} for number in range(200))
        begun = cluster.now()
        await cluster.join("a", slow)
        assert cluster.now() - begun > 3 * TTL_S * 1000
        assert await cluster.held() == {"a": 64}
        await asyncio.sleep(60)
        assert {lease.epoch for lease in await cluster.store.leases()} == {1}
        assert sorted(int(what) for _, what in cluster.by) == list(range(200))

    cluster.live(story)


def take_over(fail_at: int, *, after: bool) -> tuple[int, str | None]:
    """Let a node take over from a dead one with a store that fails once; return how many calls it made."""
    cluster = Cluster()
    flaky: Any = FlakyStore(cluster.store, fail_at, after=after)
    calls = 0

    async def story() -> None:
        nonlocal calls
        a = await cluster.join("a")
        await cluster.join("b", flaky)
        for partition in range(0, 64, 4):
            await a.add("whose", {"what": "long", "seconds": 2.0}, delay=3, id=id_in(partition))
            await a.add("whose", {"what": "later"}, delay=9, id=id_in(partition, "later"))
        await asyncio.sleep(4)
        cluster.die("a")
        await asyncio.sleep(12)
        calls = flaky.calls
        assert (await a.counts())[Status.COMPLETED] == 32, (fail_at, flaky.failed)

    cluster.live(story)
    return calls, flaky.failed


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_whichever_call_fails_in_a_take_over_every_task_runs(after: bool) -> None:
    calls, _ = take_over(0, after=after)
    start_calls = 10  # those of the start are tested elsewhere
    failed = {take_over(fail_at, after=after)[1] for fail_at in range(start_calls, calls)}
    assert {"heartbeat", "leases", "renew", "acquire", "orphans", "due", "claim", "finish"} <= failed


def test_what_is_due_does_not_wait_for_the_longest_run_where_another_node_joins(cluster: Cluster) -> None:
    async def story() -> None:
        a = await cluster.join("a")
        for partition in range(64):
            await a.add("whose", {"what": "long", "seconds": 100.0}, id=id_in(partition, "long"))
        await asyncio.sleep(1)
        await cluster.join("b")
        await asyncio.sleep(0.5)
        for partition in range(64):
            await a.add("whose", {"what": str(partition)}, id=id_in(partition))
        await asyncio.sleep(5)
        assert Counter(cluster.by)["a", "long"] == 64
        assert {what for _, what in cluster.by} == {"long", *map(str, range(64))}
        assert await cluster.held() == {"a": 64}, "they stay where something runs"
        await asyncio.sleep(100)
        await cluster.until({"a": 32, "b": 32}, 60)

    cluster.live(story)


def test_what_waited_for_a_limit_was_not_missed_when_another_node_takes_it(cluster: Cluster) -> None:
    async def story() -> None:
        skip = LatePolicy(mode="skip", grace_ms=500)
        a = await cluster.join("a")

        async def one_by_one(what: str) -> None:
            cluster.ran.append((cluster.now(), what))
            await asyncio.sleep(5)

        a.task("limited", concurrency=1)(one_by_one)
        await a.add("limited", {"what": "first"})
        await asyncio.sleep(0.5)
        for number in range(10):
            await a.add("limited", {"what": "waits"}, id=str(number), late=skip)
        await asyncio.sleep(2)
        b = cluster.nodes["b"] = cluster.scheduler()
        b.task("limited", concurrency=1)(one_by_one)
        await b.start()
        await asyncio.sleep(100)
        assert Counter(what for _, what in cluster.ran) == {"first": 1, "waits": 10}

    cluster.live(story)


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_what_was_paused_while_a_node_ran_was_not_missed(cluster: Cluster, how: str) -> None:
    async def story() -> None:
        skip = LatePolicy(mode="skip", grace_ms=300)
        a = await cluster.join("a")
        await a.add("note", {"what": "paused"}, id="paused", late=skip, delay=0.3)
        await a.pause("paused")
        await asyncio.sleep(1)
        if how == "killed":
            await a.add("note", {"what": "later"})
            await asyncio.sleep(2)  # that tasks are run is noted when some came due
            cluster.die("a")
        else:
            await cluster.leave("a")
        await asyncio.sleep(60)
        b = await cluster.join("b")
        await cluster.until({"b": 64}, 60)
        await b.resume("paused")
        await asyncio.sleep(1)
        assert (await b.get("paused")).status is Status.COMPLETED

    cluster.live(story)


def test_what_came_due_while_no_node_ran_was_missed(cluster: Cluster) -> None:
    async def story() -> None:
        a = await cluster.join("a")
        await a.add("note", {"what": "missed"}, id="missed", late=LatePolicy(mode="skip", grace_ms=300), delay=10)
        await cluster.leave("a")
        await asyncio.sleep(60)
        b = await cluster.join("b")
        await asyncio.sleep(1)
        assert (await b.get("missed")).status is Status.CANCELLED

    cluster.live(story)
