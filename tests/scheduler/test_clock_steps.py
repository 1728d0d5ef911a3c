"""A wall clock that is set while tasks wait, while they run, and while nobody runs them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.scheduler.still import StillStore
from tests.scheduler.worlds import World
from tickwheel.errors import Snooze
from tickwheel.scheduler import AsyncScheduler
from tickwheel.stores.contract import ClockStep
from tickwheel.stores.memory import MemoryStore
from tickwheel.tasks.policies import LatePolicy, RetryPolicy
from tickwheel.tasks.record import Status, Task

HOUR = 3600
YEAR = 365 * 86_400
RETENTION = 600
STARTS = ("live", "restart", "crash")
FOLLOWS = ("join", "restart", "crash")


class Steps(World):
    """A world whose wall clock is set while a scheduler runs, while it is stopped, or after it died."""

    def __init__(self) -> None:
        super().__init__(lease_ttl_ms=3_000, rescan_ms=30_000, horizon_ms=600_000)

    async def begin(self) -> None:
        self.node = self.scheduler()

        @self.node.task("snooze")
        async def snooze() -> None:
            self.ran.append((self.now(), "snooze"))
            raise Snooze(2)

        await self.node.start()

    async def step(self, seconds: int, how: str) -> None:
        """Set the clock, and start another scheduler unless it is set live."""
        if how == "live":
            self.clock.step_wall(seconds * 10**9)
            return
        await (self.node.stop() if how == "restart" else self.die())
        self.clock.step_wall(seconds * 10**9)
        await self.begin()

    async def follow(self, how: str) -> None:
        """Let another scheduler start: beside the one that runs, or after it was stopped or died."""
        if how == "join":
            self.first = self.node
        else:
            await (self.node.stop() if how == "restart" else self.die())
        await self.begin()

    async def is_there(self, task_id: str) -> bool:
        """Tell whether a task is in the store."""
        return (await self.store.get([task_id]))[0] is not None

    async def die(self) -> None:
        """Let the scheduler do nothing any more, with what it holds free for others."""
        engine: Any = self.node._engine
        engine._ending = True
        for loop in engine._loops:
            loop.cancel()
        await asyncio.gather(*engine._loops, return_exceptions=True)
        await self.store.release(engine._ownership.kept())
        await self.store.leave(engine.node)

    def runs(self, what: str) -> list[int]:
        return [moment for moment, name in self.ran if name == what]

    def in_seconds(self, seconds: float) -> datetime:
        return datetime.fromtimestamp(self.now() / 1000 + seconds, UTC)


@pytest.fixture(params=["memory", "sqlite"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Steps]:
    world = Steps()
    if request.param == "memory":
        world.store = MemoryStore(now_ms=world.now, timed_leases=False)
        yield world
        return
    still = StillStore(tmp_path / "tasks.db", world.now)
    world.store = still
    yield world
    still.end()


@pytest.mark.parametrize("how", STARTS)
def test_a_clock_that_is_set_back_stalls_nothing_and_makes_nothing_early(world: Steps, how: str) -> None:
    async def story() -> None:
        await world.begin()
        add = world.node.add
        await add("note", {"what": "second"}, every="1s")
        await add("note", {"what": "skipping"}, every="1s", late="skip")
        await add("note", {"what": "paused"}, every="1s", id="paused")
        minute = await add("note", {"what": "minute"}, every="1m")
        waiting = [
            await add("note", {"what": "delay"}, delay=20),
            await add("note", {"what": "at"}, at=world.in_seconds(20)),
            await add("note", {"what": "cron"}, cron="*/10 * * * *"),
            await add("note", {"what": "delayed series"}, delay=20, every="1s"),
        ]
        await asyncio.sleep(5.4)
        await world.node.pause("paused")
        world.ran.clear()
        await world.step(-HOUR, how)
        stepped = world.now()
        await asyncio.sleep(3.5)
        for what in ("second", "skipping"):
            assert world.runs(what)[0] <= stepped + 1_500  # it is noticed within a second, and then at once
            assert len(world.runs(what)) in (3, 4)
        await world.node.resume("paused")
        assert (await world.node.get(minute.id)).run_at <= stepped + 60_000
        await asyncio.sleep(20)
        assert len(world.runs("paused")) in (20, 21)
        for task in waiting:
            assert (await world.node.get(task.id)).run_at == task.run_at
            assert not world.runs(task.args["what"])
        await world.node.stop()

    world.perform(story)


@pytest.mark.parametrize("how", STARTS)
def test_only_a_retry_in_a_series_waits_as_long_as_before_when_the_clock_is_set_back(world: Steps, how: str) -> None:
    async def story() -> None:
        await world.begin()
        policy = RetryPolicy(retries=3, first_ms=2_000, jitter=0.0)
        await world.node.add("fail", {"what": "retry"}, retry=policy, delay=1)
        await world.node.add("fail", {"what": "series"}, retry=policy, every="1h", delay=1)
        await world.node.add("snooze", delay=1)
        await asyncio.sleep(1.5)
        await world.step(-HOUR // 6, how)
        stepped = world.now()
        await asyncio.sleep(5)
        assert world.runs("series")[1] - stepped <= 3_500
        await asyncio.sleep(HOUR // 6)
        for what in ("retry", "snooze"):
            first, second = world.runs(what)[:2]
            assert first <= second <= first + 10_000, "no attempt is made before its time, by the clock as it is"
        await world.node.stop()

    world.perform(story)


def test_what_runs_while_the_clock_is_set_back_goes_on_from_now(world: Steps) -> None:
    async def story() -> None:
        await world.begin()
        await world.node.add("work", {"what": "work", "seconds": 3.0}, every="10s", id="work")
        await asyncio.sleep(11)
        await world.step(-HOUR, "live")
        await asyncio.sleep(13)
        assert len(world.runs("work")) == 2
        assert all(run.started_at <= run.finished_at for run in await world.node.history("work") if run.started_at)
        await world.node.stop()

    world.perform(story)


def test_a_series_keeps_its_pace_when_the_clock_is_set_back_and_that_is_noticed_at_once(world: Steps) -> None:
    async def story() -> None:
        began = world.clock.monotonic_ns()
        moments: list[float] = []
        await world.begin()

        @world.node.task("beat")
        async def beat() -> None:
            moments.append((world.clock.monotonic_ns() - began) / 1e9)

        await world.node.add("beat", every="1s", id="beat")
        await asyncio.sleep(2.5)
        await world.step(-HOUR, "live")
        await world.node.add("note", {"what": "note"})
        await asyncio.sleep(3)
        assert [round(later - sooner, 1) for sooner, later in pairwise(moments)] == [1.0] * (len(moments) - 1), moments
        assert len(moments) == 5
        await world.node.stop()

    world.perform(story)


def test_a_series_replaced_during_its_run_goes_on_when_the_clock_is_set_back(world: Steps) -> None:
    async def story() -> None:
        await world.begin()
        await world.node.add("work", {"what": "before", "seconds": 5.0}, every="10s", id="work")
        await asyncio.sleep(11)
        await world.node.add("note", {"what": "after"}, every="4s", id="work", on_conflict="replace")
        await world.step(-HOUR, "live")
        await asyncio.sleep(12)
        assert len(world.runs("after")) >= 1
        await world.node.stop()

    world.perform(story)


def test_a_run_now_right_after_the_clock_is_set_back_does_not_stall_its_series(world: Steps) -> None:
    async def story() -> None:
        await world.begin()
        await world.node.add("work", {"what": "work", "seconds": 3.0}, every="10s", id="work")
        await asyncio.sleep(5)
        await world.step(-HOUR, "live")
        await world.node.run_now("work")
        await asyncio.sleep(25)
        assert len(world.runs("work")) >= 2
        await world.node.stop()

    world.perform(story)


def test_a_series_goes_on_when_the_clock_is_set_back_again_while_its_time_is_corrected(world: Steps) -> None:
    async def set_back_again() -> None:
        world.clock.step_wall(-HOUR * 10**9)
        await world.node.add("note", {"what": "noticed"})
        await asyncio.sleep(0.01)

    check_a_correction(world, after=set_back_again)


def test_a_series_goes_on_that_is_run_while_its_time_is_corrected(world: Steps) -> None:
    async def run() -> None:
        await world.node.run_now("series")
        await asyncio.sleep(0.2)

    check_a_correction(world, before=run)


def check_a_correction(
    world: Steps,
    before: Callable[[], Awaitable[None]] | None = None,
    after: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Let something happen just before or after the time of a series is corrected, for the clock was set back."""

    async def story() -> None:
        await world.begin()
        await world.node.add("note", {"what": "series"}, every="2s", id="series")
        await asyncio.sleep(5)
        amend = world.store.amend
        todo = [before, after]

        async def amend_meanwhile(tasks: Sequence[Task]) -> list[Task]:
            happens_before, happens_after = todo
            todo[:] = None, None
            if happens_before is not None:
                await happens_before()
            answer = await amend(tasks)
            if happens_after is not None:
                await happens_after()
            return answer

        world.store.amend = amend_meanwhile  # type: ignore[method-assign]
        await world.step(-HOUR, "live")
        await world.node.add("note", {"what": "noticed"})
        await asyncio.sleep(1)
        assert todo == [None, None]
        ran = len(world.runs("series"))
        await asyncio.sleep(10)
        assert len(world.runs("series")) - ran >= 4
        await world.node.stop()

    world.perform(story)


