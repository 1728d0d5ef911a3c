"""`aio.timeout`, `timeout_at`, `wait_for` and `sleep`, on our loop and on those of others.

That they mean what asyncio's own mean is shown by CPython's tests (test_event_loop.py); here is what is ours alone.
"""

import asyncio
import contextvars
import gc
import math
import time
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import uvloop

from tickwheel import VirtualClock, aio
from tickwheel.errors import InvalidDuration
from tickwheel.timers import loop_timers

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.SelectorEventLoop, uvloop.new_event_loop, aio.EventLoop]


@pytest.fixture(params=LOOPS, ids=["asyncio", "uvloop", "EventLoop"])
def loop(request: pytest.FixtureRequest) -> Any:
    loop = request.param()
    yield loop
    loop.close()


def run(loop: Any, main: Coroutine[Any, Any, Any]) -> Any:
    return loop.run_until_complete(asyncio.wait_for(main, 30))


@pytest.mark.parametrize("of", ["the loop", "all loops"])
def test_a_timeout_goes_by_the_time_that_a_test_gives_a_loop(of: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.SelectorEventLoop()
    real = loop.time
    if of == "the loop":
        monkeypatch.setattr(loop, "time", lambda: real() - 100_000)
    else:
        monkeypatch.setattr(asyncio.BaseEventLoop, "time", lambda _: time.monotonic() - 100_000)

    async def main() -> None:
        limit = aio.timeout(0.01)
        when = limit.when()
        assert when is not None
        assert when == pytest.approx(loop.time(), abs=60)
        with pytest.raises(TimeoutError):
            async with limit:
                await asyncio.sleep(3600)

    run(loop, main())
    loop.close()


def test_what_takes_too_long_is_cancelled(loop: Any) -> None:
    async def main() -> None:
        begun = loop.time()
        with pytest.raises(TimeoutError) as raised:
            async with aio.timeout(0.02) as limit:
                await asyncio.sleep(30)
        assert isinstance(raised.value.__cause__, asyncio.CancelledError)
        assert limit.expired()
        assert loop.time() >= begun + 0.02
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    run(loop, main())


def test_what_is_done_in_time_leaves_nothing_behind(loop: Any) -> None:
    async def main() -> None:
        for _ in range(100):
            async with aio.timeout(60) as limit:
                await asyncio.sleep(0)
            assert not limit.expired()

    run(loop, main())
    assert len(loop_timers.loop_wheel(loop).wheel) == 0


def test_a_limit_can_be_moved_lifted_and_set_again(loop: Any) -> None:
    async def main() -> None:
        async with aio.timeout(0.01) as limit:
            limit.reschedule(None)
            assert limit.when() is None
            await asyncio.sleep(0.03)
            limit.reschedule(loop.time() + 30)
            limit.reschedule(loop.time() + 60)
            await asyncio.sleep(0)
        assert not limit.expired()
        with pytest.raises(TimeoutError):  # noqa: PT012 - it is the block that ends so
            async with aio.timeout(None) as limit:
                limit.reschedule(loop.time() + 0.01)
                await asyncio.sleep(30)
        with pytest.raises(RuntimeError, match="expired"):
            limit.reschedule(None)

    run(loop, main())


def test_of_nested_limits_the_one_that_is_up_speaks(loop: Any) -> None:
    async def main() -> None:
        async with aio.timeout(30) as outer:
            with pytest.raises(TimeoutError):
                async with aio.timeout_at(loop.time() + 0.01) as inner:
                    await asyncio.sleep(30)
        assert inner.expired()
        assert not outer.expired()
        with pytest.raises(TimeoutError):
            async with aio.timeout(0.01) as outer, aio.timeout(30) as inner:
                await asyncio.sleep(30)
        assert outer.expired()
        assert not inner.expired()

    run(loop, main())


def test_limits_beside_asyncios_own_do_not_mix(loop: Any) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01) as theirs, aio.timeout(30) as ours:
                await asyncio.sleep(30)
        assert theirs.expired()
        assert not ours.expired()

    run(loop, main())


