"""How a scenario of the suite is run, and what most of them need."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from tickwheel.clock import VirtualClock
from tickwheel.errors import TickwheelError
from tickwheel.stores.contract import Lease, Store
from tickwheel.tasks.record import Task
from tickwheel.testing.stores.legal import LegalStore

__all__ = ["Opening", "end_of", "ids", "lapse", "now_of", "own", "raised", "scenario", "start", "task"]

S = TypeVar("S", bound="Opening")
E = TypeVar("E", bound=TickwheelError)

TTL_MS = 3000


class Opening:
    """What a subclass of the suite has to say: how to open its store."""

    def open(self, clock: VirtualClock) -> AbstractAsyncContextManager[Store]:
        """Open a fresh store of at least eight partitions, on this clock."""
        raise NotImplementedError


def scenario(
    story: Callable[[S, LegalStore, VirtualClock], Coroutine[Any, Any, None]],
) -> Callable[[S], None]:
    """Make of a story about a store a test that pytest can call."""

    def test(self: S) -> None:
        async def main() -> None:
            clock = VirtualClock()
            async with self.open(clock) as store:
                await story(self, LegalStore(store), clock)

        asyncio.run(main())

    # Not functools.wraps: pytest would look through it, and take the store and the clock for fixtures.
    test.__name__, test.__qualname__, test.__doc__ = story.__name__, story.__qualname__, story.__doc__
    return test


def now_of(clock: VirtualClock) -> int:
    """Read a clock in milliseconds."""
    return clock.time_ns() // 1_000_000


def task(task_id: str, run_at: int = 1000, **fields: Any) -> Task:
    """Make a task of which only a little matters."""
    told = {"handler": "orders.cancel", "occurrence_at": run_at, "created_at": 0, **fields}
    return Task(id=task_id, run_at=run_at, **told)


def ids(tasks: list[Any]) -> list[str]:
    """Return the ids of tasks, or of what is due."""
    return [each.id for each in tasks]


async def raised(kind: type[E], call: Awaitable[object]) -> E:
    """Return the error that a call has to raise."""
    try:
        answer = await call
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected, and there was {answer!r}")


async def own(store: Store, *partitions: int, node: str = "here", ttl_ms: int = TTL_MS) -> list[Lease]:
    """Take leases that are free."""
    leases = await store.acquire(partitions or range(store.partitions), node, ttl_ms)
    assert leases
    return leases


def end_of(store: Store, clock: VirtualClock, ttl_ms: int = TTL_MS) -> int | None:
    """Return when a lease ends that is taken now; None if it does not."""
    return now_of(clock) + ttl_ms if store.timed_leases else None


async def lapse(store: Store, clock: VirtualClock, leases: list[Lease]) -> None:
    """Let leases come to their end: by time, or where they have none by giving them back."""
    if store.timed_leases:
        clock.advance(10)
    else:
        await store.release(leases)


async def start(store: Store, *tasks: Task) -> tuple[list[Lease], list[Task]]:
    """Add tasks, take their partitions and claim them."""
    await store.add(tasks)
    leases = await own(store, *sorted({each.partition for each in tasks}))
    return leases, await store.claim(leases, ids(list(tasks)), max(each.run_at for each in tasks))
