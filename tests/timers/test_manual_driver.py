"""Every verb of a set of timers, on virtual time: exact, ordered, and at once."""

import asyncio
import copy
import gc
import logging
import os
import pickle
import re
import threading
import time
import warnings
import weakref
from contextlib import suppress
from contextvars import ContextVar
from datetime import timedelta
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any
from unittest.mock import MagicMock, Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wheels.schemes import HUGE, Unprintable
from tickwheel import AsyncTimers, ManualTimers, SystemClock, TimerHandle, Timers, VirtualClock
from tickwheel.aio import EventLoop
from tickwheel.durations import to_ns
from tickwheel.errors import (
    DelayOutOfRange,
    DuplicateKey,
    ForeignTimer,
    InvalidClock,
    InvalidDuration,
    InvalidGeometry,
    InvalidOption,
    InvalidSchedule,
    MissingCallback,
    NotCopyable,
    TimerNotFired,
    TimersStopped,
    TooManyTimers,
    Unhashable,
    UnknownOption,
)
from tickwheel.wheels import DEFAULT, GAME, Geometry, HierarchicalWheel

MS = 10**6


class Recorder:
    """Manual timers, and a list of what ran when, in seconds."""

    def __init__(self, **options: Any) -> None:
        self.clock = VirtualClock()
        self.timers = ManualTimers(self.clock, **options)
        self.ran: list[tuple[Any, float]] = []

    def note(self, what: Any) -> None:
        self.ran.append((what, self.clock.monotonic_ns() / 1e9))


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def test_after_runs_once_when_its_time_has_come(recorder: Recorder) -> None:
    handle = recorder.timers.after(1.5, recorder.note, "a")
    assert handle.pending
    assert handle.due_in == 1.5
    recorder.timers.advance("10s")
    assert recorder.ran == [("a", 1.5)]
    assert handle.done
    assert not handle.pending
    assert recorder.clock.monotonic_ns() == 10 * 10**9


@pytest.mark.parametrize("delay", [2, 2.0, "2s", "PT2S", timedelta(seconds=2)])
def test_a_delay_may_be_written_in_any_way(recorder: Recorder, delay: Any) -> None:
    recorder.timers.after(delay, recorder.note, "a")
    recorder.timers.advance(5)
    assert recorder.ran == [("a", 2.0)]


def test_timers_run_by_due_time_and_then_by_order_of_starting(recorder: Recorder) -> None:
    for name, delay in (("c", 2), ("a", 1), ("d", 2), ("b", 1)):
        recorder.timers.after(delay, recorder.note, name)
    recorder.timers.advance(2)
    assert [what for what, _ in recorder.ran] == ["a", "b", "c", "d"]


@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 5)), max_size=30),
    st.sampled_from([DEFAULT, GAME, Geometry([(7 * MS, 10), (70 * MS, 10)])]),
)
def test_no_timer_is_early_and_none_more_than_a_tick_late(steps: list[tuple[float, float]], geometry: Geometry) -> None:
    clock = VirtualClock()
    timers = ManualTimers(clock, geometry=geometry)
    lateness_ns: list[int] = []

    def note(deadline_ns: int) -> None:
        lateness_ns.append(clock.monotonic_ns() - deadline_ns)

    for delay, pause in steps:
        timers.after(delay, note, timers.now_ns() + to_ns(delay))
        timers.advance(pause)
    timers.advance(200)
    assert len(lateness_ns) == len(steps)
    assert all(0 <= late <= geometry.tick_ns for late in lateness_ns)


# -- coming again


def test_every_keeps_to_its_grid_without_drift(recorder: Recorder) -> None:
    def slow() -> None:
        recorder.note("run")
        recorder.clock.advance(0.3)

    recorder.timers.every(1, slow, times=4)
    recorder.timers.advance(10)
    assert [when for _, when in recorder.ran] == [1.0, 2.0, 3.0, 4.0]


def test_every_with_fixed_delay_waits_after_each_run(recorder: Recorder) -> None:
    def slow() -> None:
        recorder.note("run")
        recorder.clock.advance(0.25)

    recorder.timers.every(1, slow, times=3, mode="delay")
    recorder.timers.advance(10)
    assert [when for _, when in recorder.ran] == [1.0, 2.25, 3.5]


def test_every_goes_on_for_ever_unless_told(recorder: Recorder) -> None:
    handle = recorder.timers.every("1m", recorder.note, "run")
    recorder.timers.advance("1d")
    assert handle.count == len(recorder.ran) == 24 * 60
    assert handle.pending


def test_a_held_up_timer_runs_once_and_counts_what_it_missed(recorder: Recorder) -> None:
    handle = recorder.timers.every(1, recorder.note, "run")
    recorder.clock.advance(1000.5)
    recorder.timers.run_due()
    assert len(recorder.ran) == 1
    assert handle.missed == 999
    recorder.timers.advance(1)
    assert recorder.ran[-1] == ("run", 1001.0), "still on the grid"


def test_phase_puts_all_on_one_grid_whenever_they_were_started(recorder: Recorder) -> None:
    recorder.timers.advance(3.7)
    recorder.timers.every(10, recorder.note, "a", phase=2, times=2)
    recorder.timers.advance(4)
    recorder.timers.every(10, recorder.note, "b", phase=2, times=1)
    recorder.timers.advance(30)
    assert recorder.ran == [("a", 12.0), ("b", 12.0), ("a", 22.0)]


def test_jitter_spreads_timers_started_together() -> None:
    recorder = Recorder(rng=Random(1))
    for number in range(100):
        recorder.timers.every(60, recorder.note, number, jitter=30, times=2)
    recorder.timers.advance(200)
    first = dict(reversed(recorder.ran))
    assert len({round(when) for when in first.values()}) > 20
    assert all(60 <= when <= 90.001 for when in first.values())
    later = dict(recorder.ran)
    assert all(abs(later[number] - first[number] - 60) <= 0.001 for number in first), "each keeps its own grid"


@pytest.mark.parametrize("bad", [{"times": 0}, {"times": -2}, {"times": 1.0}, {"times": True}, {"mode": "sometimes"}])
def test_an_impossible_repetition_is_refused(recorder: Recorder, bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchedule):
        recorder.timers.every(1, print, **bad)
    with pytest.raises(InvalidSchedule, match="would never let anything else run"):
        recorder.timers.every(0, print)
    with pytest.raises(InvalidSchedule, match="mode is 'rate' or 'delay'"):
        recorder.timers.every(1, print, mode=np.array([1, 2]))  # type: ignore[arg-type]
    with pytest.raises(InvalidDuration, match=r"^jitter: "):
        recorder.timers.every(1, print, jitter=-1)
    with pytest.raises(InvalidSchedule, match=r"an interval of '0[0 ]*\.\.\. would"):
        recorder.timers.every("0" * 150 + "s", print)
    assert len(recorder.timers) == 0


