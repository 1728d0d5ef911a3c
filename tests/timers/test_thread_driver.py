"""`Timers` on a real thread and the real clock. What waits here waits for a signal, not for time."""

import gc
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tickwheel import COMPILED, ManualTimers, SystemClock, Timers, default_timers
from tickwheel.errors import InvalidExecutor, TimersStopped, TooManyTimers
from tickwheel.timers.registry import BATCH_MAX
from tickwheel.wheels import TICK_MAX

PATIENCE_SECONDS = 120  # for what should take no time, on a machine that is busy

request = ContextVar("request", default="nobody")


class Gate:
    """Counts down to the moment a test waits for."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.open = threading.Event()
        self.lock = threading.Lock()

    def step(self, *_: Any) -> None:
        with self.lock:
            self.left -= 1
            if self.left == 0:
                self.open.set()

    def wait(self) -> None:
        assert self.open.wait(PATIENCE_SECONDS), f"{self.left} never came"


class Hold:
    """A callback that keeps its thread until it is let go."""

    def __init__(self) -> None:
        self.begun = Gate(1)
        self.end = threading.Event()

    def __call__(self) -> None:
        self.begun.step()
        assert self.end.wait(PATIENCE_SECONDS)


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for something that gives no signal."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_a_timer_runs_on_the_wheels_own_thread() -> None:
    with Timers() as timers:
        gate, names = Gate(1), []

        def note() -> None:
            names.append(threading.current_thread().name)
            gate.step()

        timers.after(0.01, note)
        gate.wait()
    assert names == ["tickwheel-timers"]


def test_no_timer_is_early_by_the_monotonic_clock() -> None:
    chance = Random(1)
    gate, early = Gate(2000), []

    def note(deadline: float) -> None:
        if time.monotonic() < deadline:
            early.append(deadline - time.monotonic())
        gate.step()

    with Timers() as timers:
        for _ in range(2000):
            delay = chance.uniform(0, 0.3)
            timers.after(delay, note, time.monotonic() + delay)
        gate.wait()
    assert early == []


def test_an_earlier_timer_wakes_the_sleeping_thread() -> None:
    with Timers() as timers:
        timers.after("1h", print)
        gate = Gate(1)
        timers.after(0.01, gate.step)
        gate.wait()


def test_starting_twice_is_harmless_and_stopping_is_for_good() -> None:
    timers = Timers()
    assert not timers.running
    thread = timers.start()._thread
    assert timers.start()._thread is thread
    assert timers.running
    handle = timers.after(60, print)
    assert [left.handle for left in timers.stop()] == [handle]
    assert timers.stop() == []
    assert not timers.running
    for attempt in (timers.start, lambda: timers.after(1, print)):
        with pytest.raises(TimersStopped, match="make new ones"):
            attempt()


def test_the_first_timer_starts_the_thread() -> None:
    timers = Timers()
    gate = Gate(1)
    timers.after(0, gate.step)
    gate.wait()
    timers.stop()


def test_stopping_from_a_callback_does_not_wait_for_itself() -> None:
    timers = Timers()
    gate = Gate(1)

    def stop() -> None:
        timers.stop()
        gate.step()

    timers.after(0, stop)
    gate.wait()


def test_a_raising_callback_does_not_kill_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    with Timers() as timers:
        gate = Gate(1)
        timers.after(0, lambda: 1 / 0)
        timers.after(0.01, gate.step)
        gate.wait()
    assert "ZeroDivisionError" in caplog.text


def test_a_slow_callback_is_named_in_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with Timers(slow=0) as timers:
        gate = Gate(1)
        timers.after(0, threading.Event().wait, 0.001)
        timers.after(0.05, gate.step)
        gate.wait()
    assert "delayed all other timers" in caplog.text
    assert "Event.wait" in caplog.text


def test_in_an_executor_a_blocked_callback_delays_no_other() -> None:
    blocked = threading.Event()
    with ThreadPoolExecutor(2) as pool, Timers(executor=pool) as timers:
        gate = Gate(5)
        timers.after(0, blocked.wait, PATIENCE_SECONDS)
        for _ in range(5):
            timers.after(0.01, gate.step)
        gate.wait()
        blocked.set()


def test_an_executor_that_was_shut_down_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    gate = Gate(1)
    with Timers(executor=pool, on_error=gate.step) as timers:
        timers.after(0, print)
        gate.wait()
    assert caplog.records == []


def test_the_default_instance_is_shared_and_made_anew_after_a_stop() -> None:
    timers = default_timers()
    assert default_timers() is timers
    timers.stop()
    assert default_timers() is not timers
    default_timers().stop()


# -- callbacks that misbehave


def test_sys_exit_in_a_callback_ends_neither_the_batch_nor_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    class Odd(BaseException):
        pass

    def odd() -> None:
        raise Odd

    for timers in (Timers(), default_timers()):
        batch, later = Gate(3), Gate(1)
        with timers._registry.lock:  # all of one batch
            timers.after(0, sys.exit, 3)
            timers.after(0, odd)
            for _ in range(3):
                timers.after(0, batch.step)
        batch.wait()
        timers.after(0.005, later.step)
        later.wait()
        assert timers.running
        timers.stop()
    assert caplog.text.count("SystemExit: 3") == 2
    assert caplog.text.count("Odd") >= 2


def test_a_clock_that_fails_does_not_end_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    class Clock(SystemClock):
        failures = 0

        def monotonic_ns(self) -> int:
            if self.failures and threading.current_thread().name == "tickwheel-timers":
                self.failures -= 1
                raise OSError("no clock")
            return time.monotonic_ns()

    clock, gate = Clock(), Gate(1)
    with Timers(clock=clock) as timers:
        clock.failures = 1
        timers.after(0.001, gate.step)
        gate.wait()
        assert timers.running
    assert "the timer thread failed and continues" in caplog.text


def test_a_thread_that_cannot_be_started_is_seen_by_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    timers, gate = Timers(), Gate(1)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            timers.after(0, gate.step, key="k")
        assert (len(timers), timers.get("k")) == (0, None)
    timers.after(0, gate.step, key="k")
    gate.wait()
    assert gate.left == 0
    timers.stop()


def test_stop_hands_back_the_rest_of_the_batch_that_is_being_run() -> None:
    timers, hold = Timers(), Hold()
    ran: list[int] = []
    with timers._registry.lock:
        timers.after(0, hold)
        rest = [timers.after(0, ran.append, number) for number in range(100)]
    hold.begun.wait()
    stopper = threading.Thread(target=lambda: left.extend(timers.stop()))
    left: list[Any] = []
    stopper.start()
    wait_until(lambda: timers._registry.stopped)
    hold.end.set()
    stopper.join(PATIENCE_SECONDS)
    assert [timer.handle for timer in left] == rest
    assert ran == []


def test_after_stop_nothing_begins_in_the_executor() -> None:
    ran: list[int] = []
    hold = Hold()
    with ThreadPoolExecutor(1) as pool:
        timers = Timers(executor=pool)
        timers.after(0, hold)
        hold.begun.wait()
        rest = [timers.after(0, ran.append, number) for number in range(10)]
        wait_until(lambda: timers._registry.due_ring.count == 10)
        left = timers.stop()
        hold.end.set()
    assert [timer.handle for timer in left] == rest
    assert ran == []


def test_a_touched_timer_that_waits_for_an_executor_runs_once() -> None:
    ran: list[int] = []
    hold, done = Hold(), Gate(1)
    with ThreadPoolExecutor(1) as pool, Timers(executor=pool) as timers:
        timers.after(0, hold)
        hold.begun.wait()
        handle = timers.after(0, ran.append, 1)
        wait_until(lambda: timers._registry.due_ring.count == 1)
        assert handle.touch(0.05)
        assert handle.pending
        hold.end.set()
        timers.after(0.2, done.step)
        done.wait()
    assert ran == [1]
    assert handle.done


def test_a_periodic_timer_does_not_pile_up_in_a_busy_executor() -> None:
    hold, done = Hold(), Gate(1)
    with ThreadPoolExecutor(1) as pool, Timers(executor=pool) as timers:
        timers.after(0, hold)
        hold.begun.wait()
        handle = timers.every(0.001, done.step)
        wait_until(lambda: timers._registry.due_ring.count == 1)
        began = time.monotonic()
        wait_until(lambda: time.monotonic() > began + 0.05)
        assert pool._work_queue.qsize() == 1
        hold.end.set()
        done.wait()
        assert handle.missed >= 40
        handle.cancel()


def test_a_touched_periodic_timer_waits_in_the_executor_only_once() -> None:
    hold, done = Hold(), Gate(1)
    with ThreadPoolExecutor(1) as pool, Timers(executor=pool) as timers:
        timers.after(0, hold)
        hold.begun.wait()
        handle = timers.every(0.001, done.step)
        for _ in range(20):
            wait_until(lambda: timers._registry.due_ring.count == 1)
            handle.touch(0.001)
        assert pool._work_queue.qsize() == 1
        hold.end.set()
        done.wait()


def test_a_submit_that_fails_strands_no_other_timer() -> None:
    class Key:
        def __repr__(self) -> str:
            raise ValueError("no repr")

    class Pool(ThreadPoolExecutor):
        failures = 1

        def submit(self, *args: Any, **kwargs: Any) -> Any:
            if self.failures:
                self.failures -= 1
                raise RuntimeError("can't start new thread")
            return super().submit(*args, **kwargs)

    gate = Gate(10)
    with Pool(1) as pool, Timers(executor=pool) as timers:
        with timers._registry.lock:
            timers.after(0, print, key=Key())
            for number in range(10):
                timers.after(0, gate.step, key=number)
        gate.wait()


def test_an_executor_that_cancels_its_futures_is_reported_and_loses_no_periodic_timer() -> None:
    told, gate, hold = [], Gate(2), Hold()
    pool = ThreadPoolExecutor(1)

    def note(handle: Any, error: BaseException) -> None:
        told.append((handle, type(error).__name__))
        gate.step()

    timers = Timers(executor=pool, on_error=note)
    timers.after(0, hold)
    hold.begun.wait()
    once, again = timers.after(0, print), timers.every(0.001, print, times=2)
    wait_until(lambda: timers._registry.due_ring.count == 2)
    pool.shutdown(wait=False, cancel_futures=True)
    gate.wait()
    hold.end.set()
    timers.stop()
    assert (once, "CancelledError") in told
    assert (again, "CancelledError") in told


def test_an_executor_of_processes_is_refused() -> None:
    with ProcessPoolExecutor(1) as pool, pytest.raises(InvalidExecutor, match="ThreadPoolExecutor"):
        Timers(executor=pool)
    with pytest.raises(InvalidExecutor, match="it has no submit"):
        Timers(executor="pool")  # type: ignore[arg-type]
    with pytest.raises(InvalidExecutor, match="ThreadPoolExecutor is a class"):
        Timers(executor=ThreadPoolExecutor)  # type: ignore[arg-type]


def test_an_executor_that_returns_no_future_runs_timers_without_complaint(caplog: pytest.LogCaptureFixture) -> None:
    class Plain:
        def submit(self, function: Any, *args: Any) -> None:
            pool.submit(function, *args)

    with ThreadPoolExecutor(1) as pool, Timers(executor=Plain()) as timers:  # type: ignore[arg-type]
        gate = Gate(4)
        timers.after(0.001, gate.step)
        timers.every(0.001, gate.step, times=3)
        gate.wait()
    assert caplog.text == ""


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_executor_whose_future_takes_no_callback_runs_timers_without_complaint(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    class Odd:
        def add_done_callback(self, _: Any) -> None:
            raise error

    class Taking(Waiting):
        def submit(self, *args: Any, **options: Any) -> Any:
            super().submit(*args, **options)
            return Odd()

    executor, ran = Taking(), Gate(1)
    with Timers(executor=executor) as timers:
        handle = timers.after(0, ran.step)
        executor.gate.wait()
        wait_until(lambda: timers._registry.awaited != 0)  # the thread sleeps
        assert not handle.pending
        executor.submitted[0]()
        ran.wait()
    assert caplog.text == ""


def test_a_coroutine_function_is_reported_where_nobody_awaits_it(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        pass

    with Timers() as timers:
        gate = Gate(1)
        timers.after(0, work)
        timers.after(0.002, gate.step)
        gate.wait()
    assert "use AsyncTimers for coroutine functions" in caplog.text


def test_a_destructor_may_take_a_lock_that_another_thread_holds_while_it_starts_a_timer() -> None:
    # The destructor of a dropped callback runs outside of the registry's lock, or this would deadlock.
    lock, inside = threading.Lock(), threading.Event()

    class Callback:
        def __call__(self) -> None:
            pass

        def __del__(self) -> None:
            inside.set()
            with lock:
                pass

    with Timers() as timers:
        handles = [timers.after(60, Callback(), key="k"), timers.after(60, Callback(), group="g")]
        with lock:
            workers = [
                threading.Thread(target=handles[0].cancel),
                threading.Thread(target=timers.cancel_group, args=("g",)),
            ]
            for worker in workers:
                worker.start()
            assert inside.wait(PATIENCE_SECONDS)
            assert timers.after(60, print, key="other").cancel()
        for worker in workers:
            worker.join(PATIENCE_SECONDS)
            assert not worker.is_alive()


# -- cycles


CONNECTIONS = 100_000 if COMPILED else 2_000  # interpreted, a timer is visible to the collector anyway


class Connection:
    """Holds the handle of a timer whose callback holds it."""

    def __init__(self) -> None:
        self.handle: Any = None

    def close(self) -> None:
        pass


def cancel_all(_: Any, made: list[Connection]) -> None:
    for connection in made:
        connection.handle.cancel()


def run_all(timers: Any, _: list[Connection]) -> None:
    timers.advance(120)


def stop_all(timers: Any, _: list[Connection]) -> None:
    timers.stop()


def replace_all(timers: Any, made: list[Connection]) -> None:
    for connection in made:
        timers.after(60, print, key=connection, replace=True)


def cancel_the_group(timers: Any, _: list[Connection]) -> None:
    timers.cancel_group("connections")


def refuse_all(timers: Any, made: list[Connection]) -> None:
    cancel_all(timers, made)
    timers.stop()
    for connection in made:
        with pytest.raises(TimersStopped):
            connection.handle = timers.after(60, connection.close)


def drop_the_timers(timers: Any, _: list[Connection]) -> None:
    timers.__del__()


ENDS = [cancel_all, run_all, stop_all, replace_all, cancel_the_group, refuse_all, drop_the_timers]


@pytest.mark.slow
@pytest.mark.parametrize("periodic", [False, True], ids=["once", "counted"])
@pytest.mark.parametrize("end", ENDS)
def test_connections_and_their_timers_are_collected(end: Any, periodic: bool) -> None:
    timers, made = ManualTimers(), []
    for _ in range(CONNECTIONS):
        connection = Connection()
        if periodic:
            connection.handle = timers.every(60, connection.close, times=2, key=connection, group="connections")
        else:
            connection.handle = timers.after(60, connection.close, key=connection, group="connections")
        made.append(connection)
    end(timers, made)
    watched = [weakref.ref(connection) for connection in made]
    if end is replace_all:
        timers.stop()  # its keys are the connections
    made.clear()
    del connection
    gc.collect()
    assert len(watched) == CONNECTIONS
    assert sum(one() is not None for one in watched) == 0


# -- many


def start_from_threads(timers: Any, callback: Any, threads: int, each: int) -> None:
    """Start timers with delays up to 10 s from many threads at once."""
    barrier = threading.Barrier(threads)

    def work(number: int) -> None:
        chance = Random(number)
        barrier.wait()
        for index in range(each):
            timers.after(chance.uniform(0, 10), callback, (number, index))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def test_100_threads_start_100_000_timers_and_each_runs_once_in_virtual_time() -> None:
    timers = ManualTimers()
    ran: Counter[tuple[int, int]] = Counter()
    start_from_threads(timers, lambda who: ran.update([who]), 100, 1000)
    assert len(timers) == 100_000
    timers.advance(11)
    assert len(ran) == 100_000
    assert set(ran.values()) == {1}


@pytest.mark.slow
def test_100_threads_start_100_000_timers_and_each_runs_once_in_real_time() -> None:
    gate = Gate(100_000)
    ran: Counter[tuple[int, int]] = Counter()

    def note(who: tuple[int, int]) -> None:
        ran[who] += 1
        gate.step()

    with Timers() as timers:
        start_from_threads(timers, note, 100, 1000)
        gate.wait()
        assert len(timers) == 0
    assert len(ran) == 100_000
    assert set(ran.values()) == {1}


def test_what_is_overdue_is_caught_up_in_bounded_batches() -> None:
    timers = ManualTimers()
    for _ in range(5 * BATCH_MAX + 1):
        timers.after(1, print)
    timers._clock.advance("1h")
    sizes, caught_up = [], False
    while not caught_up:
        sizes.append(len(timers._registry.collect()))
        caught_up = timers._registry.caught_up
    assert sum(sizes) == 5 * BATCH_MAX + 1
    assert max(sizes) == BATCH_MAX


# -- the process around it


def run(script: str, *arguments: str, wait: bool = True) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(script), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if wait:
        process.wait(timeout=PATIENCE_SECONDS)
    return process


def output_of(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, err
    assert err == ""
    return out


def test_the_interpreter_exits_with_timers_pending() -> None:
    script = """
        from tickwheel import Timers
        timers = Timers()
        timers.after(3600, print, "too late")
        timers.every(0.001, lambda: None)
        print("leaving")
    """
    assert output_of(run(script)) == "leaving\n"


@pytest.mark.parametrize(
    "start",
    [
        "tickwheel.default_timers().after(3600, call)",
        "tickwheel.Timers().after(3600, call)",
        "timers = tickwheel.Timers(); timers.every(0.001, call)",
        "timers = tickwheel.ManualTimers(); timers.after(3600, call)",
        "timers = tickwheel.AsyncTimers(asyncio.new_event_loop()); timers.after(3600, call)",
    ],
)
def test_pending_timers_keep_no_module_from_being_torn_down_when_the_interpreter_exits(
    start: str, tmp_path: Path
) -> None:
    written = tmp_path / "written"
    script = f"""
        import asyncio, os, warnings
        import tickwheel
        warnings.simplefilter("ignore", ResourceWarning)  # the program leaves everything open

        class Session:
            def __del__(self, write=os.write):
                write(1, b"ended")

        session = Session()
        file = open({str(written)!r}, "w")
        def call() -> None: ...
        {start}
        file.write("all of it")
    """
    assert output_of(run(script)) == "ended"
    assert written.read_text() == "all of it"


@pytest.mark.parametrize("make", ["default_timers", "Timers"])
def test_timers_that_are_needed_after_the_interpreter_has_stopped_the_threads_are_refused(make: str) -> None:
    script = f"""
        from tickwheel import Timers, default_timers
        from tickwheel.errors import TimersStopped

        class Session:
            def __del__(self, stopped=TimersStopped, make={make}):
                try:
                    make().after(1, print)
                except stopped:
                    print("refused", flush=True)

        cycle = [Session()]
        cycle.append(cycle)
        default_timers().after(1, print)
    """
    assert output_of(run(script)) == "refused\n"


def test_a_forked_child_begins_without_the_parents_timers() -> None:
    script = """
        import os, threading, warnings
        from tickwheel import Timers

        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of just what is tried here
        timers, fired = Timers(), threading.Event()
        timers.after(0.2, fired.set, key="parent")
        child = os.fork()
        if child == 0:
            assert not timers.running
            assert (len(timers), timers.get("parent")) == (0, None)
            own = threading.Event()
            timers.after(0.01, own.set, key="parent")
            assert own.wait(20), "the child's own timer never came"
            assert not fired.is_set()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert fired.wait(20), "the parent's timer never came"
        print("both")
    """
    assert output_of(run(script)) == "both\n"


def test_a_suspended_process_catches_up_without_a_storm() -> None:
    script = """
        import sys, threading, time
        from tickwheel import Timers

        timers, left, done = Timers(), [5000], threading.Event()
        def note():
            left[0] -= 1
            if left[0] == 0:
                done.set()
        for index in range(5000):
            timers.after(0.3 + index / 5000, note)
        beat = timers.every(0.01, lambda: None)
        print("ready", flush=True)
        sys.stdin.readline()
        assert done.wait(20)
        timers.stop()
        print(beat.missed > 20, beat.count + beat.missed > 100)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(1.5)  # the suspension itself
    os.kill(process.pid, signal.SIGCONT)
    out, err = process.communicate("go\n", timeout=PATIENCE_SECONDS)
    assert (out, err) == ("True True\n", "")


