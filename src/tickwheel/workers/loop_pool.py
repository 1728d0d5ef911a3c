"""Async functions, as tasks on the event loop."""

import asyncio
from asyncio import CancelledError, Future, Task
from typing import Any

import msgspec

from tickwheel.workers.contract import Job, Outcome
from tickwheel.workers.results import encode

__all__ = ["LoopPool"]

PATIENCE_S = 5.0  # for `finally` blocks that await; a task that swallows its cancellation is left behind after it


class LoopPool:
    """Runs on the loop they were asked for on; as many at once as the workers take in."""

    def __init__(self, most: int, patience_s: float = PATIENCE_S) -> None:
        self.patience_s = patience_s
        self._most = most
        self._tasks: dict[Job, Task[Outcome]] = {}

    @property
    def free(self) -> int:
        """Return how many runs it would begin now."""
        return self._most - len(self._tasks)

    def start(self, job: Job) -> Future[Outcome]:
        """Begin a run as a task."""
        loop = asyncio.get_running_loop()
        over: Future[Outcome] = loop.create_future()
        task = loop.create_task(run(job), name=f"tickwheel {job.task.id}", context=job.surroundings)
        self._tasks[job] = task

        def end(task: Task[Outcome]) -> None:
            del self._tasks[job]
            if not over.done():
                # A task that is cancelled before its first step has run nothing, not even what catches that.
                over.set_result(Outcome(error=CancelledError()) if task.cancelled() else task.result())

        task.add_done_callback(end)
        return over

    def stop(self, job: Job) -> None:
        """Cancel the task of a run, once: what it does to clean up is left alone."""
        task = self._tasks.get(job)
        if task is not None and not task.cancelling():
            task.cancel()

    async def close(self) -> None:
        """Do nothing: tasks are gone when they are over."""


async def run(job: Job) -> Outcome:
    """Await the function of a run and take whatever comes: an exit ends the run, not the loop."""
    try:
        result: Any = await job.handler.function(**job.arguments)
        if result is not None:
            result = msgspec.json.decode(encode(job.handler.name, job.task.id, result))
    except BaseException as error:  # noqa: BLE001 - as it says
        return Outcome(error=error)
    return Outcome(result)
