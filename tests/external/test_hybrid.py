"""Near tasks on the wheel, far ones looked after by a real APScheduler on an SQLite file."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.schedulers.background import BackgroundScheduler

from tickwheel import aio
from tickwheel.errors import DuplicateTask, FarSchedulerUnfit, InvalidSchedule, InvalidTask
from tickwheel.external import HybridScheduler
from tickwheel.external.apscheduler import APSchedulerFar, call_back, get_scheduler
from tickwheel.scheduler import AsyncScheduler
from tickwheel.tasks import Status

THRESHOLD = "0.5s"


class Place:
    """A folder with tickwheel's file and APScheduler's, and what ran."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/tasks.db"
        self.jobs_url = f"sqlite:///{folder}/jobs.db"
        self.ran: list[str] = []

    @asynccontextmanager
    async def open(
        self, kind: type[Any] = BackgroundScheduler, **options: Any
    ) -> AsyncIterator[tuple[HybridScheduler, Any]]:
        near = AsyncScheduler(self.url)

        @near.task("note")
        async def note(what: str) -> None:
            self.ran.append(what)

        jobs = kind(jobstores={"default": SQLAlchemyJobStore(self.jobs_url)})
        far = APSchedulerFar(jobs, self.url, again="1s")
        jobs.start()
        try:
            async with HybridScheduler(near, far, **{"threshold": THRESHOLD, "sweep_every": "1h", **options}) as hybrid:
                yield hybrid, jobs
        finally:
            jobs.shutdown()
            get_scheduler(self.url).stop()

    async def until_ran(self, *what: str) -> None:
        async with asyncio.timeout(60):
            while sorted(self.ran) != sorted(what):  # noqa: ASYNC110 - two schedulers, one list
                await asyncio.sleep(0.01)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("kind", [BackgroundScheduler, AsyncIOScheduler])
def test_a_far_task_is_paused_until_apscheduler_calls_and_then_runs_in_time(place: Place, kind: type[Any]) -> None:
    async def main() -> None:
        async with place.open(kind) as (hybrid, jobs):
            task = await hybrid.add("note", {"what": "far"}, delay="1s", id="a", tags=["vip"])
            assert (task.listed_status, task.tags) == (Status.PAUSED, ["vip", "far"])
            assert [job.name for job in jobs.get_jobs()] == ["tickwheel: a"]
            near = await hybrid.add("note", {"what": "near"}, delay="0.1s")
            assert near.status is Status.PENDING
            assert len(jobs.get_jobs()) == 1
            await place.until_ran("near", "far")
            done = await hybrid.near.get("a")
            assert done.started_at is not None
            assert done.started_at >= task.run_at
            async with asyncio.timeout(60):
                while jobs.get_jobs():  # noqa: ASYNC110 - it forgets when it is told
                    await asyncio.sleep(0.01)

    aio.run(main())


def test_what_is_far_and_what_is_near_is_decided_by_the_threshold(place: Place) -> None:
    async def main() -> None:
        async with place.open(threshold="7d") as (hybrid, jobs):
            near: list[dict[str, Any]] = [{"delay": "6d"}, {"every": "30d"}, {"cron": "0 0 1 1 *"}]
            for wish in [*near, {"delay": "30d", "every": "1d"}]:
                assert (await hybrid.add("note", {"what": "x"}, **wish)).status is Status.PENDING
            far: list[dict[str, Any]] = [{"delay": "8d"}, {"at": datetime(2099, 1, 1, tzinfo=UTC)}]
            for wish in far:
                assert (await hybrid.add("note", {"what": "x"}, **wish)).listed_status is Status.PAUSED
            assert len(jobs.get_jobs()) == 2

    aio.run(main())


def test_a_far_task_is_cancelled_on_both_sides(place: Place) -> None:
    async def main() -> None:
        async with place.open() as (hybrid, jobs):
            await hybrid.add("note", {"what": "never"}, delay="1s", id="a")
            assert (await hybrid.cancel("a", "paid")).status is Status.CANCELLED
            assert jobs.get_jobs() == []
            await hybrid.far.schedule("a", 0)  # a call that was under way
            await hybrid.far.schedule("b", 0)  # and one for a task that is nowhere any more
            async with asyncio.timeout(60):
                while jobs.get_jobs():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert (await hybrid.near.get("a")).reason == "paid"
            assert place.ran == []

    aio.run(main())


def test_a_far_task_is_moved_and_comes_near_if_it_has_to(place: Place) -> None:
    async def main() -> None:
        async with place.open() as (hybrid, jobs):
            await hybrid.add("note", {"what": "a"}, delay="1d", id="a")
            moved = await hybrid.reschedule("a", delay="2d")
            [job] = jobs.get_jobs()
            assert moved.listed_status is Status.PAUSED
            assert job.next_run_time.timestamp() * 1000 == pytest.approx(moved.run_at - 500, abs=1)
            near = await hybrid.reschedule("a", delay="0.2s")
            assert (near.status, jobs.get_jobs()) == (Status.PENDING, [])
            await place.until_ran("a")
            await hybrid.add("note", {"what": "b"}, delay="0.4s", id="b")
            assert (await hybrid.reschedule("b", delay="0.1s")).status is Status.PENDING
            await place.until_ran("a", "b")

    aio.run(main())


