"""Triggers name the right moments, in the nights in which clocks are changed as well."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from tickwheel.errors import InvalidCron, InvalidSchedule
from tickwheel.tasks import Cron, Every, Once, Trigger, preview
from tickwheel.tasks.triggers import NICKNAMES

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"


def ms(text: str) -> int:
    """Return a moment that is written in ISO 8601, in UTC unless it says otherwise."""
    moment = datetime.fromisoformat(text)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def times(expression: str, tz: str, after: str, n: int) -> list[str]:
    return [each.local for each in preview(Cron(expression, tz), ms(after), n)]


# -- once, every


def test_once_has_no_other_time() -> None:
    assert Once().next_after(0) is None
    assert preview(Once(), 0, 5) == []


@given(st.integers(0, 2**50), st.integers(1, 2**40))
def test_every_takes_equal_steps(moment: int, interval_ms: int) -> None:
    assert Every(interval_ms).next_after(moment) == moment + interval_ms


def test_every_does_not_drift_in_a_million_steps() -> None:
    every, begin = Every(333), ms("2026-01-01")
    moment = begin
    for _ in range(1_000_000):
        moment = every.next_after(moment)
    assert moment - begin == 333_000_000


@pytest.mark.parametrize("interval_ms", [0, -1])
def test_interval_below_a_millisecond_is_refused(interval_ms: int) -> None:
    with pytest.raises(InvalidSchedule, match="expected an int from 1 to"):
        Every(interval_ms)


# -- clocks go forward


@pytest.mark.parametrize(
    ("tz", "expression", "after", "expected"),
    [
        (BERLIN, "30 2 * * *", "2026-03-28T12:00", ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]),
        (BERLIN, "15,45 2 * * *", "2026-03-28T12:00", ["2026-03-29T03:00:00+02:00", "2026-03-30T02:15:00+02:00"]),
        (BERLIN, "0 2,3 * * *", "2026-03-28T12:00", ["2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"]),
        (BERLIN, "30 2,3 * * *", "2026-03-28T12:00", ["2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00"]),
        (BERLIN, "5 30 2 * * *", "2026-03-28T12:00", ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:05+02:00"]),
        (BERLIN, "*/30 2 * * *", "2026-03-28T12:00", ["2026-03-30T02:00:00+02:00", "2026-03-30T02:30:00+02:00"]),
        (BERLIN, "30 * * * *", "2026-03-29T00:00", ["2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00"]),
        (NEW_YORK, "30 2 * * *", "2026-03-07T12:00", ["2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"]),
        (NEW_YORK, "30 */2 * * *", "2026-03-08T05:00", ["2026-03-08T00:30:00-05:00", "2026-03-08T04:30:00-04:00"]),
        (LORD_HOWE, "15 2 * * *", "2026-10-03T12:00", ["2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"]),
        (LORD_HOWE, "45 * * * *", "2026-10-03T15:00", ["2026-10-04T01:45:00+10:30", "2026-10-04T02:45:00+11:00"]),
    ],
)
def test_clocks_go_forward(tz: str, expression: str, after: str, expected: list[str]) -> None:
    assert times(expression, tz, after, 2) == expected


# -- clocks go back


@pytest.mark.parametrize(
    ("tz", "expression", "after", "expected"),
    [
        (BERLIN, "30 2 * * *", "2026-10-24T12:00", ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]),
        (BERLIN, "0 30 2 * * *", "2026-10-24T12:00", ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]),
        (BERLIN, "30 * * * *", "2026-10-25T00:00", ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"]),
        (BERLIN, "*/40 2 * * *", "2026-10-25T00:30", ["2026-10-25T02:40:00+02:00", "2026-10-25T02:00:00+01:00"]),
        (NEW_YORK, "30 1 * * *", "2026-10-31T12:00", ["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"]),
        (NEW_YORK, "0 * * * *", "2026-11-01T04:30", ["2026-11-01T01:00:00-04:00", "2026-11-01T01:00:00-05:00"]),
        (LORD_HOWE, "45 1 * * *", "2026-04-04T12:00", ["2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"]),
        (LORD_HOWE, "45 * * * *", "2026-04-04T14:00", ["2026-04-05T01:45:00+11:00", "2026-04-05T01:45:00+10:30"]),
        (LORD_HOWE, "*/15 2 * * *", "2026-04-04T14:00", ["2026-04-05T02:00:00+10:30", "2026-04-05T02:15:00+10:30"]),
    ],
)
def test_clocks_go_back(tz: str, expression: str, after: str, expected: list[str]) -> None:
    assert times(expression, tz, after, 2) == expected


def test_fixed_time_asked_for_in_the_second_hour_is_not_in_the_past() -> None:
    """A regression: the first 02:30 was named, an hour after it had been."""
    after = "2026-10-25T02:10:00+01:00"
    assert times("30 2 * * *", BERLIN, after, 1) == ["2026-10-26T02:30:00+01:00"]


NIGHTS = [
    (BERLIN, "2026-03-29T00:00"),
    (BERLIN, "2026-10-25T00:00"),
    (NEW_YORK, "2026-03-08T06:00"),
    (NEW_YORK, "2026-11-01T05:00"),
    (LORD_HOWE, "2026-10-03T14:30"),
    (LORD_HOWE, "2026-04-04T14:00"),
]


@pytest.mark.parametrize(("tz", "middle"), NIGHTS)
@pytest.mark.parametrize("expression", ["* * * * *", "*/7 * * * *", "45 * * * *", "*/20 1-2 * * *", "10 */2 * * *"])
def test_rhythm_is_every_moment_clocks_show_it(tz: str, middle: str, expression: str) -> None:
    """Compare with looking at the clock in every minute of six hours, from any of them."""
    minutes = [ms(middle) + minute * 60_000 for minute in range(-180, 181)]
    walls = [datetime.fromtimestamp(each / 1000, ZoneInfo(tz)).replace(tzinfo=None, fold=0) for each in minutes]
    shown = [
        moment
        for moment, wall in zip(minutes, walls, strict=True)
        if next(CronSim(expression, wall - timedelta(seconds=1))) == wall
    ]
    cron = Cron(expression, tz)
    for moment in minutes:
        following = next((each for each in shown if each > moment), None)
        if following is not None:
            assert cron.next_after(moment) == following
            assert cron.next_after(moment + 999) == following


@pytest.mark.parametrize(("tz", "middle"), NIGHTS)
@given(data=st.data())
def test_next_is_always_later_and_nothing_lies_between(tz: str, middle: str, data: st.DataObject) -> None:
    minute = data.draw(st.sampled_from(["*", "*/5", "0", "30", "15,45", "0-59"]))
    hour = data.draw(st.sampled_from(["*", "*/2", "1", "2", "1,2,3", "0-23"]))
    moment = ms(middle) + data.draw(st.integers(-10_800_000, 10_800_000))
    cron = Cron(f"{minute} {hour} * * *", tz)
    following = cron.next_after(moment)
    assert following is not None
    assert following > moment
    between = data.draw(st.integers(moment, following - 1))
    assert cron.next_after(between) == following


# -- the calendar


def test_leap_days_come_in_leap_years() -> None:
    assert times("0 0 29 2 *", "UTC", "2026-01-01", 2) == ["2028-02-29T00:00:00+00:00", "2032-02-29T00:00:00+00:00"]
    assert times("0 0 29 2 *", "UTC", "2096-03-01", 1) == ["2104-02-29T00:00:00+00:00"]  # 2100 has none


def test_last_days_and_weekdays() -> None:
    assert times("0 0 L * *", "UTC", "2028-02-01", 1) == ["2028-02-29T00:00:00+00:00"]
    assert times("0 0 LW * *", "UTC", "2026-05-01", 1) == ["2026-05-29T00:00:00+00:00"]
    assert times("0 0 * * 5L", "UTC", "2026-05-01", 1) == ["2026-05-29T00:00:00+00:00"]
    assert times("0 0 * * FRI#2", "UTC", "2026-05-01", 1) == ["2026-05-08T00:00:00+00:00"]


def test_day_of_month_and_of_week_are_alternatives() -> None:
    assert times("0 0 13 * 5", "UTC", "2026-05-01", 2) == ["2026-05-08T00:00:00+00:00", "2026-05-13T00:00:00+00:00"]
    assert times("0 0 */13 * 5", "UTC", "2026-05-01", 1) == ["2026-08-14T00:00:00+00:00"]


def test_six_fields_begin_with_seconds() -> None:
    expected = ["2026-01-01T12:00:20+00:00", "2026-01-01T12:00:40+00:00", "2026-01-01T12:01:00+00:00"]
    assert times("*/20 * * * * *", "UTC", "2026-01-01T12:00", 3) == expected


@pytest.mark.parametrize("nickname", NICKNAMES)
def test_nickname_is_what_it_stands_for(nickname: str) -> None:
    assert times(nickname, BERLIN, "2026-03-01", 30) == times(NICKNAMES[nickname], BERLIN, "2026-03-01", 30)


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "* * * *",
        "* * * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "0 0 0 * *",
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
        "0 0 * 13 *",
        "0 0 * * 8",
        "*/0 * * * *",
        "5-1 * * * *",
        "a b c d e",
        "@reboot",
        "٣ * * * *",
        f"{'1' * 5000} * * * *",
    ],
)
def test_what_no_calendar_has_is_refused(expression: str) -> None:
    with pytest.raises(InvalidCron) as caught:
        Cron(expression)
    assert len(str(caught.value)) < 300
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("tz", ["Europe/Atlantis", "", "Europe", "../../etc/passwd", "Europe/Berlin\0", "CET/"])
def test_unknown_zone_is_refused(tz: str) -> None:
    with pytest.raises(InvalidCron, match="no time zone"):
        Cron("0 0 * * *", tz)


def test_what_is_not_text_is_refused() -> None:
    for given_values in ((None, "UTC"), (["*"], "UTC"), ("* * * * *", None)):
        with pytest.raises(InvalidCron, match="not text"):
            Cron(*given_values)


def test_calendar_ends_with_the_year_9999() -> None:
    cron = Cron("0 0 1 1 *", BERLIN)
    assert cron.next_after(ms("9999-06-01")) is None
    assert cron.next_after(10**18) is None
    assert times("0 0 1 1 *", "UTC", "9997-06-01", 5) == ["9998-01-01T00:00:00+00:00", "9999-01-01T00:00:00+00:00"]


def test_moments_before_1970_and_within_a_second_are_fine() -> None:
    assert times("0 0 1 1 *", "UTC", "1960-06-01", 1) == ["1961-01-01T00:00:00+00:00"]
    cron = Cron("* * * * * *")
    assert cron.next_after(999) == 1000
    assert cron.next_after(1000) == 2000


# -- preview


def test_preview_tells_what_a_change_of_clocks_does() -> None:
    def notes(expression: str, tz: str, after: str, n: int) -> list[str | None]:
        return [each.note for each in preview(Cron(expression, tz), ms(after), n)]

    assert notes("30 2 * * *", BERLIN, "2026-03-27T12:00", 3) == [
        None,
        "the clock goes forward this night: 02:30 does not exist, runs at 03:00",
        None,
    ]
    back = "the clock goes back this night: 02:30 comes twice, runs"
    assert notes("30 2 * * *", BERLIN, "2026-10-24T12:00", 2) == [f"{back} the first time", None]
    assert notes("30 * * * *", BERLIN, "2026-10-24T23:00", 4) == [
        None,
        f"{back} both times",
        f"{back} both times",
        None,
    ]
    assert notes("5 15 2 * * *", LORD_HOWE, "2026-10-03T12:00", 1) == [
        "the clock goes forward this night: 02:15:05 does not exist, runs at 02:30"
    ]


def test_preview_of_an_interval_is_in_utc() -> None:
    (first, second) = preview(Every(90_500), ms("2026-01-01"), 2)
    assert (first.at_ms, first.local, first.note) == (
        ms("2026-01-01") + 90_500,
        "2026-01-01T00:01:30.500000+00:00",
        None,
    )
    assert second.at_ms - first.at_ms == 90_500


@pytest.mark.parametrize("trigger", [Cron("*/7 * * * *", BERLIN), Every(1)])
def test_preview_is_in_order_and_as_long_as_asked(trigger: Trigger) -> None:
    listed = preview(trigger, ms("2026-10-24T20:00"), 1000)
    assert len(listed) == 1000
    assert all(one.at_ms < other.at_ms for one, other in pairwise(listed))


@pytest.mark.parametrize("n", [0, -1, 1001])
def test_preview_has_a_bound(n: int) -> None:
    with pytest.raises(InvalidSchedule, match="1 to 1,000"):
        preview(Every(1), 0, n)
