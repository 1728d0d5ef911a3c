"""Other code in the process of a store that opens its file: what is rejected, and what is not seen and does no harm."""

import asyncio
import ctypes
import logging
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
import sqlalchemy

from tests.stores.children import opened
from tickwheel.errors import StoreFileInUse, StoreUnavailable
from tickwheel.stores.sqlite import SqliteStore, connection, file_locks, open_files
from tickwheel.stores.sqlite.schema import TASKS
from tickwheel.testing.stores.scenario import task

PEEKS = 100
LIBC = ctypes.CDLL(None, use_errno=True)


# -- how to look into a file


def with_sqlite3(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("SELECT count(*) FROM tasks").fetchall()


def with_sqlalchemy(path: Path) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    try:
        with engine.connect() as other:
            other.execute(sqlalchemy.text("SELECT count(*) FROM tasks")).all()
    finally:
        engine.dispose()


def with_attach(path: Path) -> None:
    with closing(sqlite3.connect(":memory:")) as other:
        other.execute("ATTACH ? AS tickwheel", (str(path),))
        other.execute("SELECT count(*) FROM tickwheel.tasks").fetchall()


def with_c(path: Path) -> None:
    for each in (path, f"{path}-shm"):
        descriptor = LIBC.open(os.fsencode(each), os.O_RDONLY)
        assert descriptor >= 0
        assert LIBC.close(descriptor) == 0


def by_uri(path: Path) -> None:
    sqlite3.connect(f"file:{path}?mode=ro", uri=True).close()


def by_uri_with_a_host(path: Path) -> None:
    sqlite3.connect(f"file://localhost{str(path).replace('t', '%74')}#here", uri=True).close()


def by_bytes(path: Path) -> None:
    sqlite3.connect(os.fsencode(path)).close()


def by_relative_path(path: Path) -> None:
    sqlite3.connect(os.path.relpath(path)).close()


def by_symbolic_link(path: Path) -> None:
    link = path.with_name("link")
    link.symlink_to(path)
    try:
        sqlite3.connect(link).close()
    finally:
        link.unlink()


def by_open_of_a_symbolic_link(path: Path) -> None:
    link = path.with_name("link")
    link.symlink_to(path)
    try:
        link.read_bytes()
    finally:
        link.unlink()


def by_hard_link(path: Path) -> None:
    link = path.with_name("link")
    link.hardlink_to(path)
    try:
        link.read_bytes()
    finally:
        link.unlink()


def by_open(path: Path) -> None:
    open(path, "rb").close()  # noqa: PTH123 - another way than the next one


def by_read_bytes(path: Path) -> None:
    path.read_bytes()


def by_os_open(path: Path) -> None:
    os.close(os.open(path, os.O_RDONLY))


def by_copy(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))


def by_emptying_it(path: Path) -> None:
    path.write_bytes(b"")


def by_open_of_the_log(path: Path) -> None:
    Path(f"{path}-wal").read_bytes()


def by_open_of_the_index(path: Path) -> None:
    Path(f"{path}-shm").read_bytes()


SEEN: list[Callable[[Path], None]] = [
    with_sqlite3,
    with_sqlalchemy,
    by_uri,
    by_uri_with_a_host,
    by_bytes,
    by_relative_path,
    by_symbolic_link,
    by_open_of_a_symbolic_link,
    by_hard_link,
    by_open,
    by_read_bytes,
    by_os_open,
    by_copy,
    by_emptying_it,
    by_open_of_the_log,
    by_open_of_the_index,
]
UNSEEN: list[Callable[[Path], None]] = [with_attach, with_c]


# -- the store and another process


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent.parent.parent)  # where children find the package `tests`


@asynccontextmanager
async def at(path: Path) -> AsyncIterator[SqliteStore]:
    store = await opened(str(path))
    try:
        yield store
    finally:
        await store.close()


def run(work: Callable[[SqliteStore], Awaitable[None]], path: Path) -> None:
    async def main() -> None:
        async with at(path) as store:
            await work(store)

    asyncio.run(main())


