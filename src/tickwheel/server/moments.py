"""Moments and durations as the API writes them.

>>> moment(1794795848123), seconds(1500)
('2026-11-16T02:24:08.123Z', 1.5)
"""

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

__all__ = ["moment", "moment_or_none", "seconds"]

EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - UTC, which is written behind it
LAST_MS: Final = 253_402_300_799_999  # the end of the year 9999, and of the calendars of computers


def moment(ms: int) -> str:
    """Write a moment, in UTC with milliseconds; what is beyond the year 9999 is written as its end."""
    second, rest_ms = divmod(min(ms, LAST_MS), 1000)
    return f"{_second(second)}.{rest_ms:03}Z"


@lru_cache(maxsize=4096)  # what happens at the same time is told again and again
def _second(second: int) -> str:
    return (EPOCH + timedelta(seconds=second)).isoformat()


def moment_or_none(ms: int | None) -> str | None:
    """Write a moment, if there is one."""
    return None if ms is None else moment(ms)


def seconds(ms: int) -> float:
    """Write a duration."""
    return ms / 1000
