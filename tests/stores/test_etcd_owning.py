"""What owners leave in etcd, and how what runs and what waits is found among much else."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from tests.etcd import Prefix
from tickwheel.stores.contract import Filter, Finish, Lease
from tickwheel.stores.etcd import EtcdStore, lists
from tickwheel.stores.etcd.requests import ask_all
from tickwheel.tasks.record import Run, RunStatus, Status, Task
from tickwheel.testing.stores.scenario import ids, task

PARTITIONS = 8


def play(prefix: Prefix, story: Callable[[EtcdStore], Awaitable[None]]) -> None:
    async def main() -> None:
        store = await EtcdStore.open(prefix.url(), partitions=PARTITIONS)
        try:
            await story(store)
        finally:
            await store.close()

    asyncio.run(main())


async def count(store: EtcdStore, prefix: bytes) -> int:
    [answer] = await store._ground.members.read([ask_all(prefix, only="count")])
    return int(answer.count)


async def finish(store: EtcdStore, leases: list[Lease], claimed: list[Task]) -> list[bool]:
    of = {lease.partition: lease for lease in leases}
    done = [replace(each, status=Status.COMPLETED) for each in claimed]
    return await store.finish([Finish(lease=of[each.partition], task=each) for each in done])


def test_claims_that_were_finished_without_an_answer_are_forgotten(prefix: Prefix) -> None:
    async def story(store: EtcdStore) -> None:
        leases = await store.acquire(range(PARTITIONS), "here", 60_000)
        await store.add([task("a"), task("b")])
        claimed = await store.claim(leases, ["a", "b"], 1000)
        again = await EtcdStore.open(prefix.url())
        assert await finish(again, leases, claimed) == [True, True]
        await again.close()
        assert await finish(store, leases, claimed) == [False, False]
        assert len(store._claims._groups.take(10)) == 1, "it is left to be deleted"

    play(prefix, story)


def test_claims_that_are_over_are_forgotten(prefix: Prefix) -> None:
    async def story(store: EtcdStore) -> None:
        leases = await store.acquire(range(PARTITIONS), "here", 60_000)
        names = [f"{number:03}" for number in range(200)]
        left = []
        for _ in range(4):
            await store.add([task(each, partition=int(each) % PARTITIONS) for each in names], "replace")
            claimed = await store.claim(leases, names, 1000)
            assert await finish(store, leases, claimed) == [True] * len(names)
            left.append(await count(store, store._ground.keys.claims))
        assert max(left[1:]) <= left[0] <= 2 * PARTITIONS, "they pile up"
        await store.release(leases)
        again = await store.acquire(range(PARTITIONS), "there", 60_000)
        assert await store.orphans(again, 100) == []
        assert await count(store, store._ground.keys.claims) == 0

    play(prefix, story)


def test_another_process_with_the_lease_can_finish_what_it_did_not_claim(prefix: Prefix) -> None:
    async def story(store: EtcdStore) -> None:
        other = await EtcdStore.open(prefix.url())
        await store.add([task("a"), task("b"), task("c")])
        leases = await store.acquire([0], "here", 60_000)
        claimed = await store.claim(leases, ["a", "b", "c"], 1000)
        assert await finish(other, leases, claimed[:1]) == [True]
        assert await finish(store, leases, claimed[:2]) == [False, True]
        await store.release(leases)
        later = await other.acquire([0], "there", 60_000)
        assert await other.orphans(later, 10) == claimed[2:]
        assert (await other.query(Filter(status=Status.RUNNING))).tasks == claimed[2:]
        await other.close()

    play(prefix, story)


def test_many_pending_tasks_are_listed_by_arrival_as_few_are(prefix: Prefix, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(store: EtcdStore) -> None:
        names = [f"{number:02}" for number in range(40)]
        await store.add([task(each, 9000 - int(each), partition=int(each) % PARTITIONS) for each in names])
        await store.pause(names[::3])
        wanted = [each for each in names if int(each) % 3]
        for few_max in (1000, 5):
            monkeypatch.setattr(lists, "FEW_MAX", few_max)
            for order, expected in (("newest", wanted[::-1]), ("oldest", wanted)):
                found: list[str] = []
                cursor = None
                while not found or cursor is not None:
                    asked = Filter(status=Status.PENDING, order=order)  # type: ignore[arg-type] # it is one of them
                    page = await store.query(asked, cursor, limit=7)
                    found += ids(page.tasks)
                    cursor = page.cursor
                assert found == expected

    play(prefix, story)


def test_runs_are_purged_though_their_task_goes_on(prefix: Prefix) -> None:
    async def story(store: EtcdStore) -> None:
        await store.add([task("a")])
        [lease] = await store.acquire([0], "here", 60_000)
        for number in range(1, 6):
            [running] = await store.claim([lease], ["a"], 1000)
            run = Run(
                task_id="a",
                attempt=number,
                occurrence_at=1000,
                started_at=number,
                finished_at=number * 100,
                status=RunStatus.COMPLETED,
            )
            assert await store.finish([Finish(lease=lease, task=replace(running, status=Status.PENDING), run=run)])
        assert await store.purge(300) == 0
        assert [run.attempt for run in await store.history("a")] == [5, 4, 3]
        assert await count(store, store._ground.keys.runs) == 3
        await store.remove(["a"])
        assert await count(store, store._ground.keys.prefix) == len(
            ["version", "last", "news", "owner", "epoch", "claims"]
        )

    play(prefix, story)
