"""Tasks are claimed some milliseconds before they are due; until they begin, they can be changed as before."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from tests.scheduler.flaky import FlakyStore
from tests.scheduler.worlds import World
from tickwheel.errors import DuplicateTask, StoreUnavailable
from tickwheel.scheduler import AsyncScheduler, Scheduler
from tickwheel.scheduler.engine.listener import Listener
from tickwheel.stores.contract import Conflict
from tickwheel.tasks import Status, Task
from tickwheel.workers.contract import Job


@pytest.fixture
def world() -> World:
    return World()


async def add_claimed(world: World, scheduler: AsyncScheduler, task_id: str, left_ms: int) -> Task:
    """Add a task, and wait until it is claimed and has so long left."""
    await scheduler.add("note", {"what": task_id}, delay=1, id=task_id)
    await asyncio.sleep((1000 - left_ms) / 1000)
    [task] = await world.store.get([task_id])
    assert task is not None
    assert task.status is Status.RUNNING, "it is not claimed yet"
    assert world.ran == []
    return task


@pytest.mark.parametrize("left_ms", [1, 5, 12, 20])
def test_a_cancel_that_is_acknowledged_before_a_task_is_due_keeps_it_from_running(world: World, left_ms: int) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await add_claimed(world, scheduler, "a", left_ms)
        task = await scheduler.cancel("a", "paid in time")
        assert (task.status, task.reason) == (Status.CANCELLED, "paid in time")
        await asyncio.sleep(10)
        assert world.ran == []
        assert await scheduler.get("a") == task
        assert await scheduler.history("a") == []

    world.play(story)
    assert world.kinds("a") == ["added", "cancelled"]


def test_a_claimed_task_that_is_paused_does_not_run_before_it_is_resumed(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await add_claimed(world, scheduler, "a", 20)
        assert (await scheduler.pause("a")).listed_status is Status.PAUSED
        await asyncio.sleep(10)
        assert world.ran == []
        await scheduler.resume("a")
        await asyncio.sleep(1)
        assert [what for _, what in world.ran] == ["a"]

    world.play(story)


def test_a_claimed_task_that_is_moved_runs_at_its_new_time_alone(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await add_claimed(world, scheduler, "a", 20)
        moved = await scheduler.reschedule("a", delay="1h")
        assert moved.status is Status.PENDING
        await asyncio.sleep(7200)
        assert world.ran == [(moved.run_at, "a")]

    world.play(story)


def test_a_claimed_task_that_is_amended_runs_with_its_new_arguments(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        task = await add_claimed(world, scheduler, "a", 20)
        await scheduler.amend("a", {"what": "other"})
        await asyncio.sleep(1)
        assert world.ran == [(task.run_at, "other")]

    world.play(story)


def test_a_claimed_task_counts_as_pending(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await add_claimed(world, scheduler, "a", 20)
        assert (await world.store.counts())[Status.RUNNING] == 1
        counts = await scheduler.counts()
        assert (counts[Status.PENDING], counts[Status.RUNNING]) == (1, 0)
        assert (await scheduler.get("a")).status is Status.PENDING
        assert (await scheduler.list(status=Status.RUNNING)).tasks == []
        as_word: Any = "running"
        assert (await scheduler.list(status=as_word)).tasks == []

    world.play(story)


def test_a_claimed_task_can_be_deleted(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await add_claimed(world, scheduler, "a", 20)
        await scheduler.delete("a")
        await asyncio.sleep(10)
        assert world.ran == []
        assert await world.store.get(["a"]) == [None]

    world.play(story)


def test_many_claimed_tasks_are_cancelled_at_once(world: World) -> None:
    ids = [f"t{number}" for number in range(100)]

    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add_many({"handler": "note", "args": {"what": each}, "id": each, "delay": 1} for each in ids)
        await asyncio.sleep(0.98)
        changed = await scheduler.apply("cancel", ids[::2])
        assert {task.status for task in changed if task is not None} == {Status.CANCELLED}
        await asyncio.sleep(10)

    world.play(story)
    assert sorted(what for _, what in world.ran) == sorted(ids[1::2])


def test_a_task_that_is_held_back_while_it_comes_due_runs_afterwards(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("note", {"what": "a"}, delay=1, id="a")
        engine = scheduler._engine
        assert engine is not None
        await asyncio.sleep(0.9)
        async with engine.hold_back(["a"]):
            await asyncio.sleep(1)
            assert world.ran == []
        await asyncio.sleep(0.1)
        assert [what for _, what in world.ran] == ["a"]

    world.play(story)


def test_what_waits_for_a_worker_is_cancelled_without_beginning(world: World) -> None:
    begun, end = Flag(), Flag()

    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("slow", concurrency=1)
        def slow(what: str) -> None:
            world.ran.append((world.now(), what))
            begun.set()
            end.wait()

        await scheduler.add("slow", {"what": "first"}, id="first")
        await scheduler.add("slow", {"what": "second"}, id="second", delay=1)
        await asyncio.sleep(2)
        begun.wait()  # holding up the loop: virtual time would go on while the thread waits for a turn
        task = await scheduler.cancel("second")
        assert task.status is Status.CANCELLED
        end.set()
        await asyncio.sleep(10)
        assert [what for _, what in world.ran] == ["first"]

    world.play(story)


def test_what_another_node_cancels_before_it_begins_does_not_begin(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await add_claimed(world, scheduler, "a", 20)
        async with world.scheduler(run=False) as other:
            asked = await other.cancel("a", "not needed")
            assert asked.cancel_requested
            await asyncio.sleep(10)
        assert world.ran == []
        task = await scheduler.get("a")
        assert (task.status, task.reason) == (Status.CANCELLED, "not needed")

    world.play(story)


def test_what_another_node_cancels_does_not_begin_though_it_has_just_cancelled_others(world: World) -> None:
    """Changes that others make are read at most ten times a second."""

    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("hang")
        async def hang() -> None:
            await asyncio.sleep(60)

        await scheduler.add("hang", id="busy")
        await add_claimed(world, scheduler, "a", 20)
        async with world.scheduler(run=False) as other:
            await other.cancel("busy")
            await asyncio.sleep(0.01)
            assert (await other.cancel("a")).cancel_requested
            await asyncio.sleep(10)
        assert [what for _, what in world.ran] == []
        assert (await scheduler.get("a")).status is Status.CANCELLED

    world.play(story)


def test_a_claimed_task_that_waits_for_a_worker_does_not_begin_after_another_node_cancelled_it(world: World) -> None:
    begun, end, ended = Flag(), Flag(), Flag()

    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("quick")
        def quick() -> None:
            ended.set()

        @scheduler.task("slow")
        def slow(what: str) -> None:
            world.ran.append((world.now(), what))
            begun.set()
            end.wait()

        @scheduler.task("hang")
        async def hang() -> None:
            await asyncio.sleep(60)

        await scheduler.add("hang", id="busy")
        for _ in range(8):  # so that another thread can be expected to be free soon
            await scheduler.add("quick")
            await asyncio.sleep(0.001)
            ended.wait()  # holding up the loop: virtual time would go on while the thread waits for a turn
            ended.clear()
            await asyncio.sleep(0.001)
        for name in ("first", "second"):
            await scheduler.add("slow", {"what": name}, id=name)
        await asyncio.sleep(0.01)
        begun.wait()
        [second] = await world.store.get(["second"])
        assert second is not None
        assert second.status is Status.RUNNING, "it is claimed"
        async with world.scheduler(run=False) as other:
            await other.cancel("busy")
            assert (await other.cancel("second")).cancel_requested
            end.set()
            time.sleep(0.05)  # noqa: ASYNC251 - holds up the loop: the thread is free before the cancel is heard of
            await asyncio.sleep(10)
        assert [what for _, what in world.ran] == ["first"]
        assert (await scheduler.get("second")).status is Status.CANCELLED

    world.play(story, threads=1)


def test_a_claim_is_given_up_if_the_clock_is_set_back_while_it_is_made(world: World) -> None:
    class SetBack(FlakyStore):
        async def claim(self, *args: Any) -> list[Task]:
            claimed: list[Task] = await self._store.claim(*args)
            if claimed and not world.ran and world.clock.monotonic_ns() < 2 * 10**9:
                world.clock.step_wall(-900 * 10**9)
            return claimed

    async def story(scheduler: AsyncScheduler) -> None:
        added = await scheduler.add("note", {"what": "a"}, delay=1, id="a")
        await asyncio.sleep(5)
        assert (await scheduler.get("a")).status is Status.PENDING, "others may run it"
        await asyncio.sleep(900)
        assert world.ran == [(added.run_at, "a")]

    world.store = SetBack(world.store, -1, after=False)
    world.play(story)


def test_a_task_cancelled_between_its_launch_and_its_first_step_has_not_begun(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        began: list[str] = []

        @scheduler.task("first")
        async def first() -> None:
            began.append("first")
            await scheduler.cancel("second")  # begun in the same step of the loop, and not at its first line

        @scheduler.task("second")
        async def second() -> None:
            began.append("second")

        await scheduler.add_many(
            [
                {"handler": "first", "id": "first", "delay": 1, "priority": 1},
                {"handler": "second", "id": "second", "delay": 1},
            ]
        )
        await asyncio.sleep(10)
        task = await scheduler.get("second")
        assert began == ["first"]
        assert (task.status, task.started_at) == (Status.CANCELLED, None)
        assert await scheduler.history("second") == []

    world.play(story)
    assert world.kinds("second") == ["added", "cancelled"]


def test_of_a_hundred_cancelled_milliseconds_before_they_are_due_none_runs(tmp_path: Path) -> None:
    ran: list[str] = []
    answers: dict[str, Status] = {}  # to calls that were made in time: the machine may be busy

    async def main() -> None:
        scheduler = AsyncScheduler(f"sqlite:///{tmp_path}/tasks.db")

        @scheduler.task("note")
        async def note(what: str) -> None:
            ran.append(what)

        async def cancel(task: Task, ahead_ms: int) -> None:
            await asyncio.sleep((task.run_at - ahead_ms) / 1000 - time.time())
            in_time = time.time_ns() // 1_000_000 < task.run_at
            answer = await scheduler.cancel(task.id)
            if in_time:
                answers[task.id] = answer.status

        async with scheduler:
            names = [str(number) for number in range(100)]
            tasks = await scheduler.add_many(
                {"handler": "note", "args": {"what": name}, "id": name, "delay": 1 + int(name) / 100} for name in names
            )
            await asyncio.gather(*(cancel(task, 5 + number % 41) for number, task in enumerate(tasks)))
            await scheduler.add("note", {"what": "last"}, id="last")
            while (await scheduler.get("last")).status is not Status.COMPLETED:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    asyncio.run(main())
    assert set(answers.values()) == {Status.CANCELLED}
    assert answers.keys() & set(ran) == set()


def test_of_a_hundred_that_another_process_cancels_none_begins_after_the_answer(tmp_path: Path) -> None:
    began_s: dict[str, float] = {}
    answered_s: dict[str, float] = {}

    async def main() -> None:
        url = f"sqlite:///{tmp_path}/tasks.db"
        scheduler, other = AsyncScheduler(url), AsyncScheduler(url, run=False)

        @scheduler.task("note")
        async def note(what: str) -> None:
            began_s[what] = time.monotonic()

        async def cancel(task: Task, ahead_ms: int) -> None:
            await asyncio.sleep((task.run_at - ahead_ms) / 1000 - time.time())
            await other.cancel(task.id)
            answered_s[task.id] = time.monotonic()

        async with scheduler, other:
            names = [str(number) for number in range(100)]
            tasks = await other.add_many(
                {"handler": "note", "args": {"what": name}, "id": name, "delay": 1 + int(name) / 100} for name in names
            )
            await asyncio.gather(*(cancel(task, 5 + number % 41) for number, task in enumerate(tasks)))
            for name in names:
                while (await scheduler.get(name)).status not in (Status.CANCELLED, Status.COMPLETED):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

    asyncio.run(main())
    assert len(answered_s) == 100
    assert [name for name in began_s if began_s[name] > answered_s[name]] == []


@pytest.mark.parametrize("pool", ["loop", "thread", "process"])
def test_what_another_process_cancels_after_it_has_a_worker_does_not_begin(
    pool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cancel returns between the check on the event loop and the first line of the handler."""
    url, touched = f"sqlite:///{tmp_path}/tasks.db", tmp_path / "touched"
    other = Scheduler(url, run=False)
    begin = Job.begin
    answers: list[Task] = []

    def cancel_first(job: Job) -> bool:
        if job.task.id == "a" and not answers:
            answers.append(other.cancel("a", "not needed"))
        return begin(job)

    async def hear_nothing(_: Listener) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Job, "begin", cancel_first)
    monkeypatch.setattr(Listener, "listen", hear_nothing)  # it would be in time, more often than not

    async def main() -> Task:
        async with AsyncScheduler(url, threads=1, processes=1) as scheduler:
            scheduler.task("loop")(touch_async)
            scheduler.task("thread")(touch)
            scheduler.task("process", pool="process")(touch)
            await scheduler.add(pool, {"path": str(touched)}, id="a")
            while (await scheduler.get("a")).status not in (Status.CANCELLED, Status.COMPLETED):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert await scheduler.history("a") == []
            return await scheduler.get("a")

    with other:
        task = asyncio.run(main())
    assert [answer.cancel_requested for answer in answers] == [True]
    assert not touched.exists()
    assert (task.status, task.reason, task.started_at) == (Status.CANCELLED, "not needed", None)


