"""The engine on virtual time: nothing early, nothing lost, and every end has a reason."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count, pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.scheduler.worlds import World
from tickwheel.errors import BatchTooLarge, DuplicateTask, InvalidTask, TaskFinished, UnknownHandler, UnknownTask
from tickwheel.scheduler import AsyncScheduler
from tickwheel.tasks import LatePolicy, RetryPolicy, Status

DAY = 86_400


@pytest.fixture
def world() -> World:
    return World()


def test_a_task_runs_when_it_is_due_and_not_before(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        due = world.now() + 30 * DAY * 1000
        await scheduler.add("note", {"what": "order 7"}, delay="30d", id="order-7")
        await asyncio.sleep(30 * DAY - 1)
        assert world.ran == []
        await asyncio.sleep(2)
        assert world.ran == [(due, "order 7")]
        task = await scheduler.get("order-7")
        assert (task.status, task.result, task.attempt) == (Status.COMPLETED, "order 7", 1)
        assert [run.status.value for run in await scheduler.history("order-7")] == ["completed"]

    world.play(story)
    assert world.kinds("order-7") == ["added", "started", "completed"]


def test_a_task_due_now_runs_at_once(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        begun = world.now()
        await scheduler.add("note", {"what": "now"})
        await asyncio.sleep(1)
        assert [what for _, what in world.ran] == ["now"]
        assert world.ran[0][0] - begun <= 5

    world.play(story)


def narrow(loop: asyncio.AbstractEventLoop, call: Any) -> asyncio.Task[Any]:
    """Make a task, as factories did before they were given a context."""
    return asyncio.Task(call, loop=loop)


@pytest.mark.parametrize("factory", [narrow, getattr(asyncio, "eager_task_factory", narrow)])
def test_tasks_run_whatever_task_factory_the_loop_has(world: World, factory: Any) -> None:
    """Python 3.12 and newer has one that runs a task at once."""

    async def story(scheduler: AsyncScheduler) -> None:
        asyncio.get_running_loop().set_task_factory(factory)
        await scheduler.add("note", {"what": "once"}, id="once")
        await scheduler.add("note", {"what": "series"}, id="series", every=1)
        await asyncio.sleep(5.5)
        asyncio.get_running_loop().set_task_factory(None)
        assert (await scheduler.get("once")).status is Status.COMPLETED
        assert len(await scheduler.history("series")) == 5

    world.play(story)


def test_a_series_that_is_amended_twice_during_a_run_now_does_not_make_that_again(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("work", {"what": "a", "seconds": 1}, every=100, id="a")
        await scheduler.run_now("a")
        await asyncio.sleep(0.5)
        await scheduler.amend("a", {"what": "b", "seconds": 1})
        amended = world.now()
        await scheduler.amend("a", every=50)
        await asyncio.sleep(60)
        assert [what for _, what in world.ran] == ["a", "b"]
        assert world.ran[1][0] == amended + 50_000

    world.play(story)


def test_others_have_their_turn_while_a_large_batch_is_checked() -> None:
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def main() -> None:
        async with AsyncScheduler("memory://", run=False) as scheduler:
            other = asyncio.create_task(take_turns())
            many = [{"handler": "h", "args": {"numbers": list(range(20_000))}} for _ in range(50)]
            await asyncio.sleep(0)
            before = turns
            await scheduler.add_many(many)
            assert turns - before >= 5
            other.cancel()

    asyncio.run(main())


def test_a_cancelled_task_does_not_run(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("note", {"what": "paid"}, delay="30m", id="order-7")
        task = await scheduler.cancel("order-7", "paid in time")
        assert (task.status, task.reason) == (Status.CANCELLED, "paid in time")
        await asyncio.sleep(3600)
        assert world.ran == []
        assert (await scheduler.cancel("order-7")).status is Status.CANCELLED, "twice is once"

    world.play(story)
    assert world.kinds("order-7")[:2] == ["added", "cancelled"]


def test_a_running_task_that_is_cancelled_stops(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("work", {"what": "long", "seconds": 200.0}, id="long")
        await asyncio.sleep(5)
        assert (await scheduler.get("long")).status is Status.RUNNING
        await scheduler.cancel("long", "not wanted any more")
        await asyncio.sleep(1)
        task = await scheduler.get("long")
        assert (task.status, task.reason) == (Status.CANCELLED, "not wanted any more")

    world.play(story)
    assert world.kinds("long")[-1] == "cancelled"


def test_a_moved_task_runs_at_its_new_time(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        begun = world.now()
        for name in ("later", "sooner"):
            await scheduler.add("note", {"what": name}, delay="1h", id=name)
        await scheduler.reschedule("later", delay="2h")
        await scheduler.reschedule("sooner", delay="30m")
        await asyncio.sleep(3 * 3600)
        assert world.ran == [(begun + 1_800_000, "sooner"), (begun + 7_200_000, "later")]
        with pytest.raises(TaskFinished):
            await scheduler.reschedule("later", delay=1)

    world.play(story)


def test_a_paused_task_waits_until_it_is_resumed(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("note", {"what": "a"}, delay="1h", id="a")
        await scheduler.pause("a")
        await asyncio.sleep(2 * 3600)
        assert world.ran == []
        assert (await scheduler.get("a")).listed_status is Status.PAUSED
        await scheduler.resume("a")
        await asyncio.sleep(1)
        assert [what for _, what in world.ran] == ["a"]

    world.play(story)


def test_a_failing_task_is_tried_again_and_then_kept_as_failed(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        policy = RetryPolicy(retries=2, first_ms=10_000, factor=2.0, jitter=0.0)
        await scheduler.add("fail", {"what": "x"}, id="x", retry=policy)
        await asyncio.sleep(120)
        moments = [at - world.ran[0][0] for at, _ in world.ran]
        assert [round(at / 1000) for at in moments] == [0, 10, 30]
        task = await scheduler.get("x")
        assert (task.status, task.failures, task.attempt) == (Status.FAILED, 3, 3)
        assert "ValueError: x" in (task.error or "")
        runs = await scheduler.history("x")
        assert [run.node for run in runs] == [scheduler.node] * 3
        assert all(run.late_ms < 1000 for run in runs), "waiting to be tried again is not being late"
        await scheduler.retry("x")
        await asyncio.sleep(1)
        assert len(world.ran) == 4

    world.play(story)
    assert world.kinds("x")[:7] == ["added", "started", "retried", "started", "retried", "started", "failed"]


def test_an_error_too_long_for_a_store_is_kept_by_its_end(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("fail", {"what": "x" * 200_000}, id="long", retries=0)
        await asyncio.sleep(1)
        task = await scheduler.get("long")
        assert task.status is Status.FAILED
        assert 16_000 < len(task.error or "") < 17_000
        assert (task.error or "").endswith("xxx\n")

    world.play(story)


def test_periodic_tasks_do_not_drift_and_end_when_counted(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        begun = world.now()
        await scheduler.add("note", {"what": "beat"}, every="1h", times=24, id="beat")
        await asyncio.sleep(2 * DAY)
        assert [at - begun for at, _ in world.ran] == [hour * 3_600_000 for hour in range(1, 25)]
        assert (await scheduler.get("beat")).status is Status.COMPLETED

    world.play(story)


@pytest.mark.slow
def test_cron_keeps_to_the_calendar_of_its_place(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("note", {"what": "report"}, cron="30 9 1 * *", tz="Europe/Berlin")
        await asyncio.sleep(365 * DAY)

    world.play(story)
    local = [datetime.fromtimestamp(at / 1000, ZoneInfo("Europe/Berlin")) for at, _ in world.ran]
    assert [(at.month, at.day, at.hour, at.minute) for at in local] == [
        (month, 1, 9, 30) for month in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
    ]
    assert {at.utcoffset().total_seconds() for at in local if at.utcoffset()} == {3600.0, 7200.0}  # type: ignore[union-attr]


def test_what_came_due_while_nobody_ran_is_run_by_policy(world: World) -> None:
    async def add(scheduler: AsyncScheduler) -> None:
        for mode in ("run_once", "skip"):
            late = LatePolicy(mode=mode)
            await scheduler.add("note", {"what": mode}, delay="1h", late=late, id=mode)
            await scheduler.add("note", {"what": f"{mode} again"}, every="1h", late=late, id=f"{mode}-again")
        late = LatePolicy(mode="run_all", catch_up=3)
        await scheduler.add("note", {"what": "run_all again"}, every="1h", late=late, id="run_all-again")

    async def watch(scheduler: AsyncScheduler) -> str:
        await asyncio.sleep(10)
        assert (await scheduler.get("skip")).status is Status.CANCELLED
        assert "late" in ((await scheduler.get("skip")).reason or "")
        return str(scheduler.startup_report)

    world.play(add)
    world.clock.advance("10h30m")
    report = world.play(watch)
    ran = [what for _, what in world.ran]
    assert ran.count("run_once") == 1
    assert ran.count("run_once again") == 1
    assert ran.count("skip") == ran.count("skip again") == 0
    assert ran.count("run_all again") == 3, "the last three"
    assert "5 tasks overdue, 0 orphaned" in report


@pytest.mark.parametrize("trigger", [{"every": "1m"}, {"cron": "* * * * *"}], ids=["every", "cron"])
def test_run_all_runs_the_last_hundred_that_were_missed(world: World, trigger: dict[str, Any]) -> None:
    async def add(scheduler: AsyncScheduler) -> None:
        await scheduler.add("note", {"what": "a"}, late="run_all", id="a", **trigger)

    async def catch_up(scheduler: AsyncScheduler) -> list[int]:
        await asyncio.sleep(5)
        runs = await scheduler.history("a", limit=1_000)
        return sorted(run.occurrence_at for run in runs if run.started_at is not None)

    world.play(add)
    world.clock.advance("102m45s")
    ran = world.play(catch_up)
    assert len(ran) == len(world.ran) == 100
    assert {later - sooner for sooner, later in pairwise(ran)} == {60_000}
    assert world.now() - 60_000 < ran[-1] <= world.now(), "the most recent ones"


def test_a_process_that_died_in_the_middle_leaves_nothing_undone() -> None:
    world = World(lease_ttl_ms=3_000)

    async def die() -> None:
        scheduler = await world.scheduler().start()
        await scheduler.add("work", {"what": "again", "seconds": 100.0}, id="again")
        await scheduler.add("work", {"what": "never", "seconds": 100.0}, id="never", at_most_once=True)
        await asyncio.sleep(1)
        raise SystemExit  # nobody stops the engine: its leases stay as they are

    from tickwheel import aio  # noqa: PLC0415

    with pytest.raises(SystemExit):
        aio.run(die(), clock=world.clock)
    assert [what for _, what in world.ran] == ["again", "never"]

    async def take_over(scheduler: AsyncScheduler) -> None:
        await asyncio.sleep(200)
        assert (await scheduler.get("again")).status is Status.COMPLETED
        assert (await scheduler.get("again")).attempt == 2
        never = await scheduler.get("never")
        assert never.status is Status.FAILED
        assert "runs at most once" in (never.reason or "")

    world.clock.advance(10)
    world.play(take_over)
    assert [what for _, what in world.ran] == ["again", "never", "again"]


def test_what_does_not_end_in_time_when_stopped_runs_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async def leave(scheduler: AsyncScheduler) -> None:
        await scheduler.add("work", {"what": "long", "seconds": 250.0}, id="long")
        await asyncio.sleep(1)

    async def watch(scheduler: AsyncScheduler) -> None:
        await asyncio.sleep(300)
        task = await scheduler.get("long")
        assert (task.status, task.attempt) == (Status.COMPLETED, 2)

    world.play(leave, grace_s=5.0)
    assert "still running after 5 s" in caplog.text
    world.play(watch)
    assert [what for _, what in world.ran] == ["long", "long"]
    assert world.kinds("long") == ["added", "started", "recovered", "started", "completed"]


def test_what_ends_in_time_when_stopped_is_done(world: World) -> None:
    async def leave(scheduler: AsyncScheduler) -> None:
        await scheduler.add("work", {"what": "short", "seconds": 3.0}, id="short")
        await asyncio.sleep(1)

    async def watch(scheduler: AsyncScheduler) -> None:
        assert (await scheduler.get("short")).status is Status.COMPLETED

    world.play(leave, grace_s=5.0)
    world.play(watch)


def test_more_tasks_than_there_is_room_for_wait_in_the_store(world: World) -> None:
    inside: list[int] = [0]

    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("crowd")
        async def crowd() -> None:
            inside.append(inside[-1] + 1)
            await asyncio.sleep(1)
            inside.append(inside[-1] - 1)

        await scheduler.add_many([{"handler": "crowd"}] * 50)
        await asyncio.sleep(60)
        assert (await scheduler.counts())[Status.COMPLETED] == 50

    world.play(story, in_flight_max=3)
    assert max(inside) == 3


def test_a_run_that_is_stuck_keeps_its_place_and_others_wait_for_theirs(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("stubborn")
        async def stubborn() -> None:
            ends_at = world.now() + 60_000
            while world.now() < ends_at:  # whoever cancels it
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(60)

        await scheduler.add("stubborn", timeout="1s", id="stubborn")
        due = datetime.fromtimestamp(world.now() / 1000 + 20, UTC)
        await scheduler.add_many([{"handler": "note", "args": {"what": name}, "at": due, "id": name} for name in "ab"])
        await asyncio.sleep(30)
        stubborn_run = await scheduler.get("stubborn")
        assert (stubborn_run.status, stubborn_run.reason_code) == (Status.RUNNING, "stuck")
        for each in (await scheduler.get("a"), await scheduler.get("b")):
            assert (each.status, each.attempt, each.failures) == (Status.COMPLETED, 1, 0)
        await asyncio.sleep(60)
        assert (await scheduler.get("stubborn")).status is Status.FAILED

    world.play(story, in_flight_max=2)
    assert world.kinds("b") == ["added", "started", "completed"]


def test_a_clock_that_is_set_back_lets_nothing_run_early(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        due = world.now() + 600_000
        await scheduler.add("note", {"what": "a"}, delay="10m", id="a")
        await asyncio.sleep(300)
        world.clock.step_wall(-3600 * 10**9)
        await asyncio.sleep(600)
        assert world.ran == []
        await asyncio.sleep(3600)
        assert [what for _, what in world.ran] == ["a"]
        assert world.ran[0][0] >= due

    world.play(story)


def test_a_clock_that_is_set_forward_makes_due_what_is_due(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        for number in range(100):
            await scheduler.add("note", {"what": str(number)}, delay=60 * (number + 1))
        world.clock.step_wall(3600 * 10**9)
        await asyncio.sleep(60)
        assert len(world.ran) >= 60

    world.play(story)


def test_ids_of_a_batch_are_in_its_order(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        batches = []
        for _ in range(3):
            batches.append([task.id for task in await scheduler.add_many([{"handler": "note", "delay": "1h"}] * 100)])
            await asyncio.sleep(0.001)
        made = [each for batch in batches for each in batch]
        assert made == sorted(set(made))

    world.play(story)


def test_bad_requests_change_nothing(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("note", {"what": "a"}, delay="1h", id="a")
        with pytest.raises(DuplicateTask):
            await scheduler.add("note", {"what": "b"}, id="a")
        with pytest.raises(UnknownHandler, match="did you mean 'note'"):
            await scheduler.add("noet", {"what": "b"})
        with pytest.raises(UnknownTask):
            await scheduler.get("b")
        with pytest.raises(DuplicateTask):
            await scheduler.add_many([{"handler": "note", "id": "c"}, {"handler": "note", "id": "a"}])
        with pytest.raises(InvalidTask, match="expected dicts"):
            await scheduler.add_many([{"handler": "note", "id": "c"}, "note"])  # type: ignore[list-item]
        with pytest.raises(BatchTooLarge):
            await scheduler.add_many({"handler": "note"} for _ in count())  # an endless one is not read to its end
        counts = await scheduler.counts()
        assert counts.get(Status.PENDING) == 1
        assert sum(counts.values()) == 1

    world.play(story)


@pytest.mark.slow
def test_thousands_of_far_tasks_stay_in_the_store(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        for first in range(0, 5_000, 1000):
            await scheduler.add_many(
                {"handler": "note", "args": {"what": "far"}, "delay": "30d", "id": f"far-{first + number}"}
                for number in range(1000)
            )
        await asyncio.sleep(3600)
        engine: Any = scheduler._engine
        assert len(engine._index) == 0
        await asyncio.sleep(30 * DAY)
        assert len(world.ran) == 5_000

    world.play(story)


@pytest.mark.slow
def test_a_month_of_mixed_tasks_is_the_same_story_for_the_same_seed() -> None:
    def live() -> tuple[list[tuple[int, str]], dict[str, int]]:
        world = World(seed=7)

        async def story(scheduler: AsyncScheduler) -> dict[str, int]:
            chance = world.chance
            for number in range(150):
                kind = chance.choice(["once", "every", "cron", "fail"])
                args = {"what": f"{kind}-{number}"}
                if kind == "once":
                    await scheduler.add("note", args, delay=chance.randrange(30 * DAY))
                elif kind == "every":
                    await scheduler.add("note", args, every=chance.randrange(DAY // 8, 10 * DAY))
                elif kind == "cron":
                    await scheduler.add("note", args, cron=f"{chance.randrange(60)} {chance.randrange(24)} 1 * *")
                else:
                    await scheduler.add("fail", args, delay=chance.randrange(30 * DAY))
            await asyncio.sleep(31 * DAY)
            return {status.value: count for status, count in (await scheduler.counts()).items()}

        counts = world.play(story, retention_ms=100 * DAY * 1000)
        early = [event for event in world.events if event.late_ms is not None and event.late_ms < 0]
        assert early == []
        return world.ran, counts

    first, again = live(), live()
    assert first == again
    assert first[1]["failed"] > 0
    assert first[1]["completed"] > 0
    assert len(first[0]) > 500


def test_it_begins_with_2024() -> None:
    assert datetime.fromtimestamp(World().now() / 1000, UTC).year == 2024


def test_what_waits_for_a_worker_when_the_clock_is_set_back_begins_in_its_time() -> None:
    world = World()

    async def story() -> None:
        scheduler = world.scheduler()

        @scheduler.task("narrow", concurrency=1)
        async def narrow(what: str) -> None:
            world.ran.append((world.now(), what))
            await asyncio.sleep(0.1)

        async with scheduler:
            await scheduler.add("narrow", {"what": "first"})
            await asyncio.sleep(0.01)
            second = await scheduler.add("narrow", {"what": "second"})
            await asyncio.sleep(0.01)
            engine = scheduler._engine
            assert engine is not None
            leases = engine._ownership.leases()
            engine._executor.launch(await world.store.claim(leases, [second.id], world.now()), leases, {})
            world.clock.step_wall(-5 * 10**9)  # it is claimed, and waits for the first to end
            await asyncio.sleep(6)
        assert [what for _, what in world.ran] == ["first", "second"]
        assert world.ran[1][0] >= second.run_at

    world.perform(story)
