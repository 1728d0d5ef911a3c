"""A year of membership is a year of the calendar, and nine o'clock that of the place."""

import runpy
from datetime import UTC, date, datetime
from typing import Any

import pytest

from tests.examples.commands import EXAMPLES

NAMES: dict[str, Any] = runpy.run_path(str(EXAMPLES / "membership_reminder.py"))


@pytest.mark.parametrize(
    ("joined", "years", "over"),
    [
        (date(2024, 2, 29), 1, date(2025, 2, 28)),
        (date(2024, 2, 29), 4, date(2028, 2, 29)),
        (date(2024, 2, 29), 76, date(2100, 2, 28)),
        (date(2023, 3, 1), 1, date(2024, 3, 1)),
        (date(2023, 12, 31), 2, date(2025, 12, 31)),
    ],
)
def test_a_year_is_over_on_the_same_day(joined: date, years: int, over: date) -> None:
    assert NAMES["anniversary"](joined, years) == over


def test_the_reminder_comes_at_nine_by_the_clocks_of_that_day() -> None:
    before_clocks_go_back = NAMES["reminder_at"](NAMES["Member"](date(2023, 11, 5), "America/New_York"), 1)
    assert before_clocks_go_back.astimezone(UTC) == datetime(2024, 10, 29, 13, tzinfo=UTC)
    across_new_year = NAMES["reminder_at"](NAMES["Member"](date(2024, 1, 3), "Asia/Shanghai"), 1)
    assert across_new_year.astimezone(UTC) == datetime(2024, 12, 27, 1, tzinfo=UTC)
