"""Async functions, as tasks on the event loop."""

import sys
from asyncio import Future, Task

from tickwheel.workers.contract import Job, Outcome
from tickwheel.workers.forks import FORKS, end
from tickwheel.workers.results import returned

__all__ = ["LoopPool"]

PATIENCE_S = 5.0  # for `finally` blocks that await; a task that swallows its cancellation is stuck after it


class LoopPool:
    """Runs on the loop they were asked for on; as many at once as the workers take in."""

    free = sys.maxsize

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self.patience_s = patience_s

    def start(self, job: Job) -> Future[Outcome]:
        """Begin a run as a task."""
        return job.loop.create_task(run(job), name=f"tickwheel {job.task.id}", context=job.surroundings)

    def stop(self, job: Job) -> None:
        """Cancel the task of a run, once: what it does to clean up is left alone."""
        if isinstance(job.over, Task) and not job.over.cancelling():
            job.over.cancel()

    async def close(self) -> None:
        """Do nothing: tasks are gone when they are over."""


async def run(job: Job) -> Outcome:
    """Await the function of a run and take whatever comes: an exit ends the run, not the loop."""
    if not job.begin():
        return job.not_begun()
    forked = FORKS.get()
    try:
        result = await job.handler.function(**job.arguments)
    except BaseException as error:  # noqa: BLE001 - as it says
        if FORKS.get() != forked and not isinstance(error, GeneratorExit):  # which anyone may throw who drops a task
            end(error)
        return Outcome(error=error, raised=True)
    if FORKS.get() != forked:
        end()
    return returned(job.handler.name, job.task.id, result)
