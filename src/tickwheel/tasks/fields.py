"""The checks that every field of a task, policy or option goes through, before anything is written.

Each takes a field by name and the value given for it, and returns the value as the plain type that a store gives back,
or raises an error that names both:

>>> whole("priority", 2.0, -1000, 1000)
Traceback (most recent call last):
tickwheel.errors.InvalidTask: invalid priority 2.0: expected an int from -1,000 to 1,000
>>> json_object("meta", {"user": 7, "roles": ("admin",)})
{'user': 7, 'roles': ['admin']}
>>> known({"prioritty": 5}, ("priority", "delay"))
Traceback (most recent call last):
tickwheel.errors.InvalidTask: unknown field 'prioritty'; did you mean 'priority'?

Subclasses of str, int, float, list and dict, enums among them, become the plain type. A bool is not a number.

What a value is, its type says: `isinstance` asks the value for its `__class__` besides, which is the caller's code.
"""

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import islice
from math import isfinite
from typing import Any, Final, TypeGuard, TypeVar

import msgspec

from tickwheel.errors import InvalidOption, InvalidTask, PayloadTooLarge, TickwheelError, hint, shown

__all__ = [
    "DEPTH_MAX",
    "MOMENT_MAX",
    "NAME_CHARS_MAX",
    "PAYLOAD_BYTES_MAX",
    "SPAN_MS_MAX",
    "choice",
    "flag",
    "invalid",
    "is_a",
    "items_of",
    "json_object",
    "json_value",
    "known",
    "number",
    "sayable",
    "text",
    "whole",
]

NAME_CHARS_MAX: Final = 255  # of ids and handlers; fits an index entry in every store
SPAN_MS_MAX: Final = 31_557_600_000_000  # 1,000 years, the longest duration there is
MOMENT_MAX: Final = 2**53 - 1  # exact as a float, which is how some stores and readers keep it: 285,000 years
DEPTH_MAX: Final = 100  # of containers within each other: readers recurse, and may be deep in a program themselves
PAYLOAD_BYTES_MAX: Final = 256 * 1024  # of arguments and metadata, and again of result and error
ITEM_BYTES: Final = 2  # of JSON, for an item of a list: a digit and a comma, at the least
PAIR_BYTES: Final = 5  # and for a name and its value: "":1,
SLACK_BYTES: Final = 32 * 1024  # of what is not much too long, it is said how long it is
JSON_INT_MIN: Final = -(2**63)  # what readers of JSON take: 64 bits, with a sign or without
JSON_INT_MAX: Final = 2**64 - 1

T = TypeVar("T")


def is_a(value: object, kind: type[T]) -> TypeGuard[T]:
    """Tell whether a value is of a type, by its own type alone."""
    return issubclass(type(value), kind)


def invalid(field: str, value: object, expected: str, kind: type[TickwheelError] = InvalidTask) -> TickwheelError:
    """Make the error that says which field is wrong, what was given and what is expected."""
    if issubclass(kind, InvalidOption):
        return kind(field, value, expected)
    error = kind(f"invalid {field} {shown(value)}: expected {expected}")
    error.field = field
    return error


def known(given: Iterable[object], names: Collection[str]) -> None:
    """Refuse a field that there is not."""
    for name in given:
        if name not in names:
            spelled = name if isinstance(name, str) else shown(name)
            error = InvalidTask(f"unknown field {shown(name)}; {hint(spelled, sorted(names))}")
            error.field = spelled
            raise error


def whole(field: str, value: object, least: int, most: int, kind: type[TickwheelError] = InvalidTask) -> int:
    """Return a whole number within bounds."""
    if value is not True and value is not False and is_a(value, int):  # once it is an int, a bool is 1 or 0
        plain = int.__index__(value)
        if least <= plain <= most:
            return plain
    raise invalid(field, value, f"an int from {least:,} to {most:,}", kind)


def number(field: str, value: object, least: float, most: float, kind: type[TickwheelError] = InvalidTask) -> float:
    """Return a number within bounds; NaN is within none."""
    plain: float | None = None
    if is_a(value, float):
        plain = float.__float__(value)
    elif value is not True and value is not False and is_a(value, int):
        with suppress(OverflowError):  # too large for a float, and so for any bound
            plain = float(int.__index__(value))
    if plain is not None and least <= plain <= most:
        return plain
    raise invalid(field, value, f"a number from {least:,g} to {most:,g}", kind)


def flag(field: str, value: object, kind: type[TickwheelError] = InvalidTask) -> bool:
    """Return what is either true or false."""
    if value is True or value is False:
        return value is True
    raise invalid(field, value, "True or False", kind)


def choice(field: str, value: object, choices: Collection[str], kind: type[TickwheelError] = InvalidTask) -> str:
    """Return one of a few words."""
    if is_a(value, str):
        plain = str.__str__(value)
        if plain in choices:
            return plain
        raise invalid(field, value, f"one of {', '.join(choices)}; {hint(plain, list(choices))}", kind)
    raise invalid(field, value, f"one of {', '.join(choices)}", kind)


def text(field: str, value: object, most: int, least: int = 1, kind: type[TickwheelError] = InvalidTask) -> str:
    """Return text of so many characters that every store can keep."""
    if type(value) is str and least <= len(value) <= most and sayable(value):  # as with almost every task
        return value
    if is_a(value, str) and least <= str.__len__(value) <= most:
        plain = str.__str__(value)
        if sayable(plain):
            return plain
    raise invalid(field, value, f"text of {least} to {most:,} characters, without NUL and lone surrogates", kind)


def sayable(text: str) -> bool:
    """Tell whether text can be in a store at all: written as UTF-8, which half of a surrogate pair cannot be."""
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# -- JSON


