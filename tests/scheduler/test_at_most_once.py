"""A task that may run at most once is claimed for a worker that is free, when it is due and not before."""

import asyncio
import signal
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.scheduler.programs import start_program
from tests.scheduler.worlds import World
from tickwheel import Scheduler
from tickwheel.scheduler import AsyncScheduler
from tickwheel.tasks import Status

TASKS = 1_000
DIES_AT = 40
BACKLOG = 800
SLOTS = {"thread": 8, "loop": 16}

PROGRAM = """
import os, signal, sys
from itertools import count
from tickwheel import Scheduler

numbers = count(1)
log = os.open("begun", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
scheduler = Scheduler("sqlite:///tasks.db", lease_ttl_ms=600, rescan_ms=300)

{prefix}def work(name):
    os.write(log, (name + "\\n").encode())
    if {dies} and next(numbers) >= {dies_at}:
        os.kill(os.getpid(), signal.SIGKILL)

scheduler.task("work")(work)
if {dies}:
    scheduler.start()
    once = {{"handler": "work", "at_most_once": True, "delay": 0.5}}
    scheduler.add_many({{**once, "args": {{"name": str(n)}}, "id": str(n)}} for n in range({tasks}))
    scheduler.run_forever()
else:
    import time
    with scheduler:
        while any(scheduler.counts()[status] for status in ("pending", "running")):
            time.sleep(0.05)
        tasks = [scheduler.get(str(n)) for n in range({tasks})]
        print(*(task.id + ":" + task.status for task in tasks))
"""


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["thread", "loop"])
def test_of_a_thousand_killed_when_forty_had_begun_the_others_run(pool: str, tmp_path: Path) -> None:
    prefix = "async " if pool == "loop" else ""
    text = PROGRAM.format(prefix=prefix, dies=True, dies_at=DIES_AT, tasks=TASKS)
    with start_program(tmp_path, text) as first:
        assert first.wait(60) == -signal.SIGKILL, first.communicate()
    begun = set((tmp_path / "begun").read_text().split())
    assert len(begun) >= DIES_AT
    with start_program(tmp_path, PROGRAM.format(prefix=prefix, dies=False, dies_at=0, tasks=TASKS)) as second:
        out, err = second.communicate(timeout=60)
    assert second.returncode == 0, err
    ended = dict(each.split(":") for each in out.split())
    runs = Counter((tmp_path / "begun").read_text().split())
    assert max(runs.values()) == 1, "none may run twice"
    failed = {task_id for task_id, status in ended.items() if status == "failed"}
    assert len(ended) == TASKS
    assert set(runs) | failed == set(ended), "what was not claimed runs"
    assert len(failed - set(runs)) <= SLOTS[pool], "one for each worker that was reserved"


def test_it_is_not_claimed_before_it_is_due() -> None:
    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("note", {"what": "once"}, delay=1, id="once", at_most_once=True)
        await scheduler.add("note", {"what": "usual"}, delay=1, id="usual")
        await asyncio.sleep(0.99)
        stored = [task.status for task in await world.store.get(["usual", "once"]) if task is not None]
        assert stored == [Status.RUNNING, Status.PENDING], "only the usual one is claimed ahead"
        await asyncio.sleep(0.02)
        assert sorted(what for _, what in world.ran) == ["once", "usual"]
        assert {moment for moment, _ in world.ran} == {world.now() - 10}

    world.play(story)


def test_nor_is_a_series_that_may_run_at_most_once_since_its_last_run() -> None:
    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        async def work() -> None:
            await asyncio.sleep(0.2)

        scheduler.task("tend")(work)
        first = await scheduler.add("tend", id="series", every="1s")
        await asyncio.sleep(1.1)  # it runs
        at = datetime.fromtimestamp(first.run_at / 1000 + 1, UTC)
        await scheduler.add("tend", id="series", every="1s", at=at, at_most_once=True, on_conflict="replace")
        await asyncio.sleep(0.89)
        [stored] = await world.store.get(["series"])
        assert stored is not None
        assert (stored.run_at, stored.at_most_once, stored.status) == (first.run_at + 1000, True, Status.PENDING)
        await asyncio.sleep(0.02)
        [stored] = await world.store.get(["series"])
        assert stored is not None
        assert stored.status is Status.RUNNING

    world.play(story)


def test_what_can_be_claimed_ahead_is_not_held_up_by_it() -> None:
    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add_many(
            {"handler": "note", "args": {"what": f"{number}"}, "at_most_once": number % 2 == 0, "delay": 1}
            for number in range(200)
        )
        await asyncio.sleep(2)
        assert len(world.ran) == 200

    world.play(story)


@pytest.mark.parametrize("concurrency", [None, 2])
def test_one_of_high_priority_begins_before_a_backlog_of_low_priority(concurrency: int | None) -> None:
    began: list[str] = []
    over = threading.Event()
    with Scheduler("memory://", threads=4) as scheduler:

        @scheduler.task("work", concurrency=concurrency)
        def work(what: str) -> None:
            began.append(what)
            if what == "once":
                over.set()
            time.sleep(0.01)

        scheduler.add_many({"handler": "work", "args": {"what": "low"}, "priority": -10} for _ in range(BACKLOG))
        while not began:
            time.sleep(0.001)
        scheduler.add("work", {"what": "once"}, priority=1000, at_most_once=True)
        assert over.wait(60)
    assert began.index("once") < BACKLOG / 2
