"""What `after` and `every` return: one timer, to be cancelled, touched and asked about."""

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any
from weakref import ref

from tickwheel.durations import Duration
from tickwheel.wheels import Timer

if TYPE_CHECKING:
    from tickwheel.timers.timer_set import TimerSet

__all__ = ["TimerHandle"]


class TimerHandle:
    """One timer of a set. The set alone changes it, under its lock."""

    __slots__ = (
        "_cancelled",
        "_deadline_ns",
        "_delay_ns",
        "_done",
        "_owner",
        "_timer",
        "args",
        "callback",
        "count",
        "fixed_delay",
        "group",
        "key",
        "missed",
        "times",
    )

    def __init__(
        self,
        owner: "ref[TimerSet]",
        callback: Callable[..., object],
        args: tuple[Any, ...],
        delay_ns: int,
        *,
        times: int = 1,
        fixed_delay: bool = False,
        key: Hashable = None,
        group: Hashable = None,
    ) -> None:
        self.callback = callback
        self.args = args
        self.key = key
        self.group = group
        self.times = times  # how often it runs; -1 for ever
        self.fixed_delay = fixed_delay
        self.count = 0  # how often it came due
        self.missed = 0  # periods that passed unseen, while the process or its thread was held up
        self._owner = owner
        self._delay_ns = delay_ns  # the interval, for one that comes back
        self._deadline_ns = 0
        self._timer: Timer | None = None
        self._cancelled = False
        self._done = False

    @property
    def pending(self) -> bool:
        """Whether it waits to come due."""
        return self._timer is not None and self._timer.pending

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled, or handed back when its set was stopped."""
        return self._cancelled

    @property
    def done(self) -> bool:
        """Whether its last run has begun."""
        return self._done

    @property
    def due_in(self) -> float | None:
        """Seconds until it comes due, by its set's clock; None if it is not pending."""
        owner = self._owner()
        if owner is None or not self.pending:
            return None
        return max(self._deadline_ns - owner.own_ns(), 0) / 1e9

    def cancel(self) -> bool:
        """Keep it from running again; False if it is over already."""
        owner = self._owner()
        return owner is not None and owner.cancel(self)

    def touch(self, delay: Duration | None = None) -> bool:
        """Let it wait anew, as long as at first or as long as told; False if it was cancelled."""
        owner = self._owner()
        return owner is not None and owner.touch(self, delay)

    def __repr__(self) -> str:
        name = getattr(self.callback, "__qualname__", repr(self.callback))
        key = "" if self.key is None else f" key={self.key!r}"
        state = "cancelled" if self._cancelled else "pending" if self.pending else "done" if self._done else "due"
        return f"<TimerHandle {name}{key} {state}>"
