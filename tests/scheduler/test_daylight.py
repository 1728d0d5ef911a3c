"""Cron tasks in the nights in which clocks are changed: the engine runs what a preview promises, and nothing else."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.scheduler.still import StillStore
from tests.scheduler.worlds import World
from tickwheel import VirtualClock
from tickwheel.scheduler import AsyncScheduler
from tickwheel.tasks import Cron, preview

HOURS = 24

# Fixed times before, in and after the hour that is left out or comes twice, and rhythms.
EXPRESSIONS = ["30 1 * * *", "45 1 * * *", "15 2 * * *", "30 2 * * *", "0 3 * * *", "30 * * * *", "*/20 * * * *"]

NIGHTS = [
    ("Europe/Berlin", "2026-03-29", "forward"),
    ("Europe/Berlin", "2026-10-25", "back"),
    ("America/New_York", "2026-03-08", "forward"),
    ("America/New_York", "2026-11-01", "back"),
    ("Australia/Lord_Howe", "2026-10-04", "forward"),  # by half an hour
    ("Australia/Lord_Howe", "2026-04-05", "back"),
]


@pytest.fixture(params=["memory", "sqlite"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    world = World()
    if request.param == "memory":
        yield world
        return
    still: Any = StillStore(tmp_path / "tasks.db", world.now)
    world.store = still
    yield world
    still.end()


@pytest.mark.parametrize(("tz", "day", "change"), NIGHTS)
def test_what_a_preview_promises_runs(world: World, tz: str, day: str, change: str) -> None:
    noon = datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=ZoneInfo(tz))
    eve = noon - timedelta(days=1)
    assert (noon.utcoffset() > eve.utcoffset()) == (change == "forward")  # type: ignore[operator] # a zone has one
    world.clock = VirtualClock(wall_ns=int(eve.timestamp()) * 10**9)
    begin = world.now()

    async def story(scheduler: AsyncScheduler) -> None:
        for expression in EXPRESSIONS:
            await scheduler.add("note", {"what": expression}, cron=expression, tz=tz)
        await asyncio.sleep(HOURS * 3600 + 1)

    world.play(story)
    end = begin + HOURS * 3_600_000
    for expression in EXPRESSIONS:
        promised = [each.at_ms for each in preview(Cron(expression, tz), begin, 200) if each.at_ms <= end]
        assert [at for at, what in world.ran if what == expression] == promised, expression
    assert len(world.ran) > HOURS * 4
