"""`Scheduler`: durable tasks for everyone else: an `AsyncScheduler` on a loop in a thread, with the same verbs.

scheduler = Scheduler("sqlite:///tasks.db")

@scheduler.task("orders.cancel", retries=3, timeout="5m")
def cancel_order(order_id: int) -> None: ...

with scheduler:
    scheduler.add("orders.cancel", {"order_id": 7}, delay="30d", id="order-7")
    scheduler.run_forever()

A process that forks takes it along: in the child it starts afresh when it is first used, with a loop, a thread, a store
and a node of its own, and the parent's goes on as if nothing had happened.

    parent   start() --- add() ------ fork ------------ add() ------------->   loop, thread, node A
    child                              `--- add() -------------------------->   loop, thread, node B
"""

import asyncio
import atexit
import ctypes
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from datetime import datetime
from multiprocessing import parent_process
from multiprocessing.util import Finalize
from typing import Any, Final, Self, TypeVar, Unpack
from weakref import WeakSet

from tickwheel.durations import Duration
from tickwheel.errors import BlockingCall, SchedulerNotStarted
from tickwheel.observe.events import Events
from tickwheel.observe.picture import Picture
from tickwheel.scheduler.async_scheduler import AsyncScheduler, read_batch
from tickwheel.scheduler.engine.janitor import StartupReport
from tickwheel.scheduler.options import check_grace
from tickwheel.scheduler.queues.message_leases import Message
from tickwheel.scheduler.signals import StopSignals
from tickwheel.scheduler.task_builder import TaskFields
from tickwheel.scheduler.verbs import Action
from tickwheel.stores.contract import Filter, Lease, OnConflict, Order, Page, Store, Total
from tickwheel.stores.validation import check_on_conflict
from tickwheel.tasks.record import Run, Status, Task
from tickwheel.timers.event_loop import EventLoop
from tickwheel.workers.results import describe

__all__ = ["Scheduler"]

T = TypeVar("T")

LEAVE_S: Final = 1.0  # for calls that were cancelled because the scheduler was stopped
ALIVE_S: Final = 1.0  # between two looks of one who waits whether the loop still runs
STOP: Final = b"x"  # in the pipe of run_forever, where the numbers of signals come, too: they are lower
END_PRIORITY: Final = 100  # before multiprocessing ends its pools (15) and queues (10), which handlers may still use

log = logging.getLogger("tickwheel.scheduler")


