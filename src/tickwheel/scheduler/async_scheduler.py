"""`AsyncScheduler`: durable tasks for programs of asyncio.

    scheduler = AsyncScheduler("sqlite:///tasks.db")

    @scheduler.task("orders.cancel", retries=3, timeout="5m")
    async def cancel_order(order_id: int) -> None: ...

    async with scheduler:
        await scheduler.add("orders.cancel", {"order_id": 7}, delay="30d", id="order-7")

What `add` has acknowledged is in the store. Whoever has the store open with the same handlers runs it, now or after
a crash.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from random import Random
from typing import Any, Final, Self, TypeVar, Unpack, overload

import msgspec

from tickwheel.clock import Clock, SystemClock, boottime_of, monotonic_reader
from tickwheel.cluster import StoreClock
from tickwheel.durations import Duration
from tickwheel.errors import (
    InvalidClock,
    InvalidOption,
    InvalidSchedule,
    InvalidTask,
    NoQueuesHere,
    SchedulerForked,
    SchedulerNotStarted,
    SchedulerOnOtherLoop,
    TaskFinished,
)
from tickwheel.observe.events import Events
from tickwheel.observe.picture import Picture
from tickwheel.scheduler.background_calls import uninterrupted
from tickwheel.scheduler.engine.engine import Engine
from tickwheel.scheduler.engine.janitor import StartupReport
from tickwheel.scheduler.options import Options, check_grace
from tickwheel.scheduler.queues import Queues
from tickwheel.scheduler.queues.message_leases import Message, check_lease, check_token, check_wait
from tickwheel.scheduler.routing import WebhookSender
from tickwheel.scheduler.signals import StopSignals
from tickwheel.scheduler.task_builder import TaskFields, check_time, check_timeout, due_after, to_ms
from tickwheel.scheduler.verbs import Verbs
from tickwheel.stores import open_store
from tickwheel.stores.contract import Conflict, Filter, OnConflict, Order, Page, Store
from tickwheel.stores.urls import absolute_url
from tickwheel.stores.validation import BATCH_MAX, check_batch, check_id, check_limit, check_on_conflict, check_reason
from tickwheel.tasks import transitions
from tickwheel.tasks.destinations import check_queue
from tickwheel.tasks.fields import flag, invalid
from tickwheel.tasks.policies import RetryPolicy
from tickwheel.tasks.record import ENDED, Run, Status, Task
from tickwheel.tasks.registry import Handler, Registry
from tickwheel.workers import Workers

__all__ = ["AsyncScheduler", "read_batch"]

F = TypeVar("F", bound=Callable[..., Any])

# Tasks of a URL whose functions are still on a thread, though their scheduler was stopped; a child has no threads.
DRAFTED_S: Final = 0.005  # tasks of a batch are checked for so long before others on the loop have their turn
OUTLIVING: Final[dict[str, set[str]]] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=OUTLIVING.clear)


class AsyncScheduler(Verbs):
    """Durable tasks in one store. With `run=False` it only adds, and others run.

    With `create=False`, a file that is missing is an error instead of a new store.
    """

    def __init__(
        self,
        store: str | Store = "sqlite:///tasks.db",
        *,
        run: bool = True,
        create: bool = True,
        clock: Clock | None = None,
        rng: Random | None = None,
        webhooks: WebhookSender | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(store, str) and not callable(getattr(store, "heartbeat", None)):
            raise InvalidOption("store", store, "a URL, such as 'sqlite:///tasks.db', or a store")
        self._where = absolute_url(store) if isinstance(store, str) else store  # the program may change its folder
        self._run = flag("run", run, InvalidOption)
        self._create = flag("create", create, InvalidOption)
        if rng is not None and not isinstance(rng, Random):
            raise InvalidOption("rng", rng, "a random.Random")
        # On the usual clock it goes by the store's own: a server's, which is the same for all nodes.
        if clock is None:
            clock = SystemClock()
        elif not callable(getattr(clock, "time_ns", None)):
            raise InvalidClock(clock)
        monotonic_reader(clock)
        self._clock: Clock = StoreClock(clock) if isinstance(clock, SystemClock) else clock
        self._rng = rng or Random()  # noqa: S311 - spreads retries and names tasks, keeps no secrets
        self._options = Options.of(options)
        self._registry = Registry(lasting=store != "memory://")
        self._webhooks: WebhookSender | None = None
        if webhooks is not None:
            self.send_with(webhooks)
        self._store: Store | None = None
        self._engine: Engine | None = None
        self._process = os.getpid()  # in which it was started last
        self._loop: asyncio.AbstractEventLoop | None = None  # on which it was started last
        self._turns_on: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None
        self._stopping = False
        self._stopped = False  # it was started before
        self._running_forever: set[asyncio.Event] = set()  # to be set when it is stopped
        self._outliving: set[str] = set()  # as OUTLIVING, of a store that it was given
        self.events = Events()
        self.startup_report: StartupReport | None = None

    # -- handlers

    @overload
    def task(self, name: F) -> F: ...

    @overload
    def task(
        self,
        name: str | None = None,
        *,
        retries: int = 0,
        retry: RetryPolicy | None = None,
        timeout: Duration | None = None,
        concurrency: int | None = None,
        pool: str = "auto",
    ) -> Callable[[F], F]: ...

    def task(
        self,
        name: F | str | None = None,
        *,
        retries: int = 0,
        retry: RetryPolicy | None = None,
        timeout: Duration | None = None,
        concurrency: int | None = None,
        pool: str = "auto",
    ) -> F | Callable[[F], F]:
        """Register a function as a handler, under a name or its own; `@scheduler.task` works without parentheses."""
        if retry is not None and retries != 0:
            raise InvalidTask("give retries, or a whole RetryPolicy as retry, not both").within("retries")
        policy = RetryPolicy(retries=retries) if retry is None else retry
        options: dict[str, Any] = {"retry": policy, "concurrency": concurrency, "pool": pool}
        if timeout is not None:
            options["timeout_ms"] = check_timeout(timeout)
        return self._registry.register(name, **options)

    def send_with(self, webhooks: WebhookSender) -> None:
        """Send webhooks from now on, and close what sends them at the end."""
        handler = getattr(webhooks, "handler", None)
        if type(handler) is not Handler or not callable(getattr(webhooks, "close", None)):
            # Its type, for it may well be the secret, which is not for messages and logs.
            raise InvalidOption("webhooks", type(webhooks), "a Webhooks, such as Webhooks(secret)")
        self._registry.add(handler)
        self._webhooks = webhooks

    def _configure(self, store: str | None, **options: Any) -> None:
        """Replace its store, or some of its options, before it is started."""
        self._where = self._where if store is None else absolute_url(store)
        self._options = msgspec.structs.replace(self._options, **options)

    # -- begin and end

    async def start(self) -> Self:
        """Open the store, see what was left undone, and begin to run tasks; no effect if it is started.

        If that fails or is cancelled, it is as before: nothing runs, and no partition is held.
        """
        self._check_place()
        async with self._turns:
            if self._store is None:
                await self._start()
        return self

    async def _start(self) -> None:
        if self._process != os.getpid():
            self._process = os.getpid()
            self._rng.seed()  # in every child that is forked from here it would draw the same ids
        where = self._where
        now_ms = None if isinstance(self._clock, StoreClock) else self._now
        store = (
            await open_store(where, now_ms=now_ms, boottime_ns=boottime_of(self._clock), create=self._create)
            if isinstance(where, str)
            else where
        )
        try:
            if isinstance(self._clock, StoreClock) and self._clock.in_doubt:
                await self._clock.set_by(store)
            engine = self._make_engine(store) if self._run else None
            report = None if engine is None else await engine.start()
        except (Exception, asyncio.CancelledError):
            if store is not where:
                await uninterrupted(store.close())
            raise
        self._loop = asyncio.get_running_loop()
        self._store, self._engine, self.startup_report, self._stopped = store, engine, report, False

    def _make_engine(self, store: Store) -> Engine:
        options, where = self._options, self._where
        workers = Workers(threads=options.threads, processes=options.processes, queue_max=options.in_flight_max)
        if not isinstance(where, str):
            workers.outliving = self._outliving
        elif where != "memory://":  # that is another store with each start
            workers.outliving = OUTLIVING.setdefault(where, set())
        return Engine(
            store,
            self._registry,
            workers,
            node=next(self._new_ids(self._now(), 1)),
            clock=self._clock,
            events=self.events,
            options=options,
            rng=self._rng,
        )

    async def stop(self, grace: Duration | None = None) -> None:
        """Begin nothing more, wait for what runs, write its outcomes, and close the store; no effect if it is stopped.

        What still runs after the grace period (by default the option `grace_s`) is interrupted and runs again
        elsewhere, or later. A call that comes while another one waits can make the wait shorter; one that is cancelled
        waits no longer, and raises when everything is stopped.
        """
        self._check_place()
        grace_s = self._options.grace_s if grace is None else check_grace(grace)
        if self._stopping and grace is not None:
            self._limit_grace(grace_s)
        async with self._turns:
            if self._store is None:
                return
            self._stopping = True
            stopping = asyncio.ensure_future(self._stop(grace_s))
            try:
                await asyncio.shield(stopping)
            except asyncio.CancelledError:
                self._limit_grace(0)
                await uninterrupted(stopping)
                raise

    async def _stop(self, grace_s: float) -> None:
        # Until runs are over, their handlers may add tasks, and consumers acknowledge theirs.
        try:
            if self._engine is not None:
                await self._engine.stop(grace_s)
        finally:
            store, self._store, self._engine, self._loop = self._store, None, None, None
            self._stopping, self._stopped = False, True
            for waiting in self._running_forever:
                waiting.set()
            try:
                if self._webhooks is not None:
                    await self._webhooks.close()
            finally:
                if store is not None and store is not self._where:
                    await store.close()

    def _limit_grace(self, grace_s: float) -> None:
        if self._engine is not None:
            self._engine.limit_grace(grace_s)

    @property
    def _turns(self) -> asyncio.Lock:
        """Let one start or stop at a time; a lock serves one loop, and a scheduler one after another."""
        loop = asyncio.get_running_loop()
        if self._turns_on is None or self._turns_on[0] is not loop:
            self._turns_on = loop, asyncio.Lock()
        return self._turns_on[1]

    def _check_place(self) -> None:
        """Raise if it was started in another process, or on another loop: what it has there cannot be used here."""
        if self._store is None:
            return
        if self._process != os.getpid():
            raise SchedulerForked(self._process)
        if self._loop is not None and self._loop is not asyncio.get_running_loop():
            raise SchedulerOnOtherLoop(closed=self._loop.is_closed())

    def _leave_to_parent(self) -> None:
        """In a forked child: be as if never started, and touch nothing of what the parent started."""
        self._store = self._engine = self._loop = self._turns_on = None
        self._registry.on_new = None
        self._running_forever = set()
        self._outliving = set()
        self._stopping = False

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def run_forever(self) -> None:
        """Run tasks until cancelled or stopped.

        On the main thread, SIGTERM and SIGINT stop it, too, and it returns when that is done. A second signal ends the
        grace period at once, and further ones change nothing.
        """
        loop, told = asyncio.get_running_loop(), asyncio.Event()

        def stop() -> None:
            if told.is_set():
                self._limit_grace(0)
            told.set()

        with StopSignals(lambda: loop.call_soon_threadsafe(stop)):
            self._running_forever.add(told)
            starting, waiting = asyncio.ensure_future(self.start()), asyncio.ensure_future(told.wait())
            try:
                await asyncio.wait((starting, waiting), return_when=asyncio.FIRST_COMPLETED)
                if starting.done():
                    await starting
                    await waiting
            finally:
                self._running_forever.discard(told)
                starting.cancel()
                waiting.cancel()
                try:
                    await uninterrupted(asyncio.gather(starting, waiting, return_exceptions=True))
                finally:
                    await self.stop()

    # -- adding

    async def add(
        self,
        handler: str | Callable[..., Any] | None = None,
        args: Mapping[str, Any] | None = None,
        *,
        on_conflict: OnConflict = "reject",
        **wishes: Unpack[TaskFields],
    ) -> Task:
        """Add a task for a handler, a webhook or a queue; it is durable when this returns."""
        on_conflict = check_on_conflict(on_conflict)
        conflict = await self.add_one({"handler": handler, "args": args, **wishes}, on_conflict=on_conflict)
        return _marked(conflict, on_conflict)

    async def add_many(self, tasks: Iterable[Mapping[str, Any]], *, on_conflict: OnConflict = "reject") -> list[Task]:
        """Add tasks, each a dict of what `add` takes: all of them, or none if one is refused."""
        on_conflict = check_on_conflict(on_conflict)
        wanted = read_batch(tasks)
        await self._set_clock()
        drafts, loop = list[Task](), asyncio.get_running_loop()
        rest_at_s = loop.time() + DRAFTED_S
        for draft in self.build_tasks(wanted):
            drafts.append(draft)
            if loop.time() > rest_at_s:  # others on the loop have their turn before the rest
                await asyncio.sleep(0)
                rest_at_s = loop.time() + DRAFTED_S
        return await self.add_built(drafts, on_conflict)

    async def add_built(self, tasks: Sequence[Task], on_conflict: OnConflict) -> list[Task]:
        """Add tasks that `build_tasks` has made: all of them, or none if one is refused."""
        return [_marked(conflict, on_conflict) for conflict in await self._add_noted(tasks, on_conflict)]

    # -- asking

    async def get(self, task_id: str) -> Task:
        """Return a task; `UnknownTask` if there is none."""
        task_id = check_id(task_id)
        [task] = await self.explain([self._known(task_id, (await self._opened.get([task_id]))[0])])
        return task

    async def list(
        self,
        *,
        status: Status | None = None,
        handler: str | None = None,
        id_prefix: str | None = None,
        tag: str | None = None,
        text: str | None = None,
        order: Order = "newest",
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page:
        """List tasks, newest first by default, page by page."""
        wanted = Filter(status=status, handler=handler, id_prefix=id_prefix, tag=tag, text=text, order=order)
        return await self.query(wanted, cursor, limit)

    async def history(self, task_id: str, limit: int = 100) -> Sequence[Run]:
        """Return the runs of a task, latest first; `UnknownTask` if there is none."""
        task_id = check_id(task_id)
        runs = await self._opened.history(task_id, limit)
        if not runs:
            await self.get(task_id)
        return runs

    async def counts(self) -> dict[Status, int]:
        """Count the tasks of each status; what this process has claimed and not begun is pending."""
        counts = await self._opened.counts()
        if self._engine is not None:
            unbegun = min(self._engine.unbegun(), counts[Status.RUNNING])
            counts[Status.RUNNING] -= unbegun
            counts[Status.PENDING] += unbegun
        return counts

    def picture(self) -> Picture | None:
        """Return how the engine stands; None if it does not run. To be asked on the scheduler's loop."""
        return None if self._engine is None else self._engine.picture()

    # -- changing

    async def cancel(self, task_id: str, reason: str = "cancelled", *, run_only: bool = False) -> Task:
        """Cancel a task: at once if it waits; if it runs, it is asked to stop.

        With `run_only`, only the present run of a recurring task is stopped, and its series goes on.
        """
        task_id, reason, run_only = check_id(task_id), check_reason(reason), flag("run_only", run_only)
        async with self._held_back(task_id):
            # A second cancel changes nothing and emits no event.
            before = (await self._opened.get([task_id]))[0] if self.events.listeners else None
            task = self._readable(task_id, (await self._opened.cancel([task_id], reason, run_only=run_only))[0])
        changed = before is None or before.status is not Status.CANCELLED
        return self._note(task, "cancelled" if changed and task.status is Status.CANCELLED else None)

    async def reschedule(self, task_id: str, *, delay: Duration | None = None, at: datetime | None = None) -> Task:
        """Move a task that waits."""
        task_id = check_id(task_id)
        if (delay is None) == (at is None):
            raise InvalidSchedule("say when: a delay from now, or a time").within("delay")
        await self._set_clock()
        run_at = check_time("at", at) if delay is None else due_after(self._now_ns(), delay)
        async with self._held_back(task_id):
            task = await self._opened.reschedule(task_id, run_at)
        return self._note(task, "rescheduled")

    async def run_now(self, task_id: str) -> Task:
        """Let a task that waits run now, also if it is paused; a recurring one makes one run more.

        `TaskRunning` while it runs, `TaskFinished` if it is over.
        """
        task_id = check_id(task_id)
        await self._set_clock()
        async with self._held_back(task_id):
            task = self._readable(task_id, (await self._opened.run_now([task_id]))[0])
        transitions.check_waits(task)
        return self._note(task, "rescheduled")

    async def pause(self, task_id: str) -> Task:
        """Keep a task from beginning: at once if it waits, otherwise when its run is over."""
        task_id = check_id(task_id)
        async with self._held_back(task_id):
            task = self._unfinished(task_id, (await self._opened.pause([task_id]))[0])
        return self._note(task, "paused")

    async def resume(self, task_id: str, *, run_missed: bool = False) -> Task:
        """Let a paused task begin again: an overdue one-off now, a recurring one with its next occurrence.

        With `run_missed`, its missed-run policy applies to the occurrences that it was paused for.
        """
        task_id, run_missed = check_id(task_id), flag("run_missed", run_missed)
        task = self._unfinished(task_id, (await self._opened.resume([task_id], run_missed=run_missed))[0])
        return self._seen(self._note(task, "resumed"))

    def _unfinished(self, task_id: str, task: Task | None) -> Task:
        task = self._readable(task_id, task)
        if task.status in ENDED:
            raise TaskFinished(task_id, task.status)
        return task

    async def retry(self, task_id: str) -> Task:
        """Run a finished task again, now; one that is not finished stays as it is."""
        task_id = check_id(task_id)
        task = self._readable(task_id, (await self._opened.revive([task_id], self._now()))[0])
        return self._seen(self._note(task, "rescheduled"))

    async def purge(self, older_than: Duration = "7d") -> int:
        """Delete what has been over for so long by the wall clock, and return how many tasks that were."""
        return await self._opened.purge(self._now() - to_ms(older_than))

    # -- leasing from queues

    async def lease(
        self, queue: str, *, limit: int = 10, lease: Duration = "30s", wait: Duration = 0
    ) -> Sequence[Message]:
        """Lease tasks that wait in a queue, at most so many; if none does, wait for some to come due."""
        check_limit(limit)
        lease_ms, wait_ms = check_lease(to_ms(lease)), check_wait(to_ms(wait))
        return await self._queues.lease(check_queue(queue), limit, lease_ms, wait_ms)

    async def ack(self, task_id: str, token: str) -> Task:
        """Say that a leased task is done, and return it as it is stored then."""
        return await self._queues.leases.ack(check_id(task_id), check_token(token))

    async def nack(
        self, task_id: str, token: str, reason: str = "given back", *, delay: Duration | None = None
    ) -> Task:
        """Say that a leased task could not be done: it is tried again by its retry policy, or after a delay."""
        delay_ms = None if delay is None else to_ms(delay)
        return await self._queues.leases.nack(check_id(task_id), check_token(token), check_reason(reason), delay_ms)

    async def extend(self, task_id: str, token: str, *, lease: Duration = "30s") -> int:
        """Let a lease end so long from now; return when that is, in milliseconds since 1970."""
        return await self._queues.leases.extend(check_id(task_id), check_token(token), check_lease(to_ms(lease)))

    def leased_from(self, task_id: str) -> str | None:
        """Return the queue that a task is leased from now; None if it is not."""
        return self._queues.leases.queue_of(task_id)

    @property
    def _queues(self) -> Queues:
        _ = self._opened
        if self._engine is None:
            raise NoQueuesHere
        return self._engine.queues

    # -- parts

    def _note(self, task: Task, kind: Any) -> Task:
        if self._engine is not None:
            self._engine.on_change(task)
        if kind is not None:
            self.events.emit(kind, task, self._now())
        return task

    @property
    def _opened(self) -> Store:
        if self._store is None:
            raise SchedulerNotStarted(stopped=self._stopped)
        self._check_place()
        return self._store

    @property
    def clock_in_doubt(self) -> bool:
        """Whether the store is to be asked for the time before it is used."""
        return isinstance(self._clock, StoreClock) and self._clock.in_doubt

    async def _set_clock(self) -> None:
        """See that our clock goes by the store's; who runs tasks asks for that with every renewal of its leases."""
        if isinstance(self._clock, StoreClock) and self._clock.in_doubt:
            await self._clock.set_by(self._opened)

    def _now(self) -> int:
        return self._now_ns() // 1_000_000

    def _now_ns(self) -> int:
        return self._clock.time_ns()

    def _new_ids(self, now: int, count: int) -> Iterator[str]:
        """Make ids of their own, in order, and after all of earlier moments: what is added together is stored together.

        An index that grows at its end alone is the cheapest to write, and stays the smallest.
        """
        moment = f"{now:012x}"
        drawn = f"{self._rng.getrandbits(80 * count):0{20 * count}x}"
        return iter(sorted([moment + drawn[place : place + 20] for place in range(0, 20 * count, 20)]))


def read_batch(tasks: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Take the tasks of one call out of whatever the caller has them in."""
    if not isinstance(tasks, Iterable):
        raise invalid("tasks", tasks, "an iterable of dicts, each of what add() takes")
    batch = list(islice(tasks, BATCH_MAX + 1))  # one more than there may be, to see whether there are
    check_batch(batch)
    return batch


def _marked(conflict: Conflict, on_conflict: OnConflict) -> Task:
    """Mark what was kept in place of what was to be added."""
    if conflict.added or on_conflict != "keep":
        return conflict.task
    return msgspec.structs.replace(conflict.task, deduplicated=True)