@contextmanager
def adding_process(path: Path) -> "Iterator[subprocess.Popen[str]]":
    command = [sys.executable, "-m", "tests.stores.children", "add_for_ever", str(path), "child"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def in_another_process(path: Path) -> tuple[str, set[str]]:
    """Return what another process says of a file: whether it is whole, and which tasks there are."""
    program = (
        "import apsw, sys\n"
        "other = apsw.Connection(sys.argv[1])\n"
        "print(other.pragma('integrity_check'))\n"
        "print(*(task for (task,) in other.execute('SELECT id FROM tasks')))\n"
        "other.close()\n"
    )
    command = [sys.executable, "-c", program, str(path)]
    found = subprocess.run(command, check=True, timeout=60, capture_output=True, text=True).stdout.splitlines()
    return found[0], set(found[1].split())


@pytest.mark.parametrize("peek", SEEN)
def test_other_code_cannot_open_the_file_of_a_store(path: Path, peek: Callable[[Path], None]) -> None:
    async def work(store: SqliteStore) -> None:
        await store.add([task("a")])
        with pytest.raises(StoreFileInUse, match=r"is open as a store in this process.*scheduler\.list") as caught:
            peek(path)
        assert caught.value.path == str(path)
        assert isinstance(caught.value, OSError)  # who copies a folder expects this
        await store.add([task("b")])
        assert in_another_process(path) == ("ok", {"a", "b"})

    run(work, path)
    if peek not in (by_emptying_it, by_open_of_the_log, by_open_of_the_index):
        peek(path)  # closed: anyone may
    assert in_another_process(path) == ("ok", {"a", "b"})


def test_other_files_are_opened_as_ever(path: Path, tmp_path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        del store
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "tasks.db").write_text("of the same name")
        assert (tmp_path / "other" / "tasks.db").read_text() == "of the same name"
        sqlite3.connect(tmp_path / "shop.db").close()
        sqlite3.connect(":memory:").close()
        sqlite3.connect("").close()
        for wrong in ("a\0b", "", str(tmp_path / "missing")):
            with pytest.raises((OSError, ValueError)) as caught:
                by_open(Path(wrong))
            assert not isinstance(caught.value, StoreFileInUse)
        with pytest.raises(TypeError):
            sqlite3.connect(None)  # type: ignore[call-overload]

    run(work, path)


@pytest.mark.slow
@pytest.mark.parametrize("peek", [with_sqlite3, with_sqlalchemy, *UNSEEN])
def test_nothing_is_lost_while_other_code_peeks_and_another_process_adds(
    path: Path, peek: Callable[[Path], None]
) -> None:
    acknowledged: set[str] = set()

    async def work(store: SqliteStore) -> None:
        with adding_process(path) as child:
            assert child.stdout is not None
            first = await asyncio.to_thread(child.stdout.readline)
            # Read all the time: a child whose pipe is full adds nothing.
            reading = asyncio.create_task(asyncio.to_thread(child.stdout.readlines))
            for number in range(PEEKS):
                adding = asyncio.create_task(store.add([task(str(number))]))
                try:
                    await asyncio.to_thread(peek, path)
                except StoreFileInUse:
                    assert peek not in UNSEEN
                else:
                    assert peek in UNSEEN
                try:
                    await adding
                except StoreUnavailable as error:
                    assert "dropped SQLite's locks" in str(error)  # noqa: PT017 - it may, or may not be
                else:
                    acknowledged.add(str(number))
            child.kill()
            lines = [first, *await reading]
        acknowledged.update(each for line in lines if line.endswith("\n") for each in line.split())
        assert all(await store.get(sorted(acknowledged)[:10_000]))

    run(work, path)
    whole, there = in_another_process(path)
    assert whole == "ok"
    assert acknowledged <= there
    assert {each for each in acknowledged if each.startswith("child")}
    assert len([each for each in acknowledged if each.isdecimal()]) > PEEKS // 2


@pytest.mark.parametrize("peek", UNSEEN)
def test_after_a_peek_that_is_not_seen_another_process_leaves_the_log_alone(
    path: Path, peek: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def work(store: SqliteStore) -> None:
        await store.add([task("a")])
        peek(path)
        assert in_another_process(path) == ("ok", {"a"})  # it closes the file, and would delete the log
        assert not caplog.records
        await store.add([task("b")])
        assert in_another_process(path) == ("ok", {"a", "b"})
        [record] = caplog.records
        assert "drops SQLite's locks" in record.getMessage()
        assert str(path) in record.getMessage()

    with caplog.at_level(logging.WARNING, "tickwheel.stores.sqlite"):
        run(work, path)
    assert in_another_process(path) == ("ok", {"a", "b"})


def test_a_transaction_that_loses_its_lock_is_not_acknowledged(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        def lose(_: Any) -> None:
            with_c(path)

        answers = await asyncio.gather(
            store._writes.call(lose), store.add([task("a")]), store.add([task("b")]), return_exceptions=True
        )
        assert isinstance(answers[0], StoreUnavailable)
        assert "dropped SQLite's locks during a transaction" in str(answers[0])
        kept = {name for name, answer in zip("ab", answers[1:], strict=True) if isinstance(answer, list)}
        assert {each.id for each in await store.get(["a", "b"]) if each} == kept
        await store.add([task("c")])
        assert in_another_process(path) == ("ok", {*kept, "c"})

    run(work, path)


def test_what_is_read_without_a_lock_is_read_again(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.add([task("a")])
        reads = 0

        def lose(file: apsw.Connection) -> int:
            nonlocal reads
            reads += 1
            if reads < 3:
                with_c(path)
            found: int = file.execute("SELECT count(*) FROM tasks").get
            return found

        assert await store._reads.call(lose) == 1
        assert reads == 3

        def lose_always(_: apsw.Connection) -> None:
            with_c(path)

        with pytest.raises(StoreUnavailable, match="all the time"):
            await store._reads.call(lose_always)
        assert await store.get(["a"]) == [task("a")]

    run(work, path)


def test_where_there_are_no_such_locks_the_file_is_still_protected_from_what_is_seen(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(store: SqliteStore) -> None:
        assert "no open file description locks here" in caplog.text
        await store.add([task("a")])
        with pytest.raises(StoreFileInUse):
            with_sqlite3(path)
        assert await store.get(["a"]) == [task("a")]
        move(path)
        with pytest.raises(StoreUnavailable, match="deleted"):
            await store.add([task("b")])
        move_back(path)
        await store.add([task("c")])

    monkeypatch.setattr(file_locks, "SUPPORTED", False)  # as on other systems
    run(work, path)
    assert in_another_process(path) == ("ok", {"a", "c"}), "what is refused is not written"


# -- several stores of one process


def test_two_stores_of_a_process_share_a_file(path: Path) -> None:
    async def main() -> None:
        async with at(path) as one:
            async with at(path) as other:
                calls = (each.add([task(f"{name}{n}")]) for n in range(50) for each, name in ((one, "a"), (other, "b")))
                await asyncio.gather(*calls)
            with pytest.raises(StoreFileInUse):  # one of them has it
                with_sqlite3(path)
            await one.add([task("c")])
        with_sqlite3(path)

    asyncio.run(main())
    assert in_another_process(path) == ("ok", {"c", *(f"{name}{n}" for n in range(50) for name in "ab")})
    assert [each.name for each in path.parent.iterdir()] == ["tasks.db"]


def in_another_process_as(path: Path) -> str:
    """Open a file with a store of another process, add a task, and return what went wrong."""
    program = """
import asyncio, sys
from tests.stores.children import opened
from tickwheel.testing.stores.scenario import task

async def main():
    try:
        store = await opened(sys.argv[1])
        await store.add([task("other")])
        await store.close()
    except RuntimeError as error:
        print(error)

asyncio.run(main())
"""
    command = [sys.executable, "-c", program, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_a_file_with_two_names_is_rejected_also_if_another_process_has_it_open(path: Path) -> None:
    link = path.with_name("link.db")

    async def work(store: SqliteStore) -> None:
        await store.add([task("a")])
        link.hardlink_to(path)
        assert "2 names (hard links)" in in_another_process_as(link)
        await store.add([task("b")])

    run(work, path)
    assert "2 names (hard links)" in in_another_process_as(path)
    link.unlink()
    assert not in_another_process_as(path)
    assert in_another_process(path) == ("ok", {"a", "b", "other"})


@pytest.mark.skipif(not file_locks.SUPPORTED, reason="needs open file description locks")
def test_a_file_that_another_process_has_open_under_another_name_is_rejected(path: Path) -> None:
    """As a mount of the file without its folder, for which one has to be root: one name after another, never two."""
    moved = path.with_name("moved.db")

    async def work(store: SqliteStore) -> None:
        await store.add([task("a")])
        os.rename(path, moved)  # noqa: PTH104 - in a coroutine, where a Path is taken for blocking
        try:
            assert "under another name" in in_another_process_as(moved)
            assert sorted(each.name for each in path.parent.glob("moved.db*")) == ["moved.db"]
        finally:
            os.rename(moved, path)  # noqa: PTH104 - as above
        await store.add([task("b")])
        assert not in_another_process_as(path)

    run(work, path)
    assert in_another_process(path) == ("ok", {"a", "b", "other"})


def test_a_second_name_of_an_open_file_is_rejected(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.add([task("a")])
        link = path.with_name("link.db")
        link.hardlink_to(path)
        for name in (link, path):
            with pytest.raises(StoreUnavailable, match="hard link"):
                await opened(str(name))
        link.unlink()
        link.symlink_to(path)
        async with at(link) as other:
            await other.add([task("b")])
        await store.add([task("c")])

    run(work, path)
    assert in_another_process(path) == ("ok", {"a", "b", "c"})


def test_a_store_that_is_closed_twice_leaves_another_one_alone(path: Path) -> None:
    async def main() -> None:
        store = await opened(str(path))
        async with at(path) as other:
            await store.close()
            await store.close()
            with pytest.raises(StoreFileInUse):
                with_sqlite3(path)
            await other.add([task("a")])
        with_sqlite3(path)

    asyncio.run(main())


def test_an_open_that_is_cancelled_leaves_nothing_open(path: Path) -> None:
    async def main() -> None:
        with open_files.OPENING.lock:
            opening = asyncio.create_task(connection.open_database(path, TASKS, lambda _: None))
            await asyncio.sleep(0)  # it has begun, and waits
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))
        await asyncio.get_running_loop().shutdown_default_executor()

    asyncio.run(main())
    assert path not in open_files.OPEN.values()
    with_sqlite3(path)


def test_a_forked_child_may_open_the_file(path: Path) -> None:
    program = (
        "import asyncio, os, sqlite3, sys\n"
        "from tests.stores.children import opened, task\n"
        "async def main():\n"
        "    store = await opened(sys.argv[1])\n"
        "    await store.add([task('a')])\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        other = sqlite3.connect(sys.argv[1])\n"
        "        found = other.execute('SELECT count(*) FROM tasks').fetchall()\n"
        "        other.close()\n"
        "        os._exit(found != [(1,)])\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "    await store.add([task('b')])\n"
        "    await store.close()\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, timeout=60)
    assert in_another_process(path) == ("ok", {"a", "b"})


# -- a file that is gone


def delete(path: Path) -> None:
    path.unlink()


def move(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def move_back(path: Path) -> None:
    path.with_name("moved.db").rename(path)


def delete_the_log(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def delete_the_index(path: Path) -> None:
    Path(f"{path}-shm").unlink()


def replace(path: Path) -> None:
    backup = apsw.Connection(str(path.with_name("backup.db")))
    backup.execute("CREATE TABLE tasks (id)")
    backup.close()
    path.with_name("backup.db").replace(path)
    delete_the_log(path)
    delete_the_index(path)


@pytest.mark.parametrize("lose", [delete, move, delete_the_log, delete_the_index, replace])
def test_nothing_is_acknowledged_in_a_file_that_is_gone(path: Path, lose: Callable[[Path], None]) -> None:
    async def work(store: SqliteStore) -> None:
        await store.add([task("a")])
        lose(path)
        word = "replaced" if lose is replace else "deleted or moved"
        for number in range(3):
            with pytest.raises(StoreUnavailable, match=f"was {word} while it was open.*start again"):
                await store.add([task(str(number))])

    run(work, path)
    if lose is replace:
        assert in_another_process(path) == ("ok", set()), "the new file is not touched"


def move_and_leave_empty(path: Path) -> None:
    move(path)
    path.touch()


def identify_log(path: Path) -> tuple[int, int]:
    found = Path(f"{path}-wal").stat()
    return found.st_ino, found.st_size


def add_by_command(path: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tickwheel", "add", "h", "--store", f"sqlite:///{path}"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("lose", [move, move_and_leave_empty])
def test_no_file_is_created_in_place_of_one_that_is_open(path: Path, lose: Callable[[Path], None]) -> None:
    async def work(store: SqliteStore) -> None:
        await store.add([task("a")])
        before = identify_log(path)
        lose(path)
        with pytest.raises(StoreUnavailable, match=r"a running process has it open.*Move the file back"):
            await SqliteStore.open(path, now_ms=int)
        other = await asyncio.to_thread(add_by_command, path)
        assert (other.returncode, "a running process has it open" in other.stderr) == (1, True), other.stderr
        assert identify_log(path) == before
        move_back(path)
        await store.add([task("b")])

    run(work, path)
    assert in_another_process(path) == ("ok", {"a", "b"})


def test_a_program_may_go_to_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.chdir(tmp_path)
        async with at(Path("tasks.db")) as store:
            monkeypatch.chdir("/")
            await store.add([task("a")])
            with pytest.raises(StoreFileInUse):
                with_sqlite3(tmp_path / "tasks.db")

    asyncio.run(main())
    assert in_another_process(tmp_path / "tasks.db") == ("ok", {"a"})
