"""`Timers` on a real thread and the real clock. What waits here waits for a signal, not for time."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest

from tickwheel import ManualTimers, Timers, default_timers
from tickwheel.errors import TimersStopped
from tickwheel.timers.registry import BATCH_MAX

PATIENCE_SECONDS = 30  # for what should take no time, on a machine that is busy


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
    assert timers.stop() == [handle]
    assert timers.stop() == []
    assert not timers.running
    for attempt in (timers.start, lambda: timers.after(1, print)):
        with pytest.raises(TimersStopped, match="make a new"):
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
    assert "held up all other timers" in caplog.text
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
    sizes = []
    while due := timers._registry.collect():
        sizes.append(len(due))
    assert sizes == [BATCH_MAX] * 5 + [1]


# -- the process around it


def run(script: str, *, wait: bool = True) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
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


def test_a_million_far_timers_cause_no_wake_ups() -> None:
    script = """
        import glob, re, time
        from tickwheel import Timers

        def switches():
            paths = glob.glob("/proc/self/task/*/status")
            return sum(int(re.search(r"\\nvoluntary_ctxt_switches:\\t(\\d+)", open(path).read())[1]) for path in paths)

        timers = Timers()
        for index in range(1_000_000):
            timers.after(86_400 + index / 100, print)
        time.sleep(0.2)
        before = switches()
        time.sleep(5)
        print(switches() - before)
    """
    assert int(output_of(run(script))) <= 5