class Room:
    """How much more a copy may take: the JSON of a few lists that contain each other many times has no end."""

    def __init__(self, field: str, left: int = PAYLOAD_BYTES_MAX + SLACK_BYTES) -> None:
        self._field = field
        self.left = left  # bytes of JSON, at the least; it is measured when it is written

    def take(self, size: int) -> None:
        """Count something before it is copied; raise if that is too much."""
        self.left -= size
        if self.left < 0:
            error = PayloadTooLarge(f"the data of {self._field}", None, PAYLOAD_BYTES_MAX)
            error.field = self._field
            raise error


def json_object(field: str, value: object) -> dict[str, Any]:
    """Return a copy of a mapping as it will come out of JSON again."""
    if not is_a(value, Mapping):  # type: ignore[type-abstract]
        raise invalid(field, value, "a dict of names and JSON values")
    return _json_mapping(field, value, 1, Room(field))


def json_value(field: str, value: object) -> Any:
    """Return a copy of a value as it will come out of JSON again; what JSON has no word for is refused."""
    return _json_value(field, value, 0, Room(field))


def _json_value(field: str, value: object, depth: int, room: Room) -> Any:  # noqa: PLR0911 - one for each kind of value
    if value is None or value is True or value is False:
        return value
    if is_a(value, str):
        return _json_text(field, value, room)
    if is_a(value, int):
        if not JSON_INT_MIN <= int.__index__(value) <= JSON_INT_MAX:
            raise _unfit(field, "an int of more than 64 bits")
        return int.__index__(value)
    if is_a(value, float):
        return _json_float(field, value)
    if depth >= DEPTH_MAX:
        raise _unfit(field, f"containers more than {DEPTH_MAX} levels deep")
    if is_a(value, Mapping):  # type: ignore[type-abstract]
        return _json_mapping(field, value, depth + 1, room)
    if is_a(value, list) or is_a(value, tuple):
        items = items_of(field, value, room.left // ITEM_BYTES)
        room.take(len(items) * ITEM_BYTES)
        return [_json_value(field, each, depth + 1, room) for each in items]
    return _json_other(field, value, depth + 1, room)


def _json_mapping(field: str, value: Mapping[Any, Any], depth: int, room: Room) -> dict[str, Any]:
    copy: dict[str, Any] = {}
    try:
        items = [(name, each) for name, each in islice(value.items(), room.left // PAIR_BYTES + 1)]
    except Exception as error:  # whatever a class of the caller's raises
        raise _unfit(field, f"a {type(value).__name__} whose items() raises {type(error).__name__}") from error
    room.take(len(items) * PAIR_BYTES)
    for name, each in items:
        if not is_a(name, str):
            raise _unfit(field, f"the name {shown(name)}, which is not text")
        copy[_json_text(field, name, room)] = _json_value(field, each, depth, room)
    return copy


def items_of(field: str, value: Iterable[object], most: int = PAYLOAD_BYTES_MAX) -> list[object]:
    """Return what a list or tuple has; of one that has more than can be kept, one more than that."""
    try:
        return list(islice(value, most + 1))
    except Exception as error:  # whatever a class of the caller's raises
        raise _unfit(field, f"a {type(value).__name__} whose items raise {type(error).__name__}") from error


def _json_float(field: str, value: float) -> float:
    plain = float.__float__(value)
    if not isfinite(plain):
        raise _unfit(field, f"{plain}, which is no number in JSON")
    return plain


def _json_text(field: str, value: str, room: Room) -> str:
    room.take(str.__len__(value))
    plain = str.__str__(value)
    if not sayable(plain):
        raise _unfit(field, "text with NUL or a lone surrogate")
    return plain


def _json_other(field: str, value: object, depth: int, room: Room) -> Any:
    """Write times, ids, dataclasses and the like as the library for JSON does: as text, or as what they consist of."""
    try:
        _weigh(value, 0, Room(field, room.left))  # the library counts nothing
        written = msgspec.to_builtins(value, builtin_types=())
    except PayloadTooLarge:
        raise
    except Exception as error:  # of its own, or of the caller's class
        raise _unfit(field, f"a {type(value).__name__}, which cannot be kept as JSON") from error
    if type(written) is type(value):
        raise _unfit(field, f"a {type(value).__name__}, which cannot be kept as JSON")
    return _json_value(field, written, depth, room)


def _weigh(value: object, depth: int, room: Room) -> None:
    """Count what a value consists of, as far as the library for JSON would write it."""
    if is_a(value, str) or is_a(value, bytes) or is_a(value, bytearray) or is_a(value, memoryview):
        room.take(len(value))
        return
    if depth > DEPTH_MAX:
        raise ValueError("too deep")
    for part in _parts_of(value):
        room.take(ITEM_BYTES)
        _weigh(part, depth + 1, room)


def _parts_of(value: object) -> Iterable[object]:
    kind = type(value)
    if value is None or kind is int or kind is float or kind is bool:
        return ()
    if is_a(value, list) or is_a(value, tuple):
        return value
    if is_a(value, Mapping):  # type: ignore[type-abstract]
        return (part for pair in value.items() for part in pair)
    if is_a(value, AbstractSet):  # type: ignore[type-abstract]
        return value
    names = [*getattr(kind, "__struct_fields__", ()), *getattr(kind, "__dataclass_fields__", ())]
    names += [each.name for each in getattr(kind, "__attrs_attrs__", ())]
    return (getattr(value, name, None) for name in names)


def _unfit(field: str, what: str) -> TickwheelError:
    """Make the error for what is somewhere within a field; the value itself may be a secret, or very long."""
    error = InvalidTask(f"invalid {field}: it has {what}; expected JSON: text, finite numbers, lists and dicts")
    error.field = field
    return error
