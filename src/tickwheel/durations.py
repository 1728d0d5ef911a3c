"""Durations as people write them, in whole nanoseconds.

    >>> to_ns(1.5), to_ns("1h30m"), to_ns("PT5M")
    (1500000000, 5400000000000, 300000000000)
    >>> from datetime import timedelta
    >>> to_ns(timedelta(days=30)) == to_ns("30d")
    True

A number is a number of seconds: an int, a float, a `Decimal`, a `Fraction`, or any other number that is registered as
`numbers.Real`, such as those of numpy. A bool is refused, and so is NaN.

A float means the decimal number that Python prints for it: 0.1 is a tenth of a second, not the binary fraction next
to it. What is finer than a nanosecond is rounded up, so that a timer cannot fire early. All arithmetic is on integers:
the caller's decimal context plays no part.
"""

import re
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache
from math import ceil, floor
from numbers import Rational, Real
from operator import index
from typing import Any, Final

from tickwheel.errors import InvalidDuration

__all__ = ["DURATION_NS_MAX", "Duration", "argument_ns", "to_ns"]

Duration = int | float | Rational | Decimal | timedelta | str

SECOND_NS: Final = 10**9

# 1,000 years of 365.25 days: longer than any clock of a process or a calendar needs.
SECONDS_MAX: Final = 31_557_600_000
DURATION_NS_MAX: Final = SECONDS_MAX * SECOND_NS

# Below this many seconds, `seconds * 1e9` is less than ROUNDING_ERROR_NS away from the decimal number that Python
# prints for the float: half a unit in the last place of each of the two, 2**-40 s and 2**-10 ns.
FLOAT_SECONDS_MAX: Final = 1e4
ROUNDING_ERROR_NS: Final = 0.004

# A decimal number of seconds whose first digit is at this place, or behind it, is less than a nanosecond.
NANOSECOND_MAGNITUDE: Final = -9

# Far more than any duration needs, and few enough to convert in a microsecond.
TEXT_CHARS_MAX: Final = 200

# Two characters that look alike: keyboards and editors write one or the other.
MICRO_SIGN: Final = "\u00b5"
GREEK_MU: Final = "\u03bc"

UNITS_NS: Final = {
    "ns": 1,
    "us": 10**3,
    f"{MICRO_SIGN}s": 10**3,
    "ms": 10**6,
    "s": SECOND_NS,
    "m": 60 * SECOND_NS,
    "h": 3600 * SECOND_NS,
    "d": 86_400 * SECOND_NS,
    "w": 7 * 86_400 * SECOND_NS,
}

# \d would take the digits of all scripts. ISO 8601 has a decimal comma; elsewhere "1,500s" may mean either number.
_NUMBER: Final = r"[0-9]+(?:\.[0-9]+)?"
_ISO_NUMBER: Final = r"([0-9]+(?:[.,][0-9]+)?)"
_PART: Final = re.compile(rf"\s*({_NUMBER})\s*([a-z{MICRO_SIGN}]+)")
_ISO: Final = re.compile(
    rf"P(?:{_ISO_NUMBER}W|(?:{_ISO_NUMBER}D)?"
    rf"(?:T(?=[0-9])(?:{_ISO_NUMBER}H)?(?:{_ISO_NUMBER}M)?(?:{_ISO_NUMBER}S)?)?)",
    re.ASCII | re.IGNORECASE,  # without ASCII, a long s would be an S
)
_ISO_UNITS: Final = ("w", "d", "h", "m", "s")
_TEXT_DENOMINATOR: Final = 10**TEXT_CHARS_MAX  # no text has more decimal places than characters
_MICROSECOND: Final = timedelta(microseconds=1)


def to_ns(duration: Duration) -> int:
    """Return a duration in nanoseconds, rounded up; a number is in seconds."""
    if type(duration) is float and 0.0 <= duration < FLOAT_SECONDS_MAX:
        product = duration * 1e9
        nearest = floor(product + 0.5)
        # Decimals of up to 15 digits are different floats, so this one is printed as `nearest` nanoseconds.
        if nearest / 1e9 == duration:
            return nearest
        if abs(product - nearest) > ROUNDING_ERROR_NS:
            return ceil(product)
    if type(duration) is int and 0 <= duration <= SECONDS_MAX:
        return duration * SECOND_NS
    if type(duration) is str:
        return _from_text(duration)
    try:
        return _from_value(duration)
    except (InvalidDuration, RecursionError, MemoryError):
        raise
    except Exception as error:  # whatever a class of the caller's raises
        raise InvalidDuration(duration, f"its class raises {type(error).__name__}") from error


def argument_ns(name: str, duration: Duration) -> int:
    """Return a duration in nanoseconds; the error of an invalid one says which argument it is."""
    try:
        return to_ns(duration)
    except InvalidDuration as error:
        raise error.within(name) from None


