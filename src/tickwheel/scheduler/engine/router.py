"""The router: moves due tasks to a node that has their handler, where this one does not, or has no pool for it.

    due here, cannot run here      --> which nodes have it? --> moved to a partition of one of them, which is told
                                       none: it stays pending, and is reconsidered when nodes change

The nodes and what they own are read just before a move, so that a task goes to a node that has its handler by what is
stored then. Nothing is read while every due task can run here, or while no node is known to have it.
"""

import asyncio
from collections.abc import Callable
from typing import Final, cast

from tickwheel.clock import Clock
from tickwheel.cluster import Ownership
from tickwheel.scheduler.engine.batches import call_in_parts, collect_answers
from tickwheel.scheduler.engine.due_index import DueIndex
from tickwheel.stores.contract import Lease, RoutesTasks, Store

__all__ = ["Router"]

BATCH_MAX: Final = 500  # tasks in one move; some milliseconds of the store's time
AGAIN_S: Final = 0.1  # until a node that just came owns a partition, at first
AGAIN_S_MAX: Final = 1.0


class Router:
    """Moves tasks out of the partitions of one engine; `read_more` is called when there is room for more of them."""

    def __init__(
        self,
        store: Store,
        ownership: Ownership,
        index: DueIndex,
        *,
        can_run: Callable[[str], bool],
        clock: Clock,
        read_more: Callable[[], None],
    ) -> None:
        self._store = store
        self.routes = hasattr(store, "move")  # whether tasks can be moved in this store
        self._ownership = ownership
        self._index = index
        self._can_run = can_run  # here, a handler by its name
        self._clock = clock
        self._read_more = read_more
        self._wanted = asyncio.Event()  # something may be moved
        self._stale = True  # nodes may have changed since they were read
        self._elsewhere: frozenset[str] = frozenset()  # the handlers of other nodes, when they were read
        self._turn = 0
        self._pause_s = AGAIN_S

    def refresh(self) -> None:
        """Reconsider what waits for a handler: nodes came or went, or have other handlers."""
        self._stale = True
        self.look()

    def look(self) -> None:
        """Begin to move what is due and cannot run here, if there may be a node for it."""
        if self.routes and self._movable():
            self._wanted.set()

    def _movable(self) -> list[str]:
        """List the handlers of due tasks that cannot run here, and may elsewhere."""
        due = self._index.ready.handlers()
        return [name for name in due if not self._can_run(name) and (self._stale or name in self._elsewhere)]

    async def route(self) -> None:
        """Wait until something may be moved, and move some of it."""
        await self._wanted.wait()
        self._wanted.clear()
        begun_ns = self._clock.monotonic_ns()
        try:
            moved = await self._move()
        except BaseException:
            self._wanted.set()
            raise
        if not self._movable():
            self._pause_s = AGAIN_S
            return
        self._wanted.set()
        if moved:  # claims and outcomes have at least half of the store's time
            self._pause_s = AGAIN_S
            await asyncio.sleep((self._clock.monotonic_ns() - begun_ns) / 1e9)
        else:  # who has the handler owns no partition yet
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(self._pause_s * 2, AGAIN_S_MAX)

    async def _move(self) -> int:
        """Move a batch for each handler that another node has; return how many tasks were moved or are gone."""
        targets = await self._targets()
        settled = 0
        for handler in self._movable():
            batch = self._index.ready.best(handler, BATCH_MAX) if targets.get(handler) else []
            if not batch:
                continue
            self._turn += 1
            partition = targets[handler][self._turn % len(targets[handler])]
            sources = {due.partition for due in batch}
            leases = [lease for lease in self._ownership.leases() if lease.partition in sources]
            if not leases:
                continue
            await self._move_batch(leases, [due.id for due in batch], partition)
            for due in batch:  # what was not moved is not pending here any more
                self._index.ready.drop(due.id)
            settled += len(batch)
        if self._index.ready.wanting:
            self._read_more()
        return settled

    async def _move_batch(self, leases: list[Lease], ids: list[str], partition: int) -> None:
        store = cast("RoutesTasks", self._store)
        parts = await call_in_parts(lambda part: store.move(leases, part, partition), ids)
        collect_answers("moved", parts)

    async def _targets(self) -> dict[str, list[int]]:
        """Read, for each handler, the partitions of other nodes that have it."""
        self._stale = False
        try:
            nodes = await cast("RoutesTasks", self._store).nodes()
            held = await self._store.leases()
        except BaseException:
            self._stale = True
            raise
        owned: dict[str, list[int]] = {}
        for lease in held:
            owned.setdefault(lease.node, []).append(lease.partition)
        targets: dict[str, list[int]] = {}
        for node in nodes:
            if node.name != self._ownership.node:
                for handler in node.handlers or ():
                    targets.setdefault(handler, []).extend(owned.get(node.name, ()))
        self._elsewhere = frozenset(targets)
        return targets
