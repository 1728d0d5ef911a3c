"""The dispatcher: claims what is due and can begin.

Tasks are claimed some milliseconds ahead, in one fenced write for all of them, and then begun exactly when they are
due, by the wall clock. When the first is due within half of that time, all that are due within the whole are claimed:

    now         25 ms        50 ms
    |-----------|------------|              a claim is a commit: at 1,000 tasks a second some 40 a second, not 1,000
         first .  . . .  . .

Only what can begin is claimed: of all that is due, the highest priority whose handler and pool have room.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from typing import Final

from tickwheel.clock import Clock
from tickwheel.cluster import Ownership
from tickwheel.scheduler.engine.batches import claim_in_parts
from tickwheel.scheduler.engine.completer import Completer
from tickwheel.scheduler.engine.due_index import DueIndex
from tickwheel.scheduler.engine.executor import Executor
from tickwheel.scheduler.engine.loader import Loader
from tickwheel.scheduler.options import Options
from tickwheel.stores.contract import Due, Lease, Store, due_entry
from tickwheel.tasks.record import Status, UnreadableTask
from tickwheel.tasks.registry import Registry
from tickwheel.workers import Workers

__all__ = ["Dispatcher"]

OUTLIVED_S: Final = 0.5  # between two looks whether a run that outlived its scheduler is over: few have one
REFUSED_S: Final = 0.1  # before a claim is tried again that was refused
COLLECTED_MAX: Final = 1_000  # tasks that come due in one step of the loop: some milliseconds


class Dispatcher:
    """Brings tasks of one engine from the due index to the executor."""

    def __init__(
        self,
        store: Store,
        ownership: Ownership,
        index: DueIndex,
        loader: Loader,
        executor: Executor,
        completer: Completer,
        *,
        registry: Registry,
        workers: Workers,
        clock: Clock,
        options: Options,
        changed: asyncio.Event,
        claiming: asyncio.Lock,
        check_clock: Callable[[], None],
        doubt: Callable[[], None],
        route: Callable[[], None],
    ) -> None:
        self._store = store
        self._ownership = ownership
        self._index = index
        self._loader = loader
        self._executor = executor
        self._completer = completer
        self._registry = registry
        self._workers = workers
        self._clock = clock
        self._options = options
        self._changed = changed  # in the index, or in what can begin
        self._claiming = claiming  # held while a claim is made: what it brings is in flight in a moment
        self._check_clock = check_clock
        self._doubt = doubt  # a claim may have been made whose answer was lost
        self._route = route  # what is due and cannot run here goes elsewhere
        self._held_back: Counter[str] = Counter()  # tasks that are being changed here: not to be claimed
        self._set_aside: dict[str, Due] = {}  # of these, what came due meanwhile
        self._stopping = False

    def _now(self) -> int:
        return self._clock.time_ns() // 1_000_000

    def stop(self) -> None:
        """Claim nothing more."""
        self._stopping = True
        self._changed.set()

    # -- claim

    async def dispatch(self) -> None:
        """Claim what is due and can begin; if nothing is, wait until that may have changed."""
        self._changed.clear()
        self._check_clock()
        now = self._now()
        room = min(self._options.in_flight_max - len(self._executor), self._workers.free, self._options.batch_max)
        leases = self._ownership.leases()
        if leases and not self._stopping:
            due = self._index.wheel.next_due()
            if due is not None and due - self._options.ahead_ms // 2 <= now:
                await self._collect(now + self._options.ahead_ms)
            self._index.collect_due(self._now())
            self._route()
            capacity = self._workers.capacity(self._registry, self._executor.reserved())
            entries = self._index.ready.take(room, capacity.admits, capacity.admits_at_once)
            if self._index.ready.wanting:
                self._loader.want()
            if entries:
                async with self._claiming:
                    await self._claim_with_outcomes(leases, entries, now)
                return
            if room <= 0:
                self._completer.hurry()  # what is over makes room as soon as that is written
        await self._rest()

    async def _collect(self, until: int) -> None:
        """Move everything that is due from the wheel to where the most urgent is chosen from."""
        done = self._index.collect(self._now(), until, COLLECTED_MAX)
        while not done:
            await asyncio.sleep(0)  # others on the loop have their turn before the rest
            done = self._index.collect(self._now(), until, COLLECTED_MAX)

    async def _rest(self) -> None:
        """Wait until something is due, or there is room for it, or something changed."""
        wait_ms = self._options.rescan_ms
        due, soon = self._index.wheel.next_due(), self._index.next_soon()
        if due is not None:
            wait_ms = min(max(due - self._options.ahead_ms // 2 - self._now(), 1), wait_ms)
        if soon is not None:
            wait_ms = min(max(soon - self._now(), 1), wait_ms)
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _claim_with_outcomes(self, leases: list[Lease], entries: list[Due], now: int) -> None:
        """Claim tasks, and have outcomes written at the same time: for some stores that is one commit, not two."""
        self._completer.hurry()
        await asyncio.sleep(0)  # they are on their way before the claim is
        await self._claim(leases, self._leave_out(entries), now)

    async def _claim(self, leases: list[Lease], entries: list[Due], now: int) -> None:
        if not entries:
            return
        partitions = {due.partition for due in entries}
        leases = [lease for lease in leases if lease.partition in partitions]
        heard = dict(self._store.running_changes())
        try:
            claimed = await claim_in_parts(
                self._store, leases, [due.id for due in entries], now + self._options.ahead_ms
            )
        except BaseException:
            self._try_again(entries)  # what was not claimed is still due
            self._doubt()
            raise
        self._executor.launch(claimed, leases, heard)
        # Read from the store before the claim, they may have been entered again meanwhile.
        ids = {task.id for task in claimed}
        self._index.drop_all(ids)
        now = self._now()
        # Held back since, or the clock was set back meanwhile, or another task of that id that is not claimed ahead.
        until, held_back = now + self._options.ahead_ms, self._held_back
        if unwanted := [
            task.id for task in claimed if task.run_at > (now if task.at_most_once else until) or task.id in held_back
        ]:
            await self._executor.release(unwanted)
        if len(ids) < len(entries):
            await self._look_again([due for due in entries if due.id not in ids])

    async def _look_again(self, refused: list[Due]) -> None:
        """Enter what could not be claimed as it is now: most of it is over, and some was changed.

        Of the rest, nothing is known but that it waits: the clock may have been set back a little.
        """
        versions = {due.id: due.version for due in refused}
        waits: list[Due] = []
        for task in await self._store.get(list(versions)):
            if task is None or task.listed_status is not Status.PENDING or isinstance(task, UnreadableTask):
                continue
            if task.version != versions[task.id] and task.run_at <= self._loader.loaded_until:
                self._loader.enter([due_entry(task)])
            elif task.version == versions[task.id]:
                waits.append(due_entry(task))
        if waits:
            asyncio.get_running_loop().call_later(REFUSED_S, self._try_again, waits)

    # -- what is being changed in this process

    @asynccontextmanager
    async def hold_back(self, ids: Collection[str]) -> AsyncIterator[None]:
        """Claim none of these tasks meanwhile, and give up the claims of those that have not begun.

        Tasks are claimed some milliseconds before they are due. In this process they count as pending until they
        begin:

            claim       cancel, pause, ...         due
            |-----------|--------------------------|
                        given up, then changed
        """
        self._held_back.update(ids)
        try:
            await self._executor.release(ids)  # first, or they would begin while we wait
            async with self._claiming:
                pass  # what is being claimed is in flight in a moment
            await self._executor.release(ids)
            yield
        finally:
            self._held_back.subtract(ids)
            self._held_back += Counter()  # drops what is zero
            free = [due for due in self._set_aside.values() if due.id not in self._held_back]
            for due in free:
                del self._set_aside[due.id]
            self._try_again(free)

    def _leave_out(self, entries: list[Due]) -> list[Due]:
        """Set aside what is held back, and what still runs on a thread that the last stop() did not wait for."""
        if self._workers.outliving:
            outlived = [due for due in entries if due.id in self._workers.outliving]
            entries = [due for due in entries if due not in outlived]
            if outlived:
                asyncio.get_running_loop().call_later(OUTLIVED_S, self._try_again, outlived)
        self._set_aside.update((due.id, due) for due in entries if due.id in self._held_back)
        return [due for due in entries if due.id not in self._held_back]

    def _try_again(self, entries: Iterable[Due]) -> None:
        self._loader.enter(due for due in entries if self._index.where(due.id) is None)  # or it was changed since
