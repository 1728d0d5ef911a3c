"""`sleep` and `wait_for`: asyncio's own, on a wheel."""

import asyncio
from asyncio import sleep as sleep_standard  # by name: a program may put ours in their places
from asyncio import wait_for as wait_standard
from collections.abc import Awaitable
from typing import TypeVar, overload

from tickwheel.timers.loop_timers import SleepTimer, loop_wheel
from tickwheel.timers.timeouts import timeout as limit

__all__ = ["sleep", "wait_for"]

T = TypeVar("T")


@overload
async def sleep(delay: float) -> None: ...
@overload
async def sleep(delay: float, result: T) -> T: ...
async def sleep(delay: float, result: T | None = None) -> T | None:
    """Wait for a number of seconds, and return the result."""
    if not delay > 0:
        return await sleep_standard(delay, result)  # lets the others have their turn; it knows what is no number
    loop = asyncio.get_running_loop()
    clock = loop_wheel(loop)
    future: asyncio.Future[T | None] = loop.create_future()
    waker = SleepTimer(clock, clock.time() + delay, future, result)
    clock.start(waker)
    try:
        return await future
    finally:
        waker.cancel()


async def wait_for(awaitable: Awaitable[T], timeout: float | None) -> T:  # noqa: ASYNC109 - as asyncio.wait_for
    """Wait for something for a number of seconds at the most, and cancel it when they are over."""
    if timeout is not None and timeout <= 0:
        return await wait_standard(awaitable, timeout)  # no timer in it: done already, or too late
    async with limit(timeout):
        return await awaitable