# -- cancelling, touching, asking


def test_cancel_by_handle_and_by_key(recorder: Recorder) -> None:
    by_handle = recorder.timers.after(1, recorder.note, "a")
    recorder.timers.after(1, recorder.note, "b", key="b")
    assert recorder.timers.cancel(by_handle)
    assert recorder.timers.cancel("b")
    assert not recorder.timers.cancel("b")
    assert not by_handle.cancel()
    assert by_handle.cancelled
    recorder.timers.advance(5)
    assert recorder.ran == []


def test_cancel_after_the_run_says_too_late(recorder: Recorder) -> None:
    handle = recorder.timers.after(1, recorder.note, "a")
    recorder.timers.advance(1)
    assert not handle.cancel()


def test_a_timer_of_another_set_is_unknown(recorder: Recorder) -> None:
    other = Recorder()
    handle = other.timers.after(1, other.note, "a")
    assert not recorder.timers.cancel(handle)
    assert not recorder.timers.touch(handle)
    assert handle.pending


def test_touch_lets_a_timer_wait_anew(recorder: Recorder) -> None:
    handle = recorder.timers.after(10, recorder.note, "idle", key="connection")
    recorder.timers.advance(9)
    assert recorder.timers.touch("connection")
    recorder.timers.advance(9)
    assert handle.touch(2)
    recorder.timers.advance(60)
    assert recorder.ran == [("idle", 20.0)]


def test_a_timer_that_is_over_cannot_be_touched_and_holds_nothing(recorder: Recorder) -> None:
    done = recorder.timers.after(1, recorder.note, "a", key="k", group="g")
    recorder.timers.advance(1)
    cancelled = recorder.timers.every(1, recorder.note, "b", key="k")
    cancelled.cancel()
    for handle in (done, cancelled):
        assert not handle.touch(1)
        assert not recorder.timers.touch(handle)
        assert (handle.callback, handle.args, handle.key, handle.group) == (None, (), None, None)
    recorder.timers.advance(10)
    assert recorder.ran == [("a", 1.0)]
    assert (done.done, done.cancelled, done.count) == (True, False, 1)
    assert (cancelled.done, cancelled.cancelled) == (False, True)


def test_touched_when_it_is_due_a_timer_runs_once_at_the_new_deadline(recorder: Recorder) -> None:
    # Two timers of one tick: the first touches the second, which is collected already.
    recorder.timers.after(1, recorder.timers.touch, "second")
    recorder.timers.after(1, recorder.note, "second", key="second")
    third = recorder.timers.every(1, recorder.note, "third")
    recorder.timers.after(1, lambda: third.touch(5))
    third.touch(1)  # behind the one that touches it
    recorder.timers.advance(20)
    assert [(what, when) for what, when in recorder.ran if what == "second"] == [("second", 2.0)]
    assert [when for what, when in recorder.ran if what == "third"][:3] == [6.0, 7.0, 8.0]


def test_a_key_is_unique_unless_it_is_to_replace(recorder: Recorder) -> None:
    first = recorder.timers.after(1, recorder.note, "first", key="k")
    with pytest.raises(DuplicateKey, match="key 'k' is pending; cancel or touch it, pass replace=True"):
        recorder.timers.after(2, recorder.note, "second", key="k")
    third = recorder.timers.after(3, recorder.note, "third", key="k", replace=True)
    assert first.cancelled
    assert recorder.timers.get("k") is third
    recorder.timers.advance(5)
    assert recorder.ran == [("third", 3.0)]
    assert recorder.timers.get("k") is None


def test_a_group_is_cancelled_at_once(recorder: Recorder) -> None:
    for number in range(5):
        recorder.timers.after(1, recorder.note, number, group="player 1" if number % 2 else "player 2")
    assert recorder.timers.cancel_group("player 1") == 2
    assert recorder.timers.cancel_group("player 1") == 0
    recorder.timers.advance(1)
    assert [what for what, _ in recorder.ran] == [0, 2, 4]


def test_the_sets_own_job_runs_with_the_key_and_a_timers_own_wins() -> None:
    ran: list[Any] = []
    timers = ManualTimers(job=ran.append)
    timers.after(1, key="k")
    timers.after(2, ran.append, "own", key="l")
    timers.advance(2)
    assert ran == ["k", "own"]


def test_a_timer_with_nothing_to_run_is_refused(recorder: Recorder) -> None:
    with pytest.raises(MissingCallback, match="job="):
        recorder.timers.after(1, key="k")
    with pytest.raises(MissingCallback, match="cannot be called"):
        recorder.timers.after(1, "not a function")  # type: ignore[arg-type]
    assert recorder.timers.get("k") is None


def test_bad_delays_change_nothing(recorder: Recorder) -> None:
    for delay in (-1, "soon", float("nan"), None, True):
        with pytest.raises(InvalidDuration):
            recorder.timers.after(delay, recorder.note, key="k")  # type: ignore[arg-type]
    assert len(recorder.timers) == 0
    assert recorder.timers.get("k") is None


def test_more_timers_than_allowed_are_refused() -> None:
    timers = ManualTimers(pending_max=2)
    first = timers.after(1, print)
    timers.after(1, print)
    with pytest.raises(TooManyTimers, match="2 timers are pending"):
        timers.after(1, print)
    first.cancel()
    timers.after(1, print)


def test_a_timer_is_got_by_its_handle_as_by_its_key_while_it_is_not_over() -> None:
    timers, others = ManualTimers(), ManualTimers()
    seen: list[Any] = []
    once = timers.after(1, print)
    often: TimerHandle = timers.every(1, lambda: seen.append(timers.get(often)), key="k")
    assert (timers.get(once), timers.get(often), timers.get("k")) == (once, often, often)
    assert others.get(once) is None
    once.cancel()
    timers.advance(1)
    assert (timers.get(once), seen) == (None, [often])


def test_an_unknown_option_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UnknownOption, match="did you mean 'on_error'"):
        ManualTimers(on_errors=print)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="there is no option 'colour'; there are clock, geometry"):
        ManualTimers(colour="red")  # type: ignore[call-arg]


# -- from inside callbacks