@pytest.mark.slow
def test_a_million_far_timers_cause_no_wake_ups() -> None:
    script = """
        import glob, re, time
        from tickwheel import COMPILED, Timers

        def switches():
            paths = glob.glob("/proc/self/task/*/status")
            return sum(int(re.search(r"\\nvoluntary_ctxt_switches:\\t(\\d+)", open(path).read())[1]) for path in paths)

        timers = Timers()
        for index in range(1_000_000 if COMPILED else 100_000):
            timers.after(86_400 + index / 100, print)
        time.sleep(0.2)
        before = switches()
        time.sleep(2)
        print(switches() - before)
    """
    assert int(output_of(run(script))) <= 2


class Waiting(Executor):
    """An executor that runs what it was given when it is told."""

    def __init__(self) -> None:
        self.submitted: list[Callable[[], object]] = []
        self.futures: list[Future[None]] = []
        self.gate = Gate(1)

    def submit(self, function: Any, /, *args: Any, **options: Any) -> Any:
        self.futures.append(Future())
        self.submitted.append(partial(function, *args, **options))
        self.gate.step()
        return self.futures[-1]


def test_a_timer_that_waits_in_the_executor_is_handed_back_and_does_not_begin() -> None:
    executor, ran = Waiting(), Gate(1)
    timers = Timers(executor=executor)
    handle = timers.after(0, ran.step)
    executor.gate.wait()
    left = timers.stop()
    executor.submitted[0]()
    assert [pending.handle for pending in left] == [handle]
    assert (ran.left, handle.done) == (1, False)


