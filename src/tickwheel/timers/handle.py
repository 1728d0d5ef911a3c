"""What `after` and `every` return: one timer, to be cancelled, touched and asked about."""

from collections.abc import Callable, Hashable
from typing import Any

from tickwheel.durations import Duration, to_ns
from tickwheel.wheels.timer import Timer

__all__ = ["Keeper", "TimerHandle"]


class Keeper:
    """What a handle asks of whoever keeps it."""

    def cancel(self, handle_or_key: object) -> bool:
        """Keep a timer from running again."""
        raise NotImplementedError

    def touch(self, handle_or_key: object, delay_ns: int | None) -> bool:
        """Let a timer wait anew."""
        raise NotImplementedError

    def now_ns(self) -> int:
        """Read the time that deadlines go by."""
        raise NotImplementedError


class TimerHandle:
    """One timer of a set. The set alone changes it, under its lock."""

    __slots__ = (
        "_cancelled",
        "_deadline_ns",
        "_delay_ns",
        "_done",
        "_keeper",
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
        keeper: Keeper,
        callback: Any,
        args: tuple[Any, ...],
        delay_ns: int,
        key: Hashable = None,
        group: Hashable = None,
        times: int = 1,
        fixed_delay: bool = False,  # noqa: FBT001, FBT002 - a native call; the verbs have it by name
    ) -> None:
        self.callback: Callable[..., object] = callback
        self.args = args
        self.key = key
        self.group = group
        self.times = times  # how often it runs; -1 for ever
        self.fixed_delay = fixed_delay
        self.count = 0  # how often it came due
        self.missed = 0  # periods that passed unseen, while the process or its thread was held up
        self._keeper = keeper
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
        return max(self._deadline_ns - self._keeper.now_ns(), 0) / 1e9 if self.pending else None

    def cancel(self) -> bool:
        """Keep it from running again; False if it is over already."""
        return self._keeper.cancel(self)

    def touch(self, delay: Duration | None = None) -> bool:
        """Let it wait anew, as long as at first or as long as told; False if it was cancelled."""
        return self._keeper.touch(self, None if delay is None else to_ns(delay))

    def __repr__(self) -> str:
        name = getattr(self.callback, "__qualname__", repr(self.callback))
        key = "" if self.key is None else f" key={self.key!r}"
        state = "cancelled" if self._cancelled else "pending" if self.pending else "done" if self._done else "due"
        return f"<TimerHandle {name}{key} {state}>"