def test_a_raising_callback_harms_no_other(recorder: Recorder, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ValueError("broken")

    recorder.timers.after(1, fail)
    recorder.timers.after(1, recorder.note, "after it")
    again = recorder.timers.every(1, fail)
    recorder.timers.advance(3)
    assert recorder.ran == [("after it", 1.0)]
    assert again.count == 3
    assert len(caplog.records) == 4
    assert "fail" in caplog.text
    assert "ValueError: broken" in caplog.text


def test_on_error_is_told_what_was_raised() -> None:
    told: list[tuple[TimerHandle, BaseException]] = []
    timers = ManualTimers(on_error=lambda handle, error: told.append((handle, error)))
    handle = timers.after(1, lambda: 1 / 0)
    timers.advance(1)
    ((who, what),) = told
    assert who is handle
    assert isinstance(what, ZeroDivisionError)


def test_callbacks_may_start_stop_and_touch_timers(recorder: Recorder) -> None:
    victim = recorder.timers.after(1, recorder.note, "victim")

    def meddle() -> None:
        recorder.note("meddle")
        assert victim.cancel(), "due in the same tick, but not yet run"
        recorder.timers.after(0, recorder.note, "at once")
        assert not me.touch(1), "its last run has begun"

    victim.touch(1)
    me = recorder.timers.after(1, meddle)
    victim.touch(1)  # behind the meddler
    recorder.timers.advance(1.5)
    assert recorder.ran == [("meddle", 1.0), ("at once", 1.001)]


def test_a_periodic_timer_may_cancel_itself(recorder: Recorder) -> None:
    def once() -> None:
        recorder.note("run")
        assert handle.cancel()

    handle = recorder.timers.every(1, once)
    recorder.timers.advance(5)
    assert recorder.ran == [("run", 1.0)]
    assert len(recorder.timers) == 0


# -- time of its own


def test_pause_keeps_what_is_left(recorder: Recorder) -> None:
    recorder.timers.after(10, recorder.note, "buff is over")
    recorder.timers.advance(4)
    recorder.timers.pause()
    recorder.timers.advance(100)
    assert recorder.timers.paused
    assert recorder.ran == []
    recorder.timers.resume()
    recorder.timers.advance(6)
    assert recorder.ran == [("buff is over", 110.0)]


def test_speed_makes_time_go_faster_and_slower(recorder: Recorder) -> None:
    recorder.timers.after(10, recorder.note, "a")
    recorder.timers.after(30, recorder.note, "b")
    recorder.timers.speed = 2
    recorder.timers.advance(5)
    recorder.timers.speed = 0.5
    recorder.timers.advance(40)
    assert recorder.ran == [("a", 5.0), ("b", 45.0)]


@pytest.mark.parametrize("speed", [0, -1, 1e6, float("nan"), "x", None, True, 10**400, np.float64(0)])
def test_an_impossible_speed_is_refused(recorder: Recorder, speed: Any) -> None:
    with pytest.raises(InvalidSchedule, match="to stop time, pause"):
        recorder.timers.speed = speed
    assert recorder.timers.speed == 1.0


def test_a_speed_may_be_a_number_of_numpy(recorder: Recorder) -> None:
    recorder.timers.speed = np.float64(2)
    assert type(recorder.timers.speed) is float
    recorder.timers.after(2, recorder.note, "a")
    recorder.timers.advance(1)
    assert recorder.ran == [("a", 1.0)]


def test_a_year_of_a_million_runs_takes_no_time(recorder: Recorder) -> None:
    handle = recorder.timers.every("1h", lambda: None)
    recorder.timers.advance("365d")
    assert handle.count == 365 * 24


def test_a_callback_that_moves_the_clock_beyond_an_advance_holds_up_no_timer_of_it(
    recorder: Recorder,
) -> None:
    recorder.timers.after(0.5, recorder.clock.advance, 10)
    recorder.timers.after(0.8, recorder.note, "within the advance")
    recorder.timers.advance(1)
    assert recorder.ran == [("within the advance", 10.5)]
    assert recorder.clock.monotonic() == 10.5


def test_callbacks_that_take_longer_than_their_interval_do_not_keep_an_advance_from_ending(recorder: Recorder) -> None:
    handle = recorder.timers.every(1, recorder.clock.advance, 2)
    recorder.timers.advance(10)
    assert handle.count == 6  # at 1, 3, 5, 7 and 9 s, and at 11 s for what was due at 10 s
    assert recorder.clock.monotonic() == 13


@pytest.mark.parametrize("speed", [0.5, 3])
def test_at_any_speed_what_was_due_within_an_advance_runs(recorder: Recorder, speed: float) -> None:
    recorder.timers.speed = speed
    recorder.timers.after(0.5 * speed, recorder.clock.advance, 10)
    recorder.timers.after(1 * speed, recorder.note, "at its end")
    recorder.timers.advance(1)
    assert [what for what, _ in recorder.ran] == ["at its end"]


def test_advance_to_next_jumps_over_emptiness(recorder: Recorder) -> None:
    recorder.timers.after("30d", recorder.note, "order cancelled")
    assert recorder.timers.advance_to_next()
    assert recorder.ran == [("order cancelled", 30 * 86_400.0)]
    assert not recorder.timers.advance_to_next()


# -- stopping


def test_stop_hands_back_what_is_left_by_due_time(recorder: Recorder) -> None:
    late = recorder.timers.after(2, recorder.note, "late")
    early = recorder.timers.after(1, recorder.note, "early", key="k")
    assert recorder.timers.running
    left = recorder.timers.stop()
    assert [(timer.handle, timer.args, timer.key, timer.due_in) for timer in left] == [
        (early, ("early",), "k", 1.0),
        (late, ("late",), None, 2.0),
    ]
    assert [timer.callback for timer in left] == [recorder.note] * 2
    assert recorder.timers.stop() == []
    assert not recorder.timers.running
    assert early.cancelled
    assert (len(recorder.timers), recorder.timers.get("k")) == (0, None)
    for attempt in (recorder.timers.after, recorder.timers.every):
        with pytest.raises(TimersStopped, match="make new ones"):
            attempt(1, recorder.note)
    recorder.timers.advance(10)
    assert recorder.ran == []


def test_leaving_the_block_stops() -> None:
    with ManualTimers() as timers:
        handle = timers.after(1, print)
    assert handle.cancelled


def test_a_set_that_is_dropped_lets_go_of_what_was_pending() -> None:
    class Order:
        def expire(self) -> None:
            pass

    timers = ManualTimers()
    order = Order()
    handle = timers.after("30m", order.expire)
    timers.every("1m", order.expire)
    gone = weakref.ref(order)
    del order, timers
    assert handle.cancelled
    del handle
    assert gone() is None


# -- clocks and interrupts


class HookedClock(VirtualClock):
    """A clock that lets a test in at its n-th reading."""

    __slots__ = ("hook", "readings_left")

    def __init__(self) -> None:
        super().__init__()
        self.hook: Any = None
        self.readings_left = 0

    def monotonic_ns(self) -> int:
        if self.hook is not None:
            self.readings_left -= 1
            if self.readings_left == 0:
                hook, self.hook = self.hook, None
                hook()
        return super().monotonic_ns()


@pytest.mark.parametrize("reading", range(1, 6))
@pytest.mark.parametrize("verb", ["touch", "cancel"])
def test_a_verb_of_another_thread_while_the_clock_is_read_breaks_nothing(verb: str, reading: int) -> None:
    clock = HookedClock()
    timers = ManualTimers(clock)
    ran: list[str] = []
    said: list[bool] = []
    handle = timers.after(1, ran.append, "first")
    timers.after(1, ran.append, "second")

    def meddle() -> None:
        thread = threading.Thread(target=lambda: said.append(getattr(handle, verb)()))
        thread.start()
        thread.join(0.2)  # with a lock it waits for the run to begin

    clock.advance(1)
    clock.hook, clock.readings_left = meddle, reading
    timers.run_due()
    clock.hook = None
    timers.advance(10)
    assert ran.count("second") == 1
    for _ in range(1000):
        if said:
            break
        time.sleep(0.01)
    if said == [True] and verb == "cancel":
        assert ran.count("first") == 0
    else:
        assert ran.count("first") == 1
    assert timers._registry.due_ring.count == 0
    assert timers._registry.running_ring.count == 0


@pytest.mark.parametrize("reading", range(1, 4))
@pytest.mark.parametrize("change", ["slower", "faster", "pause", "resume"])
def test_a_timer_started_while_time_is_changed_is_not_early(change: str, reading: int) -> None:
    clock = HookedClock()
    timers = ManualTimers(clock)
    timers.speed = 1000 if change == "slower" else 1
    clock.advance(10)
    if change == "resume":
        timers.pause()
        clock.advance(10)
    started: list[TimerHandle] = []

    def start() -> None:  # as another thread would that runs while the clock is read
        started.append(timers.after(2, int))

    before_ns = timers.now_ns()
    clock.hook, clock.readings_left = start, reading
    change_time(timers, change)
    clock.hook = None
    assert timers.now_ns() == before_ns
    assert [handle.due_in for handle in started] == [2.0] * len(started)


@pytest.mark.parametrize("change", ["slower", "faster", "pause", "resume"])
def test_a_timer_is_not_early_if_time_is_changed_while_it_is_started(change: str) -> None:
    class Clock(HookedClock):
        def monotonic_ns(self) -> int:
            now_ns = VirtualClock.monotonic_ns(self)
            HookedClock.monotonic_ns(self)
            return now_ns  # of before the hook

    clock = Clock()
    timers = ManualTimers(clock)
    timers.speed = 1000 if change == "slower" else 1
    clock.advance(10)
    if change == "resume":
        timers.pause()

    def meddle() -> None:
        clock.advance(1)
        change_time(timers, change)
        clock.advance(1)

    before_ns = timers.now_ns()
    clock.hook, clock.readings_left = meddle, 1
    handle = timers.after(2, int)
    assert handle._deadline_ns >= before_ns + to_ns(2)


def change_time(timers: ManualTimers, change: str) -> None:
    if change in {"pause", "resume"}:
        getattr(timers, change)()
    else:
        timers.speed = 1 if change == "slower" else 1000


@pytest.mark.parametrize("reading", range(1, 8))
@pytest.mark.parametrize("mode", ["rate", "delay"])
def test_a_periodic_timer_outlives_a_clock_that_fails_once(mode: Any, reading: int) -> None:
    clock = HookedClock()
    timers = ManualTimers(clock)
    handle = timers.every(1, lambda: None, mode=mode)

    def fail() -> None:
        raise KeyboardInterrupt

    clock.advance(1)
    clock.hook, clock.readings_left = fail, reading
    with suppress(KeyboardInterrupt):
        timers.run_due()
    clock.hook = None
    timers.advance(10)
    assert handle.pending
    assert handle.count >= 9


def test_advance_to_next_runs_what_an_interrupt_left(recorder: Recorder) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    recorder.timers.after(1, interrupt)
    recorder.timers.after(1, recorder.note, "second")
    recorder.timers.after(3600, recorder.note, "third")
    with pytest.raises(KeyboardInterrupt):
        recorder.timers.advance(1)
    assert recorder.timers.advance_to_next()
    assert recorder.ran == [("second", 1.0)]
    assert recorder.timers.advance_to_next()
    assert recorder.ran[1:] == [("third", 3600.0)]


def test_a_deadline_beyond_the_last_tick_is_refused() -> None:
    timers = ManualTimers(geometry=Geometry([(1, 64), (64, 64)]))  # ticks of a nanosecond: 146 years
    handle = timers.after("1d", print)
    for attempt in (lambda: timers.after("73000d", print), lambda: handle.touch("73000d")):
        with pytest.raises(DelayOutOfRange):
            attempt()
    assert len(timers) == 1
    assert handle.due_in == 86_400


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("geometry", 5),
        ("clock", 5),
        ("clock", []),
        ("job", 5),
        ("on_error", "log"),
        ("pending_max", "x"),
        ("pending_max", True),
        ("pending_max", 0),
        ("rng", -1),
    ],
)
def test_an_option_that_cannot_work_is_refused(name: str, value: Any) -> None:
    options: Any = {name: value}
    with pytest.raises(InvalidOption, match=name):
        ManualTimers(**options)


