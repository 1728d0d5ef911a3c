"""Wall clocks and moments: what becomes of 02:30 in the night the clocks are changed.

When clocks go forward, some wall times do not exist (a gap); when they go back, some come twice (a fold):

    Berlin, 29 March 2026     01:59:59 +01:00 -> 03:00:00 +02:00      02:30 does not exist
    Berlin, 25 October 2026   02:59:59 +02:00 -> 02:00:00 +01:00      02:30 comes twice

>>> berlin = ZoneInfo("Europe/Berlin")
>>> reading = read(datetime(2026, 3, 29, 2, 30), berlin)
>>> reading.gap, from_ms(reading.first_ms, berlin).isoformat()
(True, '2026-03-29T03:00:00+02:00')
>>> reading = read(datetime(2026, 10, 25, 2, 30), berlin)
>>> reading.second_ms - reading.first_ms
3600000
"""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo  # noqa: F401 - for the examples

__all__ = ["Reading", "from_ms", "read", "to_ms"]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND: Final = timedelta(milliseconds=1)
SECOND: Final = timedelta(seconds=1)


class Reading(NamedTuple):
    """The moments at which clocks show a wall time."""

    first_ms: int  # in a gap, the moment right after it
    second_ms: int | None  # in a fold
    gap: bool


def from_ms(moment_ms: int, place: tzinfo) -> datetime:
    """Return what clocks of a place show at a moment."""
    return (EPOCH + moment_ms * MILLISECOND).astimezone(place)


def to_ms(moment: datetime) -> int:
    """Return a moment in milliseconds since 1970."""
    return (moment - EPOCH) // MILLISECOND


def read(wall: datetime, place: tzinfo) -> Reading:
    """Return when clocks of a place show a time that is given without a zone."""
    earlier, later = (wall.replace(tzinfo=place, fold=fold).astimezone(UTC) for fold in (0, 1))
    if earlier == later:
        return Reading(to_ms(earlier), None, gap=False)
    if earlier < later:
        return Reading(to_ms(earlier), to_ms(later), gap=False)
    # In a gap the offset before it leads behind it, and the one after it before it: the change is in between.
    before, after = later, earlier
    offset = before.astimezone(place).utcoffset()
    while after - before > SECOND:
        middle = before + (after - before) // SECOND // 2 * SECOND
        if middle.astimezone(place).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return Reading(to_ms(after), None, gap=True)
