"""When a task is due: once, at every interval, or by a cron expression in a time zone.

>>> from datetime import UTC, datetime
>>> noon = int(datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp() * 1000)
>>> Every(interval_ms=60_000).next_after(noon) - noon
60000
>>> when = Cron(expression="0 0 1 * *", tz="Asia/Shanghai").next_after(noon)
>>> datetime.fromtimestamp(when / 1000, UTC).isoformat()
'2026-01-31T16:00:00+00:00'

Cron has five fields, or six with seconds first, and the usual nicknames. In the nights in which clocks are changed it
does as Debian's cron does, and asks whether the minute or the hour begins with `*`:

    02:30 every night      30 2 * * *        a fixed time      clocks forward: once, right after the gap, at 03:00
                           0 30 2 * * *                        clocks back: once, the first time it is 02:30
    every hour             30 * * * *        whenever clocks   clocks forward: 02:30 is left out
    every ten minutes      */10 2 * * *      show it           clocks back: both times it is 02:30

Several fixed times in one gap make one run. "L" is the last day of a month, "LW" its last weekday, "5L" its last
Friday, "5#2" its second. A day of the month and a day of the week are alternatives, unless one of them begins with `*`.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError
from msgspec.structs import force_setattr

from tickwheel.errors import InvalidCron, InvalidSchedule
from tickwheel.tasks.fields import SPAN_MS_MAX, whole
from tickwheel.tasks.timezones import Reading, from_ms, read

__all__ = ["NICKNAMES", "ONCE", "Cron", "Every", "Occurrence", "Once", "Trigger", "in_words", "preview"]

INTERVAL_MS_MIN: Final = 1
EXPRESSION_MAX: Final = 256  # characters; every minute of an hour, one by one, takes 168
PREVIEW_MAX: Final = 1000

NICKNAMES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class Once(msgspec.Struct, frozen=True, tag="once", gc=False):
    """At its time, and not again."""

    def next_after(self, moment: int) -> int | None:  # noqa: ARG002 - as the others
        """Return nothing: there is no other time."""
        return None


ONCE: Final = Once()


class Every(msgspec.Struct, frozen=True, tag="every", gc=False):
    """Again and again, on a grid that does not drift."""

    interval_ms: int

    def __post_init__(self) -> None:
        """Refuse what would never let anything else run."""
        interval_ms = whole("interval_ms", self.interval_ms, INTERVAL_MS_MIN, SPAN_MS_MAX, InvalidSchedule)
        force_setattr(self, "interval_ms", interval_ms)

    def next_after(self, moment: int) -> int:
        """Return the grid point after one."""
        return moment + self.interval_ms


class Cron(msgspec.Struct, frozen=True, tag="cron", gc=False):
    """By the calendar of a place."""

    expression: str
    tz: str = "UTC"

    def __post_init__(self) -> None:
        """Refuse what no calendar has."""
        for name in ("expression", "tz"):
            given = getattr(self, name)
            if not isinstance(given, str):
                raise InvalidCron(given, "it is not text").within("cron" if name == "expression" else name)
            force_setattr(self, name, str.__str__(given))
        check_cron(self.expression, self.tz)

    def next_after(self, moment: int) -> int | None:
        """Return the first time after a moment; None if there is none within the next fifty years."""
        found = find(self, moment)
        return None if found is None else found.at_ms


Trigger = Once | Every | Cron


@lru_cache(maxsize=1024)
def check_cron(expression: str, tz: str) -> None:
    """Raise `InvalidCron` unless an expression and a time zone can be read, and there is a next time."""
    zone(tz)
    if len(expression) > EXPRESSION_MAX:
        raise InvalidCron(f"{expression[:40]}…", f"it is longer than {EXPRESSION_MAX} characters").within("cron")
    try:
        next(wall_times(expression, datetime(2024, 1, 1)))  # noqa: DTZ001 - any time on any wall
    except CronSimError as error:
        raise InvalidCron(expression, str(error)).within("cron") from None
    except StopIteration:
        raise InvalidCron(expression, "there is no such date").within("cron") from None


@lru_cache(maxsize=1024)
def zone(tz: str) -> tzinfo:
    """Return a time zone by its name."""
    try:
        return ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidCron(tz, "no time zone is called that; names are like 'Europe/Berlin'").within("tz") from None


# -- by the calendar


class Found(NamedTuple):
    """A time of a cron expression: the moment, and the wall time it is for."""

    at_ms: int
    wall: datetime
    reading: Reading
    fixed: bool


def wall_times(expression: str, after: datetime) -> CronSim:
    """Return what wall times an expression names, as if clocks were never changed."""
    return CronSim(NICKNAMES.get(expression, expression), after)


def is_fixed(expression: str) -> bool:
    """Tell whether an expression names times of the day, rather than a rhythm."""
    minute, hour = NICKNAMES.get(expression, expression).split()[-5:-3]
    return not minute.startswith("*") and not hour.startswith("*")


def find(cron: Cron, moment: int) -> Found | None:
    """Find the first time after a moment; None if there is none, or no calendar reaches as far."""
    try:
        return find_fixed(cron, moment) if is_fixed(cron.expression) else find_rhythm(cron, moment)
    except OverflowError:  # the year 9999 is over
        return None


def find_fixed(cron: Cron, moment: int) -> Found | None:
    """Take each wall time once: right after the gap it falls into, or the first time it comes."""
    place = zone(cron.tz)
    for wall in wall_times(cron.expression, from_ms(moment, place).replace(tzinfo=None, fold=0)):
        reading = read(wall, place)
        if reading.first_ms > moment:
            return Found(reading.first_ms, wall, reading, fixed=True)
    return None


def find_rhythm(cron: Cron, moment: int) -> Found | None:
    """Take each wall time whenever clocks show it: never in a gap, and twice in a fold."""
    place = zone(cron.tz)
    now = from_ms(moment, place).replace(tzinfo=None, fold=0)
    found = None
    for wall in wall_times(cron.expression, now):
        reading = read(wall, place)
        at_ms = next(
            (each for each in (reading.first_ms, reading.second_ms) if each is not None and each > moment), None
        )
        if at_ms is not None and not reading.gap:
            found = Found(at_ms, wall, reading, fixed=False)
            break
    again = read(now, place)
    if again.second_ms is None or moment >= again.second_ms or (found and found.at_ms < again.second_ms):
        return found
    return find_again(cron, now, again, found)


def find_again(cron: Cron, now: datetime, reading: Reading, found: Found | None) -> Found | None:
    """Find what comes when clocks have gone back, earlier on the wall than now; or else what was found."""
    assert reading.second_ms is not None
    place, fold_ms = zone(cron.tz), reading.second_ms - reading.first_ms
    for wall in wall_times(cron.expression, now - timedelta(milliseconds=fold_ms, seconds=1)):
        earlier = read(wall, place)
        if wall > now:
            break
        if earlier.second_ms is not None:
            return Found(earlier.second_ms, wall, earlier, fixed=False)
    return found


# -- what is to come


def in_words(cron: Cron) -> str:
    """Say when a cron expression is due."""
    return wall_times(cron.expression, datetime(2024, 1, 1)).explain()  # noqa: DTZ001 - any time on any wall


class Occurrence(msgspec.Struct, frozen=True):
    """A time at which a task will run."""

    at_ms: int
    local: str  # ISO 8601, as clocks of the place show it
    note: str | None = None  # what a change of clocks does to it


def preview(trigger: Trigger, after_ms: int, n: int) -> list[Occurrence]:
    """List the next times of a trigger after a moment, fewer if there are no more."""
    if not 1 <= n <= PREVIEW_MAX:
        raise InvalidSchedule(f"a preview has from 1 to {PREVIEW_MAX:,} occurrences, not {n!r}")
    listed: list[Occurrence] = []
    moment: int | None = after_ms
    while moment is not None and len(listed) < n:
        found = find(trigger, moment) if isinstance(trigger, Cron) else None
        moment = found.at_ms if found else None if isinstance(trigger, Cron) else trigger.next_after(moment)
        if moment is not None:
            place = zone(trigger.tz) if isinstance(trigger, Cron) else UTC
            listed.append(Occurrence(moment, from_ms(moment, place).isoformat(), found and explain(found, place)))
    return listed


def explain(found: Found, place: tzinfo) -> str | None:
    """Say what a change of clocks does to a time; None if there is none."""
    wall = f"{found.wall:%H:%M:%S}".removesuffix(":00")
    if found.reading.gap:
        there = f"{from_ms(found.at_ms, place):%H:%M:%S}".removesuffix(":00")
        return f"the clock goes forward this night: {wall} does not exist, runs at {there}"
    if found.reading.second_ms is None:
        return None
    times = "the first time" if found.fixed else "both times"
    return f"the clock goes back this night: {wall} comes twice, runs {times}"
