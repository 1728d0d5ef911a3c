"""What stores make of calls that change tasks: a batch that is added, and the verbs that change tasks one by one.

The rules are in `tickwheel.tasks.transitions`; here they are applied to batches.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from tickwheel.errors import InvalidTask, TaskFinished, TaskRunning, TaskUnreadable, UnknownTask
from tickwheel.stores import validation
from tickwheel.stores.contract import Conflict, Filter, OnConflict, Page
from tickwheel.tasks import transitions
from tickwheel.tasks.record import ENDED, Task, UnreadableTask

__all__ = ["Mutations", "Settled", "Step", "check_added", "check_move", "settle", "step_for"]

Step = Callable[[Task], Task]


class Settled(msgspec.Struct, frozen=True):
    """What a batch that was added comes to: the answers, the tasks to write, and which of those begin a new life."""

    conflicts: list[Conflict]
    changed: dict[str, Task]
    anew: set[str]


def settle(there: Mapping[str, Task], tasks: Sequence[Task], on_conflict: OnConflict) -> Settled:
    """Add a whole batch, one after the other, or raise."""
    settled = Settled([], {}, set())
    for new in tasks:
        old = settled.changed.get(new.id) or there.get(new.id)
        task, added = transitions.add(old, new, on_conflict)
        settled.conflicts.append(Conflict(task, added=added))
        if task is not old:
            settled.changed[new.id] = task
        if old is None or (added and old.status in ENDED):
            settled.anew.add(new.id)
    return settled


def step_for(verb: Callable[..., Task], *given: object, **options: object) -> Step:
    """Return a verb as a step of a batch: a task it cannot be done to stays as it is."""

    def step(task: Task) -> Task:
        try:
            return verb(task, *given, **options)
        except (TaskFinished, TaskRunning, TaskUnreadable):
            return task

    return step


def check_added(tasks: Sequence[Task], partitions: int, on_conflict: OnConflict) -> None:
    """Refuse a batch that cannot be added, whatever is there."""
    validation.check_on_conflict(on_conflict)
    validation.check_new(tasks, partitions)
    for task in tasks if on_conflict == "debounce" else ():
        transitions.check_debounce(task, on_conflict)


def check_move(ids: Sequence[str], partition: object, partitions: int) -> None:
    """Refuse to move too many tasks, or to a partition that there is not."""
    validation.check_batch(ids)
    if type(partition) is not int or not 0 <= partition < partitions:
        raise InvalidTask(f"partitions are from 0 to {partitions - 1}, not {partition!r}")


class Mutations(Protocol):
    """The verbs of a store that says what time it is and how to take a step with each of several tasks."""

    keeps_skipped: bool = False
    local_clock: bool = False

    async def time(self) -> int:
        """Read the store's own clock."""

    async def query(self, wanted: Filter, cursor: str | None = None, limit: int = 100) -> Page:
        """List tasks, page by page."""

    async def changed_at(self) -> int:
        """Return when the newest task was added: a server's clock is not the nodes', and seldom set."""
        newest = (await self.query(Filter(), limit=1)).tasks
        return max((task.created_at for task in newest if not isinstance(task, UnreadableTask)), default=0)

    async def _each(self, ids: Sequence[str], step: Step) -> list[Task | None]:
        """Take a step with each task that is there, and return how they are now."""

    async def cancel(self, ids: Sequence[str], reason: str, *, run_only: bool = False) -> list[Task | None]:
        """Cancel tasks, or ask them to stop."""
        now = await self.time()
        return await self._each(ids, step_for(transitions.cancel, reason, now, run_only=run_only))

    async def reschedule(self, task_id: str, run_at: int) -> Task:
        """Move a task."""
        validation.check_moment(run_at)
        [task] = await self._each([task_id], lambda task: transitions.reschedule(task, run_at))
        if task is None:
            raise UnknownTask(task_id)
        return task

    async def pause(self, ids: Sequence[str]) -> list[Task | None]:
        """Keep tasks from beginning."""
        return await self._each(ids, step_for(transitions.pause))

    async def resume(self, ids: Sequence[str], *, run_missed: bool = False) -> list[Task | None]:
        """Let paused tasks begin again."""
        now = await self.time()
        return await self._each(ids, step_for(transitions.resume, now, run_missed=run_missed))

    async def run_now(self, ids: Sequence[str]) -> list[Task | None]:
        """Let tasks that wait run now."""
        now = await self.time()
        return await self._each(ids, step_for(transitions.run_now, now))

    async def revive(self, ids: Sequence[str], run_at: int) -> list[Task | None]:
        """Run finished tasks again."""
        validation.check_moment(run_at)
        return await self._each(ids, step_for(transitions.retry, run_at))
