"""A bounded number of threads for one event loop, which never keep the program from ending."""

import asyncio
import logging
from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread, current_thread
from typing import Final
from weakref import finalize

from tickwheel.workers.contract import Outcome

__all__ = ["Threads"]

log = logging.getLogger("tickwheel.workers")

Call = Callable[[], Outcome]
Then = Callable[[Outcome], object]
Item = tuple["Threads", Call, "Ending"]
Leave = Callable[[Thread], None]
Ending = tuple[Future[Outcome], Then | None]  # what is done, and what is called, when a call is over

GROW_AGAIN_S: Final = 1.0  # after a thread could not be started, before another is tried
DELIVERED_MAX: Final = 64  # outcomes in one step of the loop: a millisecond or two of what their callers do then


class Threads:
    """Threads that make calls; each is started when it is first needed, and kept.

    They are daemons: a call that never returns must not keep the interpreter from ending, as it would in a
    `ThreadPoolExecutor`, which joins its threads at exit. Those of a set that is dropped without being closed end
    by themselves, for idle threads hold nothing but the queue.

    Outcomes are delivered on the loop, all that have come since it last looked: to wake it costs more than many calls.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._grow_at_s: float | None = None  # when another thread is tried again, if the system had none left
        self._replaced: set[Future[Outcome]] = set()  # calls that do not return, whose places others have
        self._name = name
        self._busy = 0
        self._threads: set[Thread] = set()
        self._items: SimpleQueue[Item | tuple[AbstractEventLoop, Leave] | None] = SimpleQueue()
        finalize(self, dismiss, self._items, self._threads).atexit = False
        self._outcomes: deque[tuple[Ending, Outcome]] = deque()  # to be delivered
        self._woken = False  # the loop will look at them
        self._loop: AbstractEventLoop
        self._fewer: asyncio.Event

    @property
    def free(self) -> int:
        """Return how many calls would be begun now."""
        most = self._most
        if self._grow_at_s is not None and self._loop.time() < self._grow_at_s:
            most = min(most, len(self._threads))  # with what there is, so that the most urgent gets it
        return max(most + len(self._replaced) - self._busy, 0)

    def submit(self, call: Call, then: Then | None = None) -> Future[Outcome]:
        """Make a call on a thread, which must not raise; its outcome is told on the loop."""
        assert self.free > 0
        if self._busy == len(self._threads):
            self._grow()
        self._busy += 1
        over: Future[Outcome] = self._loop.create_future()
        self._items.put((self, call, (over, then)))
        return over

    def replace(self, call: Future[Outcome]) -> bool:
        """Give the place of a call that does not return to others; False if as many as there are places were given."""
        if len(self._replaced) < self._most:
            self._replaced.add(call)
        return call in self._replaced

    def _grow(self) -> None:
        if not self._threads:
            self._loop = asyncio.get_running_loop()
            self._fewer = asyncio.Event()
        thread = Thread(target=serve, args=(self._items,), name=f"{self._name}-{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system has no more threads, for now
            if not self._threads:
                raise
            if self._grow_at_s is None:
                log.warning("%s; %d threads make all calls until another can be started", error, len(self._threads))
            self._grow_at_s = self._loop.time() + GROW_AGAIN_S
            return
        self._threads.add(thread)
        self._grow_at_s = None

    def hand_over(self, ending: Ending, outcome: Outcome) -> None:
        """Have an outcome delivered, from a thread; raise `RuntimeError` if the loop is closed."""
        self._outcomes.append((ending, outcome))
        if not self._woken:  # looked at after the outcome is there: whoever takes it down looks for outcomes after that
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:
                self._woken = False  # the other threads are to find out, too
                raise

    def _deliver(self) -> None:
        self._woken = False
        try:
            for _ in range(min(len(self._outcomes), DELIVERED_MAX)):
                (over, then), outcome = self._outcomes.popleft()
                self._busy -= 1
                self._replaced.discard(over)
                if not over.done():  # the loop may be shutting down, and have cancelled it
                    over.set_result(outcome)
                if then is not None:
                    then(outcome)
        finally:
            if self._outcomes and not self._woken:
                self._woken = True
                self._loop.call_soon(self._deliver)  # others on the loop have their turn before the rest

    def _leave(self, thread: Thread) -> None:
        thread.join()  # this was the last thing it did
        self._threads.discard(thread)
        self._fewer.set()

    async def close(self) -> None:
        """End the threads that are idle, and let the others end when they are."""
        for _ in self._threads:
            self._items.put((self._loop, self._leave))
        while len(self._threads) > self._busy:
            self._fewer.clear()
            await self._fewer.wait()


def serve(items: SimpleQueue[Item | tuple[AbstractEventLoop, Leave] | None]) -> None:
    """Make calls, one after the other, until told to leave."""
    while (item := items.get()) is not None:
        try:
            if len(item) == 2:  # noqa: PLR2004 - there is nothing to call
                loop, leave = item
                loop.call_soon_threadsafe(leave, current_thread())
                return
            threads, call, ending = item
            threads.hand_over(ending, call())
        except RuntimeError:
            return  # the loop is closed: nobody waits for this any more, nor for anything else
        del item, threads, call, ending  # nothing of a run is kept alive by waiting for the next


def dismiss(items: SimpleQueue[Item | tuple[AbstractEventLoop, Leave] | None], threads: set[Thread]) -> None:
    """Tell threads to leave whose set is gone."""
    for _ in threads:
        items.put(None)
