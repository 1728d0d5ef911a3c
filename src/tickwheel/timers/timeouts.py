r"""`timeout` and `timeout_at`: asyncio's own, at a fraction of the price, on any event loop.

    async with aio.timeout(30):
        await reader.readline()

The semantics are those of `asyncio.timeout`: it cancels the task when time is up and turns the cancellation into a
`TimeoutError` at its own boundary, leaving alone a cancellation that came from elsewhere. It can be nested,
rescheduled, and asked whether it expired.

    created --enter--> entered --exit--------------------> exited
                          \--time is up--> expiring --exit--> expired

The timeout itself is the timer. On an `aio.EventLoop` it waits on the loop's wheel; on any other loop, uvloop included,
on a wheel that is attached to it and for which the loop holds one call.
"""

from asyncio import CancelledError, Handle, current_task, get_running_loop
from collections.abc import Coroutine, Generator
from math import isnan
from types import TracebackType
from typing import Any, Final, Self, SupportsFloat

from mypy_extensions import i64

from tickwheel.durations import Duration
from tickwheel.errors import InvalidDuration
from tickwheel.timers.loop_timers import LoopTimer, LoopWheel, loop_wheel, to_moment, to_seconds
from tickwheel.wheels.timer import FIRED

__all__ = ["Timeout", "timeout", "timeout_at"]

CREATED: Final[i64] = 0
ENTERED: Final[i64] = 1
EXPIRING: Final[i64] = 2
EXPIRED: Final[i64] = 3
EXITED: Final[i64] = 4
# Held here, a function costs less than one that is looked up in its module.
_running_loop: Final = get_running_loop
_current_task: Final = current_task

STATES: Final = ("created", "active", "expiring", "expired", "finished")  # as asyncio names them


class Done:
    """What has nothing to wait for can be awaited at the price of a call: no coroutine is made."""

    def __await__(self) -> Generator[Any, Any, None]:
        return NOTHING  # type: ignore[no-any-return]


NOTHING: Final[Any] = iter(())  # an empty iterator is as good as a generator that ends at once
DONE: Final[Any] = Done()


class Timeout(LoopTimer):
    """An asynchronous context manager that limits how long its body may take.

    Unlike other loop timers it is visible to the garbage collector: the task it holds has it on its stack.
    """

    __slots__ = ("_cancelling", "_limited", "_overdue", "_soon", "_state", "_task")

    def __init__(self, when: float | None, wheel: LoopWheel | None = None, delay: float = 0.0) -> None:
        if when is not None and isnan(when):
            raise InvalidDuration(when, "must be a number")
        if wheel is None:
            wheel = loop_wheel(_running_loop())
            delay = 0.0 if when is None else when - wheel.time()
        super().__init__(wheel, 0.0 if when is None else when, None)
        self._limited = when is not None
        self._overdue = delay <= 0.0
        self._state: i64 = CREATED
        self._task: Any = None
        self._cancelling = 0  # how many had asked the task to stop before we were entered
        self._soon: Handle | None = None

    def when(self) -> float | None:
        """Return the moment time is up, by the loop's clock; None if there is no limit."""
        return self._when if self._limited else None

    def expired(self) -> bool:
        """Tell whether time was up."""
        return EXPIRING <= self._state <= EXPIRED

    def reschedule(self, when: SupportsFloat | None) -> None:
        """Move the moment, any number of the loop's clock, or lift the limit with None."""
        if self._state == CREATED:
            raise RuntimeError("Timeout has not been entered")
        if self._state != ENTERED:
            raise RuntimeError(f"Cannot change state of {STATES[self._state]} Timeout")
        moment: float = 0.0 if when is None else to_moment(when)
        self._halt()
        self._limited = when is not None
        if self._limited:
            self._when = moment
            self._overdue = moment <= self._loop_wheel.time()
            self._schedule()

    async def __aenter__(self) -> Self:
        if self._state != CREATED:
            raise RuntimeError("Timeout has already been entered")
        task = _current_task(self._loop_wheel.loop())
        if task is None:
            raise RuntimeError("Timeout should be used inside a task")
        self._state = ENTERED
        self._task = task
        self._cancelling = task.cancelling()
        if self._limited:
            self._schedule()
        return self

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Coroutine[Any, Any, None]:
        in_time = self._state == ENTERED
        if not in_time and self._state != EXPIRING:
            raise RuntimeError(f"Timeout has {'not been entered' if self._state == CREATED else 'already been exited'}")
        task = self._task
        self._halt()
        self._task = None
        if in_time:
            self._state = EXITED
            return DONE  # type: ignore[no-any-return]
        self._state = EXPIRED
        if task.uncancel() > self._cancelling or error is None:
            return DONE  # type: ignore[no-any-return] # someone else wants the task to stop as well, and goes first
        if isinstance(error, CancelledError):
            timed_out = TimeoutError()
            timed_out.__cause__ = error  # `raise from` does not set it in native code
            raise timed_out
        explain(error)
        if isinstance(error, ExceptionGroup):
            for one in error.exceptions:
                explain(one)
        return DONE  # type: ignore[no-any-return]

    def _schedule(self) -> None:
        if self._overdue:
            self._soon = _running_loop().call_soon(self._run)
        else:
            self._loop_wheel.start(self)

    def _halt(self) -> None:
        """Keep it from running; it may be started again."""
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        elif self.pending:
            self._loop_wheel.wheel.withdraw(self)
            self.lie_in(FIRED)

    def _run(self) -> None:
        self._soon = None
        if self.pending or not self._limited:
            return  # rescheduled when it was due and had not run
        if self._state == ENTERED:
            try:
                self._task.cancel()
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 - what the task waits for raised; the exception handler reports it
                self._loop_wheel.report(self, repr(self), error)
                return
            self._state = EXPIRING

    def release(self) -> object:
        """Let go of the task: its loop was closed. Not while it is pending."""
        if self.pending:
            return None
        task = self._task  # dropped when all is in order again: see Timer.release
        self._task = None
        super().release()
        return task

    def __repr__(self) -> str:
        when = f" when={self.when()}" if self._state == ENTERED else ""
        return f"<Timeout [{STATES[self._state]}]{when}>"


def explain(error: BaseException) -> None:
    """Say, in the chain of what an error came from, that our cancellation was a timeout."""
    later = error
    earlier = error.__context__
    while earlier is not None and not isinstance(earlier, CancelledError):
        later, earlier = earlier, earlier.__context__
    if earlier is not None:
        timed_out = TimeoutError()
        timed_out.__context__ = timed_out.__cause__ = earlier
        later.__context__ = timed_out


def timeout(delay: Duration | None) -> Timeout:
    """Limit what is done inside to a duration; None for no limit."""
    if delay is None:
        return Timeout(None)
    seconds = delay if isinstance(delay, float) else to_seconds(delay)
    wheel = loop_wheel(_running_loop())
    return Timeout(wheel.time() + seconds, wheel, seconds)


def timeout_at(when: SupportsFloat | None) -> Timeout:
    """Limit what is done inside by a moment of the loop's clock, any number; None for no limit."""
    return Timeout(None if when is None else to_moment(when))