class Scheduler:
    """Durable tasks, from any thread."""

    def __init__(
        self, store: str | Store | AsyncScheduler = "sqlite:///tasks.db", *, run: bool = True, **options: Any
    ) -> None:
        self._inner = store if isinstance(store, AsyncScheduler) else AsyncScheduler(store, run=run, **options)
        self.task = self._inner.task
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._ending = False  # the loop is to end
        self._broken = False  # the loop ended by an error
        self._forked = False  # started in the parent of this process, and not here yet
        self._running_forever: set[int] = set()  # pipes to write to when it is stopped
        self._renew_locks()
        _SCHEDULERS.add(self)

    def _renew_locks(self) -> None:
        self._turns = threading.Lock()  # one start or stop at a time
        self._lock = threading.RLock()  # over the fields above, for moments; a signal handler may interrupt its holder

    @property
    def inner(self) -> AsyncScheduler:
        """The scheduler behind it: for programs that have a loop themselves, and for `run`."""
        return self._inner

    @property
    def events(self) -> Events:
        """What happens, as it happens; listeners are called on the scheduler's thread."""
        return self._inner.events

    @property
    def startup_report(self) -> StartupReport | None:
        """What was found at the start."""
        return self._inner.startup_report

    # -- begin and end

    def start(self) -> Self:
        """Open the store and begin to run tasks; no effect if it is started."""
        self._check_thread("start")
        with self._turns:
            if self._loop is None:
                self._start()
        return self

    def _start(self) -> None:
        loop = EventLoop()
        thread = threading.Thread(target=self._serve, args=(loop,), name="tickwheel-scheduler", daemon=True)
        self._thread = thread  # from here on, what is called there is refused
        self._ending = False
        thread.start()
        try:
            wait(asyncio.run_coroutine_threadsafe(self._inner.start(), loop), thread)
        except BaseException:
            self._end(loop, thread)
            raise
        with self._lock:
            self._loop, self._forked = loop, False
        atexit.register(self.stop)  # a program that just ends lets what runs end, and gives its leases back
        stop_in_child_process()

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the loop until it is to end: asyncio lets some errors of handlers through, and they may stop it."""
        while not self._ending:
            try:
                loop.run_forever()
                what = "a handler stopped the scheduler's event loop"
            except Exception:
                log.critical("the scheduler's event loop cannot go on: restart this program", exc_info=True)
                with self._lock:
                    self._broken = True
                    self._wake_waiting()
                return
            except BaseException as error:  # noqa: BLE001 - SystemExit or KeyboardInterrupt
                what = f"{type(error).__name__} was raised in a task that a handler started: {describe(error)}"
            if not self._ending:
                log.error("%s; tasks go on; raise Fail to end a run, and call stop() to stop the scheduler", what)

    def _wake_waiting(self) -> None:
        for pipe in self._running_forever:
            os.write(pipe, STOP)

    def stop(self, grace: Duration | None = None) -> None:
        """Begin nothing more, wait for what runs, write its outcomes, and close the store; no effect if it is stopped.

        What still runs after the grace period (by default the option `grace_s`) is interrupted and runs again
        elsewhere, or later. A call that comes while another one waits can make the wait shorter.
        """
        self._check_thread("stop")
        grace_s = None if grace is None else check_grace(grace)
        if grace_s is not None and self._stopping:
            self._limit_grace(grace_s)
        with self._turns:
            self._forked = False
            atexit.unregister(self.stop)
            loop, thread = self._loop, self._thread
            if loop is None or thread is None:
                return
            if self._broken:
                raise SchedulerNotStarted(broken=True)
            self._stopping = True
            try:
                wait(asyncio.run_coroutine_threadsafe(self._inner.stop(grace), loop), thread)
            finally:
                with self._lock:
                    self._loop, self._stopping = None, False
                    self._wake_waiting()
                self._end(loop, thread)

    def _limit_grace(self, grace_s: float) -> None:
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it has just been closed
                loop.call_soon_threadsafe(self._inner._limit_grace, grace_s)

    def _end(self, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
        try:
            wait(asyncio.run_coroutine_threadsafe(self._clear_loop(), loop), thread)
            self._ending = True
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
        finally:
            self._thread = None

    async def _clear_loop(self) -> None:
        """Finish an interrupted start or stop, and cancel what is left, so that no caller waits for ever."""
        await self._inner.stop(0)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for other in others:
            other.cancel()
        if others:
            await asyncio.wait(others, timeout=LEAVE_S)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def run_forever(self) -> None:
        """Run tasks until stopped.

        On the main thread, SIGTERM and SIGINT stop it, too, and it returns when that is done. A second signal ends the
        grace period at once, and further ones change nothing.
        """
        self._run_forever(lambda: None, lambda: None)

    def _run_forever(self, on_start: Callable[[], object], on_stop: Callable[[], object]) -> None:
        reading, writing = os.pipe()  # a lock could be held by what the signal interrupts
        received = 0

        def stop() -> None:
            nonlocal received
            received += 1
            if received == 1:
                os.write(writing, STOP)
                return
            if self._loop is None:
                signals.restore()
                raise KeyboardInterrupt  # it has not even started
            self._limit_grace(0)

        try:
            with StopSignals(stop, writing) as signals, self:
                with self._lock:
                    self._running_forever.add(writing)
                    if self._loop is None or self._broken:
                        os.write(writing, STOP)  # it has ended meanwhile
                on_start()
                while os.read(reading, 1) != STOP:
                    pass  # the number of a signal, which is handled now
                on_stop()
        finally:
            with self._lock:
                self._running_forever.discard(writing)
            os.close(reading)
            os.close(writing)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the scheduler's loop and return what it does: for what stands on `inner`."""
        return self._call(coroutine)

    def _call(self, coroutine: Coroutine[Any, Any, T], method: str | None = None) -> T:
        try:
            self._check_thread(method or str(getattr(coroutine, "__name__", "run")))
            future, thread = self._submit(coroutine)
        except BaseException:
            coroutine.close()  # it is not begun, and nobody will
            raise
        try:
            return wait(future, thread)
        except CancelledError:
            if self._loop is not None:
                raise  # a coroutine given to `run` has cancelled itself
            raise SchedulerNotStarted(stopped=True) from None

    def _submit(self, coroutine: Coroutine[Any, Any, T]) -> "tuple[Future[T], threading.Thread]":
        if self._forked:
            self.start()
        with self._lock:  # so that it is not handed to a loop that has just ended
            if self._loop is None or self._thread is None:
                raise SchedulerNotStarted(stopped=self._inner._stopped)
            if self._broken:
                raise SchedulerNotStarted(broken=True)
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop), self._thread

    def _check_thread(self, method: str) -> None:
        if self._thread is threading.current_thread():
            raise BlockingCall(method)

    def _after_fork(self) -> None:
        """In a forked child: be as before the start, and start when it is used."""
        self._forked = self._forked or (self._loop is not None and not self._stopping)
        # Nothing of the parent's may be used here, nor closed, nor collected: it shares sockets with the parent, and
        # coroutines that are collected run their `finally` blocks.
        keep_for_ever((self._loop, self._thread, self._inner._store, self._inner._engine))
        self._loop = self._thread = None
        self._stopping = self._broken = False
        self._running_forever = set()
        self._inner._leave_to_parent()
        self._renew_locks()

    # -- the verbs of AsyncScheduler

    def add(
        self,
        handler: str | Callable[..., Any] | None = None,
        args: Mapping[str, Any] | None = None,
        *,
        on_conflict: OnConflict = "reject",
        **wishes: Unpack[TaskFields],
    ) -> Task:
        """Add a task for a handler, a webhook or a queue; it is durable when this returns."""
        self._check_thread("add")
        [task] = self._add([{"handler": handler, "args": args, **wishes}], on_conflict)
        return task

    def add_many(self, tasks: Iterable[Mapping[str, Any]], *, on_conflict: OnConflict = "reject") -> Sequence[Task]:
        """Add tasks, each a dict of what `add` takes: all of them, or none if one is refused."""
        self._check_thread("add_many")
        return self._add(read_batch(tasks), on_conflict)

    def _add(self, wanted: Sequence[Mapping[str, Any]], on_conflict: OnConflict) -> Sequence[Task]:
        """Make tasks here, and add them on the loop: there, a slow object of the caller's would stop all tasks."""
        on_conflict = check_on_conflict(on_conflict)
        if self._forked:
            self.start()
        if self._inner.clock_in_doubt:
            self._call(self._inner._set_clock())
        return self._call(self._inner.add_built([*self._inner.build_tasks(wanted)], on_conflict))

    def get(self, task_id: str) -> Task:
        """Return a task; `UnknownTask` if there is none."""
        return self._call(self._inner.get(task_id))

    def list(
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
        return self._call(
            self._inner.list(
                status=status,
                handler=handler,
                id_prefix=id_prefix,
                tag=tag,
                text=text,
                order=order,
                cursor=cursor,
                limit=limit,
            )
        )

    def history(self, task_id: str, limit: int = 100) -> Sequence[Run]:
        """Return the runs of a task, latest first; `UnknownTask` if there is none."""
        return self._call(self._inner.history(task_id, limit))

    def counts(self) -> dict[Status, int]:
        """Count the tasks of each status."""
        return self._call(self._inner.counts())

    def leases(self) -> Sequence[Lease]:
        """List who runs the tasks of which partition, among all that share the store."""
        return self._call(self._inner.leases())

    def unresponsive_nodes(self) -> Sequence[tuple[str, int | None]]:
        """List nodes that own partitions and do not respond, with their pid if it is known; where a store can tell."""
        return self._call(self._inner.unresponsive_nodes())

    def count(self, wanted: Filter) -> Total:
        """Count tasks; of very many, some, and it says so."""
        return self._call(self._inner.count(wanted))

    def time(self) -> int:
        """Read the store's clock; this process's, if the store has none."""
        return self._call(self._inner.time())

    def handler_names(self) -> set[str]:
        """Return the names of the handlers this process knows."""
        return {handler.name for handler in self._inner.handlers()}

    def sweep(self, action: Action, wanted: Filter) -> Iterator[tuple[int, int]]:
        """Do the same to all tasks that fit, page by page; tell how many were seen and how many changed so far."""
        pages = self._inner.sweep(action, wanted)
        while (page := self._call(self._next(pages), "sweep")) is not None:
            yield page

    @staticmethod
    async def _next(pages: AsyncIterator[tuple[int, int]]) -> tuple[int, int] | None:
        return await anext(pages, None)

    def picture(self) -> Picture | None:
        """Return how the engine stands; None if it does not run."""
        if self._loop is None:
            return None
        with suppress(SchedulerNotStarted):  # meanwhile
            return self._call(self._picture(), "picture")
        return None

    async def _picture(self) -> Picture | None:
        return self._inner.picture()

    def cancel(self, task_id: str, reason: str = "cancelled", *, run_only: bool = False) -> Task:
        """Cancel a task: at once if it waits; if it runs, it is asked to stop.

        With `run_only`, only the present run of a recurring task is stopped, and its series goes on.
        """
        return self._call(self._inner.cancel(task_id, reason, run_only=run_only))

    def reschedule(self, task_id: str, *, delay: Duration | None = None, at: datetime | None = None) -> Task:
        """Move a task that waits."""
        return self._call(self._inner.reschedule(task_id, delay=delay, at=at))

    def amend(
        self,
        task_id: str,
        args: Mapping[str, Any] | None = None,
        *,
        version: int | None = None,
        **wishes: Unpack[TaskFields],
    ) -> Task:
        """Change a task that waits: its time, arguments or policies; what is not said stays."""
        return self._call(self._inner.amend(task_id, args, version=version, **wishes))

    def delete(self, task_id: str) -> Task:
        """Delete a task and its runs, and return how it was."""
        return self._call(self._inner.delete(task_id))

    def run_now(self, task_id: str) -> Task:
        """Let a task that waits run now, also if it is paused; a recurring one makes one run more.

        `TaskRunning` while it runs, `TaskFinished` if it is over.
        """
        return self._call(self._inner.run_now(task_id))

    def pause(self, task_id: str) -> Task:
        """Keep a task from beginning: at once if it waits, otherwise when its run is over."""
        return self._call(self._inner.pause(task_id))

    def resume(self, task_id: str, *, run_missed: bool = False) -> Task:
        """Let a paused task begin again: an overdue one-off now, a recurring one with its next occurrence.

        With `run_missed`, its missed-run policy applies to the occurrences that it was paused for.
        """
        return self._call(self._inner.resume(task_id, run_missed=run_missed))

    def retry(self, task_id: str) -> Task:
        """Run a finished task again, now; one that is not finished stays as it is."""
        return self._call(self._inner.retry(task_id))

    def purge(self, older_than: Duration = "7d") -> int:
        """Delete what has been over for so long by the wall clock, and return how many tasks that were."""
        return self._call(self._inner.purge(older_than))

    def lease(self, queue: str, *, limit: int = 10, lease: Duration = "30s", wait: Duration = 0) -> Sequence[Message]:
        """Lease tasks that wait in a queue, at most so many; if none does, wait for some to come due."""
        return self._call(self._inner.lease(queue, limit=limit, lease=lease, wait=wait))

    def ack(self, task_id: str, token: str) -> Task:
        """Say that a leased task is done, and return it as it is stored then."""
        return self._call(self._inner.ack(task_id, token))

    def nack(self, task_id: str, token: str, reason: str = "given back", *, delay: Duration | None = None) -> Task:
        """Say that a leased task could not be done: it is tried again by its retry policy, or after a delay."""
        return self._call(self._inner.nack(task_id, token, reason, delay=delay))

    def extend(self, task_id: str, token: str, *, lease: Duration = "30s") -> int:
        """Let a lease end so long from now; return when that is, in milliseconds since 1970."""
        return self._call(self._inner.extend(task_id, token, lease=lease))


def wait(future: "Future[T]", thread: threading.Thread) -> T:
    """Wait for a coroutine on the loop of a thread; an interrupt (Ctrl-C) cancels it, and a dead thread raises."""
    try:
        while thread.is_alive() and not future.done():
            with suppress(TimeoutError):  # it may be the coroutine's own
                return future.result(ALIVE_S)
        if future.done():
            return future.result()
    except BaseException:
        future.cancel()  # no effect if it is over
        raise
    raise SchedulerNotStarted(broken=True)


def keep_for_ever(what: object) -> None:
    """Count one reference too many, so that something outlives even the interpreter."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(what))


_SCHEDULERS: Final[WeakSet[Scheduler]] = WeakSet()
_FINALIZERS: Final[list[Finalize]] = []  # of this process: one from the first start in it, if it is a child


def stop_in_child_process() -> None:
    """Have schedulers stopped at the end of a child of `multiprocessing`: forked, it skips `atexit` before 3.13."""
    if parent_process() is not None and not _FINALIZERS:
        _FINALIZERS.append(Finalize(None, stop_at_end, exitpriority=END_PRIORITY))


def stop_at_end() -> None:
    """Stop the schedulers of a child, unless it goes on: as any program, it ends when its last thread does."""
    if not _FINALIZERS:
        return
    _FINALIZERS.clear()
    if other_threads():
        threading.Thread(target=stop_after_threads, name="tickwheel-end", daemon=False).start()
    else:
        stop_all()


def stop_after_threads() -> None:
    """Wait for the threads that keep this process from ending, and stop the schedulers; it waits for this one, too."""
    while threads := other_threads():
        for thread in threads:
            thread.join()
    stop_all()


def other_threads() -> list[threading.Thread]:
    """List the threads that the end of this process waits for, but for the main thread and the calling one."""
    known = {threading.main_thread(), threading.current_thread()}
    return [thread for thread in threading.enumerate() if not thread.daemon and thread not in known]


def stop_all() -> None:
    for scheduler in list(_SCHEDULERS):
        try:
            scheduler.stop()
        except Exception:
            log.exception("a scheduler could not be stopped at the end of its process")


def _after_fork() -> None:
    _FINALIZERS.clear()
    for scheduler in list(_SCHEDULERS):
        scheduler._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
