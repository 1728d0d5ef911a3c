"""Every call of the store fails once, before and after it took effect: nothing is lost and nothing is early."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.scheduler.flaky import FlakyStore
from tests.scheduler.worlds import World
from tickwheel.errors import StoreError
from tickwheel.scheduler import AsyncScheduler
from tickwheel.tasks import Status

TASKS = {"once": {"delay": 30}, "soon": {}, "thrice": {"every": 20, "times": 3}}
EXPECTED = {"once": 1, "soon": 1, "thrice": 3}


def live(fail_at: int, *, after: bool) -> tuple[World, FlakyStore, dict[str, Status]]:
    world = World(lease_ttl_ms=3_000, rescan_ms=5_000, horizon_ms=15_000)
    flaky: Any = FlakyStore(world.store, fail_at, after=after)
    world.store = flaky

    async def add(scheduler: AsyncScheduler) -> None:
        for name, wishes in TASKS.items():
            while True:  # as a caller does who was not told that it worked
                try:
                    wanted: Any = wishes
                    await scheduler.add("note", {"what": name}, id=name, on_conflict="keep", **wanted)
                    break
                except StoreError:
                    await asyncio.sleep(0.1)

    async def story(scheduler: AsyncScheduler) -> dict[str, Status]:
        await add(scheduler)
        await asyncio.sleep(120)
        while True:
            try:
                return {name: (await scheduler.get(name)).status for name in TASKS}
            except StoreError:
                await asyncio.sleep(0.1)

    while True:
        try:
            return world, flaky, world.play(story)
        except StoreError:
            world.clock.advance(1)  # it could not start, or stop: as a supervisor does, try again


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_whichever_call_fails_every_task_runs(after: bool) -> None:
    _, calm, _ = live(0, after=after)
    failed: Counter[str] = Counter()
    for fail_at in range(1, min(calm.calls, 80)):
        world, flaky, statuses = live(fail_at, after=after)
        failed[flaky.failed or ""] += 1
        assert set(statuses.values()) == {Status.COMPLETED}, (fail_at, flaky.failed, statuses)
        ran = Counter(what for _, what in world.ran)
        for name, times in EXPECTED.items():
            again = 1 if after and flaky.failed in ("claim", "finish") else 0
            assert times <= ran[name] <= times + again, (fail_at, flaky.failed, ran)
        early = [event for event in world.events if event.late_ms is not None and event.late_ms < 0]
        assert early == []
    assert {"add", "claim", "finish", "due", "renew", "acquire", "orphans"} <= set(failed)
