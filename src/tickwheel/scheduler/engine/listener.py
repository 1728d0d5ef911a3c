"""The listener: learns what other processes change, in the partitions of this engine.

    notification --> load what became pending, if it lies in the range that is loaded
                 --> look at the tasks in flight there, if one was changed: was it asked to stop?

A notification may be lost: a rescan finds the cancel, and the loader's the tasks it told of.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Container
from typing import Final

from tickwheel.clock import Clock
from tickwheel.cluster import Ownership
from tickwheel.errors import StoreError
from tickwheel.scheduler.engine.executor import Executor
from tickwheel.scheduler.engine.loader import Loader
from tickwheel.scheduler.queues import Queues
from tickwheel.stores.contract import ANYTHING, Change, Store

__all__ = ["Listener"]

LISTEN_S: Final = 0.1  # between two looks at what others changed, at the least
GET_MAX: Final = 1_000  # tasks in one call of the store; some milliseconds
LISTEN_SHARE: Final = 10  # and so many times as long as the last one took
LISTEN_S_MAX: Final = 1.0  # but no longer: a look takes long as well if the process is suspended meanwhile


class Listener:
    """Follows the notifications of a store, from its creation on; `cancel` is called for tasks asked to stop."""

    def __init__(
        self,
        store: Store,
        ownership: Ownership,
        loader: Loader,
        executor: Executor,
        queues: Queues,
        *,
        clock: Clock,
        rescan_ms: int,
        cancel: Callable[[str], None],
    ) -> None:
        self._store = store
        self._ownership = ownership
        self._loader = loader
        self._executor = executor
        self._queues = queues
        self._clock = clock
        self._rescan_ms = rescan_ms
        self._rescan_at_ns = clock.monotonic_ns() + rescan_ms * 1_000_000
        self._cancel = cancel
        self._notifications = self._subscribe()  # before anything is loaded, so that nothing comes in between
        self._changed: dict[int, Change] = {}  # by partition, what was notified of and not looked at yet

    def _subscribe(self) -> AsyncIterator[dict[int, Change]]:
        return self._store.changes(range(self._store.partitions))

    async def listen(self) -> None:
        """Wait for a notification, and look at what has changed."""
        if not self._changed:  # what could not be looked at is looked at again
            self._changed = await self._notification()
        changed = self._changed
        begun_ns = self._clock.monotonic_ns()
        # Whether we may begin anything there is asked later: what is told now is not told again.
        await self._loader.load_changed(changed)
        running = {partition for partition, change in changed.items() if change.runs}
        if running:
            await self._find_cancels(running)
        self._changed = {}
        # Most of what changes is our own doing, and known: looking for the rest gets a share of the time.
        took_s = (self._clock.monotonic_ns() - begun_ns) / 1e9
        await asyncio.sleep(min(max(LISTEN_S, took_s * LISTEN_SHARE), LISTEN_S_MAX))

    async def rescan(self) -> bool:
        """Find the cancels of running tasks whose notification was lost, from time to time; return whether it was."""
        now_ns = self._clock.monotonic_ns()
        if now_ns < self._rescan_at_ns:
            return False
        self._rescan_at_ns = now_ns + self._rescan_ms * 1_000_000
        await self._find_cancels(range(self._store.partitions))
        return True

    async def _find_cancels(self, partitions: Container[int]) -> None:
        """Cancel what runs or is leased here and was asked to stop, however much that is."""
        running = [task.id for task in self._executor.tasks() if task.partition in partitions]
        running += self._queues.leases.ids(partitions)
        for first in range(0, len(running), GET_MAX):
            for task in await self._store.get(running[first : first + GET_MAX]):
                if task is not None and task.cancel_requested:
                    self._cancel(task.id)

    async def _notification(self) -> dict[int, Change]:
        """Wait for a notification: of all partitions, if some may have been lost."""
        try:
            return await anext(self._notifications)
        except (StoreError, StopAsyncIteration):
            self._notifications = self._subscribe()
            return dict.fromkeys(range(self._store.partitions), ANYTHING)
