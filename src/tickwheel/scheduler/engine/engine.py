"""The engine itself: starts, supervises and stops the other parts, and keeps its partitions.

    own       renews the leases of our partitions, takes our share, hands over the rest
    watch     has that done as soon as another node gives something back
    maintain  recovers new partitions, writes checkpoints
    purge     deletes what is past retention, in small steps
    correct   corrects the times of tasks after the clock was set back
    load      keeps the due index filled
    read_on   reads more of handlers that have begun most of what was loaded
    dispatch  claims what is due and can begin
    route     moves what is due to a node that has its handler, if this one does not
    queues    parks what is due for consumers that lease it
    write     writes outcomes
    listen    learns what others change

Each of these is a loop. A loop that fails is logged and run again, with growing pauses while the store is unreachable.
A step of the wall clock is noticed: forward, tasks are due by their missed-run policy; back, the due index is loaded
again, and what waits for a moment waits for it to come again.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager, suppress
from operator import add
from random import Random
from typing import Final

from tickwheel.clock import Clock, ClockSteps
from tickwheel.cluster import Ownership, StoreClock
from tickwheel.errors import StoreError
from tickwheel.observe.events import Events
from tickwheel.observe.picture import Dials, Picture
from tickwheel.scheduler.background_calls import uninterrupted
from tickwheel.scheduler.engine.completer import Completer
from tickwheel.scheduler.engine.dispatcher import Dispatcher
from tickwheel.scheduler.engine.due_index import DueIndex
from tickwheel.scheduler.engine.executor import Executor
from tickwheel.scheduler.engine.janitor import Janitor, StartupReport
from tickwheel.scheduler.engine.listener import Listener
from tickwheel.scheduler.engine.loader import Loader
from tickwheel.scheduler.engine.router import Router
from tickwheel.scheduler.options import Options
from tickwheel.scheduler.queues import Queues
from tickwheel.stores.contract import Due, Store, due_entry
from tickwheel.tasks import transitions
from tickwheel.tasks.explain import STUCK, Obstacle
from tickwheel.tasks.record import ENDED, Status, Task
from tickwheel.tasks.registry import Registry
from tickwheel.workers import Workers

__all__ = ["Engine"]

log = logging.getLogger("tickwheel.scheduler")

REVIVE_S: Final = 0.1  # after its loops were cancelled
DRAIN_S: Final = 0.02  # between two looks whether something still runs in what is to be given back
PAUSE_S: Final = 0.1  # after the store could not be reached, at first
PAUSE_S_MAX: Final = 5.0
POOL_OPTIONS: Final = {"thread": "threads", "process": "processes", "loop": "the loop"}  # the loop is always there


class Engine:
    """Runs the tasks of the partitions it owns."""

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
        rng: Random,
    ) -> None:
        self.node = node
        self._store = store
        self._clock = clock
        self._options = options
        changed, claiming = asyncio.Event(), asyncio.Lock()
        self._changed = changed  # in the due index, or in what can begin
        self._claiming = claiming
        self._steps = ClockSteps(clock.time_ns, clock.monotonic_ns)
        self._index = DueIndex(self._now(), options.ahead_ms)
        self._registry = registry
        self._workers = workers
        self._ownership = ownership = Ownership(
            store, node, clock, options.lease_ttl_ms, lost=self._forget, handlers=self._runnable
        )
        self._completer = Completer(
            store,
            ownership,
            clock=clock,
            events=events,
            rng=rng,
            batch_max=options.batch_max,
            check_clock=self._check_clock,
            on_finished=self._on_finished,
            on_written=self._on_room,
        )
        self._executor = Executor(store, registry, workers, ownership, self._completer, clock=clock, events=events)
        self.queues = Queues(
            store,
            ownership,
            self._completer,
            clock=clock,
            events=events,
            rng=rng,
            doubt=self._doubt,
            claiming=claiming,
            origin=self._index.wheel.origin,  # as one wheel they are shown
            look_ms=options.rescan_ms,
        )
        self._loader = Loader(
            store, ownership, self._index, self._executor, self.queues, clock=clock, options=options, wake=changed.set
        )
        self._router = Router(
            store, ownership, self._index, can_run=self._can_run, clock=clock, read_more=self._loader.want
        )
        self._dispatcher = Dispatcher(
            store,
            ownership,
            self._index,
            self._loader,
            self._executor,
            self._completer,
            registry=registry,
            workers=workers,
            clock=clock,
            options=options,
            changed=changed,
            claiming=claiming,
            check_clock=self._check_clock,
            doubt=self._doubt,
            route=self._router.look,
        )
        self._listener = Listener(
            store,
            ownership,
            self._loader,
            self._executor,
            self.queues,
            clock=clock,
            rescan_ms=options.rescan_ms,
            cancel=self._cancel,
        )
        self._janitor = Janitor(
            store,
            ownership,
            self._index,
            self._loader,
            self._executor,
            self._completer,
            self.queues,
            clock=clock,
            events=events,
            options=options,
            rng=rng,
        )
        workers.on_free = self._on_room
        self._unreachable: set[str] = set()  # loops that could not reach the store the last time
        self._in_doubt = False  # whether a claim may have been made whose answer was lost
        self._owned = asyncio.Event()  # there was a round, and something may be new
        self._grace_s = math.inf  # at most, however long stop() was told to wait
        self._grace: asyncio.Timeout | None = None  # while runs are waited for
        self._loops: list[asyncio.Task[None]] = []
        self._ending = False
        self._warned: set[str] = set()  # handlers that were reported to have no pool
        self._cancelled: dict[str, Callable[[], object]] = {}  # by someone else: what they did
        self._wall_ahead_ns = clock.time_ns() - clock.monotonic_ns()

    def _now(self) -> int:
        return self._clock.time_ns() // 1_000_000

    # -- start and stop

    async def start(self) -> StartupReport:
        """Take over partitions, recover what was left undone, and begin; return what was found.

        If that fails or is cancelled, nothing runs afterwards, and no partition is held.
        """
        loop = asyncio.get_running_loop()
        self._registry.on_new = lambda: call_on(loop, self._on_new_handler)
        self._warn_of_missing_pools()
        try:
            await uninterrupted(self._ownership.take())  # broken off, it might leave us leases that we do not know of
            self._begin(own=self._own)  # however long it takes to see what was left
            report = await self._janitor.recover(self._ownership.new())
        except (Exception, asyncio.CancelledError):
            await uninterrupted(self._withdraw())
            raise
        self._begin(
            watch=self._ownership.watch,
            maintain=self._maintain,
            purge=self._janitor.purge,
            correct=self._janitor.correct,
            load=self._loader.load,
            read_on=self._loader.read_on,
            dispatch=self._dispatcher.dispatch,
            route=self._router.route,
            queues=self.queues.turn,
            write=self._completer.write,
            listen=self._listener.listen,
        )
        return report

    async def _withdraw(self) -> None:
        """Release all partitions, so that the next start does not have to wait for their leases to expire."""
        self._registry.on_new = None
        with suppress(StoreError):
            await self._ownership.retire()  # before the loops end: no round is broken off
        await self._end_loops()
        with suppress(StoreError):
            await self._ownership.leave()

    def _begin(self, **steps: Callable[[], object]) -> None:
        self._loops += [asyncio.create_task(self._run_loop(name, step)) for name, step in steps.items()]

    async def _end_loops(self) -> None:
        self._ending = True
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)

    async def stop(self, grace_s: float) -> None:
        """Begin nothing more, wait for what runs, write its outcomes, and let others have the partitions."""
        self._registry.on_new = None
        self._dispatcher.stop()
        self._executor.halt()
        self.queues.stop()
        try:
            await self._drain(grace_s)
        finally:  # whatever failed: others may have the partitions
            await self._end_loops()
            await self._ownership.leave()

    async def _drain(self, grace_s: float) -> None:
        """Wait for what runs, and write its outcomes."""
        async with self._claiming:
            pass  # what is being claimed is ours to run: broken off, it would look as if we had died with it
        with suppress(StoreError):
            await self._janitor.checkpoint(final=True)
        await self._ownership.retire()
        begun_ns = self._clock.monotonic_ns()
        try:
            async with asyncio.timeout(min(grace_s, self._grace_s)) as self._grace:
                await self._executor.idle.wait()
        except TimeoutError:
            waited_s = round((self._clock.monotonic_ns() - begun_ns) / 1e9, 1)
            if left := len(self._executor):
                log.warning("tasks still running after %g s: %d; they are stopped and will run again", waited_s, left)
        finally:
            self._grace = None
        await self._end_loops()
        await self.queues.close()
        await self._executor.close()
        await self._completer.flush()

    def limit_grace(self, grace_s: float) -> None:
        """Let runs take at most so long when it stops; if it is stopping, from now."""
        self._grace_s = min(self._grace_s, grace_s)
        if self._grace is not None and not self._grace.expired():
            ends = asyncio.get_running_loop().time() + grace_s
            self._grace.reschedule(min(ends, self._grace.when() or ends))

    async def _run_loop(self, name: str, step: Callable[[], object]) -> None:
        """Take a step again and again until we end; if someone else cancels that, begin again."""
        try:
            await self._persist(name, step)
        except asyncio.CancelledError:
            if not self._ending:
                self._note_cancelled(name, step)
            raise

    def _note_cancelled(self, name: str, step: Callable[[], object]) -> None:
        if not self._cancelled:
            log.error("something cancelled the asyncio tasks of this scheduler; they begin again")
            asyncio.get_running_loop().call_later(REVIVE_S, self._revive)
        self._cancelled[name] = step

    def _revive(self) -> None:
        """Begin what was cancelled: a handler did that, for where a program ends its loop is not running any more."""
        cancelled, self._cancelled = self._cancelled, {}
        self._loops = [loop for loop in self._loops if not loop.done()]
        if not self._ending:
            self._begin(**cancelled)

    async def _persist(self, name: str, step: Callable[[], object]) -> None:
        """Take a step again and again; wait longer and longer while the store is away."""
        pause_s = PAUSE_S
        while True:
            try:
                await step()  # type: ignore[misc] # every step is a coroutine function
                pause_s = PAUSE_S
                self._unreachable.discard(name)
                continue
            except StoreError as error:
                self._unreachable.add(name)
                log.warning("%s: %s; trying again in %g s", name, error, pause_s)
            except Exception:
                log.exception("%s: internal error; trying again in %g s", name, pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_S_MAX)

    # -- own: our partitions

    async def _own(self) -> None:
        if self._ownership.leaving:
            await self._hand_over()  # also where a round takes so long that the next one is due
        while not await self._ownership.rest(DRAIN_S if self._ownership.leaving else None):
            await self._hand_over()
        if self._in_doubt:
            # A claim without an answer may have been made: under new leases it shows as an orphan.
            self._ownership.release_all()
            self._in_doubt = False
            await self._hand_over()
        if isinstance(self._clock, StoreClock):
            await self._clock.set_by(self._store)
        self._check_clock()
        if await self._ownership.take(self._busy()):
            self._router.refresh()
        self._owned.set()

    def _on_new_handler(self) -> None:
        """Publish a handler that was registered after the start, and begin what waits for it."""
        self._warn_of_missing_pools()
        self._ownership.publish()
        self._changed.set()

    def _can_run(self, name: str) -> bool:
        """Tell whether this node has a handler, and workers for it."""
        return name in self._registry and self._workers.can_run(self._registry.find(name))

    def _runnable(self) -> list[str]:
        """List the handlers to publish: those that can run here."""
        return [name for name in self._registry.names() if self._can_run(name)]

    def _warn_of_missing_pools(self) -> None:
        for name in self._registry.names():
            if name not in self._warned and not self._can_run(name):
                self._warned.add(name)
                pool = self._registry.find(name).runs_in
                log.warning(
                    "handler %r runs in pool %r, and this scheduler has none: its tasks wait for a node that does; set "
                    "%s to 1 or more to run them here",
                    name,
                    pool,
                    POOL_OPTIONS[pool],
                )

    def _check_clock(self) -> None:
        """Go by the wall clock as it is now, if it was set."""
        step_ms = round(self._steps.take() / 1_000_000)
        back_ms = self._completer.take_latest() - self._now()
        if step_ms >= 0 and back_ms > transitions.STEP_MS:
            self._on_step(-back_ms)  # it was set forward and back again before anybody looked
        if step_ms:
            self._on_step(step_ms)

    def _on_step(self, step_ms: int) -> None:
        log.warning("the wall clock was set by %+g s", step_ms / 1000)
        self._completer.on_step(step_ms)
        self._loader.on_step(step_ms)
        self._janitor.on_step(step_ms)
        self.queues.look()
        self._changed.set()

    def _doubt(self) -> None:
        self._in_doubt = True

    def _busy(self) -> set[int]:
        return {task.partition for task in self._executor.tasks()} | self.queues.leases.partitions()

    async def _hand_over(self) -> None:
        """Give back the partitions that others shall have, and in which nothing runs any more."""
        async with self._claiming:  # what is being claimed is in flight in a moment
            busy = self._busy()
            await self._janitor.note_at_work(self._ownership.idle(busy))
            await self._ownership.give_back(busy, self._executor.occupied() | self.queues.leases.partitions())
        if self._ownership.new():
            self._owned.set()

    def _forget(self, partitions: Collection[int]) -> None:
        self._index.drop_partitions(partitions)
        self.queues.soon.drop_partitions(partitions)

    async def _maintain(self) -> None:
        self._owned.clear()
        if new := self._ownership.new():
            await self._janitor.recover(new)
        if await self._listener.rescan():
            await self._janitor.compare_clock()
        await self._janitor.checkpoint()
        await self._owned.wait()

    # -- what changes in this process, known at once

    def hold_back(self, ids: Collection[str]) -> AbstractAsyncContextManager[None]:
        """Claim none of these tasks meanwhile, and give up the claims of those that have not begun."""
        return self._dispatcher.hold_back(ids)

    def _on_finished(self, task_id: str, task: Task | None) -> None:
        """Look again: there is more room, and a task that is pending again may be due."""
        was_run = self._executor.remove(task_id)
        if was_run and task is not None and task.status in ENDED:  # it was taken out of the index when it was claimed
            if self._index.ready.wanting:
                self._loader.want()
            return
        self._on_room()
        if task is not None:
            self._janitor.note_pending_again(task_id)
            self.on_change(task)

    def _on_room(self) -> None:
        """Wake the dispatcher if something is due and waits for room: what is not due yet wakes it by itself."""
        if self._index.ready:
            self._changed.set()

    def on_change(self, task: Task) -> None:
        """Take note of a task as it is in the store now."""
        if task.cancel_requested:
            self._cancel(task.id)
        if task.listed_status is not Status.PENDING or not self._ownership.keeps(task.partition):
            self._index.drop(task.id)
            self.queues.drop(task.id)
            if self._index.ready.wanting:
                self._loader.want()
        elif task.run_at <= self._loader.loaded_until:
            self._loader.enter([due_entry(task)])

    def _cancel(self, task_id: str) -> None:
        self._executor.cancel(task_id)
        self.queues.leases.cancel(task_id)

    def has_begun(self, task: Task) -> bool:
        """Tell whether a running task has begun, as far as it is known here alone."""
        return self._executor.has_begun(task)

    def unbegun(self) -> int:
        """Count the running tasks that have not begun, as far as it is known here alone."""
        return self._executor.unbegun()

    def obstacle(self, task: Task) -> Obstacle | None:
        """Say what keeps a task from beginning, or its run from ending, as far as it is known here alone."""
        if self._executor.is_stuck(task.id):
            return "stuck"
        if self._unreachable and self._ownership.had_last(task.partition):
            return "store_unavailable"
        if not self._ownership.keeps(task.partition):
            return None
        if task.handler not in self._registry:
            return None if self._router.routes else "no_handler"
        handler = self._registry.find(task.handler)
        full = len(self._executor) >= self._options.in_flight_max and self._workers.can_run(handler)
        if full or task.id in self._workers.outliving:
            return "no_capacity"
        return self._workers.obstacle(handler)

    # -- what it looks like; to be asked on its loop

    def where(self, task: Task) -> str:
        """Say where a task is now: running, in the wheel, or in the store alone."""
        if task.id in self._executor:
            return STUCK if self._executor.is_stuck(task.id) else "running here"
        return self._index.where(task.id) or self.queues.where(task.id) or "in the store, beyond the horizon"

    def dials(self) -> Dials:
        """Return what the wheel looks like."""
        now = self._now()
        return self._index.dials(now).and_those_of(self.queues.soon.dials(now))

    def slot(self, level: int, slot: int) -> list[Due]:
        """List what waits in a slot of the wheel."""
        return self._index.wheel.slot(level, slot) + self.queues.soon.slot(level, slot)

    def picture(self) -> Picture:
        """Return its status."""
        now = self._now()
        step_ns = self._clock.time_ns() - self._clock.monotonic_ns() - self._wall_ahead_ns
        return Picture(
            at=now,
            queued=len(self._executor),
            queued_max=self._options.in_flight_max,
            levels=list(map(add, self._index.levels(), self.queues.soon.levels())),
            overflow=self._index.wheel.overflow + self.queues.soon.overflow,
            ticks=self._index.ticks,
            oldest_due_at=self._index.oldest_due(now),
            clock_step_ms=round(step_ns / 1_000_000),
            partitions=len(self._ownership.leases()),
            moves=dict(self._ownership.moves),
            parked=self.queues.parked,
            leased=len(self.queues.leases),
        )


def call_on(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Call something on a loop, from any thread; not if the loop is closed."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call)
