"""What `after` and `every` return: one timer, to be cancelled, touched and asked about.

A handle *is* a timer of the wheel: one object of 112 bytes a timer, invisible to the garbage collector. What most
timers do not have (a key, a group, a repetition) is in a second object that only the others carry.

    Timer           due, its place on the wheel, callback           (wheels/timer.py)
      TimerHandle   registry, arguments, delay, deadline
        Details     key, group, how often                           only if there are any

Where a handle lies says what it does, as for every timer:

    on the wheel       pending
    in `due_ring`      due: collected, and its callback has not begun
    in `held_ring`     due: its coroutine function was called, and the body has not begun
    in `running_ring`  a periodic timer whose callback runs
    STOPPED            over: done if its last run has begun, cancelled otherwise

The collector does not see a cycle through a handle (connection -> handle -> callback -> connection), so a handle that
is over lets go of callback, arguments, key and group.
"""

from collections.abc import Callable, Hashable
from typing import Any, Literal, NamedTuple

from mypy_extensions import i32, mypyc_attr

from tickwheel.durations import Duration, to_ns
from tickwheel.wheels.timer import FIRED, STOPPED, Timer

__all__ = ["Details", "KeyHolder", "PendingTimer", "TimerHandle", "TimerOwner", "describe", "pending_timer"]


class TimerOwner:
    """What a handle needs from the registry it belongs to."""

    def cancel(self, handle_or_key: object) -> bool:
        """Keep a timer from running again."""
        raise NotImplementedError

    def touch(self, handle_or_key: object, delay_ns: int | None) -> bool:
        """Restart the wait of a timer."""
        raise NotImplementedError

    def now_ns(self) -> int:
        """Read the clock of the deadlines."""
        raise NotImplementedError


@mypyc_attr(acyclic=True)
class Details:
    """What a keyed, grouped or periodic timer has besides."""

    __slots__ = ("count", "fixed_delay", "group", "key", "missed", "times", "touched")

    def __init__(self, key: Hashable, group: Hashable, times: int, fixed_delay: bool) -> None:  # noqa: FBT001 - native
        self.key = key
        self.group = group
        self.times = times  # -1: for ever
        self.fixed_delay = fixed_delay
        self.count = 0
        self.missed = 0
        self.touched = False  # while it runs: the deadline is set, the end of the run does not move it


