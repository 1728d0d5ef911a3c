"""tickwheel: the timing wheel for Python.

>>> from tickwheel import Timers
>>> timers = Timers()
>>> timer = timers.after("30m", print, "order 7 was not paid", key="order 7")
>>> timers.cancel("order 7")
True
"""

from tickwheel import build, wheels  # build comes first: it decides which wheels are loaded
from tickwheel.clock import Clock, SystemClock, VirtualClock
from tickwheel.errors import TickwheelError
from tickwheel.recipes import AsyncDelayQueue, DelayQueue, IdleTimeouts, TTLCache
from tickwheel.timers import AsyncTimers, ManualTimers, TimerHandle, Timers, default_timers

__all__ = [
    "COMPILED",
    "AsyncDelayQueue",
    "AsyncTimers",
    "Clock",
    "DelayQueue",
    "IdleTimeouts",
    "ManualTimers",
    "SystemClock",
    "TTLCache",
    "TickwheelError",
    "TimerHandle",
    "Timers",
    "VirtualClock",
    "__version__",
    "default_timers",
]

__version__ = "0.1.0"

COMPILED: bool = build.compiled(wheels)
