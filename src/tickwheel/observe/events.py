"""One stream of what happens to tasks.

>>> events = Events()
>>> seen = []
>>> leave = events.listen(lambda event: seen.append(f"{event.kind} {event.task_id}"))
>>> events.tell(Event(kind="added", task_id="order-7", handler="orders.cancel", at=0))
>>> leave()
>>> events.tell(Event(kind="started", task_id="order-7", handler="orders.cancel", at=1))
>>> seen
['added order-7']

A listener is called on the scheduler's loop and has to be quick; what it raises is logged and harms nobody.
"""

import logging
from collections.abc import Callable
from typing import Literal

import msgspec

from tickwheel.tasks.record import Run, Task

__all__ = ["Event", "Events", "Kind"]

Kind = Literal[
    "added",
    "started",
    "completed",
    "failed",
    "retried",
    "skipped",
    "cancelled",
    "rescheduled",
    "paused",
    "resumed",
    "recovered",
    "lost",
]

log = logging.getLogger("tickwheel.events")


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a task."""

    kind: Kind
    task_id: str
    handler: str
    at: int  # milliseconds since 1970
    attempt: int = 0
    late_ms: int | None = None  # when it started: behind its time
    took_ms: int | None = None  # when it is over
    reason: str | None = None


class Events:
    """Who wants to know."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[Event], object]] = []

    def listen(self, listener: Callable[[Event], object]) -> Callable[[], None]:
        """Tell a listener everything from now on; returns how to leave."""
        self._listeners = [*self._listeners, listener]

        def leave() -> None:
            self._listeners = [other for other in self._listeners if other is not listener]

        return leave

    def happened(
        self,
        kind: Kind,
        task: Task,
        at: int,
        *,
        late_ms: int | None = None,
        run: Run | None = None,
        reason: str | None = None,
    ) -> None:
        """Tell everyone what happened to a task; if nobody listens, it costs nothing."""
        if self._listeners:
            self.tell(
                Event(
                    kind=kind,
                    task_id=task.id,
                    handler=task.handler,
                    at=at,
                    attempt=task.attempt,
                    late_ms=late_ms,
                    took_ms=None if run is None else run.finished_at - run.started_at,
                    reason=reason or task.reason,
                )
            )

    def tell(self, event: Event) -> None:
        """Tell everyone."""
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                log.exception("a listener raised for %r", event)
