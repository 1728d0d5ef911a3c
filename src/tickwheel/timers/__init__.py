"""Timers in one process: the wheel, and what turns it.

| class          | turned by                       | callbacks run                      | to be used from |
|----------------|---------------------------------|------------------------------------|-----------------|
| `Timers`       | a background thread              | on that thread, or in an executor  | any thread      |
| `AsyncTimers`  | an asyncio event loop           | on the loop; coroutines as tasks   | the loop        |
| `ManualTimers` | the program, on a virtual clock | on the thread that lets time pass  | any thread      |
"""

from tickwheel.timers.asyncio_driver import AsyncTimers
from tickwheel.timers.handle import PendingTimer, TimerHandle
from tickwheel.timers.manual_driver import ManualTimers
from tickwheel.timers.thread_driver import Timers, default_timers

__all__ = ["AsyncTimers", "ManualTimers", "PendingTimer", "TimerHandle", "Timers", "default_timers"]
