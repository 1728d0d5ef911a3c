"""Idle keys are told, busy ones are not, and touching moves no timer."""

import asyncio
import copy
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

from tickwheel import AsyncTimers, IdleTimeouts, ManualTimers, Timers, VirtualClock
from tickwheel.errors import (
    AsyncCallback,
    DuplicateKey,
    InvalidDuration,
    InvalidTimers,
    MissingCallback,
    NotCopyable,
    TimersStopped,
    TooManyTimers,
)

PATIENCE_SECONDS = 60


@pytest.fixture
def timers() -> ManualTimers:
    return ManualTimers()


@pytest.fixture
def timeouts(timers: ManualTimers) -> IdleTimeouts[str]:
    return IdleTimeouts(timers)


def test_what_is_not_touched_is_told_once_with_its_key(timers: ManualTimers, timeouts: IdleTimeouts[str]) -> None:
    idle: list[Any] = []
    timeouts.watch("a", 30, idle.append)
    timeouts.watch("b", 30, idle.append, "argument of its own")
    timers.advance(29.9)
    assert idle == []
    timers.advance(100)
    assert idle == ["a", "argument of its own"]
    assert len(timeouts) == 0


def test_a_touched_key_waits_for_a_whole_timeout_from_the_last_touch(
    timers: ManualTimers, timeouts: IdleTimeouts[str]
) -> None:
    when: list[float] = []
    timeouts.watch("a", 30, lambda _: when.append(timers.now_ns() / 1e9))
    for _ in range(4):
        timers.advance(20)
        assert timeouts.touch("a")
    assert timeouts.idle_for("a") == 0
    timers.advance(100)
    assert when == [110.0]


def test_touching_moves_no_timer(timers: ManualTimers, timeouts: IdleTimeouts[str]) -> None:
    timeouts.watch("a", 30, print)
    before = timers.stats
    for _ in range(1000):
        timeouts.touch("a")
    assert timers.stats == before


def test_a_forgotten_key_is_not_told(timers: ManualTimers, timeouts: IdleTimeouts[str]) -> None:
    timeouts.watch("a", 30, print)
    assert "a" in timeouts
    assert timeouts.forget("a")
    assert not timeouts.forget("a")
    assert not timeouts.touch("a")
    assert timeouts.idle_for("a") is None
    assert len(timers) == 0


def test_a_key_may_be_watched_again_from_its_callback(timers: ManualTimers, timeouts: IdleTimeouts[str]) -> None:
    told: list[str] = []

    def again(key: str) -> None:
        told.append(key)
        timeouts.watch(key, 10, again)

    timeouts.watch("a", 10, again)
    timers.advance(35)
    assert told == ["a", "a", "a"]


