"""What people are told about work items: noted once for each key, and sent by a task of its own until it is sent."""

from collections.abc import Awaitable, Callable
from typing import Any

from tickwheel.scheduler import AsyncScheduler
from tickwheel.workflow.instances import InstanceStore, Notice
from tickwheel.workflow.monitor import PATIENT

__all__ = ["Notices", "Send"]

Send = Callable[[Notice], Awaitable[None]]


class Notices:
    """The notices of one engine; without something that sends them, they are only noted."""

    def __init__(self, name: str, scheduler: AsyncScheduler, send: Send | None) -> None:
        self._handler = f"{name}.notice"
        self._scheduler = scheduler
        self._send_with = send
        scheduler.task(self._handler, retry=PATIENT)(self._send)

    async def tell(self, store: InstanceStore, notice: Notice) -> bool:
        """Note it, and have it sent: should we die in between, the next attempt finds the note, and goes on."""
        told = await store.tell(notice)
        noted = told or next((each for each in await store.notices(notice.item) if each.key == notice.key), None)
        if noted is not None and self._send_with is not None:
            args = {name: getattr(noted, name) for name in noted.__struct_fields__}
            task_id = f"{self._handler}/{noted.key}"
            await self._scheduler.add(self._handler, {"notice": args}, id=task_id, on_conflict="keep")
        return told is not None

    async def _send(self, notice: dict[str, Any]) -> None:
        """Send a notice as the program wants it sent."""
        if self._send_with is not None:
            await self._send_with(Notice(**notice))
