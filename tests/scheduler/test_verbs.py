"""What an administrator does: finds tasks, changes them, and does the same to many; on virtual time."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from tests.scheduler.worlds import World
from tickwheel.errors import (
    DuplicateTask,
    InvalidFilter,
    InvalidTask,
    StoreUnavailable,
    TaskRunning,
    UnknownHandler,
    UnknownTask,
    VersionMismatch,
)
from tickwheel.scheduler import AsyncScheduler
from tickwheel.scheduler.verbs import Action
from tickwheel.stores import Conflict, Filter, MemoryStore
from tickwheel.tasks import Every, Status, Task


@pytest.fixture
def world() -> World:
    return World()


def test_a_handler_brings_its_policy_also_where_no_tasks_are_run(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("orders.cancel", retries=3, timeout="7s")
        def cancel_order(order_id: int) -> None: ...

        for handler in ("orders.cancel", cancel_order):
            task = await scheduler.add(handler, {"order_id": 7}, delay=60)
            assert (task.handler, task.retry.retries, task.timeout_ms) == ("orders.cancel", 3, 7000)
        elsewhere = await scheduler.add("orders.remind", delay=60)
        assert (elsewhere.retry.retries, elsewhere.timeout_ms) == (0, 300_000)

    world.play(story, run=False)


def test_an_id_that_is_twice_in_a_batch_is_said_to_be(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        batch = [{"handler": "note", "args": {"what": "a"}, "id": each} for each in ("one", "dup", "dup")]
        with pytest.raises(DuplicateTask, match="id 'dup' is in this batch more than once; nothing was added"):
            await scheduler.add_many(batch)
        assert (await scheduler.list()).tasks == []
        await scheduler.add_many(batch[:2])
        with pytest.raises(DuplicateTask, match="there is a task 'one' already"):
            await scheduler.add_many(batch[:2])

    world.play(story)


def test_what_has_expired_when_it_comes_due_is_cancelled(world: World) -> None:
    def until(seconds: int) -> datetime:
        return datetime.fromtimestamp(world.now() / 1000 + seconds, UTC)

    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("note", {"what": "in time"}, delay=10, expires_at=until(10), id="in time")
        await scheduler.add("note", {"what": "late"}, delay=10, expires_at=until(5), id="late")
        await scheduler.add("note", {"what": "again"}, every=10, expires_at=until(35), id="again")
        await asyncio.sleep(100)
        assert sorted(what for _, what in world.ran) == ["again", "again", "again", "in time"]
        late, again = await scheduler.get("late"), await scheduler.get("again")
        assert (late.status, late.reason) == (Status.CANCELLED, "expired 5 s before it could begin")
        assert (again.status, again.runs) == (Status.CANCELLED, 3)
        assert await scheduler.history("late") == []

    world.play(story)
    assert world.kinds("late") == ["added", "cancelled"]


def test_each_task_is_added_or_refused_by_itself(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("note", {"what": "x"}, delay=60, id="there")
        wishes: list[dict[str, Any]] = [
            {"handler": "note", "args": {"what": "y"}, "delay": 60, "id": "new"},
            {"handler": "note", "delay": 60, "id": "there"},
            {"handler": "nobody"},
            {"handler": "note", "colour": "red"},
            {"handler": "note", "delay": 60, "id": "new"},
        ]
        answers = await scheduler.add_each(wishes)
        assert [type(answer) for answer in answers] == [
            Conflict,
            DuplicateTask,
            UnknownHandler,
            InvalidTask,
            DuplicateTask,
        ]
        kept = await scheduler.add_each([wishes[0]], on_conflict="keep")
        assert isinstance(kept[0], Conflict)
        assert not kept[0].added
        assert await scheduler.add_each([]) == []

    world.play(story)
    assert world.kinds("new")[0] == "added"


def test_many_who_add_the_same_at_once_get_one_task(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        wishes = [{"handler": "note", "args": {"what": "x"}, "delay": 60, "id": f"t{n}"} for n in range(10)]
        answers = await asyncio.gather(*(scheduler.add_each(wishes) for _ in range(5)))
        added = [answer for each in answers for answer in each if isinstance(answer, Conflict)]
        assert len(added) == 10
        assert (await scheduler.count(Filter())).tasks == 10

    world.play(story)


def test_an_amended_task_runs_as_it_is_now(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        begun = world.now()
        await scheduler.add("note", {"what": "old"}, delay=3600, id="a", retries=2)
        amended = await scheduler.amend("a", {"what": "new"}, delay=10, priority=3, tags=["vip"])
        assert (amended.version, amended.priority, amended.tags, amended.retry.retries) == (1, 3, ["vip"], 2)
        await asyncio.sleep(60)
        assert world.ran == [(begun + 10_000, "new")]
        await scheduler.add("note", {"what": "again"}, delay=3600, id="b")
        amended = await scheduler.amend("b", every=100, times=2)
        assert (amended.trigger, amended.times, amended.args) == (Every(interval_ms=100_000), 2, {"what": "again"})
        await asyncio.sleep(1000)
        assert [what for _, what in world.ran] == ["new", "again", "again"]

    world.play(story)


class ContestedStore(MemoryStore):
    """A store on which somebody else changes a task after each of the next reads."""

    reads_left = 0

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        found = await super().get(ids)
        if self.reads_left:
            self.reads_left -= 1
            await self.reschedule(ids[0], 10**13 + self.reads_left)
        return found


@pytest.mark.parametrize("paused", [False, True])
def test_a_new_time_for_a_task_that_runs_once_withdraws_a_run_now(world: World, *, paused: bool) -> None:
    """It would be the only run, and the new time would be lost."""

    async def story() -> None:
        async with world.scheduler(run=False) as client:
            await client.add("note", {"what": "a"}, delay=1000, id="a")
            if paused:
                await client.pause("a")
            await client.run_now("a")
            amended = await client.amend("a", delay=50)
            assert (amended.run_at, amended.run_now_requested) == (world.now() + 50_000, False)
        async with world.scheduler() as scheduler:
            await asyncio.sleep(100)
            if paused:
                assert world.ran == []
                await scheduler.resume("a")
            await asyncio.sleep(10)
            assert (await scheduler.get("a")).status is Status.COMPLETED
        assert [moment for moment, _ in world.ran] == [world.now() - 10_000 if paused else amended.run_at]

    world.perform(story)


@pytest.mark.parametrize("trigger", [{"every": "1h"}, {"cron": "0 * * * *"}])
def test_a_new_time_for_a_series_holds_after_the_extra_run_of_a_run_now(world: World, trigger: dict[str, Any]) -> None:
    async def story() -> None:
        async with world.scheduler(run=False) as client:
            await client.add("note", {"what": "a"}, id="a", **trigger)
            asked = await client.run_now("a")
            amended = await client.amend("a", delay=50)
            assert amended.next_at == world.now() + 50_000
        async with world.scheduler():
            await asyncio.sleep(100)
        assert [moment for moment, _ in world.ran] == [asked.run_at, amended.next_at]

    world.perform(story)


def test_other_fields_of_a_task_are_changed_without_withdrawing_a_run_now(world: World) -> None:
    async def story() -> None:
        async with world.scheduler(run=False) as client:
            await client.add("note", {"what": "a"}, delay=1000, id="a")
            asked = await client.run_now("a")
            await client.amend("a", {"what": "other"}, priority=7)
        async with world.scheduler():
            await asyncio.sleep(10)
        assert world.ran == [(asked.run_at, "other")]

    world.perform(story)


def test_a_task_is_amended_however_often_others_change_it(world: World) -> None:
    async def main() -> None:
        store = ContestedStore(now_ms=world.now)
        async with AsyncScheduler(store, run=False) as scheduler:
            await scheduler.add("note", delay=60, id="a")
            store.reads_left = 50
            amended = await scheduler.amend("a", priority=7)
            assert (amended.priority, store.reads_left) == (7, 0)
            store.reads_left = 2
            with pytest.raises(VersionMismatch):
                await scheduler.amend("a", version=amended.version, priority=8)
            store.reads_left = 10**9
            with pytest.raises(StoreUnavailable, match="changed by others"):
                await scheduler.amend("a", priority=9)

    asyncio.run(main())


def test_a_task_is_amended_only_as_it_was_read(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("note", {"what": "x"}, delay=60, id="a")
        await scheduler.amend("a", version=0, priority=1)
        with pytest.raises(VersionMismatch):
            await scheduler.amend("a", version=0, priority=2)
        with pytest.raises(UnknownTask):
            await scheduler.amend("nobody", priority=2)
        with pytest.raises(InvalidTask):
            await scheduler.amend("a", id="b")
        assert (await scheduler.get("a")).priority == 1
        # Without a version the latest one is changed, also by many at once.
        await asyncio.gather(*(scheduler.amend("a", priority=n) for n in range(4)))
        assert (await scheduler.get("a")).version == 5

    world.play(story)


def test_a_deleted_task_does_not_run(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("note", {"what": "x"}, delay=10, id="a")
        await scheduler.add("work", {"what": "long", "seconds": 100.0}, id="busy")
        await asyncio.sleep(5)
        assert (await scheduler.delete("a")).id == "a"
        with pytest.raises(UnknownTask):
            await scheduler.delete("a")
        with pytest.raises(TaskRunning):
            await scheduler.delete("busy")
        await asyncio.sleep(20)
        assert [what for _, what in world.ran] == ["long"]

    world.play(story)
    assert world.kinds("a") == ["added", "cancelled"]


def test_the_same_is_done_to_many_and_told_once(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        ids = [f"t{n}" for n in range(3)]
        await scheduler.add_many([{"handler": "note", "args": {"what": i}, "delay": 3600, "id": i} for i in ids])
        assert await scheduler.apply("pause", [*ids, "nobody"]) == [*await scheduler.get_many(ids), None]
        await scheduler.apply("pause", ids)
        await scheduler.apply("resume", ids)
        await scheduler.apply("run", ids)
        await asyncio.sleep(1)
        assert sorted(what for _, what in world.ran) == ids
        await scheduler.apply("retry", ids[:1])
        await asyncio.sleep(1)
        assert len(world.ran) == 4
        deleted = await scheduler.apply("delete", ids)
        assert [task and task.status for task in deleted] == [Status.COMPLETED] * 3
        assert await scheduler.get_many(ids) == [None] * 3

    world.play(story)
    assert world.kinds("t1") == ["added", "paused", "resumed", "rescheduled", "started", "completed"]


def test_the_wheel_can_be_looked_at(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("note", {"what": "x"}, delay=5, id="a")
        dials = scheduler.dials()
        assert dials is not None
        [(level, slot)] = [
            (level, slot)
            for level, dial in enumerate(dials.dials)
            for slot, entries in enumerate(dial.occupancy)
            if entries
        ]
        assert [due.id for due in scheduler.slot(level, slot)] == ["a"]
        assert scheduler.where(await scheduler.get("a")) == "in the wheel"
        before = [dial.hand for dial in dials.dials]
        await asyncio.sleep(1)
        after = scheduler.dials()
        assert after is not None
        assert after.dials[1].hand == (before[1] + 1) % 60, "the hand moves though nothing is due"
        assert len(await scheduler.leases()) == 64
        assert {lease.node for lease in await scheduler.leases()} == {scheduler.node}

    world.play(story)


@pytest.mark.parametrize("empty", [Filter(), Filter(order="due"), Filter(id_prefix="", text="")])
def test_an_empty_filter_is_refused_for_an_action_on_many(world: World, empty: Filter) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("note", {"what": "a"}, id="a", delay="1h")
        for action in get_args(Action):
            with pytest.raises(InvalidFilter, match="empty filter selects every task"):
                await anext(scheduler.sweep(action, empty))
        assert (await scheduler.get("a")).status is Status.PENDING

    world.play(story)


def test_a_retry_of_many_is_for_what_failed_unless_another_status_is_named(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("note", {"what": "done"}, id="done", tags=["x"])
        await scheduler.add("fail", {"what": "failed"}, id="failed", tags=["x"], retries=0)
        await scheduler.add("note", {"what": "cancelled"}, id="cancelled", tags=["x"], delay="1h")
        await scheduler.cancel("cancelled")
        await asyncio.sleep(1)
        assert [counts async for counts in scheduler.sweep("retry", Filter(tag="x"))] == [(1, 1)]
        await asyncio.sleep(1)
        assert [what for _, what in world.ran if what != "failed"] == ["done"]
        assert (await scheduler.get("cancelled")).status is Status.CANCELLED
        assert [counts async for counts in scheduler.sweep("retry", Filter(status=Status.CANCELLED))] == [(1, 1)]
        assert [counts async for counts in scheduler.sweep("retry", Filter(status=Status.COMPLETED))] == [(1, 1)]

    world.play(story)


def test_a_series_whose_times_are_lowered_to_what_it_has_run_ends(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("note", {"what": "a"}, every=10, times=100, id="a")
        await asyncio.sleep(35)
        ended = await scheduler.amend("a", times=2)
        assert (ended.status, ended.runs, ended.times) == (Status.COMPLETED, 3, 2)
        await scheduler.add("work", {"what": "b", "seconds": 5}, every=10, times=100, id="b")
        await asyncio.sleep(22)
        assert (await scheduler.amend("b", times=1)).status is Status.RUNNING
        await asyncio.sleep(60)
        ended = await scheduler.get("b")
        assert (ended.status, ended.runs, ended.times) == (Status.COMPLETED, 2, 1)

    world.play(story)
    assert [what for _, what in world.ran].count("a") == 3
    assert (world.kinds("a")[-1], world.kinds("b")[-1]) == ("completed", "completed")
