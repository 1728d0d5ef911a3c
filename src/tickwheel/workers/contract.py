"""What every pool promises: to begin a run, to ask it to stop, and to say when it is really over.

Two things are kept apart. The *outcome* of a run is what its caller is told, and may come early: a run that is out of
time has failed, whatever its thread still does. The run is *over* when its function has returned and its place in
the pool is free again; until then it counts.

    pool        its runs                     is asked to stop by           is over within
    loop        tasks on the event loop      cancelling the task           patience_s, unless it holds on
    thread      calls on daemon threads      `context.cancelled`           whenever it looks at that
    process     calls in spawned processes   SIGTERM, then SIGKILL         patience_s
"""

from asyncio import Future
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, NamedTuple, Protocol

from tickwheel.tasks import Flag, Handler, PoolName, Task
from tickwheel.timers.loop_timers import Call

__all__ = ["Job", "Outcome", "Pool", "Tell"]


class Outcome(NamedTuple):
    """What a function came to: what it returned, ready to be kept, or what it raised."""

    value: Any = None
    error: BaseException | None = None


Tell = Callable[[Task, Outcome], object]


class Job:
    """A run, from the moment it is taken in until it is over."""

    __slots__ = (
        "alarm", "arguments", "error", "handler", "over", "pool", "stop", "surroundings", "task", "tell",
    )  # fmt: skip

    def __init__(
        self,
        handler: Handler,
        task: Task,
        arguments: dict[str, Any],
        stop: Flag,
        tell: Tell,
    ) -> None:
        self.handler = handler
        self.pool: PoolName = handler.runs_in
        self.task = task
        self.arguments = arguments
        self.stop = stop  # what `context.cancelled` looks at
        self.tell = tell  # called once, with what it came to
        self.surroundings: Context = copy_context()  # the caller's: it is begun from somewhere else
        self.over: Future[Outcome] | None = None  # once it is begun: done when it has given up its place
        self.alarm: Call | None = None  # when it is out of time, or of patience
        self.error: Exception | None = None  # what is told, whatever the function comes to


class Pool(Protocol):
    """Somewhere to run functions. All of it is called on the event loop."""

    patience_s: float  # how long a run that was asked to stop may take to do so

    @property
    def free(self) -> int:
        """Return how many runs it would begin now."""
        ...

    def start(self, job: Job) -> Future[Outcome]:
        """Begin a run; what is returned is done when it is over, or cancelled, and never raises."""
        ...

    def stop(self, job: Job) -> None:
        """Ask a run to stop; more than once does no harm."""
        ...

    async def close(self) -> None:
        """Let go of what is idle, and of what is busy as soon as it is not."""
        ...
