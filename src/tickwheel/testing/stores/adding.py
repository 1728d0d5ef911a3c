"""Adding tasks: new ones, and ones whose id is there already."""

import asyncio

from msgspec.structs import replace

from tickwheel.clock import VirtualClock
from tickwheel.errors import (
    BatchTooLarge,
    DuplicateTask,
    InvalidTask,
    PayloadTooLarge,
    TaskRunning,
    UnknownOption,
)
from tickwheel.stores.contract import Filter, Finish
from tickwheel.tasks.policies import LatePolicy, RetryPolicy
from tickwheel.tasks.record import Status
from tickwheel.tasks.triggers import Cron, Every
from tickwheel.testing.stores.legal import LegalStore
from tickwheel.testing.stores.scenario import Opening, ids, raised, scenario, start, task

__all__ = ["Adding"]


class Adding(Opening):
    """`add` and `get`."""

    @scenario
    async def test_what_was_added_is_there_as_it_was(self, store: LegalStore, _clock: VirtualClock) -> None:
        full = task(
            "a/b c?é漢字",
            run_at=4_102_444_800_000,
            args={"n": 1, "deep": {"list": [1, 2.5, None, True, "x"]}},
            meta={"tenant": "blue"},
            trigger=Cron(expression="0 9 * * 1-5", tz="Europe/Berlin"),
            retry=RetryPolicy(retries=3),
            late=LatePolicy(mode="skip"),
            priority=-7,
            times=-1,
            at_most_once=True,
            partition=7,
        )
        plain = task("b", trigger=Every(interval_ms=1000))
        conflicts = await store.add([full, plain])
        assert [(each.task, each.added) for each in conflicts] == [(full, True), (plain, True)]
        assert await store.get(["b", "nothing", full.id, "b"]) == [plain, None, full, plain]

    @scenario
    async def test_nothing_can_be_added_and_got(self, store: LegalStore, _clock: VirtualClock) -> None:
        assert await store.add([]) == []
        assert await store.get([]) == []
        assert await store.cancel([], "") == []

    @scenario
    async def test_a_duplicate_is_rejected_with_its_whole_batch(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add([task("b")])
        error = await raised(DuplicateTask, store.add([task("a"), task("b", 5), task("c")]))
        assert error.task_id == "b"
        assert await store.get(["a", "b", "c"]) == [None, task("b"), None]
        assert (await store.counts())[Status.PENDING] == 1

    @scenario
    async def test_a_batch_that_repeats_itself_is_rejected(self, store: LegalStore, _clock: VirtualClock) -> None:
        await raised(DuplicateTask, store.add([task("a"), task("a")]))
        assert await store.get(["a"]) == [None]
        first, second = await store.add([task("a", 1), task("a", 2)], "replace")
        assert (first.task.version, second.task.version) == (0, 1)
        assert await store.get(["a"]) == [second.task]

    @scenario
    async def test_keep_leaves_what_is_there(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add([task("a")])
        kept, added = await store.add([task("a", 5), task("b")], "keep")
        assert (kept.task, kept.added) == (task("a"), False)
        assert (added.task, added.added) == (task("b"), True)
        [over] = await store.cancel(["a"], "no")
        assert over is not None
        [anew] = await store.add([task("a", 5)], "keep")
        assert anew.added
        assert anew.task == replace(task("a", 5), version=over.version + 1)

    @scenario
    async def test_replace_puts_the_new_one_in_its_place(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add([task("a", partition=1)])
        new = task("a", 5, handler="orders.remind", args={"n": 2}, priority=3, partition=2)
        [conflict] = await store.add([new], "replace")
        assert conflict.added
        assert conflict.task == replace(new, version=1)
        assert await store.get(["a"]) == [conflict.task]
        leases = await store.acquire([1, 2], "here", 1000)
        assert [(due.partition, due.run_at, due.priority) for due in await store.due(leases, 10**6, None, 10)] == [
            (2, 5, 3)
        ]
        assert not (await store.query(Filter(handler="orders.cancel"))).tasks
        assert ids((await store.query(Filter(handler="orders.remind"))).tasks) == ["a"]

    @scenario
    async def test_a_paused_task_is_replaced_by_a_pending_one(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add([task("a")])
        await store.pause(["a"])
        [conflict] = await store.add([task("a", 5)], "replace")
        assert (conflict.task.status, conflict.task.version) == (Status.PENDING, 2)

    @scenario
    async def test_debounce_takes_the_new_time_and_arguments(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add([task("a", args={"n": 1})])
        [conflict] = await store.add([task("a", 5000, args={"n": 2})], "debounce")
        assert not conflict.added
        assert conflict.task == replace(task("a", 5000, args={"n": 2}), version=1)
        assert await store.get(["a"]) == [conflict.task]
        await store.pause(["a"])
        [conflict] = await store.add([task("a", 6000)], "debounce")
        assert (conflict.task.listed_status, conflict.task.run_at) == (Status.PAUSED, 6000)

    @scenario
    async def test_debounce_is_refused_for_another_handler(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add([task("a", args={"n": 1}), task("b")])
        other = task("a", 5000, handler="orders.remind", args={"n": 2})
        error = await raised(InvalidTask, store.add([task("b", 5000), other], "debounce"))
        assert "'orders.cancel'" in str(error)
        assert "'orders.remind'" in str(error)
        assert await store.get(["a", "b"]) == [task("a", args={"n": 1}), task("b")]
        await store.cancel(["a"], "no")
        [conflict] = await store.add([other], "debounce")
        assert conflict.added, "an id that was cancelled is free"

    @scenario
    async def test_a_running_one_off_is_not_replaced(self, store: LegalStore, _clock: VirtualClock) -> None:
        _, [running] = await start(store, task("a"))
        await raised(TaskRunning, store.add([task("b"), task("a", 5)], "replace"))
        await raised(DuplicateTask, store.add([task("b"), task("a", 5)]))
        [kept] = await store.add([task("a", 5)], "keep")
        assert kept.task == running
        assert await store.get(["a", "b"]) == [running, None]

    @scenario
    async def test_debounce_is_for_tasks_that_run_once(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add([task("once"), task("often", trigger=Every(interval_ms=1000))])
        await raised(InvalidTask, store.add([task("often", 5)], "debounce"))
        await store.cancel(["once"], "no")
        for name in ("often", "once", "new"):  # whatever is there, and also if nothing is
            await raised(InvalidTask, store.add([task(name, 5, trigger=Every(interval_ms=1000))], "debounce"))

    @scenario
    async def test_an_id_that_completed_does_not_run_again(self, store: LegalStore, _clock: VirtualClock) -> None:
        leases, [running] = await start(store, task("a"))
        assert await store.finish([Finish(lease=leases[0], task=replace(running, status=Status.COMPLETED))]) == [True]
        [over] = await store.get(["a"])
        assert over is not None
        error = await raised(DuplicateTask, store.add([task("b"), task("a", 5)]))
        assert error.task == over
        [kept] = await store.add([task("a", 5)], "keep")
        assert (kept.task, kept.added) == (over, False)
        assert await store.get(["a", "b"]) == [over, None]
        for kind in ("replace", "debounce"):
            await store.add([task(kind)])
            [running] = await store.claim(leases, [kind], running.run_at)
            await store.finish([Finish(lease=leases[0], task=replace(running, status=Status.COMPLETED))])
            [anew] = await store.add([task(kind, 7)], kind)
            assert (anew.added, anew.task.status, anew.task.attempt) == (True, Status.PENDING, 1)

    @scenario
    async def test_an_id_that_failed_or_was_cancelled_is_free(self, store: LegalStore, _clock: VirtualClock) -> None:
        leases, [running] = await start(store, task("a"))
        assert await store.finish([Finish(lease=leases[0], task=replace(running, status=Status.FAILED))]) == [True]
        [over] = await store.get(["a"])
        assert over is not None
        [conflict] = await store.add([task("a", 5)])
        assert conflict.added
        assert conflict.task == replace(task("a", 5), attempt=1, version=over.version + 1)
        assert (await store.counts())[Status.FAILED] == 0
        for kind in ("reject", "keep", "replace", "debounce"):
            await store.cancel(["a"], "no")
            [conflict] = await store.add([task("a", 7)], kind)
            assert (conflict.added, conflict.task.status, conflict.task.attempt) == (True, Status.PENDING, 1)

    @scenario
    async def test_a_task_can_be_added_paused(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add([task("a", paused=True)])
        leases = await store.acquire([0], "here", 1000)
        assert await store.due(leases, 10**6, None, 10) == []

    @scenario
    async def test_what_cannot_be_kept_is_refused(self, store: LegalStore, _clock: VirtualClock) -> None:
        wrong = [
            task(""),
            task("x" * 256),
            task("nul\0"),
            task("lone \ud800"),
            task("a", handler=""),
            task("a", run_at=-1),
            task("a", run_at=2**53),
            task("a", priority=2**31),
            task("a", partition=store.partitions),
            task("a", partition=-1),
            task("a", status=Status.RUNNING),
            task("a", status=Status.COMPLETED),
            task("a", status=Status.PAUSED),
            task("a", args={"n": object()}),
            task("a", args={"n": "\ud800"}),
        ]
        for each in wrong:
            await raised(InvalidTask, store.store.add([task("good"), each]))
        error = await raised(PayloadTooLarge, store.add([task("good"), task("a", args={"n": "x" * 256 * 1024})]))
        assert error.size_bytes is not None
        assert error.size_bytes > error.most_bytes == 256 * 1024
        await raised(UnknownOption, store.add([task("good")], "kep"))  # type: ignore[arg-type] # it is wrong
        await raised(BatchTooLarge, store.store.add([task(str(n)) for n in range(10_001)]))
        assert sum((await store.counts()).values()) == 0

    @scenario
    async def test_what_just_fits_is_kept(self, store: LegalStore, _clock: VirtualClock) -> None:
        long = task("x" * 255, handler="y" * 255, run_at=2**53 - 1, args={"n": "z" * 261_000})
        await store.add([long])
        assert await store.get([long.id]) == [long]
        many = [task(str(n)) for n in range(10_000)]
        assert all(each.added for each in await store.store.add(many))
        assert (await store.counts())[Status.PENDING] == 10_001

    @scenario
    async def test_of_many_who_add_one_id_at_once_one_succeeds(self, store: LegalStore, _clock: VirtualClock) -> None:
        calls = [store.store.add([task("a", n), task(f"b{n}")]) for n in range(20)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(isinstance(answer, list) for answer in answers) == 1
        assert sum(isinstance(answer, DuplicateTask) for answer in answers) == 19
        assert (await store.counts())[Status.PENDING] == 2
