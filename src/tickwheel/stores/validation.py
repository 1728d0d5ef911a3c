"""What fits into a store: the same limits in every one, checked before anything is written.

>>> check_limit(0, most=1000)
Traceback (most recent call last):
tickwheel.errors.InvalidLimit: limit must be an int from 1 to 1,000, not 0; ask again for what lies beyond
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast, get_args

import msgspec
from msgspec.structs import replace

from tickwheel.errors import (
    BatchTooLarge,
    InvalidLimit,
    InvalidTask,
    PayloadTooLarge,
    UnknownOption,
    shown,
)
from tickwheel.stores.contract import PAGE_MAX, Finish, OnConflict
from tickwheel.tasks.fields import (
    DEPTH_MAX,
    MOMENT_MAX,
    NAME_CHARS_MAX,
    PAYLOAD_BYTES_MAX,
    invalid,
    is_a,
    json_value,
    sayable,
    text,
)
from tickwheel.tasks.record import INDEX_MAX, LEGAL, Status, Task
from tickwheel.tasks.triggers import Every

__all__ = [
    "BATCH_MAX",
    "COUNT_ROWS_MAX",
    "NAME_CHARS_MAX",
    "PAYLOAD_BYTES_MAX",
    "check_amended",
    "check_batch",
    "check_finishes",
    "check_id",
    "check_limit",
    "check_moment",
    "check_new",
    "check_on_conflict",
    "check_payload",
    "check_readable",
    "check_reason",
    "decode",
    "encode",
    "sayable",
]

REASON_CHARS_MAX: Final = 1_000  # of why a task is cancelled: a sentence, with room
BATCH_MAX: Final = 10_000  # tasks; a transaction of a fifth of a second or so
COUNT_ROWS_MAX: Final = 1_000_000  # that a caller may have counted one by one: a second or so
MEASURED_BYTES: Final = PAYLOAD_BYTES_MAX // 8  # others may write numbers in a quarter of the bytes that we do
SHORT_BYTES: Final = 2 * DEPTH_MAX  # of a body that has no room for more containers within each other

WAYS: Final[tuple[str, ...]] = get_args(OnConflict)


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


def check_on_conflict(on_conflict: object) -> OnConflict:
    """Return a way of dealing with duplicates as plain text; refuse one that there is not."""
    given = str.__str__(on_conflict) if is_a(on_conflict, str) else shown(on_conflict)
    if not is_a(on_conflict, str) or given not in WAYS:
        raise UnknownOption(f"on_conflict={given}", [f"on_conflict={way}" for way in WAYS])
    return cast("OnConflict", given)


def check_new(tasks: Sequence[Task], partitions: int) -> None:
    """Refuse tasks that cannot be added."""
    check_batch(tasks)
    for task in tasks:
        text("id", task.id, NAME_CHARS_MAX)
        text("handler", task.handler, NAME_CHARS_MAX)
        check_moment(task.run_at)
        if not 0 <= task.partition < partitions:
            raise InvalidTask(f"task {task.id!r}: partitions are from 0 to {partitions - 1}, not {task.partition!r}")
        if not -INDEX_MAX <= task.priority <= INDEX_MAX:
            raise InvalidTask(f"task {task.id!r}: priorities fit 32 bits, and {task.priority!r} does not")
        if task.status is not Status.PENDING:
            raise InvalidTask(f"task {task.id!r}: a new task is pending, not {task.status}")


def check_amended(tasks: Sequence[Task]) -> None:
    """Refuse changes that no task can have."""
    check_batch(tasks)
    for task in tasks:
        text("handler", task.handler, NAME_CHARS_MAX)
        check_moment(task.run_at)
        if not -INDEX_MAX <= task.priority <= INDEX_MAX:
            raise InvalidTask(f"task {task.id!r}: priorities fit 32 bits, and {task.priority!r} does not")


def check_finishes(finishes: Sequence[Finish]) -> None:
    """Refuse outcomes that a running task cannot have."""
    check_batch(finishes)
    for finish in finishes:
        check_moment(finish.task.run_at)
        if finish.task.status not in LEGAL[Status.RUNNING]:
            raise InvalidTask(f"task {finish.task.id!r}: what ran cannot be {finish.task.status} then")


def check_id(task_id: object) -> str:
    """Return the id of a task that may be there: any text."""
    if not isinstance(task_id, str):
        raise invalid("id", task_id, "text")
    return str.__str__(task_id)


def check_reason(reason: object) -> str:
    """Return why something is done to a task, as text that every store can keep."""
    return text("reason", reason, REASON_CHARS_MAX, 0)


def check_readable(tasks: Sequence[Task]) -> None:
    """Refuse tasks that would not come out of a store again as they are: for those that others have changed."""
    for task in tasks:
        try:
            read = decode(encode(task))
        except ValueError as error:  # a field of the wrong type; what could not be encoded was told already
            raise InvalidTask(f"task {task.id!r} could not be read again: {error}") from error
        if read != task:
            raise InvalidTask(f"task {task.id!r} would come out of a store as another one: {read!r:.300}")


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Task)


def encode(task: Task) -> bytes:
    """Write a task as JSON; what it brings along, and what its runs left, may each be so long."""
    try:
        body = _encoder.encode(task)
    except (TypeError, ValueError, RecursionError) as error:  # what JSON has no word for, lone surrogates, depth
        raise InvalidTask(f"task {task.id!r} cannot be kept as JSON: {error}") from error
    if len(body) > PAYLOAD_BYTES_MAX:  # otherwise every part of it is short enough
        check_payloads(task)
    return body


def check_payloads(task: Task) -> None:
    """Refuse a task that is too long to be kept, now or when what follows has taken its place."""
    check_payload(task.args, task.meta)
    _check_size("the result and the error", task.result, task.error)
    if task.following is not None:
        after = task.following.task
        check_payload(after.args, task.meta if task.following.how == "debounce" else after.meta)


def check_payload(args: Mapping[str, Any], meta: Mapping[str, Any]) -> None:
    """Refuse arguments and metadata that are too long to be kept together."""
    _check_size("the arguments and metadata", args, meta)


def decode(body: bytes | str) -> Task:
    """Read a task that was written as JSON, and that can be written again; a `ValueError` says why it is not one.

    That it is paused was a status before it was a flag.
    """
    task = _decoder.decode(body)
    _check_steps(task)
    if len(body) > SHORT_BYTES:
        raw = body.encode() if isinstance(body, str) else body
        if len(raw) > MEASURED_BYTES:
            check_payloads(task)
        if raw.count(b"[") + raw.count(b"{") > DEPTH_MAX:  # fewer cannot be within each other too deep
            _check_depth(task)
    if task.status is Status.PAUSED:
        return replace(task, status=Status.PENDING, paused=True)
    return task


def _check_steps(task: Task) -> None:
    """Raise `ValueError` if a step of a task's life would come to what no store could keep."""
    if type(task.trigger) is Every:
        latest = max(task.occurrence_at, task.grid_at or 0, task.next_at or 0)
        if latest > MOMENT_MAX - task.trigger.interval_ms:
            raise InvalidTask(f"the occurrence after {latest} is later than any time that can be stored")
    if task.following is not None:
        if task.following.task.following is not None:
            raise InvalidTask("invalid following: it has a following of its own")
        _check_steps(task.following.task)


def _check_depth(task: Task) -> None:
    following = {} if task.following is None else {"args": task.following.task.args, "meta": task.following.task.meta}
    for payload in (task.args, task.meta, task.result, *following.values()):
        json_value("data", payload)


def _check_size(what: str, first: object, second: object) -> None:
    size_bytes = len(_encoder.encode((first, second)))
    if size_bytes > PAYLOAD_BYTES_MAX:
        raise PayloadTooLarge(what, size_bytes, PAYLOAD_BYTES_MAX)
