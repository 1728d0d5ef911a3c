"""What fits into a store: the same limits in every one, checked before anything is written.

>>> check_limit(0, most=1000)
Traceback (most recent call last):
tickwheel.errors.InvalidLimit: limit must be an int from 1 to 1,000, not 0; ask again for what lies beyond
"""

from collections.abc import Sequence
from typing import Final, get_args

import msgspec

from tickwheel.errors import (
    BatchTooLarge,
    InvalidLimit,
    InvalidTask,
    PayloadTooLarge,
    UnknownOption,
)
from tickwheel.stores.contract import PAGE_MAX, Finish, OnConflict
from tickwheel.tasks.record import LEGAL, Status, Task

__all__ = [
    "BATCH_MAX",
    "COUNT_ROWS_MAX",
    "NAME_CHARS_MAX",
    "PAYLOAD_BYTES_MAX",
    "check_amended",
    "check_batch",
    "check_finishes",
    "check_limit",
    "check_moment",
    "check_new",
    "check_on_conflict",
    "encode",
    "sayable",
]

NAME_CHARS_MAX: Final = 255  # of ids and handlers; fits an index entry everywhere
PAYLOAD_BYTES_MAX: Final = 256 * 1024  # of arguments and metadata, and again of result and error
BATCH_MAX: Final = 10_000  # tasks; a transaction of a fifth of a second or so
COUNT_ROWS_MAX: Final = 1_000_000  # that a caller may have counted one by one: a second or so
MOMENT_MAX: Final = 2**53 - 1  # exact as a float, which is how some stores and readers keep it: 285,000 years
PRIORITY_MAX: Final = 2**31 - 1

WAYS: Final[tuple[str, ...]] = get_args(OnConflict)
BEGINNINGS: Final = frozenset({Status.PENDING, Status.PAUSED})


def check_batch(batch: Sequence[object]) -> None:
    """Refuse a batch that would hold everybody up."""
    if len(batch) > BATCH_MAX:
        raise BatchTooLarge(len(batch), BATCH_MAX)


def check_limit(limit: object, most: int = PAGE_MAX) -> None:
    """Refuse a page that is empty or endless."""
    if type(limit) is not int or not 1 <= limit <= most:
        raise InvalidLimit(limit, most)


def check_moment(moment: object) -> None:
    """Refuse a time that no store could keep."""
    if type(moment) is not int or not 0 <= moment <= MOMENT_MAX:
        raise InvalidTask(f"a time is in whole milliseconds since 1970, not {moment!r}")


def check_on_conflict(on_conflict: object) -> None:
    """Refuse a way of dealing with duplicates that there is not."""
    if on_conflict not in WAYS:
        raise UnknownOption(f"on_conflict={on_conflict}", [f"on_conflict={way}" for way in WAYS])


def check_new(tasks: Sequence[Task], partitions: int) -> None:
    """Refuse tasks that cannot be added."""
    check_batch(tasks)
    for task in tasks:
        _check_name("an id", task.id)
        _check_name("the name of a handler", task.handler)
        check_moment(task.run_at)
        if not 0 <= task.partition < partitions:
            raise InvalidTask(f"task {task.id!r}: partitions are from 0 to {partitions - 1}, not {task.partition!r}")
        if not -PRIORITY_MAX <= task.priority <= PRIORITY_MAX:
            raise InvalidTask(f"task {task.id!r}: priorities fit 32 bits, and {task.priority!r} does not")
        if task.status not in BEGINNINGS:
            raise InvalidTask(f"task {task.id!r}: a new task is pending or paused, not {task.status}")


def check_amended(tasks: Sequence[Task]) -> None:
    """Refuse changes that no task can have."""
    check_batch(tasks)
    for task in tasks:
        _check_name("the name of a handler", task.handler)
        check_moment(task.run_at)
        if not -PRIORITY_MAX <= task.priority <= PRIORITY_MAX:
            raise InvalidTask(f"task {task.id!r}: priorities fit 32 bits, and {task.priority!r} does not")


def check_finishes(finishes: Sequence[Finish]) -> None:
    """Refuse outcomes that a running task cannot have."""
    check_batch(finishes)
    for finish in finishes:
        check_moment(finish.task.run_at)
        if finish.task.status not in LEGAL[Status.RUNNING]:
            raise InvalidTask(f"task {finish.task.id!r}: what ran cannot be {finish.task.status} then")


def sayable(text: str) -> bool:
    """Tell whether text can be in a store at all: written as UTF-8, which half of a surrogate pair cannot be."""
    if "\0" in text:
        return False
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _check_name(what: str, name: str) -> None:
    if not 1 <= len(name) <= NAME_CHARS_MAX:
        raise InvalidTask(f"{what} has 1 to {NAME_CHARS_MAX} characters, and {name!r:.300} has not")
    if not sayable(name):
        raise InvalidTask(f"{what} is text that every store can keep, and {name!r:.300} is not")


_encoder: Final = msgspec.json.Encoder()


def encode(task: Task) -> bytes:
    """Write a task as JSON; what it brings along, and what its runs left, may each be so long."""
    try:
        body = _encoder.encode(task)
    except (TypeError, ValueError, RecursionError) as error:  # what JSON has no word for, lone surrogates, depth
        raise InvalidTask(f"task {task.id!r} cannot be kept as JSON: {error}") from error
    if len(body) > PAYLOAD_BYTES_MAX:  # otherwise every part of it is short enough
        _check_size("the arguments and metadata", (task.args, task.meta))
        _check_size("the result and the error", (task.result, task.error))
    return body


def _check_size(what: str, payload: object) -> None:
    size_bytes = len(_encoder.encode(payload))
    if size_bytes > PAYLOAD_BYTES_MAX:
        raise PayloadTooLarge(what, size_bytes, PAYLOAD_BYTES_MAX)
