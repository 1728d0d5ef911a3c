"""What anyone may do to a task that is there: cancel, move, pause, resume, revive, purge."""

from msgspec.structs import replace

from tickwheel.clock import VirtualClock
from tickwheel.errors import InvalidTask, TaskFinished, TaskRunning, UnknownTask
from tickwheel.stores.contract import Finish
from tickwheel.tasks.record import ENDED, Run, RunStatus, Status
from tickwheel.tasks.triggers import Every
from tickwheel.testing.stores.legal import LegalStore
from tickwheel.testing.stores.scenario import Opening, ids, now_of, own, raised, scenario, start, task

__all__ = ["Changing"]


class Changing(Opening):
    """`cancel`, `reschedule`, `pause`, `resume`, `revive` and `purge`."""

    @scenario
    async def test_what_waits_is_cancelled_at_once(self, store: LegalStore, clock: VirtualClock) -> None:
        await store.add([task("a"), task("b")])
        await store.pause(["b"])
        pending, missing, paused = await store.cancel(["a", "x", "b"], "not needed")
        assert missing is None
        assert pending == replace(
            task("a"), status=Status.CANCELLED, reason="not needed", finished_at=now_of(clock), version=1
        )
        assert paused is not None
        assert (paused.status, paused.version) == (Status.CANCELLED, 2)
        assert await store.get(["a", "b"]) == [pending, paused]
        assert await store.due(await own(store), 10**15, None, 10) == []

    @scenario
    async def test_what_runs_is_asked_to_stop_once(self, store: LegalStore, _clock: VirtualClock) -> None:
        _, [running] = await start(store, task("a"))
        [asked] = await store.cancel(["a"], "stop it")
        assert asked == replace(running, cancel_requested=True, reason="stop it", version=running.version + 1)
        assert await store.cancel(["a"], "stop it now") == [asked]

    @scenario
    async def test_what_is_over_stays_as_it_is(self, store: LegalStore, clock: VirtualClock) -> None:
        await store.add([task("a")])
        [over] = await store.cancel(["a"], "no")
        clock.advance(5)
        assert await store.cancel(["a", "a"], "really no") == [over, over]
        assert await store.pause(["a"]) == [over]
        assert await store.resume(["a"]) == [over]

    @scenario
    async def test_a_task_is_moved_with_its_occurrence(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add([task("a", 1000), task("b", 2000)])
        moved = await store.reschedule("a", 3000)
        assert moved == replace(task("a", 3000), version=1)
        assert await store.get(["a"]) == [moved]
        leases = await own(store, 0)
        assert ids(await store.due(leases, 10**6, None, 10)) == ["b", "a"]
        await store.pause(["a"])
        assert (await store.reschedule("a", 500)).listed_status is Status.PAUSED
        await store.resume(["a"])
        assert ids(await store.due(leases, 10**6, None, 10)) == ["a", "b"]

    @scenario
    async def test_a_retry_is_moved_without_its_occurrence(self, store: LegalStore, _clock: VirtualClock) -> None:
        leases, [running] = await start(store, task("a", 1000))
        retry = replace(running, status=Status.PENDING, run_at=5000, failures=1)
        assert await store.finish([Finish(lease=leases[0], task=retry)]) == [True]
        assert (await store.reschedule("a", 9000)).occurrence_at == 1000
        assert (await store.reschedule("a", 500)).occurrence_at == 500  # never after its run

    @scenario
    async def test_what_is_not_there_runs_or_is_over_is_not_moved(
        self, store: LegalStore, _clock: VirtualClock
    ) -> None:
        assert (await raised(UnknownTask, store.reschedule("x", 1))).task_id == "x"
        _, [running] = await start(store, task("a"))
        assert (await raised(TaskRunning, store.reschedule("a", 1))).task_id == "a"
        assert await store.get(["a"]) == [running]
        await store.add([task("b")])
        await store.cancel(["b"], "no")
        assert (await raised(TaskFinished, store.reschedule("b", 1))).status == "cancelled"
        await raised(InvalidTask, store.reschedule("b", -1))

    @scenario
    async def test_a_paused_task_does_not_come_due_until_resumed(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add([task("a", 1), task("b", 2)])
        leases = await own(store, 0)
        paused, missing = await store.pause(["a", "x"])
        assert missing is None
        assert paused == replace(task("a", 1), paused=True, version=1)
        assert paused.listed_status is Status.PAUSED
        assert await store.pause(["a"]) == [paused]
        assert ids(await store.due(leases, 10**6, None, 10)) == ["b"]
        assert await store.claim(leases, ["a"], 1000) == []
        [resumed] = await store.resume(["a"])
        assert resumed == replace(task("a", 1), version=2)
        assert await store.resume(["a"]) == [resumed]
        assert ids(await store.due(leases, 10**6, None, 10)) == ["a", "b"]

    @scenario
    async def test_a_change_that_withdraws_a_run_is_counted(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add([task("a", 10**14), task("b", 10**14)])
        await store.pause(["a", "b"])
        running, _ = await store.run_now(["a", "b"])
        assert running is not None
        assert (await store.counts())[Status.PENDING] == 2
        await store.amend([replace(running, run_at=10**14, run_now_requested=False, next_at=None)])
        assert await store.counts() == {**dict.fromkeys(Status, 0), Status.PENDING: 1, Status.PAUSED: 1}
        assert ids(await store.due(await own(store), 10**15, None, 10)) == ["b"]
        await store.remove(["a", "b"])
        assert await store.counts() == dict.fromkeys(Status, 0)

    @scenario
    async def test_a_series_whose_times_are_used_up_is_completed(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add([task("a", trigger=Every(interval_ms=10), times=5, runs=3)])
        [added] = await store.get(["a"])
        assert added is not None
        [amended] = await store.amend([replace(added, times=3)])
        assert amended.status is Status.COMPLETED
        assert amended.finished_at is not None
        assert await store.get(["a"]) == [amended]
        assert await store.counts() == {**dict.fromkeys(Status, 0), Status.COMPLETED: 1}
        assert await store.due(await own(store), 10**15, None, 10) == []

    @scenario
    async def test_what_runs_is_not_revived(self, store: LegalStore, _clock: VirtualClock) -> None:
        _, [running] = await start(store, task("a"))
        assert await store.revive(["a"], 1) == [running]

    @scenario
    async def test_what_is_over_is_revived_as_if_new(self, store: LegalStore, _clock: VirtualClock) -> None:
        leases, claimed = await start(store, task("a"), task("b"), task("c"))
        await store.cancel(["c"], "stop")
        ends = [Status.COMPLETED, Status.FAILED, Status.PENDING]
        over = [
            replace(each, status=end, failures=2, runs=3, result=[1], error="Traceback", finished_at=1500)
            for each, end in zip(claimed, ends, strict=True)
        ]
        assert await store.finish([Finish(lease=leases[0], task=each) for each in over]) == [True] * 3
        assert all(each is not None and each.status in ENDED for each in await store.get(["a", "b", "c"]))
        await store.add([task("d")])
        *revived, untouched, missing = await store.revive(["a", "b", "c", "d", "x"], 7000)
        assert missing is None
        assert untouched == task("d")
        for each in revived:
            assert each is not None
            assert each == replace(task(each.id, 7000), retry_at=7000, attempt=1, version=each.version)
        assert ids(await store.due(leases, 10**6, (1000, "d"), 10)) == ["a", "b", "c"]

    @scenario
    async def test_purge_deletes_what_was_over_before(self, store: LegalStore, clock: VirtualClock) -> None:
        leases, claimed = await start(store, task("a"), task("b"), task("again"))
        noon = now_of(clock)

        def run_of(number: int, at: int) -> Run:
            fields = {"occurrence_at": 0, "started_at": at - 1, "finished_at": at, "status": RunStatus.COMPLETED}
            return Run(task_id=claimed[number].id, attempt=claimed[number].attempt, **fields)  # type: ignore[arg-type]

        done = [replace(each, status=Status.COMPLETED) for each in claimed]
        finishes = [
            Finish(lease=leases[0], task=replace(done[0], finished_at=noon - 1), run=run_of(0, noon - 1)),
            Finish(lease=leases[0], task=replace(done[1], finished_at=noon), run=run_of(1, noon)),
            Finish(lease=leases[0], task=replace(claimed[2], status=Status.PENDING, runs=1), run=run_of(2, noon - 1)),
        ]
        assert await store.finish(finishes) == [True] * 3
        assert await store.purge(noon - 1) == 0
        assert len(await store.history("again")) == 1
        assert await store.purge(noon) == 1
        gone, kept, again = await store.get(["a", "b", "again"])
        assert gone is None
        assert kept is not None
        assert again is not None
        assert await store.history("a") == []
        assert await store.history("b") == [run_of(1, noon)]
        assert await store.history("again") == []
        counts = await store.counts()
        assert (counts[Status.COMPLETED], counts[Status.PENDING]) == (1, 1)
        [conflict] = await store.add([task("a")])
        assert conflict.task == task("a")

    @scenario
    async def test_purge_takes_any_number(self, store: LegalStore, _clock: VirtualClock) -> None:
        many = [str(n) for n in range(2500)]
        await store.add([task(each) for each in many])
        await store.cancel(many, "no")
        await store.add([task("stays")])
        rests = 0

        async def rest() -> None:
            nonlocal rests
            rests += 1

        assert await store.purge(2**53 - 1, rest) == 2500
        assert rests >= 1  # it is done in steps, and others have their turn in between
        assert (await store.counts()) == {**dict.fromkeys(Status, 0), Status.PENDING: 1}
