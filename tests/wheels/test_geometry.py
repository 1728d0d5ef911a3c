"""Geometries that work, and clear words about those that cannot."""

from typing import Any

import pytest

from tests.builds import Build
from tests.wheels.schemes import HUGE, Unprintable

MILLISECOND = 10**6
SECOND = 10**9
DAY = 86_400 * SECOND


@pytest.mark.parametrize(
    ("preset", "levels"),
    [
        ("CLOCK", [(1000, 60), (60_000, 60), (3_600_000, 24)]),
        ("DEFAULT", [(10, 100), (1000, 60), (60_000, 60), (3_600_000, 24), (86_400_000, 30)]),
        ("GAME", [(10, 100), (100, 100), (1000, 300)]),
        ("ORDER", [(1000, 60), (60_000, 60), (3_600_000, 24), (86_400_000, 30)]),
    ],
)
def test_presets_have_the_levels_they_are_named_for(build: Build, preset: str, levels: list[tuple[int, int]]) -> None:
    geometry = getattr(build.wheels, preset)
    assert geometry == build.wheels.Geometry([(tick * MILLISECOND, slots) for tick, slots in levels])


def test_century_reaches_a_hundred_years_in_six_levels(build: Build) -> None:
    century = build.wheels.CENTURY
    assert len(century.dials) == 6
    assert century.span * century.tick_ns >= 36_525 * DAY


def test_binary_has_64_slots_of_powers_of_64_milliseconds(build: Build) -> None:
    binary = build.wheels.BINARY
    assert binary.tick_ns == MILLISECOND
    assert [(dial.tick, dial.slots) for dial in binary.dials] == [(64**level, 64) for level in range(6)]


def test_dials_are_measured_in_ticks_of_the_first(build: Build) -> None:
    dials = build.wheels.DEFAULT.dials
    assert [(dial.tick, dial.span) for dial in dials[:3]] == [(1, 100), (100, 6_000), (6_000, 360_000)]


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ([], "1 to 16 levels, not 0"),
        ([(2**level, 2) for level in range(17)], "1 to 16 levels, not 17"),
        (5, r"a list of \(tick, slots\), not 5"),
        (Unprintable(), "not <Unprintable, whose repr.. fails>"),
        ([5], r"level 0: expected \(tick, slots\), not 5"),
        ([(1, 60), (60, 60, 60)], r"level 1: expected \(tick, slots\), not \(60, 60, 60\)"),
        pytest.param([(1, HUGE)], "not <int too large to print>", id="slots"),
        pytest.param([(-HUGE, 1)], "not <int too large to print>", id="tick"),
        pytest.param([(1, 60), (HUGE, 60)], "tick of <int too large to print> does not divide", id="tick above"),
        ([(1, Unprintable())], "not <Unprintable, whose repr.. fails>"),
        ([(1, 0)], "level 0: a dial has 1 to 65536 slots, not 0"),
        ([(1, 65_537)], "not 65537"),
        ([(1, 2.0)], "not 2.0"),
        ([(0, 60)], "level 0: a tick is an int of at least 1, not 0"),
        ([(-1, 60)], "not -1"),
        ([(1.5, 60)], "not 1.5"),
        ([(True, 60)], "not True"),
        ([(1, 60), (1, 60)], "not a larger multiple of the tick of level 0"),
        ([(60, 60), (1, 60)], "order the levels from fast to slow"),
        ([(10, 3), (15, 8)], "15 is not a larger multiple of the tick of level 0 .10."),
        ([(1, 60), (45, 10)], "45 does not divide the turn of level 0 .60."),
        ([(1, 60), (120, 10)], "120 does not divide the turn of level 0"),
        ([(1, 10), (5, 3)], "turn of 15 is not a larger multiple of the turn of level 0 .10."),
        ([(1, 60), (60, 1)], "turn of 60 is not a larger multiple"),
        ([(65_536**level, 65_536) for level in range(5)], "the most a wheel can count"),
    ],
)
def test_a_geometry_that_cannot_work_is_refused(build: Build, levels: list[Any], words: str) -> None:
    for make in (build.wheels.Geometry, build.wheels.HierarchicalWheel):
        with pytest.raises(build.errors.InvalidGeometry, match=words):
            make(levels)


@pytest.mark.parametrize("scheme", ["SimpleWheel", "HashedWheel", "SortedHashedWheel"])
@pytest.mark.parametrize("slots", [0, -1, 65_537, 1.5, True, None])
def test_a_dial_of_impossible_size_is_refused(build: Build, scheme: str, slots: Any) -> None:
    with pytest.raises(build.errors.InvalidGeometry, match="1 to 65536 slots"):
        getattr(build.wheels, scheme)(slots)


@pytest.mark.parametrize("now", [-1, 1.0, True, 2**62])
def test_a_hand_that_cannot_stand_there_is_refused(build: Build, now: Any) -> None:
    expected = build.errors.InvalidOption if type(now) is int else build.errors.NotWholeTicks
    with pytest.raises(expected, match="now must be a"):
        build.wheels.HierarchicalWheel(now=now)


def test_geometries_compare_by_their_levels(build: Build) -> None:
    geometry = build.wheels.Geometry([(1, 2), (2, 4)])
    assert geometry == build.wheels.Geometry([(1, 2), (2, 4)])
    assert hash(geometry) == hash(build.wheels.Geometry([(1, 2), (2, 4)]))
    assert geometry != build.wheels.Geometry([(1, 2)])
    assert repr(geometry) == "Geometry([(1, 2), (2, 4)])"


def test_an_empty_wheel_of_a_hundred_years_has_dials_and_no_slots(build: Build) -> None:
    wheel = build.wheels.HierarchicalWheel(build.wheels.CENTURY)
    assert len(wheel._levels) == 6
    assert wheel._slots() == []
    wheel.start(5)
    assert len(wheel._slots()) == 1
    wheel.start(wheel.geometry.span - 1)
    assert len(wheel._slots()) == 2
