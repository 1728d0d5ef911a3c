"""A cascade is bounded: an advance with a limit moves few timers, pauses, and the next one goes on.

hand on 59          minutes, slot 1:  [#1 #2 #3 #4 #5 #6]        seconds: (empty)
advance(99, 2)      minutes, slot 1:  [#3 #4 #5 #6]              seconds: #1 #2      the hand stays on 59
start(1)            minutes, slot 1:  [#3 #4 #5 #6 #7]           behind those that were started before
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.builds import Build

MANY = 5_000
HANDFUL = 100  # few enough to be looked at after every step
MOVES_SPARE = 1024  # what an advance may move besides as many as its limit

DAY = 86_400


def falling(build: Build, first: int, count: int, spare: int) -> tuple[Any, list[Any]]:
    """Make a wheel with timers that fall together, due on three ticks in turn."""
    wheel = build.wheels.HierarchicalWheel(build.wheels.CLOCK)
    wheel._moves_spare = spare
    timers = wheel.start_many([first + index % 3 for index in range(count)], range(count))
    return wheel, timers


def by_due(timers: list[Any]) -> list[int]:
    return [timer.payload for timer in sorted(timers, key=lambda timer: timer.due)]


def advance_fully(wheel: Any, to: int, limit: int, between: Callable[[], object] = bool) -> list[Any]:
    """Advance as often as it takes."""
    fired = []
    while True:
        cascaded = wheel.stats.cascaded
        batch = wheel.advance(to, limit)
        assert wheel.stats.cascaded - cascaded <= limit + wheel._moves_spare
        if not batch or len(wheel) < HANDFUL:
            wheel.check()
        fired += batch
        if len(batch) < limit and wheel.now == to:
            return fired
        between()


@pytest.mark.parametrize("first", [65, 3 * 3600 + 65, 5 * DAY + 65], ids=["minutes", "hours", "overflow"])
@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_a_limit_bounds_what_is_moved_and_nothing_is_late(build: Build, first: int, limit: int) -> None:
    wheel, timers = falling(build, first, MANY, MOVES_SPARE)
    assert wheel._moves_spare == build.wheels.HierarchicalWheel()._moves_spare
    expected = by_due(timers)
    calls = 0

    def count() -> None:
        nonlocal calls
        calls += 1
        if wheel.now < first:
            assert sum(map(sum, wheel.occupancy())) + wheel.stats.overflow == len(wheel) == MANY
            assert wheel.next_due() == wheel.now + 1

    assert [timer.payload for timer in advance_fully(wheel, first + 10, limit, count)] == expected
    assert calls >= MANY // (limit + MOVES_SPARE), "it paused"


def test_without_a_limit_an_advance_goes_all_the_way(build: Build) -> None:
    wheel, timers = falling(build, 5 * DAY + 65, MANY, 0)
    expected = by_due(timers)
    assert [timer.payload for timer in wheel.advance(6 * DAY)] == expected
    assert wheel.now == 6 * DAY


@pytest.fixture(params=[65, 5 * DAY + 65], ids=["minutes", "overflow"])
def paused(request: pytest.FixtureRequest, build: Build) -> tuple[Any, list[Any]]:
    """A wheel in the middle of a cascade: four of six timers have not moved down yet."""
    wheel, timers = falling(build, request.param, 6, 0)
    # On the way from beyond the last dial all of them move a few times.
    while wheel._filled == 0 or len({timer.slot.level for timer in timers}) == 1:
        assert wheel.advance(request.param + 100, 2) == []
    assert wheel.now < request.param
    wheel.check()
    return wheel, timers


def test_a_paused_cascade_says_that_there_is_more_to_do(paused: tuple[Any, list[Any]]) -> None:
    wheel, timers = paused
    assert wheel.next_due() == wheel.now + 1
    assert len(wheel) == 6
    assert wheel.advance(wheel.now, 1) == []
    assert advance_fully(wheel, timers[-1].due, 1) == sorted(timers, key=lambda timer: timer.due)


def test_starts_during_a_cascade_fire_behind_those_of_their_tick(paused: tuple[Any, list[Any]]) -> None:
    wheel, timers = paused
    expected = []
    for tick in sorted({timer.due for timer in timers}):
        expected += [timer.payload for timer in timers if timer.due == tick] + [f"started for {tick}"]
        wheel.start(tick - wheel.now, f"started for {tick}")
        wheel.check()
    wheel.start(10**6, "far")
    wheel.start(1, "next")
    wheel.check()
    fired = advance_fully(wheel, timers[0].due + 50, 2)
    assert [timer.payload for timer in fired] == ["next", *expected]


def test_timers_are_stopped_and_restarted_wherever_a_cascade_has_left_them(paused: tuple[Any, list[Any]]) -> None:
    wheel, timers = paused
    # In pairs: #0 and #1 have moved down furthest, #4 and #5 not yet.
    for stopped, restarted in ((timers[0], timers[1]), (timers[4], timers[5])):
        assert wheel.stop(stopped)
        wheel.check()
        wheel.restart(restarted, timers[2].due - wheel.now)
        wheel.check()
    fired = advance_fully(wheel, timers[2].due + 50, 1)
    assert [timer.payload for timer in fired] == [3, 2, 1, 5]


def test_a_cascade_whose_rest_was_stopped_is_over(paused: tuple[Any, list[Any]]) -> None:
    wheel, timers = paused
    for timer in timers[1:]:
        wheel.stop(timer)
        wheel.check()
    assert advance_fully(wheel, timers[0].due, 1) == timers[:1]
    wheel.start(1, "later")
    assert [timer.payload for timer in wheel.advance(wheel.now + 1)] == ["later"]


def test_a_wheel_closed_during_a_cascade_has_stopped_everything(paused: tuple[Any, list[Any]]) -> None:
    wheel, timers = paused
    wheel.close()
    assert all(timer.stopped and timer.payload is None for timer in timers)
    assert (len(wheel), wheel.next_due()) == (0, None)
    wheel.check()


def test_a_level_made_during_a_cascade_begins_where_it_should(build: Build) -> None:
    wheel = build.wheels.HierarchicalWheel([(1, 4), (4, 4), (16, 4), (64, 4)])
    wheel._moves_spare = 0
    wheel.start_many([12, 12, 13], "abc")
    assert wheel.advance(15, 1) == []
    assert wheel._filled == 1
    wheel.start(100, "on a level that was not there")
    wheel.start(1000, "beyond all of them")
    wheel.check()
    fired = [(timer.due, timer.payload) for timer in advance_fully(wheel, 2000, 1)]
    assert fired[:3] == [(12, "a"), (12, "b"), (13, "c")]
    assert fired[3:] == [(11 + 100, "on a level that was not there"), (11 + 1000, "beyond all of them")]
