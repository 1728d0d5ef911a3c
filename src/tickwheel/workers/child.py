"""The inside of a worker process: it takes calls from a pipe, one at a time, until the pipe is closed.

    parent  --call-->  import the function, read the arguments
            <-ready--
            ---go--->  call the function                  or `stay`: the run may not begin any more
            <-answer-

Each message begins with the number of the call that it is about. A process that a function forks closes its copy of the
pipe, and ends when it comes back out of the function: it can neither answer nor take the next call.

Functions come as module and qualified name, everything else pickled. Results go back as JSON; an exception goes back
as itself if it can be pickled, and as its words if it cannot, with its trace as text in either case.

It ends with its parent, in the middle of a run as well: another node takes over what the parent ran, and must not find
it still running. On Linux the kernel sends a signal; elsewhere, and besides, a thread sees the pipe end.
"""

import ctypes
import os
import pickle
import select
import signal
import sys
import time
import traceback
from functools import reduce
from importlib import import_module
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any, Final, NamedTuple

from tickwheel.errors import rebuild
from tickwheel.workers import forks
from tickwheel.workers.results import encode, name_of, passable

__all__ = ["GO", "NUMBER_BYTES", "READY", "STAY", "Answer", "Call", "serve"]

NUMBER_BYTES: Final = 8  # of a call, before everything that is sent for it
READY: Final = b""  # an answer is never empty
GO: Final = b"go"
STAY: Final = b"stay"
PR_SET_PDEATHSIG: Final = 1  # from linux/prctl.h
ORPHANED_S: Final = 0.02  # between two looks whether the parent is gone, once the pipe has ended


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
    raised: bool = True  # by the function, or where it is; otherwise its result cannot be kept


def serve(pipe: "Connection[bytes, bytes]", parent: int) -> None:
    """Answer calls until nobody is there to make them."""
    if sys.platform != "win32":
        end_with_parent(pipe.fileno(), parent)
    # Ctrl-C in a terminal reaches every process of the program; what becomes of runs is for the parent to decide.
    # A function, for to ignore a signal would be passed on to programs that a handler starts.
    signal.signal(signal.SIGINT, lambda *_: None)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=pipe.close)
    while True:
        try:
            request = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        number = request[:NUMBER_BYTES]
        try:
            answer = run(number, request[NUMBER_BYTES:], pipe)
            if answer is not None:
                pipe.send_bytes(number + pickle.dumps(answer))
        except (PipeClosed, OSError):
            return


def end_with_parent(pipe: int, parent: int) -> None:
    """Have this process killed when its parent ends; its other end of the pipe is in the parent alone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the signal was asked for
        os.kill(os.getpid(), signal.SIGKILL)
    Thread(target=watch_parent, args=(pipe, parent), name="tickwheel-parent", daemon=True).start()


def watch_parent(pipe: int, parent: int) -> None:
    """Wait until the pipe ends, and kill this process if the parent is gone; if it is not, it only closed the pipe."""
    poll = select.poll()
    poll.register(pipe, 0)  # which tells of its end, and of nothing else
    poll.poll()
    while os.getppid() == parent:
        time.sleep(ORPHANED_S)
    os.kill(os.getpid(), signal.SIGKILL)


class PipeClosed(Exception):
    """Nobody is there any more to say whether a run may begin."""


def run(number: bytes, request: bytes, pipe: "Connection[bytes, bytes]") -> Answer | None:
    """Make one call, and take whatever comes of it; None if it may not begin."""
    handler = task_id = "?"
    returned = False
    try:
        call: Call = pickle.loads(request)  # noqa: S301 - from our own parent
        handler, task_id = call.handler, call.task_id
        function = reduce(getattr, call.qualname.split("."), import_module(call.module))
        if not may_begin(number, pipe):
            return None
        result = forks.call(function, **call.arguments)  # type: ignore[arg-type]
        returned = True
        return Answer(result=encode(handler, task_id, result))
    except PipeClosed:
        raise
    except BaseException as error:  # noqa: BLE001 - a handler that exits ends its run, not its process
        carried = carry(passable(handler, task_id, error))
        return Answer(error=carried, words=describe(error), trace=trace_of(error), raised=not returned)


def may_begin(number: bytes, pipe: "Connection[bytes, bytes]") -> bool:
    """Say that everything is ready, and ask whether the run may begin."""
    try:
        pipe.send_bytes(number + READY)
        return pipe.recv_bytes() == number + GO
    except (EOFError, OSError) as error:
        raise PipeClosed from error


def carry(error: Exception) -> bytes | None:
    """Pickle an exception in a way that can be read again; None if there is none."""
    for form in (lambda: error, lambda: rebuilt(error)):
        try:
            pickled = pickle.dumps(form())
            if type(pickle.loads(pickled)) is type(error):  # noqa: S301 - just written
                return pickled
        except BaseException:  # noqa: BLE001, S112 - user code takes part in it, and may raise anything
            continue
    return None


def rebuilt(error: Exception) -> "Rebuilt":
    """Take an exception apart, to be put together without its constructor."""
    fields = {name: value for name, value in error.__dict__.items() if name != "__notes__"}
    return Rebuilt(type(error), error.args, fields)


class Rebuilt:
    """An exception whose constructor does not take its own `args`, as many do not."""

    def __init__(self, kind: type[BaseException], args: tuple[Any, ...], fields: dict[str, Any]) -> None:
        self._parts = (kind, args, fields)

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, self._parts


def describe(error: BaseException) -> str:
    """Name an exception as a trace does; by its class, if it cannot be shown."""
    try:
        return "".join(traceback.format_exception_only(error)).strip()
    except BaseException:  # noqa: BLE001 - user code takes part in it, and may raise anything
        return name_of(error)


def trace_of(error: BaseException) -> str:
    """Format an exception with its trace; if it cannot be shown, where it was raised."""
    try:
        return "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001 - as above
        return f"{place_of(error)}{name_of(error)}, which cannot be shown"


def place_of(error: BaseException) -> str:
    """Format where an exception was raised; nothing, if it hides that."""
    try:
        return "".join(traceback.format_tb(error.__traceback__))
    except BaseException:  # noqa: BLE001 - as above
        return ""