@mypyc_attr(acyclic=True)
class TimerHandle(Timer):
    """One timer. Only its registry changes it, under the registry's lock."""

    __slots__ = (
        "_args",
        "_deadline_ns",
        "_delay_ns",
        "_details",
        "_done",
        "_entered",
        "_owner",
        "_refusal",
        "_submitted",
    )

    def __init__(
        self, owner: TimerOwner, callback: object, args: tuple[Any, ...], delay_ns: int, details: Details | None
    ) -> None:
        super().__init__(0, callback, FIRED, FIRED)
        self._owner = owner
        self._delay_ns = delay_ns  # the interval of a periodic timer
        self._deadline_ns = 0
        self._done = False
        self._entered = False  # whether the callback of the run that has begun was called
        self._submitted = False  # whether it waits in an executor
        self._refusal: i32 = 0  # which refusal of an executor was last reported for it: see Timers
        self._details = details
        self._args = args

    @property
    def callback(self) -> Callable[..., object] | None:
        """What it runs; None when it is over."""
        callback: Any = self.payload
        return callback  # type: ignore[no-any-return]

    @property
    def args(self) -> tuple[Any, ...]:
        """What the callback is called with; empty when it is over."""
        return self._args

    @property
    def key(self) -> Hashable:
        """Its key; None if it has none or is over."""
        return None if self._details is None else self._details.key

    @property
    def group(self) -> Hashable:
        """Its group; None if it has none or is over."""
        return None if self._details is None else self._details.group

    @property
    def times(self) -> int:
        """How often it runs; -1 for ever."""
        return 1 if self._details is None else self._details.times

    @property
    def count(self) -> int:
        """How often it ran, a run that has begun included."""
        return int(self._done) if self._details is None else self._details.count

    @property
    def missed(self) -> int:
        """How many periods passed without a run of their own, because the process or an earlier run was slow."""
        return 0 if self._details is None else self._details.missed

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled, or pending when its timers were stopped."""
        return self.slot is STOPPED and not self._done

    @property
    def done(self) -> bool:
        """Whether its last run has begun."""
        return self._done

    @property
    def due_in(self) -> float | None:
        """Seconds until it is due, by the clock of its timers; None if it is not pending."""
        return max(self._deadline_ns - self._owner.now_ns(), 0) / 1e9 if self.pending else None

    def cancel(self) -> bool:
        """Keep it from running again; False if it is over already."""
        return self._owner.cancel(self)

    def touch(self, delay: Duration | None = None) -> bool:
        """Restart its wait, with the first delay or another one; False if it is over.

        A timer that is due and has not begun runs once, at the new deadline.
        """
        return self._owner.touch(self, None if delay is None else to_ns(delay))

    def is_driven(self) -> bool:
        """Say so: no wheel may take it."""
        return True

    def release(self) -> object:
        """Let go of everything that is the user's, if it is over."""
        if self.slot is not STOPPED:
            return None
        # Handed to the caller, and dropped there, when all is in order again: see Timer.release.
        held = (self.payload, self._args, self.key, self.group)
        self.payload = None
        self._args = ()
        if self._details is not None:
            self._details.key = None
            self._details.group = None
        return held

    def describe(self) -> str:
        """Name what it runs, for messages."""
        return describe(self.payload, self.key)

    def __repr__(self) -> str:
        if self.slot is STOPPED:
            return f"<TimerHandle {'done' if self._done else 'cancelled'}>"
        state = "pending" if self.pending else "due" if self.count == 0 else "running"
        return f"<TimerHandle {self.describe()} {state}>"


@mypyc_attr(acyclic=True)
class KeyHolder:
    """Who has a key: a key changes hands without being hashed again."""

    __slots__ = ("handle",)

    def __init__(self) -> None:
        self.handle: TimerHandle | None = None

    def find(self) -> TimerHandle | None:
        """Return the timer that has the key; one that is over has it only if the key's hash has changed or failed."""
        handle = self.handle
        return handle if handle is not None and handle.slot is not STOPPED else None


def describe(callback: object, key: object) -> str:
    """Name a callback, for messages: also one whose handle is over, and has let go of it."""
    try:
        name = getattr(callback, "__qualname__", None) or repr(callback)
        return str(name) if key is None else f"{name} key={key!r}"
    except Exception:  # noqa: BLE001 - a message must not fail because of what it is about
        return f"{type(callback).__name__} (its repr, or that of its key, fails)"


class PendingTimer(NamedTuple):
    """A timer that was pending when its timers were stopped, with everything needed to start it again."""

    handle: TimerHandle
    callback: Callable[..., object]
    args: tuple[Any, ...]
    key: Hashable
    group: Hashable
    due_in: float  # seconds that were left; 0.0 if it was due
    interval: float | None = None  # seconds; None if it was to run once
    mode: Literal["rate", "delay"] = "rate"
    times: int = 1  # how many runs were left; -1 for ever


def pending_timer(handle: TimerHandle, due_in: float) -> PendingTimer:
    """Describe a timer before it lets go of everything."""
    callback: Any = handle.payload
    details = handle._details
    if details is None:
        return PendingTimer(handle, callback, handle._args, None, None, due_in)
    times = details.times
    return PendingTimer(
        handle,
        callback,
        handle._args,
        details.key,
        details.group,
        due_in,
        None if times == 1 else handle._delay_ns / 1e9,
        "delay" if details.fixed_delay else "rate",
        times if times < 0 else times - details.count,
    )