def test_a_series_in_a_queue_goes_on_though_it_is_leased_while_times_are_corrected(world: Steps) -> None:
    async def story() -> None:
        await world.begin()
        await world.node.add(queue="emails", every="5s", id="series")
        await world.step(-HOUR, "live")
        await world.node.run_now("series")
        [message] = await world.node.lease("emails", wait=1)
        await asyncio.sleep(1)
        await world.node.ack("series", message.lease_token)
        [message] = await world.node.lease("emails", wait=7)
        assert message.id == "series"
        await world.node.stop()

    world.perform(story)


@pytest.mark.parametrize("back_s", [0.3, 0.9])
def test_a_message_is_leased_in_time_though_the_clock_was_set_back_a_little(world: Steps, back_s: float) -> None:
    async def story() -> None:
        await world.begin()
        await world.node.add(queue="emails", delay=1, id="message")
        await asyncio.sleep(1.1)
        world.clock.step_wall(-int(back_s * 10**9))
        assert await world.node.lease("emails") == []
        [message] = await world.node.lease("emails", wait=2)
        assert 0 <= world.now() - message.due <= 150
        await world.node.stop()

    world.perform(story)


def test_what_a_client_asked_for_while_the_clock_was_ahead_for_a_moment_is_found_by_the_rescan(world: Steps) -> None:
    async def story() -> None:
        await world.begin()
        async with world.scheduler(run=False) as client:
            await client.add("note", {"what": "asked for"}, delay="1d", id="asked for")
            await asyncio.sleep(1)
            world.clock.step_wall(HOUR * 10**9)
            await client.run_now("asked for")
            await client.add("note", {"what": "series"}, every="2s")
            world.clock.step_wall(-HOUR * 10**9)
            await asyncio.sleep(40)
        assert len(world.runs("asked for")) == 1
        assert len(world.runs("series")) >= 2
        await world.node.stop()

    world.perform(story)


