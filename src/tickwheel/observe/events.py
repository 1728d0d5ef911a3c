"""One stream of what happens to tasks.

>>> events = Events()
>>> seen = []
>>> leave = events.listen(lambda event: seen.append(f"{event.kind} {event.task_id}"))
>>> events.tell(Event(kind="added", task_id="order-7", handler="orders.cancel", at=0))
>>> leave()
>>> events.tell(Event(kind="started", task_id="order-7", handler="orders.cancel", at=1))
>>> seen
['added order-7']

A listener is called on the scheduler's loop and has to be quick; what it raises, be it an exit, is logged and harms
nobody. It hears of "started" in the surroundings of the run: a context variable that it sets then is seen by the
handler, on the loop or on a thread. A witness is there while tasks are added, and may write on them before the store
has them.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, Literal

import msgspec

from tickwheel.tasks.record import Run, Task, copy_json

__all__ = ["Event", "Events", "Kind", "Witness"]

Witness = Callable[[Sequence[Task]], AbstractContextManager[Sequence[Task]]]

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
    error: str | None = None  # what the run raised, with its trace
    due_at: int | None = None  # when it was due, or is next
    meta: dict[str, Any] = {}  # of the task


class Events:
    """Who wants to know."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[Event], object]] = []  # to be looked at only: is there anyone
        self._witnesses: list[Witness] = []

    def listen(self, listener: Callable[[Event], object]) -> Callable[[], None]:
        """Tell a listener everything from now on; returns how to leave."""
        self.listeners = [*self.listeners, listener]

        def leave() -> None:
            self.listeners = [other for other in self.listeners if other is not listener]

        return leave

    def attend(self, witness: Witness) -> Callable[[], None]:
        """Have a witness there whenever tasks are added: around the write, with the tasks; returns how to leave."""
        self._witnesses = [*self._witnesses, witness]

        def leave() -> None:
            self._witnesses = [other for other in self._witnesses if other is not witness]

        return leave

    def adding(self, tasks: Sequence[Task]) -> AbstractContextManager[Sequence[Task]]:
        """Add tasks before witnesses, as these want them to be."""
        return self._attended(tasks) if self._witnesses else nullcontext(tasks)

    @contextmanager
    def _attended(self, tasks: Sequence[Task]) -> Iterator[Sequence[Task]]:
        with ExitStack() as witnesses:
            for witness in self._witnesses:
                tasks = witnesses.enter_context(witness(tasks))
            yield tasks

    def emit(
        self,
        kind: Kind,
        task: Task,
        at: int,
        *,
        late_ms: int | None = None,
        run: Run | None = None,
        reason: str | None = None,
    ) -> None:
        """Tell every listener what happened to a task; without listeners it costs nothing."""
        if self.listeners:
            self.tell(
                Event(
                    kind=kind,
                    task_id=task.id,
                    handler=task.handler,
                    at=at,
                    attempt=task.attempt,
                    late_ms=late_ms,
                    took_ms=None if run is None or run.started_at is None else run.finished_at - run.started_at,
                    reason=reason or task.reason,
                    error=None if run is None else run.error,
                    due_at=task.run_at,
                    meta=copy_json(task.meta) if task.meta else {},
                )
            )

    def tell(self, event: Event) -> None:
        """Tell everyone."""
        for listener in self.listeners:
            try:
                listener(event)
            except BaseException:  # it was called by what runs tasks, which must not be interrupted, nor cancelled
                log.exception("a listener raised for %r", event)