def test_a_callback_that_raises_goes_to_the_timers_and_hits_no_other_key(
    timers: ManualTimers, timeouts: IdleTimeouts[str], caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []

    def fail(key: str) -> None:
        raise OSError(key)

    timeouts.watch("a", 10, fail)
    timeouts.watch("b", 10, told.append)
    with caplog.at_level(logging.ERROR, "tickwheel.timers"):
        timers.advance(20)
    assert told == ["b"]
    assert "OSError: a" in caplog.text
    assert len(timeouts) == 0


def test_a_key_forgotten_by_the_callback_of_another_is_not_told(
    timers: ManualTimers, timeouts: IdleTimeouts[str]
) -> None:
    told: list[str] = []

    def forget_other(key: str) -> None:
        told.append(key)
        timeouts.forget("b")

    timeouts.watch("a", 10, forget_other)
    timeouts.watch("b", 10, told.append)
    timers.advance(20)
    assert told == ["a"]
    assert (len(timeouts), len(timers)) == (0, 0)


def test_a_key_is_not_watched_any_more_in_its_callback(timers: ManualTimers, timeouts: IdleTimeouts[str]) -> None:
    seen: list[Any] = []
    timeouts.watch("a", 10, lambda key: seen.append((key in timeouts, timeouts.touch(key), timeouts.idle_for(key))))
    timers.advance(20)
    assert seen == [(False, False, None)]


def test_stopped_timers_watch_nothing(timers: ManualTimers, timeouts: IdleTimeouts[str]) -> None:
    timers.stop()
    with pytest.raises(TimersStopped):
        timeouts.watch("a", 10, print)
    assert "a" not in timeouts
    assert not timeouts.touch("a")


def test_a_weak_reference_dies_with_it() -> None:
    reference: weakref.ref[IdleTimeouts[str]] = weakref.ref(IdleTimeouts(ManualTimers()))
    assert reference() is None


def test_it_can_be_subclassed(timers: ManualTimers) -> None:
    class Counting(IdleTimeouts[str]):
        """Counts touches."""

        touches = 0

        def touch(self, key: str) -> bool:
            self.touches += 1
            return super().touch(key)

    timeouts = Counting(timers)
    timeouts.watch("a", 10, print)
    assert timeouts.touch("a")
    assert timeouts.touches == 1
    assert repr(timeouts) == "<Counting watched=1>"


def test_type_checkers_know_the_key_and_the_arguments(timers: ManualTimers) -> None:
    """The strict type check refuses a `type: ignore` that is not needed."""
    told: list[Any] = []

    def number(key: int) -> None:
        told.append(key)

    def words(text: str, times: int) -> None:
        told.append(text * times)

    timeouts: IdleTimeouts[int] = IdleTimeouts(timers)
    timeouts.watch(1, 1, number)
    timeouts.watch(2, 2, words, "idle", 2)
    timeouts.watch("3", 3, number)  # type: ignore[call-overload]
    timeouts.watch(4, 4, words, 2, "idle")  # type: ignore[arg-type]
    timeouts.watch(5, 5, words)  # type: ignore[arg-type]
    timeouts.touch("3")  # type: ignore[arg-type]
    timeouts.forget(5)
    timers.advance(10)
    assert told == [1, "idleidle", "3", "idleidle"]


@pytest.fixture
def _switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Touched:
    """Keys that threads touch until they are told that these are idle."""

    TIMEOUT_SECONDS = 0.002
    KEYS = 300

    def __init__(self, timers: Timers) -> None:
        self.timers = timers
        self.timeouts: IdleTimeouts[int] = IdleTimeouts(timers)
        self.told_ns: dict[int, int] = {}
        self.touched_ns: dict[int, int] = {}
        self.all_told = threading.Event()
        for key in range(self.KEYS):
            self.timeouts.watch(key, self.TIMEOUT_SECONDS, self.on_idle)

    def on_idle(self, key: int) -> None:
        self.told_ns[key] = self.timers.now_ns()
        if len(self.told_ns) == self.KEYS:
            self.all_told.set()

    def touch_some(self, first: int) -> None:
        for key in range(first, self.KEYS, 3):
            for _ in range(200):
                before_ns = self.timers.now_ns()
                if not self.timeouts.touch(key):
                    break
                self.touched_ns[key] = before_ns


@pytest.mark.usefixtures("_switch_often")
def test_a_key_is_either_touched_or_told() -> None:
    """A touch that returns True keeps its key from being told, however close the timer is."""
    with Timers() as timers:
        touched = Touched(timers)
        threads = [threading.Thread(target=touched.touch_some, args=(first,)) for first in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
        assert touched.all_told.wait(PATIENCE_SECONDS)
    idle_ns = [touched.told_ns[key] - last_ns for key, last_ns in touched.touched_ns.items()]
    assert min(idle_ns, default=Touched.TIMEOUT_SECONDS * 1e9) >= Touched.TIMEOUT_SECONDS * 1e9


@pytest.mark.usefixtures("_switch_often")
def test_threads_that_watch_and_forget_one_key_leave_nothing_behind() -> None:
    timers = ManualTimers()
    timeouts: IdleTimeouts[str] = IdleTimeouts(timers)
    watched, forgotten, refused = [0] * 4, [0] * 4, [0] * 4

    def use(number: int) -> None:
        for _ in range(1000):
            try:
                timeouts.watch("a", 10, print)
                watched[number] += 1
            except DuplicateKey:
                refused[number] += 1
            forgotten[number] += timeouts.forget("a")

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert sum(watched) == sum(forgotten)
    assert (len(timeouts), len(timers)) == (0, 0)


def test_bad_input_changes_nothing(timeouts: IdleTimeouts[str]) -> None:
    with pytest.raises(InvalidTimers, match="expected Timers"):
        IdleTimeouts(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unhashable"):
        timeouts.watch([], 30, print)  # type: ignore[call-overload]
    timeouts.watch("a", 30, print)
    with pytest.raises(DuplicateKey):
        timeouts.watch("a", 30, print)
    with pytest.raises(MissingCallback, match="invalid on_idle 'print': expected a function"):
        timeouts.watch("b", 30, "print")  # type: ignore[call-overload]
    with pytest.raises(MissingCallback, match="invalid on_idle None: expected a function"):
        timeouts.watch("b", 30, None)  # type: ignore[call-overload]
    with pytest.raises(InvalidDuration, match=r"^timeout: "):
        timeouts.watch("b", -1, print)
    assert len(timeouts) == 1
    assert not timeouts.touch("b")


class SlowClock(VirtualClock):
    """A clock after whose reading one thread, the slow one, has to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.slow: threading.Thread | None = None
        self.read, self.go_on = threading.Event(), threading.Event()

    def monotonic_ns(self) -> int:
        now_ns = super().monotonic_ns()
        if threading.current_thread() is self.slow:
            self.read.set()
            self.go_on.wait()
        return now_ns


def test_a_touch_does_not_move_a_newer_one_back() -> None:
    clock = SlowClock()
    timers = ManualTimers(clock)
    timeouts: IdleTimeouts[str] = IdleTimeouts(timers)
    timeouts.watch("a", 30, print)
    clock.slow = threading.Thread(target=timeouts.touch, args=("a",))
    clock.slow.start()
    clock.read.wait()
    timers.advance(20)
    assert timeouts.touch("a")
    clock.go_on.set()
    clock.slow.join()
    assert timeouts.idle_for("a") == 0


def test_the_code_of_a_key_may_touch_another(timers: ManualTimers) -> None:
    timeouts: IdleTimeouts[Any] = IdleTimeouts(timers)
    touched: list[bool] = []

    class Key:
        def __hash__(self) -> int:
            touched.append(timeouts.touch("other"))
            return 1

    key = Key()
    timeouts.watch("other", 30, print)
    timeouts.watch(key, 30, print)
    touched.clear()
    toucher = threading.Thread(target=timeouts.touch, args=(key,), daemon=True)
    toucher.start()
    toucher.join(60)
    assert (touched, toucher.is_alive()) == ([True], False)


def test_async_timers_await_the_callback() -> None:
    async def main() -> None:
        closed = asyncio.Event()

        async def close(_: str) -> None:
            await asyncio.sleep(0)
            closed.set()

        timers = AsyncTimers()
        timeouts: IdleTimeouts[str] = IdleTimeouts(timers)
        timeouts.watch("a", "1ms", close)
        await asyncio.wait_for(closed.wait(), PATIENCE_SECONDS)
        timers.stop()

    asyncio.run(main())


def test_a_forked_child_watches_nothing_at_first() -> None:
    timers = Timers()
    timeouts: IdleTimeouts[str] = IdleTimeouts(timers)
    timeouts.watch("a", "1h", print)
    child = os.fork()
    if child == 0:
        idle = threading.Event()
        watched = "a" in timeouts or timeouts.touch("a")
        timeouts.watch("a", "1ms", lambda _: idle.set())
        os._exit(0 if idle.wait(20) and not watched else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert "a" in timeouts
    timers.stop()


def test_it_cannot_be_copied(timeouts: IdleTimeouts[str]) -> None:
    with pytest.raises(NotCopyable, match="cannot be copied"):
        copy.copy(timeouts)


def test_a_touch_counts_from_when_its_key_was_found() -> None:
    clock = VirtualClock()
    timers = ManualTimers(clock)
    idle: list[object] = []

    class SlowKey:
        slow = False

        def __hash__(self) -> int:
            if self.slow:
                clock.advance("20s")
            return 1

        def __eq__(self, other: object) -> bool:
            return self is other

    key = SlowKey()
    timeouts: IdleTimeouts[SlowKey] = IdleTimeouts(timers)
    timeouts.watch(key, "30s", idle.append)
    key.slow = True
    assert timeouts.touch(key)
    key.slow = False
    timers.advance("29s")
    assert idle == []
    timers.advance("1s")
    assert idle == [key]


def test_nothing_is_watched_once_the_timers_are_stopped(timers: ManualTimers, timeouts: IdleTimeouts[str]) -> None:
    timeouts.watch("a", 30, print)
    timers.stop()
    assert not timeouts.touch("a")
    assert "a" not in timeouts
    assert (len(timeouts), timeouts.idle_for("a")) == (0, None)
    for key in "ab":
        with pytest.raises(TimersStopped):
            timeouts.watch(key, 30, print)
    assert not timeouts.forget("a")


class Key:
    """A key that runs code when it is hashed."""

    def __init__(self) -> None:
        self.on_hash: Callable[[], object] | None = None

    def __hash__(self) -> int:
        if self.on_hash is not None:
            self.on_hash()
        return 1


@pytest.mark.parametrize("make", [ManualTimers, Timers])
def test_what_is_watched_is_freed_when_the_timers_are_stopped(make: "Callable[[], ManualTimers | Timers]") -> None:
    timers = make()
    timeouts: IdleTimeouts[Key] = IdleTimeouts(timers)
    key = Key()
    reference = weakref.ref(key)
    timeouts.watch(key, 30, print)
    timeouts.watch(Key(), 30, print)
    timers.stop()
    del key
    assert reference() is None


def test_a_touched_key_stays_watched_though_others_wait_for_its_place() -> None:
    timers = ManualTimers(pending_max=1)
    timeouts: IdleTimeouts[Key] = IdleTimeouts(timers)
    idle: list[Key] = []
    key = Key()

    def take_place() -> None:
        with suppress(TooManyTimers):
            timers.after("1h", print)

    timeouts.watch(key, "30s", idle.append)
    timers.advance("20s")
    assert timeouts.touch(key)
    key.on_hash = take_place
    timers.advance("15s")
    key.on_hash = None
    assert (key in timeouts, idle) == (True, [])
    timers.advance("15s")
    assert (key in timeouts, idle, len(timers)) == (False, [key], 0)


def test_a_key_that_could_not_be_hashed_is_told_later(caplog: pytest.LogCaptureFixture) -> None:
    timers = ManualTimers()
    timeouts: IdleTimeouts[Key] = IdleTimeouts(timers)
    idle: list[Key] = []
    key = Key()

    def fail() -> None:
        raise OSError("no hash")

    timeouts.watch(key, "10s", idle.append)
    key.on_hash = fail
    timers.advance("10s")
    key.on_hash = None
    assert "no hash" in caplog.text
    assert (key in timeouts, idle) == (True, [])
    timers.advance("10s")
    assert (key in timeouts, idle, len(timers)) == (False, [key], 0)


def interrupt_at(step: int, *modules: str) -> Callable[..., Any]:
    """Return what `sys.settrace` takes to interrupt the code of modules at one of its steps."""
    left = step

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.endswith(modules):
            return None
        frame.f_trace_opcodes = True
        if event in ("line", "opcode"):  # some interpreters leave out opcodes the first time
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    return trace


@pytest.mark.parametrize("forget", [True, False])
def test_an_interrupted_watch_leaves_neither_a_timer_nor_a_key_without_one(forget: bool) -> None:
    interrupted = True
    step = 0
    while interrupted:
        step += 1
        timers = ManualTimers()
        timeouts: IdleTimeouts[str] = IdleTimeouts(timers)
        before = sys.gettrace()
        sys.settrace(interrupt_at(step, "idle_timeouts.py", "timers/timers.py"))
        try:
            timeouts.watch("a", 1, str)
            interrupted = False
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        if forget:
            timeouts.forget("a")
        timers.advance(10)
        assert (step, len(timeouts), len(timers), timers.stats.pending) == (step, 0, 0, 0)
        assert (step, "a" in timeouts, timeouts.touch("a")) == (step, False, False)
    assert step > 5


class WatchingKey:
    """A key that watches itself when it is hashed for the second time."""

    def __init__(self, timeouts: IdleTimeouts["WatchingKey"]) -> None:
        self.timeouts = timeouts
        self.hashed = 0

    def __hash__(self) -> int:
        self.hashed += 1
        if self.hashed == 2:
            self.timeouts.watch(self, 20, print)
        return 7


def test_a_key_whose_code_watches_it_meanwhile_is_refused_and_stays_watched(timers: ManualTimers) -> None:
    timeouts: IdleTimeouts[WatchingKey] = IdleTimeouts(timers)
    key = WatchingKey(timeouts)
    with pytest.raises(DuplicateKey):
        timeouts.watch(key, 30, print)
    assert (key in timeouts, timeouts.touch(key), len(timeouts), len(timers)) == (True, True, 1, 1)


def test_a_timeout_of_zero_is_told_at_once(timers: ManualTimers, timeouts: IdleTimeouts[str]) -> None:
    idle: list[str] = []
    timeouts.watch("a", 0, idle.append)
    timers.advance("1ms")
    assert (idle, len(timers)) == (["a"], 0)


def test_a_key_that_is_watched_is_refused_with_what_can_be_done(timeouts: IdleTimeouts[str]) -> None:
    timeouts.watch("a", 30, print)
    with pytest.raises(DuplicateKey, match="'a' is already watched; touch it, or forget it first"):
        timeouts.watch("a", 60, print)


def test_messages_name_the_callback_and_the_key(
    timers: ManualTimers, timeouts: IdleTimeouts[str], caplog: pytest.LogCaptureFixture
) -> None:
    def close(key: str) -> None:
        raise OSError(key)

    timeouts.watch("connection 7", 10, close)
    timers.advance(10)
    name = "test_messages_name_the_callback_and_the_key.<locals>.close"
    assert [record.getMessage() for record in caplog.records] == [f"timer callback {name} key='connection 7' raised"]


async def never_awaited(key: str) -> None:
    pytest.fail(f"it was called with {key}")


def test_a_coroutine_function_is_refused_where_nothing_awaits_it(timeouts: IdleTimeouts[str]) -> None:
    with pytest.raises(AsyncCallback, match=r"invalid on_idle .*never_awaited.*; use AsyncTimers, or a plain function"):
        timeouts.watch("a", 30, never_awaited)
    assert "a" not in timeouts


def test_a_coroutine_that_cannot_be_awaited_is_reported_with_the_callback_and_the_key(
    timers: ManualTimers, timeouts: IdleTimeouts[str], caplog: pytest.LogCaptureFixture
) -> None:
    timeouts.watch("a", 30, lambda _: never_awaited("a"))
    timers.advance(30)
    assert "<lambda> key='a' returned a coroutine, which was closed without running" in caplog.text
