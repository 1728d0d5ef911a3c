"""What to do when a run fails, and when it comes late.

>>> policy = RetryPolicy(retries=3, first_ms=1000, factor=2.0, cap_ms=3000, jitter=0.0)
>>> [policy.wait_ms(failures, chance=0.5) for failures in (1, 2, 3)]
[1000, 2000, 3000]
>>> policy.wait_ms(4, chance=0.5) is None
True
"""

from typing import Final, Literal

import msgspec

from tickwheel.errors import InvalidSchedule

__all__ = ["NEVER_AGAIN", "RUN_ONCE", "LateMode", "LatePolicy", "RetryPolicy"]

LateMode = Literal["run_once", "run_all", "skip"]

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
        """Refuse what cannot work."""
        if not 0 <= self.retries <= RETRIES_MAX:
            raise InvalidSchedule(f"retries is how often to try again, from 0 to {RETRIES_MAX}, not {self.retries!r}")
        if self.first_ms < 0 or self.cap_ms < 0:
            raise InvalidSchedule("the waits before retries cannot be negative")
        if not 1.0 <= self.factor <= FACTOR_MAX:
            raise InvalidSchedule(f"each wait is from 1 to {FACTOR_MAX:.0f} times the one before, not {self.factor!r}")
        if not 0.0 <= self.jitter <= 1.0:
            raise InvalidSchedule(f"jitter is a share from 0 to 1, not {self.jitter!r}")
        if self.age_ms is not None and self.age_ms < 0:
            raise InvalidSchedule("the age at which to give up cannot be negative")

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
    and `skip` none, but goes on with the next. A run is late when it is more than `grace_ms` behind its time.
    """

    mode: LateMode = "run_once"
    grace_ms: int = 60_000
    catch_up: int = 100

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if self.mode not in ("run_once", "run_all", "skip"):
            raise InvalidSchedule(f"late is 'run_once', 'run_all' or 'skip', not {self.mode!r}")
        if self.grace_ms < 0:
            raise InvalidSchedule("a grace cannot be negative")
        if not 1 <= self.catch_up <= CATCH_UP_MAX:
            raise InvalidSchedule(f"catch_up is from 1 to {CATCH_UP_MAX:,} occurrences, not {self.catch_up!r}")


RUN_ONCE: Final = LatePolicy()