def test_another_cancellation_is_not_swallowed(loop: Any) -> None:
    async def limited() -> None:
        async with aio.timeout(30):
            await asyncio.sleep(30)

    async def main() -> None:
        task = asyncio.create_task(limited())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(loop, main())


def test_an_error_that_came_from_the_cancellation_says_that_it_was_a_timeout(loop: Any) -> None:
    async def clean_up() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            raise ValueError("while cleaning up")  # noqa: B904 - how the chain looks is what is tested

    async def main() -> None:
        with pytest.raises(ValueError, match="while cleaning up") as raised:
            async with aio.timeout(0):
                await clean_up()
        assert isinstance(raised.value.__context__, TimeoutError)
        assert isinstance(raised.value.__context__.__cause__, asyncio.CancelledError)

    run(loop, main())


@pytest.mark.parametrize(("kind", "explained"), [(ExceptionGroup, True), (BaseExceptionGroup, False)])
def test_of_groups_only_those_of_exceptions_say_that_it_was_a_timeout(loop: Any, kind: Any, explained: bool) -> None:
    """As Python 3.13 has it."""
    inner: Any = ValueError("inner") if kind is ExceptionGroup else GeneratorExit("inner")

    async def clean_up() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError as cancelled:
            inner.__context__ = cancelled
            raise kind("outer", [inner])  # noqa: B904 - how the chain looks is what is tested

    async def main() -> None:
        with pytest.raises(kind) as raised:
            async with aio.timeout(0):
                await clean_up()
        assert isinstance(raised.value.__context__, TimeoutError)
        assert isinstance(inner.__context__, TimeoutError) == explained

    run(loop, main())


@pytest.mark.parametrize("delay", [0, 30])
def test_a_timeout_is_exited_once(loop: Any, delay: float) -> None:
    async def main() -> None:
        limit = aio.timeout(delay)
        with pytest.raises(RuntimeError, match="has not been entered"):
            await limit.__aexit__(None, None, None)
        with suppress(TimeoutError):
            async with limit:
                await asyncio.sleep(0.01)
        with pytest.raises(RuntimeError, match="has already been exited"):
            await limit.__aexit__(None, None, None)
        assert limit.expired() == (delay == 0)

    run(loop, main())


def test_outside_a_task_there_is_nothing_to_limit(loop: Any) -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        aio.timeout(1)
    seen: list[str] = []

    def callback() -> None:
        with pytest.raises(RuntimeError, match="inside a task") as raised:
            aio.timeout(1).__aenter__().send(None)
        seen.append(str(raised.value))
        loop.stop()

    loop.call_soon(callback)
    loop.run_forever()
    assert len(seen) == 1


@pytest.mark.parametrize("delay", ["soon", object()])
def test_an_invalid_delay_is_refused(loop: Any, delay: Any) -> None:
    async def main() -> None:
        with pytest.raises(InvalidDuration):
            aio.timeout(delay)
        with pytest.raises(InvalidDuration):
            await aio.sleep(delay)
        with pytest.raises(InvalidDuration):
            await aio.wait_for(loop.create_future(), delay)

    run(loop, main())


def test_sleep_ends_when_it_is_over_and_not_before(loop: Any) -> None:
    async def main() -> None:
        begun = loop.time()
        assert await aio.sleep(0.02, "slept") == "slept"
        assert loop.time() >= begun + 0.02
        assert await aio.sleep(0, "no time at all") == "no time at all"
        await aio.sleep(-1)

    run(loop, main())


def test_a_sleep_that_is_cancelled_leaves_the_wheel(loop: Any) -> None:
    async def main() -> None:
        sleepers = [asyncio.create_task(aio.sleep(60)) for _ in range(10)]
        await asyncio.sleep(0)
        assert len(loop_timers.loop_wheel(loop).wheel) >= 10
        for sleeper in sleepers:
            sleeper.cancel()
        await asyncio.gather(*sleepers, return_exceptions=True)

    run(loop, main())
    assert len(loop_timers.loop_wheel(loop).wheel) == 0


