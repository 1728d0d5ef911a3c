"""Why a task is where it is, in words for people.

>>> span(480), span(61_000), span(30 * 86_400_000 + 3_700_000)
('0.5 s', '1 m 1 s', '30 d 1 h')
"""

from itertools import pairwise
from typing import Final

from tickwheel.tasks.record import ENDED, Status, Task, UnreadableTask

__all__ = ["explain", "span"]

UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
STEPS: Final = tuple(pairwise(UNITS))
EXACT_S: Final = 10  # below it, tenths of a second matter


def explain(task: Task, now: int, *, known: bool = True) -> str:
    """Say in words why a task is where it is; `known` is whether those who run tasks have its handler."""
    if isinstance(task, UnreadableTask) or task.status in ENDED:
        return task.reason or f"it is {task.status}"
    if task.status is Status.PAUSED:
        return "it is paused; resume it to let it run"
    if task.status is Status.RUNNING:
        asked = "; it was asked to stop" if task.cancel_requested else ""
        return f"it is running, attempt {task.attempt}{asked}"
    if task.run_at <= now and task.queue is not None:
        return f"it waits in queue {task.queue!r} for a consumer to lease it"
    if not known:
        return f"no worker here knows its handler {task.handler!r}"
    wait_ms = task.run_at - now
    when = f"due in {span(wait_ms)}" if wait_ms > 0 else f"overdue for {span(-wait_ms)}: is a worker running?"
    return f"{when}; {task.reason}" if task.reason else when


def span(ms: int) -> str:
    """Write how long something is, in its two largest units: the rest does not matter."""
    if ms < EXACT_S * 1000:
        return f"{ms / 1000:.1f} s"
    seconds = round(ms / 1000)
    for (unit, size_s), (smaller, part_s) in STEPS:
        if seconds >= size_s:
            count, rest_s = divmod(seconds, size_s)
            return f"{count} {unit} {rest_s // part_s} {smaller}" if rest_s >= part_s else f"{count} {unit}"
    return f"{seconds} s"
