"""The engine on a real store, in real time: what virtual time cannot show, and what has to be alike on each."""

import asyncio
import threading

from tickwheel import aio
from tickwheel.scheduler import AsyncScheduler, Scheduler
from tickwheel.tasks import RunStatus, Status

__all__ = ["OnAStore"]


class OnAStore:
    """Tests for every store that processes can share; a subclass brings the fixture `url`."""

    def test_plain_functions_run_on_threads_and_their_results_are_kept(self, url: str) -> None:
        scheduler = Scheduler(url)
        ran = threading.Event()

        @scheduler.task("add")
        def add(left: int, right: int) -> int:
            ran.set()
            return left + right

        with scheduler:
            task = scheduler.add("add", {"left": 3, "right": 4})
            assert ran.wait(60)
        with Scheduler(url, run=False) as other:
            kept = other.get(task.id)
            assert (kept.status, kept.result) == (Status.COMPLETED, 7)
            assert [run.status for run in other.history(task.id)] == [RunStatus.COMPLETED]

    def test_tasks_wait_in_the_store_for_a_process_that_runs_them(self, url: str) -> None:
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
            return str(scheduler.startup_report)

        report = aio.run(main())
        assert ran == ["later"]
        assert "1 tasks overdue" in report

    def test_a_task_added_by_another_process_is_noticed(self, url: str) -> None:
        ran = threading.Event()
        runner = Scheduler(url)
        runner.task("note")(ran.set)
        with runner, Scheduler(url, run=False) as adder:
            adder.add("note")
            assert ran.wait(60)

    def test_two_schedulers_on_one_store_never_run_a_task_at_the_same_time(self, url: str) -> None:
        ran: list[str] = []

        async def main() -> None:
            schedulers = [AsyncScheduler(url) for _ in range(2)]
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

    def test_a_hundred_threads_add_and_every_task_runs_once(self, url: str) -> None:
        scheduler = Scheduler(url)
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
