"""The inside of a worker process: it takes calls from a pipe, one at a time, until the pipe is closed.

Functions come as module and qualified name, everything else pickled. Results go back as JSON; an exception goes back
as itself if it can be pickled, and as its words if it cannot, with its trace as text in either case.
"""

import pickle
import signal
import traceback
from functools import reduce
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from tickwheel.errors import rebuild
from tickwheel.workers.results import encode, passable

__all__ = ["Answer", "Call", "serve"]


class Call(NamedTuple):
    """What to run."""

    handler: str
    task_id: str
    module: str
    qualname: str
    arguments: dict[str, Any]


class Answer(NamedTuple):
    """What it came to."""

    result: bytes | None = None  # JSON
    error: bytes | None = None  # pickled, if it can be
    words: str = ""  # the error in words
    trace: str = ""


def serve(pipe: "Connection[bytes, bytes]") -> None:
    """Answer calls until nobody is there to make them."""
    # Ctrl-C in a terminal reaches every process of the program; what becomes of runs is for the parent to decide.
    # A function, for to ignore a signal would be passed on to programs that a handler starts.
    signal.signal(signal.SIGINT, lambda *_: None)
    while True:
        try:
            request = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        answer = pickle.dumps(run(request))
        try:
            pipe.send_bytes(answer)
        except OSError:
            return


def run(request: bytes) -> Answer:
    """Make one call, and take whatever comes of it."""
    handler = task_id = "?"
    try:
        call: Call = pickle.loads(request)  # noqa: S301 - from our own parent
        handler, task_id = call.handler, call.task_id
        function = reduce(getattr, call.qualname.split("."), import_module(call.module))
        return Answer(result=encode(handler, task_id, function(**call.arguments)))  # type: ignore[operator]
    except BaseException as error:  # noqa: BLE001 - a handler that exits ends its run, not its process
        trace = "".join(traceback.format_exception(error))
        return Answer(error=carry(passable(handler, task_id, error)), words=describe(error), trace=trace)


def carry(error: Exception) -> bytes | None:
    """Pickle an exception in a way that can be read again; None if there is none."""
    fields = {name: value for name, value in error.__dict__.items() if name != "__notes__"}
    for attempt in (error, Rebuilt(type(error), error.args, fields)):
        try:
            pickled = pickle.dumps(attempt)
            if type(pickle.loads(pickled)) is type(error):  # noqa: S301 - just written
                return pickled
        except Exception:  # noqa: BLE001, S112 - user code takes part in it, and may raise anything
            continue
    return None


class Rebuilt:
    """An exception whose constructor does not take its own `args`, as many do not."""

    def __init__(self, kind: type[BaseException], args: tuple[Any, ...], fields: dict[str, Any]) -> None:
        self._parts = (kind, args, fields)

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, self._parts


def describe(error: BaseException) -> str:
    """Name an exception as a trace does."""
    return "".join(traceback.format_exception_only(error)).strip()
