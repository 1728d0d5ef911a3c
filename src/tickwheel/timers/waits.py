"""`sleep` and `wait_for`: asyncio's own, on a wheel."""

import asyncio
from asyncio import sleep as sleep_standard  # by name: a program may put ours in their places
from asyncio import wait_for as wait_standard
from collections.abc import Awaitable
from typing import TypeVar, overload

from tickwheel.durations import Duration
from tickwheel.timers.loop_timers import SleepTimer, loop_wheel, to_seconds
from tickwheel.timers.timeouts import timeout as limit

__all__ = ["sleep", "wait_for"]

T = TypeVar("T")


@overload
async def sleep(delay: Duration) -> None: ...
@overload
async def sleep(delay: Duration, result: T) -> T: ...
async def sleep(delay: Duration, result: T | None = None) -> T | None:
    """Wait for a duration, and return the result."""
    seconds = to_seconds(delay)
    if not seconds > 0:
        return await sleep_standard(seconds, result)  # lets the others have their turn
    loop = asyncio.get_running_loop()
    wheel = loop_wheel(loop)
    future: asyncio.Future[T | None] = loop.create_future()
    timer = SleepTimer(wheel, wheel.time() + seconds, future, result)
    wheel.start(timer)
    try:
        return await future
    finally:
        timer.cancel()


async def wait_for(awaitable: Awaitable[T], timeout: Duration | None) -> T:  # noqa: ASYNC109 - as asyncio.wait_for
    """Wait for something for a duration at the most, and cancel it when that is over."""
    seconds = None if timeout is None else to_seconds(timeout)
    if seconds is not None and seconds <= 0:
        return await wait_standard(awaitable, seconds)  # no timer in it: done already, or too late
    async with limit(seconds):
        return await awaitable