def test_a_timer_that_has_begun_in_the_executor_finishes_and_is_not_handed_back() -> None:
    class Clock(SystemClock):
        reader: Callable[[], object] = staticmethod(lambda: None)

        def monotonic_ns(self) -> int:
            self.reader()
            return time.monotonic_ns()

    def stop_when_begun() -> None:
        if handle.done:
            clock.reader = lambda: None
            left.append(timers.stop())

    clock, executor, ran = Clock(), Waiting(), Gate(1)
    left: list[Any] = []
    timers = Timers(clock=clock, executor=executor)
    handle = timers.after(0, ran.step)
    executor.gate.wait()
    clock.reader = stop_when_begun  # read between the moment it is recorded as begun and its first line
    executor.submitted[0]()
    assert left == [[]]
    assert ran.open.is_set()


def test_a_periodic_timer_that_the_executor_refuses_is_reported_once() -> None:
    refusals, accepted = Gate(4), Gate(2)
    errors: list[BaseException] = []

    class Refusing(Executor):
        def submit(self, function: Any, /, *args: Any, **_: Any) -> Any:
            refusals.step()
            if refusals.left >= 0:
                raise RuntimeError("cannot schedule new futures")
            accepted.step()
            function(*args)
            return Future()

    with Timers(executor=Refusing(), on_error=lambda _, error: errors.append(error)) as timers:
        timers.every(0.001, lambda: None)
        refusals.wait()
        accepted.wait()
    assert [str(error) for error in errors] == ["cannot schedule new futures"]


