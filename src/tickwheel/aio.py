"""asyncio on a wheel.

>>> import asyncio
>>> from tickwheel import VirtualClock, aio
>>> aio.run(asyncio.sleep(0.01, "slept"))
'slept'
>>> clock = VirtualClock()
>>> loop = aio.EventLoop(clock=clock)                    # a year in a moment
>>> loop.run_until_complete(asyncio.sleep(365 * 86_400, "a year is over"))
'a year is over'
>>> loop.close()
"""

from tickwheel.timers.event_loop import EventLoop, run
from tickwheel.timers.timeouts import Timeout, timeout, timeout_at
from tickwheel.timers.waiting import sleep, wait_for

__all__ = ["EventLoop", "Timeout", "run", "sleep", "timeout", "timeout_at", "wait_for"]
