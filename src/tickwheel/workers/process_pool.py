"""Plain functions that compute, in processes that can be ended.

Processes are spawned, never forked: a fork copies locks that other threads hold. Each serves one run at a time and
is kept for the next. One that dies takes its run with it and nothing else, and is replaced when it is next needed.

    event loop               thread of the pool                        process
    start(job) ----------->  take an idle process, or spawn one
                             send the call  ------------------------>  import module
                             may it still begin?  <----- ready ------
                             then it has begun    ------- go ------->  call function
                             wait for an answer or for its end
    over  <----------------  outcome        <------------------------  result as JSON, or what it raised
    stop(job)  ---- SIGTERM, and SIGKILL if that does not help  ---->  gone
"""

import asyncio
import os
import pickle
import signal
import sys
from asyncio import Future
from collections.abc import Callable
from functools import partial, reduce
from itertools import count
from multiprocessing import get_context, process
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any
from weakref import WeakSet, finalize

import msgspec

from tickwheel.errors import InvalidArguments, ProcessDied, RunFailed, UnnamedHandler, WorkerNotStarted
from tickwheel.workers.child import GO, NUMBER_BYTES, READY, STAY, Answer, Call, serve
from tickwheel.workers.contract import End, Job, Outcome
from tickwheel.workers.results import describe
from tickwheel.workers.threads import Threads

__all__ = ["ProcessPool", "address"]

KILL_AFTER_S = 2.0  # for a process that was told to end by SIGTERM and catches that
LEAVE_AFTER_S = 5.0  # for an idle process whose pipe was closed to end on its own
SPAWN = get_context("spawn")

# The standard library keeps one list of children and reaps from any thread; two at once lose an exit code.
CHILDREN = Lock()
SPAWNED: "WeakSet[Child]" = WeakSet()


class Spawner:
    """Starts processes, from one thread that lasts: the kernel ends them with the thread that they were started by."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._thread: Thread | None = None
        self._wanted: SimpleQueue[tuple[BaseProcess, SimpleQueue[BaseException | None]]] = SimpleQueue()

    def start(self, wanted: BaseProcess) -> None:
        """Start a process, or raise what keeps it from starting."""
        with self._lock:
            if self._thread is None:
                self._thread = Thread(target=self._serve, name="tickwheel-spawner", daemon=True)
                self._thread.start()
        answer: SimpleQueue[BaseException | None] = SimpleQueue()
        self._wanted.put((wanted, answer))
        error = answer.get()
        if error is not None:
            raise error

    def _serve(self) -> None:
        while True:
            wanted, answer = self._wanted.get()
            try:
                with CHILDREN:
                    wanted.start()
                answer.put(None)
            except BaseException as error:  # noqa: BLE001 - who wanted it gets it
                answer.put(error)
            del wanted, answer


SPAWNER = Spawner()


class Child:
    """A process, and the pipe to it."""

    def __init__(self) -> None:
        self.doomed = False  # it was told to end, and may look alive for a moment longer
        self._buried = False
        self._numbers = count(1)  # of the calls to it
        self.pipe, theirs = SPAWN.Pipe()
        # A daemon is ended at the interpreter's exit, instead of waited for.
        self.process = SPAWN.Process(target=serve, args=(theirs, os.getpid()), name="tickwheel-worker", daemon=True)
        try:
            SPAWNER.start(self.process)
            self.end = watch_end(self.process)
            self._let_go = finalize(self, close_end, self.end, self.process.sentinel)
            self._let_go.atexit = False
            SPAWNED.add(self)
        except BaseException:
            self.pipe.close()
            raise
        finally:
            theirs.close()  # so that the pipe ends when the process does

    def ask(self, request: bytes, may_begin: Callable[[], bool]) -> bytes | None:
        """Send a call and wait for its answer; `STAY` if it may not begin, None if the process died before."""
        number = next(self._numbers).to_bytes(NUMBER_BYTES)
        try:
            self.pipe.send_bytes(number + request)
            answer = self._receive(number)
            if answer == READY:
                word = GO if may_begin() else STAY
                self.pipe.send_bytes(number + word)
                answer = self._receive(number) if word == GO else STAY
        except (EOFError, OSError):
            return None
        return answer

    def _receive(self, number: bytes) -> bytes | None:
        """Wait for what is said of a call, and pass over everything else; None if the process ended."""
        while self.pipe in wait([self.pipe, self.end]):
            message = self.pipe.recv_bytes()
            if message.startswith(number):
                return message[NUMBER_BYTES:]
        return None

    def alive(self) -> bool:
        """Tell whether it may be used again."""
        with CHILDREN:
            return not self.doomed and self.process.is_alive()

    def terminate(self) -> None:
        """Tell it to end."""
        self.doomed = True
        with CHILDREN:
            self.process.terminate()

    def kill(self) -> None:
        """Make it end, if it has not."""
        with CHILDREN:
            if not self._buried and self.process.is_alive():
                self.process.kill()

    def bury(self) -> int | None:
        """Wait for its end, make it end if that takes long, and return its exit code."""
        self.doomed = True
        self.pipe.close()
        if not wait([self.end], LEAVE_AFTER_S):
            self.kill()
            wait([self.end])
        with CHILDREN:
            self.process.join()
            exit_code = self.process.exitcode
            self._let_go()
            self.process.close()
            self._buried = True
        return exit_code


def watch_end(started: BaseProcess) -> int:
    """Return a file descriptor that is ready when a process has ended.

    The standard library's is a pipe, which does not end as long as anything that the process has forked lives.
    """
    if sys.platform == "linux":
        try:
            return os.pidfd_open(started.pid or 0)
        except OSError:  # an old kernel, or one that does not allow it; or somebody has waited for it already
            pass
    return started.sentinel


def close_end(end: int, sentinel: int) -> None:
    """Close what `watch_end` opened; the standard library closes its own."""
    if end != sentinel:
        os.close(end)


class ProcessPool:
    """Runs in processes, each watched by a thread."""

    patience_s = KILL_AFTER_S + 1.0

    def __init__(self, most: int) -> None:
        self._threads = Threads(most, "tickwheel-process")
        self._lock = Lock()  # over the two below: threads take and give back, the loop looks for whom to end
        self._idle: list[Child] = []
        self._serving: dict[Job, Child] = {}
        self._closed = False

    @property
    def free(self) -> int:
        """Return how many runs it would begin now."""
        return self._threads.free

    def start(self, job: Job, end: End) -> Future[Outcome]:
        """Begin a run in a process."""
        return self._threads.submit(partial(self._watch, job), partial(end, job))

    def stop(self, job: Job, end: End) -> None:  # noqa: ARG002 - its thread sees it end
        """End the process of a run, if it is still at it."""
        with self._lock:
            child = self._serving.get(job)
            if child is None or child.doomed:
                return
            child.terminate()
        asyncio.get_running_loop().call_later(KILL_AFTER_S, child.kill)

    async def close(self) -> None:
        """End the processes that are idle, and let the others end when they are."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        if idle:
            undertaker = Threads(1, "tickwheel-process-end")  # the others may all be busy
            await undertaker.submit(partial(bury, idle))
            await undertaker.close()
        await self._threads.close()

    def _watch(self, job: Job) -> Outcome:
        try:
            request = request_for(job)
        except Exception as error:  # noqa: BLE001 - it cannot be sent to any process
            return Outcome(error=error)
        try:
            child = self._take()
        except Exception as error:  # noqa: BLE001 - no process, no descriptor, no memory, for now
            return Outcome(error=WorkerNotStarted(job.pool, f"{type(error).__name__}: {error}"))
        with self._lock:
            begun = not job.stop.is_set()
            if begun:
                self._serving[job] = child
        answer = child.ask(request, job.begin) if begun else None
        with self._lock:
            self._serving.pop(job, None)
            keep = (answer is not None or not begun) and not child.doomed and not self._closed
            if keep:
                self._idle.append(child)
        exit_code = None if keep else child.bury()
        if not begun:
            return Outcome()  # who stopped it has said why
        if answer == STAY:
            return job.not_begun()
        return Outcome(error=death(job, exit_code)) if answer is None else outcome_of(job, answer)

    def _take(self) -> Child:
        """Return a process that lives: one that was killed while idle harms nobody."""
        while True:
            with self._lock:
                child = self._idle.pop() if self._idle else None
            if child is None:
                return Child()
            if child.alive():
                return child
            child.bury()


