"""If the system has no thread or process left, tasks wait until it has: they have not begun, and do not fail."""

import asyncio
import logging
from itertools import pairwise
from multiprocessing.context import SpawnProcess
from threading import Thread
from typing import Any

import pytest

from tests.workers import functions
from tickwheel.scheduler import AsyncScheduler
from tickwheel.tasks import Status, Task

PATIENCE_S = 60


class Shortage:
    """Lets the start of threads or processes fail until it is over."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: Any, error: Exception) -> None:
        self.refused = asyncio.Event()
        self.over = False
        start, loop, shortage = kind.start, asyncio.get_running_loop(), self

        def refuse(self: Any) -> None:
            if shortage.over or not self.name.startswith("tickwheel-worker"):
                start(self)
            else:
                loop.call_soon_threadsafe(shortage.refused.set)
                raise error

        monkeypatch.setattr(kind, "start", refuse)


async def ended(scheduler: AsyncScheduler, task_id: str) -> Task:
    """Wait for the end of a task."""
    async with asyncio.timeout(PATIENCE_S):
        while (task := await scheduler.get(task_id)).finished_at is None:  # noqa: ASYNC110 - by another thread
            await asyncio.sleep(0.02)
    return task


@pytest.mark.parametrize(
    ("pool", "kind", "error"),
    [
        ("thread", Thread, RuntimeError("can't start new thread")),
        ("process", SpawnProcess, OSError(24, "Too many open files")),
    ],
)
@pytest.mark.parametrize("at_most_once", [False, True])
def test_a_task_waits_for_a_worker_that_cannot_be_started(
    pool: Any,
    kind: Any,
    error: Exception,
    at_most_once: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        scheduler = AsyncScheduler("memory://", threads=1, processes=1)
        scheduler.task("double", pool=pool)(functions.double)
        async with scheduler:
            shortage = Shortage(monkeypatch, kind, error)
            await scheduler.add("double", {"number": 4}, id="a", at_most_once=at_most_once)
            async with asyncio.timeout(PATIENCE_S):
                await shortage.refused.wait()
                while (waits := await scheduler.get("a")).status is not Status.PENDING:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert waits.reason_code == "no_capacity"
            assert str(error.args[-1]) in str(waits.reason)
            assert (waits.failures, waits.crashes, waits.last_run) == (0, 0, None)
            shortage.over = True
            task = await ended(scheduler, "a")
            assert (task.status, task.result) == (Status.COMPLETED, 8)
            assert len(await scheduler.history("a")) == 1

    with caplog.at_level(logging.WARNING, "tickwheel.workers"):
        asyncio.run(main())
    assert [record.getMessage().startswith("no worker could be started") for record in caplog.records] == [True]


def test_one_thread_runs_everything_by_priority_if_no_other_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []

    async def main() -> None:
        scheduler = AsyncScheduler("memory://", threads=4)

        @scheduler.task("note")
        def note(number: int) -> None:
            ran.append(number)

        async with scheduler:
            await scheduler.add("note", {"number": -1}, id="first")
            await ended(scheduler, "first")
            Shortage(monkeypatch, Thread, RuntimeError("can't start new thread"))
            tasks = await scheduler.add_many(
                {"handler": "note", "args": {"number": number}, "id": str(number), "priority": -number, "delay": 0.5}
                for number in range(200)
            )
            for task in tasks:
                await ended(scheduler, task.id)

    asyncio.run(main())
    assert sorted(ran) == list(range(-1, 200))
    overtaken = sum(before > number for before, number in pairwise(ran))
    assert overtaken <= 20, "those that were given to threads which could not be started, and few others"