def test_a_callback_that_cannot_be_described_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    class Key:
        def __repr__(self) -> str:
            raise ValueError("no repr")

    timers = ManualTimers()
    handle = timers.every(1, lambda: 1 / 0, key=Key(), times=2)
    timers.advance(5)
    assert handle.done
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("end", ["cancel", "run", "stop"])
def test_a_destructor_finds_the_handle_in_order(end: str) -> None:
    seen: list[Any] = []

    class Argument:
        def __call__(self, *_: Any) -> None:
            pass

        def __hash__(self) -> int:
            return 1

        def __del__(self) -> None:
            handle = handles[0]
            seen.append((handle.callback, handle.args, handle.key, handle.group, repr(handle)))

    timers = ManualTimers()
    handles = [timers.after(1, Argument(), Argument(), key=Argument(), group=Argument())]
    if end == "cancel":
        handles[0].cancel()
    elif end == "run":
        timers.advance(1)
    else:
        timers.stop()
    state = "done" if end == "run" else "cancelled"
    assert seen == [(None, (), None, None, f"<TimerHandle {state}>")] * 4


def test_a_key_that_cannot_be_hashed_any_more_keeps_no_timer_from_running() -> None:
    class Key:
        broken = False

        def __hash__(self) -> int:
            if self.broken:
                raise ValueError("no hash")
            return 1

    timers = ManualTimers()
    ran: list[str] = []
    key, group = Key(), Key()
    timers.after(1, ran.append, "keyed", key=key)
    timers.after(1, ran.append, "grouped", group=group)
    cancelled = timers.after(2, ran.append, "cancelled", key=group)
    timers.after(1, ran.append, "other")
    key.broken = group.broken = True
    assert cancelled.cancel()
    timers.advance(5)
    assert ran == ["keyed", "grouped", "other"]
    key.broken = group.broken = False
    assert (timers.get(key), timers.cancel(group), timers.cancel_group(group)) == (None, False, 0)
    timers.after(1, ran.append, "again", key=key)
    timers.advance(1)
    assert ran[-1] == "again"


