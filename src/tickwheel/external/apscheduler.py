"""Far tasks looked after by APScheduler 3, with any of its job stores.

    apscheduler = BackgroundScheduler(jobstores={"default": SQLAlchemyJobStore("sqlite:///jobs.db")})
    apscheduler.start()
    far = APSchedulerFar(apscheduler, "sqlite:///tasks.db")

APScheduler forgets a job of one date in the moment it hands it to a worker; were the process to die then, nobody would
call. So the job is one that comes again every minute, and it is removed when it has run without an error. It carries
the URL of tickwheel's store and the task's id, and can be run by any process that has tickwheel and reaches the store.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Final

from tickwheel.durations import Duration, to_ns
from tickwheel.errors import FarSchedulerUnfit, InvalidSchedule, MissingExtra, TaskFinished, TaskRunning, UnknownTask
from tickwheel.external.hybrid import FAR, without_far
from tickwheel.scheduler import Scheduler

try:
    from apscheduler.events import EVENT_JOB_EXECUTED, JobExecutionEvent
    from apscheduler.jobstores.base import JobLookupError
    from apscheduler.schedulers.base import STATE_STOPPED, BaseScheduler
    from apscheduler.triggers.base import BaseTrigger
except ModuleNotFoundError as error:
    raise MissingExtra("far tasks in APScheduler", "APScheduler", "apscheduler") from error

__all__ = ["APSchedulerFar", "Again", "call_back"]

PREFIX: Final = "tickwheel:"
ID_CHARS_MAX: Final = 191  # what its SQL store has room for
EPOCH: Final = datetime.fromtimestamp(0, UTC)

# By the URL of the store: the stores that jobs of this process are about, which are few; stopped when the program ends.
SCHEDULERS: Final[dict[str, Scheduler]] = {}


class APSchedulerFar:
    """A scheduler of APScheduler that calls when far tasks come near; it is started and stopped by its owner."""

    def __init__(
        self, scheduler: BaseScheduler, url: str, *, jobstore: str = "default", again: Duration = "1m"
    ) -> None:
        if url == "memory://":
            raise FarSchedulerUnfit("jobs find tasks by the URL of their store, and memory:// is no place: use a file")
        self._scheduler = scheduler
        self._url = url
        self._jobstore = jobstore
        self._again = timedelta(microseconds=to_ns(again) // 1000)
        if self._again < timedelta(seconds=1):
            raise InvalidSchedule("a call that was not heard is made again after a second at the least")
        # A thread of its own: while APScheduler shuts down it waits for its threads, and lets nobody remove jobs.
        self._forgetting = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tickwheel-forget")
        scheduler.add_listener(self._executed, EVENT_JOB_EXECUTED)

    async def schedule(self, task_id: str, at: int) -> None:
        """Keep a job in the job store that calls at a moment."""
        if self._scheduler.state == STATE_STOPPED:
            raise FarSchedulerUnfit(
                "APScheduler is not started, and keeps jobs in memory until it is: start() it first"
            )
        moment = EPOCH + timedelta(milliseconds=at)
        await asyncio.to_thread(
            partial(
                self._scheduler.add_job,
                f"{__name__}:{call_back.__name__}",
                Again(moment, self._again),
                args=(self._url, task_id),
                id=job_id_of(task_id),
                name=f"tickwheel: {task_id}",
                jobstore=self._jobstore,
                replace_existing=True,
                misfire_grace_time=None,  # however late
                coalesce=True,
            )
        )

    async def cancel(self, task_id: str) -> None:
        """Remove the job of a task."""
        with suppress(JobLookupError):
            await asyncio.to_thread(self._scheduler.remove_job, job_id_of(task_id), self._jobstore)

    def _executed(self, event: JobExecutionEvent) -> None:
        """Have a job of ours removed that has run without an error; if that is too late, it calls once more."""
        if event.job_id.startswith(PREFIX) and event.jobstore == self._jobstore:
            with suppress(RuntimeError):  # the program ends
                self._forgetting.submit(self._forget, event.job_id)

    def _forget(self, job_id: str) -> None:
        with suppress(JobLookupError):
            self._scheduler.remove_job(job_id, self._jobstore)


class Again(BaseTrigger):  # type: ignore[misc]
    """A moment, and so long after each call another; however long nobody was there, one call makes up for it."""

    def __init__(self, first: datetime, wait: timedelta) -> None:
        self.first = first
        self.wait = wait

    def __repr__(self) -> str:
        return f"Again({self.first.isoformat()}, {self.wait})"

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """Return when to call next."""
        return self.first if previous_fire_time is None else now.astimezone(UTC) + self.wait


def call_back(url: str, task_id: str) -> None:
    """Let a far task come due again: this is what jobs call, wherever APScheduler runs them."""
    near = get_scheduler(url)
    with suppress(UnknownTask, TaskFinished, TaskRunning):  # it was cancelled, or has run
        if FAR not in near.get(task_id).tags:
            return  # it is near, or was paused by somebody who means it
        resumed = near.resume(task_id)
        if FAR in resumed.tags:
            near.amend(task_id, tags=without_far(resumed))


def get_scheduler(url: str) -> Scheduler:
    """Return this process's only scheduler of a store, started: two threads may ask for it at once."""
    return SCHEDULERS.setdefault(url, Scheduler(url, run=False)).start()


def job_id_of(task_id: str) -> str:
    """Return what the job of a task is called."""
    job_id = PREFIX + task_id
    return job_id if len(job_id) <= ID_CHARS_MAX else PREFIX + sha256(task_id.encode()).hexdigest()
