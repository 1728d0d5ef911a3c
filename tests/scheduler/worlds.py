"""A scheduler on virtual time, and what it did: the world the engine is tested in."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeVar

from tickwheel import VirtualClock, aio
from tickwheel.observe import Event
from tickwheel.scheduler import AsyncScheduler
from tickwheel.stores import Store
from tickwheel.stores.memory import MemoryStore

T = TypeVar("T")

# A year has to pass in seconds: leases are renewed every two hours instead of every second.
UNHURRIED = {"lease_ttl_ms": 6 * 3_600_000, "rescan_ms": 3_600_000, "horizon_ms": 86_400_000}


class World:
    """A clock, a store, and schedulers that come and go."""

    def __init__(self, seed: int = 0, **options: Any) -> None:
        self.clock = VirtualClock()
        self.chance = Random(seed)
        self.options = {**UNHURRIED, **options}
        self.store: Store = MemoryStore(now_ms=self.now)
        self.events: list[Event] = []
        self.ran: list[tuple[int, str]] = []  # when, and what

    def now(self) -> int:
        return self.clock.time_ns() // 1_000_000

    def scheduler(self, **options: Any) -> AsyncScheduler:
        """Make a scheduler that knows the handlers of this world."""
        scheduler = AsyncScheduler(
            self.store, clock=self.clock, rng=Random(self.chance.random()), **{**self.options, **options}
        )
        scheduler.events.listen(self.events.append)

        @scheduler.task("note")
        async def note(what: str) -> str:
            self.ran.append((self.now(), what))
            return what

        @scheduler.task("fail", retries=2)
        async def fail(what: str) -> None:
            self.ran.append((self.now(), what))
            raise ValueError(what)

        @scheduler.task("work")
        async def work(what: str, seconds: float) -> None:
            self.ran.append((self.now(), what))
            await asyncio.sleep(seconds)

        return scheduler

    def perform(self, story: Callable[[], Awaitable[T]]) -> T:
        """Let a story happen that makes its own schedulers, in virtual time."""

        async def main() -> T:
            return await story()

        return aio.run(main(), clock=self.clock)

    def play(self, story: Callable[[AsyncScheduler], Awaitable[T]], **options: Any) -> T:
        """Let a story happen on a scheduler, in virtual time."""

        async def main() -> T:
            async with self.scheduler(**options) as scheduler:
                return await story(scheduler)

        return aio.run(main(), clock=self.clock)

    def kinds(self, task_id: str) -> list[str]:
        """List what happened to a task."""
        return [event.kind for event in self.events if event.task_id == task_id]
