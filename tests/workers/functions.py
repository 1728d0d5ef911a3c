"""Functions that worker processes import by name, and what makes tasks for any function."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tickwheel.errors import WorkersClosed
from tickwheel.tasks import Handler, Task, TaskContext

PATIENCE_S = 60.0  # for what must happen; far more than it takes


def task(id: str = "t", *, priority: int = 0, timeout_ms: int = 30_000, **args: Any) -> Task:  # noqa: A002
    return Task(
        id=id, handler="h", args=args, priority=priority, timeout_ms=timeout_ms, run_at=7, occurrence_at=7, created_at=0
    )


def handler(function: Callable[..., Any], **options: Any) -> Handler:
    options.setdefault("name", getattr(function, "__name__", "h"))
    return Handler(function=function, **options)


def in_process(function: Callable[..., Any], **options: Any) -> Handler:
    return handler(function, pool="process", **options)


def worker_threads() -> set[threading.Thread]:
    """Return our threads but for the one that starts processes, which lasts as long as this process."""
    ours = (thread for thread in threading.enumerate() if thread.name.startswith("tickwheel"))
    return {thread for thread in ours if thread.name != "tickwheel-spawner"}


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def told(started: str) -> int:
    """Return which process has written to a named pipe, as soon as one has."""
    return int(await asyncio.to_thread(Path(started).read_text))


def double(number: int) -> int:
    return 2 * number


def pid() -> int:
    return os.getpid()


def raise_closed() -> None:
    raise WorkersClosed


def return_object() -> object:
    return object()


def tell_context(context: TaskContext) -> list[Any]:
    return [context.id, context.attempt, context.occurrence_id, context.scheduled_at, context.meta, context.cancelled]


def kill_self(number: int) -> None:
    os.kill(os.getpid(), number)


def leave(code: int) -> None:
    os._exit(code)


def exit_politely() -> None:
    sys.exit("enough")


def wait_forever(started: str) -> None:
    """Say who waits, to who reads there, and wait to be ended."""
    Path(started).write_text(str(os.getpid()))
    while True:
        signal.pause()


def wait_stubbornly(started: str) -> None:
    signal.signal(signal.SIGTERM, lambda *_: None)
    wait_forever(started)


def raise_value_error(words: str) -> None:
    raise ValueError(words)


class OddError(Exception):
    """Its constructor does not take its own args."""

    def __init__(self, code: int, why: str) -> None:
        self.code = code
        super().__init__(f"{code}: {why}")


class HeavyError(Exception):
    """Holds what no pickle can."""

    def __init__(self) -> None:
        self.lock = open(os.devnull)  # noqa: SIM115, PTH123
        self.lock.close()
        super().__init__("too heavy")


class NoArgs(Exception):
    @property
    def args(self) -> Any:  # type: ignore[override]
        raise RuntimeError("not loaded")


class NoCause(Exception):
    @property
    def __cause__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("not loaded")


class NoContext(Exception):
    @property
    def __context__(self) -> Any:  # type: ignore[override]
        raise KeyboardInterrupt


class NoPickle(Exception):
    def __reduce__(self) -> Any:
        raise SystemExit


class NoWords(BaseException):
    def __str__(self) -> str:
        raise SystemExit


class NoClass(Exception):
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("not loaded")


class NoAttributes(Exception):
    def __getattribute__(self, name: str) -> Any:
        raise SystemExit


class NoReading(Exception):
    """Can be read again in the process that wrote it, and nowhere else."""

    def __init__(self, writer: int | None = None) -> None:
        if writer not in (None, os.getpid()):
            raise SystemExit
        super().__init__(os.getpid())


class NoNotes(Exception):
    def add_note(self, _note: str, /) -> None:
        raise SystemExit


MISBEHAVING = {
    kind.__name__: kind
    for kind in (NoArgs, NoCause, NoContext, NoPickle, NoWords, NoClass, NoAttributes, NoReading, NoNotes)
}


def raise_misbehaving(kind: str) -> None:
    raise MISBEHAVING[kind]


class NoItems(dict[str, int]):
    def items(self) -> Any:
        raise KeyboardInterrupt

    __iter__ = items
    keys = items


def return_misbehaving() -> Any:
    return NoItems(a=1)


def raise_odd() -> None:
    raise OddError(42, "odd")


def raise_heavy() -> None:
    raise HeavyError


def return_lock() -> object:
    return object()


def return_much() -> str:
    return "x" * (256 * 1024)


def start_program() -> str:
    return subprocess.run([sys.executable, "-c", "print('out')"], capture_output=True, text=True, check=True).stdout


def fork(how: str) -> int:
    """Fork a child that comes back out of this function as well, and return the status that it ended with."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signal.alarm(int(PATIENCE_S / 2))  # it does not live for ever, whatever becomes of it
    if how == "raise":
        raise ValueError("in a child")
    if how == "exit":
        sys.exit(3)
    return -1


def fork_and_wait(started: str, child_lives: str) -> None:
    """Fork a child that lives until somebody has read there, and wait to be ended."""
    if not os.fork():
        signal.alarm(int(2 * PATIENCE_S))
        Path(child_lives).write_text("it does")
        os._exit(0)
    wait_forever(started)
