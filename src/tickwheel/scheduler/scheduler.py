"""`Scheduler`: durable tasks for everyone else: an `AsyncScheduler` on a loop in a thread, with the same verbs.

scheduler = Scheduler("sqlite:///tasks.db")

@scheduler.task("orders.cancel", retries=3, timeout="5m")
def cancel_order(order_id: int) -> None: ...

with scheduler:
    scheduler.add("orders.cancel", {"order_id": 7}, delay="30d", id="order-7")
    scheduler.run_forever()
"""

import asyncio
import atexit
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Self, TypeVar, Unpack

from tickwheel.durations import Duration
from tickwheel.observe.events import Events
from tickwheel.observe.picture import Picture
from tickwheel.scheduler.async_scheduler import AsyncScheduler
from tickwheel.scheduler.draft import Wishes
from tickwheel.scheduler.leases import Message
from tickwheel.scheduler.recovery import Recovery
from tickwheel.scheduler.verbs import Action
from tickwheel.stores.contract import Filter, Lease, OnConflict, Order, Page, Store, Total
from tickwheel.tasks.record import Run, Status, Task
from tickwheel.timers.event_loop import EventLoop

__all__ = ["Scheduler"]

T = TypeVar("T")


class Scheduler:
    """Durable tasks, from any thread."""

    def __init__(
        self, store: str | Store | AsyncScheduler = "sqlite:///tasks.db", *, run: bool = True, **options: Any
    ) -> None:
        self._inner = store if isinstance(store, AsyncScheduler) else AsyncScheduler(store, run=run, **options)
        self.task = self._inner.task
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @property
    def inner(self) -> AsyncScheduler:
        """The scheduler behind it: for programs that have a loop themselves, and for `run`."""
        return self._inner

    @property
    def events(self) -> Events:
        """What happens, as it happens; listeners are called on the scheduler's thread."""
        return self._inner.events

    @property
    def recovery(self) -> Recovery | None:
        """What was found at the start."""
        return self._inner.recovery

    # -- begin and end

    def start(self) -> Self:
        """Open the store and begin to run tasks. Harmless if it was started."""
        with self._lock:
            if self._loop is None:
                loop = EventLoop()
                thread = threading.Thread(target=loop.run_forever, name="tickwheel-scheduler", daemon=True)
                thread.start()
                try:
                    asyncio.run_coroutine_threadsafe(self._inner.start(), loop).result()
                except BaseException:
                    self._end(loop, thread)
                    raise
                self._loop, self._thread = loop, thread
                atexit.register(self.stop)  # a program that just ends lets what runs end, and gives its leases back
        return self

    def stop(self) -> None:
        """Take no more, wait for what runs, write its outcomes, and close the store."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
            atexit.unregister(self.stop)
            if loop is not None and thread is not None:
                try:
                    asyncio.run_coroutine_threadsafe(self._inner.stop(), loop).result()
                finally:
                    self._end(loop, thread)

    @staticmethod
    def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def run_forever(self) -> None:
        """Run tasks until interrupted."""
        with self:
            threading.Event().wait()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the scheduler's loop and return what it does: for what stands on `inner`."""
        return self._call(coroutine)

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            try:
                self.start()
            except BaseException:
                coroutine.close()  # it is not begun, and nobody will
                raise
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    # -- the verbs of AsyncScheduler

    def add(
        self,
        handler: str | Callable[..., Any] | None = None,
        args: Mapping[str, Any] | None = None,
        *,
        on_conflict: OnConflict = "reject",
        **wishes: Unpack[Wishes],
    ) -> Task:
        """Add a task for a handler, a webhook or a queue; it is durable when this returns."""
        return self._call(self._inner.add(handler, args, on_conflict=on_conflict, **wishes))

    def add_many(self, tasks: Iterable[Mapping[str, Any]], *, on_conflict: OnConflict = "reject") -> Sequence[Task]:
        """Add tasks, each a dict of what `add` takes: all of them, or none if one is refused."""
        return self._call(self._inner.add_many(tasks, on_conflict=on_conflict))

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
        """List tasks, newest first unless told, page by page."""
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
        """Return the runs of a task, latest first."""
        return self._call(self._inner.history(task_id, limit))

    def counts(self) -> dict[Status, int]:
        """Count the tasks of each status."""
        return self._call(self._inner.counts())

    def leases(self) -> Sequence[Lease]:
        """List who runs the tasks of which partition, among all that share the store."""
        return self._call(self._inner.leases())

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
        while (page := self._call(self._next(pages))) is not None:
            yield page

    @staticmethod
    async def _next(pages: AsyncIterator[tuple[int, int]]) -> tuple[int, int] | None:
        return await anext(pages, None)

    def picture(self) -> Picture | None:
        """Return how the engine stands; None if it does not run."""
        loop = self._loop
        return None if loop is None else asyncio.run_coroutine_threadsafe(self._look(), loop).result()

    async def _look(self) -> Picture | None:
        return self._inner.picture()

    def cancel(self, task_id: str, reason: str = "cancelled") -> Task:
        """Cancel a task: at once if it waits; if it runs, it is asked to stop."""
        return self._call(self._inner.cancel(task_id, reason))

    def reschedule(self, task_id: str, *, delay: Duration | None = None, at: datetime | None = None) -> Task:
        """Move a task that waits."""
        return self._call(self._inner.reschedule(task_id, delay=delay, at=at))

    def amend(
        self,
        task_id: str,
        args: Mapping[str, Any] | None = None,
        *,
        version: int | None = None,
        **wishes: Unpack[Wishes],
    ) -> Task:
        """Change a task that waits: its time, arguments or policies; what is not said stays."""
        return self._call(self._inner.amend(task_id, args, version=version, **wishes))

    def delete(self, task_id: str) -> Task:
        """Delete a task and its runs, and return how it was."""
        return self._call(self._inner.delete(task_id))

    def run_now(self, task_id: str) -> Task:
        """Let a task that waits run at once."""
        return self._call(self._inner.run_now(task_id))

    def pause(self, task_id: str) -> Task:
        """Keep a task from coming due."""
        return self._call(self._inner.pause(task_id))

    def resume(self, task_id: str) -> Task:
        """Let a paused task come due again."""
        return self._call(self._inner.resume(task_id))

    def retry(self, task_id: str) -> Task:
        """Let a task that is over run again, now."""
        return self._call(self._inner.retry(task_id))

    def purge(self, older_than: Duration = "7d") -> int:
        """Delete what has been over for so long, and return how many tasks that were."""
        return self._call(self._inner.purge(older_than))

    def lease(self, queue: str, *, limit: int = 10, lease: Duration = "30s", wait: Duration = 0) -> Sequence[Message]:
        """Lease tasks that wait in a queue, at most so many; if none does, wait for some to come due."""
        return self._call(self._inner.lease(queue, limit=limit, lease=lease, wait=wait))

    def ack(self, task_id: str, token: str) -> Task:
        """Say that a leased task is done."""
        return self._call(self._inner.ack(task_id, token))

    def nack(self, task_id: str, token: str, reason: str = "given back", *, delay: Duration | None = None) -> Task:
        """Say that a leased task could not be done: it is tried again by its retry policy, or after a delay."""
        return self._call(self._inner.nack(task_id, token, reason, delay=delay))

    def extend(self, task_id: str, token: str, *, lease: Duration = "30s") -> int:
        """Let a lease end so long from now; return when that is, in milliseconds since 1970."""
        return self._call(self._inner.extend(task_id, token, lease=lease))