class Interrupting:
    """A key whose hash is interrupted once, as by Ctrl-C, when it is armed."""

    armed = False

    def __hash__(self) -> int:
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt
        return 1


@pytest.mark.parametrize("listed", ["key", "group"])
def test_a_timer_whose_key_is_interrupted_when_it_begins_is_still_due(recorder: Recorder, listed: str) -> None:
    name = Interrupting()
    options: dict[str, Any] = {listed: name}
    handle = recorder.timers.after(1, recorder.note, "first", **options)
    recorder.timers.after(1, recorder.note, "second")
    name.armed = True
    with pytest.raises(KeyboardInterrupt):
        recorder.timers.advance(1)
    assert (handle.done, handle.cancelled, handle.count) == (False, False, 0)
    recorder.timers.run_due()
    recorder.timers.advance(10)
    assert recorder.ran == [("first", 1.0), ("second", 1.0)]
    assert handle.done


@pytest.mark.parametrize("listed", ["key", "group"])
def test_a_cancel_whose_key_is_interrupted_is_complete(recorder: Recorder, listed: str) -> None:
    name = Interrupting()
    options: dict[str, Any] = {listed: name}
    handle = recorder.timers.after(1, recorder.note, "never", **options)
    name.armed = True
    with pytest.raises(KeyboardInterrupt):
        handle.cancel()
    assert (handle.cancelled, handle.callback, len(recorder.timers)) == (True, None, 0)
    recorder.timers.after(1, recorder.note, "new", **options)
    recorder.timers.advance(5)
    assert recorder.ran == [("new", 1.0)]


class Meddling:
    """A key or group whose hash runs code of the test once, at the n-th time from when it is armed."""

    def __init__(self) -> None:
        self.left = 0
        self.act: Any = None

    def arm(self, nth: int, act: Any) -> None:
        self.left, self.act = nth, act

    def __hash__(self) -> int:
        self.left -= 1
        if self.left == 0:
            self.act()
        return 1


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("listed", ["key", "group"])
@pytest.mark.parametrize("verb", ["cancel", "touch", "stop", "again"])
def test_a_timer_that_its_key_ends_or_moves_when_it_begins_runs_as_was_said(verb: str, listed: str, nth: int) -> None:
    timers, name = ManualTimers(), Meddling()
    ran: list[str] = []
    said: list[Any] = []
    options: dict[str, Any] = {listed: name}
    handle = timers.after(1, ran.append, "timer", **options)
    verbs: dict[str, Any] = {
        "cancel": handle.cancel,
        "touch": lambda: handle.touch(5),
        "stop": timers.stop,
        "again": lambda: timers.after(2, ran.append, "again", **options),
    }
    name.arm(nth, lambda: said.append(verbs[verb]()))
    timers.advance(1)
    name.left = 0
    assert ran == ([] if verb in {"cancel", "touch"} and said == [True] else ["timer"])
    if verb == "stop" and said:
        assert (said, len(timers)) == ([[]], 0)
        return
    if verb == "again" and said:
        assert (timers.get(name), timers.cancel_group(name)) == ((said[0], 0) if listed == "key" else (None, 1))
    another = timers.after(20, ran.append, "another")
    timers.advance(30)
    assert another.done
    assert ran.count("timer") == (0 if verb == "cancel" and said == [True] else 1)
    assert (len(timers), timers.stats.pending, timers.stop()) == (0, 0, [])


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("verb", ["advance", "cancel", "again"])
def test_a_cancelled_timer_whose_key_runs_code_is_over_before_that(verb: str, nth: int) -> None:
    timers, key = ManualTimers(), Meddling()
    ran: list[str] = []
    said: list[Any] = []
    handle = timers.after(1, ran.append, "timer", key=key)
    verbs: dict[str, Any] = {
        "advance": lambda: timers.advance(1),
        "cancel": handle.cancel,
        "again": lambda: timers.after(2, ran.append, "again", key=key),
    }
    key.arm(nth, lambda: said.append(verbs[verb]()))
    assert handle.cancel()
    key.left = 0
    assert (ran, handle.cancelled) == ([], True)
    assert said in ([], [False] if verb == "cancel" else [timers.get(key)])
    timers.advance(5)
    assert ran == (["again"] if verb == "again" and said else [])


@pytest.mark.parametrize("nth", [1, 2, 3, 4])
@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("present", [False, True])
def test_a_key_stays_unique_if_its_hash_starts_a_timer(present: bool, inner: bool, outer: bool, nth: int) -> None:
    timers, key = ManualTimers(), Meddling()
    if present:
        timers.after(1, int, key=key)

    def start() -> None:
        with suppress(DuplicateKey):
            timers.after(1, int, key=key, replace=inner)

    key.arm(nth, start)
    with suppress(DuplicateKey):
        timers.after(1, int, key=key, replace=outer)
    key.left = 0
    assert len(timers) == 1
    assert timers.cancel(key)
    assert (len(timers), timers.get(key)) == (0, None)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_group_keeps_its_timers_if_its_hash_raises_when_another_is_started(error: type[BaseException]) -> None:
    timers, group = ManualTimers(), Meddling()
    for _ in range(3):
        timers.after(1, int, group=group)

    def fail() -> None:
        raise error

    group.arm(1, fail)
    with pytest.raises(error):
        timers.after(1, int, group=group)
    assert (len(timers), timers.cancel_group(group), len(timers)) == (3, 3, 0)


def test_a_group_is_cancelled_also_if_its_hash_starts_a_timer_when_the_last_one_ends() -> None:
    timers, group = ManualTimers(), Meddling()
    first = timers.after(1, int, group=group)
    group.arm(2, lambda: timers.after(2, int, group=group))
    assert first.cancel()
    assert (len(timers), timers.cancel_group(group), len(timers)) == (1, 1, 0)


