"""`AsyncTimers` on asyncio's own loop, on uvloop and on ours."""

import asyncio
import collections
import contextvars
import sys
import time
import types
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import uvloop

from tickwheel import AsyncTimers, SystemClock, TimerHandle, VirtualClock, aio
from tickwheel.errors import InvalidOption, TimersStopped, UnknownOption
from tickwheel.wheels import Geometry

PATIENCE_SECONDS = 120

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.SelectorEventLoop,
    "uvloop": uvloop.new_event_loop,
    "tickwheel": aio.EventLoop,
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
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        ran: list[tuple[float, float]] = []

        def note(deadline: float) -> None:
            ran.append((deadline, loop.time()))

        async with AsyncTimers() as timers:
            for delay in (0.05, 0.01, 0.03, 0.01):
                deadline = loop.time() + delay
                timers.after(delay, note, deadline)
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
        assert [left.handle for left in timers.stop()] == [idle]
        assert not timers.running
        with pytest.raises(TimersStopped):
            timers.after(1, print)

    on_loop(main)


def test_without_a_running_loop_there_is_a_clear_error() -> None:
    with pytest.raises(RuntimeError, match="no running event loop: make AsyncTimers inside a coroutine, or pass loop="):
        AsyncTimers()


def test_one_bad_callback_does_not_end_the_timers(on_loop: Any) -> None:
    async def main() -> None:
        done = asyncio.Event()
        told: list[type[BaseException]] = []

        async def takes_one(_: int) -> None:
            pass

        def cancel() -> None:
            raise asyncio.CancelledError

        async def await_cancelled() -> None:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            future.cancel()
            await future

        def look() -> None:
            if again.done:
                done.set()

        async with AsyncTimers(on_error=lambda _, error: told.append(type(error))) as timers:
            timers.after(0, takes_one)  # type: ignore[arg-type]
            timers.after(0, cancel)
            again = timers.every(0.002, await_cancelled, mode="delay", times=3)
            timers.every(0.001, look)
            await done.wait()
        assert sorted(kind.__name__ for kind in told) == ["CancelledError"] * 3 + ["CancelledError", "TypeError"]
        assert again.count == 3

    on_loop(main)


def test_whatever_can_be_awaited_is_awaited(on_loop: Any) -> None:
    async def main() -> None:
        loop, ran, done = asyncio.get_running_loop(), [], asyncio.Event()

        class Caller:
            async def __call__(self) -> None:
                await asyncio.sleep(0)
                ran.append("object")

        async def work(name: str) -> None:
            await asyncio.sleep(0)
            ran.append(name)
            if len(ran) == 5:
                done.set()

        @types.coroutine
        def generate() -> Any:
            yield
            ran.append("generator")

        async with AsyncTimers() as timers:
            timers.after(0, Caller())
            timers.after(0, generate)
            timers.after(0, lambda: work("lambda"))
            timers.after(0, lambda: loop.create_task(work("task")))
            timers.after(0.01, work, "function")
            await done.wait()
        assert sorted(ran) == ["function", "generator", "lambda", "object", "task"]

    on_loop(main)


def test_a_coroutine_never_runs_beside_itself(on_loop: Any) -> None:
    async def main() -> None:
        running: list[int] = []
        beside: list[int] = []
        done = asyncio.Event()

        async def slow() -> None:
            beside.extend(running)
            running.append(1)
            await asyncio.sleep(0.01)
            running.pop()
            if handle.count == 3:
                done.set()

        async with AsyncTimers() as timers:
            handle = timers.every(0.002, slow)
            await done.wait()
        assert beside == []
        assert handle.missed > 0

    on_loop(main)


def test_sys_exit_in_a_callback_ends_the_loop_and_no_timer() -> None:
    loop = asyncio.SelectorEventLoop()
    timers = AsyncTimers(loop)
    ran: list[int] = []
    timers.after(0, sys.exit, 3)
    for number in range(3):
        timers.after(0, ran.append, number)
    with pytest.raises(SystemExit):
        loop.run_forever()
    timers.after(0.005, loop.stop)
    loop.run_forever()
    assert ran == [0, 1, 2]
    assert timers.stop() == []
    loop.close()