def test_wait_for_gives_the_result_or_times_out(loop: Any) -> None:
    async def main() -> None:
        assert await aio.wait_for(asyncio.sleep(0, "done"), 30) == "done"
        assert await aio.wait_for(asyncio.sleep(0, "done"), None) == "done"
        slow = asyncio.ensure_future(asyncio.sleep(30))
        with pytest.raises(TimeoutError):
            await aio.wait_for(slow, 0.01)
        assert slow.cancelled()
        with pytest.raises(TimeoutError):
            await aio.wait_for(asyncio.sleep(30), 0)

    run(loop, main())


def test_however_many_wait_another_loop_holds_one_call() -> None:
    loop = asyncio.SelectorEventLoop()

    async def limited() -> None:
        async with aio.timeout(60):
            await asyncio.sleep(0.01)

    async def main() -> None:
        tasks = [asyncio.create_task(limited()) for _ in range(1000)]
        await asyncio.sleep(0)
        assert len(loop_timers.loop_wheel(loop).wheel) == 1000
        ours = [call for call in loop._scheduled if "run_due" in repr(call)]  # type: ignore[attr-defined]
        assert len(ours) == 1
        await asyncio.gather(*tasks)

    run(loop, main())
    loop.close()


def test_many_limits_expire_in_the_order_of_their_moments(loop: Any) -> None:
    over: list[int] = []

    async def limited(place: int, when: float) -> None:
        try:
            async with aio.timeout_at(when):
                await asyncio.sleep(30)
        except TimeoutError:
            over.append(place)

    async def main() -> None:
        begin = loop.time() + 0.02
        places = [(number * 7) % 50 for number in range(50)]
        await asyncio.gather(*(limited(place, begin + place / 1000) for place in places))

    run(loop, main())
    assert over == list(range(50))


def test_a_year_of_timeouts_passes_in_a_moment() -> None:
    clock = VirtualClock()

    async def main() -> int:
        expired = 0
        for _ in range(365):
            try:
                async with aio.timeout(86_400):
                    await aio.sleep(10 * 86_400)
            except TimeoutError:
                expired += 1
        return expired

    with asyncio.Runner(loop_factory=lambda: aio.EventLoop(clock=clock)) as runner:
        assert runner.run(main()) == 365
    assert clock.monotonic_ns() >= 365 * 86_400 * 10**9


def test_a_timeout_has_no_cancel_as_asyncios_has_none(loop: Any) -> None:
    async def main() -> None:
        async with aio.timeout(3600) as limit:
            assert not hasattr(limit, "cancel")
            assert limit.release() is None  # it is pending
            limit.reschedule(loop.time() - 1)
            await asyncio.sleep(3600)

    with pytest.raises(TimeoutError):
        run(loop, main())


# -- memory


async def wait_limited() -> None:
    async with aio.timeout(3600):
        await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("wait", [wait_limited, lambda: aio.sleep(3600), lambda: aio.sleep(math.inf)])
@pytest.mark.parametrize("make", LOOPS)
def test_a_closed_loop_lets_go_of_the_tasks_that_waited_and_is_collected(make: Any, wait: Any) -> None:
    loop = make()
    task = loop.create_task(wait())
    loop.call_soon(loop.stop)
    loop.run_forever()
    task._log_destroy_pending = False
    gone = weakref.ref(task), weakref.ref(loop)
    loop.close()
    del task, loop
    gc.collect()
    assert [each() for each in gone] == [None, None]


def test_a_call_lets_go_of_its_callback_when_it_has_run_or_was_cancelled() -> None:
    owner: contextvars.ContextVar[Any] = contextvars.ContextVar("owner")

    class Owner:
        def __init__(self, loop: Any, delay: float) -> None:
            context = contextvars.copy_context()
            context.run(owner.set, self)
            # Three cycles: it holds the call, which holds it as callback, as argument and in its context.
            self.call = loop.call_later(delay, self.called, self, context=context)

        def called(self, _: "Owner") -> None:
            pass

    loop = aio.EventLoop()
    ran, cancelled, pending = Owner(loop, 0), Owner(loop, 60), Owner(loop, 60)
    gone = [weakref.ref(owner) for owner in (ran, cancelled, pending)]
    cancelled.call.cancel()
    loop.call_later(0.01, loop.stop)
    loop.run_forever()
    del ran, cancelled, pending
    assert [ref() is None for ref in gone] == [True, True, False]
    loop.close()
    assert gone[2]() is None


