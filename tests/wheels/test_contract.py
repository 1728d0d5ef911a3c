"""What every scheme promises beyond the order of firing: keys, bulk calls, states, errors, figures."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from tests.builds import Build
from tests.wheels.schemes import SCHEMES, make

# -- keys


def test_a_timer_is_found_and_stopped_by_its_key(wheel: Any) -> None:
    timer = wheel.start(5, "payload", key="order-7")
    assert wheel.find("order-7") is timer
    assert wheel.stop_key("order-7")
    assert wheel.find("order-7") is None
    assert timer.stopped
    assert not wheel.stop_key("order-7")


def test_a_pending_key_is_refused_a_second_time(wheel: Any, build: Build) -> None:
    first = wheel.start(5, key="k")
    with pytest.raises(build.errors.DuplicateKey, match="key 'k' is pending") as caught:
        wheel.start(6, key="k")
    assert caught.value.key == "k"
    assert wheel.find("k") is first
    assert len(wheel) == 1


def test_a_key_is_free_again_after_firing_and_stopping(wheel: Any) -> None:
    wheel.start(5, key="k")
    wheel.advance(5)
    second = wheel.start(5, key="k")
    wheel.stop(second)
    third = wheel.start(5, key="k")
    assert wheel.find("k") is third
    wheel.check()


def test_a_key_that_cannot_be_hashed_changes_nothing(wheel: Any) -> None:
    with pytest.raises(TypeError):
        wheel.start(5, "payload", key=[])
    assert len(wheel) == 0
    wheel.check()


def test_a_restarted_timer_keeps_its_key_while_pending(wheel: Any) -> None:
    timer = wheel.start(5, key="k")
    wheel.restart(timer, 9)
    assert wheel.find("k") is timer
    assert wheel.advance(8) == []
    assert wheel.advance(9) == [timer]


# -- bulk


def test_start_many_takes_any_iterables(wheel: Any) -> None:
    timers = wheel.start_many(iter([3, 1, 2]), (letter for letter in "abc"))
    assert [timer.payload for timer in timers] == ["a", "b", "c"]
    assert [timer.payload for timer in wheel.advance(3)] == ["b", "c", "a"]


def test_start_many_of_nothing_is_nothing(wheel: Any) -> None:
    assert wheel.start_many([], []) == []


def test_start_many_refuses_unequal_lengths(wheel: Any, build: Build) -> None:
    with pytest.raises(build.errors.LengthMismatch, match="2 delays but 1 payloads"):
        wheel.start_many([1, 2], ["x"])
    assert len(wheel) == 0


def test_start_many_refused_in_the_middle_leaves_no_trace(wheel: Any, build: Build) -> None:
    wheel.start(2, "before")
    with pytest.raises(build.errors.DelayOutOfRange):
        wheel.start_many([1, 2, 3, -1], "abcd")
    wheel.check()
    assert wheel.stats.started == 1
    assert [timer.payload for timer in wheel.advance(10)] == ["before"]


def test_stop_many_counts_those_still_pending(wheel: Any) -> None:
    fired, stopped, pending, other = wheel.start_many([1, 5, 5, 5], range(4))
    wheel.advance(1)
    wheel.stop(stopped)
    assert wheel.stop_many([fired, stopped, pending, pending]) == 1
    assert wheel.advance(5) == [other]


def test_stop_many_refuses_the_whole_call_for_one_bad_element(wheel: Any, build: Build) -> None:
    timer = wheel.start(5)
    with pytest.raises(build.errors.NotATimer, match="'x' is not a Timer"):
        wheel.stop_many([timer, "x"])
    assert timer.pending


# -- states


def test_a_timer_goes_from_pending_to_fired_to_over(wheel: Any, build: Build) -> None:
    timer = wheel.start(5, "payload")
    assert (timer.pending, timer.fired, timer.stopped) == (True, False, False)
    with pytest.raises(build.errors.TimerNotFired, match="pending> has not fired"):
        timer.take()
    wheel.advance(5)
    assert (timer.pending, timer.fired, timer.stopped) == (False, True, False)
    assert timer.take() == "payload"
    assert (timer.pending, timer.fired, timer.stopped) == (False, False, True)
    with pytest.raises(build.errors.TimerNotFired):
        timer.take()


def test_stop_says_whether_it_came_in_time(wheel: Any) -> None:
    timer = wheel.start(5, "payload")
    assert wheel.stop(timer) is True
    assert timer.payload is None
    assert wheel.stop(timer) is False
    late = wheel.start(5)
    wheel.advance(5)
    assert wheel.stop(late) is False


def test_restart_moves_a_pending_timer_behind_those_of_its_tick(wheel: Any) -> None:
    first, second = wheel.start_many([5, 5], "ab")
    wheel.restart(first, 5)
    assert wheel.advance(5) == [second, first]
    assert wheel.stats.restarted == 1


def test_restart_of_a_fired_timer_keeps_its_payload(wheel: Any) -> None:
    timer = wheel.start(5, "payload")
    wheel.advance(5)
    wheel.restart(timer, 3)
    assert wheel.advance(8) == [timer]
    assert timer.take() == "payload"


def test_a_stopped_timer_cannot_be_restarted(wheel: Any, build: Build) -> None:
    timer = wheel.start(5)
    wheel.stop(timer)
    with pytest.raises(build.errors.TimerStopped, match="start a new timer"):
        wheel.restart(timer, 5)
    assert len(wheel) == 0


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_timer_of_another_wheel_is_refused(build: Build, scheme: str) -> None:
    wheel, other = make(build, scheme), make(build, scheme)
    timer = other.start(5)
    attempts: list[Callable[[], Any]] = [
        lambda: wheel.stop(timer),
        lambda: wheel.restart(timer, 1),
        lambda: wheel.stop_many([timer]),
    ]
    for attempt in attempts:
        with pytest.raises(build.errors.ForeignTimer, match="pending in another wheel"):
            attempt()
    wheel.check()
    other.check()
    assert other.advance(5) == [timer]


def test_something_that_is_no_timer_is_refused(wheel: Any, build: Build) -> None:
    attempts: list[Callable[[], Any]] = [lambda: wheel.stop("key"), lambda: wheel.restart("key", 5)]
    for attempt in attempts:
        with pytest.raises(build.errors.NotATimer, match="'key' is not a Timer"):
            attempt()
    assert len(wheel) == 0


def test_a_slot_is_no_timer(wheel: Any, build: Build) -> None:
    """Its class is a subclass of Timer, and its address is in every timer."""
    pending, fired, stopped = wheel.start_many([5, 1, 5], "abc")
    wheel.advance(1)
    wheel.stop(stopped)
    for timer in (pending, fired, stopped):
        attempts: list[Callable[[], Any]] = [
            lambda slot=timer.slot: wheel.stop(slot),  # type: ignore[misc]
            lambda slot=timer.slot: wheel.stop_many([pending, slot]),  # type: ignore[misc]
            lambda slot=timer.slot: wheel.restart(slot, 5),  # type: ignore[misc]
            timer.slot.take,
        ]
        for attempt in attempts:
            with pytest.raises(build.errors.NotATimer, match=r"<Slot .*> is not a Timer"):
                attempt()
    wheel.check()
    assert (pending.pending, fired.fired, stopped.stopped) == (True, True, True)
    assert wheel.advance(5) == [pending]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_fired_timer_of_another_scheme_is_placed_or_refused(build: Build, scheme: str) -> None:
    for other in SCHEMES:
        wheel, elsewhere = make(build, scheme), make(build, other)
        timer = elsewhere.start(1, "payload")
        elsewhere.advance(1)
        if scheme == "BinaryHeap" != other:
            with pytest.raises(build.errors.ForeignTimer, match="another scheme"):
                wheel.restart(timer, 7)
            assert timer.fired
            assert (len(wheel), wheel.stats.started) == (0, 0)
            assert wheel.advance(7) == []
        else:
            wheel.restart(timer, 7)
            assert wheel.advance(7) == [timer]
            assert timer.take() == "payload"
        wheel.check()
        elsewhere.check()


COPIES: list[Callable[[Any], Any]] = [copy.copy, copy.deepcopy, pickle.dumps]


@pytest.mark.parametrize("attempt", COPIES)
def test_timers_slots_and_wheels_cannot_be_copied(wheel: Any, attempt: Callable[[Any], Any], build: Build) -> None:
    timer = wheel.start(5, "payload", key="k")
    for value in (timer, timer.slot, wheel):
        with pytest.raises(TypeError, match="cannot be copied or pickled") as caught:
            attempt(value)
        assert isinstance(caught.value, build.errors.NotCopyable)
    wheel.check()
    assert wheel.advance(5) == [timer]


# -- closing


def test_a_closed_wheel_has_stopped_everything_and_takes_no_more(wheel: Any, build: Build) -> None:
    timer = wheel.start(5, "payload", key="k")
    wheel.close()
    wheel.close()
    assert timer.stopped
    assert timer.payload is None
    assert (len(wheel), wheel.next_due(), wheel.find("k")) == (0, None, None)
    assert not wheel.stop(timer)
    wheel.check()
    attempts: list[Callable[[], Any]] = [
        lambda: wheel.start(1),
        lambda: wheel.start_many([1], ["x"]),
        lambda: wheel.advance(9),
    ]
    for attempt in attempts:
        with pytest.raises(build.errors.WheelClosed, match="make a new one"):
            attempt()
    assert sum(map(sum, wheel.occupancy())) == 0


def test_a_wheel_is_closed_and_empty_to_what_is_dropped_by_its_close(wheel: Any) -> None:
    seen: list[Any] = []

    class Looks:
        def __del__(self) -> None:
            wheel.check()
            seen.append(
                (
                    len(wheel),
                    wheel.next_due(),
                    wheel.stats.pending,
                    wheel.stats.overflow,
                    sum(map(sum, wheel.occupancy())),
                    wheel.find("payload 1"),
                    wheel.find(key_to_find),
                    all(timer.stopped for timer in timers),
                    wheel.list_by_due() if hasattr(wheel, "list_by_due") else [],
                )
            )

    key_to_find = "the last"
    delays = [1, 1, 5, 20, 59] + ([60, 61, 3000, 10**6, 10**6, 10**7] if wheel._delay_max > 60 else [])
    timers = [wheel.start(delay, Looks(), key=f"payload {number}") for number, delay in enumerate(delays)]
    timers.append(wheel.start(2, "payload", key=Looks()))
    timers.append(wheel.start(3, "payload", key=key_to_find))
    wheel.advance(1, limit=1)  # the other one is ready
    (fired,) = [timer for timer in timers if timer.fired]
    timers.remove(fired)
    wheel.close()
    fired.take()
    assert seen == [(0, None, 0, 0, 0, None, None, True, [])] * (len(delays) + 1)


def test_close_survives_payloads_that_use_the_wheel_while_they_are_dropped(wheel: Any, build: Build) -> None:
    refused: list[Exception] = []

    class Meddles:
        def __del__(self) -> None:
            wheel.stop_many(timers)
            try:
                wheel.start(1)
            except build.errors.WheelClosed as error:
                refused.append(error)

    timers = wheel.start_many([5, 5, 7, 9], [Meddles(), "a", Meddles(), "b"])
    wheel.close()
    assert len(wheel) == 0
    assert len(refused) == 2
    assert all(timer.stopped for timer in timers)


# -- figures


def test_stats_count_what_happened(wheel: Any) -> None:
    timers = wheel.start_many([1, 2, 3, 4], range(4))
    wheel.stop(timers[1])
    wheel.restart(timers[2], 5)
    wheel.advance(1)
    wheel.restart(timers[0], 9)
    stats = wheel.stats
    assert (stats.started, stats.stopped, stats.restarted, stats.expired, stats.pending) == (5, 1, 1, 1, 3)


def test_occupancy_counts_every_slot(build: Build) -> None:
    wheel = build.wheels.HierarchicalWheel(build.wheels.CLOCK)
    wheel.start_many([7, 7, 75, 7200, 100_000], range(5))
    seconds, minutes, hours = wheel.occupancy()
    assert (len(seconds), len(minutes), len(hours)) == (60, 60, 24)
    assert (seconds[7], minutes[1], hours[2]) == (2, 1, 1)
    assert sum(map(sum, wheel.occupancy())) == 4
    assert wheel.stats.overflow == 1


def test_check_finds_a_broken_ring(wheel: Any, build: Build) -> None:
    if type(wheel).__name__ == "BinaryHeap":
        first, second = wheel.start_many([5, 6], "ab")
        first.due, second.due = second.due, first.due
    else:
        first, second = wheel.start_many([5, 5], "ab")
        second.prev = second
    with pytest.raises(build.errors.BrokenWheel):
        wheel.check()
    if type(wheel).__name__ == "BinaryHeap":
        first.due, second.due = second.due, first.due
    else:
        second.prev = first


def test_check_finds_a_timer_in_the_wrong_slot(build: Build) -> None:
    wheel = build.wheels.HierarchicalWheel(build.wheels.CLOCK)
    timer = wheel.start(5)
    timer.due = 6
    with pytest.raises(build.errors.BrokenWheel, match="slot 5"):
        wheel.check()


def test_every_scheme_is_a_wheel(build: Build) -> None:
    contract = {name for name in vars(build.wheels.Wheel) if not name.startswith("_")} | {"__len__"}
    for scheme in SCHEMES:
        assert contract <= set(dir(getattr(build.wheels, scheme))), scheme
