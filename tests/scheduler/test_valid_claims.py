"""A handler begins only under a valid claim, and its start is the moment its first line runs."""

import asyncio
import os
from datetime import UTC, datetime
from threading import Event as Flag
from typing import Any

import pytest
from msgspec.structs import replace

from tests.scheduler.worlds import World
from tickwheel import VirtualClock, aio
from tickwheel.scheduler import AsyncScheduler
from tickwheel.stores.contract import Finish
from tickwheel.tasks import Status


class SleepyClock(VirtualClock):
    """A virtual clock on a machine that can be suspended: its monotonic clock stands still meanwhile."""

    __slots__ = ("_suspended_ns",)

    def __init__(self) -> None:
        super().__init__()
        self._suspended_ns = 0

    def boottime_ns(self) -> int:
        return self.monotonic_ns() + self._suspended_ns

    def suspend(self, seconds: int) -> None:
        self._suspended_ns += seconds * 10**9


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def sleepy() -> World:
    world = World(lease_ttl_ms=3_000)
    world.clock = SleepyClock()
    return world


async def add_claimed(world: World, scheduler: AsyncScheduler, task_id: str) -> None:
    """Add a task, and wait until it is claimed and not due."""
    await scheduler.add("note", {"what": task_id}, delay=0.5, id=task_id)
    await asyncio.sleep(0.49)
    [task] = await world.store.get([task_id])
    assert task is not None
    assert task.status is Status.RUNNING, "it is not claimed yet"
    assert world.ran == []


