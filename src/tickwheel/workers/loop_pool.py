"""Async functions, as tasks on the event loop."""

import sys
from asyncio import Future, Task, current_task
from functools import partial

from tickwheel.workers.contract import End, Job, Outcome
from tickwheel.workers.forks import FORKS, end
from tickwheel.workers.results import NOTHING, returned

__all__ = ["LoopPool"]

PATIENCE_S = 5.0  # for `finally` blocks that await; a task that swallows its cancellation is stuck after it


class LoopPool:
    """Runs on the loop they were asked for on; as many at once as the workers take in."""

    free = sys.maxsize

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self.patience_s = patience_s

    def start(self, job: Job, end: End) -> Task[None]:
        """Begin a run as a task: a plain one, since a task factory may run it at once or make something else of it."""
        return Task(run(job, end), loop=job.loop, name=f"tickwheel {job.task.id}", context=job.surroundings)

    def stop(self, job: Job, end: End) -> None:
        """Cancel the task of a run, once: what it does to clean up is left alone."""
        if isinstance(job.over, Task) and not job.over.cancelling():
            job.over.cancel()
            if job.began_s is None:  # it runs nothing, not even what would tell that it is over
                job.over.add_done_callback(partial(end_unbegun, job, end))

    async def close(self) -> None:
        """Do nothing: tasks are gone when they are over."""


async def run(job: Job, end_run: End) -> None:
    """Await the function of a run and take whatever comes: an exit ends the run, not the loop."""
    if not job.begin():
        end_run(job, job.not_begun())
        return
    FORKS.set(0)
    try:
        result = await job.handler.function(**job.arguments)
    except BaseException as error:  # noqa: BLE001 - as it says
        if issubclass(type(error), GeneratorExit) and current_task(job.loop) is not job.over:
            return  # the task was dropped, and does not run now
        if FORKS.get():
            end(error)
        end_run(job, Outcome(error=error, raised=True))
        return
    if FORKS.get():
        end()
    end_run(job, NOTHING if result is None else returned(job.handler.name, job.task.id, result))


def end_unbegun(job: Job, end_run: End, _: Future[None]) -> None:
    """End a run whose task was cancelled before its first step; if it was not, it has ended by itself."""
    if job.began_s is None:
        end_run(job, job.not_begun())