class Switched(Executor):
    """An executor that runs what it is given at once, or refuses it."""

    def __init__(self) -> None:
        self.accepts = False
        self.refusals = 0

    def submit(self, function: Any, /, *args: Any, **_: Any) -> Any:
        if not self.accepts:
            self.refusals += 1
            raise RuntimeError("the queue is full")
        function(*args)
        return Future()


def test_a_run_that_the_executor_refuses_does_not_count_and_is_tried_again() -> None:
    executor, ran = Switched(), Gate(4)
    errors: list[tuple[Any, str]] = []
    with Timers(executor=executor, on_error=lambda handle, error: errors.append((handle, str(error)))) as timers:
        once, thrice = timers.after(0, ran.step), timers.every(0.001, ran.step, times=3)
        wait_until(lambda: executor.refusals >= 3 and len(errors) == 2)
        assert (once.done, once.count, thrice.done, thrice.count) == (False, 0, False, 0)
        assert len(timers) == 2
        executor.accepts = True
        ran.wait()
        wait_until(lambda: thrice.done)
        assert (once.count, thrice.count) == (1, 3)
        assert thrice.missed > 0
    assert sorted(message for _, message in errors) == ["the queue is full"] * 2
    assert {handle for handle, _ in errors} == {once, thrice}


def test_what_the_executor_refused_is_handed_back(caplog: pytest.LogCaptureFixture) -> None:
    executor = Switched()
    timers = Timers(executor=executor)
    handle = timers.after(0, print, "in vain", key="k")
    wait_until(lambda: "did not run" in caplog.text)
    assert timers.get("k") is handle
    [left] = timers.stop()
    assert (left.handle, left.args, left.due_in) == (handle, ("in vain",), 0.0)
    assert (handle.done, handle.cancelled, executor.refusals) == (False, True, 1)
    assert "the executor did not run timer callback print key='k'" in caplog.text
    assert "raised" not in caplog.text


