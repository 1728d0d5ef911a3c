"""Nodes with different handlers on one store, in virtual time: each task runs where its handler is."""

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tests.scheduler.worlds import World
from tickwheel.scheduler import AsyncScheduler
from tickwheel.stores.memory import MemoryStore
from tickwheel.tasks import Status


class Cluster(World):
    """Nodes that each have handlers of their own."""

    def __init__(self, *, timed_leases: bool = True) -> None:
        super().__init__(lease_ttl_ms=3000, rescan_ms=30_000, horizon_ms=600_000)
        self.store: Any = CountingStore(now_ms=self.now, timed_leases=timed_leases)
        self.by: list[tuple[str, str, int]] = []  # who ran what, and when

    async def join(self, name: str, *handlers: str) -> AsyncScheduler:
        """Start a node that has these handlers."""
        node = AsyncScheduler(self.store, clock=self.clock, rng=Random(name), **self.options)
        for handler in handlers:
            self.register(node, name, handler)
        return await node.start()

    async def client(self) -> AsyncScheduler:
        """Open a scheduler that only adds."""
        return await AsyncScheduler(self.store, run=False, clock=self.clock, rng=Random(0)).start()

    def register(self, node: AsyncScheduler, name: str, handler: str) -> None:
        async def run(what: str) -> None:
            self.by.append((name, what, self.now()))

        node.task(handler)(run)

    async def until(self, done: Callable[[], bool], seconds: float) -> None:
        """Wait until something is the case, but not for longer."""
        async with asyncio.timeout(seconds):
            while not done():  # noqa: ASYNC110 - nobody tells a test
                await asyncio.sleep(0.01)

    async def shared(self, *nodes: AsyncScheduler) -> None:
        """Wait until the partitions are shared among nodes."""
        async with asyncio.timeout(60):
            while len({lease.node for lease in await self.store.leases()}) < len(nodes):  # noqa: ASYNC110
                await asyncio.sleep(0.01)


