"""Durations as people write them, in whole nanoseconds.

    >>> to_ns(1.5), to_ns("1h30m"), to_ns("PT5M")
    (1500000000, 5400000000000, 300000000000)
    >>> from datetime import timedelta
    >>> to_ns(timedelta(days=30)) == to_ns("30d")
    True

What is finer than a nanosecond is rounded up, so that a timer made of it cannot fire early. Decimal
numbers mean what they say: 0.1 is a tenth of a second, not the binary fraction next to it.
"""

import re
from datetime import timedelta
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from math import floor
from typing import Final

from tickwheel.errors import InvalidDuration

__all__ = ["DURATION_NS_MAX", "Duration", "to_ns"]

Duration = int | float | timedelta | str

# A thousand years of 365.25 days. No clock of a process or a calendar is asked for more.
DURATION_NS_MAX: Final = 31_557_600_000 * 10**9

# Below this many seconds a float times 1e9 is off by less than the error: two roundings of 2**-53 of 1e13.
FLOAT_SECONDS_MAX: Final = 1e4
ROUNDING_ERROR_NS: Final = 0.004

UNITS_NS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86_400 * 10**9,
    "w": 7 * 86_400 * 10**9,
}

_NUMBER: Final = r"\d+(?:[.,]\d+)?"
_PART: Final = re.compile(rf"\s*({_NUMBER})\s*([a-zµ]+)")
_ISO: Final = re.compile(
    rf"P(?:({_NUMBER})W|(?:({_NUMBER})D)?(?:T(?=\d)(?:({_NUMBER})H)?(?:({_NUMBER})M)?(?:({_NUMBER})S)?)?)",
)
_ISO_UNITS: Final = ("w", "d", "h", "m", "s")


def to_ns(duration: Duration) -> int:
    """Return a duration in nanoseconds, rounded up; seconds if it is a plain number."""
    if type(duration) is float and 0.0 <= duration < FLOAT_SECONDS_MAX:
        # The usual case, quickly: what is written to the nanosecond is at most a rounding error off one.
        product = duration * 1e9
        nearest = floor(product + 0.5)
        if abs(product - nearest) < ROUNDING_ERROR_NS:
            return nearest
    if isinstance(duration, str):
        return _of_text(duration)
    given: object = duration  # whatever it is declared to be
    if isinstance(given, bool) or not isinstance(given, (int, float, timedelta)):
        raise InvalidDuration(given, "give seconds, a timedelta, or text such as '1h30m' or 'PT5M'")
    return _whole(duration, _from_number(duration))


@lru_cache(maxsize=1024)  # a program says the same few durations again and again
def _of_text(text: str) -> int:
    return _whole(text, _from_text(text))


def _whole(duration: Duration, ns: Decimal) -> int:
    if ns < 0:
        raise InvalidDuration(duration, "a duration cannot be negative")
    if ns > DURATION_NS_MAX:
        raise InvalidDuration(duration, "that is more than a thousand years")
    return int(ns.to_integral_value(ROUND_CEILING))


def _from_number(duration: float | timedelta) -> Decimal:
    if isinstance(duration, timedelta):
        return Decimal(duration // timedelta(microseconds=1)) * 1000
    number = Decimal(repr(duration))  # the number as it is written, not its binary neighbour
    if not number.is_finite():
        raise InvalidDuration(duration, "a duration is a finite number of seconds")
    return number * 10**9


def _from_text(text: str) -> Decimal:
    stripped = text.strip()
    if stripped[:1].upper() == "P":
        return _from_iso(text, stripped.upper())
    total, position = Decimal(0), 0
    for part in _PART.finditer(stripped):
        if part.start() != position or part[2] not in UNITS_NS:
            break
        total += Decimal(part[1].replace(",", ".")) * UNITS_NS[part[2]]
        position = part.end()
    if position == 0 or position != len(stripped):
        raise InvalidDuration(
            text, f"write it as '1h30m' with units from {', '.join(UNITS_NS)}, or as ISO 8601 ('PT5M')"
        )
    return total


def _from_iso(text: str, upper: str) -> Decimal:
    match = _ISO.fullmatch(upper)
    if match is None or not any(match.groups()):
        raise InvalidDuration(
            text, "ISO 8601 durations here have weeks, or days and time; years and months vary in length"
        )
    return sum(
        (
            Decimal(number.replace(",", ".")) * UNITS_NS[unit]
            for number, unit in zip(match.groups(), _ISO_UNITS, strict=True)
            if number
        ),
        start=Decimal(0),
    )
