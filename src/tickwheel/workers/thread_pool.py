"""Plain functions, on a bounded number of threads."""

from asyncio import Future
from functools import partial

from tickwheel.workers import forks
from tickwheel.workers.contract import End, Job, Outcome
from tickwheel.workers.results import settle
from tickwheel.workers.threads import Threads

__all__ = ["ThreadPool"]


class ThreadPool:
    """Runs on threads. A thread cannot be ended from outside: one that does not look at its flag goes on."""

    patience_s = 0.0

    def __init__(self, most: int) -> None:
        self._threads = Threads(most, "tickwheel-worker")

    @property
    def free(self) -> int:
        """Return how many runs it would begin now."""
        return self._threads.free

    def start(self, job: Job, end: End) -> Future[Outcome]:
        """Begin a run on a thread."""
        return self._threads.submit(partial(run, job), partial(end, job))

    def stop(self, job: Job, end: End) -> None:
        """Do nothing more: the flag is up, and it is for the function to look."""

    def replace(self, job: Job) -> bool:
        """Give the place of a run that does not stop to others; False if too many were given already."""
        return job.over is not None and self._threads.replace(job.over)

    async def close(self) -> None:
        """End the threads that are idle."""
        await self._threads.close()


def run(job: Job) -> Outcome:
    """Call the function of a run, in the context of who asked for it."""
    try:
        if not job.begin():
            return job.not_begun()
        run_in_context = partial(job.surroundings.run, forks.call, job.handler.function, **job.arguments)
        return settle(job.handler.name, job.task.id, run_in_context)
    finally:
        job.returned = True  # before the other is looked at: who sets that looks at this afterwards
        if job.on_return is not None:
            job.on_return()