def test_a_series_goes_on_though_its_node_died_before_anybody_noticed_that_the_clock_was_ahead(world: Steps) -> None:
    async def story() -> None:
        await world.begin()
        await world.node.add("work", {"what": "work", "seconds": 3.0}, every="10s", id="work")
        await asyncio.sleep(10 + 2.99)
        world.clock.step_wall(HOUR * 10**9)
        await asyncio.sleep(0.05)
        assert await world.node.history("work")
        world.clock.step_wall(-HOUR * 10**9)
        await world.die()
        await world.begin()
        await asyncio.sleep(40)
        assert len(world.runs("work")) >= 4
        await world.node.stop()

    world.perform(story)


def test_a_series_resumed_and_paused_again_goes_on_when_the_clock_is_set_back(world: Steps) -> None:
    async def story() -> None:
        await world.begin()
        await world.node.add("note", {"what": "note"}, every="2s", id="note")
        await asyncio.sleep(5)
        await world.node.pause("note")
        await asyncio.sleep(600)
        await world.node.resume("note")
        await world.node.pause("note")
        await world.step(-300, "live")
        await asyncio.sleep(5)
        await world.node.resume("note")
        ran = len(world.runs("note"))
        await asyncio.sleep(10)
        assert len(world.runs("note")) - ran >= 4
        await world.node.stop()

    world.perform(story)


