"""The edges where timing wheels go wrong, by name."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from tests.builds import Build
from tests.wheels.schemes import HUGE, SCHEMES, Unprintable, make

FAR = 10**12


def fire_ticks(wheel: Any, until: int) -> dict[Any, int]:
    """Advance tick by tick and note on which tick each payload came out."""
    fired: dict[Any, int] = {}
    for tick in range(wheel.now + 1, until + 1):
        for timer in wheel.advance(tick):
            assert timer.payload not in fired, "fired twice"
            fired[timer.payload] = tick
    return fired


# -- single-level semantics


def test_75_ticks_on_60_slots_wait_in_slot_15_for_one_round(build: Build) -> None:
    for kind in (build.wheels.HashedWheel, build.wheels.SortedHashedWheel):
        wheel = kind(60)
        timer = wheel.start(75, "tea")
        assert timer.slot.index == 15
        assert wheel.rounds(timer) == 1
        assert fire_ticks(wheel, 200) == {"tea": 75}


def test_a_round_is_counted_down_when_the_hand_passes(build: Build) -> None:
    wheel = build.wheels.HashedWheel(60)
    timer = wheel.start(75)
    wheel.advance(14)
    assert wheel.rounds(timer) == 1
    wheel.advance(15)
    assert wheel.rounds(timer) == 0


@pytest.mark.parametrize("turns", [1, 2, 7])
def test_a_delay_of_exactly_whole_turns_waits_no_turn_too_many(unbounded: Any, turns: int) -> None:
    unbounded.advance(17)
    unbounded.start(60 * turns, "x")
    assert fire_ticks(unbounded, 17 + 60 * turns + 61) == {"x": 17 + 60 * turns}


def test_a_delay_of_exactly_one_turn_fits_the_simple_wheel_and_one_more_does_not(build: Build) -> None:
    wheel = build.wheels.SimpleWheel(60, now=17)
    wheel.start(60, "x")
    with pytest.raises(build.errors.DelayOutOfRange, match="61 is longer than the 60 ticks"):
        wheel.start(61)
    assert len(wheel) == 1
    assert fire_ticks(wheel, 150) == {"x": 77}


def test_delay_0_fires_on_the_next_tick(wheel: Any) -> None:
    timer = wheel.start(0, "now")
    assert timer.due == 1
    assert wheel.advance(0) == []
    assert wheel.advance(1) == [timer]


def test_every_delay_from_every_position_fires_on_its_tick(wheel: Any) -> None:
    expected = {}
    for start in range(125):
        for delay in (0, 1, 2, 58, 59, 60):
            wheel.start(delay, (start, delay))
            expected[start, delay] = start + max(delay, 1)
        for timer in wheel.advance(start + 1):
            assert expected.pop(timer.payload) == start + 1
    for timer in wheel.advance(500):
        assert expected.pop(timer.payload) == timer.due
    assert not expected


# -- the hierarchy


@pytest.mark.parametrize("preset", ["CLOCK", "DEFAULT", "GAME", "ORDER", "CENTURY", "BINARY"])
@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_a_delay_of_exactly_each_span_fires_on_its_tick(build: Build, preset: str, offset: int) -> None:
    geometry = getattr(build.wheels, preset)
    for now in (0, 1, 59, geometry.dials[0].span - 1, geometry.span - 1):
        wheel = build.wheels.HierarchicalWheel(geometry, now=now)
        delays = [dial.span + offset for dial in geometry.dials]
        wheel.start_many(delays, delays)
        for delay in sorted(delays):
            due = now + max(delay, 1)
            assert delay not in [timer.payload for timer in wheel.advance(due - 1)]
            assert delay in [timer.payload for timer in wheel.advance(due)]
            wheel.check()


def test_every_due_to_4200_at_every_step_of_the_binary_wheel(build: Build) -> None:
    wheel = build.wheels.HierarchicalWheel(build.wheels.BINARY)
    wheel.start_many(range(4201), range(4201))
    for tick in range(1, 4201):
        expected = [0, 1] if tick == 1 else [tick]
        assert [timer.payload for timer in wheel.advance(tick)] == expected
    assert len(wheel) == 0


def test_every_start_to_4200_fires_4096_ticks_later_in_the_binary_wheel(build: Build) -> None:
    wheel = build.wheels.HierarchicalWheel(build.wheels.BINARY)
    for tick in range(4201):
        wheel.start(4096, tick)
        assert [timer.payload for timer in wheel.advance(tick + 1)] == ([tick + 1 - 4096] if tick + 1 >= 4096 else [])


def test_a_timer_cascades_from_minutes_to_seconds_as_the_minute_begins(build: Build) -> None:
    wheel = build.wheels.HierarchicalWheel(build.wheels.CLOCK, now=7)
    timer = wheel.start(73)
    assert (timer.slot.level, timer.slot.index) == (1, 1)
    wheel.advance(59)
    assert (timer.slot.level, timer.slot.index) == (1, 1)
    wheel.advance(60)
    assert (timer.slot.level, timer.slot.index) == (0, 20)
    assert wheel.stats.cascaded == 1
    assert wheel.occupancy()[0][20] == 1


def test_order_of_starting_is_kept_across_cascades_and_levels(build: Build) -> None:
    wheel = build.wheels.HierarchicalWheel(build.wheels.CLOCK)
    due = 2 * 3600 + 75
    for position, now in enumerate([0, 3599, 3600, 7199, 7200, 7259, 7260, due - 1]):
        wheel.advance(now)
        wheel.start(due - now, position)
    assert [timer.payload for timer in wheel.advance(due)] == list(range(8))


def test_overflow_enters_the_wheel_when_its_turn_begins(build: Build) -> None:
    wheel = build.wheels.HierarchicalWheel(build.wheels.CLOCK)
    day = build.wheels.CLOCK.span
    wheel.start(3 * day + 5, "far")
    wheel.start(3 * day + 5, "far too")
    wheel.start(9 * day, "farther")
    assert wheel.stats.overflow == 3
    assert wheel.next_due() == 3 * day + 5
    assert wheel.advance(3 * day) == []
    assert wheel.stats.overflow == 1
    assert [timer.payload for timer in wheel.advance(3 * day + 5)] == ["far", "far too"]
    assert [timer.payload for timer in wheel.advance(FAR)] == ["farther"]


def test_overflow_forgets_turns_emptied_by_stops(build: Build) -> None:
    wheel = build.wheels.HierarchicalWheel([(1, 4)])
    kept = wheel.start(10**9, "kept")
    for turn in range(10_000):
        wheel.stop(wheel.start(100 + 4 * turn))
    assert len(wheel._overflow.turns()) == 1
    assert wheel.stats.overflow == 1
    assert wheel.advance(10**9) == [kept]


# -- the hand


@pytest.mark.parametrize("jump", [0, 1, FAR])
def test_advancing_an_empty_wheel_moves_the_hand(wheel: Any, jump: int) -> None:
    assert wheel.advance(jump) == []
    assert wheel.now == jump
    assert wheel.advance(jump) == []
    timer = wheel.start(1)
    assert wheel.advance(jump + 1) == [timer]


def test_a_jump_of_a_trillion_ticks_hands_out_everything_in_order(unbounded: Any) -> None:
    delays = [FAR, 3, 60, 61, 3600, 86_400, 86_401, 10**9, 3, FAR]
    unbounded.start_many(delays, range(len(delays)))
    expected = sorted(range(len(delays)), key=lambda index: delays[index])
    assert [timer.payload for timer in unbounded.advance(FAR)] == expected
    unbounded.check()


def test_the_hand_does_not_go_back(wheel: Any, build: Build) -> None:
    wheel.advance(10)
    timer = wheel.start(5)
    with pytest.raises(build.errors.HandMovedBack, match="stands on tick 10 and cannot go back to 9"):
        wheel.advance(9)
    assert wheel.now == 10
    assert wheel.advance(15) == [timer]


def test_a_limited_advance_goes_on_where_it_stopped(wheel: Any) -> None:
    wheel.start_many([5] * 4 + [7] * 2, range(6))
    assert [timer.payload for timer in wheel.advance(9, limit=3)] == [0, 1, 2]
    assert wheel.now == 5, "the hand stays on the tick that is not finished"
    assert wheel.next_due() == 5
    late = wheel.start(1, "started meanwhile")
    assert late.due == 6
    assert [timer.payload for timer in wheel.advance(5)] == [3]
    assert [timer.payload for timer in wheel.advance(9, limit=3)] == ["started meanwhile", 4, 5]
    assert wheel.advance(9) == []
    assert wheel.now == 9


def test_what_is_ready_but_not_handed_out_can_be_stopped_and_restarted(wheel: Any) -> None:
    first, second, third = wheel.start_many([5, 5, 5], "abc")
    assert wheel.advance(5, limit=1) == [first]
    assert wheel.stop(second)
    wheel.restart(third, 2)
    wheel.check()
    assert wheel.advance(5) == []
    assert wheel.advance(7) == [third]


def test_next_due_is_exact_however_long_the_wait(build: Build) -> None:
    wheel = build.wheels.HierarchicalWheel(build.wheels.CENTURY)
    century = 100 * 365 * 86_400 * 100
    wheel.start(century, "reminder")
    wheel.start(century + 1, "later")
    assert wheel.next_due() == century
    assert [timer.payload for timer in wheel.advance(century)] == ["reminder"]
    wheel.start(10 * century, "beyond the last dial")
    assert wheel.next_due() == century + 1
    wheel.advance(century + 1)
    assert wheel.next_due() == 11 * century


def test_next_due_of_a_crowded_slot_is_the_tick_at_which_it_is_cascaded(build: Build) -> None:
    wheel = build.wheels.HierarchicalWheel(build.wheels.CLOCK)
    crowd = wheel.start_many([75] * 17, range(17))
    assert wheel.next_due() == 60
    wheel.stop(crowd[0])
    assert wheel.next_due() == 75, "sixteen are looked through"
    wheel.start(10, "sooner")
    assert wheel.next_due() == 10


# -- from inside an expiry


def test_start_inside_an_expiry_fires_on_its_own_tick(wheel: Any) -> None:
    wheel.start(10, "first")
    fired: list[tuple[str, int]] = []
    for tick in range(1, 200):
        for timer in wheel.advance(tick):
            fired.append((timer.take(), tick))
            if len(fired) < 4:
                wheel.start([0, 1, 60][len(fired) - 1], f"after {len(fired)}")
    assert fired == [("first", 10), ("after 1", 11), ("after 2", 12), ("after 3", 72)]


def test_stop_inside_the_firing_tick_says_too_late_but_drops_the_payload(wheel: Any) -> None:
    wheel.start_many([5, 5, 6], ["first", "second", "third"])
    ran = []
    for timer in (batch := wheel.advance(6)):
        if timer.fired:
            ran.append(timer.take())
        if ran == ["first"]:
            assert wheel.stop(batch[1]) is False
            assert batch[1].payload is None
    assert ran == ["first", "third"]


def test_restart_inside_the_expiry_makes_a_periodic_timer(wheel: Any) -> None:
    timer = wheel.start(7, "tick")
    ticks = []
    for tick in range(1, 40):
        for fired in wheel.advance(tick):
            ticks.append((fired.payload, tick))
            wheel.restart(fired, 7)
    assert ticks == [("tick", 7), ("tick", 14), ("tick", 21), ("tick", 28), ("tick", 35)]
    assert wheel.stop(timer)


def test_a_timer_stopped_by_the_destructor_of_another_payload_stays_stopped(wheel: Any) -> None:
    class Stops:
        def __del__(self) -> None:
            wheel.stop(other)

    other = wheel.start(5, "other")
    timer = wheel.start(5, Stops())
    assert wheel.stop(timer)
    assert other.stopped
    wheel.check()
    assert wheel.advance(10) == []


# -- bad input changes nothing


class Strange(int):
    """An int whose operators are not those of numbers."""

    def __add__(self, _: object) -> Any:
        raise AssertionError

    __radd__ = __sub__ = __rsub__ = __int__ = __index__ = __floordiv__ = __mod__ = __add__  # type: ignore[assignment]
    __lt__ = __gt__ = __le__ = __ge__ = __eq__ = __ne__ = __rshift__ = __and__ = __add__
    __hash__ = int.__hash__


def test_an_int_of_another_type_counts_as_the_number_it_is(wheel: Any, build: Build) -> None:
    timer, _ = wheel.start(Strange(5)), wheel.start_many([Strange(7)], "a")
    assert (type(timer.due), timer.due) == (int, 5)
    wheel.restart(timer, Strange(6))
    assert wheel.advance(Strange(6), Strange(1)) == [timer]
    assert (type(wheel.now), wheel.now) == (int, 6)
    for refused in (Strange(-5), Strange(2**62), Strange(2**70)):
        with pytest.raises(build.errors.DelayOutOfRange):
            wheel.start(refused)
        with pytest.raises(build.errors.InvalidOption):
            wheel.advance(refused)
    with pytest.raises(build.errors.InvalidLimit):
        wheel.advance(7, Strange(0))
    assert len(wheel.advance(7, Strange(2**70))) == 1
    wheel.check()


@pytest.mark.parametrize("delay", [1.5, 1.0, math.nan, math.inf, True, False, "5", None, 10j, Unprintable()])
def test_a_delay_that_is_no_int_is_refused(wheel: Any, build: Build, delay: Any) -> None:
    timer = wheel.start(5)
    for attempt in ways_to_delay(wheel, timer, delay):
        with pytest.raises(build.errors.NotWholeTicks, match="whole number of ticks"):
            attempt()
    with pytest.raises(build.errors.NotWholeTicks):
        wheel.advance(delay)
    assert_untouched(wheel, timer)


@pytest.mark.parametrize(
    "delay", [-1, -(10**30), 2**62, 2**63, 10**30, pytest.param(HUGE, id="huge"), pytest.param(-HUGE, id="-huge")]
)
def test_a_delay_out_of_range_is_refused(wheel: Any, build: Build, delay: int) -> None:
    timer = wheel.start(5)
    for attempt in ways_to_delay(wheel, timer, delay):
        with pytest.raises(build.errors.DelayOutOfRange, match="negative" if delay < 0 else "longer than"):
            attempt()
    assert_untouched(wheel, timer)


@pytest.mark.parametrize("to", [-1, 2**62, pytest.param(HUGE, id="huge"), pytest.param(-HUGE, id="-huge")])
def test_a_tick_that_no_hand_reaches_is_refused_by_its_name(wheel: Any, build: Build, to: int) -> None:
    timer = wheel.start(5)
    with pytest.raises(build.errors.InvalidOption, match=f"to must be a tick from 0 to {build.wheels.TICK_MAX}, not"):
        wheel.advance(to)
    assert_untouched(wheel, timer)


def test_the_last_tick_can_be_reached_and_no_further(unbounded: Any, build: Build) -> None:
    last = build.wheels.TICK_MAX
    timer = unbounded.start(last, "the end")
    assert unbounded.advance(last - 1) == []
    with pytest.raises(build.errors.DelayOutOfRange):
        unbounded.start(2)
    assert unbounded.advance(last) == [timer]
    with pytest.raises(build.errors.DelayOutOfRange):
        unbounded.start(1)


def test_nothing_can_be_started_on_the_last_tick(build: Build) -> None:
    for scheme in SCHEMES:
        wheel = make(build, scheme, now=build.wheels.TICK_MAX - 1)
        timer = wheel.start(0, "the end")
        assert wheel.advance(build.wheels.TICK_MAX) == [timer]
        for attempt in ways_to_delay(wheel, timer, 0):
            with pytest.raises(build.errors.DelayOutOfRange, match="last tick"):
                attempt()
        assert timer.fired
        assert (len(wheel), wheel.stats.started) == (0, 1)
        wheel.check()


@pytest.mark.parametrize("limit", [0, -1, 1.0, True, None, math.nan, pytest.param(-HUGE, id="-huge"), Unprintable()])
def test_a_limit_below_one_is_refused(wheel: Any, build: Build, limit: Any) -> None:
    timer = wheel.start(5)
    with pytest.raises(build.errors.InvalidLimit):
        wheel.advance(10, limit)
    assert_untouched(wheel, timer)


def ways_to_delay(wheel: Any, timer: Any, delay: Any) -> list[Callable[[], Any]]:
    """Every call that takes a delay."""
    return [
        lambda: wheel.start(delay, "x"),
        lambda: wheel.start_many([1, delay], ["x", "y"]),
        lambda: wheel.restart(timer, delay),
    ]


def assert_untouched(wheel: Any, timer: Any) -> None:
    wheel.check()
    assert wheel.now == 0
    assert len(wheel) == 1
    assert wheel.stats.started == 1
    assert wheel.advance(10) == [timer]
