"""What is asked for while a task runs, and takes effect when its outcome is written; and runs out of turn."""

from msgspec.structs import replace

from tickwheel.clock import VirtualClock
from tickwheel.errors import TaskRunning
from tickwheel.stores.contract import Filter, Finish, Lease
from tickwheel.tasks import transitions
from tickwheel.tasks.record import Run, RunStatus, Status, Task
from tickwheel.tasks.triggers import Every
from tickwheel.testing.stores.legal import LegalStore
from tickwheel.testing.stores.scenario import Opening, ids, lapse, now_of, own, raised, scenario, start, task

__all__ = ["Running"]


def series(clock: VirtualClock, task_id: str = "a") -> Task:
    """Make a task of every second, due now."""
    return task(task_id, now_of(clock), trigger=Every(interval_ms=1000), times=-1)


async def finish(store: LegalStore, lease: Lease, ended: transitions.Ended) -> Task:
    """Write an outcome, and return what came of it."""
    assert await store.finish([Finish(lease=lease, task=ended.task, run=ended.run, skipped=ended.skipped)]) == [True]
    [after] = await store.get([ended.task.id])
    assert after is not None
    return after


class Running(Opening):
    """`pause`, `update`, `add` and `cancel` of running tasks, and `run_now`."""

    @scenario
    async def test_a_task_paused_while_it_runs_is_paused_then(self, store: LegalStore, clock: VirtualClock) -> None:
        now = now_of(clock)
        [lease], [running] = await start(store, series(clock))
        [paused] = await store.pause(["a"])
        assert paused is not None
        assert (paused.status, paused.paused) == (Status.RUNNING, True)
        assert await store.pause(["a"]) == [paused]
        after = await finish(store, lease, transitions.succeed(running, 7, now + 5))
        assert (after.status, after.paused, after.run_at, after.result) == (Status.PENDING, True, now + 1000, 7)
        assert await store.due([lease], now + 10**6, None, 10) == []
        assert (await store.counts())[Status.PAUSED] == 1
        assert ids((await store.query(Filter(status=Status.PAUSED))).tasks) == ["a"]
        assert (await store.query(Filter(status=Status.PENDING))).tasks == []

    @scenario
    async def test_run_now_runs_a_paused_task_once(self, store: LegalStore, clock: VirtualClock) -> None:
        now = now_of(clock)
        await store.add([replace(series(clock), run_at=now + 5000, occurrence_at=now + 5000)])
        await store.pause(["a"])
        lease, *_ = await own(store, 0)
        [asked, missing] = await store.run_now(["a", "x"])
        assert missing is None
        assert asked is not None
        assert (asked.run_at, asked.paused, asked.listed_status) == (now, True, Status.PENDING)
        assert await store.run_now(["a"]) == [asked]
        assert ids(await store.due([lease], now, None, 10)) == ["a"]
        [running] = await store.claim([lease], ["a"], now)
        assert await store.run_now(["a"]) == [running]
        after = await finish(store, lease, transitions.succeed(running, None, now))
        assert (after.listed_status, after.run_at, after.runs) == (Status.PAUSED, now + 5000, 0)
        assert (await store.counts())[Status.PAUSED] == 1

    @scenario
    async def test_a_running_series_is_updated_or_replaced_afterwards(
        self, store: LegalStore, clock: VirtualClock
    ) -> None:
        now = now_of(clock)
        leases, [first, second] = await start(store, series(clock), series(clock, "b"))
        [changed] = await store.amend([replace(first, priority=5, args={"n": 2})])
        assert (changed.status, changed.priority, changed.args) == (Status.RUNNING, 0, {})
        new = task("b", now + 5000, handler="other", priority=3)
        [conflict] = await store.add([new], "replace")
        assert (conflict.added, conflict.task.status, conflict.task.handler) == (False, Status.RUNNING, "orders.cancel")
        updated = await finish(store, leases[0], transitions.succeed(first, None, now + 5))
        assert (updated.priority, updated.args, updated.run_at) == (5, {"n": 2}, now + 1000)
        replaced = await finish(store, leases[0], transitions.succeed(second, None, now + 5))
        assert (replaced.handler, replaced.run_at, replaced.attempt) == ("other", now + 5000, 1)
        assert [(due.id, due.priority) for due in await store.due(leases, now + 10**6, None, 10)] == [
            ("a", 5),
            ("b", 3),
        ]
        assert ids((await store.query(Filter(handler="other"))).tasks) == ["b"]
        await store.claim(leases, ["b"], now + 5000)
        await raised(TaskRunning, store.add([new], "replace"))

    @scenario
    async def test_what_replaces_a_running_task_takes_its_place_though_no_retry_begins_before_it_expires(
        self, store: LegalStore, clock: VirtualClock
    ) -> None:
        now = now_of(clock)
        [lease], [running] = await start(store, replace(series(clock), expires_at=now + 100))
        await store.add([task("a", now + 5000, handler="other")], "replace")
        died = await finish(store, lease, transitions.crash(running, now, 0.0))
        [again] = await store.claim([lease], ["a"], died.run_at)
        after = await finish(store, lease, transitions.expire(again, died.run_at))
        assert (after.status, after.handler, after.run_at) == (Status.PENDING, "other", now + 5000)
        assert ids(await store.due([lease], now + 5000, None, 10)) == ["a"]

    @scenario
    async def test_a_running_one_off_is_debounced_for_one_following_run(
        self, store: LegalStore, _clock: VirtualClock
    ) -> None:
        [lease], [running] = await start(store, task("a", args={"n": 1}))
        for run_at in (8000, 9000):
            [conflict] = await store.add([task("a", run_at, args={"n": run_at})], "debounce")
            assert (conflict.added, conflict.task.args, conflict.task.status) == (False, {"n": 1}, Status.RUNNING)
        after = await finish(store, lease, transitions.succeed(running, None, 1500))
        assert (after.status, after.args, after.run_at) == (Status.PENDING, {"n": 9000}, 9000)
        assert ids(await store.due([lease], 9000, None, 10)) == ["a"]

    @scenario
    async def test_a_debounce_after_a_cancel_makes_one_following_run(
        self, store: LegalStore, _clock: VirtualClock
    ) -> None:
        for number, discarded in enumerate((False, True)):
            [lease], [running] = await start(store, task(f"{number}", args={"n": 1}))
            await store.cancel([running.id], "not this run")
            [conflict] = await store.add([task(running.id, 9000, args={"n": 2})], "debounce")
            assert (conflict.task.status, conflict.task.cancel_requested) == (Status.RUNNING, True)
            if discarded:
                [asked] = await store.cancel([running.id], "not at all")
                assert asked is not None
                assert (asked.following, asked.reason) == (None, "not at all")
            after = await finish(store, lease, transitions.stop(running, "not this run", 1500))
            assert after.cancel_requested == discarded
            assert [run.status for run in await store.history(running.id)] == [RunStatus.CANCELLED]
            if discarded:
                assert after.status is Status.CANCELLED
            else:
                assert (after.status, after.args, after.run_at) == (Status.PENDING, {"n": 2}, 9000)
                assert ids(await store.due([lease], 9000, None, 10)) == [running.id]
            await store.release([lease])

    @scenario
    async def test_a_run_alone_is_cancelled_and_its_series_goes_on(
        self, store: LegalStore, clock: VirtualClock
    ) -> None:
        now = now_of(clock)
        [lease], [running] = await start(store, series(clock))
        [asked] = await store.cancel(["a"], "this one", run_only=True)
        assert asked is not None
        assert (asked.cancel_requested, asked.cancel_run_only) == (True, True)
        assert await store.cancel(["a"], "again", run_only=True) == [asked]
        after = await finish(store, lease, transitions.stop(running, "stopped", now + 5))
        assert (after.status, after.run_at, after.cancel_requested) == (Status.PENDING, now + 1000, False)
        assert await store.cancel(["a"], "waiting", run_only=True) == [after]

    @scenario
    async def test_a_task_that_kills_its_owners_fails_in_the_end(self, store: LegalStore, clock: VirtualClock) -> None:
        await store.add([task("a", now_of(clock))])
        for owner in range(3):
            [lease] = await own(store, 0, node=f"node {owner}")
            for orphan in await store.orphans([lease], 10):
                died = await finish(store, lease, transitions.crash(orphan, now_of(clock), 0.0))
                clock.advance((died.run_at - now_of(clock)) / 1000)
            assert len(await store.claim([lease], ["a"], now_of(clock))) == 1
            await lapse(store, clock, [lease])
        [lease] = await own(store, 0, node="last")
        [orphan] = await store.orphans([lease], 10)
        failed = await finish(store, lease, transitions.crash(orphan, now_of(clock), 0.0))
        assert (failed.status, failed.reason) == (Status.FAILED, "worker died 3 times while running this task")
        assert [run.status for run in await store.history("a")] == [RunStatus.FAILED] * 3

    @scenario
    async def test_skipped_occurrences_are_in_the_history(self, store: LegalStore, clock: VirtualClock) -> None:
        now = now_of(clock)
        [lease], [running] = await start(store, series(clock))
        ended = transitions.succeed(running, None, now + 2500)
        assert len(ended.skipped) == 2
        after = await finish(store, lease, ended)
        runs: list[Run] = await store.history("a")
        if store.keeps_skipped:
            assert [(run.status.value, run.started_at) for run in runs] == [
                ("skipped", None),
                ("skipped", None),
                ("completed", now),
            ]
            assert after.attempt == 3
        else:
            assert [run.status.value for run in runs] == ["completed"]
        [again] = await store.claim([lease], ["a"], now + 4000)
        assert again.attempt == after.attempt + 1
