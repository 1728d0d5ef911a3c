"""Tasks that become others under the same id, and tasks that are deleted."""

from msgspec.structs import replace

from tickwheel.clock import VirtualClock
from tickwheel.errors import InvalidTask, PayloadTooLarge, TaskFinished, TaskRunning, UnknownTask, VersionMismatch
from tickwheel.stores.contract import Filter, Finish
from tickwheel.tasks.record import Run, RunStatus, Status
from tickwheel.tasks.triggers import Every
from tickwheel.testing.stores.legal import LegalStore
from tickwheel.testing.stores.scenario import Opening, ids, own, raised, scenario, start, task

__all__ = ["Amending"]


class Amending(Opening):
    """`amend` and `remove`."""

    @scenario
    async def test_an_amended_task_keeps_its_place(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add([task("a", 1000, partition=1), task("b", 2000)])
        wanted = replace(
            task("a", 3000, partition=1),
            args={"n": 2},
            tags=["vip"],
            trigger=Every(interval_ms=5),
            times=-1,
            priority=7,
            expires_at=9000,
        )
        [amended] = await store.amend([wanted])
        assert amended == replace(wanted, version=1)
        assert await store.get(["a"]) == [amended]
        assert ids((await store.query(Filter())).tasks) == ["b", "a"]
        due = await store.due(await own(store), 10**6, None, 10)
        assert [(each.id, each.run_at, each.priority) for each in due] == [("b", 2000, 0), ("a", 3000, 7)]

    @scenario
    async def test_what_was_changed_meanwhile_is_not_amended(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add([task("a"), task("b")])
        await store.reschedule("a", 5)
        error = await raised(VersionMismatch, store.amend([task("b", 9), task("a", 9)]))
        assert (error.task_id, error.version) == ("a", 1)
        assert await store.get(["b"]) == [task("b")]
        await raised(UnknownTask, store.amend([task("x")]))

    @scenario
    async def test_what_runs_or_is_over_is_not_amended(self, store: LegalStore, _clock: VirtualClock) -> None:
        _, [running] = await start(store, task("a"))
        await raised(TaskRunning, store.amend([running]))
        await store.add([task("b", 5000)])
        [over] = await store.cancel(["b"], "no")
        assert over is not None
        await raised(TaskFinished, store.amend([over]))

    @scenario
    async def test_what_no_task_can_be_is_refused(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add([task("a")])
        for wrong in (task("a", -1), task("a", priority=2**31), task("a", handler="")):
            await raised(InvalidTask, store.amend([wrong]))
        await raised(PayloadTooLarge, store.amend([task("a", args={"n": "x" * 256 * 1024})]))
        assert await store.get(["a"]) == [task("a")]

    @scenario
    async def test_what_follows_a_run_is_measured_when_it_is_asked_for(
        self, store: LegalStore, _clock: VirtualClock
    ) -> None:
        half = {"n": "x" * 128 * 1024}
        most = {"n": "x" * (256 * 1024 - len('[{"n":""},{}]'))}
        series = task("series", trigger=Every(interval_ms=5), times=-1)
        leases, [running, once] = await start(store, series, task("once", meta=half))
        for wrong in ({"n": most["n"] + "x"}, {"n": "x" * 256 * 1024}):
            await raised(PayloadTooLarge, store.amend([replace(running, args=wrong)]))
        await raised(PayloadTooLarge, store.add([task("once", args=half)], "debounce"))
        [amended] = await store.amend([replace(running, args=most)])
        assert amended.following is not None
        lease = {each.partition: each for each in leases}
        ended = [
            Finish(lease=lease[each.partition], task=replace(each, **fields))
            for each, fields in (
                (running, {"status": Status.PENDING, "run_at": 1005, "occurrence_at": 1005}),
                (once, {"status": Status.COMPLETED}),
            )
        ]
        assert await store.finish(ended) == [True, True]
        [after, over] = await store.get(["series", "once"])
        assert after is not None
        assert over is not None
        assert (after.args, after.status, over.status) == (most, Status.PENDING, Status.COMPLETED)

    @scenario
    async def test_a_paused_task_stays_paused(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add([task("a")])
        [paused] = await store.pause(["a"])
        assert paused is not None
        [amended] = await store.amend([replace(paused, run_at=7, paused=False)])
        assert (amended.listed_status, amended.run_at, amended.version) == (Status.PAUSED, 7, 2)

    @scenario
    async def test_what_does_not_run_is_removed_with_its_runs(self, store: LegalStore, _clock: VirtualClock) -> None:
        leases, [first, second] = await start(store, task("a"), task("b"))
        run = Run(task_id="a", attempt=1, occurrence_at=0, started_at=0, finished_at=1, status=RunStatus.COMPLETED)
        done = Finish(lease=leases[0], task=replace(first, status=Status.COMPLETED), run=run)
        assert await store.finish([done]) == [True]
        await store.add([task("c", 7), task("d", 8)])
        await store.pause(["d"])
        gone, running, missing, pending, paused = await store.remove(["a", "b", "x", "c", "d"])
        assert gone is not None
        assert gone.status is Status.COMPLETED
        assert (running, missing) == (second, None)
        assert pending == task("c", 7)
        assert paused is not None
        assert await store.get(["a", "b", "c", "d"]) == [None, second, None, None]
        assert await store.history("a") == []
        assert await store.due(leases, 10**6, None, 10) == []
        assert await store.counts() == {**dict.fromkeys(Status, 0), Status.RUNNING: 1}
        assert await store.remove([]) == []
        [conflict] = await store.add([task("c", 9)])
        assert conflict.task == task("c", 9)
