"""SQLite files that outlive their processes, and those that several of them share."""

import asyncio
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest

from tests.stores.children import opened
from tickwheel.testing.stores.scenario import task

ROUNDS = 20


Child = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def child() -> Iterator[Child]:
    """Start programs of `children.py`; what is left of them at the end of the test is ended."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "tests.stores.children", *arguments]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        with process:  # closes its pipes, and waits for it
            pass


def told(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.slow
def test_what_was_acknowledged_survives_a_kill(tmp_path: Path, child: Child) -> None:
    path = tmp_path / "tasks.db"
    acknowledged: set[str] = set()
    for round_number in range(ROUNDS):
        with child("add_for_ever", str(path), str(round_number)) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(1 + round_number * 7)]
            process.kill()
            lines += process.stdout.readlines()
        acknowledged.update(each for line in lines if line.endswith("\n") for each in line.split())

    async def look() -> None:
        store = await opened(str(path))
        found = await store.get(sorted(acknowledged))
        assert all(found)
        counted = sum((await store.counts()).values())
        await store.close()
        connection = apsw.Connection(str(path))
        assert connection.execute("SELECT count(*) FROM tasks").get == counted >= len(acknowledged)
        assert connection.pragma("integrity_check") == "ok"
        connection.close()

    asyncio.run(look())
    assert len(acknowledged) >= ROUNDS * (ROUNDS - 1) * 7 // 2


def test_a_full_disk_loses_nothing_and_is_survived(tmp_path: Path, child: Child) -> None:
    process = child("fill_the_disk", str(tmp_path / "tasks.db"))
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert output.startswith("kept ")


def test_a_file_that_may_only_be_read_is_refused(child: Child) -> None:
    with TemporaryDirectory() as folder:  # of its own: another user has to get at it
        path = Path(folder) / "tasks.db"

        async def make() -> None:
            await (await opened(str(path))).close()

        asyncio.run(make())
        path.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
        Path(folder).chmod(0o555)
        output, _ = child("open_without_rights", str(path)).communicate(timeout=60)
        Path(folder).chmod(0o755)
    assert output.startswith("StoreUnavailable")
    assert "read-only" in output


@pytest.fixture
def shared_path() -> Iterator[Path]:
    """Give a database in a folder of its own that everybody may write."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        path = Path(folder) / "tasks.db"

        async def make() -> None:
            await (await opened(str(path))).close()

        asyncio.run(make())
        path.chmod(0o666)
        yield path


def test_a_file_that_may_be_written_again_is_opened(shared_path: Path, child: Child) -> None:
    shared_path.chmod(0o444)
    refused, _ = child("open_without_rights", str(shared_path)).communicate(timeout=60)
    assert refused.startswith(f"StoreUnavailable {shared_path}: it is read-only")
    assert list(shared_path.parent.iterdir()) == [shared_path], "nothing is left beside it"
    shared_path.chmod(0o666)
    output, _ = child("open_without_rights", str(shared_path)).communicate(timeout=60)
    assert output == "opened\n"


def test_a_folder_that_may_only_be_read_is_told_from_a_file(shared_path: Path, child: Child) -> None:
    shared_path.parent.chmod(0o555)
    try:
        output, _ = child("open_without_rights", str(shared_path)).communicate(timeout=60)
    finally:
        shared_path.parent.chmod(0o777)
    assert "it, or its folder, is read-only; let this user write both" in output


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_log_that_may_only_be_read_is_named(shared_path: Path, child: Child, suffix: str) -> None:
    log = Path(f"{shared_path}{suffix}")
    log.touch()
    log.chmod(0o444)
    link = shared_path.with_name("link.db")
    link.symlink_to(shared_path)
    for path in (shared_path, link):
        output, _ = child("open_without_rights", str(path)).communicate(timeout=60)
        assert output.startswith(f"StoreUnavailable {log}: it is read-only, and without it {path} cannot be written")


def test_processes_that_open_a_new_file_at_once_share_it(tmp_path: Path, child: Child) -> None:
    children = [child("take_all", str(tmp_path / "tasks.db")) for _ in range(4)]
    got = [int(told(process)) for process in children]
    assert sum(got) == 64
    for process in children:
        process.communicate(timeout=60)
        assert process.returncode == 0


@pytest.mark.slow
def test_many_new_files_are_opened_by_four_processes_at_once(tmp_path: Path, child: Child) -> None:
    children = [child("open_many") for _ in range(4)]
    for number in range(ROUNDS):
        for process in children:
            assert process.stdin is not None
            process.stdin.write(f"{tmp_path / str(number)}.db\n")
            process.stdin.flush()
        assert [told(process) for process in children] == ["64"] * 4
    for process in children:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert len(list(tmp_path.iterdir())) == ROUNDS, "the last one brought each log back into its file"


def test_two_processes_work_on_one_file(tmp_path: Path, child: Child) -> None:
    path = tmp_path / "tasks.db"

    async def main() -> None:
        store = await opened(str(path))
        mine = await store.acquire(range(10), "here", 600_000)
        other = child("take_all", str(path))
        assert await asyncio.to_thread(told, other) == "54"
        assert await store.acquire(range(64), "here", 600_000) == []
        assert len(await store.renew(mine, 600_000)) == 10

        heard = store.changes(range(64))
        assert other.stdin is not None
        other.stdin.write("a b c\n")
        other.stdin.flush()
        async with asyncio.timeout(60):
            assert 3 in await anext(heard)
        assert await asyncio.to_thread(told, other) == "added"
        assert all(await store.get(["a", "b", "c"]))
        assert len(await store.due(mine, 10**15, None, 10)) == 3

        ids = [f"{who}{n}" for who in "xy" for n in range(100)]
        for number in range(100):  # both at once
            other.stdin.write(f"y{number}\n")
            other.stdin.flush()
            await store.add([task(f"x{number}")])
        await asyncio.to_thread(other.communicate)
        assert other.returncode == 0
        assert all(await store.get(ids))
        assert sum((await store.counts()).values()) == 203
        await store.close()

    asyncio.run(main())


def test_the_log_is_brought_back_into_the_file_at_the_end(tmp_path: Path) -> None:
    async def main() -> None:
        store = await opened(str(tmp_path / "tasks.db"))
        await store.add([task("a")])
        await store.close()

    asyncio.run(main())
    assert [each.name for each in tmp_path.iterdir()] == ["tasks.db"]


def test_a_program_that_does_not_close_its_store_ends(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from tests.stores.children import opened, task\n"
        "async def main():\n"
        "    await (await opened(sys.argv[1])).add([task('a')])\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "tasks.db")], check=True, timeout=60)


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent.parent.parent)  # where children find the package `tests`
