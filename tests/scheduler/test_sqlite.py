"""The engine on a real file, in real time: what virtual time cannot show."""

import asyncio
import threading
from pathlib import Path

import pytest

from tickwheel import aio
from tickwheel.errors import StoreUnavailable, UnnamedHandler
from tickwheel.scheduler import AsyncScheduler, Scheduler
from tickwheel.tasks import Status


def test_plain_functions_run_on_threads_and_their_results_are_kept(tmp_path: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/tasks.db")
    ran = threading.Event()

    @scheduler.task("add")
    def add(left: int, right: int) -> int:
        ran.set()
        return left + right

    with scheduler:
        task = scheduler.add("add", {"left": 3, "right": 4})
        assert ran.wait(10)
    with Scheduler(f"sqlite:///{tmp_path}/tasks.db", run=False) as other:
        kept = other.get(task.id)
        assert (kept.status, kept.result) == (Status.COMPLETED, 7)
        assert [run.status for run in other.history(task.id)] == [Status.COMPLETED]


def test_tasks_wait_in_the_file_for_a_process_that_runs_them(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    with Scheduler(url, run=False) as adder:
        adder.add("note", {"what": "later"}, id="a")
    ran: list[str] = []

    async def main() -> str:
        scheduler = AsyncScheduler(url)
        done = asyncio.Event()

        @scheduler.task("note")
        async def note(what: str) -> None:
            ran.append(what)
            done.set()

        async with scheduler:
            await asyncio.wait_for(done.wait(), 10)
        return str(scheduler.recovery)

    report = aio.run(main())
    assert ran == ["later"]
    assert "1 tasks overdue" in report


def test_a_task_added_by_another_process_is_noticed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    ran = threading.Event()
    runner = Scheduler(url)
    runner.task("note")(ran.set)
    with runner, Scheduler(url, run=False) as adder:
        adder.add("note")
        assert ran.wait(10)


def test_two_schedulers_on_one_file_never_run_a_task_at_the_same_time(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    ran: list[str] = []

    async def main() -> None:
        schedulers = [AsyncScheduler(url, lease_ttl_ms=600) for _ in range(2)]
        for scheduler in schedulers:

            @scheduler.task("note")
            async def note(what: str) -> None:
                ran.append(what)

        async with schedulers[0], schedulers[1] as second:
            for number in range(200):
                await second.add("note", {"what": str(number)}, delay=0.01 * (number % 20))
            while len(ran) < 200:  # noqa: ASYNC110 - two schedulers, one count
                await asyncio.sleep(0.01)

    aio.run(main())
    assert sorted(ran, key=int) == [str(number) for number in range(200)]


def test_a_hundred_threads_add_and_every_task_runs_once(tmp_path: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/tasks.db")
    ran: list[int] = []

    @scheduler.task("note")
    async def note(number: int) -> None:
        ran.append(number)

    with scheduler:

        def add(thread: int) -> None:
            scheduler.add_many(
                {"handler": "note", "args": {"number": thread * 10 + number}, "delay": number / 10}
                for number in range(10)
            )

        threads = [threading.Thread(target=add, args=(number,)) for number in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for _ in range(1000):
            if scheduler.counts()[Status.COMPLETED] == 1000:
                break
            threading.Event().wait(0.02)
    assert sorted(ran) == list(range(1000))


def test_what_cannot_be_found_again_is_refused(tmp_path: Path) -> None:
    with Scheduler(f"sqlite:///{tmp_path}/tasks.db") as scheduler, pytest.raises(UnnamedHandler):
        scheduler.add(lambda: None)


def test_in_memory_any_callable_will_do() -> None:
    ran = threading.Event()

    def closure() -> None:
        ran.set()

    with Scheduler("memory://") as scheduler:
        scheduler.add(closure)
        assert ran.wait(10)


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        Scheduler(f"sqlite:///{tmp_path}/nowhere/tasks.db").start()