def test_an_executor_that_cancels_everything_is_told_once_a_timer() -> None:
    refusals = Gate(5)
    errors: list[BaseException] = []

    class Cancelling(Executor):
        def submit(self, *_: Any, **__: Any) -> Any:
            future: Future[None] = Future()
            future.cancel()
            refusals.step()
            return future

    with Timers(executor=Cancelling(), on_error=lambda _, error: errors.append(error)) as timers:
        timers.every(0.001, print)
        refusals.wait()
    assert len(errors) == 1


def test_an_interpreter_that_exits_says_nothing_of_its_executors() -> None:
    script = """
        import atexit, time
        from concurrent.futures import ThreadPoolExecutor
        from tickwheel import Timers

        timers = Timers(executor=ThreadPoolExecutor(1))
        beat = timers.every(0.001, lambda: None)
        atexit.register(time.sleep, 0.05)  # the executor is shut down by now, the timers are not
        while not beat.count:
            time.sleep(0.001)
    """
    assert output_of(run(script)) == ""


COUNTING = """
    import logging, sys, threading, time
    from concurrent.futures import ThreadPoolExecutor
    from tickwheel import Timers

    class Counting(ThreadPoolExecutor):
        refusals = 0

        def submit(self, *args, **options):
            try:
                return super().submit(*args, **options)
            except RuntimeError:
                self.refusals += 1
                raise

    pool = Counting(2)

    def wait_for_refusals():
        while pool.refusals < 5:
            time.sleep(0.001)
"""