def _from_value(given: object) -> int:
    if isinstance(given, str):
        return _from_text(str.__str__(given))
    if isinstance(given, timedelta):
        microseconds: Any = -(given // -_MICROSECOND)  # subclasses can be finer than that
        return _round_up(given, microseconds * 1000, 1)
    return _from_number(given)


def _from_number(given: object) -> int:
    if isinstance(given, bool):
        raise _unknown_type(given)
    if isinstance(given, int):
        seconds: Any = int.__index__(given)
        return _round_up(given, seconds * SECOND_NS, 1)
    if isinstance(given, float):
        return _from_decimal(given, float.__repr__(given))
    if isinstance(given, Decimal):
        return _from_decimal(given, Decimal.__str__(given).lower())
    if isinstance(given, Rational):
        return _from_rational(given)
    if isinstance(given, Real):
        return _from_decimal(given, float.__repr__(_to_float(given)))
    raise _unknown_type(given)


def _unknown_type(given: object) -> InvalidDuration:
    return InvalidDuration(given, "expected seconds, a timedelta, or text such as '1h30m' or 'PT5M'")


# Integers that may be large are `Any`: large products look for signals, and native integers take what a signal handler
# raises there for a lack of memory, which ends the process.


def _round_up(given: object, numerator: Any, denominator: Any) -> int:
    """Return `numerator / denominator` nanoseconds, rounded up, if that is a duration."""
    if numerator < 0:
        raise InvalidDuration(given, "must not be negative")
    if numerator > DURATION_NS_MAX * denominator:
        raise _too_long(given)
    nanoseconds: int = -(-numerator // denominator)
    return nanoseconds


def _too_long(given: object) -> InvalidDuration:
    return InvalidDuration(given, "must be at most 1,000 years")


def _from_rational(given: Any) -> int:
    try:
        numerator: Any = index(given.numerator)
        denominator: Any = index(given.denominator)
    except TypeError:  # numpy's timedelta64 is registered as a number, but has a unit of its own
        raise _unknown_type(given) from None
    return _round_up(given, numerator * SECOND_NS, denominator)


def _to_float(given: Any) -> float:
    try:
        return float(given)
    except OverflowError:
        raise _too_long(given) from None


def _from_decimal(given: object, text: str) -> int:
    """Read seconds as Python prints a float or a Decimal: `12.5`, `1e-07`, `nan`."""
    mantissa, _, power = text.partition("e")
    whole, _, places = mantissa.partition(".")
    if not (whole + places).removeprefix("-").isdecimal():
        raise InvalidDuration(given, "must be a finite number")
    if len(text) > TEXT_CHARS_MAX:
        raise InvalidDuration(given, f"must have at most {TEXT_CHARS_MAX} digits")
    seconds: Any = int(whole + places)
    exponent = int(power or 0) - len(places)
    if seconds <= 0:
        return _round_up(given, seconds, 1)
    # The exponent of a Decimal can be many millions: decide by the place of the first digit before computing a power.
    magnitude = len(str(seconds)) + exponent
    if magnitude > len(str(SECONDS_MAX)):
        raise _too_long(given)
    if magnitude <= NANOSECOND_MAGNITUDE:
        return 1
    if exponent >= 0:
        return _round_up(given, seconds * SECOND_NS * 10**exponent, 1)
    return _round_up(given, seconds * SECOND_NS, 10**-exponent)


def _from_text(text: str) -> int:
    if len(text) > TEXT_CHARS_MAX:  # before the cache, which would keep it
        raise InvalidDuration(text, f"must have at most {TEXT_CHARS_MAX} characters")
    return _parse(text)


@lru_cache(maxsize=1024)  # a program uses the same few durations again and again
def _parse(text: str) -> int:
    stripped = text.strip().replace(GREEK_MU, MICRO_SIGN)
    unsigned = stripped.removeprefix("-")
    parts = _iso_parts(text, unsigned) if unsigned[:1] in {"P", "p"} else _parts(text, unsigned)
    numerator: Any = sum(_numerator(number) * UNITS_NS[unit] for number, unit in parts)
    return _round_up(text, numerator if unsigned == stripped else -numerator, _TEXT_DENOMINATOR)


def _numerator(number: str) -> Any:
    """Return a decimal number as a numerator over `_TEXT_DENOMINATOR`."""
    whole, _, places = number.replace(",", ".").partition(".")
    return int(whole + places.ljust(TEXT_CHARS_MAX, "0"))


def _parts(text: str, stripped: str) -> list[tuple[str, str]]:
    parts: list[tuple[str, str]] = []
    position = 0
    for part in _PART.finditer(stripped):
        if part.start() != position or part[2] not in UNITS_NS:
            break
        parts.append((part[1], part[2]))
        position = part.end()
    if "," in stripped:
        raise InvalidDuration(text, "commas are ambiguous; write '1.5s' or '1500s'")
    if not parts or position != len(stripped):
        raise InvalidDuration(
            text,
            f"expected numbers with units ({', '.join(UNITS_NS)}; lower case), such as '1h30m', "
            "or ISO 8601, such as 'PT5M'; seconds without a unit are given as a number",
        )
    return parts


def _iso_parts(text: str, stripped: str) -> list[tuple[str, str]]:
    match = _ISO.fullmatch(stripped)
    numbers: tuple[str | None, ...] = match.groups() if match else ()
    parts = [(number, unit) for number, unit in zip(numbers, _ISO_UNITS, strict=False) if number]
    if not parts:
        raise InvalidDuration(
            text,
            "expected ISO 8601 with weeks ('P2W'), or with days, hours, minutes and seconds ('P1DT12H'); "
            "years and months are not supported because their length varies",
        )
    return parts
