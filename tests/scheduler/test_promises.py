"""Verbs by state on a running engine, on virtual time."""

import asyncio
from typing import Any

import pytest

from tests.scheduler.worlds import World
from tickwheel import aio
from tickwheel.errors import DuplicateTask, InvalidTask, TaskFinished, TaskRunning, UnknownTask
from tickwheel.scheduler import AsyncScheduler
from tickwheel.tasks import RetryPolicy, Status


@pytest.fixture
def world() -> World:
    return World()


def moments(world: World, begun: int) -> list[int]:
    """Return after how many seconds each run began."""
    return [round((at - begun) / 1000) for at, _ in world.ran]


def test_a_series_paused_during_a_run_finishes_it_and_runs_no_more(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        begun = world.now()
        await scheduler.add("work", {"what": "a", "seconds": 5}, every=60, id="a")
        await asyncio.sleep(62)
        paused = await scheduler.pause("a")
        assert (paused.status, paused.paused) == (Status.RUNNING, True)
        await asyncio.sleep(600)
        task = await scheduler.get("a")
        assert (task.status, task.paused, task.runs, moments(world, begun)) == (Status.PENDING, True, 1, [60])
        assert (await scheduler.counts())[Status.PAUSED] == 1
        await scheduler.resume("a")
        await asyncio.sleep(60)
        assert moments(world, begun) == [60, 720], "what passed during the pause is not made up for"

    world.play(story)


def test_run_now_is_one_run_more_and_the_grid_stays(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        begun = world.now()
        await scheduler.add("note", {"what": "a"}, every=60, times=3, id="a")
        await asyncio.sleep(20)
        await asyncio.gather(scheduler.run_now("a"), scheduler.run_now("a"))
        await asyncio.sleep(300)
        assert moments(world, begun) == [20, 60, 120, 180]
        assert (await scheduler.get("a")).status is Status.COMPLETED
        with pytest.raises(TaskFinished):
            await scheduler.run_now("a")

    world.play(story)


def test_run_now_of_a_paused_task_runs_it_once_and_it_stays_paused(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        begun = world.now()
        await scheduler.add("note", {"what": "a"}, every=60, id="a")
        await scheduler.pause("a")
        await asyncio.sleep(200)
        await scheduler.run_now("a")
        await asyncio.sleep(200)
        assert moments(world, begun) == [200]
        assert (await scheduler.get("a")).listed_status is Status.PAUSED

    world.play(story)


def test_verbs_of_a_running_or_unknown_task_raise(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("work", {"what": "a", "seconds": 50}, id="a")
        await asyncio.sleep(5)
        for call in (
            scheduler.run_now("a"),
            scheduler.reschedule("a", delay=5),
            scheduler.amend("a", priority=5),
            scheduler.delete("a"),
        ):
            with pytest.raises(TaskRunning):
                await call
        await scheduler.cancel("a")
        await asyncio.sleep(5)
        await scheduler.delete("a")
        for verb in ("get", "history", "cancel", "pause", "resume", "run_now", "retry", "delete", "amend"):
            with pytest.raises(UnknownTask):
                await getattr(scheduler, verb)("a")
        with pytest.raises(UnknownTask):
            await scheduler.reschedule("a", delay=5)

    world.play(story)


def test_a_run_alone_is_cancelled_and_the_series_goes_on(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        begun = world.now()
        await scheduler.add("work", {"what": "a", "seconds": 50}, every=60, id="a")
        await asyncio.sleep(65)
        await scheduler.cancel("a", "not this one", run_only=True)
        await asyncio.sleep(60)
        task = await scheduler.get("a")
        assert (task.status, moments(world, begun)) == (Status.RUNNING, [60, 120])
        await scheduler.cancel("a", "no more")
        await asyncio.sleep(60)
        task = await scheduler.get("a")
        assert (task.status, task.reason) == (Status.CANCELLED, "no more")
        assert [run.status.value for run in await scheduler.history("a")] == ["cancelled", "cancelled"]

    world.play(story)


def test_a_debounce_during_a_run_makes_one_following_run(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        begun = world.now()
        await scheduler.add("work", {"what": "old", "seconds": 10}, id="a")
        await asyncio.sleep(5)
        for number in range(3):
            await scheduler.add(
                "work", {"what": f"new {number}", "seconds": 1}, id="a", delay=10, on_conflict="debounce"
            )
        await asyncio.sleep(100)
        assert [what for _, what in world.ran] == ["old", "new 2"]
        assert moments(world, begun) == [0, 15]
        assert (await scheduler.get("a")).status is Status.COMPLETED

    world.play(story)


def test_a_debounce_after_a_cancel_runs_once_the_cancelled_run_is_over(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        begun = world.now()
        for name in ("a", "b"):
            await scheduler.add("work", {"what": f"old {name}", "seconds": 10}, id=name)
        await asyncio.sleep(5)
        for name in ("a", "b"):
            assert (await scheduler.cancel(name)).cancel_requested
            await scheduler.add(
                "work", {"what": f"new {name}", "seconds": 1}, id=name, delay=10, on_conflict="debounce"
            )
        await scheduler.cancel("b")
        await asyncio.sleep(100)
        assert sorted(what for _, what in world.ran) == ["new a", "old a", "old b"]
        assert moments(world, begun) == [0, 0, 15]
        assert [(await scheduler.get(name)).status for name in ("a", "b")] == [Status.COMPLETED, Status.CANCELLED]
        assert [run.status.value for run in await scheduler.history("a")] == ["completed", "cancelled"]

    world.play(story)


def test_a_running_series_is_replaced_and_changed_from_its_next_occurrence(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        begun = world.now()
        await scheduler.add("work", {"what": "old", "seconds": 10}, every=60, id="a")
        await asyncio.sleep(65)
        await scheduler.amend("a", {"what": "changed", "seconds": 10})
        await asyncio.sleep(60)
        await scheduler.add("note", {"what": "replaced"}, every=30, id="a", on_conflict="replace")
        await asyncio.sleep(65)
        assert [what for _, what in world.ran] == ["old", "changed", "replaced", "replaced"]
        assert moments(world, begun) == [60, 120, 155, 185]

    world.play(story)


def test_a_change_of_a_series_that_waits_for_a_retry_is_for_that_and_for_what_follows(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        begun = world.now()
        retry = RetryPolicy(retries=1, first_ms=20_000, jitter=0)
        await scheduler.add("work", {"what": "old", "seconds": 10}, every=60, id="a", timeout=9, retry=retry)
        await asyncio.sleep(65)
        await scheduler.amend("a", {"what": "changed", "seconds": 1}, priority=7)
        await asyncio.sleep(10)
        waiting = await scheduler.get("a")
        changed = await scheduler.amend("a", {"what": "changed again", "seconds": 1})
        assert (changed.run_at, changed.failures) == (waiting.run_at, waiting.failures) == (begun + 89_000, 1)
        await asyncio.sleep(60)
        assert [what for _, what in world.ran] == ["old", "changed again", "changed again"]
        assert moments(world, begun) == [60, 89, 120]
        assert (await scheduler.get("a")).priority == 7, "the first change has taken effect as well"

    world.play(story)


def test_fifty_adds_of_one_id_at_once_run_it_once(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        calls = [scheduler.add("note", {"what": "charge"}, id="charge-7") for _ in range(50)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(isinstance(answer, DuplicateTask) for answer in answers) == 49
        await asyncio.sleep(10)
        for _ in range(3):
            with pytest.raises(DuplicateTask):
                await scheduler.add("note", {"what": "charge"}, id="charge-7")
        kept = await scheduler.add("note", {"what": "charge"}, id="charge-7", on_conflict="keep")
        assert kept.deduplicated
        assert not (await scheduler.get("charge-7")).deduplicated
        assert len(world.ran) == 1

    world.play(story)


def test_occurrences_that_come_due_during_a_run_are_skipped_and_recorded(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        begun = world.now()
        await scheduler.add("work", {"what": "a", "seconds": 130}, every=60, id="a")
        await asyncio.sleep(260)
        assert moments(world, begun) == [60, 240]
        runs = await scheduler.history("a")
        assert [(run.status.value, run.started_at is None) for run in runs] == [
            ("skipped", True),
            ("skipped", True),
            ("completed", False),
        ]

    world.play(story)
    assert world.kinds("a").count("skipped") == 2


def test_queue_one_runs_the_last_of_them_right_after(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        begun = world.now()
        await scheduler.add("work", {"what": "a", "seconds": 130}, every=60, id="a", overlap="queue_one")
        await asyncio.sleep(200)
        assert moments(world, begun) == [60, 190]

    world.play(story)


@pytest.mark.parametrize("wishes", [{"retries": 2}, {}])
def test_at_most_once_excludes_retries(world: World, wishes: dict[str, Any]) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        with pytest.raises(InvalidTask, match="at_most_once excludes retries"):
            await scheduler.add("fail" if not wishes else "note", {"what": "x"}, at_most_once=True, **wishes)
        await scheduler.add("fail", {"what": "x"}, at_most_once=True, retries=0, delay=60, id="a")
        with pytest.raises(InvalidTask, match="at_most_once excludes retries"):
            await scheduler.amend("a", retries=1)

    world.play(story)


def test_a_run_interrupted_by_stop_is_neither_a_crash_nor_a_failure() -> None:
    world = World(grace_s=0.1)

    async def leave(scheduler: AsyncScheduler) -> None:
        for each, once in (("again", False), ("never", True)):
            await scheduler.add("work", {"what": each, "seconds": 50}, id=each, at_most_once=once)
        await asyncio.sleep(5)

    async def back(scheduler: AsyncScheduler) -> None:
        never = await scheduler.get("never")
        assert (never.status, "at most once" in (never.reason or "")) == (Status.FAILED, True)
        await asyncio.sleep(60)
        again = await scheduler.get("again")
        assert (again.status, again.crashes, again.failures, again.attempt) == (Status.COMPLETED, 0, 0, 2)

    world.play(leave)
    world.play(back)
    assert sorted(what for _, what in world.ran) == ["again", "again", "never"]


def test_a_task_that_kills_its_process_is_run_three_times() -> None:
    world = World(lease_ttl_ms=3_000)

    async def die() -> None:
        scheduler = await world.scheduler().start()
        if not world.ran:
            await scheduler.add("work", {"what": "bomb", "seconds": 100.0}, id="bomb")
        before = len(world.ran)
        for _ in range(100):
            await asyncio.sleep(0.1)
            if len(world.ran) > before:
                raise SystemExit  # nobody stops the engine: it is as if it was killed

    for _ in range(3):
        with pytest.raises(SystemExit):
            aio.run(die(), clock=world.clock)
        world.clock.advance(10)

    async def after(scheduler: AsyncScheduler) -> None:
        await asyncio.sleep(60)
        bomb = await scheduler.get("bomb")
        assert (bomb.status, bomb.reason) == (Status.FAILED, "worker died 3 times while running this task")
        await scheduler.retry("bomb")
        await asyncio.sleep(200)
        assert (await scheduler.get("bomb")).status is Status.COMPLETED

    world.play(after)
    assert len(world.ran) == 4


@pytest.mark.parametrize(("raises", "ends"), [(False, Status.COMPLETED), (True, Status.CANCELLED)])
def test_a_run_that_returns_after_it_was_cancelled_has_completed(world: World, raises: bool, ends: Status) -> None:
    async def story() -> None:
        scheduler = world.scheduler()

        @scheduler.task("stubborn")
        async def stubborn() -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if raises:
                    raise ValueError("not now") from None

        async with scheduler:
            await scheduler.add("stubborn", id="a", retries=3)
            await asyncio.sleep(1)
            assert (await scheduler.cancel("a")).cancel_requested
            await asyncio.sleep(1)
            assert (await scheduler.get("a")).status is ends

    world.perform(story)
