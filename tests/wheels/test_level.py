"""A dial finds its slots without dividing, and exactly."""

import importlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builds import BUILDS, Build


@pytest.mark.parametrize("build", BUILDS, ids=str)
@given(tick=st.integers(1, 2**40), slots=st.integers(1, 65_536))
def test_multiplying_by_the_reciprocal_is_dividing(build: Build, tick: int, slots: int) -> None:
    module = build.modules.get("tickwheel.wheels.level") or importlib.import_module("tickwheel.wheels.level")
    span = tick * slots
    scale, shift = module.reciprocal(tick, span)
    if scale == 0:
        assert span >= 2**31, "small spans never need to divide"
        return
    assert span * scale < 2**63, "the product fits a native integer"
    for slot in {0, 1, slots // 2, slots - 1, slots}:
        for tick_of_turn in {max(slot * tick - 1, 0), slot * tick, min(slot * tick + tick - 1, span)}:
            assert tick_of_turn * scale >> shift == tick_of_turn // tick


def test_the_presets_divide_only_where_a_turn_takes_years(build: Build) -> None:
    module = build.modules.get("tickwheel.wheels.level") or importlib.import_module("tickwheel.wheels.level")
    for preset in ("CLOCK", "DEFAULT", "GAME", "ORDER", "BINARY"):
        for dial in getattr(build.wheels, preset).dials:
            assert module.reciprocal(dial.tick, dial.span)[0] != 0
