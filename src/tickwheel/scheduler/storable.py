"""What a run leaves behind, as a store takes it: nothing that one task brings may keep others from being written."""

import traceback
from typing import Final

from msgspec.structs import replace

from tickwheel.errors import TickwheelError
from tickwheel.stores import bounds
from tickwheel.tasks.record import Task

__all__ = ["describe", "plain", "storable"]

ERROR_CHARS_MAX: Final = 16_384  # of a trace: a store keeps 256 KiB for it and the result


def describe(error: BaseException) -> str:
    """Write an error with its trace; one that cannot be written, by its kind."""
    try:
        return plain("".join(traceback.format_exception(error)))
    except BaseException as failure:  # noqa: BLE001 - its own methods take part in it, and may raise anything
        return plain(f"{type(error).__name__}, which cannot be shown: {type(failure).__name__} was raised")


def plain(text: str) -> str:
    """Return text that every store can keep; of a long one, the end."""
    text = text.encode(errors="replace").decode().replace("\0", "\\0")
    return text if len(text) <= ERROR_CHARS_MAX else f"...{text[-ERROR_CHARS_MAX:]}"


def storable(task: Task) -> Task:
    """Return a task that a store will take: without its result, if there is no room for that and an error."""
    if task.result is None:
        return task
    try:
        bounds.encode(task)
    except TickwheelError as error:
        return replace(task, result=None, reason=f"its result was not kept: {error}")
    return task
