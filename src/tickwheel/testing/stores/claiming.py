"""The way of a task through its owner's hands: due, claimed, finished, or left behind."""

import asyncio

from msgspec.structs import replace

from tickwheel.clock import VirtualClock
from tickwheel.errors import BatchTooLarge, InvalidTask, PayloadTooLarge
from tickwheel.stores.contract import Due, Finish
from tickwheel.tasks.record import Run, RunStatus, Status
from tickwheel.tasks.transitions import crash
from tickwheel.tasks.triggers import Every
from tickwheel.testing.stores.legal import LegalStore
from tickwheel.testing.stores.scenario import Opening, ids, lapse, now_of, own, raised, scenario, start, task

__all__ = ["Claiming"]


class Claiming(Opening):
    """`due`, `claim`, `finish` and `orphans`."""

    @scenario
    async def test_due_tasks_come_by_time_and_id(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add(
            [
                task("late", 3001),
                task("b", 2000, partition=1, priority=9),
                task("é", 2000, partition=2),
                task("a", 2000, partition=2),
                task("B", 2000),
                task("first", 0, partition=7),
                task("last", 3000),
            ]
        )
        leases = await own(store)
        found = await store.due(leases, 3000, None, 10)
        assert ids(found) == ["first", "B", "a", "b", "é", "last"]
        assert replace(found[3], handler="") == Due(2000, "b", 1, 9, 0)
        assert found[3].handler in ("orders.cancel", ""), "a store may leave it out"
        assert ids(await store.due([leases[2], leases[0]], 3000, None, 10)) == ["B", "a", "é", "last"]
        assert await store.due([], 3000, None, 10) == []

    @scenario
    async def test_what_is_due_tells_its_queue(self, store: LegalStore, _clock: VirtualClock) -> None:
        names = ["queue:emails", "queue:", "queue", "Queue:emails", "a.queue:emails", "queue:queue:é"]
        await store.add([task(f"{place}", handler=name) for place, name in enumerate(names)])
        found = await store.due(await own(store), 1000, None, 10)
        assert [due.queue for due in found] == ["emails", "", None, None, None, "queue:é"]

    @scenario
    async def test_due_pages_go_on_beyond_the_last_one(self, store: LegalStore, _clock: VirtualClock) -> None:
        tasks = [task(f"{n:03}", 1000 + n // 7, partition=n % 5) for n in range(100)]
        await store.add(tasks[::-1])
        leases = await own(store)
        found: list[str] = []
        after = None
        while page := await store.due(leases, 10**6, after, 9):
            found += ids(page)
            after = (page[-1].run_at, page[-1].id)
            assert len(found) <= len(tasks)
        assert found == ids(tasks)
        assert ids(await store.due(leases, 1001, (1000, "005"), 100)) == [f"{n:03}" for n in range(6, 14)]

    @scenario
    async def test_a_claimed_task_runs(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add([task("a"), task("b")])
        leases = await own(store, 0)
        claimed = await store.claim(leases, ["b", "x", "a"], 1234)
        assert claimed == [
            replace(task(each), status=Status.RUNNING, attempt=1, started_at=1234, version=1) for each in ("b", "a")
        ]
        assert await store.get(["b", "a"]) == claimed
        assert await store.due(leases, 10**6, None, 10) == []

    @scenario
    async def test_a_task_is_claimed_once(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add([task("a")])
        leases = await own(store, 0)
        answers = await asyncio.gather(*(store.store.claim(leases, ["a", "a"], 1000) for _ in range(10)))
        assert [len(claimed) for claimed in answers] == [1] + [0] * 9

    @scenario
    async def test_what_is_not_due_is_left_out(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add([task("a", run_at=1000), task("b", run_at=1001)])
        leases = await own(store, 0)
        assert ids(await store.claim(leases, ["a", "b"], 1000)) == ["a"]
        await store.reschedule("b", 5000)
        assert await store.claim(leases, ["b"], 1001) == []
        assert ids(await store.claim(leases, ["b"], 5000)) == ["b"]

    @scenario
    async def test_what_is_not_pending_is_left_out(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add([task("cancelled"), task("paused"), task("elsewhere", partition=1), task("a")])
        await store.cancel(["cancelled"], "no")
        await store.pause(["paused"])
        leases = await own(store, 0)
        assert ids(await store.claim(leases, ["cancelled", "paused", "elsewhere", "a"], 1000)) == ["a"]
        await raised(BatchTooLarge, store.store.claim(leases, ["a"] * 10_001, 1000))

    @scenario
    async def test_a_finished_task_is_as_its_owner_says(self, store: LegalStore, clock: VirtualClock) -> None:
        leases, claimed = await start(store, *(task(each, partition=1) for each in "abcd"))
        wanted = [
            replace(claimed[0], status=Status.COMPLETED, result={"n": 1}, runs=1, finished_at=1500),
            replace(claimed[1], status=Status.FAILED, error="Traceback", failures=1, reason="no luck"),
            replace(claimed[2], status=Status.PENDING, run_at=9000, occurrence_at=8000, failures=1),
            replace(claimed[3], status=Status.PENDING, run_at=9000),
        ]
        await store.pause(["d"])
        assert await store.finish([Finish(lease=leases[0], task=each) for each in wanted]) == [True] * 4
        expected = [replace(each, version=2) for each in wanted]
        expected[3] = replace(expected[3], paused=True, version=3)
        expected[1] = replace(expected[1], finished_at=now_of(clock))
        assert await store.get(list("abcd")) == expected
        assert ids(await store.due(leases, 9000, None, 10)) == ["c"]
        [again] = await store.claim(leases, ["c"], 9000)
        assert (again.attempt, again.failures) == (2, 1)

    @scenario
    async def test_any_text_goes_through_all_hands_as_it_is(self, store: LegalStore, _clock: VirtualClock) -> None:
        words = ["two\nlines\r\n", "\n", 'a "quote"', "back\\slash\\n", "{a,b}", "NULL", " ", "\x01\x1f\u2028", "🎡"]
        added = [task(each, handler=each, args={each: each}) for each in words]
        leases, claimed = await start(store, *added)
        assert [(each.id, each.handler, each.args) for each in claimed] == [
            (each, each, {each: each}) for each in words
        ]
        done = [replace(each, status=Status.COMPLETED, result=each.id, finished_at=2, version=1) for each in claimed]
        runs = [
            Run(
                task_id=each,
                attempt=1,
                occurrence_at=0,
                started_at=1,
                finished_at=2,
                status=RunStatus.FAILED,
                error=each,
            )
            for each in words
        ]
        runs_of = [None, *runs[1:]]  # not every run is remembered
        finishes = [Finish(lease=leases[0], task=each, run=run) for each, run in zip(done, runs_of, strict=True)]
        assert await store.finish(finishes) == [True] * len(words)
        assert await store.get(words) == [replace(each, version=2) for each in done]
        assert [await store.history(each) for each in words] == [[], *([run] for run in runs[1:])]

    @scenario
    async def test_what_an_owner_cannot_change_stays(self, store: LegalStore, _clock: VirtualClock) -> None:
        leases, [running] = await start(store, task("a", priority=2))
        moved = replace(running, status=Status.PENDING, partition=3, priority=9, handler="x", created_at=9, version=99)
        assert await store.finish([Finish(lease=leases[0], task=moved)]) == [True]
        assert await store.get(["a"]) == [replace(running, status=Status.PENDING, version=2)]

    @scenario
    async def test_a_stale_attempt_cannot_finish(self, store: LegalStore, _clock: VirtualClock) -> None:
        [lease], [first] = await start(store, task("a"))
        run = Run(task_id="a", attempt=1, occurrence_at=0, started_at=1, finished_at=2, status=RunStatus.COMPLETED)
        done = Finish(lease=lease, task=replace(first, status=Status.COMPLETED), run=run)
        assert await store.finish([Finish(lease=lease, task=replace(first, status=Status.PENDING))]) == [True]
        assert await store.finish([done]) == [False]  # it does not run
        [second] = await store.claim([lease], ["a"], 2000)
        assert await store.finish([done]) == [False]  # it runs again
        assert await store.get(["a"]) == [second]
        assert await store.history("a") == []
        unknown = Finish(lease=lease, task=replace(first, id="x", status=Status.COMPLETED))
        good = Finish(lease=lease, task=replace(second, status=Status.COMPLETED))
        assert await store.finish([unknown, good, good]) == [False, True, False]

    @scenario
    async def test_the_lease_has_to_be_the_tasks(self, store: LegalStore, _clock: VirtualClock) -> None:
        leases, [running] = await start(store, task("a", partition=1))
        [other] = await own(store, 2)
        assert leases[0].partition == 1
        assert await store.finish([Finish(lease=other, task=replace(running, status=Status.COMPLETED))]) == [False]
        forged = replace(other, partition=1)
        assert await store.finish([Finish(lease=forged, task=replace(running, status=Status.COMPLETED))]) == [False]

    @scenario
    async def test_what_was_asked_to_stop_is_not_pending_again(self, store: LegalStore, clock: VirtualClock) -> None:
        leases, claimed = await start(store, *(task(each) for each in "abcd"))
        await store.cancel(list("abcd"), "enough")
        clock.advance(1)
        ends = [Status.PENDING, Status.FAILED, Status.COMPLETED, Status.CANCELLED]
        finishes = [
            Finish(lease=leases[0], task=replace(each, status=end, result=1))
            for each, end in zip(claimed, ends, strict=True)
        ]
        assert await store.finish(finishes) == [True] * 4
        after = [each for each in await store.get(list("abcd")) if each is not None]
        assert [each.status.value for each in after] == ["cancelled", "cancelled", "completed", "cancelled"]
        assert [each.reason for each in after] == ["enough", "enough", None, "enough"]
        assert all(each.finished_at == now_of(clock) and each.cancel_requested for each in after)

    @scenario
    async def test_an_orphan_that_was_asked_to_stop_ends_its_series_there(
        self, store: LegalStore, clock: VirtualClock
    ) -> None:
        every = Every(interval_ms=1000)
        old, _ = await start(store, task("a", trigger=every, times=-1, max_crashes=1))
        await store.cancel(["a"], "enough")
        await store.release(old)
        clock.advance(10)
        [new] = await own(store, 0, node="new")
        [orphan] = await store.orphans([new], 10)
        after, run, skipped = crash(orphan, now_of(clock), 0.5)
        assert await store.finish([Finish(lease=new, task=after, run=run, skipped=skipped)]) == [True]
        [ended] = await store.get(["a"])
        assert ended is not None
        assert (ended.status, ended.runs, ended.reason) == (Status.CANCELLED, 0, "enough")
        assert [each.status for each in await store.history("a", 10)] == [RunStatus.FAILED], "nothing else was skipped"

    @scenario
    async def test_an_impossible_outcome_is_refused_with_its_batch(
        self, store: LegalStore, _clock: VirtualClock
    ) -> None:
        [lease], [good, bad] = await start(store, task("a"), task("b"))
        done = Finish(lease=lease, task=replace(good, status=Status.COMPLETED))
        await raised(InvalidTask, store.finish([done, Finish(lease=lease, task=bad)]))
        huge = replace(bad, status=Status.COMPLETED, result="x" * 300_000)
        await raised(PayloadTooLarge, store.finish([done, Finish(lease=lease, task=huge)]))
        unspeakable = replace(bad, status=Status.COMPLETED, result=object())
        await raised(InvalidTask, store.finish([done, Finish(lease=lease, task=unspeakable)]))
        assert await store.get(["a", "b"]) == [good, bad]
        assert (await store.counts())[Status.RUNNING] == 2

    @scenario
    async def test_a_new_owner_finds_what_was_running(self, store: LegalStore, clock: VirtualClock) -> None:
        old, claimed = await start(store, *(task(f"t{n}", partition=n % 2) for n in range(6)))
        assert await store.orphans(old, 10) == []
        await store.finish([Finish(lease=old[0], task=replace(claimed[0], status=Status.COMPLETED))])
        await lapse(store, clock, old)
        [new] = await own(store, 0, node="there")
        await store.add([task("own")])
        await store.claim([new], ["own"], 1000)
        assert await store.orphans([new], 10) == [claimed[2], claimed[4]]
        assert await store.orphans([new], 1) == [claimed[2]]
        left = replace(claimed[2], status=Status.PENDING)
        assert await store.finish([Finish(lease=old[0], task=left)]) == [False]
        assert await store.finish([Finish(lease=new, task=left)]) == [True]
        assert ids(await store.orphans([new], 10)) == ["t4"]
        [again] = await store.claim([new], ["t2"], 2000)
        assert again.attempt == 2
        assert ids(await store.orphans([new], 10)) == ["t4"]

    @scenario
    async def test_a_thousand_go_through_in_one_batch(self, store: LegalStore, _clock: VirtualClock) -> None:
        tasks = [task(f"{n:04}", n, partition=n % store.partitions) for n in range(1000)]
        await store.add(tasks)
        leases = {lease.partition: lease for lease in await own(store)}
        found = await store.due(list(leases.values()), 10**6, None, 1000)
        assert ids(found) == ids(tasks)
        claimed = await store.claim(list(leases.values()), ids(found), 1000)
        assert ids(claimed) == ids(tasks)
        finishes = [
            Finish(lease=leases[each.partition], task=replace(each, status=Status.COMPLETED)) for each in claimed
        ]
        assert await store.finish(finishes) == [True] * 1000
        assert (await store.counts())[Status.COMPLETED] == 1000
