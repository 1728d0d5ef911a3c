"""The engine: brings tasks from the store to the workers and their outcomes back.

    store --load--> agenda --due--> ready --claim--> in flight --run--> outcome --finish--> store
            far       soon             by priority  fenced       workers            fenced

Seven loops share the work: one holds our partitions and one watches for others to take over, one keeps the agenda
filled with what comes into the horizon, one turns it and claims, one turns the queues, one writes outcomes, and one
listens to what others change. Each does one thing in batches, survives a store that is away for a while, and holds
nothing that the store does not have: after a crash another engine goes on.

Tasks are claimed some milliseconds ahead, in one fenced write for all of them, and then started exactly when they are
due, by the wall clock. When the first is due within half of that time, all that are due within the whole are claimed:

    now         25 ms        50 ms
    |-----------|------------|              a claim is a commit: at 1,000 tasks a second some 40 a second, not 1,000
         first .  . . .  . .

Only what can begin is claimed: of all that is due, the highest priority whose handler and pool have room. A step of
the wall clock is noticed: forward, tasks are due by their late policy; back, the agenda is loaded anew, and nothing
runs before its time comes again.
"""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager, suppress
from itertools import compress
from operator import add
from random import Random
from typing import Final

from tickwheel.clock import Clock
from tickwheel.cluster import Holdings, StoreClock
from tickwheel.errors import StoreError
from tickwheel.observe.events import Events
from tickwheel.observe.picture import Dials, Picture
from tickwheel.scheduler.agenda import Agenda
from tickwheel.scheduler.flights import Flights, told_of
from tickwheel.scheduler.options import Options
from tickwheel.scheduler.queues import Queues
from tickwheel.scheduler.ready import ReadyTasks
from tickwheel.scheduler.recovery import Recovery
from tickwheel.scheduler.unbroken import uninterrupted
from tickwheel.stores.contract import Due, Lease, Store
from tickwheel.tasks import outcomes
from tickwheel.tasks.record import Status, Task
from tickwheel.tasks.registry import Registry
from tickwheel.workers import Workers

__all__ = ["Engine"]

log = logging.getLogger("tickwheel.scheduler")

STEP_MS: Final = 1_000  # a wall clock that goes back by more than this was set, not corrected
LISTEN_S: Final = 0.1  # between two looks at what others changed, at the least
LISTEN_SHARE: Final = 10  # and so many times as long as the last one took
LISTEN_S_MAX: Final = 1.0  # but no longer: a look takes long as well if the process is suspended meanwhile
DRAIN_S: Final = 0.02  # between two looks whether something still runs in what is to be given back
PAUSE_S: Final = 0.1  # after a store could not be reached, at first
PAUSE_S_MAX: Final = 5.0
COLLECTED_MAX: Final = 1_000  # tasks that come due in one step of the loop: some milliseconds
LAST_ID: Final = "\U0010ffff"  # after every id


