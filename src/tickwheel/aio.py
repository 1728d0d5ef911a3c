"""asyncio on a wheel: an event loop, and what asyncio has for waiting, on any loop.

    async with aio.timeout(30):
        await reader.readline()

>>> import asyncio
>>> from tickwheel import VirtualClock, aio
>>> aio.run(aio.sleep(0.01, "slept"))
'slept'
>>> aio.run(aio.sleep(365 * 86_400, "a year is over"), clock=VirtualClock())
'a year is over'
"""

from tickwheel.timers.event_loop import EventLoop, run
from tickwheel.timers.timeouts import Timeout, timeout, timeout_at
from tickwheel.timers.waits import sleep, wait_for

__all__ = ["EventLoop", "Timeout", "run", "sleep", "timeout", "timeout_at", "wait_for"]
