"""What comes out of a function, made fit to be kept and to be raised."""

import traceback
from asyncio import CancelledError
from collections.abc import Callable
from inspect import iscoroutine
from typing import Any, Final

import msgspec

from tickwheel.errors import ForgottenCoroutine, InvalidResult, PayloadTooLarge, ResultTooLarge, RunFailed
from tickwheel.tasks.fields import json_value
from tickwheel.workers.contract import Outcome

__all__ = [
    "NOTHING", "RESULT_BYTES_MAX", "describe", "encode", "name_of", "passable", "plain", "returned", "settle",
    "words_of",
]  # fmt: skip

NOTHING = Outcome()  # what most functions return
RESULT_BYTES_MAX = 256 * 1024 - len("[,null]")  # a store keeps 256 KiB, of the result and the error as one list
ERROR_CHARS_MAX: Final = 16_384  # of a trace: a store keeps 256 KiB for it and the result


def encode(handler: str, task_id: str, result: object) -> bytes:
    """Write a result as JSON; raise if that cannot be, or is too much to keep."""
    try:
        forgotten = iscoroutine(result)
        if forgotten:
            result.close()  # type: ignore[attr-defined] # a coroutine has it
        encoded = b"" if forgotten else msgspec.json.encode(json_value("result", result))
    except PayloadTooLarge as error:
        raise ResultTooLarge(handler, task_id, None, RESULT_BYTES_MAX) from error
    except BaseException as error:  # methods of the result take part in it, and may raise anything
        raise InvalidResult(handler, task_id, words_of(error)) from error
    if forgotten:
        raise ForgottenCoroutine(handler, task_id)
    if len(encoded) > RESULT_BYTES_MAX:
        raise ResultTooLarge(handler, task_id, len(encoded), RESULT_BYTES_MAX)
    return encoded


def settle(handler: str, task_id: str, call: Callable[[], Any]) -> Outcome:
    """Call a function and take whatever comes: what it returned, as a store would give it back, or what it raised.

    What it raised is formatted here: that calls methods of the exception, which may take their time.
    """
    try:
        result = call()
    except BaseException as raised:  # noqa: BLE001 - a handler that exits ends its run, not its thread
        error = passable(handler, task_id, raised)
        return Outcome(error=error, raised=True, trace=describe(error))
    return returned(handler, task_id, result)


def returned(handler: str, task_id: str, result: object) -> Outcome:
    """Return what a function came to that returned: its result as a store would give it back, if one can keep it."""
    if result is None:
        return NOTHING
    try:
        return Outcome(msgspec.json.decode(encode(handler, task_id, result)))
    except BaseException as error:  # noqa: BLE001 - InvalidResult, or there is no memory for it
        return Outcome(error=error, trace=describe(error))


def words_of(error: BaseException) -> str:
    """Return what an error says; its name, if that is nothing or cannot be said."""
    try:
        return str.__str__(str(error)) or name_of(error)
    except BaseException:  # noqa: BLE001 - a method of the handler's, which may raise anything
        return name_of(error)


def describe(error: BaseException) -> str:
    """Format an error with its trace; one that cannot be formatted, by its type."""
    try:
        return plain("".join(traceback.format_exception(error)))
    except BaseException as failure:  # noqa: BLE001 - its own methods take part in it, and may raise anything
        return plain(f"{name_of(error)}, which cannot be shown: {name_of(failure)} was raised")


def plain(text: str) -> str:
    """Return text that every store can keep; of a long one, the end."""
    text = text.encode(errors="replace").decode().replace("\0", "\\0")
    return text if len(text) <= ERROR_CHARS_MAX else f"...{text[-ERROR_CHARS_MAX:]}"


# Read like this, attributes of a class are what the interpreter knows, whatever its metaclass says.
_NAME: Final = type.__dict__["__name__"]
_MRO: Final = type.__dict__["__mro__"]
_DICT: Final = type.__dict__["__dict__"]
_SLOT: Final = type(object.__getattribute__)  # what the interpreter itself defines


def name_of(error: BaseException) -> str:
    """Return the name of an error's class, without calling anything of it."""
    name: str = _NAME.__get__(type(error))
    return name


def _interferes(kind: type) -> bool:
    """Tell whether a class answers for itself when its objects are asked what they are."""
    for base in _MRO.__get__(kind):
        attributes = _DICT.__get__(base)
        if base is not object and "__class__" in attributes:
            return True
        if not isinstance(attributes.get("__getattribute__", object.__getattribute__), _SLOT):
            return True
    return False


def passable(handler: str, task_id: str, error: BaseException) -> Exception:
    """Return what may be raised on the event loop: anything that neither ends the loop nor reads as a signal to it.

    Whatever an exception does when it is asked, it does not reach those who ask: what remains of one that answers for
    itself is its name and its words.
    """
    kind, name = type(error), name_of(error)
    interferes = _interferes(kind)
    if issubclass(kind, Exception) and not issubclass(kind, StopIteration) and not interferes:
        return error  # type: ignore[return-value] # it is one
    words = words_of(error)
    words = f"{name}: {words}" if words != name else words
    if issubclass(kind, CancelledError):
        words += ", though nobody had cancelled it"
    failed = RunFailed(handler, task_id, words)
    if not interferes:
        failed.__cause__ = error
    return failed