def test_loops_that_come_and_go_leave_no_wheels() -> None:
    async def nap() -> None:
        async with aio.timeout(60):
            await aio.sleep(0.001)

    before = len(loop_timers._wheels)
    for _ in range(20):
        for make in LOOPS:
            loop = make()
            loop.run_until_complete(nap())
            loop.close()
    del loop
    gc.collect()
    assert len(loop_timers._wheels) <= before + 1


@pytest.mark.parametrize("delay", ["10ms", timedelta(milliseconds=10), "PT0.01S"])
def test_delays_may_be_written_in_any_way(loop: Any, delay: Any) -> None:
    async def main() -> None:
        begun = loop.time()
        with pytest.raises(TimeoutError):
            async with aio.timeout(delay):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await aio.wait_for(asyncio.Event().wait(), delay)
        assert await aio.sleep(delay, "slept") == "slept"
        assert loop.time() >= begun + 0.029

    run(loop, main())


def test_a_call_that_ends_a_foreign_loop_takes_no_other_with_it() -> None:
    loop = asyncio.SelectorEventLoop()
    wheel = loop_timers.loop_wheel(loop)
    ran: list[int] = []
    moment = loop.time()

    def leave() -> None:
        raise SystemExit

    wheel.call_at(moment, leave, (), None)
    for number in range(3):
        wheel.call_at(moment, ran.append, (number,), None)
    wheel.call_at(moment, loop.stop, (), None)
    with pytest.raises(SystemExit):
        loop.run_forever()
    loop.run_forever()
    loop.close()
    assert ran == [0, 1, 2]


@pytest.mark.parametrize("moment", [5.0, None])
def test_a_timeout_rescheduled_when_it_is_due_does_not_expire(loop: Any, moment: float | None) -> None:
    async def main() -> str:
        async with aio.timeout(0.02) as limit:
            # Due in the same turn of the loop, and before it: the usual watchdog.
            loop.call_later(0.01, lambda: limit.reschedule(None if moment is None else loop.time() + moment))
            time.sleep(0.03)  # noqa: ASYNC251 - the loop is held up until both are due
            await asyncio.sleep(0.02)
        return "alive"

    assert run(loop, main()) == "alive"


NAN = float("nan")


