"""What happens to tasks, in the log of the program: one record an event, with its fields.

    WARNING tickwheel.tasks  task 'order-7' of 'orders.cancel' retried: attempt 1 of 4 failed; the next one is in 10 s
                             task_id=order-7 handler=orders.cancel attempt=1 took_ms=31 delay_ms=10000 exception=...

What goes well is said at DEBUG, which is off unless asked for, so that a busy scheduler is a quiet one. Everything is
plain `logging`; `tickwheel.observe.logs` renders the fields, and adds those of the run to whatever its handler logs.
"""

import logging
from contextvars import ContextVar
from typing import Any, Final

from tickwheel.observe.events import Event, Kind
from tickwheel.observe.picture import Watched

__all__ = ["EventLog", "run_fields"]

log = logging.getLogger("tickwheel.tasks")

LEVELS: Final[dict[Kind, int]] = {
    "cancelled": logging.INFO,
    "skipped": logging.INFO,
    "retried": logging.WARNING,
    "recovered": logging.WARNING,
    "lost": logging.WARNING,
    "failed": logging.ERROR,
}
FORESEEN: Final = frozenset({"added", "retried", "rescheduled", "resumed"})  # after which it is due later

_run: ContextVar[dict[str, Any] | None] = ContextVar("tickwheel_run", default=None)


def run_fields() -> dict[str, Any]:
    """Return which task, handler and attempt the code that asks is run for; nothing outside of a run."""
    return _run.get() or {}


class EventLog:
    """Writes what happens to the tasks of one scheduler into the log."""

    def __init__(self, scheduler: Watched) -> None:
        self._leave = scheduler.events.listen(self._hear)

    def close(self) -> None:
        """Write no more."""
        self._leave()

    def _hear(self, event: Event) -> None:
        if event.kind == "started":
            _run.set({"task_id": event.task_id, "handler": event.handler, "attempt": event.attempt})
        level = LEVELS.get(event.kind, logging.DEBUG)
        if log.isEnabledFor(level):
            why = f": {event.reason}" if event.reason else ""
            words = "task %r of %r %s%s"
            log.log(level, words, event.task_id, event.handler, event.kind, why, extra=fields_of(event))


def fields_of(event: Event) -> dict[str, Any]:
    """Return what an event says, under the names that records have it under."""
    delay_ms = event.due_at - event.at if event.kind in FORESEEN and event.due_at is not None else None
    fields = {
        "task_id": event.task_id,
        "handler": event.handler,
        "attempt": event.attempt or None,
        "due_at": event.due_at,
        "delay_ms": delay_ms,
        "late_ms": event.late_ms,
        "took_ms": event.took_ms,
        "exception": event.error,
    }
    return {name: value for name, value in fields.items() if value is not None}