def test_a_timer_of_a_group_that_the_key_of_another_runs_is_not_counted_as_cancelled() -> None:
    timers, key = ManualTimers(), Meddling()
    ran: list[str] = []
    timers.after(5, ran.append, "never", key=key, group="g")
    timers.after(1, ran.append, "by the key", group="g")
    key.arm(1, lambda: timers.advance(1))
    assert (timers.cancel_group("g"), ran, len(timers)) == (1, ["by the key"], 0)


@pytest.mark.parametrize("listed", ["key", "group"])
def test_a_timer_that_ends_while_it_is_listed_is_not_listed(listed: str) -> None:
    timers, name = ManualTimers(), Meddling()
    ran: list[str] = []
    options: dict[str, Any] = {listed: name}
    name.arm(2, lambda: timers.advance(1))
    handle = timers.after(1, ran.append, "at once", **options)
    name.left = 0
    assert (handle.done, ran, timers.get(name), timers.cancel_group(name)) == (True, ["at once"], None, 0)
    assert (timers._registry.by_key, timers._registry.by_group) == ({}, {})


@pytest.mark.parametrize("key", [None, "key"])
def test_a_timer_interrupted_before_its_callback_is_called_is_due_again(key: str | None) -> None:
    class Clock(VirtualClock):
        failing = 0

        def monotonic_ns(self) -> int:
            if self.failing:
                self.failing -= 1
                if self.failing == 0:
                    raise KeyboardInterrupt
            return super().monotonic_ns()

    ran: list[Any] = []
    for reading in range(1, 7):
        clock = Clock()
        timers = ManualTimers(clock)
        once = timers.after(1, ran.append, reading, key=key)
        often = timers.every(1, ran.append, -reading)
        clock.advance(1)
        clock.failing = reading
        try:
            timers.run_due()
        except KeyboardInterrupt:
            timers.run_due()
        assert sorted(ran) == [-reading, reading]
        assert (once.done, once.count, often.count, timers.get(key)) == (True, 1, 1, None)
        ran.clear()


def test_a_replacement_that_is_refused_leaves_the_timer_it_would_have_replaced() -> None:
    timers = ManualTimers(geometry=Geometry([(1, 64), (64, 64)]))  # ticks of a nanosecond: 146 years
    ran: list[str] = []
    old = timers.after(10, ran.append, "old", key="k", group="g")
    with pytest.raises(DelayOutOfRange):
        timers.after("73000d", ran.append, "new", key="k", group="g", replace=True)
    assert timers.get("k") is old
    assert len(timers) == 1
    timers.advance(10)
    assert ran == ["old"]
    assert timers.cancel_group("g") == 0


def test_a_touch_that_is_refused_while_the_timer_runs_leaves_it_on_its_grid() -> None:
    timers = ManualTimers(geometry=Geometry([(1, 64), (64, 64)]))
    refused: list[DelayOutOfRange] = []

    def touch() -> None:
        try:
            handle.touch("73000d")
        except DelayOutOfRange as error:
            refused.append(error)

    handle = timers.every(1, touch)
    timers.advance(3)
    assert len(refused) == handle.count == 3
    assert handle.pending


def test_a_handle_that_is_due_is_stopped_by_its_own_timers_only(recorder: Recorder) -> None:
    wheel = HierarchicalWheel()
    refused: list[ForeignTimer] = []

    def stop() -> None:
        for attempt in (lambda: wheel.stop(due), lambda: wheel.stop_many([due]), lambda: wheel.restart(due, 1)):
            with pytest.raises(ForeignTimer) as caught:
                attempt()
            refused.append(caught.value)

    recorder.timers.after(1, stop)
    due = recorder.timers.after(1, recorder.note, "due")
    recorder.timers.after(1, recorder.note, "last")
    recorder.timers.advance(1)
    assert len(refused) == 3
    assert recorder.ran == [("due", 1.0), ("last", 1.0)]


@pytest.mark.parametrize("kind", [ManualTimers, Timers])
def test_timers_are_closed_without_a_word_if_the_collector_has_closed_their_wheel(kind: Any) -> None:
    timers = kind()
    handle = timers.after(3600, print)
    timers._registry.wheel.close()  # as it does when it finds a cycle, and begins with the wheel
    assert (timers.stop(), handle.pending) == ([], False)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("kind", [ManualTimers, Timers, EventLoop])
def test_timers_and_loops_refuse_to_be_copied(kind: Any, duplicate: Any) -> None:
    timers = kind()
    with pytest.raises(NotCopyable):
        duplicate(timers)
    gc.collect()  # what a copy had shared would be stopped by now
    if kind is EventLoop:
        assert timers.run_until_complete(asyncio.sleep(0, "runs")) == "runs"
        timers.close()
    else:
        assert timers.after(3600, print).pending
        assert len(timers.stop()) == 1


def test_a_timer_that_cancels_itself_is_named_in_messages(caplog: pytest.LogCaptureFixture) -> None:
    timers = ManualTimers()

    def poll_orders() -> None:
        handle.cancel()
        raise ValueError

    handle = timers.every(1, poll_orders, key="orders")
    timers.advance(1)
    assert "poll_orders key='orders' raised" in caplog.text


def test_values_that_cannot_be_printed_are_refused_all_the_same(recorder: Recorder) -> None:
    for bad in (Unprintable(), HUGE):
        for attempt in (
            lambda bad=bad: recorder.timers.every(1, print, times=-bad if bad is HUGE else bad),
            lambda bad=bad: recorder.timers.every(1, print, mode=bad),
            lambda bad=bad: setattr(recorder.timers, "speed", bad),
        ):
            with pytest.raises(InvalidSchedule):
                attempt()


@pytest.mark.parametrize("bad", [0.5, float("nan"), "2024-01-01", None, True])
def test_a_virtual_clock_takes_whole_nanoseconds_only(bad: Any) -> None:
    with pytest.raises(InvalidOption, match="wall_ns must be a whole number of nanoseconds"):
        VirtualClock(bad)
    clock = VirtualClock(0)
    for move in (clock.step_wall, clock.advance_ns):
        with pytest.raises(InvalidOption, match="ns must be a whole number of nanoseconds"):
            move(bad)
    assert (clock.time_ns(), clock.monotonic_ns()) == (0, 0)


def test_time_does_not_go_back() -> None:
    clock = VirtualClock()
    for bad in (-1, 0.5, "1s"):
        with pytest.raises(InvalidOption):
            clock.advance_ns(bad)  # type: ignore[arg-type]
    assert clock.monotonic_ns() == 0


