"""Why a task is where it is, in words for people."""

from tickwheel.tasks.record import ENDED, Status, Task

__all__ = ["explain"]


def explain(task: Task, now: int, *, known: bool = True) -> str:
    """Say in words why a task is where it is; `known` is whether those who run tasks have its handler."""
    if task.status in ENDED:
        return task.reason or f"it is {task.status}"
    if task.status is Status.PAUSED:
        return "it is paused; resume it to let it run"
    if task.status is Status.RUNNING:
        asked = "; it was asked to stop" if task.cancel_requested else ""
        return f"it is running, attempt {task.attempt}{asked}"
    if task.queue is not None and task.run_at <= now:
        return f"it waits in queue {task.queue!r} for a consumer to lease it"
    if not known:
        return f"no worker here knows its handler {task.handler!r}"
    wait_s = (task.run_at - now) / 1000
    when = f"due in {wait_s:g} s" if wait_s > 0 else f"overdue for {-wait_s:g} s: is a worker running?"
    return f"{when}; {task.reason}" if task.reason else when
