"""What a handler may ask to be told: who it runs for, and whether it should stop.

@scheduler.task("orders.cancel")
def cancel_order(order_id: int, context: TaskContext) -> None:
    for item in items_of(order_id):
        if context.cancelled:
            return
        give_back(item, key=context.occurrence_id)
"""

from typing import Any

from tickwheel.tasks.record import Task, copy_json

__all__ = ["Flag", "TaskContext"]


class Flag:
    """Goes up once, on one thread, and is looked at from others."""

    __slots__ = ("_up",)

    def __init__(self) -> None:
        self._up = False

    def set(self) -> None:
        """Raise it."""
        self._up = True

    def is_set(self) -> bool:
        """Tell whether it is up."""
        return self._up


class TaskContext:
    """One run, as its handler sees it."""

    __slots__ = ("_stop", "attempt", "id", "meta", "occurrence_id", "previous_result", "scheduled_at")

    def __init__(self, task: Task, stop: Flag | None = None) -> None:
        self.id = task.id
        self.attempt = task.attempt
        self.occurrence_id = task.occurrence_id
        self.scheduled_at = task.occurrence_at  # milliseconds since 1970
        self.previous_result: Any = copy_json(task.result)
        self.meta: dict[str, Any] = copy_json(task.meta)
        self._stop = stop or Flag()

    @property
    def cancelled(self) -> bool:
        """Whether the run should stop: the task was cancelled, ran out of time, or the worker is going down."""
        return self._stop.is_set()

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process can be told; the flag stays here, for a process is ended from outside."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "_stop"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Be the same run in another process."""
        for name, value in state.items():
            setattr(self, name, value)
        self._stop = Flag()