@pytest.mark.parametrize("told", ["on_error", "log"])
def test_an_executor_that_ended_with_the_main_thread_is_reported_once(told: str) -> None:
    script = """
    lines = []
    if sys.argv[1] == "log":
        logging.getLogger("tickwheel").addHandler(handler := logging.StreamHandler(sys.stdout))
        handler.emit = lambda record: lines.append(f"{record.getMessage()}: {record.exc_info[1]}")
        timers = Timers(executor=pool)
    else:
        timers = Timers(executor=pool, on_error=lambda handle, error: lines.append(str(error)))

    timers.after(3600, print, "never")  # starts the thread: from Python 3.12 on, none is started later

    def serve():
        threading.main_thread().join()
        timers.after(0, print, "never")
        timers.every(0.001, int)
        wait_for_refusals()
        print(len(timers), len(lines), lines[0])

    threading.Thread(target=serve).start()
    """
    out = output_of(run(COUNTING + script, told))
    assert out.startswith("3 1 "), out
    assert "the main thread has ended, and executors accept no work after that" in out
    assert ("the executor did not run timer callback" in out) == (told == "log")


def test_an_interpreter_that_exits_when_its_executor_is_done_says_nothing() -> None:
    script = """
    timers = Timers(executor=pool)
    pool.submit(wait_for_refusals)
    timers.every(0.001, int)
    """
    assert output_of(run(COUNTING + script)) == ""


def test_timers_keep_no_handle_that_the_executor_refused_and_that_is_over() -> None:
    told = Gate(1)
    with Timers(executor=Switched(), on_error=told.step) as timers:
        handle = timers.after(0, print)
        told.wait()
        handle.cancel()
        wait_until(lambda: sys.getrefcount(handle) == 2)  # this one's, and that of the call


def test_what_is_cancelled_and_waits_in_the_executor_counts_until_its_turn_has_come() -> None:
    executor, ran = Waiting(), Gate(1)
    with Timers(executor=executor, pending_max=3) as timers:
        handles = [timers.after(0, ran.step) for _ in range(3)]
        wait_until(lambda: len(executor.futures) == 3)
        timers.touch(handles[2], 3600)
        assert all(handle.cancel() for handle in handles)
        assert len(timers) == 0
        with pytest.raises(TooManyTimers) as refused:
            timers.after(0, print)
        assert refused.value.__notes__ == ["3 of them are cancelled, and wait in the executor until it comes to them"]
        executor.submitted[0]()  # comes to nothing
        assert executor.futures[1].cancel()
        timers.after(3600, print)
        timers.after(3600, print)
        with pytest.raises(TooManyTimers):
            timers.after(3600, print)
        executor.submitted[2]()
        timers.after(3600, print)
    assert not ran.open.is_set()


def test_a_timer_that_replaces_one_in_the_executor_needs_room() -> None:
    executor = Waiting()
    with Timers(executor=executor, pending_max=2) as timers:
        first = timers.after(0, print, key="k")
        executor.gate.wait()
        second = timers.after(3600, print, key="k", replace=True)
        assert (first.cancelled, timers.get("k")) == (True, second)
        third = timers.after(3600, print, key="k", replace=True)  # in the place of the second, which waits nowhere
        assert (second.cancelled, timers.get("k")) == (True, third)
        with pytest.raises(TooManyTimers):
            timers.after(3600, print)


def test_a_timer_cancelled_before_it_is_submitted_is_not_submitted() -> None:
    executor, ran = Waiting(), Gate(1)

    def cancel_second(*_: Any) -> None:
        second.cancel()

    with Timers(executor=executor) as timers:
        executor.gate.step = cancel_second  # type: ignore[method-assign]
        with timers._registry.lock:
            timers.after(0, ran.step)
            second = timers.after(0, ran.step)
        wait_until(lambda: timers.stats.pending == 0 and len(executor.futures) == 1)
        assert second.cancelled
    assert len(executor.futures) == 1


@pytest.mark.parametrize("pooled", [False, True])
def test_each_callback_runs_in_its_own_copy_of_the_context_the_timers_were_made_in(pooled: bool) -> None:
    seen, gate = list[str](), Gate(2)

    def note(name: str) -> None:
        seen.append(request.get())
        request.set(name)
        gate.step()

    token = request.set("maker")
    with ThreadPoolExecutor(1) as pool, Timers(executor=pool if pooled else None) as timers:
        request.reset(token)
        timers.after(0, note, "first")
        timers.after(0, note, "second")
        gate.wait()
    assert seen == ["maker", "maker"]
    assert request.get() == "nobody"


def test_the_default_instance_keeps_no_context_of_the_first_one_who_asks() -> None:
    default_timers().stop()
    seen, gate = list[str](), Gate(1)

    def note() -> None:
        seen.append(request.get())
        gate.step()

    token = request.set("first one who asks")
    timers = default_timers()
    timers.after(0, note)
    request.reset(token)
    gate.wait()
    assert seen == ["nobody"]