def test_a_far_task_that_is_paused_does_not_run_and_runs_when_it_is_resumed(place: Place) -> None:
    async def main() -> None:
        async with place.open(sweep_every="0.1s") as (hybrid, jobs):
            task = await hybrid.add("note", {"what": "a"}, delay="1s", id="a", tags=["vip"])
            assert (await hybrid.resume("a")).version == task.version, "nobody paused it"
            assert (await hybrid.pause("a")).tags == ["vip"]
            assert jobs.get_jobs() == []
            call_back(place.url, "a")  # a call that was under way
            await hybrid.add("note", {"what": "b"}, delay="1.2s", id="b")
            await place.until_ran("b")  # the time of the first has passed, and sweeps have looked at it
            assert (await hybrid.near.get("a")).listed_status is Status.PAUSED
            assert (await hybrid.resume("a")).status is Status.PENDING
            await place.until_ran("a", "b")

    aio.run(main())


def test_a_far_task_that_is_resumed_long_before_its_time_is_far_again(place: Place) -> None:
    async def main() -> None:
        async with place.open() as (hybrid, jobs):
            await hybrid.add("note", {"what": "a"}, delay="30d", id="a", tags=["vip"])
            await hybrid.pause("a")
            again = await hybrid.resume("a")
            assert (again.listed_status, again.tags) == (Status.PAUSED, ["vip", "far"])
            assert len(jobs.get_jobs()) == 1
            call_back(place.url, "a")
            near = await hybrid.near.get("a")
            assert (near.listed_status, near.tags) == (Status.PENDING, ["vip"])
            assert (await hybrid.pause("a")).listed_status is Status.PAUSED
            call_back(place.url, "a")
            assert (await hybrid.near.get("a")).listed_status is Status.PAUSED, "it was meant"

    aio.run(main())


def test_what_is_wrong_is_refused_and_nothing_is_left(place: Place) -> None:
    async def main() -> None:
        async with place.open() as (hybrid, jobs):
            with pytest.raises(InvalidTask):
                await hybrid.add("note", {"what": "x"}, delay="1d", colour="red")
            await hybrid.add("note", {"what": "x"}, delay="1d", id="a")
            with pytest.raises(DuplicateTask):
                await hybrid.add("note", {"what": "y"}, delay="2d", id="a")
            kept = await hybrid.add("note", {"what": "y"}, delay="2d", id="a", on_conflict="keep")
            assert kept.args == {"what": "x"}
            assert len(jobs.get_jobs()) == 1
            with pytest.raises(InvalidSchedule, match="longer than 0"):
                HybridScheduler(hybrid.near, hybrid.far, threshold=0)
            with pytest.raises(InvalidSchedule, match="a second at the least"):
                APSchedulerFar(jobs, place.url, again="10ms")
            with pytest.raises(FarSchedulerUnfit, match="no place"):
                APSchedulerFar(jobs, "memory://")

    aio.run(main())


def test_a_task_stays_near_if_apscheduler_is_not_there_to_take_it(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with place.open() as (hybrid, jobs):
            jobs.shutdown()
            with pytest.raises(FarSchedulerUnfit, match="start"):
                await hybrid.far.schedule("a", 0)
            task = await hybrid.add("note", {"what": "a"}, delay="1s", id="a")
            assert task.status is Status.PENDING
            assert "task a stays near" in caplog.text
            await place.until_ran("a")
            jobs.start()

    aio.run(main())


def test_tasks_are_not_lost_with_everything_that_apscheduler_knew(place: Place) -> None:
    async def main() -> None:
        async with place.open(sweep_every="0.2s") as (hybrid, jobs):
            for number in range(5):
                await hybrid.add("note", {"what": f"{number}"}, delay="1s")
            jobs.remove_all_jobs()
            await place.until_ran(*map(str, range(5)))

    aio.run(main())


def test_a_call_that_fails_is_made_again(place: Place, tmp_path: Path) -> None:
    async def main() -> None:
        async with place.open() as (hybrid, jobs):
            failed = threading.Event()
            jobs.add_listener(lambda _: failed.set(), EVENT_JOB_ERROR)
            folder = tmp_path / "mounted later"
            far = APSchedulerFar(jobs, f"sqlite:///{folder}/tasks.db", again="1s")
            await hybrid.add("note", {"what": "a"}, delay="0.8s", id="a")
            await far.schedule("a", 0)
            assert await asyncio.to_thread(failed.wait, 10)
            folder.symlink_to(tmp_path)
            await place.until_ran("a")
            get_scheduler(f"sqlite:///{folder}/tasks.db").stop()

    aio.run(main())


def test_long_ids_have_a_job_too(place: Place) -> None:
    async def main() -> None:
        async with place.open() as (hybrid, jobs):
            await hybrid.add("note", {"what": "long"}, delay="1s", id="x" * 255)
            [job] = jobs.get_jobs()
            assert len(job.id) <= 191
            await place.until_ran("long")

    aio.run(main())


def test_apscheduler_can_be_shut_down_while_a_call_ends(place: Place) -> None:
    jobs = BackgroundScheduler(jobstores={"default": SQLAlchemyJobStore(place.jobs_url)})
    called, stopping = threading.Event(), threading.Event()

    def wait_until_it_stops(_: object) -> None:
        called.set()
        stopping.wait(20)
        while jobs.running:
            pass
        time.sleep(0.2)  # it waits for its threads by now

    jobs.add_listener(wait_until_it_stops, EVENT_JOB_EXECUTED)
    far = APSchedulerFar(jobs, place.url)
    jobs.start()
    asyncio.run(far.schedule("nobody", 0))
    assert called.wait(20)
    ending = threading.Thread(target=jobs.shutdown, daemon=True)
    stopping.set()
    ending.start()
    ending.join(20)
    assert not ending.is_alive()
    get_scheduler(place.url).stop()


def test_calls_that_come_at_once_share_one_scheduler(place: Place) -> None:
    with ThreadPoolExecutor(8) as threads:
        together = threading.Barrier(8)
        opened = set(threads.map(lambda _: (together.wait(), get_scheduler(place.url))[1], range(8)))
    [only] = opened
    only.stop()