class CountingStore(MemoryStore):
    """Counts moves, and the tasks that were moved."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.calls: Counter[str] = Counter()

    async def move(self, leases: Any, ids: Any, partition: int) -> list[str]:
        moved = await super().move(leases, ids, partition)
        self.calls["move"] += 1
        self.calls["moved"] += len(moved)
        return moved

    async def nodes(self) -> Any:
        self.calls["nodes"] += 1
        return await super().nodes()


@pytest.fixture(params=[True, False], ids=["timed leases", "untimed leases"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    return Cluster(timed_leases=request.param)


def test_each_task_runs_at_the_node_that_has_its_handler(cluster: Cluster) -> None:
    async def story() -> None:
        async with await cluster.join("a", "of.a", "both") as a, await cluster.join("b", "of.b", "both") as b:
            await cluster.shared(a, b)
            for n in range(20):
                await a.add("of.a", {"what": f"a{n}"}, delay=5, id=f"a{n}")
                await b.add("of.b", {"what": f"b{n}"}, delay=5, id=f"b{n}")
                await b.add("both", {"what": f"c{n}"}, delay=5, id=f"c{n}")
            due = cluster.now() + 5000
            await cluster.until(lambda: len(cluster.by) == 60, 7)
            assert {(name, what[0]) for name, what, _ in cluster.by} == {("a", "a"), ("b", "b"), ("a", "c"), ("b", "c")}
            assert max(at for *_, at in cluster.by) <= due + 1000
            await asyncio.sleep(1)
            for task_id in ("a0", "a1", "a2", "b0", "b1", "b2"):
                task = await a.get(task_id)
                assert (task.status, task.attempt) == (Status.COMPLETED, 1), "a move is no attempt"
                assert len(await b.history(task_id)) == 1
            assert 0 < cluster.store.calls["moved"] < 40, "what is where its handler is stays there"

    cluster.perform(story)


def test_a_task_whose_handler_nobody_has_waits_for_a_node_that_has_it(cluster: Cluster) -> None:
    async def story() -> None:
        async with await cluster.join("a", "of.a") as a:
            client = await cluster.client()
            for n in range(10):
                await client.add("of.b", {"what": f"{n}"}, id=f"{n}")
            await asyncio.sleep(100)
            before = [await a.get(f"{n}") for n in range(10)]
            assert {(task.status, task.attempt, task.version) for task in before} == {(Status.PENDING, 0, 0)}
            async with await cluster.join("c", "of.c") as c:
                await cluster.shared(a, c)
                await asyncio.sleep(100)
                assert not cluster.by
                assert not cluster.store.calls["move"]
                async with await cluster.join("b", "of.b"):
                    await cluster.until(lambda: len(cluster.by) == 10, 3)
                    assert {name for name, *_ in cluster.by} == {"b"}

    cluster.perform(story)


def test_a_handler_registered_later_is_published(cluster: Cluster) -> None:
    async def story() -> None:
        async with await cluster.join("a", "of.a") as a, await cluster.join("b", "of.b") as b:
            await cluster.shared(a, b)
            client = await cluster.client()
            for n in range(20):
                await client.add("later", {"what": f"{n}"})
            await asyncio.sleep(10)
            assert not cluster.by
            cluster.register(b, "b", "later")
            await cluster.until(lambda: len(cluster.by) == 20, 1.5)
            assert {name for name, *_ in cluster.by} == {"b"}

    cluster.perform(story)


def test_a_rolling_deploy(cluster: Cluster) -> None:
    """The old node lacks a handler that the new one has; then the old one stops."""

    async def story() -> None:
        old = await cluster.join("old", "known")
        new = await cluster.join("new", "known", "added")
        await cluster.shared(old, new)
        for n in range(30):
            await new.add("added", {"what": f"now {n}"})
            await new.add("added", {"what": f"later {n}"}, delay=20)
            await new.add("known", {"what": f"known {n}"}, delay=19.9)
        await cluster.until(lambda: len(cluster.by) == 30, 1.5)
        await asyncio.sleep(18.3)
        stopping = asyncio.create_task(old.stop())
        await cluster.until(lambda: len(cluster.by) == 90, 4)
        await stopping
        assert {name for name, what, _ in cluster.by if not what.startswith("known")} == {"new"}
        assert max(Counter(what for _, what, _ in cluster.by).values()) == 1
        await new.stop()

    cluster.perform(story)


def test_many_tasks_are_moved_in_batches_and_each_runs_once(cluster: Cluster) -> None:
    async def story() -> None:
        async with await cluster.join("a", "of.a") as a, await cluster.join("b", "of.b") as b:
            await cluster.shared(a, b)
            await b.add_many([{"handler": "of.b", "args": {"what": f"{n}"}} for n in range(4_000)])
            await cluster.until(lambda: len(cluster.by) == 4_000, 30)
            assert max(Counter(what for _, what, _ in cluster.by).values()) == 1
            assert cluster.store.calls["move"] >= 1_500 // 500

    cluster.perform(story)


def test_tasks_whose_handler_nobody_has_cost_others_nothing(cluster: Cluster) -> None:
    async def story() -> None:
        async with await cluster.join("a", "of.a") as a, await cluster.join("b", "of.b") as b:
            await cluster.shared(a, b)
            client = await cluster.client()
            for _ in range(2):
                await client.add_many([{"handler": "of.none", "args": {"what": "no"}} for _ in range(10_000)])
            await asyncio.sleep(5)
            cluster.store.calls.clear()
            for n in range(20):
                await a.add("of.a", {"what": f"a{n}"}, delay=1)
            due = cluster.now() + 1000
            await cluster.until(lambda: len(cluster.by) == 20, 3)
            assert max(at for *_, at in cluster.by) <= due + 1000
            await asyncio.sleep(60)
            assert cluster.store.calls["moved"] <= 20
            waiting = (await a.list(handler="of.none", limit=1000)).tasks
            assert {task.version for task in waiting} == {0}, "nothing was written for those that wait"
            # A look at the nodes each time the leases are renewed, or not even that.
            assert cluster.store.calls["nodes"] <= (2 * 70 if cluster.store.timed_leases else 10)

    cluster.perform(story)


def test_a_recurring_task_stays_where_it_was_moved(cluster: Cluster) -> None:
    async def story() -> None:
        async with await cluster.join("a", "of.a") as a, await cluster.join("b", "of.b") as b:
            await cluster.shared(a, b)
            for n in range(10):
                await b.add("of.b", {"what": f"{n}"}, every=1, times=30, id=f"{n}")
            await cluster.until(lambda: len(cluster.by) == 300, 40)
            assert cluster.store.calls["moved"] <= 10
            await asyncio.sleep(1)
            assert {(await b.get(f"{n}")).status for n in range(10)} == {Status.COMPLETED}

    cluster.perform(story)


def test_a_task_goes_to_a_node_that_has_workers_for_its_handler(cluster: Cluster) -> None:
    async def story() -> None:
        cluster.options["threads"] = 0
        async with await cluster.join("a", "of.a") as a, await cluster.join("b", "both") as b:
            a.task("both")(print)  # on a thread, of which there is none
            await cluster.shared(a, b)
            for n in range(20):
                await a.add("both", {"what": f"{n}"}, delay=5, id=f"{n}")
            due = cluster.now() + 5000
            await cluster.until(lambda: len(cluster.by) == 20, 7)
            assert {name for name, *_ in cluster.by} == {"b"}
            assert max(at for *_, at in cluster.by) <= due + 1000
            await asyncio.sleep(1)
            assert {(await a.get(f"{n}")).status for n in range(20)} == {Status.COMPLETED}
            assert {len(await a.history(f"{n}")) for n in range(20)} == {1}

    cluster.perform(story)


@pytest.mark.parametrize(("pool", "option"), [("thread", "threads"), ("process", "processes")])
@pytest.mark.parametrize("limit", [None, 1])
@pytest.mark.parametrize("once", [False, True])
def test_a_task_for_which_no_node_has_workers_waits_and_says_what_to_do(
    cluster: Cluster, pool: str, option: str, limit: int | None, *, once: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        cluster.options.update(threads=0, processes=0)
        async with await cluster.join("a", "of.a") as a:
            a.task("both", pool=pool, concurrency=limit)(print)
            a.task("of.c")(cluster.until)  # registering another one does not repeat the warning
            await a.add("both", {"what": "x"}, id="x", at_most_once=once)
            await a.add("of.a", {"what": "y"}, id="y")
            await asyncio.sleep(100)
            task = await a.get("x")
            assert (task.status, task.attempt, task.reason_code) == (Status.PENDING, 0, "no_handler")
            assert task.reason is not None
            assert task.reason.startswith("waiting for a node with handler 'both'; nodes online: 1; this node has it")
            assert f"set {option} to 1 or more" in task.reason
            assert (await (await cluster.client()).get("x")).reason_code == "no_handler"
            assert [what for _, what, _ in cluster.by] == ["y"]
            async with await cluster.join("b", "both"):
                await cluster.until(lambda: len(cluster.by) == 2, 10)
            assert await a.history("x")

    cluster.perform(story)
    assert caplog.text.count("handler 'both' runs in pool") == 1
    assert f"set {option} to 1 or more" in caplog.text