def test_stop_in_a_callback_hands_back_the_rest_of_its_batch(on_loop: Any) -> None:
    async def main() -> None:
        ran: list[int] = []
        left: list[Any] = []
        stopped = asyncio.Event()
        timers = AsyncTimers()

        def stop() -> None:
            left.extend(timers.stop())
            stopped.set()

        timers.after(0, stop)
        rest = [timers.after(0, ran.append, number) for number in range(10)]
        await stopped.wait()
        await asyncio.sleep(0.01)
        assert ran == []
        assert [timer.handle for timer in left] == rest
        assert [timer.due_in for timer in left] == [0.0] * 10

    on_loop(main)


def test_callbacks_run_in_the_context_the_timers_were_made_in(on_loop: Any) -> None:
    async def main() -> None:
        done, seen = asyncio.Event(), []
        variable.set("maker")
        timers = AsyncTimers()
        context = contextvars.copy_context()
        context.run(variable.set, "starter")
        context.run(timers.after, 0, lambda: seen.append(variable.get()))
        timers.after(0.002, done.set)
        await done.wait()
        assert seen == ["maker"]
        timers.stop()

    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    on_loop(main)


def test_a_standard_loop_is_timed_by_the_system_clock_and_a_virtual_one_by_its_own() -> None:
    loops: list[tuple[asyncio.AbstractEventLoop, bool]] = [
        (asyncio.SelectorEventLoop(), True),
        (aio.EventLoop(), True),
        (aio.EventLoop(clock=VirtualClock()), False),
        (uvloop.new_event_loop(), True),
    ]
    for loop, standard in loops:
        assert isinstance(AsyncTimers(loop)._clock, SystemClock) == standard
        loop.close()


def test_a_periodic_coroutine_goes_on_if_its_task_is_cancelled_before_it_begins(on_loop: Any) -> None:
    async def main() -> None:
        done = asyncio.Event()
        cancelled: list[asyncio.Task[None]] = []

        async def beat() -> None:
            done.set()

        async with AsyncTimers() as timers:
            timers.every(0.002, beat)
            while not cancelled:
                await asyncio.sleep(0)
                cancelled = [task for task in timers._tasks if task.cancel()]
            await done.wait()

    on_loop(main)


@pytest.mark.parametrize("wait", ["AsyncTimers", "sleep", "timeout"])
def test_nothing_is_early_by_the_system_clock_at_any_phase_of_a_millisecond(on_loop: Any, wait: str) -> None:
    """A loop on libuv reads the clock once a round: what is counted from there would come early."""

    async def main() -> None:
        async with AsyncTimers() as timers:
            for round_number in range(60):
                event = asyncio.Event()
                time.sleep(round_number % 17 * 1e-4)  # noqa: ASYNC251 - time that the loop does not notice
                begin_ns = time.monotonic_ns()
                if wait == "AsyncTimers":
                    timers.after(0.002, event.set)
                    await event.wait()
                elif wait == "sleep":
                    await aio.sleep(0.002)
                else:
                    with suppress(TimeoutError):
                        async with aio.timeout(0.002):
                            await event.wait()
                assert time.monotonic_ns() - begin_ns >= 2_000_000

    on_loop(main)


def test_the_body_of_a_coroutine_function_does_not_begin_after_stop(on_loop: Any) -> None:
    async def main() -> None:
        timers, done = AsyncTimers(), asyncio.Event()
        began: list[bool] = []

        async def job() -> None:
            began.append(timers.running)

        timers.after(0.002, job)
        timers.after(0.002, timers.stop)
        asyncio.get_running_loop().call_later(0.05, done.set)
        await done.wait()
        assert False not in began  # usually they are of one tick, and it does not begin

    on_loop(main)


@pytest.mark.parametrize("new_loop", [*LOOPS.values(), aio.EventLoop])
def test_a_closed_loop_refuses_timers_also_if_others_were_pending(new_loop: Any) -> None:
    loop = new_loop()
    timers = AsyncTimers(loop)
    timers.after(10, print)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    for delay in (1, 20):
        with pytest.raises(RuntimeError, match="closed"):
            timers.after(delay, print)
    assert len(timers.stop()) == 1