class Engine:
    """Runs the tasks of the partitions it can get."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        workers: Workers,
        *,
        node: str,
        clock: Clock,
        events: Events,
        options: Options,
        chance: Random,
    ) -> None:
        self.node = node
        self._store = store
        self._workers = workers
        self._clock = clock
        self._events = events
        self._options = options
        self._agenda = Agenda(self._now())
        self._ready = ReadyTasks()
        self._registry = registry
        self._claiming = asyncio.Lock()
        self._holdings = Holdings(store, node, clock, options.lease_ttl_ms, lost=self._forget)
        self._flights = Flights(
            store,
            registry,
            workers,
            self._holdings,
            clock=clock,
            events=events,
            chance=chance,
            batch_max=options.batch_max,
            landed=self._landed,
        )
        self.queues = Queues(
            store,
            self._holdings,
            self._flights,
            clock=clock,
            events=events,
            chance=chance,
            landed=self._landed,
            doubt=self._doubt,
            claiming=self._claiming,
            origin=self._agenda.origin,  # as one wheel they are shown
            look_ms=options.rescan_ms,
        )
        self._loaded_until = 0
        self._rescan_at = self._now() + options.rescan_ms
        self._hints = self._changes()  # before anything is loaded, so that nothing comes in between
        self._untold: set[int] = set()  # where something changed, and nobody has looked yet
        self._held = asyncio.Event()  # there was a round, and something may be new
        self._look = asyncio.Event()  # at the agenda
        workers.on_free = self._look.set
        self._held_back: Counter[str] = Counter()  # tasks that are being changed here: not to be claimed
        self._set_aside: dict[str, Due] = {}  # of these, what came due meanwhile
        self._stopping = False
        self._grace_s = math.inf  # at most, however long stop() was told to wait
        self._grace: asyncio.Timeout | None = None  # while runs are waited for
        self._doubtful = False  # whether a claim was made that nobody knows of
        self._loops: list[asyncio.Task[None]] = []
        self._ticks = 0  # of agendas before this one
        self._wall_ahead_ns = clock.time_ns() - clock.monotonic_ns()

    def _now(self) -> int:
        return self._clock.time_ns() // 1_000_000

    # -- begin and end

    async def start(self) -> Recovery:
        """Take over, see what was left undone, and begin; returns what was found.

        If that fails or is cancelled, nothing runs afterwards, and no partition is held.
        """
        self._loaded_until = self._now() + self._options.horizon_ms
        try:
            await uninterrupted(self._holdings.take())  # broken off, it might leave us leases that we do not know of
            self._begin(hold=self._hold)  # however long it takes to see what was left
            recovery = await self._recover(self._holdings.new())
        except (Exception, asyncio.CancelledError):
            await uninterrupted(self._withdraw())
            raise
        self._begin(
            watch=self._holdings.watch,
            keep=self._keep,
            turn=self._turn,
            queues=self.queues.turn,
            write=self._flights.write,
            listen=self._listen,
        )
        return recovery

    async def _withdraw(self) -> None:
        """Release all partitions, so that the next start does not have to wait for their leases to expire."""
        with suppress(StoreError):
            await self._holdings.retire()  # before the loops end: no round is broken off
        await self._end_loops()
        with suppress(StoreError):
            await self._holdings.leave()

    def _begin(self, **steps: Callable[[], object]) -> None:
        self._loops += [asyncio.create_task(self._persist(name, step)) for name, step in steps.items()]

    async def _end_loops(self) -> None:
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)

    async def stop(self, grace_s: float) -> None:
        """Begin nothing more, wait for what runs, write its outcomes, and let others have the partitions."""
        self._stopping = True
        self._look.set()
        self._flights.halt()
        self.queues.stop()
        async with self._claiming:
            pass  # what is being claimed is ours to run: broken off, it would look as if we had died with it
        await self._holdings.retire()
        begun_ns = self._clock.monotonic_ns()
        try:
            async with asyncio.timeout(min(grace_s, self._grace_s)) as self._grace:
                await self._flights.idle.wait()
        except TimeoutError:
            waited_s = round((self._clock.monotonic_ns() - begun_ns) / 1e9, 1)
            log.warning(
                "%d tasks still run after %g s; they are stopped, to be run again", len(self._flights), waited_s
            )
        finally:
            self._grace = None
        await self._end_loops()
        await self.queues.close()
        await self._flights.close()
        await self._holdings.leave()

    def limit_grace(self, grace_s: float) -> None:
        """Let runs take at most so long when it stops; if it is stopping, from now."""
        self._grace_s = min(self._grace_s, grace_s)
        if self._grace is not None and not self._grace.expired():
            ends = asyncio.get_running_loop().time() + grace_s
            self._grace.reschedule(min(ends, self._grace.when() or ends))

    async def _persist(self, name: str, step: Callable[[], object]) -> None:
        """Take a step again and again; wait longer and longer while the store is away."""
        pause_s = PAUSE_S
        while True:
            try:
                await step()  # type: ignore[misc] # every step is a coroutine function
                pause_s = PAUSE_S
                continue
            except StoreError as error:
                log.warning("%s: %s; trying again in %g s", name, error, pause_s)
            except Exception:
                log.exception("%s: this is a mistake of ours; trying again in %g s", name, pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_S_MAX)

    # -- hold: our partitions

    async def _hold(self) -> None:
        if self._holdings.leaving:
            await self._hand_over()  # also where a round takes so long that the next one is due
        while not await self._holdings.rest(DRAIN_S if self._holdings.leaving else None):
            await self._hand_over()
        if self._doubtful:
            # A claim without an answer may have been made: under new leases it shows as an orphan.
            self._holdings.let_go()
            self._doubtful = False
            await self._hand_over()
        if isinstance(self._clock, StoreClock):
            await self._clock.set_by(self._store)
        await self._holdings.take(self._busy())
        self._held.set()

    def _busy(self) -> set[int]:
        return {task.partition for task in self._flights.tasks()} | self.queues.leases.partitions()

    async def _hand_over(self) -> None:
        """Give back the partitions that others shall have, and in which nothing runs any more."""
        async with self._claiming:  # what is being claimed is in flight in a moment
            await self._holdings.give_back(self._busy())

    def _forget(self, partitions: Collection[int]) -> None:
        self._agenda.drop_partitions(partitions)
        self._ready.drop_partitions(partitions)
        self.queues.soon.drop_partitions(partitions)

    # -- keep: what comes into the horizon

    async def _keep(self) -> None:
        self._held.clear()
        if new := self._holdings.new():
            await self._recover(new)
        now = self._now()
        leases = self._holdings.kept()
        if leases and now + self._options.horizon_ms // 2 > self._loaded_until:
            await self._load(leases, (self._loaded_until, LAST_ID), now + self._options.horizon_ms)
            self._loaded_until = now + self._options.horizon_ms
        if now >= self._rescan_at:
            await self._load(leases, None, now + 2 * self._options.rescan_ms)  # what a lost hint spoke of
            await self._store.purge(now - self._options.retention_ms)
            self._rescan_at = now + self._options.rescan_ms
        if leases:
            moments = (self._agenda.next_due(), self._ready.oldest_due(), now)
            await self._store.checkpoint(leases, min(moment for moment in moments if moment is not None))
        await self._held.wait()

    async def _recover(self, leases: list[Lease]) -> Recovery:
        """Put back what died with an earlier owner, and load what is due."""
        now = self._now()
        orphaned = 0
        while found := await self._store.orphans(leases, self._options.batch_max):
            left = [task for task in found if task.id not in self._flights and task.id not in self.queues.leases]
            if not left:
                break  # they run right here, under leases that we had before
            wanted = (self._flights.finish(task, outcomes.orphan(task, now)) for task in left)
            batch = [finish for finish in wanted if finish is not None]
            accepted = await self._store.finish(batch)
            if not any(accepted):
                break  # they are not ours to put back any more
            orphaned += sum(accepted)
            for finish in compress(batch, accepted):
                self._events.happened(told_of(finish.task), finish.task, now, run=finish.run)
        overdue = await self._load(leases, None, self._loaded_until)
        self._holdings.looked_through(leases)
        checkpoints = [lease.checkpoint for lease in leases if lease.checkpoint]
        down_ms = now - min(checkpoints) if checkpoints else 0
        return Recovery(partitions=len(leases), down_ms=max(down_ms, 0), overdue=overdue, orphaned=orphaned)

    async def _load(self, leases: list[Lease], after: tuple[int, str] | None, until: int) -> int:
        """Bring pending tasks into the agenda, page by page; return how many of them are overdue."""
        overdue, now = 0, self._now()
        while leases:
            page = await self._store.due(leases, until, after, self._options.batch_max)
            self._enter(page)
            overdue += sum(due.run_at < now for due in page)
            if len(page) < self._options.batch_max:
                break
            after = (page[-1].run_at, page[-1].id)
        return overdue

    def _enter(self, page: Iterable[Due]) -> None:
        for due in page:
            if not self._holdings.keeps(due.partition):
                continue
            if due.queue is not None:
                self._drop(due.id)
                self.queues.put(due)
            elif due.id not in self._flights:
                self._enter_run(due)
        self._look.set()

    def _enter_run(self, due: Due) -> None:
        if due.run_at <= self._agenda.now:  # its hand has passed
            self._agenda.drop(due.id)
            self._ready.put(due)
        else:
            self._ready.drop(due.id)
            self._agenda.put(due)

    def _drop(self, task_id: str) -> None:
        self._agenda.drop(task_id)
        self._ready.drop(task_id)

    # -- turn: from the agenda to the workers

    async def _turn(self) -> None:
        self._look.clear()
        now = self._now()
        if now + self._options.ahead_ms + STEP_MS < self._agenda.now:
            await self._reload()
        room = min(self._options.in_flight_max - len(self._flights), self._workers.free, self._options.batch_max)
        leases = self._holdings.leases()
        if leases and not self._stopping:
            due = self._agenda.next_due()
            if due is not None and due - self._options.ahead_ms // 2 <= now:
                await self._collect(now + self._options.ahead_ms)
            capacity = self._workers.capacity(self._registry, self._flights.claimed)
            entries = self._ready.take(room, capacity.admits)
            if entries:
                async with self._claiming:
                    await self._claim(leases, self._leave_out(entries), now)
                return
        await self._rest()

    async def _collect(self, until: int) -> None:
        """Move everything that is due from the agenda to where the most urgent is chosen from."""
        while entries := self._agenda.take(until, COLLECTED_MAX):
            for due in entries:
                self._ready.put(due)
            if len(entries) < COLLECTED_MAX:
                break
            await asyncio.sleep(0)  # others on the loop have their turn before the rest

    async def _rest(self) -> None:
        """Wait until something is due, or there is room for it, or something changed."""
        due = self._agenda.next_due()
        wait_ms = self._options.rescan_ms
        if due is not None:
            wait_ms = min(max(due - self._options.ahead_ms // 2 - self._now(), 1), wait_ms)
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await self._look.wait()
        except TimeoutError:
            pass

    async def _reload(self) -> None:
        """Begin with an empty agenda: the clock went back, and what was due may not be any more."""
        log.warning("the clock was set back; loading again what is due")
        self._ticks += self._agenda.ticks
        self._agenda = Agenda(self._now())
        self._ready = ReadyTasks()
        self.queues.forget(self._agenda.origin)
        until = self._now() + self._options.horizon_ms
        await self._load(self._holdings.kept(), None, until)
        self._loaded_until = until

    async def _claim(self, leases: list[Lease], entries: list[Due], now: int) -> None:
        if not entries:
            return
        partitions = {due.partition for due in entries}
        leases = [lease for lease in leases if lease.partition in partitions]
        try:
            claimed = await self._store.claim(leases, [due.id for due in entries], now + self._options.ahead_ms)
        except BaseException:
            self._enter(entries)  # what was not claimed is still due
            self._doubt()
            raise
        self._flights.launch(claimed)

    def _doubt(self) -> None:
        self._doubtful = True

    def _landed(self, task: Task | None) -> None:
        """Look again: there is more room, and a task that is pending again may be due."""
        self._look.set()
        if task is not None:
            self.note(task)

    # -- listen: what others change

    async def _listen(self) -> None:
        if not self._untold:  # what could not be looked at is looked at again
            self._untold = await self._hint()
        changed = self._untold
        begun_ns = self._clock.monotonic_ns()
        # Whether we may begin anything there is asked later: what is told now is not told again.
        leases = [lease for lease in self._holdings.kept() if lease.partition in changed]
        # What is due later is found in time by the next rescan.
        await self._load(leases, None, min(self._loaded_until, self._now() + 2 * self._options.rescan_ms))
        running = [task.id for task in self._flights.tasks() if task.partition in changed]
        running += self.queues.leases.ids(changed)
        for task in await self._store.get(running) if running else []:
            if task is not None and task.cancel_requested:
                self._flights.cancel(task.id)
                self.queues.leases.cancel(task.id)
        self._untold = set()
        # Most of what changes is our own doing, and known: looking for the rest gets a share of the time.
        took_s = (self._clock.monotonic_ns() - begun_ns) / 1e9
        await asyncio.sleep(min(max(LISTEN_S, took_s * LISTEN_SHARE), LISTEN_S_MAX))

    def _changes(self) -> AsyncIterator[set[int]]:
        return self._store.changes(range(self._store.partitions))

    async def _hint(self) -> set[int]:
        """Wait to be told where something changed: everywhere, perhaps, if nobody could tell for a while."""
        try:
            return await anext(self._hints)
        except (StoreError, StopAsyncIteration):
            self._hints = self._changes()
            return set(range(self._store.partitions))

    # -- what the scheduler of this process changes, known at once

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
            async with self._claiming:
                pass  # what is being claimed is in flight in a moment
            await self._flights.release(ids)
            yield
        finally:
            self._held_back.subtract(ids)
            self._held_back += Counter()  # drops what is zero
            free = [due for due in self._set_aside.values() if due.id not in self._held_back]
            for due in free:
                del self._set_aside[due.id]
            self._enter(free)

    def _leave_out(self, entries: list[Due]) -> list[Due]:
        """Set aside what is held back."""
        self._set_aside.update((due.id, due) for due in entries if due.id in self._held_back)
        return [due for due in entries if due.id not in self._held_back]

    def note(self, task: Task) -> None:
        """Take note of a task as it is in the store now."""
        if task.cancel_requested:
            self._flights.cancel(task.id)
            self.queues.leases.cancel(task.id)
        if task.status is not Status.PENDING or not self._holdings.keeps(task.partition):
            self._drop(task.id)
            self.queues.drop(task.id)
        elif task.run_at <= self._loaded_until:
            self._enter([Due(task.run_at, task.id, task.partition, task.priority, task.version, task.handler)])

    def where(self, task: Task) -> str:
        """Say where a task is now: running, in the wheel, or in the store alone."""
        if task.id in self._flights:
            return "running here"
        if task.id in self._agenda:
            return "in the wheel"
        if task.id in self._ready:
            return "due, waiting for a worker"
        return self.queues.where(task.id) or "in the store, beyond the horizon"

    def dials(self) -> Dials:
        """Return what the wheel looks like; to be asked on its loop."""
        now = self._now()
        return self._agenda.dials(now, len(self._ready)).and_those_of(self.queues.soon.dials(now))

    def slot(self, level: int, slot: int) -> list[Due]:
        """List what waits in a slot of the wheel."""
        return self._agenda.slot(level, slot) + self.queues.soon.slot(level, slot)

    def _oldest_due(self, now: int) -> int | None:
        """Return since when the oldest task has been due that is not claimed; None if there is none."""
        found = [moment for moment in (self._agenda.oldest_due(now), self._ready.oldest_due()) if moment is not None]
        return min((moment for moment in found if moment <= now), default=None)

    def picture(self) -> Picture:
        """Return how it stands; to be asked on its loop."""
        now = self._now()
        step_ns = self._clock.time_ns() - self._clock.monotonic_ns() - self._wall_ahead_ns
        return Picture(
            at=now,
            queued=len(self._flights),
            queued_max=self._options.in_flight_max,
            levels=list(map(add, self._agenda.levels(len(self._ready)), self.queues.soon.levels())),
            overflow=self._agenda.overflow + self.queues.soon.overflow,
            ticks=self._ticks + self._agenda.ticks,
            oldest_due_at=self._oldest_due(now),
            clock_step_ms=round(step_ns / 1_000_000),
            partitions=len(self._holdings.leases()),
            moves=dict(self._holdings.moves),
            parked=self.queues.parked,
            leased=len(self.queues.leases),
        )
