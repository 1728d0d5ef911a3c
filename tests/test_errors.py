"""Every error can be made from any value that a caller may have given."""

import inspect
import pickle
from collections.abc import Hashable
from threading import Lock
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
ERRORS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.TickwheelError)]
KINDS = [kind for kind in ERRORS if "__init__" in vars(kind)]


def given(parameter: inspect.Parameter, value: Any) -> Any:
    if parameter.annotation in (object, Hashable):
        return value
    name = inspect.formatannotation(parameter.annotation).removeprefix("collections.abc.")
    return GIVEN[name.partition("[")[0]]


def test_every_error_is_public() -> None:
    assert {kind.__name__ for kind in ERRORS} - set(errors.__all__) == set()


@pytest.mark.parametrize("value", [pytest.param(HUGE, id="huge"), pytest.param(Unprintable(), id="unprintable")])
@pytest.mark.parametrize("kind", KINDS)
def test_an_error_is_made_from_a_value_that_cannot_be_printed(kind: Any, value: Any) -> None:
    parameters = list(inspect.signature(kind).parameters.values())
    arguments = [given(each, value) for each in parameters if each.kind is not each.KEYWORD_ONLY]
    assert str(kind(*arguments))


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_survives_pickling(kind: Any) -> None:
    parameters = list(inspect.signature(kind).parameters.values())
    error = kind(*(given(each, "value") for each in parameters if each.kind is not each.KEYWORD_ONLY))
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (kind, str(error), vars(error))


def test_the_error_about_what_cannot_be_pickled_can_be_pickled() -> None:
    error = errors.NotCopyable(Lock(), "make another one")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.type_name) == (str(error), "lock")


def test_a_delay_too_large_to_print_is_told() -> None:
    assert "delay <int too large to print> is longer than the 5 ticks" in str(errors.DelayOutOfRange(HUGE, 5))
    assert "delay <int too large to print> is negative" in str(errors.DelayOutOfRange(-HUGE, 5))


def test_a_value_is_shown_in_one_line() -> None:
    assert errors.shown("a") == "'a'"
    assert errors.shown("a" * 100) == f"'{'a' * 76}..."
    assert errors.shown(-HUGE) == "<int too large to print>"
    assert errors.shown(Unprintable()) == "<Unprintable, whose repr() fails>"


class Unclassed:
    @property  # type: ignore[misc] # read-only, as that of a lazy proxy
    def __class__(self) -> Any:
        raise RuntimeError("evaluated")

    def __repr__(self) -> str:
        return "<Unclassed>"


def test_a_value_whose_class_cannot_be_asked_for_is_shown() -> None:
    assert errors.shown(Unclassed()) == "<Unclassed>"
