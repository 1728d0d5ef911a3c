"""Listing tasks and their runs, counting them, and being told of changes."""

import asyncio

from msgspec.structs import replace

from tickwheel.clock import VirtualClock
from tickwheel.errors import InvalidCursor, InvalidLimit, StoreClosed
from tickwheel.stores.contract import PAGE_MAX, Filter, Finish
from tickwheel.tasks.record import Run, RunStatus, Status
from tickwheel.testing.stores.legal import LegalStore
from tickwheel.testing.stores.scenario import Opening, ids, now_of, own, raised, scenario, start, task

__all__ = ["Listing"]

SECONDS_TO_HEAR = 10  # a hint comes within milliseconds; this only ends a test that would hang


class Listing(Opening):
    """`query`, `counts`, `history`, `changes`, `time` and `close`."""

    @scenario
    async def test_the_newest_come_first_in_pages(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add([task(f"t{n}", 1000 - n) for n in range(5)])
        first = await store.query(Filter(), limit=2)
        assert ids(first.tasks) == ["t4", "t3"]
        second = await store.query(Filter(), first.cursor, limit=2)
        assert ids(second.tasks) == ["t2", "t1"]
        third = await store.query(Filter(), second.cursor, limit=2)
        assert (ids(third.tasks), third.cursor) == (["t0"], None)
        whole = await store.query(Filter(), limit=5)
        assert (len(whole.tasks), whole.cursor) == (5, None)
        assert first.tasks == [task("t4", 996), task("t3", 997)]

    @scenario
    async def test_an_empty_store_has_an_empty_page(self, store: LegalStore, _clock: VirtualClock) -> None:
        page = await store.query(Filter())
        assert (page.tasks, page.cursor) == ([], None)

    @scenario
    async def test_filters_narrow_the_list_together(self, store: LegalStore, _clock: VirtualClock) -> None:
        tasks = [
            task("shop/1"),
            task("shop/2", handler="remind"),
            task("shop/3"),
            task("shoq", handler="remind"),
            task("sho%"),
            task("SHOP/4"),
            task("shop/é"),
        ]
        await store.add(tasks)
        await store.pause(["shop/1", "shop/2", "shoq"])

        async def found(**fields: object) -> list[str]:
            return ids((await store.query(Filter(**fields))).tasks)  # type: ignore[arg-type]

        assert await found(status=Status.PAUSED) == ["shoq", "shop/2", "shop/1"]
        assert await found(status=Status.PENDING) == ["shop/é", "SHOP/4", "sho%", "shop/3"]
        assert await found(status=Status.FAILED) == []
        assert await found(handler="remind") == ["shoq", "shop/2"]
        assert await found(id_prefix="shop/") == ["shop/é", "shop/3", "shop/2", "shop/1"]
        assert await found(id_prefix="sho%") == ["sho%"]
        assert await found(id_prefix="shop/é") == ["shop/é"]
        assert await found(id_prefix="\U0010ffff") == []
        assert await found(id_prefix="") == ids(tasks[::-1])
        assert await found(id_prefix="shop", status=Status.PAUSED) == ["shop/2", "shop/1"]
        assert await found(handler="remind", status=Status.PENDING) == []
        assert await found(id_prefix="shop", handler="remind", status=Status.PAUSED) == ["shop/2"]

    @scenario
    async def test_filtered_pages_go_on_where_they_stopped(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add([task(f"{'ab'[n % 2]}{n}", handler="xy"[n % 2]) for n in range(20)])
        odd = [f"b{n}" for n in range(19, 0, -2)]
        await store.pause(odd)
        for wanted in (Filter(status=Status.PAUSED), Filter(handler="y"), Filter(id_prefix="b")):
            found: list[str] = []
            cursor = None
            while True:
                page = await store.query(wanted, cursor, limit=3)
                found += ids(page.tasks)
                cursor = page.cursor
                if cursor is None:
                    break
            assert found == odd

    @scenario
    async def test_a_cursor_stays_good_while_tasks_come_and_change(
        self, store: LegalStore, _clock: VirtualClock
    ) -> None:
        await store.add([task(f"t{n}") for n in range(6)])
        page = await store.query(Filter(), limit=2)
        await store.add([task("new")])
        await store.cancel(["t3", "t4"], "no")
        await store.reschedule("t2", 1)
        await store.add([task("t1", 7)], "replace")
        await store.cancel(["t5", "t0"], "no")
        await store.add([task("t0")])  # another one by that id: it is the newest now
        await store.purge(2**53 - 1)
        assert ids(page.tasks) == ["t5", "t4"]
        assert ids((await store.query(Filter(), page.cursor)).tasks) == ["t2", "t1"]
        assert ids((await store.query(Filter())).tasks) == ["t0", "new", "t2", "t1"]

    @scenario
    async def test_limits_and_cursors_are_checked(self, store: LegalStore, _clock: VirtualClock) -> None:
        for limit in (0, -1, PAGE_MAX + 1, True, 1.5):
            await raised(InvalidLimit, store.query(Filter(), limit=limit))  # type: ignore[arg-type]
            await raised(InvalidLimit, store.history("a", limit=limit))  # type: ignore[arg-type]
            await raised(InvalidLimit, store.due([], 1, None, limit))  # type: ignore[arg-type]
            await raised(InvalidLimit, store.orphans([], limit))  # type: ignore[arg-type]
        for cursor in ("", "x", "-1", "1.5", "٣", "9" * 30):
            await raised(InvalidCursor, store.query(Filter(), cursor))

    @scenario
    async def test_counts_follow_every_change(self, store: LegalStore, _clock: VirtualClock) -> None:
        assert await store.counts() == dict.fromkeys(Status, 0)
        leases, claimed = await start(store, *(task(f"t{n}") for n in range(6)))
        ends = [Status.COMPLETED, Status.FAILED, Status.PENDING, Status.PENDING, Status.COMPLETED]
        await store.pause(["t3"])
        finishes = [
            Finish(lease=leases[0], task=replace(each, status=end)) for each, end in zip(claimed[:5], ends, strict=True)
        ]
        assert await store.finish(finishes) == [True] * 5
        assert await store.counts() == {
            Status.PENDING: 1,
            Status.PAUSED: 1,
            Status.RUNNING: 1,
            Status.COMPLETED: 2,
            Status.FAILED: 1,
            Status.CANCELLED: 0,
        }

    @scenario
    async def test_the_history_has_the_latest_run_first(self, store: LegalStore, clock: VirtualClock) -> None:
        await store.add([task("a"), task("ab")])
        [lease] = await own(store, 0)
        runs: list[Run] = []
        for attempt in range(1, 13):
            [running] = await store.claim([lease], ["a"], now_of(clock))
            run = Run(
                task_id="a",
                attempt=attempt,
                occurrence_at=1000,
                started_at=attempt * 10,
                finished_at=attempt * 10 + 5,
                status=RunStatus.FAILED,
                error="Traceback ...",
                reason="no luck",
            )
            runs.insert(0, run)
            finish = Finish(lease=lease, task=replace(running, status=Status.PENDING), run=run)
            assert await store.finish([finish]) == [True]
        assert await store.history("a") == runs
        assert await store.history("a", limit=3) == runs[:3]
        assert await store.history("ab") == []
        assert await store.history("unknown") == []

    @scenario
    async def test_time_is_the_clocks(self, store: LegalStore, clock: VirtualClock) -> None:
        before = await store.time()
        clock.advance(1.5)
        assert await store.time() - before == 1500

    @scenario
    async def test_changes_tell_where_something_happened(self, store: LegalStore, _clock: VirtualClock) -> None:
        heard = store.changes([0, 1, 2])

        async def news(partition: int) -> None:
            async with asyncio.timeout(SECONDS_TO_HEAR):
                while partition not in (told := await anext(heard)):
                    assert told.keys() <= {0, 1, 2}

        await store.add([task("elsewhere", partition=3), task("a", partition=1)])
        await news(1)
        await store.reschedule("a", 5)
        await news(1)
        await store.add([task("b", partition=2)])
        await news(2)
        await store.pause(["a"])
        await news(1)
        await store.resume(["a"])
        await news(1)
        await store.add([task("a", 9, partition=1)], "debounce")
        await news(1)
        await store.cancel(["a"], "no")
        await news(1)
        await store.revive(["a"], 5)
        await news(1)
        leases = await store.acquire([1, 2, 3], "here", 3000)
        await store.release(leases[1:])
        await news(2)

    @scenario
    async def test_changes_end_when_the_store_is_closed(self, store: LegalStore, _clock: VirtualClock) -> None:
        heard = store.changes([0])
        listening = asyncio.create_task(anext(heard, None))
        await asyncio.sleep(0)
        await store.close()
        async with asyncio.timeout(SECONDS_TO_HEAR):
            assert await listening is None

    @scenario
    async def test_a_closed_store_says_so(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.close()
        await store.close()
        await raised(StoreClosed, store.get(["a"]))
        await raised(StoreClosed, store.store.add([task("a")]))
        await raised(StoreClosed, store.acquire([0], "here", 1))