def touch(path: str) -> None:
    Path(path).touch()


async def touch_async(path: str) -> None:
    touch(path)


def test_a_claimed_task_does_not_begin_while_its_cancel_waits_for_another_claim(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = world.store.claim

    async def slow(leases: Any, ids: Any, until: int) -> list[Task]:
        if "b" in ids:
            await asyncio.sleep(0.2)
        return await claim(leases, ids, until)

    monkeypatch.setattr(world.store, "claim", slow)

    async def story(scheduler: AsyncScheduler) -> None:
        await add_claimed(world, scheduler, "a", 20)
        await scheduler.add("note", {"what": "b"}, id="b")
        await asyncio.sleep(0.005)
        assert (await scheduler.cancel("a")).status is Status.CANCELLED
        await asyncio.sleep(10)
        assert [what for _, what in world.ran] == ["b"]

    world.play(story)


class SlowAnswers(FlakyStore):
    """A store whose answers take a while: what it was asked to finish is written by then."""

    async def finish(self, *args: Any) -> list[bool]:
        accepted: list[bool] = await self._store.finish(*args)
        await asyncio.sleep(0.005)
        return accepted


VERBS: dict[str, Callable[[AsyncScheduler], Awaitable[object]]] = {
    "cancel": lambda scheduler: scheduler.cancel("a"),
    "pause": lambda scheduler: scheduler.pause("a"),
    "reschedule": lambda scheduler: scheduler.reschedule("a", delay=1),
    "amend": lambda scheduler: scheduler.amend("a", {"what": "other"}),
    "run_now": lambda scheduler: scheduler.run_now("a"),
    "delete": lambda scheduler: scheduler.delete("a"),
    "apply": lambda scheduler: scheduler.apply("pause", ["a"]),
}


async def give_up(call: Awaitable[object]) -> None:
    """Make a call, and wait for its answer for two milliseconds."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.002):
            await call


@pytest.mark.parametrize("verb", VERBS)
def test_a_claimed_task_runs_once_if_the_caller_of_a_verb_gives_up(world: World, verb: str) -> None:
    world.store = SlowAnswers(world.store, -1, after=False)

    async def story(scheduler: AsyncScheduler) -> None:
        await add_claimed(world, scheduler, "a", 20)
        await give_up(VERBS[verb](scheduler))
        await asyncio.sleep(10)
        assert [what for _, what in world.ran] == ["a"]
        assert (await scheduler.get("a")).status is Status.COMPLETED
        assert len(await scheduler.history("a")) == 1

    world.play(story)
    assert "lost" not in world.kinds("a")


def test_what_is_cancelled_elsewhere_after_its_claim_was_given_up_never_begins(world: World) -> None:
    world.store = SlowAnswers(world.store, -1, after=False)

    async def story(scheduler: AsyncScheduler) -> None:
        await add_claimed(world, scheduler, "a", 20)
        await give_up(scheduler.pause("a"))
        async with world.scheduler(run=False) as other:
            assert (await other.cancel("a")).status is Status.CANCELLED
        await asyncio.sleep(10)
        assert world.ran == []

    world.play(story)


def test_a_second_verb_waits_for_the_claim_that_the_first_gives_up(world: World) -> None:
    world.store = SlowAnswers(world.store, -1, after=False)

    async def story(scheduler: AsyncScheduler) -> None:
        await add_claimed(world, scheduler, "a", 20)
        await give_up(scheduler.pause("a"))
        assert (await scheduler.cancel("a")).status is Status.CANCELLED
        await asyncio.sleep(10)
        assert world.ran == []

    world.play(story)


@pytest.mark.parametrize("written", [True, False])
def test_a_claimed_task_runs_once_if_the_answer_to_giving_it_up_is_lost(world: World, *, written: bool) -> None:
    store = world.store = FlakyStore(world.store, -1, after=written)

    async def story(scheduler: AsyncScheduler) -> None:
        await add_claimed(world, scheduler, "a", 20)
        store._fail_at = store.calls + 1
        with pytest.raises(StoreUnavailable):
            await scheduler.pause("a")
        assert store.failed == "finish"
        await asyncio.sleep(10)
        assert [what for _, what in world.ran] == ["a"]
        assert len(await scheduler.history("a")) == 1

    world.play(story)


def test_a_scheduler_that_stops_waits_until_a_claim_is_given_up(world: World) -> None:
    world.store = SlowAnswers(world.store, -1, after=False)

    async def story(scheduler: AsyncScheduler) -> None:
        await add_claimed(world, scheduler, "a", 20)
        await give_up(scheduler.pause("a"))
        await scheduler.stop()
        [task] = await world.store.get(["a"])
        assert task is not None
        assert (task.status, task.crashes) == (Status.PENDING, 0)

    world.play(story)
    assert "lost" not in world.kinds("a")


async def add(scheduler: AsyncScheduler, on_conflict: Any) -> Task:
    return await scheduler.add("note", {"what": "new"}, id="a", delay=5, on_conflict=on_conflict)


async def add_many(scheduler: AsyncScheduler, on_conflict: Any) -> Task:
    [task] = await scheduler.add_many(
        [{"handler": "note", "args": {"what": "new"}, "id": "a", "delay": 5}], on_conflict=on_conflict
    )
    return task


async def add_each(scheduler: AsyncScheduler, on_conflict: Any) -> Task:
    [conflict] = await scheduler.add_each(
        [{"handler": "note", "args": {"what": "new"}, "id": "a", "delay": 5}], on_conflict=on_conflict
    )
    assert isinstance(conflict, Conflict)
    return conflict.task


@pytest.mark.parametrize("on_conflict", ["replace", "debounce"])
@pytest.mark.parametrize("call", [add, add_many, add_each])
def test_a_claimed_task_that_is_replaced_or_debounced_runs_once_and_as_it_is_then(
    world: World, on_conflict: str, call: Callable[[AsyncScheduler, str], Awaitable[Task]]
) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await add_claimed(world, scheduler, "a", 20)
        task = await call(scheduler, on_conflict)
        assert task.status is Status.PENDING
        await asyncio.sleep(10)
        assert world.ran == [(task.run_at, "new")]
        assert (await scheduler.get("a")).status is Status.COMPLETED

    world.play(story)


def test_a_claimed_task_is_pending_to_its_own_process_until_it_begins(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        stored = await add_claimed(world, scheduler, "a", 20)
        seen = [
            await scheduler.get("a"),
            *(await scheduler.list()).tasks,
            await scheduler.resume("a"),
            await scheduler.retry("a"),
            await scheduler.add("note", {"what": "b"}, id="a", on_conflict="keep"),
            *await scheduler.get_many(["a"]),
        ]
        with pytest.raises(DuplicateTask, match=r"\(pending\)") as refused:
            await scheduler.add("note", {"what": "b"}, id="a")
        [each] = await scheduler.add_each([{"handler": "note", "args": {"what": "b"}, "id": "a"}])
        assert isinstance(each, DuplicateTask)
        for task in (*seen, refused.value.task, each.task):
            assert task is not None
            assert (task.status, task.attempt, task.started_at) == (Status.PENDING, 0, None)
        assert seen[0] is not None
        assert seen[0].reason_code == "not_due"
        assert (await scheduler.list(status=Status.RUNNING)).tasks == []
        async with world.scheduler(run=False) as other:
            assert (await other.get("a")).status is Status.RUNNING, "to others it is taken"
        assert await world.store.get(["a"]) == [stored], "its claim stands"
        await asyncio.sleep(10)
        assert world.ran == [(stored.run_at, "a")]

    world.play(story)


def test_a_task_that_has_begun_is_running_to_its_own_process(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("work", {"what": "a", "seconds": 5}, delay=1, id="a")
        await asyncio.sleep(1.001)
        assert [what for _, what in world.ran] == ["a"]
        task = await scheduler.get("a")
        assert (task.status, task.attempt) == (Status.RUNNING, 1)
        assert (await scheduler.list(status=Status.RUNNING)).tasks == [task]

    world.play(story)


def test_a_claimed_task_that_another_process_asked_to_stop_is_shown_as_it_is_stored(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await add_claimed(world, scheduler, "a", 20)
        async with world.scheduler(run=False) as other:
            await other.cancel("a")
        task = await scheduler.get("a")
        assert (task.status, task.cancel_requested) in [(Status.RUNNING, True), (Status.CANCELLED, True)]

    world.play(story)
