"""What is claimed and not finished yet: begun when it is due, and its outcome gathered for the next write.

    claimed --> waits for its moment --> runs --> has an outcome --> written, and gone from here
                by the wall clock        workers                     in batches, fenced

What is in flight is running in the store. A crash leaves it there, for whoever has its partition then.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextvars import copy_context
from random import Random
from typing import Final

from msgspec.structs import replace

from tickwheel.clock import Clock
from tickwheel.cluster import Holdings
from tickwheel.errors import (
    GiveUp,
    InvalidResult,
    RunCancelled,
    TryLater,
    UnknownHandler,
    WorkersClosed,
    WorkersFull,
)
from tickwheel.observe.events import Events, Kind
from tickwheel.scheduler.storable import describe, plain, storable
from tickwheel.stores.contract import Finish, Store
from tickwheel.tasks import outcomes
from tickwheel.tasks.record import Run, Status, Task
from tickwheel.tasks.registry import Registry
from tickwheel.workers import Outcome, Workers

__all__ = ["Flights", "told_of", "told_of_failure"]

log = logging.getLogger("tickwheel.scheduler")

NO_HANDLER_MS: Final = 60_000  # how long a task waits for a process that knows its handler
NO_ROOM_MS: Final = 1_000  # how long it waits for runs that were stopped and hold on to their places
UNSURE_NS: Final = 50_000_000  # between two looks whether our leases could be renewed
BEGUN_MAX: Final = 128  # tasks in one step of the loop: some milliseconds
GATHER_NS: Final = 10_000_000  # between two writes of outcomes, unless there are many
CLOSED: Final = "released before it began: the scheduler was stopped"


class Flights:
    """The tasks of one engine that are under way."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        workers: Workers,
        holdings: Holdings,
        *,
        clock: Clock,
        events: Events,
        chance: Random,
        batch_max: int,
        landed: Callable[[Task | None], None],
    ) -> None:
        self._store = store
        self._registry = registry
        self._workers = workers
        self._holdings = holdings
        self._clock = clock
        self._chance = chance
        self._batch_max = batch_max
        self._events = events
        self._landed = landed  # with the task as it is now, if it is known
        self._tasks: dict[str, Task] = {}
        self._waiting: dict[str, Task] = {}  # for their moment
        self._moments: dict[int, deque[Task]] = {}  # when they are due, or were found overdue
        self.claimed: Counter[str] = Counter()  # how many wait for their moment, by handler
        self._halted = False  # nothing is begun any more
        self._finishes: list[tuple[Finish, Kind]] = []
        self._over = asyncio.Event()  # there are outcomes
        self._wrote_ns = 0  # when they were last written
        self.idle = asyncio.Event()  # nothing is in flight
        self.idle.set()

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._tasks

    def tasks(self) -> Iterable[Task]:
        """Return them as they were claimed."""
        return self._tasks.values()

    def now(self) -> int:
        """Read the wall clock, in milliseconds."""
        return self._clock.time_ns() // 1_000_000

    def now_up(self) -> int:
        """Read it rounded up: what waits from now on does not wait too short."""
        return -(-self._clock.time_ns() // 1_000_000)

    # -- begin

    def launch(self, claimed: Iterable[Task]) -> None:
        """Begin tasks that were claimed, each at its moment; of one moment, or overdue, the highest priority first."""
        now = self.now()
        moments = set()
        for task in sorted(claimed, key=_urgency):
            moment = max(task.run_at, now)
            self._tasks[task.id] = self._waiting[task.id] = task
            self._moments.setdefault(moment, deque()).append(task)
            self.claimed[task.handler] += 1
            moments.add(moment)
        if moments:
            self.idle.clear()
        if self._halted:
            self._release_waiting()
            return
        for moment in sorted(moments):
            self._begin_at(moment)

    def _begin_at(self, moment: int) -> None:
        """Begin what waits for a moment, if it has come and we may: the clock may be set back, and leases run out."""
        loop = asyncio.get_running_loop()
        wait_ns = moment * 1_000_000 - self._clock.time_ns()
        if wait_ns <= 0 and not self._holdings.sure:
            wait_ns = UNSURE_NS
        if wait_ns > 0:
            loop.call_later(wait_ns / 1e9, self._begin_at, moment)
            return
        tasks = self._moments.pop(moment, None)
        for _ in range(BEGUN_MAX):
            if not tasks:
                return
            task = tasks.popleft()
            if self._waiting.get(task.id) is task:  # not withdrawn, nor claimed again since
                self._stop_waiting(task.id)
                copy_context().run(self._begin, task)  # what is set when it starts is for this run alone
        if tasks:  # others on the loop have their turn before the rest
            self._moments.setdefault(moment, deque()).extendleft(reversed(tasks))
            loop.call_soon(self._begin_at, moment)

    def _stop_waiting(self, task_id: str) -> Task | None:
        task = self._waiting.pop(task_id, None)
        if task is not None:
            self.claimed[task.handler] -= 1
            if not self.claimed[task.handler]:
                del self.claimed[task.handler]
        return task

    def pass_over(self, task: Task) -> bool:
        """Settle a task that was claimed and is too late to be begun; False if it is not."""
        now = self.now()
        if outcomes.has_expired(task, now):
            self.settle(task, outcomes.expire(task, now), "cancelled")
            return True
        if outcomes.is_late(task, now) and task.late.mode == "skip":
            self.settle(task, outcomes.skip(task, now), "skipped")
            return True
        return False

    def _begin(self, task: Task) -> None:
        if self._holdings.of(task.partition) is None:
            self._lose(task)
            return
        if self.pass_over(task):
            return
        now = self.now()
        task = replace(task, started_at=now)
        self._events.happened("started", task, now, late_ms=now - task.run_at)
        try:
            self._workers.begin(self._registry.find(task.handler), task, self._end)
        except Exception as error:  # noqa: BLE001 - what cannot be begun has failed, like what was
            self._end(task, Outcome(error=error))

    # -- changed by someone before it begins, or while it runs

    def cancel(self, task_id: str) -> None:
        """Ask the run of a task to stop; one that has not begun does not begin."""
        task = self._withdraw(task_id)
        if task is None:
            self._workers.cancel(task_id)
        else:
            now = self.now()
            self.settle(task, (replace(task, status=Status.CANCELLED, finished_at=now), None), "cancelled")

    async def release(self, ids: Iterable[str]) -> None:
        """Give up the claims of tasks that have not begun: when this returns, they are pending in the store."""
        released = [task for task in map(self._withdraw, ids) if task is not None]
        finishes = []
        for task in released:
            finish = self.finish(task, (replace(task, status=Status.PENDING, started_at=None), None))
            if finish is None:
                self._lose(task)
            else:
                finishes.append(finish)
        if not finishes:
            return
        try:
            accepted = await self._store.finish(finishes)
        except BaseException:
            self.launch(finish.task for finish in finishes)  # still claimed, as far as we know
            raise
        for finish, written in zip(finishes, accepted, strict=True):
            self._land(finish.task.id, finish.task if written else None)

    def _withdraw(self, task_id: str) -> Task | None:
        """Take back a task that waits for its moment or for a worker; None if it is not here, or has begun."""
        task = self._tasks.get(task_id)
        if task is None:
            return None
        return task if self._stop_waiting(task_id) or self._workers.withdraw(task_id) else None

    # -- end

    def _end(self, task: Task, outcome: Outcome) -> None:
        """Decide what becomes of a task whose run is over, or could not be begun."""
        try:
            self._decide(task, outcome)
        except Exception as error:
            # An exception of the handler's is an object of its making, and may raise whenever it is looked at.
            log.exception("task %r: its outcome cannot be written, and counts as a failure", task.id)
            kind = type(outcome.error or error).__name__
            ended = outcomes.fail(task, plain(f"{kind}, which cannot be shown"), self.now_up(), self._chance.random())
            self.settle(task, ended, told_of_failure(ended[0]))

    def _decide(self, task: Task, outcome: Outcome) -> None:
        now, error = self.now(), outcome.error
        if error is None:
            self.settle(task, outcomes.succeed(task, outcome.value, now), "completed")
        elif isinstance(error, UnknownHandler):
            self._put_back(task, now + NO_HANDLER_MS, str(error))
        elif isinstance(error, WorkersFull):
            self._put_back(task, now + NO_ROOM_MS, str(error))
        elif isinstance(error, WorkersClosed):
            self._release(task)
        elif isinstance(error, RunCancelled) and error.closing:
            left = outcomes.orphan(task, now)
            self.settle(task, left, told_of(left[0]))
        elif isinstance(error, RunCancelled):
            self.settle(task, outcomes.stop(task, "cancelled while it ran", now), "cancelled")
        elif isinstance(error, GiveUp):
            self.settle(task, outcomes.give_up(task, describe(error), now), "failed")
        elif isinstance(error, InvalidResult):
            ended = outcomes.fail_for_good(task, describe(error), "its result cannot be stored", now)
            self.settle(task, ended, "failed")
        else:
            asked_ms = error.wait_ms if isinstance(error, TryLater) else None
            ended = outcomes.fail(task, describe(error), self.now_up(), self._chance.random(), asked_ms)
            self.settle(task, ended, told_of_failure(ended[0]))

    def _put_back(self, task: Task, run_at: int, reason: str) -> None:
        waiting = replace(task, status=Status.PENDING, run_at=run_at, reason=reason)
        self.settle(task, (waiting, None), "retried")

    def halt(self) -> None:
        """Begin nothing more: what waits for its moment or for a worker is released; what runs goes on."""
        self._halted = True
        self._release_waiting()
        self._workers.halt()

    def _release_waiting(self) -> None:
        for task_id in list(self._waiting):
            task = self._stop_waiting(task_id)
            assert task is not None
            self._release(task)

    def _release(self, task: Task) -> None:
        """Give up the claim of a task that has not begun: it runs elsewhere, or later."""
        self.settle(task, (replace(task, status=Status.PENDING, started_at=None, reason=CLOSED), None), "recovered")

    def settle(self, task: Task, outcome: tuple[Task, Run | None], kind: Kind) -> None:
        """Have an outcome written with the next batch."""
        finish = self.finish(task, outcome)
        if finish is None:
            self._lose(task)
            return
        self._finishes.append((finish, kind))
        self._over.set()

    def _lose(self, task: Task) -> None:
        self._events.happened("lost", task, self.now(), reason="its partition is not ours any more")
        self._land(task.id, None)

    def finish(self, task: Task, outcome: tuple[Task, Run | None]) -> Finish | None:
        """Return what to write of a task; None if its partition is not ours any more."""
        lease = self._holdings.of(task.partition)
        if lease is None:
            return None
        after, run = outcome
        return Finish(lease=lease, task=storable(after), run=None if run is None else replace(run, node=lease.node))

    def _land(self, task_id: str, task: Task | None) -> None:
        self._tasks.pop(task_id, None)
        if not self._tasks:
            self.idle.set()
        self._landed(task)

    # -- write

    async def write(self) -> None:
        """Wait for outcomes, and write them; of many that come one after the other, those of some milliseconds."""
        await self._over.wait()
        wait_ns = self._wrote_ns + GATHER_NS - self._clock.monotonic_ns()
        if wait_ns > 0 and len(self._finishes) < self._batch_max:
            await asyncio.sleep(wait_ns / 1e9)
        self._wrote_ns = self._clock.monotonic_ns()
        self._over.clear()
        await self._write_batch()
        if self._finishes:
            self._over.set()

    async def _write_batch(self) -> None:
        batch = self._finishes[: self._batch_max]
        try:
            accepted = await self._store.finish([finish for finish, _ in batch])
        except BaseException:
            self._over.set()  # they are still to be written
            raise
        del self._finishes[: len(batch)]
        refused: list[tuple[Finish, Kind]] = []
        now = self.now()
        for (finish, kind), written in zip(batch, accepted, strict=True):
            if written:
                self._events.happened(kind, finish.task, now, run=finish.run)
                self._land(finish.task.id, finish.task)
            else:
                refused.append((finish, kind))
        if refused:
            await self._look_into(refused)

    async def _look_into(self, refused: list[tuple[Finish, Kind]]) -> None:
        """See what has become of tasks whose outcomes were refused."""
        try:
            found = await self._store.get([finish.task.id for finish, _ in refused])
        except BaseException:
            self._finishes[:0] = refused  # to be refused again, and looked into then
            self._over.set()
            raise
        now = self.now()
        for (finish, kind), task in zip(refused, found, strict=True):
            lease = self._holdings.of(finish.lease.partition)
            waits = task is not None and task.status is Status.RUNNING and task.attempt == finish.task.attempt
            if waits and lease is not None and lease.nonce != finish.lease.nonce:
                # The lease ended and is ours again, and nobody had the task meanwhile: it is not stale.
                self._finishes.append((replace(finish, lease=lease), kind))
                self._over.set()
                continue
            self._events.happened("lost", finish.task, now, reason="another owner has it, or it was written before")
            self._land(finish.task.id, None)
            if task is not None:
                self._landed(task)  # written before, if the answer to that was lost: then it may be due again

    async def close(self) -> None:
        """Stop what runs, release what waits, and write what became of both."""
        self.halt()
        await self._workers.close()
        while self._finishes:
            await self._write_batch()


def _urgency(task: Task) -> tuple[int, int, str]:
    return -task.priority, task.run_at, task.id


def told_of(orphan: Task) -> Kind:
    """Say what became of a task whose worker died: it runs again, unless it must not run twice."""
    return "failed" if orphan.status is Status.FAILED else "recovered"


def told_of_failure(task: Task) -> Kind:
    """Say what became of a task whose run failed: it is tried again, or its occurrence has failed."""
    return "retried" if task.failures and task.status is Status.PENDING else "failed"
