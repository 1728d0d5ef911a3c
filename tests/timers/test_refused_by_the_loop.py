"""What an event loop, or its clock, refuses in the middle of a call changes nothing: what comes later runs.

A call near the recursion limit is refused in the same places.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tickwheel import AsyncDelayQueue, AsyncTimers, aio

PATIENCE_SECONDS = 60
FAILURES_MAX = 8  # more than a call reads the clock or asks the loop for a call


class Refusing(asyncio.SelectorEventLoop):
    """The standard loop, which fails from a given request on, a number of times."""

    accepted = 10**9
    refused = 0

    def _count(self) -> None:
        self.accepted -= 1
        if self.accepted < 0 < self.refused:
            self.refused -= 1
            raise MemoryError

    def time(self) -> float:
        self._count()
        return super().time()

    def call_at(self, *args: Any, **options: Any) -> asyncio.TimerHandle:  # type: ignore[override]
        self._count()
        return super().call_at(*args, **options)

    @contextmanager
    def refusing(self, accepted: int, refused: int) -> Iterator[None]:
        """Refuse so many requests inside, after others."""
        self.accepted, self.refused = accepted, refused
        try:
            yield
        finally:
            self.accepted, self.refused = 10**9, 0


class RefusingCalls(Refusing):
    """The standard loop, which reads its clock and fails to take calls."""

    time = asyncio.SelectorEventLoop.time


class RefusingEventLoop(aio.EventLoop, Refusing):
    """Our loop on top of that one, which holds the call that it sleeps until."""


Main = Callable[[Any, int, int], Awaitable[int]]


def count_refused(main: Main, loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> int:
    """Run something with every request of it refused in turn, once and twice; return how often it was."""

    async def timed(accepted: int, refused: int) -> int:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await main(asyncio.get_running_loop(), accepted, refused)

    count = 0
    for accepted in range(FAILURES_MAX):
        for refused in (1, 2):
            with asyncio.Runner(loop_factory=loop_factory) as runner:
                count += runner.run(timed(accepted, refused))
    return count


@pytest.mark.parametrize("loop_factory", [Refusing, RefusingEventLoop])
def test_timers_that_are_started_after_a_refused_one_run(loop_factory: Callable[[], Any]) -> None:
    async def main(loop: Any, accepted: int, refused: int) -> int:
        with AsyncTimers() as timers:
            done, never = asyncio.Event(), asyncio.Event()
            refusals = 0
            with loop.refusing(accepted, refused):
                try:
                    timers.after(0.001, never.set).cancel()
                except MemoryError:
                    refusals = 1
            assert len(timers) == 0
            timers.after(0.005, done.set)
            await done.wait()
            assert not never.is_set()
        return refusals

    assert count_refused(main, loop_factory) >= 2


@pytest.mark.parametrize("loop_factory", [Refusing, RefusingEventLoop])
def test_sleeps_after_a_refused_timeout_end(loop_factory: Callable[[], Any]) -> None:
    async def main(loop: Any, accepted: int, refused: int) -> int:
        refusals = 0
        with loop.refusing(accepted, refused):
            try:
                async with aio.timeout(0.001):
                    pass
            except MemoryError:
                refusals = 1
        await aio.sleep(0.005)
        await asyncio.sleep(0.005)
        return refusals

    assert count_refused(main, loop_factory) >= 2


@pytest.mark.parametrize("loop_factory", [Refusing, RefusingEventLoop])
@pytest.mark.parametrize("speed", [1.0, 2.0])
def test_a_refused_touch_resume_or_speed_changes_nothing(loop_factory: Callable[[], Any], speed: float) -> None:
    async def main(loop: Any, accepted: int, refused: int) -> int:
        refusals = 0
        with AsyncTimers() as timers:
            touched = timers.after(1000, print)
            with loop.refusing(accepted, refused):
                try:
                    assert touched.touch(0.003)
                except MemoryError:
                    refusals += 1
            assert touched.due_in is not None
            if refusals:
                assert touched.due_in > 900
            assert touched.touch(1000)
            timers.pause()
            with loop.refusing(accepted, refused):
                try:
                    if speed == 1.0:
                        timers.resume()
                    else:
                        timers.speed = speed
                except MemoryError:
                    refusals += 1
                    assert timers.paused
                    assert timers.speed == 1.0
            timers.resume()
            done = asyncio.Event()
            timers.after(0.005, done.set)
            await done.wait()
            assert timers.stop()[0].handle is touched
        return refusals

    assert count_refused(main, loop_factory) >= 2


def test_a_refused_put_or_get_of_a_delay_queue_leaves_the_others_waiting() -> None:
    async def main(loop: Any, accepted: int, refused: int) -> int:
        queue: AsyncDelayQueue[str] = AsyncDelayQueue()
        refusals = 0
        queue.put_nowait("later", delay=0.02)
        waiting = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        for use in (queue.put("sooner", delay=0.01), queue.get()):
            with loop.refusing(accepted, refused):
                try:
                    use.send(None)
                except MemoryError:
                    refusals += 1
                except StopIteration:
                    pass
                finally:
                    use.close()
        items = {await waiting}
        while queue.qsize():
            items.add(await queue.get())
        assert "later" in items
        assert not queue._getters
        for _ in items:
            queue.task_done()
        await queue.join()
        return refusals

    assert count_refused(main, Refusing) >= 2


@pytest.mark.parametrize("refused", [1, 2, 5])
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("loop_factory", [RefusingCalls, RefusingEventLoop])
def test_timers_come_again_after_the_loop_refused_their_next_call(
    loop_factory: Callable[[], Any], refused: int, *, is_async: bool
) -> None:
    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context.get("exception")))
        runs, enough = 0, asyncio.Event()

        def note() -> None:
            nonlocal runs
            runs += 1
            if runs == 3:
                loop.accepted, loop.refused = 0, refused
            if runs == 10:
                enough.set()

        async def note_later() -> None:
            note()

        with AsyncTimers() as timers:
            timers.every(0.001, note_later if is_async else note)
            await enough.wait()

    reported: list[object] = []
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(asyncio.wait_for(main(), PATIENCE_SECONDS))
    assert [type(error) for error in reported] == [MemoryError] * len(reported)


@pytest.mark.parametrize("refused", [1, 2, 5])
def test_sleeps_end_after_the_loop_refused_a_call_for_the_next(refused: int) -> None:
    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context.get("exception")))

        async def sleep_and_refuse() -> None:
            await aio.sleep(0.001)
            loop.accepted, loop.refused = 0, refused

        await asyncio.gather(sleep_and_refuse(), *(aio.sleep(0.001 * nth) for nth in range(1, 20)))

    reported: list[object] = []
    with asyncio.Runner(loop_factory=RefusingCalls) as runner:
        runner.run(asyncio.wait_for(main(), PATIENCE_SECONDS))
    assert [type(error) for error in reported] == [MemoryError] * len(reported)


@pytest.mark.parametrize("refused", [1, 2, 5])
def test_a_getter_gets_its_item_after_the_loop_refused_a_call_for_it(refused: int) -> None:
    class Queue(AsyncDelayQueue[int]):
        turns = 0

        def _turn(self) -> None:
            loop: Any = asyncio.get_running_loop()
            self.turns += 1
            if self.turns == 1:
                loop.accepted, loop.refused = 0, refused
            super()._turn()

    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context.get("exception")))
        queue = Queue()
        getters = [asyncio.create_task(queue.get()) for _ in range(2)]
        for nth in range(2):
            queue.put_nowait(nth, delay=0.5 * (nth + 1))
        assert await asyncio.gather(*getters) == [0, 1]

    reported: list[object] = []
    with asyncio.Runner(loop_factory=RefusingCalls) as runner:
        runner.run(asyncio.wait_for(main(), PATIENCE_SECONDS))
    assert [type(error) for error in reported] == [MemoryError] * refused
