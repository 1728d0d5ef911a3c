"""Calls that come to their end, though whoever asked for them is gone.

A consumer over HTTP may hang up at any moment, and what it asked for is cancelled. A claim or an outcome on its way to
the store must not be: nobody would know whether it was written.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["Unbroken"]

T = TypeVar("T")


class Unbroken:
    """The calls of one engine that are not to be broken off."""

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
