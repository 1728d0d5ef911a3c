"""Durations as people write them, on both builds."""

import re
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal, localcontext
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builds import BUILDS, Build
from tickwheel import ManualTimers
from tickwheel.durations import DURATION_NS_MAX
from tickwheel.errors import InvalidDuration

SECOND = 10**9
UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND, "d": 86_400 * SECOND}


class Level(IntEnum):
    LOW = 3


class Span(StrEnum):
    SHORT = "250ms"


class OldSpan(str, Enum):  # noqa: UP042 - prints as OldSpan.SHORT, unlike a StrEnum
    SHORT = "250ms"


class LoudInt(int):
    """An int with conversions of its own, which do not count."""

    def __index__(self) -> int:
        return 99

    def __int__(self) -> int:
        return 99

    def __mul__(self, other: object) -> int:
        return 99

    def __repr__(self) -> str:
        return "99"


class LoudFloat(float):
    """A float with conversions of its own, which do not count."""

    def __float__(self) -> float:
        return 99.0

    def __repr__(self) -> str:
        return "99.0"


@pytest.fixture
def to_ns(build: Build) -> Callable[[Any], int]:
    """The function of one build, without what the other has cached."""
    return function_of(build)


def function_of(build: Build) -> Callable[[Any], int]:
    module = build.modules.get("tickwheel.durations") or sys.modules["tickwheel.durations"]
    function: Callable[[Any], int] = module.to_ns
    return function


def error_of(build: Build) -> type[Exception]:
    error: type[Exception] = build.errors.InvalidDuration
    return error