def test_a_coroutine_that_raises_generator_exit_is_reported(on_loop: Any) -> None:
    async def main() -> None:
        reported: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

        async def leave() -> None:
            raise GeneratorExit

        async with AsyncTimers(on_error=lambda _, error: reported.set_result(error)) as timers:
            timers.after(0.001, leave)
            assert isinstance(await reported, GeneratorExit)

    on_loop(main)


@pytest.mark.parametrize("make", [*LOOPS.values(), aio.EventLoop])
def test_what_a_callback_sets_in_its_context_is_seen_by_no_other(make: Any) -> None:
    request = contextvars.ContextVar("request", default="nobody")
    seen: list[tuple[str, str]] = []

    async def main() -> None:
        done = asyncio.Event()

        async def note(name: str) -> None:
            seen.append((name, request.get()))
            request.set(name)

        def note_and_go_on() -> Any:
            seen.append(("function", request.get()))
            request.set("function")
            return note("its coroutine")

        def fail() -> None:
            raise ValueError

        request.set("maker")
        async with AsyncTimers(on_error=lambda *_: request.set("on_error")) as timers:
            request.set("starter")
            for callback in (lambda: request.set("first"), partial(note, "task"), note_and_go_on, fail):
                timers.after(0, callback)
            timers.after(0.001, note, "later task")
            timers.after(0.002, done.set)
            await done.wait()
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=make) as runner:
        runner.run(main())
    assert sorted(seen) == [
        ("function", "maker"),
        ("its coroutine", "function"),
        ("later task", "maker"),
        ("task", "maker"),
    ]


