"""A wheel takes no timer of `Timers` or of an event loop, whatever its state."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tickwheel import ManualTimers, VirtualClock, aio, wheels
from tickwheel.errors import ForeignTimer
from tickwheel.timers.handle import TimerHandle
from tickwheel.timers.loop_timers import SleepTimer

SCHEMES: dict[str, Callable[[], Any]] = {
    "UnorderedList": wheels.UnorderedList,
    "OrderedList": wheels.OrderedList,
    "BinaryHeap": wheels.BinaryHeap,
    "BalancedTree": wheels.BalancedTree,
    "SimpleWheel": lambda: wheels.SimpleWheel(60),
    "HashedWheel": lambda: wheels.HashedWheel(60),
    "SortedHashedWheel": lambda: wheels.SortedHashedWheel(60),
    "HierarchicalWheel": lambda: wheels.HierarchicalWheel(wheels.CLOCK),
}


@pytest.fixture(params=SCHEMES)
def wheel(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A wheel that has one timer of its own, and must keep it."""
    made = SCHEMES[request.param]()
    own = made.start(5, "own")
    yield made
    made.check()
    assert made.advance(50) == [own]


def refuse(wheel: Any, timer: Any) -> None:
    """See a timer refused by everything that takes one, which leaves it as it was."""
    before = timer.slot, timer.due, timer.payload
    attempts: list[Callable[[], Any]] = [
        lambda: wheel.restart(timer, 10),
        lambda: wheel.stop(timer),
        lambda: wheel.stop_many([timer]),
    ]
    for attempt in attempts:
        with pytest.raises(ForeignTimer, match="belongs to an event loop or to timers"):
            attempt()
    assert (timer.slot, timer.due, timer.payload) == before


def test_a_handle_is_refused(wheel: Any) -> None:
    timers = ManualTimers()
    ran: list[TimerHandle] = []

    def run(handle: TimerHandle) -> None:
        refuse(wheel, once)  # in its last run, and later over
        refuse(wheel, often)  # due, and later running
        ran.append(handle)

    once: TimerHandle = timers.after(1, lambda: run(once))
    often: TimerHandle = timers.every(1, lambda: run(often))
    cancelled = timers.after(1, print)
    cancelled.cancel()
    for handle in (once, often, cancelled, TimerHandle(timers._registry, print, (), 1, None)):
        refuse(wheel, handle)
    timers.advance(3)
    assert ran == [once, often, often, often]


def test_a_limit_is_refused(wheel: Any) -> None:
    async def main() -> None:
        limit = aio.timeout(5)
        refuse(wheel, limit)
        async with limit:
            refuse(wheel, limit)
        refuse(wheel, limit)
        with pytest.raises(TimeoutError):
            async with aio.timeout(0.001) as expired:
                await asyncio.sleep(60)
        refuse(wheel, expired)

    for loop_factory in (aio.EventLoop, asyncio.SelectorEventLoop):
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(main())


def test_a_call_and_a_sleep_are_refused(wheel: Any) -> None:
    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        ran: list[str] = []

        def see_refused() -> None:
            refuse(wheel, last)
            refuse(wheel, sleep)
            ran.append("refused")

        future: asyncio.Future[str] = loop.create_future()
        now, due, cancelled = (loop.call_later(delay, ran.append, "due") for delay in (0, 1, 1))
        sleep = SleepTimer(loop._timers, loop.time() + 1, future, "slept")
        refuse(wheel, sleep)
        loop._timers.start(sleep)
        loop.call_later(1, see_refused)
        last = loop.call_later(1, ran.append, "last")  # due then, and runs after it
        cancelled.cancel()
        for timer in (now, due, cancelled, sleep, last):
            refuse(wheel, timer)
        assert await future == "slept"
        await asyncio.sleep(1)
        assert ran == ["due", "due", "refused", "last"]
        for timer in (now, due, sleep, last):
            refuse(wheel, timer)

    aio.run(main(), clock=VirtualClock())
