"""What anyone may do to tasks one by one, in a store that can take a step with each of several."""

from collections.abc import Callable, Sequence
from typing import Protocol

from tickwheel.errors import UnknownTask
from tickwheel.stores import bounds, steps
from tickwheel.tasks.record import Task

__all__ = ["StepByStep"]


class StepByStep(Protocol):
    """A store says how to take a step and what time it is, and has these verbs."""

    async def time(self) -> int:
        """Read the store's own clock."""

    async def _each(self, ids: Sequence[str], step: Callable[[Task], Task]) -> list[Task | None]:
        """Take a step with each task that is there, and return how they are now."""

    async def cancel(self, ids: Sequence[str], reason: str) -> list[Task | None]:
        """Cancel tasks, or ask them to stop."""
        now = await self.time()
        return await self._each(ids, lambda task: steps.cancel(task, reason, now))

    async def reschedule(self, task_id: str, run_at: int) -> Task:
        """Move a task."""
        bounds.check_moment(run_at)
        [task] = await self._each([task_id], lambda task: steps.move(task, run_at))
        if task is None:
            raise UnknownTask(task_id)
        return task

    async def pause(self, ids: Sequence[str]) -> list[Task | None]:
        """Keep pending tasks from coming due."""
        return await self._each(ids, steps.pause)

    async def resume(self, ids: Sequence[str]) -> list[Task | None]:
        """Let paused tasks come due again."""
        return await self._each(ids, steps.resume)

    async def revive(self, ids: Sequence[str], run_at: int) -> list[Task | None]:
        """Begin tasks that are over once more."""
        bounds.check_moment(run_at)
        return await self._each(ids, lambda task: steps.revive(task, run_at))
