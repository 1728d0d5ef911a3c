"""`AsyncTimers` on asyncio's own loop and on uvloop."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from tickwheel import AsyncTimers, TimerHandle
from tickwheel.errors import TimersStopped

PATIENCE_SECONDS = 30

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.SelectorEventLoop,
    "uvloop": uvloop.new_event_loop,
}

Main = Callable[[], Awaitable[None]]


@pytest.fixture(params=LOOPS)
def on_loop(request: pytest.FixtureRequest) -> Callable[[Main], None]:
    """Run a coroutine function on a loop, within bounds."""

    def run(main: Main) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await main()

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(bounded())

    return run


def test_timers_run_in_order_and_never_early(on_loop: Any) -> None:
    async def main() -> None:
        loop, done, ran = asyncio.get_running_loop(), asyncio.Event(), []
        async with AsyncTimers() as timers:
            for delay in (0.05, 0.01, 0.03, 0.01):
                deadline = loop.time() + delay
                timers.after(delay, lambda deadline=deadline: ran.append((deadline, loop.time())))
            timers.after(0.08, done.set)
            await done.wait()
        assert [deadline for deadline, _ in ran] == sorted(deadline for deadline, _ in ran)
        assert all(when >= deadline - 1e-6 for deadline, when in ran)
        assert len(ran) == 4

    on_loop(main)


def test_a_coroutine_function_is_run_as_a_task_and_its_errors_are_reported(on_loop: Any) -> None:
    async def main() -> None:
        done = asyncio.Event()
        told: list[tuple[TimerHandle, BaseException]] = []

        async def fail() -> None:
            await asyncio.sleep(0)
            raise ValueError("broken")

        async def finish() -> None:
            await asyncio.sleep(0.01)
            done.set()

        async with AsyncTimers(on_error=lambda handle, error: told.append((handle, error))) as timers:
            failing = timers.after(0, fail)
            timers.after(0.01, finish)
            await done.wait()
        ((handle, error),) = told
        assert handle is failing
        assert isinstance(error, ValueError)

    on_loop(main)


def test_every_with_fixed_delay_waits_until_its_coroutine_is_over(on_loop: Any) -> None:
    async def main() -> None:
        running: list[int] = []
        overlapped: list[int] = []
        done = asyncio.Event()

        async def slow() -> None:
            overlapped.extend(running)
            running.append(1)
            await asyncio.sleep(0.03)
            running.pop()
            if handle.count == 3:
                done.set()

        async with AsyncTimers() as timers:
            handle = timers.every(0.005, slow, times=3, mode="delay")
            await done.wait()
        assert overlapped == []
        assert handle.count == 3

    on_loop(main)


def test_the_loop_holds_one_call_however_many_timers_there_are() -> None:
    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        async with AsyncTimers() as timers:
            before = len(loop._scheduled)
            for index in range(1000):
                timers.after(10 + index, print)
            timers.after("1h", print)
            assert len([call for call in loop._scheduled if not call.cancelled()]) - before == 1

    asyncio.run(main())


def test_a_thousand_due_at_once_leave_the_loop_its_turn(on_loop: Any) -> None:
    async def main() -> None:
        ran: list[int] = []
        async with AsyncTimers() as timers:
            for index in range(5000):
                timers.after(0.01, ran.append, index)
            turns = 0
            while len(ran) < 5000:
                await asyncio.sleep(0)
                turns += 1
        assert ran == list(range(5000))
        assert turns >= 5, "others ran between the batches"

    on_loop(main)


def test_cancel_touch_and_stop(on_loop: Any) -> None:
    async def main() -> None:
        done = asyncio.Event()
        ran: list[str] = []
        timers = AsyncTimers()
        timers.after(0.01, ran.append, "cancelled", key="k")
        assert timers.cancel("k")
        idle = timers.after(0.02, ran.append, "touched")
        assert idle.touch(60)
        timers.after(0.05, done.set)
        await done.wait()
        assert ran == []
        assert timers.running
        assert timers.stop() == [idle]
        assert not timers.running
        with pytest.raises(TimersStopped):
            timers.after(1, print)

    on_loop(main)


def test_without_a_running_loop_there_is_a_clear_error() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        AsyncTimers()
