"""What comes out of a function, made fit to be kept and to be raised."""

from asyncio import CancelledError
from collections.abc import Callable
from inspect import iscoroutine
from typing import Any

import msgspec

from tickwheel.errors import InvalidResult, ResultTooLarge, RunFailed
from tickwheel.tasks.fields import json_value
from tickwheel.workers.contract import Outcome

__all__ = ["RESULT_BYTES_MAX", "encode", "passable", "returned", "settle"]

RESULT_BYTES_MAX = 256 * 1024 - len("[,null]")  # a store keeps 256 KiB, of the result and the error as one list


def encode(handler: str, task_id: str, result: object) -> bytes:
    """Write a result as JSON; raise if that cannot be, or is too much to keep."""
    if iscoroutine(result):
        result.close()
        raise InvalidResult(handler, task_id, "it is a coroutine, and nobody awaits it; make the function async")
    try:
        encoded = msgspec.json.encode(json_value("result", result))
    except Exception as error:  # also of a class of the handler's, whose words may raise in turn
        raise InvalidResult(handler, task_id, words_of(error)) from error
    if len(encoded) > RESULT_BYTES_MAX:
        raise ResultTooLarge(handler, task_id, len(encoded), RESULT_BYTES_MAX)
    return encoded


def settle(handler: str, task_id: str, call: Callable[[], Any]) -> Outcome:
    """Call a function and take whatever comes: what it returned, as a store would give it back, or what it raised."""
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - a handler that exits ends its run, not its thread
        return Outcome(error=error, raised=True)
    return returned(handler, task_id, result)


def returned(handler: str, task_id: str, result: object) -> Outcome:
    """Return what a function came to that returned: its result as a store would give it back, if one can keep it."""
    if result is None:
        return Outcome()
    try:
        return Outcome(msgspec.json.decode(encode(handler, task_id, result)))
    except BaseException as error:  # noqa: BLE001 - methods of the result take part in it, and may raise anything
        return Outcome(error=error)


def words_of(error: BaseException) -> str:
    """Return what an error says; its name, if that is nothing or cannot be said."""
    try:
        return str(error) or type(error).__name__
    except BaseException:  # noqa: BLE001 - a method of the handler's, which may raise anything
        return type(error).__name__


def passable(handler: str, task_id: str, error: BaseException) -> Exception:
    """Return what may be raised on the event loop: anything that neither ends the loop nor reads as a signal to it."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    words = words_of(error)
    words = f"{type(error).__name__}: {words}" if words != type(error).__name__ else words
    if isinstance(error, CancelledError):
        words += ", though nobody had cancelled it"
    failed = RunFailed(handler, task_id, words)
    failed.__cause__ = error
    return failed
