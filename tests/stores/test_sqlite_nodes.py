"""Nodes on one SQLite file: alive as long as their process, whatever becomes of the clock, and never longer."""

import asyncio
import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread

import apsw
import pytest

from tests.stores.children import opened
from tickwheel.errors import StoreFileInUse, StoreUnavailable
from tickwheel.stores.contract import MEMBERS, Change
from tickwheel.stores.sqlite import SqliteStore
from tickwheel.stores.sqlite.node_locks import Member, NodeLock, NodeLocks, socket_path
from tickwheel.stores.sqlite.notifier import ping
from tickwheel.stores.sqlite.statements import MIGRATIONS
from tickwheel.testing.stores.scenario import task

PATIENCE_S = 60.0
EVERYTHING = range(64)

Child = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def child() -> Iterator[Child]:
    """Start programs of `children.py` and wait for their first line; what is left of them is killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "tests.stores.children", *arguments]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with the children it forked
        with process:
            pass


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent.parent.parent)  # where children find the package `tests`


def told(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def say(process: "subprocess.Popen[str]", line: str) -> str:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return told(process)


def kill(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.wait()


def sql(path: Path, statement: str) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(path))
    try:
        return list(connection.execute(statement))
    finally:
        connection.close()


def lock_files(path: Path) -> list[Path]:
    return sorted(each for each in path.parent.iterdir() if "-node-" in each.name and each.suffix != ".sock")


def suspend(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():  # noqa: ASYNC110 - it is about other processes
            await asyncio.sleep(0.01)


async def until_alone(store: SqliteStore, node: str) -> None:
    async def is_alone() -> bool:
        return await store.heartbeat(node, 3000) == [node]

    await until(is_alone)


async def heir(path: Path) -> SqliteStore:
    """Open the file as a node that would take over, and owns nothing as long as the others live."""
    store = await opened(str(path))
    await store.heartbeat("heir", 3000)
    assert await store.acquire(EVERYTHING, "heir", 3000) == []
    return store


async def takes_over(store: SqliteStore, watch: "asyncio.Future[dict[int, Change]]") -> None:
    """Be told that nodes died, and own everything."""
    async with asyncio.timeout(PATIENCE_S):
        await watch
    await until_alone(store, "heir")
    assert len(await store.acquire(EVERYTHING, "heir", 3000)) == 64


def inherit(path: Path, act: Callable[[SqliteStore], Awaitable[None]]) -> None:
    """Wait as a node that takes over while something happens to the others, and see that it does."""

    async def main() -> None:
        store = await heir(path)
        changes = store.changes([MEMBERS])
        watch = asyncio.ensure_future(anext(changes))
        await act(store)
        await takes_over(store, watch)
        assert len(lock_files(path)) == 1, "those of the dead were deleted"
        await store.close()
        assert lock_files(path) == []

    asyncio.run(main())


def test_a_killed_node_is_taken_over(path: Path, child: Child) -> None:
    owner = child("own_all", str(path), "a")
    assert told(owner) == "owns"

    async def act(_store: SqliteStore) -> None:
        kill(owner)

    inherit(path, act)


def test_a_killed_node_with_a_live_forked_child_is_taken_over(path: Path, child: Child) -> None:
    owner = child("own_all", str(path), "a")
    assert told(owner) == "owns"
    assert say(owner, "fork") == "did fork"

    async def act(_store: SqliteStore) -> None:
        kill(owner)

    inherit(path, act)


def test_two_nodes_of_a_killed_process_are_taken_over(path: Path, child: Child) -> None:
    owner = child("own_all", str(path), "a", "b")
    assert told(owner) == "owns"

    async def act(store: SqliteStore) -> None:
        assert await store.heartbeat("heir", 3000) == ["a", "b", "heir"]
        kill(owner)

    inherit(path, act)


def test_a_killed_node_whose_process_is_not_visible_is_taken_over(path: Path, child: Child) -> None:
    owner = child("own_all", str(path), "a")
    assert told(owner) == "owns"
    sql(path, "UPDATE nodes SET process = ''")  # as in a container of its own

    async def act(_store: SqliteStore) -> None:
        kill(owner)

    inherit(path, act)


def test_a_killed_node_whose_lock_file_was_deleted_is_taken_over(path: Path, child: Child) -> None:
    owner = child("own_all", str(path), "a")
    assert told(owner) == "owns"
    [lock] = lock_files(path)

    async def act(_store: SqliteStore) -> None:
        suspend(owner)  # or it would make another one
        lock.unlink()
        kill(owner)

    inherit(path, act)


def test_a_node_killed_in_the_middle_of_a_takeover_is_taken_over(path: Path, child: Child) -> None:
    owner = child("own_all", str(path), "a")
    assert told(owner) == "owns"
    kill(owner)
    between = child("die_while_taking_over", str(path))
    assert between.wait() == -signal.SIGKILL
    assert [node for (node,) in sql(path, "SELECT node FROM nodes ORDER BY node")] == ["a", "heir"]
    assert len(lock_files(path)) == 2, "that of the dead one is deleted when it is forgotten for good"

    async def main() -> None:
        store = await opened(str(path))
        assert await store.heartbeat("next", 3000) == ["next"]
        assert len(await store.acquire(EVERYTHING, "next", 3000)) == 64
        await store.close()

    asyncio.run(main())
    assert lock_files(path) == []


def test_a_suspended_node_keeps_what_it_owns(path: Path, child: Child) -> None:
    owner = child("own_all", str(path), "a")
    assert told(owner) == "owns"
    suspend(owner)

    async def main() -> None:
        store = await heir(path)
        await asyncio.sleep(4)  # longer than the leases that there were
        assert await store.heartbeat("heir", 3000) == ["a", "heir"]
        assert await store.acquire(EVERYTHING, "heir", 3000) == []
        assert {lease.node for lease in await store.leases()} == {"a"}
        await store.close()

    asyncio.run(main())


def test_a_live_node_whose_lock_file_is_deleted_makes_another_one_and_keeps_what_it_owns(
    path: Path, child: Child
) -> None:
    async def main() -> None:
        store = await opened(str(path))
        await store.heartbeat("here", 3000)
        held = await store.acquire(EVERYTHING, "here", 3000)
        store.changes([MEMBERS])
        [lock] = lock_files(path)
        lock.unlink()

        async def is_replaced() -> bool:
            return sql(path, "SELECT lock FROM nodes") == [(each.name,) for each in lock_files(path)]

        await until(is_replaced)
        other = child("take_all", str(path))
        assert await asyncio.to_thread(told, other) == "0"
        assert await store.renew(held, 3000) == held
        await store.close()

    asyncio.run(main())


def test_a_lock_file_that_others_try_or_delete_before_the_node_is_written_is_made_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Who joins deletes lock files that are not locked: also one that a starting node is about to lock.
    lock, make = fcntl.lockf, NodeLocks.make
    tried: list[int] = []
    made: list[str] = []

    def lock_after_others(descriptor: int, operation: int) -> None:
        tried.append(descriptor)
        if len(tried) == 1:
            raise BlockingIOError(errno.EAGAIN, "another process tries it")
        lock(descriptor, operation)

    def make_and_lose(locks: NodeLocks, node: str) -> tuple[NodeLock, Member]:
        made_lock, member = make(locks, node)
        made.append(made_lock.path)
        if len(made) == 1:
            Path(made_lock.path).unlink()
            opened_here[0]._nodes.keep_locks()  # as the writing thread does every second
        return made_lock, member

    async def main() -> None:
        store = await opened(str(path))
        opened_here.append(store)
        monkeypatch.setattr(fcntl, "lockf", lock_after_others)
        monkeypatch.setattr(NodeLocks, "make", make_and_lose)
        await store.heartbeat("here", 3000)
        assert [str(each) for each in lock_files(path)] == made[1:]
        assert (await store.acquire([0], "here", 3000))[0].expires_at is None, "it does not expire by time"
        await store.close()

    opened_here: list[SqliteStore] = []
    with caplog.at_level("WARNING"):
        asyncio.run(main())
    assert len(made) == 2
    assert caplog.messages == []


def test_other_code_cannot_open_the_lock_file_of_this_process(path: Path) -> None:
    async def main() -> None:
        store = await opened(str(path))
        await store.heartbeat("here", 3000)
        [lock] = lock_files(path)
        with pytest.raises(StoreFileInUse), lock.open():  # closing it would drop the lock
            pass
        await store.close()

    asyncio.run(main())


def test_the_nodes_of_a_copied_file_are_not_its_own(path: Path, tmp_path: Path, child: Child) -> None:
    owner = child("own_all", str(path), "a")
    assert told(owner) == "owns"
    copy = tmp_path / "copy.db"
    sql(path, f"VACUUM INTO '{copy}'")

    async def main() -> None:
        store = await opened(str(copy))
        assert await store.heartbeat("here", 3000) == ["here"]
        assert len(await store.acquire(EVERYTHING, "here", 3000)) == 64
        await store.close()

    asyncio.run(main())


def test_a_loop_that_is_closed_without_closing_its_store_gives_its_nodes_up(path: Path) -> None:
    async def begin() -> None:
        store = await opened(str(path))
        await store.heartbeat("a", 3000)
        await store.acquire(EVERYTHING, "a", 3000)
        store.changes([MEMBERS])

    asyncio.run(begin())

    async def main() -> None:
        store = await opened(str(path))
        await until_alone(store, "b")
        assert len(await store.acquire(EVERYTHING, "b", 3000)) == 64
        await store.close()

    asyncio.run(main())


def test_a_node_that_could_not_be_written_off_is_taken_over_while_its_process_lives(path: Path, child: Child) -> None:
    """As on a full disk: its lock file stays until the database says that it is gone."""
    owner = child("own_all", str(path), "a")
    assert told(owner) == "owns"

    async def act(_store: SqliteStore) -> None:
        assert await asyncio.to_thread(say, owner, "close in vain") == "did close in vain"

    inherit(path, act)
    assert owner.poll() is None


def test_what_is_short_for_the_moment_does_not_turn_locks_off(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_locks: NodeLocks, _node: str) -> tuple[NodeLock, Member]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def main() -> None:
        store = await opened(str(path))
        with monkeypatch.context() as full:
            full.setattr(NodeLocks, "make", refuse)
            with pytest.raises(StoreUnavailable, match="No space left on device"):
                await store.heartbeat("a", 3000)
        assert await store.heartbeat("a", 3000) == ["a"]
        assert not store.timed_leases
        await store.close()

    asyncio.run(main())


def test_what_another_process_adds_is_told_and_found_if_that_is_lost(path: Path, child: Child) -> None:
    async def main() -> None:
        store = await opened(str(path))
        await store.heartbeat("here", 3000)
        other = child("take_all", str(path))
        assert await asyncio.to_thread(told, other) == "64"
        heard = store.changes(range(64))
        assert await asyncio.to_thread(say, other, "a") == "added"
        async with asyncio.timeout(PATIENCE_S):
            news = await anext(heard)
        [added] = await store.get(["a"])
        assert added is not None
        assert news == {3: Change(added.run_at, added.run_at, runs=False)}, (
            "a notification says where, and when it is due"
        )
        for each in path.parent.glob("*.sock"):
            each.unlink()
        assert await asyncio.to_thread(say, other, "b") == "added"
        async with asyncio.timeout(PATIENCE_S):
            assert (await anext(heard)).keys() == set(range(64)), "who was not told has to look everywhere"
        await store.close()

    asyncio.run(main())


def test_notifications_reach_a_file_whose_path_is_too_long_for_a_socket(tmp_path: Path, child: Child) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    path = folder / "tasks.db"

    async def main() -> None:
        store = await opened(str(path))
        await store.heartbeat("here", 3000)
        other = child("take_all", str(path))
        await asyncio.to_thread(told, other)
        heard = store.changes(range(64))
        assert await asyncio.to_thread(say, other, "a") == "added"
        async with asyncio.timeout(PATIENCE_S):
            assert (await anext(heard)).keys() == {3}
        await store.close()

    asyncio.run(main())


def test_nothing_is_written_while_nothing_changes(path: Path) -> None:
    async def main() -> None:
        store = await opened(str(path))
        await store.add([task(str(number), run_at=10**15) for number in range(1000)])
        await store.heartbeat("here", 3000)
        held = await store.acquire(EVERYTHING, "here", 3000)
        before = store.commits
        for _ in range(10):
            assert await store.heartbeat("here", 3000) == ["here"]
            assert await store.renew(held, 3000) == held
            assert len(await store.leases()) == 64
        assert store.commits == before
        await store.close()

    asyncio.run(main())


def test_a_folder_that_may_not_be_written_makes_leases_expire_by_time(child: Child) -> None:
    with TemporaryDirectory() as folder:  # of its own: another user has to get at it
        path = Path(folder) / "tasks.db"

        async def main() -> None:
            store = await opened(str(path))
            await store.add([task("a")])
            protect(Path(folder))
            output, _ = await asyncio.to_thread(
                child("open_in_a_folder_without_rights", str(path)).communicate, timeout=60
            )
            lines = output.splitlines()
            assert [line for line in lines if "node locks do not work here" in line] == lines[:1], "it is logged once"
            assert lines[1:] == ["True 64"]
            assert {lease.node for lease in await store.leases()} == {"here"}
            await store.close()

        try:
            asyncio.run(main())
        finally:
            Path(folder).chmod(0o755)


def protect(folder: Path) -> None:
    """Let everybody write the files of a folder, and nobody the folder."""
    for each in folder.iterdir():
        each.chmod(0o666)
    folder.chmod(0o555)


# -- files of versions before node locks


def make_old(path: Path, expires_at: int) -> None:
    """Make a file of the version before, all owned by a node whose leases end at a time."""
    connection = apsw.Connection(str(path))
    for script in MIGRATIONS[:2]:
        connection.execute(script)
    connection.executemany("INSERT INTO partitions (part) VALUES (?)", ((number,) for number in range(64)))
    connection.execute("UPDATE partitions SET node = 'old', nonce = 'n', epoch = 7, expires_at = ?", (expires_at,))
    connection.execute("INSERT INTO nodes VALUES ('old', ?)", (expires_at,))
    connection.pragma("user_version", 2)
    connection.close()


def take_all(path: Path) -> list[int]:
    async def main() -> list[int]:
        store = await opened(str(path))
        await store.heartbeat("here", 3000)
        held = await store.acquire(EVERYTHING, "here", 3000)
        await store.close()
        return [lease.epoch for lease in held]

    return asyncio.run(main())


def test_an_old_file_is_migrated_though_its_leases_end_in_an_hour(path: Path) -> None:
    make_old(path, 10**15)
    assert take_all(path) == [8] * 64


def test_an_old_file_that_nobody_owns_is_migrated(path: Path) -> None:
    make_old(path, 0)
    assert take_all(path) == [8] * 64


def test_an_old_file_is_not_migrated_while_an_old_node_renews_its_leases(path: Path) -> None:
    make_old(path, 10**15)
    ended = Event()

    def renew() -> None:
        connection = apsw.Connection(str(path))
        connection.set_busy_timeout(5000)
        number = 0
        while not ended.wait(0.5):
            number += 1
            connection.execute("UPDATE partitions SET expires_at = ?", (10**15 + number,))
        connection.close()

    old = Thread(target=renew)
    old.start()
    try:
        with pytest.raises(StoreUnavailable, match="older version of tickwheel runs tasks"):
            take_all(path)
    finally:
        ended.set()
        old.join()
    assert sql(path, "PRAGMA user_version") == [(2,)]
    assert take_all(path) == [8] * 64


def test_a_node_whose_queue_is_full_does_not_respond(tmp_path: Path) -> None:
    lock = str(tmp_path / "tasks.db-node-1")
    assert ping(lock, 0.01) is None, "nobody listens: it cannot be asked"
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as suspended,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender,
    ):
        suspended.bind(socket_path(lock))
        with suppress(BlockingIOError):
            while True:
                sender.sendto(b"[1, [2]]", socket_path(lock))
        assert ping(lock, 0.01) is False
