"""The janitor: recovers what a dead owner left behind, deletes what is past retention, and writes checkpoints.

running under an earlier lease  --orphans-->  pending again, or failed if it must not run twice
finished before the retention   --purge---->  gone
due before this was claimed     --checkpoint-->  how long nobody ran tasks, if this node dies
waits since the clock was ahead --set back-->  due as if the clock had been right

What is past retention is deleted in small steps with pauses in between, so that others can write as well.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import compress
from random import Random
from typing import Final

import msgspec

from tickwheel.clock import Clock
from tickwheel.cluster import Ownership
from tickwheel.errors import StoreError, TaskRunning, TickwheelError, VersionMismatch
from tickwheel.observe.events import Events
from tickwheel.scheduler.engine.batches import call_in_parts
from tickwheel.scheduler.engine.completer import Completer, event_for_orphan, report_unwritable
from tickwheel.scheduler.engine.due_index import DueIndex
from tickwheel.scheduler.engine.executor import Executor
from tickwheel.scheduler.engine.loader import Loader
from tickwheel.scheduler.engine.retention import Retention
from tickwheel.scheduler.options import Options
from tickwheel.scheduler.queues import Queues
from tickwheel.stores.contract import Filter, Lease, Store, due_entry
from tickwheel.tasks import transitions
from tickwheel.tasks.fields import MOMENT_MAX
from tickwheel.tasks.record import Status, Task, UnreadableTask

__all__ = ["Janitor", "StartupReport"]

PURGE_REST_S: Final = 0.05  # between two steps of a purge, at the least
PURGE_SHARE: Final = 4  # and so many times as long as the last step took
FINISHED_S: Final = 0.5  # between two looks whether what was in flight when the clock was set back is over
DECIDED_S: Final = 0.1  # after the clock was set: what was decided before is in the store then


class StartupReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine found when it took over: what was missed while nobody ran the tasks."""

    partitions: int  # that were taken over
    down_ms: int  # since the last owner was known to be at work; 0 if there was none
    overdue: int  # tasks whose time had passed; of more than 10,000, so many
    orphaned: int  # tasks that were running when their owner died

    def __str__(self) -> str:
        return (
            f"{self.partitions} partitions taken over after {self.down_ms / 1000:g} s; "
            f"{self.overdue} tasks overdue, {self.orphaned} orphaned"
        )


