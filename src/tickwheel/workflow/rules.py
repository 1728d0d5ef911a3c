"""What is to happen to a work item that is not done in time.

>>> TimeoutRule("3d", "escalate", target="head of sales", remind=("1d", "1h"))
TimeoutRule(after='3d', action='escalate', target='head of sales', repeat=None, times=-1, remind=('1d', '1h'), ...)
>>> TimeoutRule("3d", "escalate")
Traceback (most recent call last):
tickwheel.errors.InvalidRule: to escalate is to give it to someone: say to whom with target=
"""

from typing import Any, Final, Literal, get_args

import msgspec

from tickwheel.durations import Duration, to_ns
from tickwheel.errors import InvalidRule

__all__ = ["REMINDERS_MAX", "TimeoutAction", "TimeoutRule"]

TimeoutAction = Literal["auto", "escalate", "notify"]

REMINDERS_MAX: Final = 10  # of an item; who has not heard by then does not listen
REPEAT_NS_LEAST: Final = 10**9  # people cannot be asked more often than every second


class TimeoutRule(msgspec.Struct, frozen=True):
    """A deadline, counted from when the item came up, and what is done if it passes."""

    after: Duration
    action: TimeoutAction = "notify"
    target: str | None = None  # who is escalated to or notified; None notifies whoever has the item
    repeat: Duration | None = None  # escalate or notify again, so often, while it is still pending
    times: int = -1  # how often in all, if it is repeated; -1 until it is done
    remind: tuple[Duration, ...] = ()  # notify whoever has it, so long before the deadline
    reason: str = "not done in time"
    variables: dict[str, Any] = {}  # what it is completed with, if that is automatic

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if self.action not in get_args(TimeoutAction):
            raise InvalidRule(f"action is 'auto', 'escalate' or 'notify', not {self.action!r}")
        if to_ns(self.after) == 0:
            raise InvalidRule("a deadline that is over at once is none: after is longer than 0")
        if self.action == "escalate" and not self.target:
            raise InvalidRule("to escalate is to give it to someone: say to whom with target=")
        if self.action == "auto" and (self.repeat is not None or self.target is not None):
            raise InvalidRule("what is completed automatically is completed once, as the system: no target or repeat")
        if self.action != "auto" and self.variables:
            raise InvalidRule("variables are for what is completed: action='auto'")
        self._check_repeats()

    def _check_repeats(self) -> None:
        if self.repeat is not None and to_ns(self.repeat) < REPEAT_NS_LEAST:
            raise InvalidRule(f"nobody is asked more often than every second: repeat is not {self.repeat!r}")
        if self.times != -1 and (self.times < 1 or self.repeat is None):
            raise InvalidRule("times is how often in all, at least 1, and goes with repeat=")
        if len(self.remind) > REMINDERS_MAX:
            raise InvalidRule(f"there are at most {REMINDERS_MAX} reminders of an item, not {len(self.remind)}")
        for before in self.remind:
            if not 0 < to_ns(before) < to_ns(self.after):
                raise InvalidRule(f"a reminder comes between the beginning and the deadline, not {before!r} before it")