def test_an_executor_left_behind_by_a_fork_is_reported() -> None:
    script = """
        import os, threading, warnings
        from concurrent.futures import ThreadPoolExecutor
        from tickwheel import Timers

        warnings.simplefilter("ignore", DeprecationWarning)
        told, errors = threading.Event(), []
        pool = ThreadPoolExecutor(1)
        pool.submit(int).result()
        timers = Timers(executor=pool, on_error=lambda handle, error: (errors.append(error), told.set()))
        child = os.fork()
        if child == 0:
            timers.after(0.01, print, "never")
            assert told.wait(20), "neither run nor reported"
            os._exit("fork" not in str(errors[0]))
        assert os.waitpid(child, 0)[1] == 0
        print("told")
    """
    assert output_of(run(script)) == "told\n"


def test_what_waits_for_a_busy_executor_is_counted_and_handed_back() -> None:
    hold = Hold()
    with ThreadPoolExecutor(1) as pool:
        timers = Timers(executor=pool, pending_max=10)
        timers.after(0, hold)
        hold.begun.wait()
        for _ in range(10):
            timers.after(0, print)
        wait_until(lambda: timers.stats.pending == 0)
        assert len(timers) == 10
        with pytest.raises(TooManyTimers):
            timers.after(0, print)
        assert len(timers.stop()) == 10
        assert len(timers) == 0
        hold.end.set()


@pytest.fixture
def failing_log(request: pytest.FixtureRequest) -> Any:
    """A log handler that raises, as when the log server is down."""

    class Failing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            failures.append(record.getMessage())
            raise request.param

    failures: list[str] = []
    handler, log = Failing(), logging.getLogger("tickwheel.timers")
    log.addHandler(handler)
    yield failures
    log.removeHandler(handler)


@pytest.mark.parametrize("failing_log", [OSError("log server is down"), KeyboardInterrupt()], indirect=True)
def test_a_log_handler_that_raises_does_not_end_the_thread(failing_log: list[str]) -> None:
    beats, later = Gate(3), Gate(1)
    with Timers() as timers:
        timers.after(0, lambda: 1 / 0)
        timers.every(0.001, beats.step)
        wait_until(lambda: bool(failing_log))
        beats.wait()
        timers.after(0.001, later.step)
        later.wait()
        assert timers.running


@pytest.mark.parametrize("failing_log", [OSError("log server is down"), KeyboardInterrupt()], indirect=True)
def test_a_log_handler_that_raises_strands_no_timer_of_an_executor(failing_log: list[str]) -> None:
    class Refusing(ThreadPoolExecutor):
        refused = 0

        def submit(self, *args: Any, **options: Any) -> Any:
            if not self.refused:
                self.refused += 1
                raise RuntimeError("full")
            return super().submit(*args, **options)

    with Refusing(1) as executor:
        timers, gate = Timers(executor=executor), Gate(5)
        with timers._registry.lock:
            for _ in range(5):
                timers.after(0, gate.step)
        gate.wait()
        timers.stop()
    assert failing_log


@pytest.mark.parametrize("slow", [False, True], ids=["quick", "slow"])
def test_a_signal_that_interrupts_the_first_start_leaves_one_thread(
    monkeypatch: pytest.MonkeyPatch, slow: bool
) -> None:
    """The thread that was started ends, also a slow one that begins to turn the wheel when another does."""

    class Alarm(Exception):
        pass

    def start_and_be_interrupted(thread: threading.Thread) -> None:
        begin(thread)
        started.append(thread)
        assert not slow or turning.wait(PATIENCE_SECONDS)
        raise Alarm

    def turn_once() -> None:
        if slow and (not started or threading.current_thread() is started[0]):
            turning.set()
            assert replaced.wait(PATIENCE_SECONDS)
        turn()

    begin, started = threading.Thread.start, list[threading.Thread]()
    turning, replaced = threading.Event(), threading.Event()
    timers, gate = Timers(), Gate(1)
    turn = timers._turn_once
    monkeypatch.setattr(timers, "_turn_once", turn_once)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start_and_be_interrupted)
        with pytest.raises(Alarm):
            timers.after(60, print)
    timers.after(0, gate.step)
    gate.wait()
    replaced.set()
    wait_until(lambda: not started[0].is_alive())
    assert timers.running
    assert timers.stop() == []


def test_a_child_forked_by_a_callback_that_returns_has_one_thread_for_its_timers() -> None:
    script = """
        import os, threading, warnings
        from tickwheel import Timers

        warnings.simplefilter("ignore", DeprecationWarning)
        timers, beside, reaped = Timers(slow=60), threading.Event(), threading.Event()

        def wait_for_another():
            os._exit(beside.wait(0.5))  # which never comes: the other timer runs after this one, or not at all

        def fork():
            child = os.fork()
            if child:
                print(os.waitpid(child, 0)[1])
                reaped.set()
            else:
                with timers._registry.lock:
                    timers.after(0.01, wait_for_another)
                    timers.after(0.01, beside.set)

        timers.after(0, fork)
        assert reaped.wait(60)
    """
    assert output_of(run(script)) == "0\n"


def test_timers_go_on_after_a_start_that_is_interrupted_while_an_earlier_thread_counts_as_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start_and_be_interrupted(thread: threading.Thread) -> None:
        begin(thread)
        raise KeyboardInterrupt

    begin, hold, gate = threading.Thread.start, Hold(), Gate(1)
    timers = Timers(slow=3600)
    timers.after(0, hold)
    hold.begun.wait()
    assert timers._thread is not None
    # As after an interrupt in it, on Python 3.11 and 3.12.
    monkeypatch.setattr(timers._thread, "is_alive", lambda: False)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start_and_be_interrupted)
        with pytest.raises(KeyboardInterrupt):
            timers.start()
    hold.end.set()
    timers.after(0.01, gate.step)
    gate.wait()
    timers.stop()


