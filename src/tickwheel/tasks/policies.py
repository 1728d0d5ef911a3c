"""What to do when a run fails, and when it comes late.

>>> policy = RetryPolicy(retries=3, first_ms=1000, factor=2.0, cap_ms=3000, jitter=0.0)
>>> [policy.wait_ms(failures, chance=0.5) for failures in (1, 2, 3)]
[1000, 2000, 3000]
>>> policy.wait_ms(4, chance=0.5) is None
True
"""

from typing import Final, Literal, get_args

import msgspec
from msgspec.structs import force_setattr

from tickwheel.errors import InvalidSchedule
from tickwheel.tasks.fields import SPAN_MS_MAX, choice, number, whole

__all__ = [
    "LATE_MODES",
    "NEVER_AGAIN",
    "OVERLAPS",
    "RETRIES_MAX",
    "RUN_ONCE",
    "LateMode",
    "LatePolicy",
    "OnConflict",
    "Overlap",
    "RetryPolicy",
]

OnConflict = Literal["reject", "replace", "keep", "debounce"]  # what becomes of an `add` with an id that is there

Overlap = Literal["skip", "queue_one"]
OVERLAPS: Final[tuple[str, ...]] = get_args(Overlap)

LateMode = Literal["run_once", "run_all", "skip"]
LATE_MODES: Final[tuple[str, ...]] = get_args(LateMode)

RETRIES_MAX = 1000  # more than this is a periodic task
FACTOR_MAX = 100.0
CATCH_UP_MAX = 10_000  # occurrences; a task of every second that was down for three hours


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How often to try again, and how long to wait before: exponentially longer, up to a cap, spread by chance."""

    retries: int = 0  # after the first attempt
    first_ms: int = 10_000
    factor: float = 2.0
    cap_ms: int = 3_600_000
    jitter: float = 0.1  # the share of the wait that chance may add
    age_ms: int | None = None  # an occurrence older than this is not tried again

    def __post_init__(self) -> None:
        """Refuse what cannot work; what is as usual is seen at a glance, for a policy is read with every task."""
        if not (
            type(self.retries) is int
            and 0 <= self.retries <= RETRIES_MAX
            and type(self.first_ms) is type(self.cap_ms) is int
            and 0 <= self.first_ms <= SPAN_MS_MAX
            and 0 <= self.cap_ms <= SPAN_MS_MAX
            and type(self.factor) is type(self.jitter) is float
            and 1.0 <= self.factor <= FACTOR_MAX
            and 0.0 <= self.jitter <= 1.0
            and self.age_ms is None
        ):
            self._check()

    def _check(self) -> None:
        """Look at each field, and make it the plain number it is written as."""
        force_setattr(self, "retries", whole("retries", self.retries, 0, RETRIES_MAX, InvalidSchedule))
        for name in ("first_ms", "cap_ms"):
            force_setattr(self, name, whole(name, getattr(self, name), 0, SPAN_MS_MAX, InvalidSchedule))
        force_setattr(self, "factor", number("factor", self.factor, 1.0, FACTOR_MAX, InvalidSchedule))
        force_setattr(self, "jitter", number("jitter", self.jitter, 0.0, 1.0, InvalidSchedule))
        if self.age_ms is not None:
            force_setattr(self, "age_ms", whole("age_ms", self.age_ms, 0, SPAN_MS_MAX, InvalidSchedule))

    def shared(self) -> "RetryPolicy":
        """Return the default policy itself if this one equals it: only that object is not stored with a task."""
        return NEVER_AGAIN if self == NEVER_AGAIN else self

    def wait_ms(self, failures: int, chance: float, age_ms: int = 0) -> int | None:
        """Return how long to wait after so many failures, with a chance from 0 to 1; None if it is enough."""
        if failures > self.retries or (self.age_ms is not None and age_ms > self.age_ms):
            return None
        try:
            wait_ms = min(self.first_ms * self.factor ** (failures - 1), self.cap_ms)
        except OverflowError:  # far beyond any cap, unless there is nothing to grow
            wait_ms = self.cap_ms if self.first_ms else 0
        return int(wait_ms * (1.0 + self.jitter * chance))


NEVER_AGAIN: Final = RetryPolicy()


class LatePolicy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What to do with occurrences whose time passed while nobody could run them.

    `run_once` makes one run for all that were missed, `run_all` one for each, up to `catch_up` of them,
    and `skip` none, but goes on with the next. A run was missed if it was due more than `grace_ms` before it could have
    been run, or more than half its period, if that is shorter.
    """

    mode: LateMode = "run_once"
    grace_ms: int = 60_000
    catch_up: int = 100

    def __post_init__(self) -> None:
        """Refuse what cannot work, and make each field the plain value it is written as."""
        force_setattr(self, "mode", choice("mode", self.mode, LATE_MODES, InvalidSchedule))
        force_setattr(self, "grace_ms", whole("grace_ms", self.grace_ms, 0, SPAN_MS_MAX, InvalidSchedule))
        force_setattr(self, "catch_up", whole("catch_up", self.catch_up, 1, CATCH_UP_MAX, InvalidSchedule))

    def shared(self) -> "LatePolicy":
        """Return the default policy itself if this one equals it."""
        return RUN_ONCE if self == RUN_ONCE else self


RUN_ONCE: Final = LatePolicy()
