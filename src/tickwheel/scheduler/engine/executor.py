"""The executor: begins each claimed task at its due time, if the claim is still valid, and knows what is in flight.

    claimed --> waits for its due time --> waits for a worker --> runs --> outcome --> completer
                by the wall clock          rarely: it is claimed when one is expected to be free

A task in flight is `running` in the store. After a crash the next owner of its partition finds it there.

A handler begins only under a valid claim. That is checked twice: when a worker is free, and where and when the handler
is about to be called. The node must still own the partition by the lease that the task was claimed under, and that
lease must not have run out by a clock that goes on while the machine sleeps:

    claim ------------- suspended for 5 s ------------- begin?    no: another node may have run it

If other processes changed running tasks since the claim, the task is read again: it may have been asked to stop. What
has a worker by then is released instead.

    claim ------------- cancel by another process ----- begin?    no: it is cancelled

What has not begun some time after it should have is released: it was claimed for a worker that did not become free.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush
from typing import Final

from msgspec.structs import replace

from tickwheel.clock import Clock
from tickwheel.cluster import Ownership
from tickwheel.errors import RunCancelled, RunNotBegun, WorkerNotStarted
from tickwheel.observe.events import Events
from tickwheel.scheduler.background_calls import BackgroundCalls
from tickwheel.scheduler.engine.completer import STOPPED, Completer
from tickwheel.stores.contract import Finish, Lease, Store
from tickwheel.tasks import PoolName, transitions
from tickwheel.tasks.record import Status, Task
from tickwheel.tasks.registry import Registry
from tickwheel.tasks.transitions import Ended
from tickwheel.workers import Outcome, Workers

__all__ = ["Executor"]

UNSURE_NS: Final = 50_000_000  # between two checks whether the leases could be renewed
BEGUN_MAX: Final = 64  # tasks in one step of the loop: a millisecond, and most are over before garbage is looked for
APART_NS: Final = 2_000_000  # between two steps in which tasks begin: of many that come due, two milliseconds at once
HEARD_NS: Final = 50_000  # runs that begin within it ask once for what others changed: that is a system call
LATE_S: Final = 0.5  # after its time, before a claim is released: ten windows, for machines that are busy
NO_WORKER: Final = "released before it began: no worker became free in time"
NOT_VALID: Final = "released before it began: its claim was no longer valid"
SET_BACK: Final = "released before it began: the clock was set back"
CHANGED: Final = "released before it began: it may have been asked to stop"
IN_DOUBT: Final = "released before it began: its claim may have been given up"


class Flight:
    """A claimed task, from its claim until the store has its outcome; the gate that its run has to pass."""

    __slots__ = ("_executor", "begun", "epoch", "heard", "pool", "refusal", "started_at", "task", "waits")

    def __init__(self, executor: "Executor", task: Task, epoch: int, heard: int) -> None:
        self._executor = executor
        self.task = task  # as it was claimed
        self.epoch = epoch  # of the lease it was claimed under
        self.heard = heard  # how many changes of running tasks of its partition were known before it was read
        self.waits = False  # for its due time
        self.pool: PoolName = "loop"  # where its handler runs, once that is known
        self.begun: Task | None = None  # as it begins, once it has a worker
        self.started_at: int | None = None  # when its handler was called
        self.refusal = NOT_VALID  # why its handler was not called, if it was not

    def admit(self) -> bool:
        """Decide whether it may begin, now that a worker is free; if not, settle it."""
        executor, task = self._executor, self.task
        completer, ownership = executor._completer, executor._ownership
        waited, now = not executor._beginning, executor._begun_ns // 1_000_000
        if waited:  # for a worker: the clock may have been set meanwhile
            completer.check_clock()
            now = completer.now()
        if not ownership.covers(task.partition, self.epoch):
            if ownership.of(task.partition) is None:
                completer.drop_lost(task)
            else:
                completer.release(task, NOT_VALID)
        elif task.run_at > now:
            completer.release(task, SET_BACK)
        elif waited and executor._running_changes().get(task.partition, 0) != self.heard:
            completer.release(task, CHANGED)
        elif (begun := completer.begin(task, now)) is not None:
            self.begun = begun
            if self.pool == "thread" and executor._events.listeners:
                executor._emit_started(self)  # on the loop, and before it runs: it sees the context that listeners set
            return True
        return False

    def begin(self) -> bool:
        """Decide whether its handler may be called now, on this thread, and note when it was."""
        executor, task = self._executor, self.task
        if not executor._ownership.covers(task.partition, self.epoch):
            return False
        now_ns = executor._clock.time_ns()
        if not 0 < now_ns - executor._heard_ns < HEARD_NS:  # by a clock that may be set
            executor._heard, executor._heard_ns = executor._running_changes(), now_ns
        if executor._heard.get(task.partition, 0) != self.heard:  # while a thread or others on the loop had their turn
            self.refusal = CHANGED
            return False
        now = now_ns // 1_000_000
        if task.expires_at is not None and transitions.has_expired(task, now):
            return False
        self.started_at = now
        if task.at_most_once:
            executor._unbegun.pop(task.id, None)
        if executor._events.listeners and self.pool == "loop":
            executor._emit_started(self)
        elif executor._events.listeners and self.pool == "process" and executor._loop is not None:
            executor._loop.call_soon_threadsafe(executor._emit_started, self)
        return True


class Executor:
    """Runs claimed tasks at their due time and hands their outcomes to the completer."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        workers: Workers,
        ownership: Ownership,
        completer: Completer,
        *,
        clock: Clock,
        events: Events,
    ) -> None:
        self._store = store
        self._running_changes = store.running_changes  # by others, by partition: known before each run begins
        self._registry = registry
        self._workers = workers
        self._ownership = ownership
        self._completer = completer
        self._clock = clock
        self._events = events
        self._heard: Mapping[int, int] = {}  # these, when they were asked for last
        self._heard_ns = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._flights: dict[str, Flight] = {}
        self._moments: dict[int, deque[Flight]] = {}  # when they are due, or were found overdue
        self._order: list[int] = []  # these moments, as a heap
        self._timer: asyncio.Handle | None = None  # for the first of them
        self._changed: list[Flight] = []  # that are due, and to be read again before they begin
        self._begun_ns = 0  # when some began last
        self._beginning = False  # some begin now, and the clock was looked at
        self.launched = 0  # tasks so far
        self.claimed: dict[str, int] = {}  # how many wait for their due time, by handler
        self._unbegun: dict[str, str] = {}  # handlers of what may run at most once and has not begun, by id
        self._background = BackgroundCalls()
        self._releasing: dict[str, asyncio.Task[None]] = {}  # calls that give up claims, by task
        self._halted = False  # nothing begins any more
        self.idle = asyncio.Event()  # nothing is in flight
        self.idle.set()

    def __len__(self) -> int:
        return len(self._flights)

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._flights

    def holds(self, task: Task) -> bool:
        """Tell whether a running task is in flight here, by this claim of it and not by an earlier one."""
        flight = self._flights.get(task.id)
        return flight is not None and flight.task.attempt == task.attempt

    def ids(self) -> AbstractSet[str]:
        """Return the ids of what is in flight, as it changes."""
        return self._flights.keys()

    def reserved(self) -> Mapping[str, int]:
        """Count, by handler, the tasks that are about to take up a worker."""
        if not self._unbegun:
            return self.claimed
        once = Counter(self._unbegun.copy().values())
        for task_id in self._flights.keys() & self._unbegun.keys():
            flight = self._flights[task_id]
            once[flight.task.handler] -= flight.waits  # it is counted as claimed
        return Counter(self.claimed) + once

    def tasks(self) -> Iterable[Task]:
        """Return the tasks in flight as they were claimed."""
        return (flight.task for flight in self._flights.values())

    def occupied(self) -> set[int]:
        """Return the partitions in which something runs or waits for a worker, and is not just being written."""
        return {flight.task.partition for flight in self._flights.values() if self._workers.has(flight.task.id)}

    def has_begun(self, task: Task) -> bool:
        """Tell whether a running task has begun, as far as it is known here: what is claimed ahead has not.

        Of a task that runs at most once, the claim is the begin.
        """
        flight = self._flights.get(task.id)
        if flight is None or flight.begun is not None or flight.task.attempt != task.attempt:
            return True
        return task.at_most_once or task.cancel_requested or task.paused

    def unbegun(self) -> int:
        """Count what is claimed and counts as pending here."""
        return sum(not self.has_begun(task) for task in self.tasks())

    def is_stuck(self, task_id: str) -> bool:
        """Tell whether a task is stuck: its handler ignores its timeout."""
        return task_id in self._workers.stuck

    def remove(self, task_id: str) -> bool:
        """Forget a task whose outcome the store has accepted or rejected; False if it was not in flight."""
        flight = self._flights.pop(task_id, None)
        if flight is not None and flight.waits:
            self._stop_waiting(flight)
        if self._unbegun:
            self._unbegun.pop(task_id, None)
        if not self._flights:
            self.idle.set()
        return flight is not None

    # -- begin

    def launch(self, claimed: Iterable[Task], leases: Iterable[Lease], heard: Mapping[int, int]) -> None:
        """Begin tasks claimed under leases, each at its due time; of one moment, or overdue, by priority.

        `heard` counts the changes of running tasks that were known before the claim, by partition.
        """
        self._loop = asyncio.get_running_loop()
        epochs = {lease.partition: lease.epoch for lease in leases}
        self._enqueue([Flight(self, task, epochs[task.partition], heard.get(task.partition, 0)) for task in claimed])

    def _enqueue(self, flights: list[Flight]) -> None:
        now = self._completer.now()
        last = now
        for flight in sorted(flights, key=_urgency):
            task = flight.task
            known = self._flights.get(task.id)
            if known is not None:  # it was lost, and is claimed again
                self._stop_waiting(known)
            self._flights[task.id] = flight
            if task.at_most_once:
                self._unbegun[task.id] = task.handler
            moment = max(now, task.run_at)
            if moment not in self._moments:
                self._moments[moment] = deque()
                heappush(self._order, moment)
                last = max(last, moment)
            self._moments[moment].append(flight)
            flight.waits = True
            self.claimed[task.handler] = self.claimed.get(task.handler, 0) + 1
        if not flights:
            return
        self.launched += len(flights)
        self.idle.clear()
        if self._halted:
            self._release_waiting()
            return
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_soon(self._begin_due)
        loop.call_later((last - now) / 1000 + LATE_S, self._release_late, flights)

    def _release_late(self, flights: Iterable[Flight]) -> None:
        """Release what should have begun by now and has not."""
        for flight in flights:
            ours = self._flights.get(flight.task.id) is flight
            if ours and flight.begun is None and self._withdraw(flight.task.id) is not None:
                self._completer.release(flight.task, NO_WORKER)

    def _begin_due(self) -> None:
        """Begin what is due, if we may, and wait for the rest: the clock may be set back, and leases expire."""
        self._completer.check_clock()
        self._beginning = True
        try:
            self._begin_some()
        finally:
            self._beginning = False
        if self._changed:
            changed, self._changed = self._changed, []
            self._background.begin(self._begin_unless_cancelled(changed))

    async def _begin_unless_cancelled(self, flights: list[Flight]) -> None:
        """Read claimed tasks again, and begin those that were not asked to stop.

        What is changed meanwhile is read once more. If that goes on, or fails, the claims are given up: they are late.
        """
        while flights := [flight for flight in flights if flight.waits]:
            heard = dict(self._running_changes())
            for task in await self._store.get([flight.task.id for flight in flights]):
                if task is not None and task.cancel_requested:
                    self.cancel(task.id)
            self._begin_read(flights, heard)

    def _begin_read(self, flights: Iterable[Flight], heard: Mapping[int, int]) -> None:
        """Begin those in whose partitions nothing was changed since they were read, and that still wait."""
        self._completer.check_clock()
        self._beginning, self._begun_ns = True, self._clock.time_ns()
        try:
            changes = self._running_changes()
            for flight in flights:
                partition = flight.task.partition
                known = heard.get(partition, 0)
                if flight.waits and changes.get(partition, 0) == known:
                    flight.heard = known
                    self._begin(flight)
        finally:
            self._beginning = False

    def _begin_some(self) -> None:
        loop = asyncio.get_running_loop()
        left, heard = BEGUN_MAX, self._running_changes()
        while self._order:
            now_ns = self._clock.time_ns()
            wait_ns = self._order[0] * 1_000_000 - now_ns
            if wait_ns > 0:
                since_ns = now_ns - self._begun_ns  # by a clock that may be set back
                wait_ns = max(wait_ns, APART_NS - since_ns if since_ns >= 0 else 0)
            elif not self._ownership.lease_valid:
                wait_ns = UNSURE_NS
            if wait_ns > 0:
                self._timer = loop.call_later(wait_ns / 1e9, self._begin_due)
                return
            if not left:  # others on the loop have their turn before the rest
                self._timer = loop.call_soon(self._begin_due)
                return
            self._begun_ns = now_ns
            flights = self._moments[self._order[0]]
            while flights and left:
                flight = flights.popleft()
                if not flight.waits:  # withdrawn, or claimed again since
                    continue
                left -= 1
                if flight.heard == heard.get(flight.task.partition, 0):
                    self._begin(flight)
                else:
                    self._changed.append(flight)
            if not flights:
                del self._moments[heappop(self._order)]

    def _stop_waiting(self, flight: Flight) -> bool:
        """Take a task out of those that wait for their due time; False if it is none of them."""
        if not flight.waits:
            return False
        flight.waits = False
        handler = flight.task.handler
        left = self.claimed[handler] - 1
        if left:
            self.claimed[handler] = left
        else:
            del self.claimed[handler]
        return True

    def _begin(self, flight: Flight) -> None:
        self._stop_waiting(flight)
        task = flight.task
        try:
            handler = self._registry.find(task.handler)
            flight.pool = handler.runs_in
            self._workers.begin(handler, task, self._on_outcome, flight)
        except Exception as error:  # noqa: BLE001 - what cannot begin has failed, like what has
            self._completer.complete(replace(task, started_at=None), Outcome(error=error))

    def _emit_started(self, flight: Flight) -> None:
        now = self._completer.now() if flight.started_at is None else flight.started_at
        task = replace(flight.task, started_at=now)
        self._events.emit("started", task, now, late_ms=now - task.run_at)

    def _on_outcome(self, task: Task, outcome: Outcome) -> None:
        flight = self._flights.get(task.id)
        error = None if outcome.raised else outcome.error  # of the workers
        if isinstance(error, RunNotBegun):
            self._completer.check_clock()
            if self._completer.begin(task, self._completer.now()) is not None:  # it has not expired
                self._completer.release(task, NOT_VALID if flight is None else flight.refusal)
            return
        if flight is not None:
            if flight.started_at is None and isinstance(error, RunCancelled):
                self._cancel_before_begin(task, error)
                return
            if not isinstance(error, WorkerNotStarted):  # it is as it was claimed otherwise
                task = flight.begun or task
            if task.started_at != flight.started_at:
                task = replace(task, started_at=flight.started_at)
        self._completer.complete(task, outcome)

    def _cancel_before_begin(self, task: Task, why: RunCancelled) -> None:
        """Settle a task that had a worker and was stopped before its handler was called: there was no run."""
        if why.closing:
            self._completer.release(task, STOPPED)
        else:
            self._settle_cancelled(task)

    def _settle_cancelled(self, task: Task) -> None:
        cancelled = replace(task, status=Status.CANCELLED, started_at=None, finished_at=self._completer.now())
        self._completer.settle(task, Ended(cancelled), "cancelled")

    # -- changed by someone before it begins, or while it runs

    def cancel(self, task_id: str) -> None:
        """Ask the run of a task to stop; one that has not begun does not begin."""
        task = self._withdraw(task_id)
        if task is None:
            self._workers.cancel(task_id)
        else:
            self._settle_cancelled(task)

    async def release(self, ids: Collection[str]) -> None:
        """Give up the claims of tasks that have not begun: when this returns, they are pending in the store.

        A caller that is cancelled does not interrupt it: the store would write it all the same.
        """
        finishes = []
        for task in [task for task in map(self._withdraw, ids) if task is not None]:
            pending = transitions.release(transitions.set_back_since_claim(task, self._completer.now()))
            finish = self._completer.finish_for(task, pending)
            if finish is None:
                self._completer.drop_lost(task)
            else:
                finishes.append(finish)
        if finishes:
            call = self._background.begin(self._write_released(finishes))
            self._releasing.update((finish.task.id, call) for finish in finishes)
        if self._releasing:
            for call in {self._releasing[task_id] for task_id in ids if task_id in self._releasing}:
                await asyncio.shield(call)

    async def _write_released(self, finishes: list[Finish]) -> None:
        try:
            accepted = await self._store.finish(finishes)
        except BaseException:
            # It may be written: they do not begin under this claim, and the completer finds out.
            for finish in finishes:
                self._completer.release(self._flights[finish.task.id].task, IN_DOUBT)
            raise
        finally:
            for finish in finishes:
                del self._releasing[finish.task.id]
        for finish, written in zip(finishes, accepted, strict=True):
            self._completer.on_finished(finish.task.id, finish.task if written else None)

    def _withdraw(self, task_id: str) -> Task | None:
        """Take back a task that waits for its due time or for a worker; None if it is not here, or has begun."""
        flight = self._flights.get(task_id)
        if flight is None:
            return None
        return flight.task if self._stop_waiting(flight) or self._workers.withdraw(task_id) else None

    # -- end

    def halt(self) -> None:
        """Begin nothing more: release what waits for its due time or for a worker; what runs continues."""
        self._halted = True
        self._release_waiting()
        self._workers.halt()

    def _release_waiting(self) -> None:
        for flight in list(self._flights.values()):
            if self._stop_waiting(flight):
                self._completer.release(flight.task, STOPPED)

    async def close(self) -> None:
        """Stop what runs and release what waits; their outcomes are the completer's to write."""
        self.halt()
        await self._background.ended()
        await self._workers.close()


def _urgency(flight: Flight) -> tuple[int, int, str]:
    return -flight.task.priority, flight.task.run_at, flight.task.id