class Janitor:
    """Keeps the partitions of one engine tidy."""

    def __init__(
        self,
        store: Store,
        ownership: Ownership,
        index: DueIndex,
        loader: Loader,
        executor: Executor,
        completer: Completer,
        queues: Queues,
        *,
        clock: Clock,
        events: Events,
        options: Options,
        rng: Random,
    ) -> None:
        self._rng = rng
        self._store = store
        self._ownership = ownership
        self._index = index
        self._loader = loader
        self._executor = executor
        self._completer = completer
        self._queues = queues
        self._clock = clock
        self._events = events
        self._options = options
        self._noted: tuple[int, int, set[tuple[int, int]]] | None = None  # what there was at the last checkpoint
        self._retention = Retention(store, clock, options.retention_ms)
        self._passed_over_until_ns = 0  # until then, what a step forward passed over may still wait
        self._before = 0  # what the clock showed when it was set back; 0 when all is corrected
        self._times_set_back = 0
        self._corrected = 0  # what the clock showed before it was set back, until that is noted with a checkpoint
        self._clock_set_back = asyncio.Event()
        self._run_since: dict[str, int] = {}  # what ran since, still to be corrected, and what the clock showed before

    def _now(self) -> int:
        return self._clock.time_ns() // 1_000_000

    async def recover(self, leases: list[Lease]) -> StartupReport:
        """Put back what died with an earlier owner of partitions, and load what is due there."""
        now = self._now()
        self._completer.own(leases, now)
        orphaned = 0
        unwritable = set[str]()
        while found := await self._store.orphans(leases, self._options.batch_max):
            left = [task for task in found if task.id not in unwritable and not self._is_ours(task)]
            if not left:
                break  # they run right here, under leases that we had before
            wanted = (
                self._completer.finish_for(task, transitions.crash(task, now, self._rng.random())) for task in left
            )
            batch = [finish for finish in wanted if finish is not None]
            accepted: list[bool] = []
            for part, answer in await call_in_parts(self._store.finish, batch):
                if isinstance(answer, Exception):
                    report_unwritable(part[0].task, answer)
                    unwritable.add(part[0].task.id)
                    accepted.append(False)
                else:
                    accepted += answer
            if not any(accepted):
                break  # another node owns them now
            orphaned += sum(accepted)
            for finish in compress(batch, accepted):
                self._events.emit(event_for_orphan(finish.task), finish.task, now, run=finish.run)
        checkpoints = [lease.checkpoint for lease in leases if lease.checkpoint]
        if leases:  # without one, nothing says until when tasks were run
            await self._retention.begin(max(checkpoints, default=0))
        self._corrected = 0  # of what is new, nothing is
        await self.compare_clock(max(checkpoints, default=0))
        overdue = await self._loader.begin(leases)
        self._ownership.mark_recovered(leases)
        down_ms = now - min(checkpoints) if checkpoints else 0
        return StartupReport(partitions=len(leases), down_ms=max(down_ms, 0), overdue=overdue, orphaned=orphaned)

    def _is_ours(self, task: Task) -> bool:
        return self._executor.holds(task) or self._queues.leases.holds(task)

    async def purge(self) -> None:
        """Wait a while, and delete what has been finished for longer than the retention."""
        await asyncio.sleep(self._options.rescan_ms / 1000)
        if (before := await self._retention.cutoff()) is not None:
            await self._store.purge(before, self._pace())

    def _pace(self) -> Callable[[], Awaitable[None]]:
        """Return what waits between two steps, in proportion to how long they take."""
        begun_ns = self._clock.monotonic_ns()

        async def rest() -> None:
            nonlocal begun_ns
            took_s = (self._clock.monotonic_ns() - begun_ns) / 1e9
            await asyncio.sleep(max(PURGE_REST_S, took_s * PURGE_SHARE))
            begun_ns = self._clock.monotonic_ns()

        return rest

    # -- a clock that was set back

    def on_step(self, step_ms: int) -> None:
        """Note that the wall clock was set, and by how much."""
        if step_ms < 0:
            self._note_set_back(self._now() - step_ms)
        else:
            self._passed_over_until_ns = self._clock.monotonic_ns() + self._options.rescan_ms * 1_000_000

    def _note_set_back(self, before: int) -> None:
        self._before = max(self._before, before)
        self._times_set_back += 1
        self._clock_set_back.set()

    async def compare_clock(self, checkpoint: int = 0) -> None:
        """See whether the clock was set back and nobody here noticed: something was written later than now."""
        before = max(checkpoint, await self._store.changed_at())
        if before > max(self._now() + transitions.STEP_MS, self._corrected):
            self._note_set_back(before)

    async def correct(self) -> None:
        """Wait until the clock was set back, and correct the times of all tasks that wait for a span of time.

        What runs meanwhile is corrected when its run is over: what follows may have been chosen before.
        """
        if not await self._wait_for_step():
            await self._correct_finished()
            return
        await asyncio.sleep(DECIDED_S)
        before, times = self._before, self._times_set_back
        await self._correct_waiting(before)
        await self._correct_paused(before)
        leased = self._queues.leases.ids({lease.partition for lease in self._ownership.kept()})
        self._run_since.update(dict.fromkeys([*self._executor.ids(), *leased], before))
        if self._times_set_back == times:  # otherwise it was set back again meanwhile
            self._before, self._corrected = 0, before
            self._noted = None  # with the next checkpoint, the store forgets what the clock showed before
            self._clock_set_back.clear()

    def note_pending_again(self, task_id: str) -> None:
        """Note that a task waits again after a run; it may have been running whenever its time was looked at."""
        if self._before:
            self._run_since[task_id] = self._before

    async def _wait_for_step(self) -> bool:
        """Wait until the clock was set back; return whether it was, or something ran since that is to be corrected."""
        try:
            async with asyncio.timeout(FINISHED_S if self._run_since else None):
                return await self._clock_set_back.wait()
        except TimeoutError:
            return False

    async def _correct_waiting(self, before: int) -> None:
        leases, after = self._ownership.kept(), None
        while page := await self._store.due(leases, MOMENT_MAX, after, self._options.batch_max) if leases else []:
            await self._correct([due.id for due in page], before)
            after = (page[-1].run_at, page[-1].id)

    async def _correct_paused(self, before: int) -> None:
        cursor = None
        while True:
            page = await self._store.query(Filter(status=Status.PAUSED), cursor, self._options.batch_max)
            await self._correct([task.id for task in page.tasks if self._ownership.keeps(task.partition)], before)
            if (cursor := page.cursor) is None:
                return

    async def _correct_finished(self) -> None:
        over = [task_id for task_id in self._run_since if not self._is_running(task_id)][: self._options.batch_max]
        before = max(self._run_since.values(), default=0)
        for task_id in over:
            del self._run_since[task_id]
        try:
            await self._correct(over, before)
        except StoreError:
            self._run_since.update(dict.fromkeys(over, before))
            raise

    def _is_running(self, task_id: str) -> bool:
        return task_id in self._executor or task_id in self._queues.leases

    async def _correct(self, ids: Sequence[str], before: int) -> None:
        found = await self._store.get(ids) if ids else []
        there = [task for task in found if task is not None and not isinstance(task, UnreadableTask)]
        now = self._now()
        self._run_since.update(
            (task.id, before)
            for task in there
            if task.status is Status.RUNNING and self._ownership.keeps(task.partition)
        )
        pairs = ((task, transitions.set_back(task, now, before)) for task in there if task.status is Status.PENDING)
        await self._amend([corrected for task, corrected in pairs if corrected is not task], before)

    async def _amend(self, tasks: Sequence[Task], before: int) -> None:
        """Write corrected tasks; those that were changed or begun meanwhile are looked at again."""
        if not tasks:
            return
        try:
            amended = await self._store.amend(tasks)
        except StoreError:
            raise
        except TickwheelError as error:  # one of them was changed, deleted or begun, or cannot have that time
            if len(tasks) > 1:
                for task in tasks:
                    await self._amend([task], before)
            elif isinstance(error, (TaskRunning, VersionMismatch)):
                self._run_since[tasks[0].id] = before
            return
        soon = (task for task in amended if task.run_at <= self._loader.loaded_until)
        self._loader.enter(due_entry(task) for task in soon if task.listed_status is Status.PENDING)

    # -- checkpoints

    async def checkpoint(self, *, final: bool = False) -> None:
        """Note that tasks are run here now, if any came due since the last time, or partitions are new."""
        leases = self._ownership.kept()
        state = self._executor.launched, self._index.ready.came, {(lease.partition, lease.epoch) for lease in leases}
        if leases and (state != self._noted or final) and await self.note_at_work(leases):
            self._noted = state

    async def note_at_work(self, leases: Sequence[Lease]) -> bool:
        """Note that until now a node had the tasks of some partitions: what came due and was not run was not missed.

        False if the clock was set, and not all that this means for them is done: if this node ends before, the next one
        finds out by the last note.
        """
        self._completer.check_clock()
        await self.compare_clock()  # a checkpoint would hide it
        await self._retention.keep_steps()  # first: by a checkpoint alone, the next node would not see the step
        if self._clock_set_back.is_set() or self._clock.monotonic_ns() < self._passed_over_until_ns:
            return False
        if leases:
            await self._store.checkpoint(leases, self._now())
            self._corrected = 0
        return True
