"""Calls that run to completion, even if their caller is cancelled.

A consumer over HTTP may disconnect at any moment, and what it asked for is cancelled. A claim or an outcome on its way
to the store must not be: nobody would know whether it was written. The same is true of what takes partitions when a
scheduler starts, and of what gives them back when it stops.
"""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

__all__ = ["BackgroundCalls", "uninterrupted"]

T = TypeVar("T")


class BackgroundCalls:
    """Calls of one engine that complete even if the caller is cancelled."""

    def __init__(self) -> None:
        self._calls: set[asyncio.Task[Any]] = set()

    def begin(self, call: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin a call; to wait for it, shield it."""
        task = asyncio.get_running_loop().create_task(call)
        self._calls.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()  # who waits for it hears of it; if nobody does, nobody has to

    async def ended(self) -> None:
        """Wait until all of them are over."""
        if self._calls:
            await asyncio.wait(self._calls)


async def uninterrupted(call: Awaitable[T]) -> T:
    """Wait for the end of a call, also if cancelled meanwhile; `CancelledError` is raised when it is over."""
    future = asyncio.ensure_future(call)
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not future.cancelled():
            future.exception()  # it is not raised, and need not be logged as never retrieved
        raise cancelled
    return future.result()
