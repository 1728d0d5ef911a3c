"""`EventLoop`: CPython's own tests, and what is ours alone."""

import asyncio
import contextvars
import gc
import importlib.util
import math
import subprocess
import sys
import threading
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tickwheel import AsyncTimers, SystemClock, VirtualClock, aio
from tickwheel.errors import InvalidClock, InvalidGeometry, InvalidOption
from tickwheel.wheels import Geometry

REPOSITORY = Path(__file__).parents[2]
CPYTHON_RUNS = [
    "loop",
    "test_locks",
    "test_queues",
    "test_runners",
    "test_sock_lowlevel",
    "test_streams",
    "test_taskgroups",
    pytest.param("test_tasks", marks=pytest.mark.slow),
    "test_timeouts",
    "test_waitfor",
    "test_timeouts --functions",
    "test_timeouts --functions --standard-loop",
    "test_waitfor --functions",
]


@pytest.mark.parametrize("run", CPYTHON_RUNS)
def test_cpythons_own_tests_pass(run: str) -> None:
    if importlib.util.find_spec("test") is None or importlib.util.find_spec("test.test_asyncio") is None:
        pytest.skip(f"{sys.executable} was installed without its test package")
    command = [sys.executable, "-W", "ignore", "-m", "tests.timers.cpython_suite", *run.split()]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr[-20_000:]
    assert "\nOK" in done.stderr
    assert "Ran 0 tests" not in done.stderr


@pytest.fixture
def loop() -> Any:
    loop = aio.EventLoop()
    yield loop
    loop.close()


def test_timers_run_by_when_though_they_share_a_tick(loop: Any) -> None:
    ran: list[str] = []
    start = loop.time() + 0.01
    for name, offset in (("c", 0.0003), ("a", 0.0), ("b", 0.0002), ("d", 0.0003)):
        loop.call_at(start + offset, ran.append, name)
    loop.call_at(start + 0.002, loop.stop)
    loop.run_forever()
    assert ran == ["a", "b", "c", "d"]


def test_no_timer_is_early(loop: Any) -> None:
    early: list[float] = []
    deadlines = [loop.time() + index / 5000 for index in range(1000)]

    def note(deadline: float) -> None:
        early.extend([deadline - loop.time()] if loop.time() < deadline - loop._clock_resolution else [])

    for deadline in deadlines:
        loop.call_at(deadline, note, deadline)
    loop.call_at(deadlines[-1] + 0.01, loop.stop)
    loop.run_forever()
    assert early == []
    assert len(loop._timers.wheel) == 0


def test_cancelled_timers_leave_at_once_and_the_heap_holds_one(loop: Any) -> None:
    handles = [loop.call_later(60 + index, print) for index in range(1000)]
    assert len(loop._timers.wheel) == 1000
    assert len(loop._scheduled) == 1, "the one that the wheel is waited for with"
    for handle in handles:
        assert not handle.cancelled()
        handle.cancel()
        handle.cancel()
        assert handle.cancelled()
    assert len(loop._timers.wheel) == 0


def test_a_handle_behaves_as_a_standard_one(loop: Any) -> None:
    when = loop.time() + 5
    handle = loop.call_at(when, print, "hello")
    assert handle.when() == when
    assert not handle.cancelled()
    assert handle < loop.call_at(when + 1, print)
    assert f"when={when} print(" in repr(handle)  # what it is called with is shown or not, as asyncio has it
    handle.cancel()
    assert handle.cancelled()
    assert "cancelled" in repr(handle)


def test_a_timer_at_infinity_or_in_the_past_is_no_trouble(loop: Any) -> None:
    never = loop.call_at(math.inf, print)
    ran: list[str] = []
    loop.call_at(loop.time() - 100, ran.append, "past")
    loop.call_later(0.01, loop.stop)
    loop.run_forever()
    assert ran == ["past"]
    never.cancel()
    with pytest.raises(TypeError):
        loop.call_at(None, print)


def test_a_callback_cancelled_in_the_same_tick_does_not_run(loop: Any) -> None:
    ran: list[str] = []
    when = loop.time() + 0.01

    def cancel() -> None:
        victim.cancel()

    loop.call_at(when, cancel)
    victim: asyncio.TimerHandle = loop.call_at(when, ran.append, "victim")
    loop.call_at(when + 0.01, loop.stop)
    loop.run_forever()
    assert ran == []


