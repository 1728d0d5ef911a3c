"""What can be opened as a PostgreSQL store, what is refused, and in which words."""

import asyncio
from typing import Any

import asyncpg
import pytest

from tests.postgres import Database
from tests.stores.unreadable_story import ODD_BODIES, tell_of_an_unreadable_task
from tickwheel.errors import SchemaTooNew, StoreError, StoreUnavailable
from tickwheel.stores import open_store
from tickwheel.stores.postgres import PostgresStore
from tickwheel.stores.postgres.statements import MIGRATIONS
from tickwheel.testing.postgres import PostgresServer, free_port
from tickwheel.testing.stores.scenario import task


async def open_and_close(url: str, partitions: int = 64) -> int:
    store = await open_store(url, partitions=partitions)
    assert isinstance(store, PostgresStore)
    await store.close()
    return store.partitions


def refused(url: str, kind: type[StoreError] = StoreUnavailable) -> str:
    with pytest.raises(kind) as caught:
        asyncio.run(open_and_close(url))
    assert "wheel-of-time" not in str(caught.value), "a password has no place in a message"
    return str(caught.value)


def execute(database: Database, *statements: str) -> None:
    async def main() -> None:
        connection = await asyncpg.connect(database.server.url)
        for statement in statements:
            await connection.execute(statement)
        await connection.close()

    asyncio.run(main())


def test_partitions_are_counted_when_the_tables_are_made(database: Database) -> None:
    assert asyncio.run(open_and_close(database.url(), partitions=16)) == 16
    assert asyncio.run(open_and_close(database.url(), partitions=64)) == 16


def test_each_schema_is_a_store_of_its_own(database: Database) -> None:
    async def main() -> None:
        one, other = await open_store(database.url()), await open_store(database.url(database.fresh_schema()))
        await one.add([task("a")])
        assert await other.get(["a"]) == [None]
        await one.close()
        await other.close()

    asyncio.run(main())


def test_many_who_open_it_at_once_make_it_once(database: Database) -> None:
    async def main() -> None:
        assert await asyncio.gather(*(open_and_close(database.url()) for _ in range(8))) == [64] * 8

    asyncio.run(main())


def test_a_server_that_is_away_is_told() -> None:
    assert "see whether it runs" in refused(f"postgresql://ann:wheel-of-time@127.0.0.1:{free_port()}/shop")


def test_a_wrong_password_is_told(postgres: PostgresServer) -> None:
    assert "does not let this user in" in refused(postgres.url.replace("wheel-of-time", "wheel-of-fortune"))


def test_a_missing_database_is_told(postgres: PostgresServer) -> None:
    assert "there is no such database" in refused(postgres.url.replace("/postgres", "/nowhere"))


@pytest.mark.parametrize("schema", ["", "Shop", "1st", "a-b", "x" * 64, "a;b"])
def test_a_schema_that_would_need_quotes_is_refused(postgres: PostgresServer, schema: str) -> None:
    assert "schema" in refused(f"{postgres.url}?schema={schema}", StoreError)


def test_a_newer_schema_is_left_alone(database: Database) -> None:
    asyncio.run(open_and_close(database.url()))
    execute(database, f"UPDATE {database.schema}.schema_version SET version = {len(MIGRATIONS) + 1}")
    with pytest.raises(SchemaTooNew) as caught:
        asyncio.run(open_and_close(database.url()))
    assert (caught.value.found, caught.value.known) == (len(MIGRATIONS) + 1, len(MIGRATIONS))


def test_tables_of_any_older_schema_are_brought_up_to_date(database: Database) -> None:
    for version in range(1, len(MIGRATIONS)):
        schema = database.fresh_schema()
        execute(
            database,
            f"CREATE SCHEMA {schema}; SET search_path = {schema}",
            "CREATE TABLE schema_version (version integer NOT NULL)",
            f"INSERT INTO schema_version VALUES ({version})",
            *MIGRATIONS[:version],
            "INSERT INTO partitions (part) SELECT generate_series(0, 7)",
        )
        assert asyncio.run(open_and_close(database.url(schema))) == 8
        execute(database, f"SELECT {schema}.tickwheel_add('note')")


def test_a_schema_of_something_else_is_left_alone(database: Database) -> None:
    execute(database, f"CREATE SCHEMA {database.schema}", f"CREATE TABLE {database.schema}.tasks (title text)")
    assert "something else" in refused(database.url(), StoreError)


def test_a_database_in_another_encoding_is_refused(database: Database) -> None:
    name = f"latin_{database.schema}"
    execute(database, f"CREATE DATABASE {name} TEMPLATE template0 ENCODING LATIN1 LOCALE 'C'")
    assert "UTF8" in refused(database.server.url.replace("/postgres", f"/{name}"), StoreError)


def test_a_user_who_may_not_make_tables_is_told_until_somebody_made_them(database: Database) -> None:
    user = f"guest_{database.schema}"
    execute(database, f"CREATE ROLE {user} LOGIN PASSWORD 'wheel-of-time'")
    url = database.url().replace("tickwheel:", f"{user}:")
    assert "GRANT" in refused(url)
    asyncio.run(open_and_close(database.url()))
    rights = "SELECT, INSERT, UPDATE, DELETE"
    execute(
        database,
        f"GRANT USAGE ON SCHEMA {database.schema} TO {user}",
        f"GRANT {rights} ON ALL TABLES IN SCHEMA {database.schema} TO {user}",
    )
    assert asyncio.run(open_and_close(url)) == 64


def test_a_server_that_goes_away_is_told_and_used_again_when_it_is_back(
    database: Database, postgres: PostgresServer
) -> None:
    async def main() -> None:
        store = await open_store(database.url())
        await store.add([task("a")])
        await asyncio.to_thread(postgres.stop)
        calls: list[Any] = [store.get(["a"]), store.add([task("b")]), store.cancel(["a"], "no"), store.counts()]
        for call in calls:
            with pytest.raises(StoreUnavailable):
                await call
        await asyncio.to_thread(postgres.start)
        assert await store.get(["a", "b"]) == [task("a"), None]
        await store.add([task("b")])
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("kind", ODD_BODIES)
def test_a_task_that_cannot_be_read_is_set_aside(database: Database, kind: str) -> None:
    async def main() -> None:
        store = await open_store(database.url(), partitions=1)

        async def damage() -> None:
            connection = await asyncpg.connect(database.server.url)
            body = ODD_BODIES[kind].decode()
            await connection.execute(f"UPDATE {database.schema}.tasks SET body = $1 WHERE id = 'bad'", body)
            await connection.close()

        await tell_of_an_unreadable_task(store, damage)
        await store.close()

    asyncio.run(main())