@pytest.mark.parametrize(
    ("written", "ns"),
    [
        (0, 0),
        (-0.0, 0),
        (7, 7 * SECOND),
        (1_234_561, 1_234_561 * SECOND),
        (0.1, SECOND // 10),
        (0.07, 70_000_000),
        (1e-9, 1),
        (9999.999999999, 9_999_999_999_999),
        (1_234_561.000000001, 1_234_561 * SECOND + 1),
        (3e10, 30 * SECOND * SECOND),
        ("30d", 30 * 86_400 * SECOND),
        ("1h30m", 5400 * SECOND),
        (" 1 h 30 m ", 5400 * SECOND),
        ("1.5h", 5400 * SECOND),
        ("250ms", SECOND // 4),
        ("10us", 10_000),
        ("10µs", 10_000),
        ("10\u03bcs", 10_000),
        ("5ns", 5),
        ("0.5ns0.5ns", 1),
        ("2w", 14 * 86_400 * SECOND),
        ("PT5M", 300 * SECOND),
        ("pt5m", 300 * SECOND),
        ("P1DT12H", 36 * 3600 * SECOND),
        ("P2W", 14 * 86_400 * SECOND),
        ("PT0.5S", SECOND // 2),
        ("PT0,5S", SECOND // 2),
        ("P1,5D", 36 * 3600 * SECOND),
        (timedelta(days=30, microseconds=1), 30 * 86_400 * SECOND + 1000),
        (31_557_600_000, DURATION_NS_MAX),
        ("31557600000s", DURATION_NS_MAX),
        (Level.LOW, 3 * SECOND),
        (LoudInt(3), 3 * SECOND),
        (LoudFloat(0.1), SECOND // 10),
        (Span.SHORT, SECOND // 4),
        (OldSpan.SHORT, SECOND // 4),
        (Decimal("0.1"), SECOND // 10),
        (Decimal("1E+3"), 1000 * SECOND),
        (Decimal("1E-999999"), 1),
        (Decimal("0E+999999"), 0),
        (Fraction(1, 3), 333_333_334),
        (np.int64(3), 3 * SECOND),
        (np.uint8(200), 200 * SECOND),
        (np.float64(0.1), SECOND // 10),
        (np.float32(0.5), SECOND // 2),
        (np.float32(0.1), 100_000_002),  # the float 0.10000000149011612, rounded up
        (np.longdouble(2), 2 * SECOND),
    ],
)
def test_a_duration_is_read_to_the_nanosecond(to_ns: Callable[[Any], int], written: Any, ns: int) -> None:
    result = to_ns(written)
    assert result == ns
    assert type(result) is int


@pytest.mark.parametrize(
    "written", [1e-10, 3e-10, "0.1ns", 1.0000000004, 1.000000000001, "PT1.0000000004S", Decimal("1E-10"), 5e-324]
)
def test_what_is_finer_than_a_nanosecond_is_rounded_up(to_ns: Callable[[Any], int], written: Any) -> None:
    assert to_ns(written) % SECOND == 1


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (True, "expected seconds, a timedelta, or text"),
        (np.True_, "expected seconds"),
        (np.timedelta64(5, "m"), "expected seconds"),
        (np.array(5.0), "expected seconds"),
        (1j, "expected seconds"),
        (None, "expected seconds"),
        (b"5s", "expected seconds"),
        ("1,500s", "commas are ambiguous; write '1.5s' or '1500s'"),
        ("1,5h", "commas are ambiguous"),
        (-1, "must not be negative"),
        (-0.5, "must not be negative"),
        (-1e-12, "must not be negative"),
        (Decimal("-1E-999999"), "must not be negative"),
        (Fraction(-1, 3), "must not be negative"),
        (timedelta(microseconds=-1), "must not be negative"),
        (float("nan"), "must be a finite number"),
        (float("-inf"), "must be a finite number"),
        (Decimal("sNaN"), "must be a finite number"),
        (Decimal("Infinity"), "must be a finite number"),
        (np.float32("nan"), "must be a finite number"),
        (1e12, "must be at most 1,000 years"),
        (1e308, "must be at most 1,000 years"),
        (31_557_600_001, "must be at most 1,000 years"),
        (10**5000, "must be at most 1,000 years"),
        (Fraction(10**5000), "must be at most 1,000 years"),
        (Decimal("1E+999999"), "must be at most 1,000 years"),
        (timedelta.max, "must be at most 1,000 years"),
        ("31557600000.000000001s", "must be at most 1,000 years"),
        ("-5s", "must not be negative"),
        ("-1h30m", "must not be negative"),
        ("-PT5M", "must not be negative"),
        ("--5s", "expected numbers with units"),
        ("-", "expected numbers with units"),
        ("1h-30m", "expected numbers with units"),
        ("1H", "lower case"),
        ("5", "expected numbers with units"),
        ("", "expected numbers with units"),
        ("1h30", "expected numbers with units"),
        ("5 bananas", "expected numbers with units"),
        ("\u0663s", "expected numbers with units"),  # an Arabic digit
        ("PT1\u017f", "expected ISO 8601"),  # a long s, whose capital is S
        ("P", "expected ISO 8601"),
        ("PT", "expected ISO 8601"),
        ("P1Y", "expected ISO 8601"),
        ("P1M", "expected ISO 8601"),
        ("P1D5", "expected ISO 8601"),
        ("1" * 10**6, "must have at most 200 characters"),
        ("1" * 10**6 + "s", "must have at most 200 characters"),
        ("1s" * 10**6, "must have at most 200 characters"),
        (" " * 10**6 + "1s", "must have at most 200 characters"),
        (Decimal("0." + "1" * 1000), "must have at most 200 digits"),
    ],
    ids=lambda value: repr(value)[:30] if not isinstance(value, (int, Fraction)) else f"{type(value).__name__}",
)
def test_other_values_are_refused_with_a_reason(build: Build, written: Any, why: str) -> None:
    with pytest.raises(error_of(build), match=re.escape(why)) as caught:
        function_of(build)(written)
    assert str(caught.value).startswith("invalid duration ")
    assert len(str(caught.value)) < 300


def test_the_error_shows_the_value() -> None:
    assert str(InvalidDuration("5 bananas", "why")) == "invalid duration '5 bananas': why"
    assert str(InvalidDuration(10**5000, "why")) == "invalid duration <int too large to print>: why"
    assert str(InvalidDuration("1" * 10**6, "why")) == f"invalid duration '{'1' * 76}...: why"


@pytest.mark.parametrize(
    "written", [1_234_561, "1234561s", "1234561.5s", 1_234_561.5, Decimal("1234561.5"), "PT1234561S"]
)
def test_the_callers_decimal_context_plays_no_part(to_ns: Callable[[Any], int], written: Any) -> None:
    exact = 1_234_561_500_000_000 if ".5" in str(written) else 1_234_561_000_000_000
    with localcontext(prec=6, Emax=3, Emin=-3, capitals=0):
        assert to_ns(written) == exact
    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(to_ns(written)))  # a context of its own
    thread.start()
    thread.join()
    assert results == [exact]


def test_a_timer_made_in_a_coarse_decimal_context_does_not_fire_early() -> None:
    timers = ManualTimers()
    fired: list[str] = []
    with localcontext(prec=6):
        timers.after(1_234_561, fired.append, "number")
        timers.after("1234561s", fired.append, "text")
    timers.advance(1_234_560.999_999_999)
    assert fired == []
    timers.advance("1ns")
    assert fired == ["number", "text"]


def exact_ns(written: Any) -> int:
    """Return the nanoseconds by exact arithmetic on the decimal number that Python prints."""
    number = written if isinstance(written, (int, Fraction)) else str(written)
    return ceil(Fraction(number) * SECOND)


NUMBERS = (
    st.floats(0, 1e-6)
    | st.floats(0, 1e4)
    | st.floats(0, 3e10)
    | st.decimals(0, 9999, places=9).map(float)
    | st.decimals(0, 9999, places=12).map(float)
    | st.decimals(0, 10**6, places=9).map(float)
    | st.integers(0, 31_557_600_000)
    | st.decimals(0, 31_557_600_000, allow_nan=False)
    | st.fractions(0, 31_557_600_000)
)


@given(NUMBERS)
def test_a_number_means_the_decimal_that_python_prints(seconds: Any) -> None:
    assert [function_of(build)(seconds) for build in BUILDS] == [exact_ns(seconds)] * len(BUILDS)


@given(st.lists(st.tuples(st.decimals(0, 1000, places=12), st.sampled_from(sorted(UNITS))), min_size=1, max_size=5))
def test_text_is_the_exact_sum_of_its_parts_rounded_up(parts: list[tuple[Decimal, str]]) -> None:
    text = " ".join(f"{number:f}{unit}" for number, unit in parts)
    exact = ceil(sum(Fraction(number) * UNITS[unit] for number, unit in parts))
    assert [function_of(build)(text) for build in BUILDS] == [exact] * len(BUILDS)


@given(
    st.text("0123456789.,eEpPtTwdhmsnuµ -+", max_size=12)
    | st.floats()
    | st.integers()
    | st.decimals()
    | st.timedeltas()
)
def test_both_builds_accept_and_refuse_the_same(written: Any) -> None:
    answers = set()
    for build in BUILDS:
        try:
            answers.add(str(function_of(build)(written)))
        except error_of(build) as error:
            answers.add(str(error))
    assert len(answers) == 1


def test_durations_need_no_numpy() -> None:
    script = "import sys; from tickwheel.durations import to_ns; print(to_ns(1), 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "1000000000 False\n"
