"""tickwheel: the timing wheel for Python.

>>> from tickwheel import Timers
>>> timers = Timers()
>>> timer = timers.after("30m", print, "order 7 was not paid", key="order 7")
>>> timers.cancel("order 7")
True
"""

from typing import TYPE_CHECKING, Any

from tickwheel import build, wheels  # build comes first: it decides which wheels are loaded
from tickwheel.clock import Clock, SystemClock, VirtualClock
from tickwheel.errors import TickwheelError
from tickwheel.recipes import AsyncDelayQueue, DelayQueue, IdleTimeouts, TTLCache
from tickwheel.timers import AsyncTimers, ManualTimers, PendingTimer, TimerHandle, Timers, default_timers

if TYPE_CHECKING:
    from tickwheel import aio as aio
    from tickwheel.scheduler import AsyncScheduler, Scheduler
    from tickwheel.tasks import LatePolicy, RetryPolicy, TaskContext

__all__ = [
    "COMPILED",
    "AsyncDelayQueue",
    "AsyncScheduler",
    "AsyncTimers",
    "Clock",
    "DelayQueue",
    "IdleTimeouts",
    "LatePolicy",
    "ManualTimers",
    "PendingTimer",
    "RetryPolicy",
    "Scheduler",
    "SystemClock",
    "TTLCache",
    "TaskContext",
    "TickwheelError",
    "TimerHandle",
    "Timers",
    "VirtualClock",
    "__version__",
    "default_timers",
]

__version__ = "0.1.0"

COMPILED: bool = build.compiled(wheels)

# Whoever wants timers alone need not wait for what durable tasks import.
_DURABLE = {
    "AsyncScheduler": "scheduler",
    "LatePolicy": "tasks",
    "RetryPolicy": "tasks",
    "Scheduler": "scheduler",
    "TaskContext": "tasks",
}


def __getattr__(name: str) -> Any:
    if name not in _DURABLE and name != "aio":
        raise AttributeError(f"module 'tickwheel' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - as above

    if name == "aio":
        return import_module("tickwheel.aio")
    return getattr(import_module(f"tickwheel.{_DURABLE[name]}"), name)