def test_a_forked_child_begins_without_the_manual_timers_of_its_parent() -> None:
    timers = ManualTimers()
    timers.after(1, print, key="parent")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of just what is tried here
        child = os.fork()
    if child == 0:
        os._exit(0 if (len(timers), timers.get("parent")) == (0, None) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(timers) == 1


def test_stop_hands_back_a_timer_that_runs_after_those_that_wait_for_the_same_moment() -> None:
    timers = ManualTimers()
    left: list[str] = []

    def tick() -> None:
        if handle.count == 1:
            timers.after(2, print, key="waits")
        else:
            left.extend(str(each.key) for each in timers.stop())

    handle = timers.every(1, tick, key="runs")  # at 1 s it starts one for 3 s, when it would come itself
    timers.advance(5)
    assert left == ["waits", "runs"]


def test_a_timer_that_replaces_another_needs_no_room(recorder: Recorder) -> None:
    timers = ManualTimers(recorder.clock, pending_max=2)
    timers.after(1, recorder.note, "old", key="k")
    timers.after(1, recorder.note, "other")
    timers.after(1, recorder.note, "new", key="k", replace=True)
    with pytest.raises(TooManyTimers):
        timers.after(1, recorder.note, "free key", key="free", replace=True)
    timers.advance(1)
    assert [what for what, _ in recorder.ran] == ["other", "new"]


def test_a_periodic_timer_that_runs_is_counted_and_handed_back() -> None:
    timers = ManualTimers(pending_max=1)
    counted: list[int] = []

    def run() -> None:
        counted.append(len(timers))
        with pytest.raises(TooManyTimers):
            timers.after(1, print)
        counted.append(len(timers.stop()))

    timers.every(1, run)
    timers.advance(1)
    assert counted == [1, 1]


def test_what_is_due_and_has_not_begun_is_counted_and_handed_back() -> None:
    timers = ManualTimers(pending_max=3)
    counted: list[int] = []

    def run() -> None:
        counted.append(len(timers))
        timers.after(1, print)  # in the place of this one
        with pytest.raises(TooManyTimers):
            timers.after(1, print)
        counted.append(len(timers.stop()))

    for _ in range(3):
        timers.after(1, run)
    timers.advance(1)
    assert counted == [2, 3]


@pytest.mark.parametrize("replace", [1, 0, None, "yes", [], object()])
def test_replace_is_true_or_false(replace: Any) -> None:
    timers = ManualTimers()
    timers.after(1, print, key="k")
    with pytest.raises(InvalidOption, match="replace must be True or False"):
        timers.after(1, print, key="k", replace=replace)
    with pytest.raises(InvalidOption, match="replace must be True or False"):
        timers.every(1, print, key="k", replace=replace)
    assert len(timers) == 1


class StopsTimers:
    """A key that stops its timers when it is compared."""

    def __init__(self, timers: ManualTimers | Timers) -> None:
        self.timers = timers

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        self.timers.stop()
        return self is other


@pytest.mark.parametrize("make", [ManualTimers, Timers])
def test_a_key_that_stops_the_timers_while_it_is_compared(make: Any, caplog: pytest.LogCaptureFixture) -> None:
    timers = make()
    first = timers.after(60, print, key=StopsTimers(timers))
    with pytest.raises(TimersStopped):
        timers.after(60, print, key=StopsTimers(timers))
    assert first.cancelled
    assert caplog.text == ""  # nothing was waited for that could not end


def test_stopped_timers_cannot_be_entered() -> None:
    timers = ManualTimers()
    timers.stop()
    with pytest.raises(TimersStopped), timers:
        pass


def test_a_log_handler_that_raises_keeps_no_timer_from_running(recorder: Recorder) -> None:
    class Failing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError(f"log server is down: {record.msg}")

    handler, log = Failing(), logging.getLogger("tickwheel.timers")
    log.addHandler(handler)
    try:
        recorder.timers.after(1, lambda: 1 / 0)
        recorder.timers.after(1, recorder.note, "same moment")
        recorder.timers.advance(1)
    finally:
        log.removeHandler(handler)
    assert recorder.ran == [("same moment", 1.0)]


def test_what_is_handed_back_says_all_that_is_needed_to_start_it_again(recorder: Recorder) -> None:
    timers = recorder.timers
    timers.every("10s", recorder.note, "beat", times=7, mode="delay", key="k", group="g")
    timers.every("31s", recorder.note, "for ever")
    timers.after("40s", recorder.note, "once", key="once")
    timers.advance(25)
    beat, for_ever, once = timers.stop()
    assert (beat.interval, beat.mode, beat.times, beat.key, beat.group) == (10.0, "delay", 5, "k", "g")
    assert (for_ever.interval, for_ever.mode, for_ever.times) == (31.0, "rate", -1)
    assert (once.interval, once.times, once.due_in) == (None, 1, 15.0)


def test_a_periodic_timer_whose_next_run_is_out_of_range_ends_and_is_reported() -> None:
    errors: list[BaseException] = []
    ran: list[int] = []
    timers = ManualTimers(geometry=Geometry([(1, 64)]), on_error=lambda _, error: errors.append(error))
    handle = timers.every("7000w", ran.append, 1, key="k")  # a wheel of nanoseconds counts to 146 years
    timers.advance("7000w")
    assert (ran, handle.cancelled, len(timers), timers.get("k")) == ([1], True, 0, None)
    assert [type(error) for error in errors] == [DelayOutOfRange]
    timers.advance("7000w")
    assert timers.stop() == []


def test_a_handle_is_no_key(recorder: Recorder) -> None:
    other = ManualTimers().after(1, print)
    with pytest.raises(InvalidOption, match="key must be a value of your own"):
        recorder.timers.after(1, recorder.note, "x", key=other)
    assert len(recorder.timers) == 0


@pytest.mark.parametrize("unhashable", [["a"], (["a"],), Decimal("sNaN")], ids=repr)
@pytest.mark.parametrize("name", ["key", "group"])
def test_what_cannot_be_hashed_is_refused_by_name(recorder: Recorder, name: str, unhashable: Any) -> None:
    starts: list[Any] = [recorder.timers.after, recorder.timers.every]
    for start in starts:
        with pytest.raises(Unhashable, match=rf"{name} must be hashable, .* not {re.escape(repr(unhashable))}"):
            start(1, recorder.note, "x", **{name: unhashable})
    assert len(recorder.timers) == 0


@pytest.mark.parametrize("nothing", [[], ([],), Decimal("sNaN")], ids=repr)
def test_what_cannot_be_hashed_is_no_key_or_group_to_any_verb(recorder: Recorder, nothing: Any) -> None:
    for verb in (recorder.timers.cancel, recorder.timers.touch, recorder.timers.get):
        with pytest.raises(Unhashable, match="key must be hashable, "):
            verb(nothing)
    with pytest.raises(Unhashable, match="group must be hashable, "):
        recorder.timers.cancel_group(nothing)


class FloatClock(VirtualClock):
    """A clock that counts in floats."""

    def monotonic_ns(self) -> Any:
        return float(super().monotonic_ns())


@pytest.mark.parametrize("clock", [VirtualClock, FloatClock()])
def test_what_does_not_read_as_a_clock_is_refused(clock: Any) -> None:
    with pytest.raises(InvalidClock, match=r"invalid clock .*VirtualClock|FloatClock.*: expected .* returns an int"):
        ManualTimers(clock)
    with pytest.raises(InvalidClock):
        Timers(clock=clock)


@pytest.mark.parametrize("kind", [ManualTimers, Timers])
def test_a_tick_longer_than_any_duration_is_refused(kind: Any) -> None:
    with pytest.raises(InvalidGeometry, match="too long for timers; use at most 1,000 years"):
        kind(geometry=Geometry([(10**400, 2)]))


async def coroutine_function(*_: Any) -> None:
    """Do nothing when called."""


def generator_function(*_: Any) -> Any:
    yield


async def async_generator_function(*_: Any) -> Any:
    yield


class AsyncCall:
    """An object that is called as a coroutine function is."""

    async def __call__(self, *_: Any) -> None:
        """Do nothing when called."""


def make_async_timers(**options: Any) -> AsyncTimers:
    loop = EventLoop()
    try:
        return AsyncTimers(loop, **options)
    finally:
        loop.close()


@pytest.mark.parametrize("kind", [ManualTimers, Timers, make_async_timers])
@pytest.mark.parametrize(
    "on_error",
    [coroutine_function, partial(coroutine_function, 1), AsyncCall(), generator_function, async_generator_function],
)
def test_an_on_error_that_nothing_would_await_is_refused(kind: Any, on_error: Any) -> None:
    with pytest.raises(InvalidOption, match="on_error must be a plain function"):
        kind(on_error=on_error)


def test_an_error_is_logged_if_on_error_returns_a_coroutine(caplog: pytest.LogCaptureFixture) -> None:
    timers = ManualTimers(on_error=lambda *_: coroutine_function())
    timers.after(1, lambda: 1 / 0)
    timers.advance(1)
    assert "on_error returned a coroutine, which nothing awaits; timer callback" in caplog.text
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("callback", [generator_function, async_generator_function])
def test_a_generator_function_is_reported_because_its_body_never_runs(callback: Any) -> None:
    errors: list[BaseException] = []
    timers = ManualTimers(on_error=lambda _, error: errors.append(error))
    timers.after(1, callback)
    timers.after(1, partial(callback, 2))
    timers.after(
        1, lambda: iter(generator_function())
    )  # not one itself: what it does with a generator is its own affair
    timers.advance(1)
    assert [type(error) for error in errors] == [InvalidOption] * 2
    assert "the body of a generator function never runs" in str(errors[0])
    with pytest.raises(InvalidOption, match="job must be a plain or coroutine function"):
        ManualTimers(job=callback)


def test_replace_without_a_key_is_refused(recorder: Recorder) -> None:
    for verb in (recorder.timers.after, recorder.timers.every):
        with pytest.raises(InvalidOption, match="replace must be False for a timer without a key"):
            verb(1, print, replace=True)
    assert len(recorder.timers) == 0


def test_a_callback_that_is_none_is_said_to_have_been_called_perhaps(recorder: Recorder) -> None:
    for verb in (recorder.timers.after, recorder.timers.every):
        with pytest.raises(MissingCallback) as refused:
            verb(1, recorder.timers.pause())  # type: ignore[func-returns-value]
        assert "pass the function itself" in refused.value.__notes__[0]


def test_a_pending_handle_cannot_be_made_to_let_go_of_its_callback(recorder: Recorder) -> None:
    handle = recorder.timers.after(1, recorder.note, "ran", key="k")
    assert handle.release() is None
    with pytest.raises(TimerNotFired):
        handle.take()
    recorder.timers.advance(1)
    assert [name for name, _ in recorder.ran] == ["ran"]
    assert (handle.callback, handle.args, handle.key) == (None, (), None)


def test_a_callback_that_moves_the_clock_is_not_called_slow(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    recorder.timers.after(1, recorder.timers._clock.advance, "1h")
    recorder.timers.advance(2)
    assert caplog.records == []


def test_each_callback_runs_in_its_own_copy_of_the_context_the_timers_were_made_in() -> None:
    request = ContextVar("request", default="nobody")
    seen: list[str] = []

    def note(name: str) -> None:
        seen.append(request.get())
        request.set(name)
        if name == "failing":
            raise ValueError

    def on_error(*_: Any) -> None:
        seen.append(f"on_error of {request.get()}")
        request.set("on_error")

    token = request.set("maker")
    timers = ManualTimers(on_error=on_error)
    request.reset(token)
    for name in ("first", "failing", "last"):
        timers.after(1, note, name)
    timers.advance(1)
    assert seen == ["maker", "maker", "on_error of failing", "maker"]
    assert request.get() == "nobody"


def test_messages_name_what_the_caller_has() -> None:
    with pytest.raises(UnknownOption, match="did you mean 'executor'"):
        Timers(executr=1)  # type: ignore[call-arg]
    with pytest.raises(InvalidOption, match=r"options must be given by name \(clock, executor, geometry, .*\), not 1"):
        Timers(1)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="clock must be a VirtualClock"):
        ManualTimers(SystemClock())  # type: ignore[arg-type]
    timers = ManualTimers(geometry=Geometry([(1, 64)]))
    with pytest.raises(DelayOutOfRange, match="a geometry with a longer tick"):
        timers.after("300000d", print)
    timers.stop()
    with pytest.raises(TimersStopped, match="make new ones"):
        timers.after(1, print)


@pytest.mark.parametrize("mock", [Mock, MagicMock])
def test_mocks_of_plain_functions_are_plain_functions(mock: Any) -> None:
    """What `inspect` asks of a mock is answered by another one, which is true."""

    def plain(*_: object) -> None: ...

    on_error = mock(spec=plain)
    timers = ManualTimers(on_error=on_error)
    timers.after(1, lambda: 1 / 0)
    timers.advance(2)
    on_error.assert_called_once()
