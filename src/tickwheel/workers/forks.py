"""What a function forks is not the worker that called it: it must not answer for the worker, nor take its next call.

    worker   calls the function ---------------------------> returns: the outcome of the run
                   `-- fork -- child ---> returns, raises or exits: ends where it comes back out of the function

Such a child has a copy of everything that the worker has, and ends by `os._exit`: what the worker would do at its end
is not for the child to do. A child that comes back to the event loop by awaiting something ends there, too: it would go
on with all that runs on the loop, beside its parent.
"""

import os
import sys
import threading
from asyncio import AbstractEventLoop, Handle
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NoReturn
from weakref import WeakSet

__all__ = ["FORKS", "LOOPS", "call", "end"]

# Set to 0 where a function runs; one more in a child, where its fork was called. None elsewhere: such forks are the
# program's own.
FORKS: ContextVar[int | None] = ContextVar("tickwheel_forks", default=None)
LOOPS: WeakSet[AbstractEventLoop] = WeakSet()  # on which functions run


def call(function: Callable[..., Any], /, **arguments: Any) -> Any:
    """Call a function; what it has forked ends where it comes back."""
    FORKS.set(0)
    try:
        result = function(**arguments)
    except BaseException as error:
        if FORKS.get():
            end(error)
        raise
    if FORKS.get():
        end()
    return result


def end(error: BaseException | None = None) -> NoReturn:
    """End this process at once, with the status of a program that ended like this."""
    status = 1
    try:
        if error is None:
            status = 0
        elif isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
            status = (error.code or 0) & 0xFF
        else:
            sys.excepthook(type(error), error, error.__traceback__)
    finally:
        os._exit(status)


def _after_fork_in_child() -> None:
    forks = FORKS.get()
    if forks is None:
        return
    FORKS.set(forks + 1)
    for loop in LOOPS:
        ready = getattr(loop, "_ready", None)  # uvloop's cannot be reached: there, a child is not kept from going on
        if ready is not None and getattr(loop, "_thread_id", None) == threading.get_ident():
            ready.appendleft(Handle(_end_on_loop, (), loop))  # before anything else that the loop does


def _end_on_loop() -> None:
    end(RuntimeError("a forked child came back to the event loop of its parent by await; end it with os._exit()"))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
