"""Durations as people write them."""

from datetime import timedelta
from decimal import Decimal
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwheel.durations import to_ns
from tickwheel.errors import InvalidDuration

SECOND = 10**9


@pytest.mark.parametrize(
    ("written", "ns"),
    [
        (0, 0),
        (7, 7 * SECOND),
        (0.1, SECOND // 10),
        (0.07, 70_000_000),
        (1e-9, 1),
        ("30d", 30 * 86_400 * SECOND),
        ("1h30m", 5400 * SECOND),
        (" 1 h 30 m ", 5400 * SECOND),
        ("1.5h", 5400 * SECOND),
        ("1,5h", 5400 * SECOND),
        ("250ms", SECOND // 4),
        ("10us", 10_000),
        ("10µs", 10_000),
        ("5ns", 5),
        ("2w", 14 * 86_400 * SECOND),
        ("PT5M", 300 * SECOND),
        ("pt5m", 300 * SECOND),
        ("P1DT12H", 36 * 3600 * SECOND),
        ("P2W", 14 * 86_400 * SECOND),
        ("PT0.5S", SECOND // 2),
        (timedelta(days=30, microseconds=1), 30 * 86_400 * SECOND + 1000),
    ],
)
def test_a_duration_is_read_to_the_nanosecond(written: Any, ns: int) -> None:
    assert to_ns(written) == ns


@pytest.mark.parametrize("written", [1e-10, 3e-10, "0.1ns", 1.0000000004, "PT1.0000000004S"])
def test_what_is_finer_than_a_nanosecond_is_rounded_up(written: Any) -> None:
    assert to_ns(written) % SECOND == 1


@pytest.mark.parametrize(
    "written",
    [
        True,
        None,
        -1,
        -0.5,
        "-5s",
        float("nan"),
        float("inf"),
        "5",
        "",
        "P",
        "PT",
        "P1Y",
        "P1M",
        "P1D5",
        "1h30",
        "5 parsecs",
        1e12,
        b"5s",
    ],
)
def test_what_is_no_duration_is_refused_with_words(written: Any) -> None:
    with pytest.raises(InvalidDuration, match="is no duration: "):
        to_ns(written)


@given(st.floats(0, 1e6) | st.decimals(0, 9999, places=9).map(float))
def test_a_float_means_the_decimal_it_is_written_as(seconds: float) -> None:
    exact = Decimal(repr(seconds)) * SECOND
    assert to_ns(seconds) == ceil(exact) or abs(to_ns(seconds) - exact) < Decimal("0.01")
