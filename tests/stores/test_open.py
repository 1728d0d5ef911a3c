"""Which store a URL names, and what files are refused as one."""

import asyncio
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tickwheel.errors import MissingExtra, SchemaTooNew, StoreError, StoreUnavailable, UnknownStore
from tickwheel.stores import MemoryStore, open_store
from tickwheel.stores.sqlite import SqliteStore
from tickwheel.stores.sqlite.statements import MIGRATIONS
from tickwheel.stores.urls import absolute_url, path_of
from tickwheel.testing.stores.scenario import task
from tickwheel.workflow.instances import open_instances


async def open_and_close(url: str, partitions: int = 64) -> int:
    store = await open_store(url, partitions=partitions)
    stored = store.partitions
    await store.close()
    return stored


def refused(path: Path) -> str:
    with pytest.raises(StoreUnavailable) as caught:
        asyncio.run(open_and_close(f"sqlite:///{path}"))
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("url", ["", "memory", "mysql://x/y", "\nsqlite:///tasks.db", "postgresql://[x", "tasks.db"])
def test_a_url_of_nothing_is_refused(url: str) -> None:
    with pytest.raises(UnknownStore, match="memory://"):
        asyncio.run(open_and_close(url))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("sqlite://", "three slashes: sqlite:///tasks.db"),
        ("sqlite://t.db", "three slashes: sqlite:///t.db"),
        ("sqlite:/t.db", "three slashes: sqlite:///t.db"),
        ("sqlite://host/t.db", "three slashes: sqlite:///host/t.db"),
        ("sqlite:///", "as in sqlite:///tasks.db"),
        ("sqlite:///a#1.db", "write it as %23"),
        ("sqlite:///q?x=1.db", "write ? as %3F"),
        ("sqlite:///t.db?mode=ro", "has no parameters"),
        ("sqlite:///t\n.db", "write it as %0A"),
        ("sqlite:///t\x7f.db", "write it as %7F"),
        ("sqlite:///sur\udc80.db", "as UTF-8"),
        ("sqlite:///%80.db", "as UTF-8"),
        ("sqlite:///a%00.db", "as UTF-8"),
        ("sqlite:///:memory:", "memory://"),
    ],
)
def test_a_url_never_names_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, why: str) -> None:
    monkeypatch.chdir(tmp_path)
    for opened in (open_store, open_instances):
        with pytest.raises(UnknownStore, match=re.escape(why)):
            asyncio.run(opened(url))
    assert not list(tmp_path.iterdir())


def test_reserved_characters_are_percent_encoded(tmp_path: Path) -> None:
    asyncio.run(open_and_close(f"sqlite:///{tmp_path}/a%231%3Fx%0A.db"))
    assert [each.name for each in tmp_path.iterdir()] == ["a#1?x\n.db"]


def test_a_relative_url_can_be_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a #1"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert path_of(absolute_url("sqlite:///some%20tasks.db")) == folder / "some tasks.db"
    for url in ("sqlite:////var/tasks.db", "sqlite://tasks.db", "memory://", "postgresql://host/shop"):
        assert absolute_url(url) == url
    folder.rmdir()
    assert absolute_url("sqlite:///tasks.db") == "sqlite:///tasks.db", "there is no folder; opening it says so"


def test_a_message_about_a_url_has_no_password() -> None:
    for url in ("mysql://ann:se:cr@t@host/x", "sqlite://ann:secret@host/x", "postgresql://ann:secret@[host/x"):
        with pytest.raises(UnknownStore) as caught:
            asyncio.run(open_and_close(url))
        assert "ann" not in str(caught.value)
        assert "t@" not in str(caught.value)


def test_urls_name_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        memory = await open_store("memory://", partitions=3)
        assert isinstance(memory, MemoryStore)
        assert memory.partitions == 3
        assert await memory.time() > 1_700_000_000_000
        relative = await open_store("sqlite:///some%20tasks.db")
        assert isinstance(relative, SqliteStore)
        await relative.add([task("a")])
        await relative.close()
        absolute = await open_store(f"sqlite:///{tmp_path}/some tasks.db")
        assert await absolute.get(["a"]) == [task("a")]
        await absolute.close()

    monkeypatch.chdir(tmp_path)
    asyncio.run(main())