def _after_fork() -> None:
    """Leave the processes to the parent: a forked child that ends would end all that it takes for its own."""
    global CHILDREN, SPAWNER  # noqa: PLW0603 - a thread of the parent may hold it, and the spawner's is the parent's
    CHILDREN = Lock()
    SPAWNER = Spawner()
    for child in list(SPAWNED):
        child.pipe.close()  # the processes see the parent's end only when nobody else has its pipe
        process._children.discard(child.process)  # type: ignore[attr-defined] # there is no other way


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def bury(children: list[Child]) -> Outcome:
    """End processes that are idle, all at the same time."""
    for child in children:
        child.pipe.close()
    for child in children:
        child.bury()
    return Outcome()


def address(function: Callable[..., Any]) -> tuple[str, str]:
    """Return the module and name a function is found by; raise `UnnamedHandler` if it is not what is found there."""
    module, qualname = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if module not in sys.modules or not qualname:
        raise UnnamedHandler(function)
    try:
        found: object = reduce(getattr, qualname.split("."), sys.modules[module])
    except AttributeError:
        raise UnnamedHandler(function) from None
    if found != function:
        raise UnnamedHandler(function)
    return module, qualname


def request_for(job: Job) -> bytes:
    """Write down a run for another process."""
    module, qualname = address(job.handler.function)
    try:
        return pickle.dumps(Call(job.handler.name, job.task.id, module, qualname, job.arguments))
    except Exception as error:
        wrong = [name for name, value in job.arguments.items() if not can_be_sent(value)]
        raise InvalidArguments(job.handler.name, job.task.id, unexpected=wrong) from error


def can_be_sent(value: object) -> bool:
    """Tell whether a value can go to another process."""
    try:
        pickle.dumps(value)
    except Exception:  # noqa: BLE001 - whatever it is, it cannot
        return False
    return True


def outcome_of(job: Job, written: bytes) -> Outcome:
    """Read what a process answered."""
    answer: Answer = pickle.loads(written)  # noqa: S301 - from our own child
    if answer.result is not None:
        return Outcome(msgspec.json.decode(answer.result))
    note = f"in another process:\n{answer.trace}"
    try:
        error = pickle.loads(answer.error or b"")  # noqa: S301
        error.add_note(note)
        if not issubclass(type(error), Exception):
            raise TypeError(type(error))  # noqa: TRY301 - it reads as something else here
    except BaseException:  # noqa: BLE001 - it could not be pickled there, its class is not here, or its code raises
        error = RunFailed(job.handler.name, job.task.id, answer.words)
        error.add_note(note)
    return Outcome(error=error, raised=answer.raised, trace=describe(error))  # here, and not on the event loop


def death(job: Job, exit_code: int | None) -> ProcessDied:
    """Say how a process came to its end."""
    name = None
    if exit_code is not None and exit_code < 0:
        try:
            name = signal.Signals(-exit_code).name
        except ValueError:
            name = f"signal {-exit_code}"
    return ProcessDied(job.handler.name, job.task.id, exit_code, name)