def test_what_a_client_changed_by_a_clock_that_was_ahead_goes_on_when_a_node_starts(world: Steps) -> None:
    async def story() -> None:
        async with world.scheduler(run=False) as client:
            for what in ("updated", "resumed", "asked for"):
                await client.add("note", {"what": what}, every="2s", id=what)
            await client.add("note", {"what": "tried again"}, id="tried again")
            await client.cancel("tried again")
            await client.pause("resumed")
            world.clock.step_wall(HOUR * 10**9)
            await client.amend("updated", every="3s")
            await client.resume("resumed")
            await client.run_now("asked for")
            await client.retry("tried again")
            world.clock.step_wall(-HOUR * 10**9)
            await client.add("note", {"what": "meanwhile"}, delay="1d")
        await world.begin()
        await asyncio.sleep(4.5)
        for what, times in (("updated", 1), ("resumed", 2), ("asked for", 2), ("tried again", 1)):
            assert len(world.runs(what)) in (times, times + 1), what
        await world.node.stop()

    world.perform(story)


def test_a_series_goes_on_though_its_node_stopped_before_it_noticed_that_the_clock_was_set_back(world: Steps) -> None:
    async def story() -> None:
        await world.begin()
        await world.node.add("note", {"what": "note"}, every="2s", id="note")
        await asyncio.sleep(5)
        world.clock.step_wall(-HOUR * 10**9)
        engine: Any = world.node._engine
        await engine._janitor.checkpoint(final=True)  # as the first thing that it does from then on
        await world.die()
        await world.begin()
        ran = len(world.runs("note"))
        await asyncio.sleep(10)
        assert len(world.runs("note")) - ran >= 4
        await world.node.stop()

    world.perform(story)