def test_the_warning_of_a_slow_callback_says_what_to_do_on_a_loop(
    on_loop: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        done = asyncio.Event()
        async with AsyncTimers(slow=0) as timers:
            timers.after(0, time.sleep, 0.001)
            timers.after(0.001, done.set)
            await done.wait()

    on_loop(main)
    assert "delayed all other timers; await asyncio.to_thread(...) for blocking calls" in caplog.text
    assert "executor" not in caplog.text


def test_a_callback_that_moves_the_clock_of_its_loop_is_not_called_slow(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()

    async def main() -> None:
        async with AsyncTimers() as timers:
            timers.after(1, clock.advance, "1h")
            await asyncio.sleep(2)

    aio.run(main(), clock=clock)
    assert caplog.records == []


def test_a_clock_is_no_option_of_timers_that_go_by_their_loop(on_loop: Any) -> None:
    async def main() -> None:
        with pytest.raises(UnknownOption, match="there is no option 'clock'; there are loop, geometry"):
            AsyncTimers(clock=VirtualClock())  # type: ignore[call-arg]

    on_loop(main)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_generator_function_is_reported_because_its_body_never_runs(on_loop: Any, asynchronous: bool) -> None:
    def generate() -> Any:
        yield

    async def generate_async() -> Any:
        yield

    async def main() -> None:
        reported: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        async with AsyncTimers(on_error=lambda _, error: reported.set_result(error)) as timers:
            timers.after(0, generate_async if asynchronous else generate)
            assert "the body of a generator function never runs" in str(await reported)

    on_loop(main)


def test_what_is_no_loop_or_clock_is_refused() -> None:
    for attempt in (lambda: AsyncTimers(5), lambda: aio.EventLoop(clock=5), lambda: aio.EventLoop(geometry=5)):  # type: ignore[arg-type]
        with pytest.raises(InvalidOption):
            attempt()


def test_a_coroutine_that_was_made_and_has_not_begun_is_handed_back(on_loop: Any) -> None:
    async def main() -> None:
        timers, stopped = AsyncTimers(), asyncio.Event()
        left: list[Any] = []
        ran: list[str] = []

        async def job(name: str) -> None:
            ran.append(name)

        def stop() -> None:
            left.extend(timers.stop())
            stopped.set()

        once = timers.after(0, job, "once", key="once")
        again = timers.every(0.001, job, "again", times=3)
        timers.after(0.002, stop)
        time.sleep(0.005)  # noqa: ASYNC251 - blocks the loop until all three are due, so that they are one batch
        await stopped.wait()
        await asyncio.sleep(0)
        assert ran == []
        assert [(timer.handle, timer.args, timer.due_in, timer.times) for timer in left] == [
            (once, ("once",), 0.0, 1),
            (again, ("again",), 0.0, 3),
        ]
        assert [(handle.cancelled, handle.count) for handle in (once, again)] == [(True, 0), (True, 0)]

    on_loop(main)


Unbegun = Callable[[AsyncTimers, TimerHandle], Any]


def meddle_before_the_body(kind: str, meddle: Unbegun) -> tuple[list[str], TimerHandle, AsyncTimers]:
    """Do something when a coroutine was made and its body has not begun; return what ran within a second of that."""
    loop = aio.EventLoop(clock=VirtualClock())

    async def main() -> tuple[list[str], TimerHandle, AsyncTimers]:
        timers, ran = AsyncTimers(), list[str]()

        async def body() -> None:
            ran.append(f"{loop.time():.1f}")

        handle = timers.after(0.1, body, key="k") if kind == "once" else timers.every(0.1, body, times=2, key="k")
        timers.after(0.1, lambda: meddle(timers, handle))
        await asyncio.sleep(1)
        return ran, handle, timers

    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()


@pytest.mark.parametrize("by", ["handle", "key"])
@pytest.mark.parametrize("kind", ["once", "periodic"])
def test_a_coroutine_that_is_cancelled_before_its_body_begins_does_not_begin(kind: str, by: str) -> None:
    said: list[Any] = []

    def cancel(timers: AsyncTimers, handle: TimerHandle) -> None:
        said.append((len(timers), timers.get("k") is handle, handle.count))
        said.append((timers.cancel(handle if by == "handle" else "k"), timers.cancel(handle), len(timers)))

    ran, handle, timers = meddle_before_the_body(kind, cancel)
    assert said == [(1, True, 0), (True, False, 0)]
    assert (ran, handle.cancelled, handle.done, timers.get("k"), timers._unbegun) == ([], True, False, None, {})


@pytest.mark.parametrize("kind", ["once", "periodic"])
def test_a_coroutine_that_is_touched_before_its_body_begins_runs_once_at_the_new_deadline(kind: str) -> None:
    said: list[bool] = []
    ran, handle, timers = meddle_before_the_body(kind, lambda _, handle: said.append(handle.touch(0.4)))
    assert said == [True]
    assert ran == (["0.5"] if kind == "once" else ["0.5", "0.6"])
    assert (handle.done, handle.missed, len(timers)) == (True, 0, 0)


def test_a_coroutine_that_is_touched_does_not_end_the_run_of_the_next_one() -> None:
    async def main() -> None:
        timers, ran = AsyncTimers(), list[str]()
        handle: TimerHandle

        async def body() -> None:
            ran.append("begun")
            await asyncio.sleep(1)
            ran.append("over")

        def touch() -> None:
            timers._loop.call_soon(timers._tasks.copy().pop().cancel)
            handle.touch(0)

        handle = timers.every(0.1, body, times=2)
        timers.after(0.1, touch)
        await asyncio.sleep(0.5)
        assert (ran, handle.count, len(timers), len(timers._tasks)) == (["begun"], 1, 1, 1)
        await asyncio.sleep(1)
        assert ran == ["begun", "over", "begun"]

    aio.run(main(), clock=VirtualClock())


def test_a_coroutine_that_another_task_awaits_is_left_to_it(on_loop: Any) -> None:
    async def main() -> None:
        reported: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        released = asyncio.Event()

        async def work() -> str:
            await released.wait()
            return "done"

        coroutine = work()
        task = asyncio.create_task(coroutine)
        async with AsyncTimers(on_error=lambda _, error: reported.set_result(error)) as timers:
            timers.after(0.001, lambda: coroutine)
            assert isinstance(await reported, RuntimeError)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            released.set()
            assert await task == "done"

    on_loop(main)


@pytest.mark.parametrize("closes", [False, True])
def test_a_task_that_the_loop_cannot_make_is_reported_and_its_run_is_over(closes: bool) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        reported: asyncio.Future[BaseException] = loop.create_future()

        async def body() -> None:
            pass

        def refuse(_: Any, coroutine: Any, **__: Any) -> Any:
            if closes:
                coroutine.close()
            raise RuntimeError("no tasks now")

        timers = AsyncTimers(on_error=lambda _, error: reported.set_result(error))
        handle = timers.after(0.001, body, key="k")
        loop.set_task_factory(refuse)
        assert str(await reported) == "no tasks now"
        loop.set_task_factory(None)
        assert (handle.done, handle.count, timers.get("k"), len(timers), timers._unbegun) == (True, 1, None, 0, {})
        assert timers.stop() == []

    asyncio.run(main())


class InterruptedQueue(collections.deque[Any]):
    """The ready queue of a loop; a Ctrl-C comes when the loop has taken the first call of some timers from it."""

    interrupts = 1

    def popleft(self) -> Any:
        call = super().popleft()
        if self.interrupts and "_turn" in repr(call):
            self.interrupts -= 1
            raise KeyboardInterrupt
        return call


def test_an_interrupt_that_takes_the_call_of_the_timers_with_it_stops_none_on_our_loop() -> None:
    loop = aio.EventLoop()
    loop._ready = InterruptedQueue()
    timers, ran = AsyncTimers(loop), list[str]()
    done = asyncio.Event()
    timers.after(0.001, ran.append, "once")
    timers.every(0.002, ran.append, "periodic", times=2)
    timers.after(0.01, done.set)
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(done.wait())
    loop.run_until_complete(asyncio.wait_for(done.wait(), PATIENCE_SECONDS))
    assert ran.count("once") == 1
    assert "periodic" in ran
    timers.stop()
    loop.close()


@pytest.mark.parametrize("age", ["0s", "30d", "365d", "36500d"])
def test_on_our_loop_a_timer_is_at_most_one_tick_late_and_wakes_it_once(age: str) -> None:
    clock, turns, late = VirtualClock(), list[int](), list[int]()
    clock.advance(age)

    class Counted(AsyncTimers):
        def _turn(self) -> None:
            turns.append(clock.monotonic_ns())
            super()._turn()

    async def main() -> None:
        for phase_ns in range(0, 1_000_000, 99_000):
            clock.advance_ns(1_000_000 - clock.monotonic_ns() % 1_000_000 + phase_ns)
            async with Counted() as timers:
                for wait_ns in range(1_000_000, 3_000_000, 97_000):
                    done, deadline_ns = asyncio.Event(), clock.monotonic_ns() + wait_ns
                    timers.after(wait_ns / 1e9, done.set)
                    await done.wait()
                    late.append(clock.monotonic_ns() - deadline_ns)

    aio.run(asyncio.wait_for(main(), 3600), clock=clock)
    assert 0 <= min(late) <= max(late) < 1_000_000
    assert len(turns) == len(late)


def test_on_our_loop_overdue_timers_run_without_a_pause_between_batches() -> None:
    clock, ran = VirtualClock(), list[int]()

    async def main() -> None:
        async with AsyncTimers() as timers:
            for _ in range(5000):
                timers.after(1, lambda: ran.append(clock.monotonic_ns()))
            await asyncio.sleep(2)

    aio.run(main(), clock=clock)
    assert (len(ran), set(ran)) == (5000, {10**9})


def test_timers_run_on_a_loop_whose_calls_take_no_weak_references() -> None:
    class Proxy(asyncio.SelectorEventLoop):
        def call_later(self, *args: Any, **options: Any) -> Any:  # type: ignore[override]
            return Slotted(super().call_later(*args, **options))

    class Slotted:
        __slots__ = ("call",)

        def __init__(self, call: asyncio.TimerHandle) -> None:
            self.call = call

        def cancel(self) -> None:
            self.call.cancel()

    async def main() -> int:
        done = asyncio.Event()
        async with AsyncTimers() as timers:
            later, sooner = timers.after(60, print), timers.after(0.001, done.set)
            await done.wait()
            return later.count + sooner.count

    with asyncio.Runner(loop_factory=Proxy) as runner:
        assert runner.run(main()) == 1


def test_on_our_loop_beside_a_sleep_of_years_time_goes_on() -> None:
    clock, ran = VirtualClock(), list[float]()

    async def main() -> None:
        async with AsyncTimers() as timers:
            timers.every("17d", lambda: ran.append(clock.monotonic()))
            await asyncio.sleep(400 * 86_400)

    aio.run(main(), clock=clock)
    assert len(ran) == 400 // 17


def test_on_our_loop_a_pause_and_another_speed_make_no_timer_early() -> None:
    clock, late = VirtualClock(), list[int]()

    async def main() -> None:
        async with AsyncTimers() as timers:
            for speed in (1, 3, 0.7, 1):
                timers.speed = speed
                timers.pause()
                clock.advance_ns(123_457)
                timers.resume()
                for wait_ns in range(100_000, 5_000_000, 370_001):
                    done, deadline_ns = asyncio.Event(), timers.now_ns() + wait_ns
                    timers.after(wait_ns / 1e9, done.set)
                    await done.wait()
                    late.append(timers.now_ns() - deadline_ns)

    aio.run(asyncio.wait_for(main(), 3600), clock=clock)
    assert min(late) >= 0
    assert max(late) < 1_000_000 + 3 * 1_000_000


def test_on_our_loop_and_the_systems_clock_a_timer_is_asked_for_at_the_end_of_its_own_tick() -> None:
    ticks = list[tuple[int, int]]()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, aio.EventLoop)
        for step in range(1, 200):
            wait_ns = 10**9 + step * 142_857
            with AsyncTimers() as timers:
                before_ns = SystemClock().monotonic_ns()
                timers.after(wait_ns / 1e9, print)
                after_ns = SystemClock().monotonic_ns()
                assert timers._call is not None
                call: Any = timers._call()
                first, last = (
                    -(-(now_ns + wait_ns - loop._origin_ns) // loop._tick_ns) for now_ns in (before_ns, after_ns)
                )
                if first == last and after_ns - before_ns < loop._tick_ns // 2:
                    ticks.append((call.due, first))

    aio.run(main())
    assert len(ticks) > 20
    assert [asked for asked, _ in ticks] == [end for _, end in ticks]


def test_timers_run_on_a_virtual_loop_of_the_users_that_counts_from_1970() -> None:
    class VirtualLoop(asyncio.SelectorEventLoop):
        now = 1_700_000_000.0

        def __init__(self) -> None:
            super().__init__()
            self._clock_resolution = 1e-6  # what a float can tell at that age
            self._turns = 0
            selector: Any = self._selector  # type: ignore[attr-defined]
            real = selector.select

            def select(timeout: float | None = None) -> Any:
                self._turns += 1
                if self._turns > 100_000:
                    raise AssertionError(f"time stands still at {self.now}")
                self.now += timeout or 0
                return real(0)

            selector.select = select

        def time(self) -> float:
            return self.now

    async def main() -> list[float]:
        late, loop = list[float](), asyncio.get_running_loop()
        with AsyncTimers() as timers:
            for _ in range(1000):
                done, deadline = asyncio.Event(), loop.time() + 0.013
                timers.after(0.013, done.set)
                await done.wait()
                late.append(loop.time() - deadline)
        return late

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        late = runner.run(main())
    assert -1e-6 < min(late) <= max(late) < 0.001 + 1e-6


@pytest.mark.parametrize("kind", ["timeout", "call", "sleep", "timers", "paused timers"])
def test_virtual_time_does_not_pass_for_what_does_not_come_due(kind: str) -> None:
    clock = VirtualClock()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with AsyncTimers() as timers:
            if kind == "timeout":
                async with aio.timeout(3600):
                    await asyncio.sleep(0)
            elif kind == "call":
                loop.call_later(3600, print).cancel()
            elif kind == "sleep":
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.sleep(3600), 0)
            elif kind == "timers":
                timers.after(3600, print).cancel()
            else:
                timers.after(3600, print)
                timers.pause()
            before_ns = clock.monotonic_ns()
            await asyncio.to_thread(time.sleep, 0.01)
            assert clock.monotonic_ns() == before_ns
            timers.resume()
            done = asyncio.Event()
            timers.after(7200, done.set)
            await done.wait()
            assert clock.monotonic_ns() - before_ns == 7200 * 10**9

    aio.run(main(), clock=clock)


def test_timers_of_a_finer_tick_than_the_loops_begin_at_zero() -> None:
    clock = VirtualClock()
    clock.advance("59m")

    async def main() -> int:
        clock.advance("59m")
        with AsyncTimers() as timers:
            return timers.now_ns()

    with asyncio.Runner(
        loop_factory=lambda: aio.EventLoop(geometry=Geometry([(3600 * 10**9, 60)]), clock=clock)
    ) as runner:
        assert runner.run(main()) == 0
