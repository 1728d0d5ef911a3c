"""tickwheel_add: tasks are added in the user's own transaction, from any driver."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.postgres import Database
from tickwheel import aio
from tickwheel.scheduler import AsyncScheduler
from tickwheel.scheduler.task_builder import partition_of
from tickwheel.stores import Store, open_store
from tickwheel.stores.contract import Finish
from tickwheel.tasks import Status
from tickwheel.tasks.policies import RetryPolicy
from tickwheel.tasks.record import Task


def play(database: Database, story: Callable[[Store, Any], Awaitable[None]]) -> None:
    """Let a story happen between a store and a user's connection that knows nothing of it."""

    async def main() -> None:
        store = await open_store(database.url())
        user = await asyncpg.connect(database.server.url)
        await user.execute(f"SET search_path = {database.schema}, public")
        try:
            await story(store, user)
        finally:
            await user.close()
            await store.close()

    asyncio.run(main())


async def got(store: Store, task_id: str) -> Task:
    [task] = await store.get([task_id])
    assert task is not None
    return task


def test_everything_that_can_be_said_is_kept(database: Database) -> None:
    async def story(store: Store, user: Any) -> None:
        await user.execute(
            """
            SELECT tickwheel_add('orders.cancel', '{"order": 7, "deep": [1, 2.5, null, "é"]}', id => 'order/7',
                                 run_at => '2099-12-31 23:59:59.9991+00', meta => '{"tenant": "blue"}', priority => -3,
                                 retries => 2, timeout_ms => 1500, at_most_once => true, tags => '{vip,gift,vip}',
                                 expires_at => '2100-01-01 00:00:01+00')
            """
        )
        task = await got(store, "order/7")
        assert task.created_at > 1_700_000_000_000
        assert task == Task(
            id="order/7",
            handler="orders.cancel",
            args={"order": 7, "deep": [1, 2.5, None, "é"]},
            meta={"tenant": "blue"},
            retry=RetryPolicy(retries=2),
            timeout_ms=1500,
            tags=["vip", "gift"],
            expires_at=4_102_444_801_000,
            priority=-3,
            at_most_once=True,
            partition=partition_of("order/7", store.partitions),
            run_at=4_102_444_800_000,
            occurrence_at=4_102_444_800_000,
            created_at=task.created_at,
        )
        assert (await store.counts())[Status.PENDING] == 1

    play(database, story)


def test_what_is_not_said_is_as_usual(database: Database) -> None:
    async def story(store: Store, user: Any) -> None:
        before = await store.time()
        task_id = await user.fetchval("SELECT tickwheel_add('note')")
        later_id = await user.fetchval("SELECT tickwheel_add('note', delay => '90 seconds')")
        after = await store.time()
        task, later = await got(store, task_id), await got(store, later_id)
        assert before <= task.run_at <= after
        assert before + 90_000 <= later.run_at <= after + 90_001
        assert task == Task(
            id=task_id,
            handler="note",
            partition=partition_of(task_id, store.partitions),
            run_at=task.run_at,
            occurrence_at=task.run_at,
            created_at=task.run_at,
        )
        assert [each.id for each in await store.due(await store.acquire(range(64), "here", 9000), after, None, 9)] == [
            task_id
        ]

    play(database, story)


def test_partitions_are_those_of_python(database: Database) -> None:
    async def story(store: Store, user: Any) -> None:
        ids = ["a", "order/7", "é漢字", "x" * 255, "\U0010ffff"]

        @settings(max_examples=100)
        @given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)))
        def draw(drawn: list[str]) -> None:
            ids.extend(drawn)

        draw()
        rows = await user.fetch("SELECT id, partition_of(id) FROM unnest($1::text[]) AS id", ids)
        assert len(rows) > 100
        assert [part for _, part in rows] == [partition_of(each, store.partitions) for each, _ in rows]

    play(database, story)


@pytest.mark.parametrize(
    "arguments",
    [
        "''",
        "'note', id => ''",
        "'note', id => repeat('x', 256)",
        "'note', '[]'",
        "'note', NULL",
        "'note', '{\"n\": 1e400}'",
        "'note', delay => '-1 second'",
        "'note', delay => '1 second', run_at => now()",
        "'note', run_at => '1969-12-31'",
        "'note', run_at => 'infinity'",
        "'note', meta => '{\"n\": 1}'",
        "'note', jsonb_build_object('x', repeat('x', 262144))",
        "'note', (repeat('{\"a\":', 200) || '1' || repeat('}', 200))::jsonb",
        "'note', retries => -1",
        "'note', tags => ARRAY['']",
        "'note', tags => array_fill('x'::text, ARRAY[21])",
        "'note', expires_at => 'infinity'",
        "'note', timeout_ms => 0",
        "'note', priority => -2147483648",
        "'note', on_conflict => 'replace'",
        "'note', '{\"s\": \"\\u0000\"}'",
    ],
)
def test_what_cannot_be_kept_is_refused(database: Database, arguments: str) -> None:
    async def story(store: Store, user: Any) -> None:
        with pytest.raises(asyncpg.PostgresError):
            await user.execute(f"SELECT tickwheel_add({arguments})")
        assert sum((await store.counts()).values()) == 0

    play(database, story)


