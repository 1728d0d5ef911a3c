"""What every pool promises: to begin a run, to ask it to stop, and to say when it is really over.

Two things are kept apart. The *outcome* of a run is what its caller is told. The run is *over* when its function has
returned and its place in the pool is free again; until then it counts. Neither a thread nor an async function that
swallows its cancellation can be ended, and its run must not be retried beside it: its outcome is told when it is over.

    pool        its runs                     is asked to stop by           is over within
    loop        tasks on the event loop      cancelling the task           patience_s, or it is stuck until it ends
    thread      calls on daemon threads      `context.cancelled`           its own return: stuck until then
    process     calls in spawned processes   SIGTERM, then SIGKILL         patience_s
"""

from asyncio import AbstractEventLoop, Future
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, NamedTuple, Protocol

from tickwheel.errors import RunNotBegun
from tickwheel.tasks import Flag, Handler, PoolName, Task
from tickwheel.timers.loop_timers import Call

__all__ = ["End", "Gate", "Job", "Outcome", "Pool", "Tell"]


class Outcome(NamedTuple):
    """What a run came to: what its function returned, ready to be kept, or what it raised; or why there is neither."""

    value: Any = None
    error: BaseException | None = None
    raised: bool = False  # by the function, and no word of the workers, whatever its type
    trace: str | None = None  # the error in words, if the thread that raised it has formatted it


Tell = Callable[[Task, Outcome], object]


class Gate(Protocol):
    """Decides, at the last moment, whether a run may begin: its caller may have lost the right to it meanwhile."""

    def admit(self) -> bool:
        """Decide when a worker is free, on the event loop and in the context of the run.

        If it may not begin, no outcome is reported: the gate decides what happens to the task.
        """
        ...

    def begin(self) -> bool:
        """Decide where and when the function is about to be called, on any thread: the last thing before it runs."""
        ...


class Job:
    """A run, from the moment it is taken in until it is over."""

    __slots__ = (
        "alarm", "arguments", "began_s", "error", "gate", "handler", "loop", "on_return", "over", "placed_s", "pool",
        "returned", "stop", "surroundings", "task", "tell",
    )  # fmt: skip

    def __init__(
        self,
        handler: Handler,
        task: Task,
        arguments: dict[str, Any],
        stop: Flag,
        tell: Tell,
        loop: AbstractEventLoop,
        gate: Gate | None = None,
    ) -> None:
        self.handler = handler
        self.pool: PoolName = handler.runs_in
        self.task = task
        self.arguments = arguments
        self.stop = stop  # what `context.cancelled` looks at
        self.tell = tell  # called once, with what it came to
        self.loop = loop  # whose time may be read on any thread
        self.gate = gate
        self.placed_s = 0.0  # when it was given a worker
        self.began_s: float | None = None  # when its function was called
        self.surroundings: Context = copy_context()  # the caller's: it is begun from somewhere else
        self.over: Future[Any] | None = None  # once it is begun: done when it has given up its place
        self.alarm: Call | None = None  # when it is out of time, or of patience
        self.error: Exception | None = None  # what is told, whatever the function comes to
        self.returned = False  # on a thread: its function was called for the last time
        self.on_return: Callable[[], object] | None = None  # called on a thread then, if it is there in time

    def begin(self) -> bool:
        """Note that the function is about to be called, on this thread; False if it must not be."""
        if self.stop.is_set() or (self.gate is not None and not self.gate.begin()):
            return False
        self.began_s = self.loop.time()
        return True

    def not_begun(self) -> Outcome:
        """Return the outcome to report for a run that must not begin any more."""
        return Outcome(error=RunNotBegun(self.task.id))


End = Callable[[Job, Outcome], None]  # called when a run is over


class Pool(Protocol):
    """Somewhere to run functions. All of it is called on the event loop."""

    patience_s: float  # how long a run that was asked to stop may take to do so

    @property
    def free(self) -> int:
        """Return how many runs it would begin now."""
        ...

    def start(self, job: Job, end: End) -> Future[Any]:
        """Begin a run; when it is over, `end` is called with its outcome, on the loop, and what is returned is done."""
        ...

    def stop(self, job: Job, end: End) -> None:
        """Ask a run to stop; more than once does no harm. `end` is what it was started with."""
        ...

    async def close(self) -> None:
        """Let go of what is idle, and of what is busy as soon as it is not."""
        ...