def test_partitions_are_counted_when_the_store_is_made(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'tasks.db'}"
    assert asyncio.run(open_and_close(url, partitions=16)) == 16
    assert asyncio.run(open_and_close(url, partitions=64)) == 16


@pytest.mark.parametrize("partitions", [0, -1, 4097])
def test_a_store_has_some_partitions(tmp_path: Path, partitions: int) -> None:
    for url in ("memory://", f"sqlite:///{tmp_path / 'tasks.db'}"):
        with pytest.raises(StoreError, match="partitions"):
            asyncio.run(open_and_close(url, partitions))
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_missing_is_created_only_if_that_is_wanted(tmp_path: Path) -> None:
    path = tmp_path / "typo.db"
    with pytest.raises(StoreUnavailable, match=f"no such file: {path}; check the path, or create it with"):
        asyncio.run(open_store(f"sqlite:///{path}", create=False))
    assert not list(tmp_path.iterdir())
    assert asyncio.run(open_and_close(f"sqlite:///{path}")) == 64

    async def again() -> None:
        await (await open_store(f"sqlite:///{path}", create=False)).close()

    asyncio.run(again())


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    assert "there is no folder" in refused(tmp_path / "missing" / "tasks.db")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert "cannot be opened" in refused(tmp_path)


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("remember the milk\n" * 100)
    assert "not an SQLite database" in refused(path)
    assert path.read_text() == "remember the milk\n" * 100


def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()
    before = path.read_bytes()
    assert "something else" in refused(path)
    assert path.read_bytes() == before