def test_after_a_suspension_nothing_begins_before_the_lease_is_renewed(sleepy: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await add_claimed(sleepy, scheduler, "a")
        assert isinstance(sleepy.clock, SleepyClock)
        sleepy.clock.suspend(10)
        await asyncio.sleep(0.1)
        assert sleepy.ran == [], "its lease may have run out"
        await asyncio.sleep(3)
        assert [what for _, what in sleepy.ran] == ["a"]

    sleepy.play(story)


def test_what_another_node_ran_during_a_suspension_does_not_begin_under_the_old_claim(sleepy: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await add_claimed(sleepy, scheduler, "a")
        assert isinstance(sleepy.clock, SleepyClock)
        sleepy.clock.suspend(10)
        store: Any = sleepy.store
        store._leases.clear()  # they have run out by the store's clock, and another node has its turn
        leases = await store.acquire(range(store.partitions), "other", 1000)
        [orphan] = await store.orphans(leases, 10)
        finish = Finish(lease=leases[orphan.partition], task=replace(orphan, status=Status.PENDING))
        assert await store.finish([finish]) == [True]
        [claimed] = await store.claim(leases, ["a"], sleepy.now() + 50)
        done = replace(claimed, status=Status.COMPLETED, result="by another")
        assert await store.finish([replace(finish, task=done)]) == [True]
        await store.release(leases)
        await asyncio.sleep(5)
        assert sleepy.ran == []
        task = await scheduler.get("a")
        assert (task.status, task.result) == (Status.COMPLETED, "by another")

    sleepy.play(story)


def test_a_claim_of_a_lease_that_was_lost_and_taken_again_is_released_and_runs_once(sleepy: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await add_claimed(sleepy, scheduler, "a")
        assert isinstance(sleepy.clock, SleepyClock)
        sleepy.clock.suspend(10)
        sleepy.store._leases.clear()  # type: ignore[attr-defined] # they have run out, and nobody took them
        await asyncio.sleep(5)
        assert [what for _, what in sleepy.ran] == ["a"]
        assert (await scheduler.get("a")).status is Status.COMPLETED
        assert len(await scheduler.history("a")) == 1

    sleepy.play(story)


def test_what_was_claimed_for_a_worker_that_does_not_become_free_is_released(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("one", concurrency=1)
        async def one(number: int) -> None:
            world.ran.append((world.now(), str(number)))
            await asyncio.sleep(0.001 if number < 300 else 3600)

        await scheduler.add_many({"handler": "one", "args": {"number": number}} for number in range(600))
        while len(world.ran) < 301:  # noqa: ASYNC110 - virtual seconds
            await asyncio.sleep(0.01)
        assert (await scheduler.counts())[Status.RUNNING] > 1, "by the rate so far, more could begin"
        await asyncio.sleep(1)
        assert (await scheduler.counts())[Status.RUNNING] == 1
        [waiting] = [task for task in (await scheduler.list(limit=600)).tasks if task.args["number"] == 301]
        assert (waiting.status, waiting.failures, await scheduler.history(waiting.id)) == (Status.PENDING, 0, [])

    world.play(story, grace_s=0)


def test_a_run_starts_when_its_first_line_runs(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("blocks")
        async def blocks(seconds: float) -> None:
            world.ran.append((world.now(), ""))
            world.clock.advance(seconds)  # it does not let others on the loop

        for number in range(2):
            await scheduler.add("blocks", {"seconds": 3}, delay=1, id=str(number), priority=-number)
        await asyncio.sleep(2)
        [first], [second] = [await scheduler.history(str(number)) for number in range(2)]
        assert first.late_ms == 0
        assert second.late_ms == 3000
        assert [event.late_ms for event in world.events if event.kind == "started"] == [0, 3000]

    world.play(story)


def test_the_wait_for_a_thread_is_part_of_the_lateness(world: World) -> None:
    begun, end = Flag(), Flag()

    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("first")
        def first() -> None:
            begun.set()
            end.wait()

        @scheduler.task("second")
        def second() -> None: ...

        await scheduler.add("first")
        await asyncio.sleep(1)
        assert begun.wait(60)  # no virtual time passes meanwhile
        await scheduler.add("second", id="second")
        await asyncio.sleep(3)
        end.set()
        while (await scheduler.get("second")).status is not Status.COMPLETED:  # noqa: ASYNC110 - virtual seconds
            await asyncio.sleep(0.01)
        [run] = await scheduler.history("second")
        [told] = [event.late_ms for event in world.events if (event.kind, event.task_id) == ("started", "second")]
        assert run.late_ms >= 3000
        assert told is not None
        assert told >= 3000

    world.play(story, threads=1)


def test_a_task_that_expires_while_it_waits_for_its_turn_does_not_run(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("blocks")
        async def blocks() -> None:
            world.ran.append((world.now(), ""))
            world.clock.advance(3)

        await scheduler.add("blocks", delay=1, priority=1)
        await scheduler.add("blocks", delay=1, id="b", expires_at=datetime.fromtimestamp(world.now() / 1000 + 2, UTC))
        await asyncio.sleep(2)
        task = await scheduler.get("b")
        assert (task.status, len(world.ran)) == (Status.CANCELLED, 1)
        assert task.reason is not None
        assert "expired" in task.reason

    world.play(story)
    assert world.kinds("b") == ["added", "cancelled"]


def test_a_run_has_its_whole_timeout_from_its_first_line(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("blocks")
        async def blocks() -> None:
            world.clock.advance(3)

        @scheduler.task("waits", timeout=4)
        async def waits() -> None:
            await asyncio.sleep(3)

        await scheduler.add("blocks", delay=1, priority=1)
        await scheduler.add("waits", delay=1, id="waits")
        await asyncio.sleep(10)
        assert (await scheduler.get("waits")).status is Status.COMPLETED

    world.play(story)


def test_the_start_of_a_process_is_part_of_its_lateness() -> None:
    async def story() -> None:
        async with AsyncScheduler("memory://", processes=1) as scheduler:
            started: list[int] = []
            scheduler.events.listen(lambda event: started.append(event.late_ms or 0) if event.late_ms else None)
            scheduler.task("pid", pool="process")(report_pid)
            task = await scheduler.add("pid")
            while (await scheduler.get(task.id)).status is not Status.COMPLETED:  # noqa: ASYNC110 - it has a process to start
                await asyncio.sleep(0.01)
            [run] = await scheduler.history(task.id)
            assert run.late_ms > 20, "an interpreter cannot be there so soon"
            assert started == [run.late_ms]

    aio.run(story())


def report_pid() -> int:
    return os.getpid()
