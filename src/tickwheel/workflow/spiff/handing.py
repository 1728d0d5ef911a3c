"""What instances want of tickwheel, brought there: tasks for timers, and timeouts for work items.

    saved: {timer: due}  --hand over-->  tasks, by id (instance, timer, due)  --> noted: handed = revision

Adding is idempotent, and cancelling is only tidy: a task whose timer is gone does nothing. So after a crash it suffices
to do all of it again for instances that have no note, and after the loss of a store, for all that wait.
"""

import logging
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tickwheel.errors import TickwheelError
from tickwheel.scheduler import AsyncScheduler
from tickwheel.workflow.contract import WorkItem
from tickwheel.workflow.instances import Change, Instance, InstanceStore, Loaded
from tickwheel.workflow.monitor import UNDER_WAY, TimeoutMonitor

__all__ = ["Handing"]

EPOCH: Final = datetime.fromtimestamp(0, UTC)
PAGE: Final = 200
ITEMS_MAX: Final = 1000  # of an instance, that people have to do at the same time

log = logging.getLogger(__name__)


class Handing:
    """The way from one engine's instances to its scheduler."""

    def __init__(self, name: str, scheduler: AsyncScheduler, monitor: TimeoutMonitor) -> None:
        self._name = name
        self._scheduler = scheduler
        self._monitor = monitor

    async def hand_over(self, store: InstanceStore, loaded: Loaded | None, change: Change[Any]) -> None:
        """Bring what is new to tickwheel, and take back what is not wanted any more."""
        instance = change.instance
        if instance is None or instance.handed == instance.revision:
            return
        before = {} if loaded is None else loaded.instance.timers
        new = {timer: due for timer, due in instance.timers.items() if before.get(timer) != due}
        gone = {timer: due for timer, due in before.items() if instance.timers.get(timer) != due}
        try:
            await self._add(instance, new, [item for item in change.items if item.state == "pending"])
            ids = {self._id(instance, timer, due) for timer, due in gone.items()} - {UNDER_WAY.get()}
            if ids:
                await self._scheduler.apply("cancel", list(ids), "the process went on")
            for item in change.items:
                if item.state != "pending" and self._monitor.rule_of(item):
                    await self._monitor.cancel(item.id)
            # Without a note of the one before, not all that this one wants may be new.
            if loaded is None or loaded.instance.handed == loaded.instance.revision:
                await store.hand(instance.id, instance.revision)
        except TickwheelError:
            log.warning("instance %s is saved; its tasks are added when that is possible", instance.id, exc_info=True)

    async def reconcile(self, store: InstanceStore, *, everything: bool = False) -> int:
        """Bring to tickwheel what may not have come there: of instances without a note, or of all that wait."""
        seen, last = 0, ""
        while True:
            page = await (store.waiting(last, PAGE) if everything else store.unhanded(PAGE))
            for instance in page:
                pending = await store.items(instance.id, None, "pending", ITEMS_MAX)
                await self._add(instance, instance.timers, pending)
                await store.hand(instance.id, instance.revision)
                last = instance.id
            seen += len(page)
            if len(page) < PAGE:
                return seen

    async def _add(self, instance: Instance, timers: Mapping[str, int], items: Iterable[WorkItem]) -> None:
        tasks = [
            {
                "handler": f"{self._name}.timer",
                "args": {"instance": instance.id, "timer": timer, "due": due},
                "id": self._id(instance, timer, due),
                "at": EPOCH + timedelta(milliseconds=due),
            }
            for timer, due in timers.items()
        ]
        if tasks:
            await self._scheduler.add_many(tasks, on_conflict="keep")
        for item in items:
            if self._monitor.rule_of(item):
                await self._monitor.monitor(item)

    def _id(self, instance: Instance, timer: str, due: int) -> str:
        return f"{self._name}.timer/{instance.id}/{timer}/{due}"
