"""Event loops side by side on one virtual clock: each is a process that can be suspended or die.

    steps = Lockstep(VirtualClock())
    one, other = steps.loop(), steps.loop()
    steps.run(one, story())             # until it is over; all loops get their turns, and time passes as it must
    steps.suspend(other)                # none of its callbacks is called, and time goes on
    steps.kill(other)                   # nor ever again

A loop runs until it has nothing to do. When that is so of all of them, the clock goes to where the first of them has.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from tickwheel import VirtualClock, aio

__all__ = ["Lockstep"]

T = TypeVar("T")
LONG_NS = 600 * 10**9  # for one coroutine: ten minutes
FOR_EVER_S = 1e8  # three years; no story is as long


class LoopClock:
    """The clock as one loop sees it: to let time pass is not for the loop to decide, which stops instead."""

    def __init__(self, clock: VirtualClock) -> None:
        self.monotonic, self.monotonic_ns = clock.monotonic, clock.monotonic_ns
        self.stop: Callable[[], None] | None = None

    def advance_ns(self, _: int) -> None:
        assert self.stop is not None
        self.stop()


class Lockstep:
    """Runs loops in turns."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self._awake: list[Any] = []
        self._all: list[Any] = []

    def loop(self) -> asyncio.AbstractEventLoop:
        """Make a loop."""
        clock = LoopClock(self.clock)
        loop = aio.EventLoop(clock=clock)  # type: ignore[arg-type] # it has what a loop needs
        clock.stop = loop.stop
        loop.call_later(FOR_EVER_S, print)  # a loop without timers would wait for files
        self._awake.append(loop)
        self._all.append(loop)
        return loop

    def suspend(self, loop: asyncio.AbstractEventLoop) -> None:
        """Call nothing of a loop until it is resumed."""
        self._awake.remove(loop)

    def resume(self, loop: asyncio.AbstractEventLoop) -> None:
        """Go on with a loop."""
        self._awake.append(loop)

    def kill(self, loop: asyncio.AbstractEventLoop) -> None:
        """Never call anything of a loop again; what it holds stays as it is until the end."""
        if loop in self._awake:
            self._awake.remove(loop)

    def run(self, loop: asyncio.AbstractEventLoop, story: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on a loop that is awake, and let time pass until it is over."""
        task = loop.create_task(story)
        self._settle()
        ends_ns = self.clock.monotonic_ns() + LONG_NS
        while not task.done():
            if self.clock.monotonic_ns() > ends_ns:
                raise TimeoutError(f"{story} does not end")
            self._advance(None)
            self._settle()
        return task.result()

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        until_ns = self.clock.monotonic_ns() + int(seconds * 1e9)
        self._settle()
        while self.clock.monotonic_ns() < until_ns:
            self._advance(until_ns)
            self._settle()

    def end(self) -> None:
        """Close all loops; what did not come to its end is closed where it stands."""
        for loop in self._all:
            loop.set_exception_handler(lambda *_: None)
            for task in asyncio.all_tasks(loop):
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                coroutine: Any = task.get_coro()
                with suppress(RuntimeError):  # a `finally` that awaits
                    coroutine.close()
            loop.close()

    def _settle(self) -> None:
        """Let every loop do what it can do now."""
        while busy := [loop for loop in self._awake if loop._ready or self._next_ns(loop) <= self.clock.monotonic_ns()]:
            for loop in busy:
                loop.run_forever()
                if not loop._ready and self._next_ns(loop) <= self.clock.monotonic_ns():
                    self.clock.advance_ns(1)  # its clock, a float, is behind

    def _advance(self, until_ns: int | None) -> None:
        """Let time pass until a loop has something to do, at least a nanosecond."""
        ends = [self._next_ns(loop) for loop in self._awake] + ([] if until_ns is None else [until_ns])
        self.clock.advance_ns(max(min(ends) - self.clock.monotonic_ns(), 1))

    @staticmethod
    def _next_ns(loop: Any) -> int:
        found: int | None = loop._next_ns()
        assert found is not None
        return found
