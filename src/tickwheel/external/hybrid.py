"""`HybridScheduler`: what is due soon is on the wheel, and what is far away is left to the scheduler you already have.

    hybrid = HybridScheduler(scheduler, APSchedulerFar(apscheduler, "sqlite:///tasks.db"), threshold="7d")

    async with hybrid:
        await hybrid.add("orders.remind", {"order_id": 7}, delay="1h")                    # near
        await hybrid.add("orders.archive", {"order_id": 7}, delay="365d", id="order-7")   # far: it calls in 358 days
        await hybrid.cancel("order-7")                                                    # wherever it is

A far task is paused in the store and has the tag `far`; it is listed there as any other, and moved with `reschedule`.
One that you pause yourself, with `pause`, loses the tag: nobody calls for it until you `resume` it.
Should the other scheduler forget it, for its disk was lost or someone deleted its jobs, a sweep finds what it ought to
have called for by now: a task is late only if the threshold is shorter than the time between two sweeps. What comes
again, by an interval or by cron, is near: its next occurrence is all there is of it.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, Self

from tickwheel.durations import Duration, to_ns
from tickwheel.errors import InvalidSchedule, TaskFinished, TaskRunning, UnknownTask
from tickwheel.external.contract import FarScheduler
from tickwheel.scheduler import AsyncScheduler
from tickwheel.stores.contract import Filter, OnConflict
from tickwheel.tasks import Once, Status, Task, TaskContext

__all__ = ["FAR", "HybridScheduler", "without_far"]

FAR: Final = "far"  # the tag of what another scheduler looks after
SWEEP: Final = "external.sweep"
SWEEPS_IN_THRESHOLD: Final = 7  # a day between two of them, unless told
PAGE: Final = 500

log = logging.getLogger(__name__)


class HybridScheduler:
    """Two schedulers as one. Make it before the near one is started: it brings a handler."""

    def __init__(
        self,
        near: AsyncScheduler,
        far: FarScheduler,
        *,
        threshold: Duration = "7d",
        sweep_every: Duration | None = None,
    ) -> None:
        self.near = near
        self.far = far
        self._threshold_ms = to_ns(threshold) // 1_000_000
        self._sweep_every = self._threshold_ms / SWEEPS_IN_THRESHOLD / 1000 if sweep_every is None else sweep_every
        if self._threshold_ms < SWEEPS_IN_THRESHOLD or to_ns(self._sweep_every) == 0:
            raise InvalidSchedule("a task needs some time to come back: threshold and sweep_every are longer than 0")
        near.task(SWEEP)(self._sweep)

    async def start(self) -> Self:
        """Start the near scheduler, and sweep at once and now and then; the other is started by its owner, before."""
        await self.near.start()
        with suppress(TaskRunning):  # somebody sweeps
            await self.near.add(SWEEP, every=self._sweep_every, delay=0, id=SWEEP, on_conflict="replace")
        return self

    async def stop(self) -> None:
        """Stop the near scheduler."""
        await self.near.stop()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def add(
        self,
        handler: str | Callable[..., Any] | None = None,
        args: Mapping[str, Any] | None = None,
        *,
        on_conflict: OnConflict = "reject",
        **wishes: Any,
    ) -> Task:
        """Add a task, near or far by when it is due; it is durable when this returns."""
        draft = self.near.build_task(handler, args, **wishes)
        if not isinstance(draft.trigger, Once) or draft.run_at - draft.created_at <= self._threshold_ms:
            return await self.near.add(handler, args, on_conflict=on_conflict, **wishes)
        wishes["tags"] = [*wishes.get("tags", ()), FAR]
        task = await self.near.add(handler, args, on_conflict=on_conflict, **wishes)
        return await self._hand_over(task)

    async def cancel(self, task_id: str, reason: str = "cancelled") -> Task:
        """Cancel a task, near or far."""
        task = await self.near.cancel(task_id, reason)
        if FAR in task.tags:
            await self.far.cancel(task_id)
        return task

    async def reschedule(self, task_id: str, *, delay: Duration | None = None, at: datetime | None = None) -> Task:
        """Move a task that waits; a far one stays far, or comes near."""
        task = await self.near.get(task_id)
        if FAR in task.tags:
            await self.near.resume(task_id)  # until somebody else knows of the new time, it is ours
        task = await self.near.reschedule(task_id, delay=delay, at=at)
        if FAR not in task.tags:
            return task
        if self.near._now() < task.run_at - self._threshold_ms:
            return await self._hand_over(task)
        await self.far.cancel(task_id)
        return task

    async def pause(self, task_id: str) -> Task:
        """Keep a task from beginning, near or far, until `resume`."""
        task = await self.near.get(task_id)
        if FAR in task.tags:
            with suppress(TaskRunning):  # it came near, and has no use for the tag
                await self.near.amend(task_id, tags=without_far(task))  # a call that comes now is not heard
            await self.far.cancel(task_id)
        return await self.near.pause(task_id)

    async def resume(self, task_id: str) -> Task:
        """Let a task that was paused with `pause` begin again in its time; a far one is left to the far scheduler."""
        task = await self.near.get(task_id)
        if FAR in task.tags and task.listed_status is Status.PAUSED:
            return task  # nobody paused it: it is far
        task = await self.near.resume(task_id)
        if not isinstance(task.trigger, Once) or task.run_at - self.near._now() <= self._threshold_ms:
            return task
        return await self._hand_over(await self.near.amend(task_id, tags=[*without_far(task), FAR]))

    async def _hand_over(self, task: Task) -> Task:
        """Leave a task to the far scheduler; if it does not take it, the task is as safe where it is."""
        if task.listed_status is not Status.PENDING:  # it was there before, and is looked after
            return task
        moment = task.run_at - self._threshold_ms
        try:
            await self.far.schedule(task.id, moment)
        except Exception:
            log.warning("task %s stays near: the far scheduler does not take it", task.id, exc_info=True)
            return task
        try:
            paused = await self.near.pause(task.id)
            # If it called before that, there was nothing to resume.
            return paused if self.near._now() < moment else await self.near.resume(task.id)
        except TaskFinished:  # meanwhile
            return await self.near.get(task.id)

    async def _sweep(self, context: TaskContext) -> int:
        """Resume what should have been called for by now."""
        overdue = Filter(status=Status.PAUSED, tag=FAR, due_before=context.scheduled_at + self._threshold_ms)
        found, cursor, pages = 0, None, True
        while pages:
            page = await self.near.query(overdue, cursor, PAGE)
            for task in page.tasks:
                with suppress(TaskFinished, TaskRunning, UnknownTask):  # meanwhile
                    await self._come_near(task)
            found, cursor, pages = found + len(page.tasks), page.cursor, page.cursor is not None
        return found

    async def _come_near(self, task: Task) -> None:
        """Resume a far task; without the tag, who pauses it later means it."""
        if FAR not in (await self.near.get(task.id)).tags:
            return  # it has come near, or somebody paused it
        resumed = await self.near.resume(task.id)
        if FAR in resumed.tags:
            await self.near.amend(task.id, tags=without_far(resumed))


def without_far(task: Task) -> list[str]:
    """Return the tags of a task that is not far, or not any more."""
    return [tag for tag in task.tags if tag != FAR]
