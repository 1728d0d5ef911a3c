"""A bounded number of threads for one event loop, which never keep the program from ending."""

import asyncio
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread, current_thread

from tickwheel.workers.contract import Outcome

__all__ = ["Threads"]

Call = Callable[[], Outcome]


class Threads:
    """Threads that make calls; each is started when it is first needed, and kept.

    They are daemons: a call that never returns must not keep the interpreter from ending, as it would in a
    `ThreadPoolExecutor`, which joins its threads at exit.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._busy = 0
        self._threads: set[Thread] = set()
        self._calls: SimpleQueue[tuple[Call, Future[Outcome]] | None] = SimpleQueue()
        self._loop: AbstractEventLoop
        self._fewer: asyncio.Event

    @property
    def free(self) -> int:
        """Return how many calls would be begun now."""
        return self._most - self._busy

    def submit(self, call: Call) -> Future[Outcome]:
        """Make a call on a thread; it must not raise."""
        assert self._busy < self._most
        if self._busy == len(self._threads):
            self._grow()
        self._busy += 1
        over: Future[Outcome] = self._loop.create_future()
        self._calls.put((call, over))
        return over

    def _grow(self) -> None:
        if not self._threads:
            self._loop = asyncio.get_running_loop()
            self._fewer = asyncio.Event()
        thread = Thread(target=self._serve, name=f"{self._name}-{len(self._threads)}", daemon=True)
        thread.start()
        self._threads.add(thread)

    def _serve(self) -> None:
        try:
            while (item := self._calls.get()) is not None:
                call, over = item
                outcome = call()
                self._loop.call_soon_threadsafe(self._deliver, over, outcome)
                del item, call, over, outcome  # nothing of a run is kept alive by waiting for the next
            self._loop.call_soon_threadsafe(self._leave, current_thread())
        except RuntimeError:
            return  # the loop is closed: nobody waits for this any more, nor for anything else

    def _deliver(self, over: Future[Outcome], outcome: Outcome) -> None:
        self._busy -= 1
        if not over.done():  # the loop may be shutting down, and have cancelled it
            over.set_result(outcome)

    def _leave(self, thread: Thread) -> None:
        thread.join()  # this was the last thing it did
        self._threads.discard(thread)
        self._fewer.set()

    async def close(self) -> None:
        """End the threads that are idle, and let the others end when they are."""
        for _ in self._threads:
            self._calls.put(None)
        while len(self._threads) > self._busy:
            self._fewer.clear()
            await self._fewer.wait()
