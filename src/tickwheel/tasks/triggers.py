"""When a task is due: once, at every interval, or by a cron expression in a time zone.

>>> from datetime import UTC, datetime
>>> noon = int(datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp() * 1000)
>>> Every(interval_ms=60_000).next_after(noon) - noon
60000
>>> when = Cron(expression="0 0 1 * *", tz="Asia/Shanghai").next_after(noon)
>>> datetime.fromtimestamp(when / 1000, UTC).isoformat()
'2026-01-31T16:00:00+00:00'

Cron has five fields, or six with seconds first, and the usual nicknames. On the days the clocks are changed it
does what Debian's cron does: what falls into the missing hour runs right after it; what falls into the
doubled hour runs once, unless it runs at every hour anyway.
"""

from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError

from tickwheel.errors import InvalidCron, InvalidSchedule

__all__ = ["NICKNAMES", "Cron", "Every", "Once", "Trigger"]

INTERVAL_MS_MIN: Final = 1

NICKNAMES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class Once(msgspec.Struct, frozen=True, tag="once"):
    """At its time, and not again."""

    def next_after(self, moment: int) -> int | None:  # noqa: ARG002 - as the others
        """Return nothing: there is no other time."""
        return None


class Every(msgspec.Struct, frozen=True, tag="every"):
    """Again and again, on a grid that does not drift."""

    interval_ms: int

    def __post_init__(self) -> None:
        """Refuse what would never let anything else run."""
        if self.interval_ms < INTERVAL_MS_MIN:
            raise InvalidSchedule(f"an interval is at least a millisecond, not {self.interval_ms!r} ms")

    def next_after(self, moment: int) -> int:
        """Return the grid point after one."""
        return moment + self.interval_ms


class Cron(msgspec.Struct, frozen=True, tag="cron"):
    """By the calendar of a place."""

    expression: str
    tz: str = "UTC"

    def __post_init__(self) -> None:
        """Refuse what no calendar has."""
        check_cron(self.expression, self.tz)

    def next_after(self, moment: int) -> int | None:
        """Return the first time after a moment; None if there is none within the next fifty years."""
        begin = datetime.fromtimestamp(moment / 1000, zone(self.tz))
        try:
            found = next(CronSim(NICKNAMES.get(self.expression, self.expression), begin))
        except StopIteration:
            return None
        return int(found.astimezone(UTC).timestamp() * 1000)


Trigger = Once | Every | Cron


@lru_cache(maxsize=1024)
def check_cron(expression: str, tz: str) -> None:
    """Raise `InvalidCron` unless an expression and a time zone can be read, and there is a next time."""
    place = zone(tz)
    try:
        next(CronSim(NICKNAMES.get(expression, expression), datetime(2024, 1, 1, tzinfo=place)))
    except CronSimError as error:
        raise InvalidCron(expression, str(error)) from None
    except StopIteration:
        raise InvalidCron(expression, "there is no such date") from None


@lru_cache(maxsize=1024)
def zone(tz: str) -> tzinfo:
    """Return a time zone by its name."""
    try:
        return ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidCron(tz, "no time zone is called that; names are like 'Europe/Berlin'") from None
