"""A handler may say when to try again, and that there is no use in it."""

import asyncio

import pytest

from tests.scheduler.worlds import World
from tickwheel.errors import GiveUp, TryLater
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
            raise TryLater("it is closed", wait_ms=90_000)

        await scheduler.add("later", id="a")
        await asyncio.sleep(3600)
        task = await scheduler.get("a")
        assert (task.status, task.failures) == (Status.FAILED, 3)
        assert "it is closed; it can be tried again in 90 s" in (task.error or "")

    world.play(story)
    assert [later - begun[0] for later in begun] == [0, 90_000, 180_000]


def test_a_run_that_gives_up_ends_its_task_with_all_that_was_to_come(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("gone", retries=5)
        async def gone() -> None:
            raise GiveUp("nobody lives here")

        await scheduler.add("gone", id="a", every=60)
        await asyncio.sleep(3600)
        task = await scheduler.get("a")
        assert (task.status, task.attempt, task.runs) == (Status.FAILED, 1, 1)
        assert [run.status for run in await scheduler.history("a")] == [Status.FAILED]

    world.play(story)
    assert world.kinds("a") == ["added", "started", "failed"]
