"""How calls share commits, and what becomes of those that are refused, given up or late."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.stores.children import opened
from tickwheel.errors import DuplicateTask, StoreClosed, StoreUnavailable
from tickwheel.stores.sqlite import SqliteStore
from tickwheel.stores.sqlite.connection_thread import GROUP_CALLS_MAX, WAITING_MAX
from tickwheel.tasks.record import Status
from tickwheel.testing.stores.scenario import task


@contextmanager
def held_up(path: Path) -> Iterator[None]:
    """Keep everyone from writing, so that what is asked for meanwhile has to wait."""
    other = apsw.Connection(str(path))
    other.set_busy_timeout(5000)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.execute("ROLLBACK")
    other.close()


@asynccontextmanager
async def at(path: Path) -> AsyncIterator[SqliteStore]:
    store = await opened(str(path))
    try:
        yield store
    finally:
        await store.close()


async def begin(*calls: Coroutine[Any, Any, Any]) -> "list[asyncio.Task[Any]]":
    """Have calls wait in the queue."""
    tasks = [asyncio.create_task(call) for call in calls]
    await asyncio.sleep(0)
    return tasks


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


def test_many_who_add_at_once_share_commits(path: Path) -> None:
    async def main() -> None:
        async with at(path) as store:
            before = store.commits
            with held_up(path):
                waiting = await begin(*(store.add([task(str(n))]) for n in range(64)))
            await asyncio.gather(*waiting)
            # What the writer had taken when it was held up, and all the rest.
            assert store.commits - before <= 2
            assert all(await store.get([str(n) for n in range(64)]))

    asyncio.run(main())


def test_one_after_the_other_each_has_its_commit(path: Path) -> None:
    async def main() -> None:
        async with at(path) as store:
            before = store.commits
            for number in range(5):
                await store.add([task(str(number))])
            assert store.commits - before == 5

    asyncio.run(main())


def test_who_is_refused_takes_no_one_along(path: Path) -> None:
    async def main() -> None:
        async with at(path) as store:
            await store.add([task("there")])
            with held_up(path):
                calls = (store.add([task(str(n)), task("there" if n % 3 == 0 else f"{n}b")]) for n in range(9))
                waiting = await begin(*calls)
            answers = await asyncio.gather(*waiting, return_exceptions=True)
            assert [isinstance(answer, DuplicateTask) for answer in answers] == [n % 3 == 0 for n in range(9)]
            found = await store.get([str(n) for n in range(9)])
            assert [each is None for each in found] == [n % 3 == 0 for n in range(9)]
            assert (await store.counts())[Status.PENDING] == 1 + 6 * 2

    asyncio.run(main())


def test_who_gives_up_breaks_nothing(path: Path) -> None:
    async def main() -> None:
        async with at(path) as store:
            with held_up(path):
                waiting = await begin(*(store.add([task(str(n))]) for n in range(10)))
                for each in waiting[::2]:
                    each.cancel()
                await asyncio.gather(*waiting[::2], return_exceptions=True)
            await asyncio.gather(*waiting[1::2])
            await store.add([task("after")])
            found = await store.get([*(str(n) for n in range(10)), "after"])
            assert [each is not None for each in found] == [False, True] * 5 + [True]

    asyncio.run(main())


def test_closing_answers_what_waits(path: Path) -> None:
    async def main() -> None:
        store = await opened(str(path))
        with held_up(path):
            waiting = await begin(*(store.add([task(str(n))]) for n in range(10)))
            closing = asyncio.create_task(store.close())
            await asyncio.sleep(0)
            with pytest.raises(StoreClosed):
                await store.get(["late"])
        await closing
        assert all(answer[0].added for answer in await asyncio.gather(*waiting))
        with pytest.raises(StoreClosed):
            await store.add([task("late")])
        async with at(path) as again:
            assert (await again.counts())[Status.PENDING] == 10

    asyncio.run(main())


def test_a_crowd_waits_before_the_queue(path: Path) -> None:
    async def main() -> None:
        async with at(path) as store:
            before = store.commits
            crowd = WAITING_MAX + 500
            with held_up(path):
                waiting = await begin(*(store.add([task(str(n))]) for n in range(crowd)))
                assert len(store._writes._waiting) <= WAITING_MAX
                assert (await store.counts())[Status.PENDING] == 0  # who reads does not wait for who writes
            await asyncio.gather(*waiting)
            assert (await store.counts())[Status.PENDING] == crowd
            assert store.commits - before >= crowd // GROUP_CALLS_MAX

    asyncio.run(main())


def test_a_file_that_others_hold_for_too_long_is_unavailable_and_then_is_not(path: Path) -> None:
    async def main() -> None:
        async with at(path) as store:
            store._writer._connection.set_busy_timeout(10)
            with held_up(path):
                waiting = await begin(*(store.add([task(str(n))]) for n in range(5)))
                answers = await asyncio.gather(*waiting, return_exceptions=True)
                assert all(isinstance(answer, StoreUnavailable) for answer in answers)
                assert "another process held it" in str(answers[0])
            assert not any(await store.get([str(n) for n in range(5)]))
            await store.add([task("0")])
            assert (await store.counts())[Status.PENDING] == 1

    asyncio.run(main())


def test_a_failed_commit_acknowledges_nothing(path: Path) -> None:
    async def main() -> None:
        async with at(path) as store:
            await store.add([task("before")])
            hook_says_no = [True]
            store._writer._connection.set_commit_hook(lambda: hook_says_no[0])
            waiting = await begin(*(store.add([task(str(n))]) for n in range(5)), store.cancel(["before"], "no"))
            answers = await asyncio.gather(*waiting, return_exceptions=True)
            assert all(isinstance(answer, StoreUnavailable) for answer in answers)
            hook_says_no[0] = False
            assert not any(await store.get([str(n) for n in range(5)]))
            assert (await store.counts()) == {**dict.fromkeys(Status, 0), Status.PENDING: 1}
            await store.add([task(str(n)) for n in range(5)])
            assert (await store.counts())[Status.PENDING] == 6

    asyncio.run(main())


def test_a_clock_that_fails_fails_its_callers_only(path: Path) -> None:
    async def main() -> None:
        times = [0]

        def now_ms() -> int:
            return 1000 // times[0]

        store = await SqliteStore.open(path, now_ms=now_ms)
        for call in (store.add([task("a")]), store.acquire([0], "here", 1)):
            with pytest.raises(ZeroDivisionError):
                await call
        times[0] = 1
        await store.add([task("a")])
        assert (await store.counts())[Status.PENDING] == 1
        await store.close()

    asyncio.run(main())
