"""How calls share scripts, and what happens to those who are in each other's way, on one server and on a cluster."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from tests.redis import Redis
from tickwheel.errors import DuplicateTask, StoreClosed, VersionMismatch
from tickwheel.scheduler.task_builder import partition_of
from tickwheel.stores import PARTITIONS_MAX
from tickwheel.stores.contract import Filter, Finish
from tickwheel.stores.redis import RedisStore
from tickwheel.stores.redis.reading import load
from tickwheel.stores.redis.writing import Draft, put
from tickwheel.stores.validation import BATCH_MAX
from tickwheel.tasks.record import Status, Task
from tickwheel.testing.redis import RedisServer
from tickwheel.testing.stores.scenario import ids, own, task

Story = Callable[[RedisStore, RedisStore], Awaitable[None]]


@pytest.fixture(params=["redis_server", "redis_cluster"])
def redis(request: pytest.FixtureRequest) -> Redis:
    return Redis(request.getfixturevalue(request.param).url)


def play(redis: Redis, story: Story) -> None:
    """Let a story happen between two processes, as it were."""

    async def main() -> None:
        stores = [await RedisStore.open(redis.url()) for _ in range(2)]
        try:
            await story(*stores)
        finally:
            for store in stores:
                await store.close()

    asyncio.run(main())


def at_home(task_id: str, **fields: object) -> Task:
    """Make a task where schedulers put it."""
    return task(task_id, partition=partition_of(task_id, 64), **fields)  # type: ignore[arg-type]


def test_two_stores_never_add_one_id_twice(redis: Redis) -> None:
    async def story(store: RedisStore, other: RedisStore) -> None:
        for kind in ("reject", "keep"):
            for made in (task, at_home):
                name = f"{kind}-{made.__name__}-"
                calls = [
                    each.add([made(f"{name}{n}"), made(f"{name}{49 - n}")], kind)  # in opposite orders
                    for n in range(25)
                    for each in (store, other)
                ]
                answers = await asyncio.gather(*calls, return_exceptions=True)
                assert all(isinstance(answer, list | DuplicateTask) for answer in answers), answers
                assert sum(each.added for answer in answers if isinstance(answer, list) for each in answer) == 50
        assert (await store.counts())[Status.PENDING] == 200

    play(redis, story)


def test_who_is_refused_takes_no_one_along(redis: Redis) -> None:
    async def story(store: RedisStore, _other: RedisStore) -> None:
        await store.add([at_home("there")])
        calls = (store.add([at_home(str(n)), at_home("there" if n % 3 == 0 else f"{n}b")]) for n in range(9))
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(answer) for answer in answers] == [DuplicateTask, list, list] * 3
        there = await store.get([str(n) for n in range(9)])
        assert [each is not None for each in there] == [False, True, True] * 3
        assert (await store.counts())[Status.PENDING] == 13

    play(redis, story)


def test_counts_are_right_whoever_changes_what(redis: Redis) -> None:
    async def story(store: RedisStore, other: RedisStore) -> None:
        leases = await store.acquire(range(64), "here", 60_000)

        async def work(each: RedisStore, number: int) -> None:
            names = [f"{number}-{n}" for n in range(10)]
            await each.add([at_home(name) for name in names])
            claimed = await each.claim(leases, names, 1000)
            ends = [replace(one, status=Status.COMPLETED, finished_at=1) for one in claimed[:7]]
            assert all(await each.finish([Finish(lease=leases[end.partition], task=end) for end in ends]))
            await each.cancel(names[8:], "no")

        await asyncio.gather(*(work(store if n % 2 else other, n) for n in range(20)))
        counted = {each.value: many for each, many in (await store.counts()).items() if many}
        assert counted == {"running": 60, "completed": 140}

    play(redis, story)


def test_of_two_who_change_a_task_both_do_one_after_the_other(redis: Redis) -> None:
    async def story(store: RedisStore, other: RedisStore) -> None:
        names = [f"t{n}" for n in range(20)]
        await store.add([at_home(name) for name in names])
        await asyncio.gather(*(each.reschedule(name, 5000) for name in names for each in (store, other)))
        await asyncio.gather(store.pause(names), other.reschedule("t3", 6000), other.cancel(names[10:], "no"))
        there = [each for each in await store.get(names) if each is not None]
        assert [each.paused or each.status.value for each in there] == [True] * 10 + ["cancelled"] * 10
        assert there[3].version == 4
        answers = await asyncio.gather(
            *(
                each.amend([replace(there[0], tags=["new"]), replace(there[1], tags=["new"])])
                for each in (store, other)
            ),
            return_exceptions=True,
        )
        assert sorted(type(answer).__name__ for answer in answers) == ["VersionMismatch", "list"]
        assert sum(isinstance(answer, VersionMismatch) for answer in answers) == 1

    play(redis, story)


def test_what_was_asked_to_stop_while_it_is_finished_is_never_lost(redis: Redis) -> None:
    async def story(store: RedisStore, other: RedisStore) -> None:
        names = [f"t{n}" for n in range(50)]
        await store.add([at_home(name) for name in names])
        leases = await store.acquire(range(64), "here", 60_000)
        claimed = await store.claim(leases, names, 1000)
        again = [replace(each, status=Status.PENDING, run_at=9000) for each in claimed]
        finishes = [Finish(lease=leases[each.partition], task=each) for each in again]
        accepted, asked = await asyncio.gather(store.finish(finishes), other.cancel(names, "enough"))
        assert all(accepted)
        assert all(each is not None for each in asked)
        assert {each.status for each in await store.get(names) if each is not None} == {Status.CANCELLED}

    play(redis, story)


def test_what_a_dead_process_held_is_free_after_a_while(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tickwheel.stores.redis.writing.HOLD_MS", 300)

    async def story(store: RedisStore, other: RedisStore) -> None:
        await other.add([at_home("a"), at_home("b")])
        there = await load(store._shards, ["a", "b"])
        draft = Draft(64)
        for entry in there.entries.values():
            draft.change(replace(entry.task, version=1, run_at=1), there, entry.serial)
        held: dict[int, Any] = {}
        for part, (tasks, notes) in draft.parts.items():
            shard = store._shards.servers.shard_of(part)
            held.setdefault(shard, ("hold", "token", 300, []))[3].append((part, tasks, notes))
        assert not any((await store._shards.ask("put", held)).values())
        leases = await other.acquire(range(64), "here", 60_000)
        assert await other.claim(leases, ["a", "b"], 1000) == []
        assert (await other.reschedule("b", 7000)).version == 1
        assert not await put(store._shards, draft), "it was changed meanwhile"
        assert ids(await other.claim(leases, ["a"], 1000)) == ["a"]

    play(redis, story)


def test_who_stops_waiting_takes_back_what_was_not_begun(redis: Redis) -> None:
    async def story(store: RedisStore, _other: RedisStore) -> None:
        first = asyncio.create_task(store.add([task("first")]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # it is being written
        second = asyncio.create_task(store.add([task("second")]))
        await asyncio.sleep(0)
        second.cancel()
        await first
        await store.add([task("third")])
        assert [each is not None for each in await store.get(["first", "second", "third"])] == [True, False, True]

    play(redis, story)


def test_what_waits_is_written_before_the_end(redis: Redis) -> None:
    async def story(store: RedisStore, other: RedisStore) -> None:
        waiting = [asyncio.create_task(store.add([task(str(n))])) for n in range(5)]
        await asyncio.sleep(0)
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0)
        with pytest.raises(StoreClosed):
            await store.add([task("late")])
        await asyncio.gather(*waiting, closing)
        assert (await other.counts())[Status.PENDING] == 5

    play(redis, story)


def scripts_run(server: RedisServer) -> int:
    stats = server.ask("INFO", "commandstats")
    return int(stats.partition("cmdstat_evalsha:calls=")[2].partition(",")[0] or 0)


def test_many_who_add_at_once_share_scripts(redis_server: RedisServer) -> None:
    async def story(store: RedisStore, other: RedisStore) -> None:
        await other.close()
        before = scripts_run(redis_server)
        await asyncio.gather(*(store.add([task(str(n))]) for n in range(64)))
        ran = scripts_run(redis_server) - before
        assert ran <= 4 + 1, "the first by itself and the rest together, and each takes its serials first"
        assert (await store.counts())[Status.PENDING] == 64

    play(Redis(redis_server.url), story)


def test_serials_that_were_not_used_are_given_back(redis: Redis) -> None:
    async def story(store: RedisStore, _other: RedisStore) -> None:
        await store.add([at_home("a")])
        for _ in range(3):
            with pytest.raises(DuplicateTask):
                await store.add([at_home("b"), at_home("a")])
        await store.add([at_home("c")])
        assert [entry.serial for entry in (await load(store._shards, ["a", "c"])).entries.values()] == [1, 2]

    play(redis, story)


def test_who_adds_alone_knows_its_serials_and_notices_others(redis_server: RedisServer) -> None:
    async def story(store: RedisStore, other: RedisStore) -> None:
        await store.add([at_home("a")])
        before = scripts_run(redis_server)
        await store.add([at_home("b")])
        with pytest.raises(DuplicateTask):
            await store.add([at_home("c"), at_home("a")])
        await store.add([at_home("c")])
        assert scripts_run(redis_server) - before == 4, "one to add each, and two to see which is there"
        turns = [other, other, other, store, other, store, store, store, other]
        for number, each in enumerate(turns):
            await each.add([at_home(f"{number}-{n}") for n in range(2)])
        listed = (await store.query(Filter(order="oldest"))).tasks
        assert ids(listed) == [*"abc", *(f"{number}-{n}" for number in range(len(turns)) for n in range(2))]

    play(Redis(redis_server.url), story)


def test_many_that_come_into_empty_partitions_are_all_that_is_there(redis: Redis) -> None:
    async def story(store: RedisStore, _other: RedisStore) -> None:
        many = [at_home(str(n), run_at=n) for n in range(1_000)]
        await store.add(many)
        assert (await store.counts())[Status.PENDING] == len(many)
        assert ids(await store.due(await own(store), 1_000, None, 1_000)) == ids(many)

    play(redis, story)


def test_a_batch_may_go_into_as_many_partitions_as_there_can_be(redis_server: RedisServer) -> None:
    async def main() -> None:
        store = await RedisStore.open(Redis(redis_server.url).url(), partitions=PARTITIONS_MAX)
        names = [str(n) for n in range(BATCH_MAX)]
        await store.add([task(name, partition=partition_of(name, PARTITIONS_MAX)) for name in names])
        assert (await store.counts())[Status.PENDING] == BATCH_MAX
        await store.close()

    asyncio.run(main())


def test_what_was_asked_to_stop_ends_now_and_not_in_1970(redis: Redis) -> None:
    async def story(store: RedisStore, _other: RedisStore) -> None:
        await store.add([at_home("orphan"), at_home("late")])
        leases = await own(store, ttl_ms=60_000)
        claimed = {each.id: each for each in await store.claim(leases, ["orphan", "late"], 10**13)}
        await store.cancel(["orphan", "late"], "not needed")
        await store.release(leases)
        leases = await own(store)
        orphans = {each.id: each for each in await store.orphans(leases, 10)}
        assert orphans.keys() == claimed.keys()
        again = [orphans["orphan"], claimed["late"]]  # who put it back had not heard of the wish, or had
        held = {lease.partition: lease for lease in leases}
        for each in again:
            back = Finish(lease=held[each.partition], task=replace(each, status=Status.PENDING))
            assert await store.finish([back]) == [True]
        assert await store.purge(await store.time() - 60_000) == 0
        assert [each and each.status for each in await store.get(["orphan", "late"])] == [Status.CANCELLED] * 2

    play(redis, story)


@asynccontextmanager
async def suspended(server: RedisServer) -> AsyncIterator[None]:
    """Keep a server from answering."""
    assert server.process is not None
    server.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


def test_scripts_are_told_again_to_a_server_that_forgot_them(redis_server: RedisServer) -> None:
    async def story(store: RedisStore, other: RedisStore) -> None:
        await store.add([task("a")])
        redis_server.ask("SCRIPT", "FLUSH")
        assert await store.get(["a"]) == [task("a")]
        assert [each.added for each in await other.add([task("b")])] == [True]

    play(Redis(redis_server.url), story)


def test_who_stops_waiting_for_an_answer_confuses_no_one(redis_server: RedisServer) -> None:
    async def story(store: RedisStore, _other: RedisStore) -> None:
        await store.add([task(str(n)) for n in range(10)])
        async with suspended(redis_server):
            waiting = [asyncio.create_task(store.get([str(n)])) for n in range(10)]
            await asyncio.sleep(0.05)
            for each in waiting[::2]:
                each.cancel()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert [answer for answer in answers if isinstance(answer, list)] == [[task(str(n))] for n in range(1, 10, 2)]
        assert await store.get(["7"]) == [task("7")]

    play(Redis(redis_server.url), story)
