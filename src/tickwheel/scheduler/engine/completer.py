"""The completer: decides what becomes of a task after its run, and writes that to the store in batches.

    worker --outcome--> decide --> gathered --finish--> accepted: the task is gone from this engine
                        retry,     some                 rejected: another node owns it now, or the lease changed
                        next run,  milliseconds                   and the outcome is written under the new one
                        failed

An outcome is kept until the store has accepted or rejected it. What one task brings may not prevent others from being
written: an error that cannot be formatted, or a result too large to keep, is replaced by words that say so. If a batch
cannot be written, its parts are, and the one outcome that makes it fail is reported and dropped.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from msgspec.structs import replace

from tickwheel.clock import Clock
from tickwheel.cluster import Ownership
from tickwheel.durations import to_ns
from tickwheel.errors import (
    Fail,
    InvalidDuration,
    InvalidResult,
    InvalidWorkers,
    ProcessDied,
    RetryAfter,
    RunCancelled,
    Snooze,
    TickwheelError,
    UnknownHandler,
    WorkerNotStarted,
    WorkersClosed,
    WorkersFull,
)
from tickwheel.observe.events import Events, Kind
from tickwheel.scheduler.engine.batches import call_in_parts
from tickwheel.stores import validation
from tickwheel.stores.contract import Finish, Lease, Store
from tickwheel.tasks import transitions
from tickwheel.tasks.record import Status, Task
from tickwheel.tasks.transitions import Ended
from tickwheel.workers import Outcome
from tickwheel.workers.results import describe, name_of, plain

__all__ = ["STOPPED", "Completer", "event_for_failure", "event_for_orphan", "report_unwritable"]

log = logging.getLogger("tickwheel.scheduler")

NO_HANDLER_MS: Final = 60_000  # how long a task waits for a process that knows its handler
NO_ROOM_MS: Final = 1_000  # how long it waits for runs that keep their places, or for a worker that can be started
GATHER_NS: Final = 30_000_000  # between two writes of outcomes: while tasks keep coming due, one goes with each claim
SNOOZE_MS: Final = 60_000  # how long a task waits that asked to run again later, but not after a time that can be read
STEPS_MAX: Final = 8  # of the clock, forward, that are remembered
STOPPED: Final = "released before it began: the scheduler was stopped"
REJECTED: Final = "another node owns it, or its outcome was written before"


class Completer:
    """Collects the outcomes of one engine.

    `on_finished` gets each id, and its task as it is now if that is known; `on_written` is called after each batch.
    """

    def __init__(
        self,
        store: Store,
        ownership: Ownership,
        *,
        clock: Clock,
        events: Events,
        rng: Random,
        batch_max: int,
        check_clock: Callable[[], None],
        on_finished: Callable[[str, Task | None], None],
        on_written: Callable[[], None],
    ) -> None:
        self._store = store
        self._ownership = ownership
        self._clock = clock
        self._events = events
        self._rng = rng
        self._batch_max = batch_max
        self.on_finished = on_finished
        self._on_written = on_written
        self._finishes: list[tuple[Finish, Kind]] = []
        self._writing = 0  # how many of them are being written, the first ones
        self._write_now = asyncio.Event()  # there are outcomes, and they were gathered for long enough
        self._gathered: asyncio.TimerHandle | None = None  # when they will have been
        self._wrote_ns = -GATHER_NS  # when they were last written
        self._owned_since: dict[int, int] = {}  # when each partition was taken over
        self._owned: dict[int, Lease] = {}  # and its lease then, by which it is known until when another node had it
        self._passed: list[tuple[int, int]] = []  # when the wall clock was set forward, from when to when
        self._check_clock = check_clock
        self._latest = 0  # that the wall clock showed when something was decided, since it was looked at

    def now(self) -> int:
        """Read the wall clock, in milliseconds."""
        now = self._clock.time_ns() // 1_000_000
        self._latest = max(self._latest, now)
        return now

    def now_up(self) -> int:
        """Read it rounded up, so that a delay from now is never too short."""
        now = -(-self._clock.time_ns() // 1_000_000)
        self._latest = max(self._latest, now)
        return now

    def take_latest(self) -> int:
        """Return the latest moment by which something was decided since the last call."""
        latest, self._latest = self._latest, 0
        return latest

    # -- decide

    def complete(self, task: Task, outcome: Outcome) -> None:
        """Decide what becomes of a task whose run ended, or could not begin."""
        try:
            self._decide(task, outcome)
        except Exception as error:
            # An exception that a handler raised may itself raise when it is formatted.
            log.exception("task %r: its outcome cannot be written, and counts as a failure", task.id)
            kind = name_of(error if outcome.error is None else outcome.error)
            self._fail(task, plain(f"{kind}, which cannot be shown"))

    def _decide(self, task: Task, outcome: Outcome) -> None:
        now, error = self.now(), outcome.error
        if error is None:
            self.settle(task, transitions.succeed(task, outcome.value, now), "completed")
        elif outcome.raised:
            self._decide_raised(task, error, outcome.trace or describe(error), now)
        elif isinstance(error, (UnknownHandler, InvalidWorkers)):  # the store does not tell which handler is due
            self._postpone(replace(task, reason_code="no_handler"), now + NO_HANDLER_MS, str(error))
        elif isinstance(error, (WorkersFull, WorkerNotStarted)):
            self._postpone(replace(task, reason_code="no_capacity"), now + NO_ROOM_MS, str(error))
        elif isinstance(error, WorkersClosed):
            self.release(task, STOPPED)
        elif isinstance(error, RunCancelled) and error.closing:
            self.interrupt(task)
        elif isinstance(error, RunCancelled):
            self.settle(task, transitions.stop(task, "cancelled while it ran", now), "cancelled")
        elif isinstance(error, InvalidResult):
            trace = outcome.trace or describe(error)
            self.settle(task, transitions.fail_for_good(task, trace, "its result cannot be stored", now), "failed")
        elif isinstance(error, ProcessDied):
            died = replace(task, error=describe(error))
            ended = transitions.crash(died, self.now_up(), self._rng.random())
            self.settle(task, ended, event_for_failure(ended.task))
        else:
            self._fail(task, outcome.trace or describe(error))

    def _decide_raised(self, task: Task, error: BaseException, trace: str, now: int) -> None:
        """Decide what becomes of a task whose handler raised: only these three errors are more than a failure."""
        if isinstance(error, Fail):
            self.settle(task, transitions.fail_for_good(task, trace, "failed on request", now), "failed")
        elif isinstance(error, Snooze):
            delay_ms = asked_ms(task, error)
            ended = transitions.snooze(task, SNOOZE_MS if delay_ms is None else delay_ms, trace, self.now_up())
            self.settle(task, ended, event_for_failure(ended.task))
        else:
            self._fail(task, trace, asked_ms(task, error) if isinstance(error, RetryAfter) else None)

    def _fail(self, task: Task, error: str, wait_ms: int | None = None) -> None:
        ended = transitions.fail(task, error, self.now_up(), self._rng.random(), wait_ms)
        self.settle(task, ended, event_for_failure(ended.task))

    def interrupt(self, task: Task) -> None:
        """End the run of a task that was interrupted by stop(): it runs again."""
        ended = transitions.interrupt(task, self.now())
        self.settle(task, ended, event_for_orphan(ended.task))

    def check_clock(self) -> None:
        """Notice a step of the wall clock before anything begins by it."""
        self._check_clock()

    def begin(self, task: Task, now: int) -> Task | None:
        """Return a claimed task as it begins; settle it if its expiry or missed-run policy forbids running it."""
        missed_until, lease = 0, self._owned.get(task.partition)
        if self._passed:  # what was due before the clock was set waited for something else
            missed_until = max((until for since, until in self._passed if task.occurrence_at > since), default=0)
        if lease is not None and task.occurrence_at > lease.checkpoint:  # otherwise it waited for something else
            missed_until = max(missed_until, self._owned_since[task.partition])
        begun = transitions.begin(task, now, missed_until)
        if isinstance(begun, Task):
            return begun
        self.settle(task, begun, "cancelled" if begun.run is None else "skipped")
        return None

    def on_step(self, step_ms: int) -> None:
        """Note that the wall clock was set: if forward, what was due in between was passed over."""
        now = self.now()
        if step_ms > 0:
            self._passed = [*self._passed[1 - STEPS_MAX :], (now - step_ms, now)]
            return
        since = now - transitions.STEP_MS  # it was set a little before
        self._passed = [(begin, min(end, since)) for begin, end in self._passed if begin < since]
        self._owned_since = {partition: min(owned, since) for partition, owned in self._owned_since.items()}

    def own(self, leases: Iterable[Lease], since: int) -> None:
        """Note when partitions were taken over: what came due while no node had them was missed."""
        for lease in leases:
            known = self._owned.get(lease.partition)
            if known is None or known.epoch != lease.epoch:  # otherwise they were about to leave, and stayed
                self._owned[lease.partition] = lease
                self._owned_since[lease.partition] = since

    def release(self, task: Task, reason: str) -> None:
        """Give up the claim of a task that has not begun: it runs elsewhere, or later. No attempt was made."""
        self.settle(task, transitions.release(transitions.set_back_since_claim(task, self.now()), reason), "recovered")

    def _postpone(self, task: Task, run_at: int, reason: str) -> None:
        self.settle(task, transitions.release(task, reason, run_at), "retried")

    def settle(self, task: Task, outcome: Ended, kind: Kind) -> None:
        """Write an outcome with the next batch."""
        finish = self.finish_for(task, outcome)
        if finish is None:
            self.drop_lost(task)
            return
        self._finishes.append((finish, kind))
        self._gather(finish.task)

    def drop_lost(self, task: Task) -> None:
        """Forget a task whose partition another node owns."""
        self._events.emit("lost", task, self.now(), reason="partition lost to another node")
        self.on_finished(task.id, None)

    def finish_for(self, task: Task, outcome: Ended) -> Finish | None:
        """Return what to write for a task; None if its partition was never ours.

        A lease that was lost is good as long as nobody else has the partition: the store knows that.
        """
        lease = self._ownership.last(task.partition)
        if lease is None:
            return None
        after, run, skipped = outcome
        run = None if run is None else replace(run, node=lease.node)
        after = after if after.result is None else sanitize(after)
        return Finish(lease=lease, task=after, run=run, skipped=skipped)

    # -- write

    def _gather(self, task: Task) -> None:
        """Have outcomes written when those of some milliseconds are there; at once, if the last write was before."""
        if self._write_now.is_set():
            return
        again = task.status is Status.PENDING and task.run_at * 1_000_000 < self._clock.time_ns() + GATHER_NS
        if again or len(self._finishes) - self._writing >= self._batch_max:
            self.hurry()
        elif self._gathered is None:
            wait_ns = self._wrote_ns + GATHER_NS - self._clock.monotonic_ns()
            if wait_ns > 0:
                self._gathered = asyncio.get_running_loop().call_later(wait_ns / 1e9, self._end_gathering)
            else:
                self.hurry()

    def _end_gathering(self) -> None:
        self._gathered = None
        self.hurry()

    def hurry(self) -> None:
        """Write what there is now: something else is written, or waits for room."""
        if len(self._finishes) > self._writing:
            self._write_now.set()

    async def write(self) -> None:
        """Wait for outcomes and write them; when many arrive one after another, those of some milliseconds at once."""
        await self._write_now.wait()
        self._write_now.clear()
        if self._gathered is not None:
            self._gathered.cancel()
            self._gathered = None
        self._wrote_ns = self._clock.monotonic_ns()
        await self._write_batch()
        if self._finishes:
            self._gather(self._finishes[0][0].task)

    async def flush(self) -> None:
        """Write all outcomes now, but for those that cannot be written."""
        while self._finishes:
            await self._write_batch(last=True)

    async def _write_batch(self, *, last: bool = False) -> None:
        batch = self._finishes[: self._batch_max]
        self._writing = len(batch)
        try:
            accepted = await self._finish([finish for finish, _ in batch], last=last)
        except BaseException:
            self._write_now.set()  # they are still to be written
            raise
        finally:
            self._writing = 0
        del self._finishes[: len(batch)]
        rejected: list[tuple[Finish, Kind]] = []
        now, heard = self.now(), self._events.listeners
        for (finish, kind), written in zip(batch, accepted, strict=True):
            if written is None:
                self.on_finished(finish.task.id, None)
            elif written:
                if heard:
                    self._emit(finish, kind, now)
                self.on_finished(finish.task.id, finish.task)
            else:
                rejected.append((finish, kind))
        self._on_written()
        if rejected:
            await self._examine(rejected)

    async def _finish(self, finishes: list[Finish], *, last: bool) -> list[bool | None]:
        """Write outcomes; tell which were accepted, and None for each that makes every write fail that it is part of.

        Where nothing is accepted, an error that is not ours may be the store's, and all are kept, unless it is `last`.
        """
        parts = await call_in_parts(self._store.finish, finishes)
        faults = [answer for _, answer in parts if isinstance(answer, Exception)]
        if len(faults) == len(finishes) and not last and not isinstance(faults[0], TickwheelError):
            raise faults[0]
        accepted: list[bool | None] = []
        for part, answer in parts:
            if isinstance(answer, Exception):
                report_unwritable(part[0].task, answer)
                accepted.append(None)
            else:
                accepted += answer
        return accepted

    def _emit(self, finish: Finish, kind: Kind, now: int) -> None:
        self._events.emit(kind, finish.task, now, run=finish.run)
        for skipped in finish.skipped:
            self._events.emit("skipped", finish.task, now, reason=skipped.reason)

    async def _examine(self, rejected: list[tuple[Finish, Kind]]) -> None:
        """Find out why outcomes were rejected, and write those again that are still ours."""
        try:
            found = await self._store.get([finish.task.id for finish, _ in rejected])
        except BaseException:
            self._finishes[:0] = rejected  # to be rejected and examined again
            self._write_now.set()
            raise
        now = self.now()
        for (finish, kind), task in zip(rejected, found, strict=True):
            lease = self._ownership.of(finish.lease.partition)
            waits = task is not None and task.status is Status.RUNNING and task.attempt == finish.task.attempt
            if waits and lease is not None and lease.nonce != finish.lease.nonce:
                # The lease ended and is ours again, and nobody had the task meanwhile: it is not stale.
                self._finishes.append((replace(finish, lease=lease), kind))
                self._write_now.set()
                continue
            self._events.emit("lost", finish.task, now, reason=REJECTED)
            # If only the answer to the write was lost, the task may be due again.
            self.on_finished(finish.task.id, task)
        self._on_written()


def report_unwritable(task: Task, error: Exception) -> None:
    """Log that the outcome of a task cannot be written; what an error that is not ours means, its trace says."""
    words = "task %r: its outcome cannot be written, and it stays running until its node ends: %s"
    log.error(words, task.id, error, exc_info=None if isinstance(error, TickwheelError) else error)


def event_for_orphan(orphan: Task) -> Kind:
    """Return the event of a task whose worker died: it runs again, unless it must not run twice."""
    return "failed" if orphan.status is Status.FAILED else "recovered"


def event_for_failure(task: Task) -> Kind:
    """Return the event of a task whose run failed: it is retried, or its occurrence has failed."""
    return "retried" if task.has_begun and task.status is Status.PENDING else "failed"


def asked_ms(task: Task, error: RetryAfter | Snooze) -> int | None:
    """Return the wait that a handler asked for, rounded up; None if it is not a duration."""
    try:
        return -(-to_ns(error.delay) // 1_000_000)  # type: ignore[arg-type] # checked here
    except BaseException as why:  # noqa: BLE001 - the delay is an object of the handler's, which may raise anything
        usual = f"{SNOOZE_MS // 1000} s" if isinstance(error, Snooze) else "its usual wait"
        words = why if isinstance(why, InvalidDuration) else f"its delay raised {name_of(why)}"
        log.warning("task %r raised %s: %s; %s is used instead", task.id, type(error).__name__, words, usual)
        return None


def sanitize(task: Task) -> Task:
    """Return a task that a store accepts: without its result, if that and an error are too large to keep."""
    try:
        validation.encode(task)
    except TickwheelError as error:
        return replace(task, result=None, reason=f"its result was not kept: {error}")
    return task
