"""Every error can be made from any value that a caller may have given."""

import inspect
from collections.abc import Hashable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.wheels.schemes import HUGE, Unprintable
from tickwheel import errors

# What the parameters of other types are given.
GIVEN = {
    "int": 1,
    "float": 1.0,
    "bool": True,
    "int | None": 1,
    "str": "x",
    "str | None": "x",
    "Sequence": ["x"],
    "Any": SimpleNamespace(id="x", status="pending"),  # a task
}
KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.TickwheelError) and "__init__" in vars(kind)
]


def given(parameter: inspect.Parameter, value: Any) -> Any:
    if parameter.annotation in (object, Hashable):
        return value
    name = inspect.formatannotation(parameter.annotation).removeprefix("collections.abc.")
    return GIVEN[name.partition("[")[0]]


@pytest.mark.parametrize("value", [pytest.param(HUGE, id="huge"), pytest.param(Unprintable(), id="unprintable")])
@pytest.mark.parametrize("kind", KINDS)
def test_an_error_is_made_from_a_value_that_cannot_be_printed(kind: Any, value: Any) -> None:
    parameters = list(inspect.signature(kind).parameters.values())
    arguments = [given(each, value) for each in parameters if each.kind is not each.KEYWORD_ONLY]
    assert str(kind(*arguments))


def test_a_delay_too_large_to_print_is_told() -> None:
    assert "delay <int too large to print> is longer than the 5 ticks" in str(errors.DelayOutOfRange(HUGE, 5))
    assert "delay <int too large to print> is negative" in str(errors.DelayOutOfRange(-HUGE, 5))


def test_a_value_is_shown_in_one_line() -> None:
    assert errors.shown("a") == "'a'"
    assert errors.shown("a" * 100) == f"'{'a' * 76}..."
    assert errors.shown(-HUGE) == "<int too large to print>"
    assert errors.shown(Unprintable()) == "<Unprintable, whose repr() fails>"