def test_a_sentinel_that_comes_a_moment_too_soon_is_set_again(loop: Any) -> None:
    ran: list[str] = []
    loop.call_later(0.02, ran.append, "in time")
    loop._timers._held()._run()  # as when the clock passes it between two looks at the time
    assert ran == []
    assert not loop._timers._held().cancelled()
    loop.call_later(0.03, loop.stop)
    loop.run_forever()
    assert ran == ["in time"]


def test_a_pending_call_cannot_be_made_to_let_go_of_its_callback(loop: Any) -> None:
    ran: list[str] = []
    call = loop.call_later(0.01, ran.append, "called")
    assert call.release() is None
    loop.call_later(0.02, loop.stop)
    loop.run_forever()
    assert ran == ["called"]


def test_closing_forgets_what_was_pending() -> None:
    loop = aio.EventLoop()
    handle = loop.call_later(60, print)
    loop.close()
    loop.close()
    handle.cancel()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_later(1, print)


TICK_NS_MIN = 28  # as the documentation says: 1,000 years are less than 2**60 of them


def test_a_tick_too_short_to_count_centuries_with_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    for clock in (None, VirtualClock()):
        with pytest.raises(InvalidGeometry, match="27 ns is too short for an event loop; use at least 28 ns"):
            aio.EventLoop(geometry=Geometry([(TICK_NS_MIN - 1, 64)]), clock=clock)
    gc.collect()
    assert capfd.readouterr().err == ""


def test_with_the_shortest_tick_a_thousand_years_are_waited_for() -> None:
    clock = VirtualClock()
    geometry = Geometry([(TICK_NS_MIN * 64**level, 64) for level in range(6)])
    with asyncio.Runner(loop_factory=lambda: aio.EventLoop(geometry=geometry, clock=clock)) as runner:
        runner.run(aio.sleep("365250d"))
    assert 0 <= clock.monotonic_ns() / 1e9 - 365_250 * 86_400 < 1


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        ((VirtualClock(),), {}, InvalidOption, "a clock is passed by name, as clock="),
        ((5,), {}, InvalidOption, "selector must be a selector"),
        ((), {"clock": VirtualClock}, InvalidClock, "invalid clock <class"),
        ((), {"clock": SystemClock()}, InvalidOption, "clock must be a VirtualClock"),
        ((), {"geometry": Geometry([(10**400, 2)])}, InvalidGeometry, "too long for timers; use at most 1,000 years"),
    ],
)
def test_what_no_loop_can_be_made_of_is_refused_without_a_trace(
    arguments: Any, options: Any, error: Any, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(error, match=words):
        aio.EventLoop(*arguments, **options)
    gc.collect()
    assert capfd.readouterr().err == ""


# -- virtual time


def test_a_clock_that_is_moved_beyond_what_a_loop_counts_is_refused() -> None:
    clock = VirtualClock()

    async def main() -> None:
        clock.advance_ns(10**40)
        await asyncio.sleep(1)

    with pytest.raises(InvalidOption, match=r"clock must be within .* seconds of when the event loop was made"):
        aio.run(main(), clock=clock)


def virtually(main: Any) -> tuple[Any, float]:
    """Run a coroutine on virtual time; return its result and how long it took by the clock."""
    clock = VirtualClock()
    with asyncio.Runner(loop_factory=lambda: aio.EventLoop(clock=clock)) as runner:
        return runner.run(main), clock.monotonic_ns() / 1e9


def test_a_year_passes_in_a_moment() -> None:
    async def main() -> list[str]:
        story: list[str] = []

        async def every(days: int, name: str) -> None:
            while True:
                await asyncio.sleep(days * 86_400)
                story.append(name)

        tasks = [asyncio.create_task(every(30, "month")), asyncio.create_task(every(365, "year"))]
        await asyncio.wait(tasks, timeout=365.5 * 86_400)
        for task in tasks:
            task.cancel()
        return story

    (story, seconds), (again, _) = virtually(main()), virtually(main())
    assert story == ["month"] * 12 + ["year"]
    assert story == again, "the same every time"
    assert seconds == pytest.approx(365.5 * 86_400, abs=0.01)


def test_async_timers_follow_the_loop_into_virtual_time() -> None:
    async def main() -> int:
        async with AsyncTimers() as timers:
            handle = timers.every("1h", lambda: None)
            await asyncio.sleep(86_400.5)
            return handle.count

    count, _ = virtually(main())
    assert count == 24


def test_a_thread_is_waited_for_at_the_end_however_long_virtual_time_is() -> None:
    done, seconds = virtually(asyncio.to_thread(lambda: "done"))
    assert done == "done"
    assert seconds == 0, "the limit that asyncio sets on joining its threads did not pass"


def test_virtual_time_stops_on_the_very_nanosecond() -> None:
    clock = VirtualClock()

    async def quarters() -> list[int]:
        moments: list[int] = []
        for _ in range(4):
            await asyncio.sleep(91 * 86_400)
            moments.append(clock.monotonic_ns())
        return moments

    with asyncio.Runner(loop_factory=lambda: aio.EventLoop(clock=clock)) as runner:
        assert runner.run(quarters()) == [number * 91 * 86_400 * 10**9 for number in (1, 2, 3, 4)]


def test_real_sockets_work_beside_virtual_time() -> None:
    async def main() -> bytes:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readline())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"hello\n")
            echoed = await reader.readline()
            writer.close()
            await asyncio.sleep(3600)
        return echoed

    echoed, seconds = virtually(main())
    assert echoed == b"hello\n"
    assert seconds >= 3600