def test_what_is_pending_runs_though_the_start_of_a_thread_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    def start_and_be_interrupted(thread: threading.Thread) -> None:
        monkeypatch.undo()
        begin(thread)
        raise KeyboardInterrupt

    begin, gate = threading.Thread.start, Gate(1)
    timers = Timers()
    timers.after(0.2, gate.step)
    assert timers._thread is not None
    monkeypatch.setattr(timers._thread, "is_alive", lambda: False)
    monkeypatch.setattr(threading.Thread, "start", start_and_be_interrupted)
    with pytest.raises(KeyboardInterrupt):
        timers.start()
    gate.wait()
    timers.stop()


def test_a_thread_that_was_left_behind_does_not_speak_for_the_one_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    class Watched(Timers):
        @property
        def _turning(self) -> bool:
            turning = Timers._turning.__get__(self)
            if turning and threading.current_thread() is left_behind[0]:
                left_behind[0] = None
                looked.set()
                replaced.wait(0.5)  # with the lock it is replaced only after this
            return bool(turning)

    left_behind: list[threading.Thread | None] = [None]
    looked, replaced, gate = threading.Event(), threading.Event(), Gate(1)
    timers = Watched()
    timers.after(3600, print)
    wait_until(lambda: timers._registry.awaited not in (0, TICK_MAX))  # it sleeps
    assert timers._thread is not None
    left_behind[0] = timers._thread
    timers._bell.ring()
    assert looked.wait(PATIENCE_SECONDS)
    monkeypatch.setattr(timers._thread, "is_alive", lambda: False)
    first = timers._thread
    timers.start()
    wait_until(lambda: timers._registry.awaited not in (0, TICK_MAX))
    replaced.set()
    first.join(PATIENCE_SECONDS)
    timers.after(0.01, gate.step)
    gate.wait()
    timers.stop()


@pytest.mark.parametrize("kind", ["Timers", "AsyncTimers", "ManualTimers"])
def test_what_an_interrupted_stop_found_is_handed_back_by_the_next(kind: str) -> None:
    script = f"""
        import asyncio, sys
        from tickwheel import AsyncTimers, ManualTimers, Timers

        def interrupt(frame, event, called):
            # When the registry's close() returns: compiled to the caller, interpreted in its own frame.
            name = called.__name__ if event == "c_return" else frame.f_code.co_qualname if event == "return" else ""
            if name in ("close", "TimerRegistry.close"):
                sys.setprofile(None)
                raise KeyboardInterrupt

        async def main():
            timers = {kind}()
            timers.after(60, print, "important", key="k")
            sys.setprofile(interrupt)
            try:
                timers.stop()
            except KeyboardInterrupt:
                print([left.key for left in timers.stop()], timers.stop())

        asyncio.run(main())
    """
    assert output_of(run(script)) == "['k'] []\n"


def test_what_a_stop_found_that_was_interrupted_while_it_waited_is_handed_back_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def be_interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    hold, timers = Hold(), Timers(slow=3600)
    timers.after(0, hold)
    timers.after(60, print, key="k")
    hold.begun.wait()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "join", be_interrupted)
        with pytest.raises(KeyboardInterrupt):
            timers.stop()
    hold.end.set()
    assert [left.key for left in timers.stop()] == ["k"]
    assert timers.stop() == []


def test_a_touch_or_resume_for_which_the_thread_cannot_be_woken_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> None:
        raise RecursionError

    with Timers() as timers:
        touched = timers.after(1000, print)
        wait_until(lambda: timers._registry.awaited not in (0, TICK_MAX))  # the thread sleeps
        timers.pause()
        with monkeypatch.context() as patched:
            patched.setattr(timers, "_wake", refuse)
            for change in (timers.resume, lambda: setattr(timers, "speed", 2.0)):
                with pytest.raises(RecursionError):
                    change()
        assert (timers.paused, timers.speed) == (True, 1.0)
        timers.resume()
        wait_until(lambda: timers._registry.awaited not in (0, TICK_MAX))
        with monkeypatch.context() as patched:
            patched.setattr(timers, "_wake", refuse)
            with pytest.raises(RecursionError):
                touched.touch(0.001)
        assert touched.due_in is not None
        assert touched.due_in > 900


def test_a_timer_that_is_cancelled_while_its_touch_fails_stays_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    def cancel_and_refuse() -> None:
        touched.cancel()
        raise RecursionError

    with Timers() as timers:
        touched = timers.after(1000, print)
        wait_until(lambda: timers._registry.awaited not in (0, TICK_MAX))  # the thread sleeps
        with monkeypatch.context() as patched:
            patched.setattr(timers, "_wake", cancel_and_refuse)
            with pytest.raises(RecursionError):
                touched.touch(0.001)
        assert touched.cancelled
        assert timers.stop() == []


def test_a_timer_in_a_busy_executor_keeps_its_place_if_its_touch_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise RecursionError

    busy, done = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as executor, Timers(executor=executor) as timers:
        executor.submit(busy.wait, PATIENCE_SECONDS)
        waiting = timers.after(0, done.set)
        wait_until(lambda: waiting._submitted)
        timers.after(1000, print)
        wait_until(lambda: timers._registry.awaited not in (0, TICK_MAX))  # the thread sleeps
        with monkeypatch.context() as patched:
            patched.setattr(timers, "_wake", refuse)
            with pytest.raises(RecursionError):
                waiting.touch(100)
        busy.set()
        assert done.wait(PATIENCE_SECONDS)
