"""What a scheduler can be told, with bounds on everything."""

import msgspec

from tickwheel.errors import InvalidSchedule

__all__ = ["Options"]


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

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        for name, least in (("horizon_ms", 1_000), ("ahead_ms", 0), ("rescan_ms", 100), ("lease_ttl_ms", 300)):
            if getattr(self, name) < least:
                raise InvalidSchedule(f"{name} is at least {least}, not {getattr(self, name)!r}")
        for name, most in (("in_flight_max", 100_000), ("batch_max", 1_000), ("threads", 1_000), ("processes", 1_000)):
            if not 0 <= getattr(self, name) <= most:
                raise InvalidSchedule(f"{name} is from 0 to {most:,}, not {getattr(self, name)!r}")
        if self.ahead_ms >= self.lease_ttl_ms:
            raise InvalidSchedule("ahead_ms has to be shorter than a lease: what is claimed must be started under it")