def test_a_call_is_a_timer_handle_of_asyncio(loop: Any) -> None:
    standard: Any = asyncio.SelectorEventLoop()
    context = contextvars.copy_context()
    ours: Any = loop.call_at(5.0, print, 1, context=context)
    theirs = standard.call_at(5.0, print, 1)
    later = loop.call_at(6.0, print)
    assert ours.get_context() is context
    assert ours == theirs
    assert theirs == ours
    assert hash(ours) == hash(theirs)
    assert ours != later
    assert (ours != 5.0, ours == 5.0) == (True, False)
    assert ours < later
    assert later > theirs
    assert ours <= theirs
    assert ours >= theirs
    assert sorted([later, theirs, ours]) == [theirs, ours, later]
    with pytest.raises(TypeError):
        _ = ours < 5.0
    ours.cancel()
    assert ours != theirs
    assert isinstance(ours, asyncio.TimerHandle)
    assert isinstance(ours, asyncio.Handle)
    assert not isinstance(ours, asyncio.Future)
    standard.close()


def test_many_calls_due_together_leave_the_loop_its_turns() -> None:
    clock, count = VirtualClock(), 50_000
    loop = aio.EventLoop(clock=clock)
    ran: list[int] = []
    seen: list[int] = []
    for number in range(count):
        loop.call_at(70 + number * 1e-4, ran.append, number)

    def look() -> None:
        seen.append(len(ran))
        if len(ran) < count:
            loop.call_soon(look)
        else:
            loop.stop()

    clock.advance(100)
    loop.call_soon(look)
    loop.run_forever()
    loop.close()
    assert ran == list(range(count))
    assert len(set(seen)) >= 3, "others ran in between"


def test_an_unclosed_loop_that_is_dropped_says_so() -> None:
    loops = [aio.EventLoop()]
    loops[0].call_later(60, print)
    loops.clear()
    with pytest.warns(ResourceWarning, match="unclosed event loop"):
        gc.collect()


def test_infinity_does_not_come_on_virtual_time() -> None:
    clock, thread_may_end = VirtualClock(), threading.Event()

    async def main() -> str:
        async with asyncio.timeout(math.inf):
            waiting = asyncio.create_task(asyncio.sleep(math.inf))
            await asyncio.sleep(1)
            thread_may_end.set()
            await asyncio.to_thread(thread_may_end.wait)
            waiting.cancel()
        return "waited for the thread"

    assert aio.run(main(), clock=clock) == "waited for the thread"
    assert clock.monotonic() < 2


def test_a_destructor_finds_a_cancelled_call_in_order(loop: Any) -> None:
    seen: list[Any] = []

    class Argument:
        def __del__(self) -> None:
            seen.append((calls[0]._callback, calls[0]._args, calls[0].cancelled()))

    calls: list[Any] = [loop.call_later(60, print, Argument(), Argument())]
    calls[0].cancel()
    assert seen == [(None, (), True)] * 2


@pytest.mark.parametrize("delay", [Decimal(1), "1", 10**400, None])
def test_a_delay_that_the_standard_loop_refuses_is_refused_with_the_same_error(delay: Any) -> None:
    told = []
    for kind in (asyncio.SelectorEventLoop, aio.EventLoop):
        loop = kind()
        with pytest.raises((TypeError, OverflowError)) as caught:
            loop.call_later(delay, print)
        told.append((caught.type, str(caught.value)))
        loop.close()
    assert told[0] == told[1]


