"""A handler may say when to try again, and that there is no use in it."""

import asyncio
from typing import Any

import pytest

from tests.scheduler.worlds import World
from tickwheel.errors import Fail, RetryAfter, Snooze
from tickwheel.scheduler import AsyncScheduler
from tickwheel.tasks import Status


@pytest.fixture
def world() -> World:
    return World()


def test_a_run_that_asks_for_a_time_is_tried_again_then_and_counted(world: World) -> None:
    begun: list[int] = []

    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("later", retries=2)
        async def later() -> None:
            begun.append(world.now())
            raise RetryAfter("90s", "it is closed")

        await scheduler.add("later", id="a")
        await asyncio.sleep(3600)
        task = await scheduler.get("a")
        assert (task.status, task.failures) == (Status.FAILED, 3)
        assert "it is closed; retry after '90s'" in (task.error or "")

    world.play(story)
    assert [later - begun[0] for later in begun] == [0, 90_000, 180_000]


def test_a_run_that_fails_for_good_is_not_retried_and_its_series_goes_on(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("gone", retries=5)
        async def gone() -> None:
            raise Fail("nobody lives here")

        await scheduler.add("gone", id="once")
        await scheduler.add("gone", id="series", every=60)
        await asyncio.sleep(150)
        once, series = await scheduler.get("once"), await scheduler.get("series")
        assert (once.status, once.attempt) == (Status.FAILED, 1)
        assert "nobody lives here" in (once.error or "")
        assert (series.status, series.runs, series.consecutive_failures) == (Status.PENDING, 2, 2)
        assert series.last_run is not None
        assert series.last_run.status == "failed"

    world.play(story)
    assert world.kinds("once") == ["added", "started", "failed"]


def test_a_snooze_runs_again_later_and_is_no_failure(world: World) -> None:
    begun: list[int] = []

    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("later")
        async def later() -> str:
            begun.append(world.now())
            if len(begun) <= 2:
                raise Snooze("90s")
            return "done"

        await scheduler.add("later", id="a")
        await asyncio.sleep(100)
        task = await scheduler.get("a")
        assert (task.listed_status, task.failures, task.snoozes) == (Status.PENDING, 0, 2)
        assert task.reason_code == "waiting_for_retry"
        assert "snoozed for 90 s" in (task.reason or "")
        await asyncio.sleep(3600)
        assert (await scheduler.get("a")).result == "done"
        assert [run.status.value for run in await scheduler.history("a")] == ["completed", "snoozed", "snoozed"]

    world.play(story)
    assert [later - begun[0] for later in begun] == [0, 90_000, 180_000]


@pytest.mark.parametrize("kind", [Snooze, RetryAfter])
def test_a_task_that_runs_at_most_once_fails_instead_of_running_later(world: World, kind: Any) -> None:
    begun: list[int] = []

    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("later")
        async def later() -> None:
            begun.append(world.now())
            raise kind("1s")

        await scheduler.add("later", id="a", at_most_once=True)
        await asyncio.sleep(3600)
        assert (await scheduler.get("a")).status is Status.FAILED
        await scheduler.retry("a")
        await asyncio.sleep(3600)
        assert (await scheduler.get("a")).status is Status.FAILED

    world.play(story)
    assert len(begun) == 2, "once, and once more by hand"
