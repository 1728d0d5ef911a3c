"""What a timer costs a program of threads, if it is cancelled in time.

    Timers             after(60, callback).cancel()                    one thread for all
    threading.Timer    Timer(60, callback), then start() and cancel()  a thread for each

A cancelled `threading.Timer` is a thread that has yet to end. They are started in chunks of 100 and waited for after
each; the waiting is not timed.

On several cores the figure of `threading.Timer` depends on where its threads come to run, and differs several times
over from sample to sample. On one core it does not, so both are measured that way too.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Protocol

from bench.lap import Lap, in_chunks
from bench.rigs import Rig
from tickwheel import Timers
from tickwheel.wheels import BINARY

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.subjects import Subject

__all__ = ["ThreadTimerRig", "TimersRig", "start_and_cancel", "start_and_cancel_on_one_core"]

DELAY_SECONDS = 60.0  # nothing comes due while anything is timed
THREADS_MAX = 100  # that are ending at any time
WARM_UP_TIMERS = 10


class CancelRig(Rig, Protocol):
    """A way to run a callback after a delay, from any thread."""

    def hold(self, n: int) -> None:
        """Start n timers and leave them pending."""

    def time_ns(self, times: int) -> int:
        """Start and cancel timers, one after the other, and return how long it took."""

    def calls(self) -> int:
        """Say how many callbacks ran. Asked once: asking counts as one."""


class TimersRig:
    """tickwheel's timers, on a wheel that a thread turns."""

    def __init__(self) -> None:
        self.timers = Timers(geometry=BINARY).start()  # its tick is 1 ms
        self.calls: Callable[[], int] = count().__next__

    def warm_up(self) -> None:  # noqa: D102 - said in Rig and CancelRig, here and below
        self.time_ns(WARM_UP_TIMERS)

    def hold(self, n: int) -> None:  # noqa: D102
        for _ in range(n):
            self.timers.after(DELAY_SECONDS, self.calls)

    def time_ns(self, times: int) -> int:  # noqa: D102
        after, callback = self.timers.after, self.calls
        began_ns = perf_counter_ns()
        for _ in range(times):
            after(DELAY_SECONDS, callback).cancel()
        return perf_counter_ns() - began_ns

    def close(self) -> None:  # noqa: D102
        self.timers.stop()


class ThreadTimerRig:
    """The standard library's timers, each of them a thread."""

    def __init__(self) -> None:
        self.held: list[threading.Timer] = []
        self.calls: Callable[[], int] = count().__next__

    def warm_up(self) -> None:  # noqa: D102
        self.time_ns(WARM_UP_TIMERS)

    def hold(self, n: int) -> None:  # noqa: D102
        self.held = [threading.Timer(DELAY_SECONDS, self.calls) for _ in range(n)]
        for timer in self.held:
            timer.daemon = True
            timer.start()

    def time_ns(self, times: int) -> int:  # noqa: D102
        return sum(self._time_chunk_ns(min(THREADS_MAX, times - first)) for first in range(0, times, THREADS_MAX))

    def _time_chunk_ns(self, times: int) -> int:
        callback, ending = self.calls, []
        began_ns = perf_counter_ns()
        for _ in range(times):
            timer = threading.Timer(DELAY_SECONDS, callback)
            timer.start()
            timer.cancel()
            ending.append(timer)
        took_ns = perf_counter_ns() - began_ns
        for timer in ending:
            timer.join()
        return took_ns

    def close(self) -> None:  # noqa: D102
        for timer in self.held:
            timer.cancel()
        for timer in self.held:
            timer.join()


def start_and_cancel(rig: CancelRig, _subject: Subject, n: int) -> Lap:
    """Start and cancel timers while n are pending."""
    rig.hold(n)
    lap = in_chunks(lambda _, size: rig.time_ns(size))
    if fired := rig.calls():
        message = f"{fired} timers fired, none should have"
        raise AssertionError(message)
    return lap


def start_and_cancel_on_one_core(rig: CancelRig, subject: Subject, n: int) -> Lap:
    """Do the same with all threads of the process on one core; they stay there."""
    core = {min(os.sched_getaffinity(0))}
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # it has just ended
            os.sched_setaffinity(int(thread.name), core)
    return start_and_cancel(rig, subject, n)