@pytest.mark.parametrize("number", [Decimal(1), Fraction(1, 2), 1, True])
def test_a_moment_may_be_any_number(number: Any) -> None:
    loop = aio.EventLoop()
    assert loop.call_at(number, print).when() == float(number)
    loop.close()


@pytest.mark.parametrize("method", ["call_later", "call_at"])
def test_a_moment_that_is_not_a_number_is_now(loop: Any, method: str) -> None:
    async def main() -> list[str]:
        called: list[str] = []
        everything = asyncio.Event()
        loop.call_later(0.02, everything.set)
        getattr(loop, method)(math.nan, called.append, "not a number")
        loop.call_later(0.001, called.append, "later")
        await everything.wait()
        return called

    assert loop.run_until_complete(main()) == ["not a number", "later"]


def test_asyncios_own_timeout_that_is_not_a_number_is_over_at_once(loop: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(math.nan):
            await asyncio.sleep(30)

    with pytest.raises(TimeoutError):
        loop.run_until_complete(asyncio.wait_for(main(), 5))


def test_what_is_slow_in_debug_mode_is_named_whatever_kind_of_timer_it_is(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.slow_callback_duration = 0
        await aio.sleep(0.001)
        loop.call_later(0.001, print)
        with pytest.raises(TimeoutError):
            async with aio.timeout(0.002):
                await asyncio.Event().wait()

    aio.run(main(), debug=True)
    for name in ("<SleepTimer when=", "<Timeout [", "<Call when="):
        assert f"Executing {name}" in caplog.text


def test_an_error_in_debug_mode_says_where_the_call_was_started() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        reported: asyncio.Future[dict[str, Any]] = loop.create_future()
        loop.set_exception_handler(lambda _, context: reported.set_result(context))
        loop.call_later(0.001, lambda: 1 / 0)
        context = await reported
        assert context["source_traceback"][-1].name == "main"

    aio.run(main(), debug=True)


class Interrupted(asyncio.Handle):
    """What a signal handler does that raises just before the loop makes a timed call."""

    runs = asyncio.Handle._run
    left = 1

    def _run(self) -> None:
        if isinstance(self, asyncio.TimerHandle) and Interrupted.left:
            Interrupted.left -= 1
            raise KeyboardInterrupt
        Interrupted.runs(self)


@pytest.mark.parametrize("new_loop", [asyncio.SelectorEventLoop, aio.EventLoop])
@pytest.mark.parametrize("kind", ["sleep", "timers"])
def test_an_interrupt_before_the_one_call_that_the_loop_holds_stalls_nothing(
    new_loop: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, ran = new_loop(), list[int]()
    done = asyncio.Event()

    def note(number: int) -> None:
        ran.append(number)
        if len(ran) == 5:
            done.set()

    async def sleep(number: int) -> None:
        await aio.sleep(0.1)
        note(number)

    async def begin() -> Any:
        if kind == "sleep":
            return [asyncio.ensure_future(sleep(number)) for number in range(5)]
        timers = AsyncTimers()
        for number in range(5):
            timers.after(0.1, note, number)  # not before it is waited for, also on a busy machine
        return timers

    begun = loop.run_until_complete(begin())
    monkeypatch.setattr(Interrupted, "left", 1)
    with monkeypatch.context() as patch:
        patch.setattr(asyncio.Handle, "_run", Interrupted._run)
        if new_loop is aio.EventLoop:  # which makes the call only if it comes due after the look at the wheel
            patch.setattr(
                new_loop, "_process_events", vars(asyncio.selector_events.BaseSelectorEventLoop)["_process_events"]
            )
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(done.wait())
    loop.run_until_complete(asyncio.wait_for(done.wait(), 30))
    assert sorted(ran) == [0, 1, 2, 3, 4]
    loop.run_until_complete(asyncio.wait_for(aio.sleep(0.001), 30))
    if kind == "timers":
        assert begun.stop() == []
    loop.close()


def test_an_interrupt_while_the_next_call_is_asked_for_loses_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, ran = aio.EventLoop(), list[int]()
    for number in range(3):
        loop.call_later(0.001 + number / 100, ran.append, number)
    loop.call_later(0.05, loop.stop)
    wake_at, interrupts = loop._timers._wake_at, [KeyboardInterrupt]

    def interrupted(loop: Any, when: float) -> Any:
        if interrupts:
            raise interrupts.pop()
        assert wake_at is not None
        return wake_at(loop, when)

    monkeypatch.setattr(loop._timers, "_wake_at", interrupted)
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    loop.run_forever()
    assert ran == [0, 1, 2]
    loop.close()
