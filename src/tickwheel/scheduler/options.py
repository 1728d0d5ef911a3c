"""What a scheduler can be told, with bounds on everything.

>>> Options.of({"lease_ttl": 3_000})
Traceback (most recent call last):
tickwheel.errors.UnknownOption: there is no option 'lease_ttl'; did you mean 'lease_ttl_ms'?
>>> Options.of({"threads": "8"})
Traceback (most recent call last):
tickwheel.errors.InvalidOption: threads must be an int from 0 to 1,000, not '8'
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import force_setattr

from tickwheel.durations import Duration, argument_ns
from tickwheel.errors import InvalidOption, UnknownOption
from tickwheel.tasks.fields import SPAN_MS_MAX, number, whole

__all__ = ["Options", "check_grace"]

OTHER_ARGUMENTS: Final = ("run", "create", "clock", "rng", "webhooks")  # of a scheduler, besides its options

LIMITS: Final = {
    "horizon_ms": (1_000, SPAN_MS_MAX),
    "ahead_ms": (0, SPAN_MS_MAX),
    "rescan_ms": (100, SPAN_MS_MAX),
    "lease_ttl_ms": (300, SPAN_MS_MAX),
    "in_flight_max": (1, 100_000),
    "batch_max": (1, 1_000),
    "retention_ms": (0, SPAN_MS_MAX),
    "threads": (0, 1_000),
    "processes": (0, 256),  # each is an interpreter of some 20 MB
}
GRACE_S_MAX: Final = SPAN_MS_MAX / 1000


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How far ahead it looks, and how much it does at once."""

    horizon_ms: int = 600_000  # tasks due later than this are only in the store
    ahead_ms: int = 50  # what is due within this is claimed together, and then started on time
    rescan_ms: int = 30_000  # how long a hint that was lost can make a task late
    lease_ttl_ms: int = 3_000
    in_flight_max: int = 2_000  # tasks that are claimed and not finished
    batch_max: int = 1_000  # tasks in one call of the store
    retention_ms: int = 7 * 86_400_000  # how long tasks that are over are kept
    threads: int = 8
    processes: int = 0
    grace_s: float = 30.0  # how long stop() waits for what runs

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Options":
        """Make options of what a caller gives, or say what is wrong with it."""
        for name in given:
            if name not in cls.__struct_fields__:
                raise UnknownOption(name, [*cls.__struct_fields__, *OTHER_ARGUMENTS])
        return cls(**given)

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        for name, (least, most) in LIMITS.items():
            force_setattr(self, name, whole(name, getattr(self, name), least, most, InvalidOption))
        force_setattr(self, "grace_s", number("grace_s", self.grace_s, 0, GRACE_S_MAX, InvalidOption))
        if self.ahead_ms >= self.lease_ttl_ms:
            expected = f"shorter than a lease ({self.lease_ttl_ms:,} ms): what is claimed must be started under it"
            raise InvalidOption("ahead_ms", self.ahead_ms, expected)


def check_grace(grace: Duration) -> float:
    """Return a grace period in seconds."""
    return argument_ns("grace", grace) / 1_000_000_000
