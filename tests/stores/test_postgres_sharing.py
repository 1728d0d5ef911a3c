"""How calls share commits, what is locked by whom, and what the planner makes of tables it has never looked at."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace

from tests.postgres import Database
from tickwheel.errors import DuplicateTask, StoreClosed
from tickwheel.stores.contract import Finish
from tickwheel.stores.postgres import PostgresStore
from tickwheel.stores.postgres.sessions import SETTINGS
from tickwheel.stores.postgres.statements import SQL
from tickwheel.tasks.record import Status
from tickwheel.testing.stores.scenario import ids, task


def play(database: Database, story: Callable[[PostgresStore, Any], Awaitable[None]]) -> None:
    """Let a story happen between a store and a connection that looks on, or is in the way."""

    async def main() -> None:
        store = await PostgresStore.open(database.url())
        settings = {**SETTINGS, "search_path": database.schema}
        user = await asyncpg.connect(database.server.url, server_settings=settings)
        try:
            await story(store, user)
        finally:
            await user.close()
            await store.close()

    asyncio.run(main())


@asynccontextmanager
async def held_up(user: Any) -> AsyncIterator[None]:
    """Keep everyone from writing tasks, so that what is asked for meanwhile has to wait."""
    async with user.transaction():
        await user.execute("LOCK TABLE tasks IN SHARE MODE")
        yield


async def commits(user: Any) -> int:
    """Count the transactions that wrote a task."""
    return int(await user.fetchval("SELECT count(DISTINCT xmin::text) FROM tasks"))


def test_its_clock_is_never_ahead(database: Database) -> None:
    async def main() -> None:
        store = await PostgresStore.open(database.url())
        for _ in range(200):
            assert await store.time() * 1_000_000 <= time.time_ns()
        await store.close()

    asyncio.run(main())


def test_what_is_new_is_not_lost_when_another_id_of_its_batch_appears_meanwhile(database: Database) -> None:
    async def story(store: PostgresStore, user: Any) -> None:
        await store.add([task("there")])
        async with user.transaction():
            await user.execute("SELECT FROM tasks WHERE id = 'there' FOR UPDATE")
            adding = asyncio.create_task(store.add([task("there"), task("meanwhile"), task("new")], "keep"))
            async with asyncio.timeout(60):
                while not await user.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
            await user.execute("SELECT tickwheel_add('orders.cancel', id => 'meanwhile')")
        assert [each.added for each in await adding] == [False, False, True]
        assert all(await store.get(["there", "meanwhile", "new"]))
        assert (await store.counts())[Status.PENDING] == 3

    play(database, story)


def test_many_who_add_at_once_share_commits(database: Database) -> None:
    async def story(store: PostgresStore, user: Any) -> None:
        async with held_up(user):
            waiting = [asyncio.create_task(store.add([task(str(n))])) for n in range(64)]
            await asyncio.sleep(0.01)
        await asyncio.gather(*waiting)
        assert all(await store.get([str(n) for n in range(64)]))
        assert await commits(user) <= 2  # what was being written when it was held up, and all the rest

    play(database, story)


def test_who_is_refused_takes_no_one_along(database: Database) -> None:
    async def story(store: PostgresStore, user: Any) -> None:
        await store.add([task("there")])
        async with held_up(user):
            calls = (store.add([task(str(n)), task("there" if n % 3 == 0 else f"{n}b")]) for n in range(9))
            waiting = [asyncio.create_task(call) for call in calls]
            await asyncio.sleep(0.01)
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(answer) for answer in answers] == [DuplicateTask, list, list] * 3
        there = await store.get([str(n) for n in range(9)])
        assert [each is not None for each in there] == [False, True, True] * 3
        assert (await store.counts())[Status.PENDING] == 13

    play(database, story)


def test_who_stops_waiting_takes_back_what_was_not_begun(database: Database) -> None:
    async def story(store: PostgresStore, user: Any) -> None:
        async with held_up(user):
            first = asyncio.create_task(store.add([task("first")]))
            await asyncio.sleep(0.01)
            second = asyncio.create_task(store.add([task("second")]))
            await asyncio.sleep(0.01)
            second.cancel()
        await first
        await store.add([task("third")])
        assert [each is not None for each in await store.get(["first", "second", "third"])] == [True, False, True]

    play(database, story)


def test_what_waits_is_written_before_the_end(database: Database) -> None:
    async def story(store: PostgresStore, user: Any) -> None:
        async with held_up(user):
            waiting = asyncio.create_task(store.add([task("a")]))
            await asyncio.sleep(0.01)
            closing = asyncio.create_task(store.close())
            await asyncio.sleep(0.01)
            with pytest.raises(StoreClosed):
                await store.add([task("b")])
        await asyncio.gather(waiting, closing)
        assert await user.fetchval("SELECT id FROM tasks") == "a"

    play(database, story)


def test_two_stores_never_add_one_id_twice(database: Database) -> None:
    async def story(store: PostgresStore, _user: Any) -> None:
        other = await PostgresStore.open(database.url())
        for kind in ("reject", "keep"):
            calls = [
                each.add([task(f"{kind}{n}"), task(f"{kind}{99 - n}")], kind)  # in opposite orders
                for n in range(50)
                for each in (store, other)
            ]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(answer, list | DuplicateTask) for answer in answers), answers
            assert sum(each.added for answer in answers if isinstance(answer, list) for each in answer) == 100
        assert (await store.counts())[Status.PENDING] == 200
        await other.close()

    play(database, story)


def test_counts_are_right_whoever_counts(database: Database) -> None:
    async def story(store: PostgresStore, user: Any) -> None:
        await user.execute(
            "DELETE FROM counts WHERE slot > 0; CREATE OR REPLACE FUNCTION my_slot() RETURNS integer"
            " LANGUAGE sql STABLE AS 'SELECT 0'"
        )  # everybody counts in one row
        other = await PostgresStore.open(database.url())
        leases = await store.acquire(range(64), "here", 60_000)

        async def work(each: PostgresStore, number: int) -> None:
            names = [f"{number}-{n}" for n in range(10)]
            await each.add([task(name, partition=number) for name in names])
            claimed = await each.claim(leases, names, 1000)
            ends = [replace(one, status=Status.COMPLETED, finished_at=1) for one in claimed[:7]]
            assert all(await each.finish([Finish(lease=leases[number], task=end) for end in ends]))
            await each.cancel(names[8:], "no")

        await asyncio.gather(*(work(store if n % 2 else other, n) for n in range(20)))
        assert {each.value: many for each, many in (await store.counts()).items() if many} == {
            "running": 60,
            "completed": 140,
        }
        rows = await user.fetch("SELECT status, count(*) FROM tasks GROUP BY status ORDER BY status")
        assert [tuple(row) for row in rows] == [(2, 60), (3, 140)]
        await other.close()

    play(database, story)


def test_what_a_suspended_owner_holds_keeps_no_one_from_the_other_partitions(database: Database) -> None:
    async def story(store: PostgresStore, user: Any) -> None:
        async with user.transaction():
            await user.execute("SELECT FROM partitions WHERE part < 3 FOR SHARE")
            got = await store.acquire(range(64), "here", 1000)
            assert [lease.partition for lease in got] == list(range(3, 64))
        assert [lease.partition for lease in await store.acquire(range(64), "here", 1000)] == [0, 1, 2]

    play(database, story)


def test_an_owner_that_is_late_waits_for_the_new_one_and_changes_nothing(database: Database) -> None:
    async def story(store: PostgresStore, user: Any) -> None:
        await store.add([task("a"), task("b")])
        leases = await store.acquire([0], "here", 60_000)
        [running] = await store.claim(leases, ["a"], 1000)
        done = Finish(lease=leases[0], task=replace(running, status=Status.COMPLETED, finished_at=1))
        async with user.transaction():
            await user.execute("UPDATE partitions SET epoch = epoch + 1, nonce = 'other' WHERE part = 0")
            late = [asyncio.create_task(store.finish([done])), asyncio.create_task(store.claim(leases, ["b"], 1000))]
            await asyncio.sleep(0.1)
            assert not any(each.done() for each in late)
        assert await asyncio.gather(*late) == [[False], []]
        assert [each and each.status.value for each in await store.get(["a", "b"])] == ["running", "pending"]

    play(database, story)


def test_an_orphan_that_was_asked_to_stop_is_cancelled_now_and_not_in_1970(database: Database) -> None:
    async def story(store: PostgresStore, _user: Any) -> None:
        await store.add([task("a", partition=0)])
        [lease] = await store.acquire([0], "here", 60_000)
        await store.claim([lease], ["a"], 10**13)
        [asked] = await store.cancel(["a"], "not needed")
        await store.release([lease])
        [lease] = await store.acquire([0], "there", 60_000)
        [orphan] = await store.orphans([lease], 10)
        assert orphan == asked
        assert await store.finish([Finish(lease=lease, task=replace(orphan, status=Status.PENDING))]) == [True]
        assert await store.purge(await store.time() - 60_000) == 0
        [after] = await store.get(["a"])
        assert after is not None
        assert after.status is Status.CANCELLED

    play(database, story)


def test_claims_are_heap_only(database: Database) -> None:
    async def story(store: PostgresStore, user: Any) -> None:
        names = [f"{n:04}" for n in range(1000)]
        await store.add([task(name, partition=int(name) % 64) for name in names])
        leases = await store.acquire(range(64), "here", 60_000)
        assert ids(await store.claim(leases, names, 1000)) == names
        await store.close()  # its session tells what it did
        for _ in range(100):
            row = await user.fetchrow(
                "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = 'tasks'::regclass"
            )
            if row["n_tup_upd"]:
                break
            await asyncio.sleep(0.05)
        assert row["n_tup_upd"] == 1000
        assert row["n_tup_hot_upd"] >= 950

    play(database, story)


def test_tasks_are_found_by_their_indexes_however_little_is_known(database: Database) -> None:
    """No plan reads a table through, or partitions again and again: on tables that are empty, and never analysed."""
    lists = [name for name in SQL if name.startswith("list_")]

    async def story(_store: PostgresStore, user: Any) -> None:
        for name in ("load", "load_locked", "add", "place", "claim", "finish", "due", "orphans", "purge_tasks", *lists):
            await user.execute(f"PREPARE {name} AS {SQL[name]}")
            statement = await user.prepare(SQL[name])
            nulls = ", ".join(["NULL"] * len(statement.get_parameters()))
            plan = "\n".join(line for (line,) in await user.fetch(f"EXPLAIN EXECUTE {name} ({nulls})"))
            tasks = [line for line in plan.splitlines() if " on tasks" in line and "Scan" in line]
            assert "Seq Scan on tasks" not in plan, plan
            by_id = name in ("load", "load_locked", "add", "place", "claim", "finish", "list_by_prefix_newest")
            for line in tasks if by_id else []:
                assert "tasks_pkey" in line, plan
            if name in ("due", "list_due"):
                assert all("Index Scan using tasks_due" in line for line in tasks), plan
                assert plan.count("Sort") == 2, plan  # of the page alone: a node, and its key

    play(database, story)