def test_what_a_step_forward_passed_over_is_skipped_though_its_node_stops_at_once(world: Steps) -> None:
    async def story() -> None:
        await world.begin()
        once = await world.node.add("note", {"what": "once"}, delay=HOUR // 2, late="skip")
        await world.node.add("note", {"what": "series"}, every=HOUR // 2, late="skip")
        await asyncio.sleep(5)
        await world.step(HOUR + 600, "live")
        engine: Any = world.node._engine
        await engine._janitor.checkpoint(final=True)  # as the first thing that it does from then on
        await world.die()
        await world.begin()
        await asyncio.sleep(5)
        assert not world.ran
        assert (await world.node.get(once.id)).reason_code == "skipped"
        await world.node.stop()

    world.perform(story)


def test_what_waits_for_a_worker_is_not_missed_when_the_clock_is_set_forward(world: Steps) -> None:
    async def story() -> None:
        await world.begin()

        @world.node.task("alone", concurrency=1)
        async def alone(what: str) -> None:
            world.ran.append((world.now(), what))
            await asyncio.sleep(90)

        await world.node.add("alone", {"what": "first"})
        await world.node.add("alone", {"what": "second"}, delay=5, late="skip")
        await asyncio.sleep(80)
        await world.step(2, "live")
        await asyncio.sleep(20)
        assert len(world.runs("second")) == 1
        await world.node.stop(0)

    world.perform(story)


@pytest.mark.parametrize("back_s", [0.1, 0.4, 0.9])
def test_what_is_added_after_a_small_correction_back_runs_when_it_is_due(world: Steps, back_s: float) -> None:
    """It is not noticed, and the hand of the wheel stands where the clock was."""

    async def story() -> None:
        await world.begin()
        await world.node.add("note", {"what": "before"}, delay=1)
        await asyncio.sleep(1.02)
        world.clock.step_wall(-int(back_s * 10**9))
        due = [await world.node.add("note", {"what": str(delay)}, delay=delay) for delay in (0.07, 0.2, 0.5)]
        await world.node.add("note", {"what": "series"}, every=0.2)
        await asyncio.sleep(1.1)
        for task in due:
            assert world.runs(task.args["what"]) == [task.run_at]
        assert len(world.runs("series")) == 5
        await world.node.stop()

    world.perform(story)


@pytest.mark.parametrize(("forward_s", "gap_s", "back_s"), [(2, 0.02, 20), (700, 0.01, 50)])
def test_what_is_overdue_goes_on_after_steps_in_quick_succession(
    world: Steps, forward_s: int, gap_s: float, back_s: int
) -> None:
    async def story() -> None:
        await world.begin()

        @world.node.task("alone", concurrency=1)
        async def alone() -> None:
            world.ran.append((round(world.clock.monotonic_ns() / 1e6), "alone"))
            await asyncio.sleep(1)

        await world.node.add_many({"handler": "alone"} for _ in range(100))
        await asyncio.sleep(59)
        for number in range(5):  # so that each step is noticed at once
            await world.node.add("note", {"what": "tick"}, every=0.011 + number * 0.003, id=f"tick-{number}")
        await asyncio.sleep(1)
        for seconds, pause_s in ((2, gap_s), (forward_s, 0.01), (-back_s, 0)):
            world.clock.step_wall(seconds * 10**9)
            await asyncio.sleep(pause_s)
        await asyncio.sleep(0.1)
        for number in range(5):
            await world.node.cancel(f"tick-{number}")
        await asyncio.sleep(10)
        runs = world.runs("alone")
        assert max(after - before for before, after in pairwise(runs)) < 2_000
        assert len(runs) >= 69
        await world.node.stop(0)

    world.perform(story)


@pytest.mark.parametrize("how", STARTS)
def test_a_clock_that_is_set_forward_by_years_makes_no_burst_and_purges_nothing(world: Steps, how: str) -> None:
    async def story() -> None:
        await world.begin()
        await world.node.add("note", {"what": "over"}, id="over")
        await world.node.add("note", {"what": "second"}, every="1s")
        await world.node.add("note", {"what": "all"}, every="1s", late=LatePolicy(mode="run_all", catch_up=3))
        await world.node.add("note", {"what": "skip"}, every="1h", late="skip")
        await world.node.add("note", {"what": "delay"}, delay="1h")
        await world.node.add("note", {"what": "cron"}, cron="0 0 1 1 *")
        await asyncio.sleep(10.4)
        ran = len(world.ran)
        await world.step(3 * YEAR + HOUR // 2, how)
        await asyncio.sleep(5)
        later = [what for _, what in world.ran[ran:]]
        assert later.count("second") in (5, 6)
        assert later.count("all") in range(5, 10)
        assert [later.count(what) for what in ("skip", "delay", "cron")] == [0, 1, 1]
        await asyncio.sleep(65)  # two purges
        assert (await world.node.get("over")).status is Status.COMPLETED
        await world.node.stop()

    world.perform(story)


def test_what_is_old_by_elapsed_time_is_purged_after_a_step() -> None:
    world = World(retention_ms=10_000_000, rescan_ms=30_000)
    world.store = MemoryStore(now_ms=world.now, timed_leases=False)

    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("note", {"what": "a"}, id="a")
        await asyncio.sleep(5_000)
        world.clock.step_wall(YEAR * 10**9)
        await scheduler.add("note", {"what": "b"}, id="b")
        await asyncio.sleep(4_900)
        assert {task.id for task in (await scheduler.list()).tasks} == {"a", "b"}
        await asyncio.sleep(200)
        assert {task.id for task in (await scheduler.list()).tasks} == {"b"}
        await asyncio.sleep(5_000)
        assert not (await scheduler.list()).tasks

    world.play(story)


@pytest.mark.parametrize("pause_s", [0, 70])  # until others start: at once, and after the new clock was noted
@pytest.mark.parametrize("seconds", [2 * HOUR, 10 * YEAR])
@pytest.mark.parametrize("how", FOLLOWS)
def test_what_was_over_before_a_step_is_kept_for_the_retention_by_nodes_that_start_after_it(
    world: Steps, how: str, seconds: int, pause_s: float
) -> None:
    async def story() -> None:
        world.options["retention_ms"] = RETENTION * 1000
        world.clock.step_wall(-seconds * 10**9)  # behind since before it started
        await world.begin()
        await world.node.add("note", {"what": "tick"}, every="10s")
        await world.node.add("note", {"what": "over"}, id="over")
        await asyncio.sleep(100)
        world.clock.step_wall(seconds * 10**9)
        await asyncio.sleep(pause_s)
        await world.follow(how)
        await asyncio.sleep(RETENTION - 110 - pause_s)
        assert await world.is_there("over")
        await asyncio.sleep(300)
        assert not await world.is_there("over")
        await world.node.stop()
        if how == "join":
            await world.first.stop()

    world.perform(story)


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_steps_of_several_nodes_add_up(world: Steps, how: str) -> None:
    async def story() -> None:
        world.options["retention_ms"] = RETENTION * 1000
        await world.begin()
        await world.node.add("note", {"what": "tick"}, every="10s")
        await world.node.add("note", {"what": "over"}, id="over")
        await asyncio.sleep(100)
        world.clock.step_wall(2 * HOUR * 10**9)
        await asyncio.sleep(70)
        for seconds in (YEAR, 3 * HOUR):
            await world.step(seconds, how)
            await asyncio.sleep(70)
        await world.follow(how)
        await asyncio.sleep(RETENTION - 320)
        assert await world.is_there("over")
        await asyncio.sleep(500)
        assert not await world.is_there("over")
        await world.node.stop()

    world.perform(story)


def test_a_step_that_another_node_kept_is_heeded(world: Steps) -> None:
    async def story() -> None:
        world.options["retention_ms"] = RETENTION * 1000
        store: Any = world.store
        await world.begin()
        await world.node.add("note", {"what": "over"}, id="over")
        await asyncio.sleep(RETENTION - 300)
        await store.keep_clock_steps([ClockStep(world.now(), 2 * HOUR * 1000)])
        await asyncio.sleep(RETENTION - 10)
        assert await world.is_there("over")
        await asyncio.sleep(70)
        assert not await world.is_there("over")
        await world.node.stop()

    world.perform(story)


@pytest.mark.parametrize("how", FOLLOWS)
def test_a_step_that_is_undone_delays_no_purge(world: Steps, how: str) -> None:
    async def story() -> None:
        world.options["retention_ms"] = RETENTION * 1000
        store: Any = world.store
        await world.begin()
        await world.node.add("note", {"what": "tick"}, every="10s")
        await world.node.add("note", {"what": "over"}, id="over")
        await asyncio.sleep(100)
        for seconds in (YEAR, -YEAR):
            world.clock.step_wall(seconds * 10**9)
            await asyncio.sleep(70)
        assert await store.clock_steps() == []
        await world.follow(how)
        await asyncio.sleep(RETENTION - 250)
        assert await world.is_there("over")
        await asyncio.sleep(120)
        assert not await world.is_there("over")
        await world.node.stop()
        if how == "join":
            await world.first.stop()

    world.perform(story)


@pytest.mark.parametrize("gap_s", [0, 0.3, 0.6, 5])
@pytest.mark.parametrize("how", ["restart", "crash", "join"])
def test_a_step_back_is_counted_once_by_a_node_that_starts_after_it(world: Steps, how: str, gap_s: float) -> None:
    async def story() -> None:
        world.options["retention_ms"] = RETENTION * 1000
        await world.begin()
        await world.node.add("note", {"what": "tick"}, every="10s")
        await world.node.add("note", {"what": "over"}, id="over")
        await asyncio.sleep(1)
        world.clock.step_wall(HOUR * 10**9)
        await asyncio.sleep(40)
        world.clock.step_wall(-HOUR * 10**9 // 2)
        await asyncio.sleep(gap_s)
        await world.follow(how)
        await asyncio.sleep(RETENTION - 60)
        assert await world.is_there("over")
        await asyncio.sleep(120)
        assert not await world.is_there("over")
        await world.node.stop()
        if how == "join":
            await world.first.stop()

    world.perform(story)


def test_a_step_back_while_nobody_runs_is_kept_as_well(world: Steps) -> None:
    async def story() -> None:
        world.options["retention_ms"] = RETENTION * 1000
        await world.begin()
        await world.node.add("note", {"what": "tick"}, cron="* * * * *")
        world.clock.step_wall(HOUR * 10**9)
        await asyncio.sleep(2 * RETENTION)  # that step is of no account any more
        await world.step(-YEAR, "crash")
        await world.node.add("note", {"what": "over"}, id="over")
        await asyncio.sleep(100)
        await world.step(YEAR, "crash")
        await asyncio.sleep(RETENTION - 110)
        assert await world.is_there("over")
        await asyncio.sleep(300)
        assert not await world.is_there("over")
        await world.node.stop()

    world.perform(story)


def test_restarts_delay_a_purge_by_no_more_than_the_time_that_nobody_ran_tasks(world: Steps) -> None:
    async def story() -> None:
        world.options["retention_ms"] = 2 * RETENTION * 1000 + RETENTION * 500
        for turn in range(8):
            await world.begin()
            await world.node.add("note", {"what": "a"}, id=str(turn))
            await asyncio.sleep(RETENTION - 10)
            there = [each for each in range(turn + 1) if await world.is_there(str(each))]
            assert there == list(range(turn + 1))[-2:]
            await world.node.stop()
            await asyncio.sleep(2 * RETENTION)

    world.perform(story)


def test_many_restarts_keep_few_steps(world: Steps) -> None:
    async def story() -> None:
        store: Any = world.store
        world.options["retention_ms"] = RETENTION * 1000
        await world.begin()
        await world.node.add("note", {"what": "over"}, id="over")
        for _ in range(RETENTION // 10):
            await asyncio.sleep(10)
            await world.node.stop()
            await asyncio.sleep(2)
            await world.begin()
        assert 10 < len(await store.clock_steps()) < 40
        await asyncio.sleep(RETENTION // 3)
        assert not await world.is_there("over")
        await world.node.stop()

    world.perform(story)


def test_steps_are_written_once_and_nothing_while_nothing_happens() -> None:
    class Counting(MemoryStore):
        writes = 0

        async def keep_clock_steps(self, steps: Sequence[ClockStep]) -> None:
            self.writes += 1
            await super().keep_clock_steps(steps)

    world = Steps()
    world.store = store = Counting(now_ms=world.now, timed_leases=False)

    async def story() -> None:
        await world.begin()
        await world.node.add("note", {"what": "tick"}, every="20m")
        for writes in (0, 1, 2):
            await asyncio.sleep(HOUR)
            assert store.writes == writes
            world.clock.step_wall(HOUR * 10**9)
        await world.node.stop()

    world.perform(story)


def test_a_retried_series_goes_on_within_an_interval_of_a_run_now_before_the_step_is_noticed(world: Steps) -> None:
    async def story() -> None:
        await world.begin()
        await world.node.add("note", {"what": "a"}, every="10s", times=1, id="a")
        await asyncio.sleep(11)
        await world.node.stop()
        async with world.scheduler(run=False) as client:
            assert (await client.retry("a")).status is Status.PENDING
            world.clock.step_wall(-HOUR * 10**9)
            asked = world.now()
            await client.run_now("a")
            await client.amend("a", times=-1)
        await world.begin()
        await asyncio.sleep(25)
        runs = world.runs("a")[1:]  # without the first, by a clock that was ahead
        assert len(runs) in (3, 4)
        assert all(later - earlier <= 10_000 for earlier, later in pairwise([asked, *runs]))
        await world.node.stop()

    world.perform(story)