def test_an_id_that_is_there_is_refused_or_kept(database: Database) -> None:
    async def story(store: Store, user: Any) -> None:
        await user.execute("SELECT tickwheel_add('note', '{\"n\": 1}', id => 'a')")
        with pytest.raises(asyncpg.UniqueViolationError, match="there is a task 'a' already"):
            await user.execute("SELECT tickwheel_add('note', id => 'a')")
        kept = await user.fetchval("SELECT tickwheel_add('note', '{\"n\": 2}', id => 'a', on_conflict => 'keep')")
        assert kept == "a"
        assert (await got(store, "a")).args == {"n": 1}
        assert (await store.counts())[Status.PENDING] == 1

    play(database, story)


def test_a_task_that_is_over_gives_its_id_to_the_new_one(database: Database) -> None:
    async def story(store: Store, user: Any) -> None:
        await user.execute("SELECT tickwheel_add('note', id => 'a', run_at => '1971-01-01')")
        leases = await store.acquire(range(64), "here", 9000)
        [running] = await store.claim(leases, ["a"], await store.time())
        [lease] = [lease for lease in leases if lease.partition == running.partition]
        with pytest.raises(asyncpg.UniqueViolationError):
            await user.execute("SELECT tickwheel_add('note', id => 'a')")
        ended = Finish(lease=lease, task=replace(running, status=Status.COMPLETED, finished_at=1))
        assert await store.finish([ended]) == [True]
        await user.execute("SELECT tickwheel_add('again', id => 'a', run_at => '1972-01-01')")
        new = await got(store, "a")
        assert (new.handler, new.attempt, new.version, new.status) == ("again", 1, running.version + 2, Status.PENDING)
        assert await store.finish([ended]) == [False]
        assert {status: many for status, many in (await store.counts()).items() if many} == {Status.PENDING: 1}
        assert await store.purge(0) == 0  # which gathers the counts
        assert {status: many for status, many in (await store.counts()).items() if many} == {Status.PENDING: 1}

    play(database, story)


def test_an_application_needs_no_rights_on_the_tables(database: Database) -> None:
    async def story(store: Store, user: Any) -> None:
        app = f"app_{database.schema}"
        await user.execute(f"CREATE ROLE {app}; GRANT USAGE ON SCHEMA {database.schema} TO {app}; SET ROLE {app}")
        await user.execute("CREATE TEMP TABLE tasks (id text)")  # which is not taken for ours
        await user.execute("SELECT tickwheel_add('note', id => 'a')")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await user.execute(f"SELECT * FROM {database.schema}.tasks")
        assert (await got(store, "a")).handler == "note"

    play(database, story)


# -- from any driver: committed with the user's own rows, gone with them, and run at once


async def with_asyncpg(url: str, schema: str, *, commit: bool) -> None:
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("INSERT INTO orders VALUES ('asyncpg')")
    await connection.fetchval(f"SELECT {schema}.tickwheel_add('note', $1, id => 'asyncpg')", '{"what": "asyncpg"}')
    await (transaction.commit() if commit else transaction.rollback())
    await connection.close()


async def with_psycopg(url: str, schema: str, *, commit: bool) -> None:
    def work() -> None:
        with psycopg.connect(url) as connection:
            connection.execute("INSERT INTO orders VALUES ('psycopg')")
            connection.execute(
                f"SELECT {schema}.tickwheel_add('note', %s, id => %s)".encode(), ['{"what": "psycopg"}', "psycopg"]
            )
            if not commit:
                connection.rollback()

    await asyncio.to_thread(work)


async def with_sqlalchemy(url: str, schema: str, *, commit: bool) -> None:
    def work() -> None:
        engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
        with engine.connect() as connection:
            connection.execute(sqlalchemy.text("INSERT INTO orders VALUES ('sqlalchemy')"))
            add = sqlalchemy.text(f"SELECT {schema}.tickwheel_add('note', CAST(:args AS jsonb), id => :id)")
            connection.execute(add, {"args": '{"what": "sqlalchemy"}', "id": "sqlalchemy"})
            if commit:
                connection.commit()
        engine.dispose()

    await asyncio.to_thread(work)


DRIVERS = [with_asyncpg, with_psycopg, with_sqlalchemy]


@pytest.mark.parametrize("add", DRIVERS)
def test_a_task_comes_and_goes_with_the_users_transaction(database: Database, add: Any) -> None:
    name = add.__name__.removeprefix("with_")
    ran: asyncio.Queue[str]

    async def main() -> None:
        nonlocal ran
        ran = asyncio.Queue()
        scheduler = AsyncScheduler(database.url(), rescan_ms=600_000)  # a hint that was lost would be missed

        @scheduler.task("note")
        async def note(what: str) -> None:
            ran.put_nowait(what)

        user = await asyncpg.connect(database.server.url)
        await user.execute("CREATE TABLE IF NOT EXISTS orders (id text); TRUNCATE orders")
        async with scheduler:
            await add(database.server.url, database.schema, commit=False)
            assert not await user.fetch("SELECT FROM orders")
            assert sum((await scheduler.counts()).values()) == 0
            await add(database.server.url, database.schema, commit=True)
            async with asyncio.timeout(60):
                assert await ran.get() == name
            assert await user.fetchval("SELECT id FROM orders") == name
        await user.close()
        assert ran.empty()

    aio.run(main())