def write(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    ("statements", "why"),
    [
        (["PRAGMA application_id = 1196444487"], "application_id is 0x47504b47"),  # of GeoPackage; no table yet
        (["CREATE TABLE tasks (id)", "PRAGMA user_version = 2"], "lacks the tables 'counts', 'nodes', 'partitions'"),
        (["CREATE TABLE tasks (id)", "PRAGMA user_version = 1000"], "has the table 'tasks'"),
        (["CREATE TABLE tasks (id)", "PRAGMA user_version = -1"], "has the table 'tasks'"),
        (["CREATE VIEW songs AS SELECT 1"], "has the table 'songs'"),
        (["PRAGMA journal_mode = wal", "CREATE TABLE songs (title)"], "has the table 'songs'"),
    ],
)
def test_a_file_that_only_looks_like_ours_is_left_alone(tmp_path: Path, statements: list[str], why: str) -> None:
    path = tmp_path / "other.db"
    write(path, *statements)
    before = path.read_bytes()
    assert why in refused(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_the_log_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path, log = tmp_path / "other.db", tmp_path / "other.db-wal"
    program = (
        "import apsw, os, sys\n"
        "other = apsw.Connection(sys.argv[1])\n"
        "other.pragma('journal_mode', 'wal')\n"
        "other.execute('CREATE TABLE songs (title)')\n"
        "os._exit(0)\n"  # as if it was killed: what it wrote is in the log alone
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, timeout=60)
    before = path.read_bytes(), log.read_bytes()
    assert "has the table 'songs'" in refused(path)
    assert (path.read_bytes(), log.read_bytes()) == before


def test_a_file_of_tasks_with_the_table_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    asyncio.run(open_and_close(f"sqlite:///{path}"))
    write(path, "CREATE TABLE songs (title)", "ANALYZE")
    before = path.read_bytes()
    assert "it has the table 'songs'; nothing was changed" in refused(path)
    assert path.read_bytes() == before
    write(path, "DROP TABLE songs")
    assert asyncio.run(open_and_close(f"sqlite:///{path}")) == 64


def test_a_file_says_whose_it_is(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    asyncio.run(open_and_close(f"sqlite:///{path}"))
    assert path.read_bytes()[68:72] == b"twhl"
    write(path, "PRAGMA application_id = 0")  # as it was before there was an id
    asyncio.run(open_and_close(f"sqlite:///{path}"))
    assert path.read_bytes()[68:72] == b"twhl"


def test_a_newer_schema_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    asyncio.run(open_and_close(f"sqlite:///{path}"))
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", len(MIGRATIONS) + 1)
    connection.close()
    with pytest.raises(SchemaTooNew) as caught:
        asyncio.run(open_and_close(f"sqlite:///{path}"))
    assert (caught.value.found, caught.value.known) == (len(MIGRATIONS) + 1, len(MIGRATIONS))


def test_a_file_of_any_older_schema_is_brought_up_to_date(tmp_path: Path) -> None:
    async def use(path: Path) -> None:
        store = await open_store(f"sqlite:///{path}", partitions=8)
        await store.add([task("a")])
        assert await store.heartbeat("here", 1000) == ["here"]
        assert len(await store.acquire(range(8), "here", 1000)) == 8
        await store.close()

    for version in range(1, len(MIGRATIONS)):
        path = tmp_path / f"{version}.db"
        connection = apsw.Connection(str(path))
        for script in MIGRATIONS[:version]:
            connection.execute(script)
        connection.executemany("INSERT INTO partitions (part) VALUES (?)", ((part,) for part in range(8)))
        connection.pragma("user_version", version)
        connection.close()
        asyncio.run(use(path))


DAMAGED_TABLES = {
    "INSERT INTO changes (number) VALUES (7)": "its table changes has 2 rows instead of one",
    "DELETE FROM changes": "its table changes has 0 rows instead of one",
    "DELETE FROM partitions": "its table partitions has no rows",
    "UPDATE partitions SET node = CAST(x'ff' AS TEXT) WHERE part = 3": "partitions has text that is not UTF-8",
    "UPDATE partitions SET epoch = 9223372036854775807 WHERE part = 3": "partition 3 has the epoch 9223372036854775807",
    "DELETE FROM partitions WHERE part = 3": "its table partitions has 63 rows, and they are not numbered from 0",
}


@pytest.mark.parametrize("statement", DAMAGED_TABLES)
def test_a_damaged_table_is_told_and_the_file_is_closed(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "tasks.db"

    async def main() -> None:
        await (await open_store(f"sqlite:///{path}")).close()
        file = apsw.Connection(str(path))
        file.execute(statement)
        file.close()
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match=DAMAGED_TABLES[statement]):
                await open_store(f"sqlite:///{path}")
        with closing(sqlite3.connect(path)) as other:  # refused in this process as long as the file is open
            assert other.execute("SELECT count(*) FROM tasks").fetchone() == (0,)

    asyncio.run(main())


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"

    async def fill() -> None:
        store = await open_store(f"sqlite:///{path}")
        await store.add([task(str(n)) for n in range(1000)])
        await store.close()

    async def use() -> None:
        store = await open_store(f"sqlite:///{path}")
        try:
            with pytest.raises(StoreUnavailable, match="damaged"):
                await store.get([str(n) for n in range(1000)])
            with pytest.raises(StoreUnavailable, match="damaged"):
                await store.cancel([str(n) for n in range(1000)], "no")
        finally:
            await store.close()

    asyncio.run(fill())
    whole = path.read_bytes()
    path.write_bytes(whole[: 40 * 4096] + b"\xa5" * (len(whole) - 40 * 4096))
    asyncio.run(use())


@pytest.mark.parametrize(
    ("extra", "driver", "url"),
    [
        ("postgres", "asyncpg", "postgresql://nobody@nowhere/nothing"),
        ("redis", "redis", "redis://nowhere/0"),
        ("etcd", "aetcd", "etcd://nowhere/nothing"),
    ],
)
def test_a_driver_that_is_not_installed_is_named(
    extra: str, driver: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith((f"tickwheel.stores.{extra}", f"{driver}."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(MissingExtra, match=rf"{driver}.* pip install 'tickwheel\[{extra}\]'"):
        asyncio.run(open_and_close(url))


def test_no_driver_is_loaded_until_it_is_needed() -> None:
    program = (
        "import sys, tickwheel.stores; assert not {'aetcd', 'apsw', 'asyncpg', 'grpc', 'redis'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