@pytest.mark.parametrize(
    "wait",
    [
        lambda: aio.sleep(NAN),
        lambda: waited_for(NAN),
        lambda: limited(lambda: aio.timeout(NAN)),
        lambda: limited(lambda: aio.timeout_at(NAN)),
    ],
    ids=["sleep", "wait_for", "timeout", "timeout_at"],
)
def test_a_wait_that_is_not_a_number_is_refused(loop: Any, wait: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with pytest.raises(InvalidDuration):
        run(loop, wait())


async def waited_for(seconds: float) -> None:
    awaitable = asyncio.sleep(0)
    try:
        await aio.wait_for(awaitable, seconds)
    finally:
        awaitable.close()


async def limited(limit: Callable[[], aio.Timeout]) -> None:
    async with limit():
        await asyncio.sleep(0)


def test_a_timeout_is_not_moved_to_what_is_not_a_number(loop: Any) -> None:
    async def main() -> None:
        limit = aio.timeout(0.01)
        async with limit:
            when = limit.when()
            with pytest.raises(InvalidDuration):
                limit.reschedule(NAN)
            assert limit.when() == when
            await asyncio.sleep(30)

    with pytest.raises(TimeoutError):
        run(loop, main())


def test_a_task_that_cannot_be_cancelled_ends_no_loop(loop: Any) -> None:
    class OldFuture(asyncio.Future[str]):
        def cancel(self) -> bool:  # type: ignore[override] # written before there were messages
            return super().cancel()

    async def main() -> None:
        reported: list[dict[str, Any]] = []
        future = OldFuture(loop=loop)

        def report(_: Any, context: dict[str, Any]) -> None:
            reported.append(context)
            future.set_result("in the end")

        loop.set_exception_handler(report)
        async with aio.timeout(0.002) as limit:
            assert await future == "in the end"
        assert not limit.expired()
        assert isinstance(reported[0]["exception"], TypeError)

    run(loop, main())


@pytest.mark.parametrize("number", [Fraction(-1), Decimal(-1), np.int64(-1), np.float32(-1), np.int8(-128)])
def test_a_negative_number_of_any_kind_is_a_time_that_has_passed(loop: Any, number: Any) -> None:
    async def main() -> None:
        await aio.sleep(number)
        with pytest.raises(TimeoutError):
            async with aio.timeout(number):
                await asyncio.Event().wait()

    run(loop, main())


@pytest.mark.parametrize("kind", [Fraction, Decimal, np.int64, np.float32, int])
def test_a_moment_may_be_a_number_of_any_kind(loop: Any, kind: Any) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with aio.timeout_at(kind(1)):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await moved()

    async def moved() -> None:
        async with aio.timeout(None) as limit:
            limit.reschedule(kind(1))
            await asyncio.Event().wait()

    run(loop, main())


@pytest.mark.parametrize("moment", ["1", b"1", bytearray(b"1"), np.str_("1"), Decimal("nan"), [1.0], 10**400])
def test_a_moment_that_is_no_number_is_refused(loop: Any, moment: Any) -> None:
    async def main() -> None:
        with pytest.raises(InvalidDuration, match="must be a number"):
            aio.timeout_at(moment)
        async with aio.timeout(None) as limit:
            with pytest.raises(InvalidDuration, match="must be a number"):
                limit.reschedule(moment)

    run(loop, main())


def test_what_an_interrupt_left_over_does_not_run_if_it_is_cancelled() -> None:
    loop = asyncio.SelectorEventLoop()
    wheel, ran = loop_timers.loop_wheel(loop), list[str]()
    moment = loop.time()

    def leave() -> None:
        raise SystemExit

    wheel.call_at(moment, leave, (), None)
    left = wheel.call_at(moment, ran.append, ("left over",), None)
    reported: list[Any] = []
    loop.set_exception_handler(lambda _, context: reported.append(context))
    with pytest.raises(SystemExit):
        loop.run_forever()
    left.cancel()
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    assert (ran, reported) == ([], [])


@pytest.mark.parametrize("delay", [10**400, -(10**400)])
def test_a_number_that_no_float_can_hold_is_no_duration(delay: int) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        for attempt in (aio.sleep(delay), aio.wait_for(loop.create_future(), delay)):
            with pytest.raises(InvalidDuration, match="fits into a float"):
                await attempt
        with pytest.raises(InvalidDuration, match="fits into a float"):
            aio.timeout(delay)

    aio.run(main())


def test_a_loop_that_gets_the_identity_of_a_closed_one_keeps_its_wheel() -> None:
    class Loop(asyncio.SelectorEventLoop):
        meddle: Callable[[], None] | None = None

        def is_closed(self) -> bool:  # here another thread may run, as `meddle` does
            meddle, self.meddle = self.meddle, None
            if meddle is not None:
                meddle()
            return super().is_closed()

    def meddle() -> None:
        """Have a loop end, and the next one found where it was."""
        wheels.pop(number).close()
        wheels[number] = loop_timers.LoopWheel(new)

    wheels = loop_timers._wheels
    first, old, new, third = (Loop() for _ in range(4))
    for loop in (first, old):
        run(loop, aio.sleep(0))
        loop_timers.loop_wheel(loop)
    number = id(old)
    old.close()
    first.meddle = meddle
    loop_timers.loop_wheel(third)
    kept = wheels.pop(number)
    assert (kept.loop(), kept.closed) == (new, False)
    kept.close()
    for loop in (first, new, third):
        loop.close()
