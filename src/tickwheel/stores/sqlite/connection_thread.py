"""A thread with a connection of its own, and the calls that wait for it.

    loop thread      call -> queue ................................................. -> future
    this thread              take all that wait -> do them, one commit -> answer all -^

Whatever came while the last group was being written is the next group, so that the busier it gets the fewer
commits a call takes, and nobody waits for company.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from tickwheel.clock import SystemClock
from tickwheel.errors import StoreClosed
from tickwheel.stores.notifications import News
from tickwheel.stores.sqlite.forks import IN_USE

__all__ = ["Call", "ConnectionThread"]

T = TypeVar("T")
W = TypeVar("W")  # what its calls work with

WAITING_MAX: Final = 1024  # calls in the queue; whoever comes then waits before it
GROUP_CALLS_MAX: Final = 256
GROUP_ROWS_MAX: Final = 10_000  # of all calls in a group, unless one alone brings more
SOON_S: Final = 0.01  # before the first look


class Call:
    """Something to be done, and what came of it."""

    __slots__ = ("answer", "error", "future", "rows", "touched", "work")

    def __init__(self, work: Callable[[Any], Any], future: "asyncio.Future[Any]", rows: int) -> None:
        self.work = work
        self.future = future
        self.rows = rows
        self.answer: Any = None
        self.error: BaseException | None = None
        self.touched = News()  # what it changed


class ConnectionThread(Generic[W]):
    """Does calls in groups, in the order they came. It belongs to the event loop it was made on."""

    def __init__(
        self,
        name: str,
        do: Callable[[list[Call]], None],
        *,
        look: Callable[[], tuple[News, float]] | None = None,
        tell: Callable[[News], None] = News.clear,
        abandon: Callable[[], None] | None = None,
    ) -> None:
        self._do = do
        self._look = look  # returns news, and when to look again
        self._news_to = tell
        self._abandon = abandon  # is called on the thread if the loop is closed before this is
        self._look_at: float | None = None  # by the monotonic clock
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(WAITING_MAX)
        self._ended = asyncio.Event()
        self._waiting: deque[Call] = deque()
        self._woken = threading.Condition()
        self._closing = False
        # A daemon: a program that ends without closing its store ends, and what was acknowledged is on the disk.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def call(self, work: Callable[[W], T], rows: int = 1) -> T:
        """Have something done, and wait for it; who stops waiting before it was begun takes it back."""
        if self._closing:
            raise StoreClosed
        await self._room.acquire()
        call = Call(work, self._loop.create_future(), rows)
        with self._woken:
            if self._closing:
                self._room.release()
                raise StoreClosed
            self._waiting.append(call)
            self._woken.notify()
        answer: T = await call.future
        return answer

    def look_around(self) -> None:
        """Begin to look around in idle moments."""
        with self._woken:
            if self._look_at is None and self._look is not None:
                self._look_at = SystemClock.monotonic() + SOON_S
            self._woken.notify()

    async def close(self) -> None:
        """Do what waits, and end."""
        with self._woken:
            self._closing = True
            self._woken.notify()
        await self._ended.wait()

    # -- on its own thread

    def _run(self) -> None:
        while (group := self._take()) is not None:
            with IN_USE:
                self._do_all(group)
                news = News()
                for call in group:
                    news.merge(call.touched)
                if self._look is not None and self._look_at is not None and SystemClock.monotonic() >= self._look_at:
                    seen, pause_s = self._look()
                    news.merge(seen)
                    self._look_at = SystemClock.monotonic() + pause_s
            if group or news:
                self._post(self._answer, group, news)
        if self._abandon is not None and self._loop.is_closed():
            with IN_USE:
                self._abandon()
        self._post(self._ended.set)

    def _do_all(self, group: list[Call]) -> None:
        try:
            if group:
                self._do(group)
        except Exception as error:  # noqa: BLE001 - a bug of ours: its callers get it, and the thread lives on
            for call in group:
                call.error, call.touched = error, News()

    def _take(self) -> list[Call] | None:
        """Wait for calls; an empty group is a moment to look around, None the end."""
        with self._woken:
            if not self._waiting and not self._closing:
                look_at = self._look_at
                self._woken.wait(None if look_at is None else max(look_at - SystemClock.monotonic(), 0))
            if not self._waiting:
                return None if self._closing or self._loop.is_closed() else []
            group: list[Call] = []
            rows = 0
            while self._waiting and len(group) < GROUP_CALLS_MAX:
                rows += self._waiting[0].rows
                if group and rows > GROUP_ROWS_MAX:
                    break
                group.append(self._waiting.popleft())
            return group

    def _post(self, callback: Callable[..., None], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:  # the loop was closed before the store was: nobody listens any more
            self._closing = True

    # -- on the loop's thread

    def _answer(self, group: list[Call], news: News) -> None:
        for call in group:
            self._room.release()
            if call.future.done():
                continue
            if call.error is not None:
                call.future.set_exception(call.error)
            else:
                call.future.set_result(call.answer)
        self._news_to(news)
