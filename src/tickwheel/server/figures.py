"""How it goes: what was done since the start, a point for each second, and how late runs began.

events  --> this second's counters --> a ring of 300 points
        --> the latest some thousand delays --> percentiles
"""

from collections import Counter, deque
from collections.abc import Sequence
from typing import Final

import msgspec

from tickwheel.observe.events import Event
from tickwheel.observe.picture import Picture
from tickwheel.server.moments import moment

__all__ = ["BucketShape", "Figures", "LatenessShape", "PointShape", "RatesShape"]

POINTS: Final = 300  # five minutes
DELAYS: Final = 10_000  # runs whose delay is remembered
RATE_POINTS: Final = 5  # the seconds over which a rate is taken
BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
RUN_ENDS: Final = frozenset({"completed", "failed", "retried", "cancelled"})


class PointShape(msgspec.Struct, frozen=True, kw_only=True):
    """One second."""

    at: str
    added: int
    executed: int
    failed: int
    queued: int
    late_p99: float


class BucketShape(msgspec.Struct, frozen=True):
    """How many runs began at most so late; null is any lateness."""

    le: float | None
    count: int


class LatenessShape(msgspec.Struct, frozen=True, kw_only=True):
    """How late the latest runs began, in seconds."""

    p50: float
    p90: float
    p99: float
    max: float
    buckets: list[BucketShape]


class RatesShape(msgspec.Struct, frozen=True, kw_only=True):
    """How much a second, lately."""

    added: float
    executed: float
    failed: float


class Figures:
    """Listens, and counts."""

    def __init__(self) -> None:
        self.totals: Counter[str] = Counter()
        self._before: Counter[str] = Counter()
        self._delays: deque[int] = deque(maxlen=DELAYS)
        self._delays_now: deque[int] = deque(maxlen=DELAYS)
        self.points: deque[PointShape] = deque(maxlen=POINTS)

    def hear(self, event: Event) -> None:
        """Take in an event, on the loop."""
        self.totals[event.kind] += 1
        if event.late_ms is not None:
            self._delays.append(event.late_ms)
            self._delays_now.append(event.late_ms)
        if event.took_ms is not None and event.kind in RUN_ENDS:
            self.totals["executed"] += 1

    def tick(self, at: int, picture: Picture | None) -> None:
        """End a second."""
        passed = self.totals - self._before
        self._before = self.totals.copy()
        self.points.append(
            PointShape(
                at=moment(at),
                added=passed["added"],
                executed=passed["executed"],
                failed=passed["failed"],
                queued=0 if picture is None else picture.queued,
                late_p99=share(sorted(self._delays_now), 0.99),
            )
        )
        self._delays_now.clear()

    def rates(self) -> RatesShape:
        """Return what was done a second in the last few."""
        latest = list(self.points)[-RATE_POINTS:]
        seconds = len(latest) or 1
        return RatesShape(
            added=sum(point.added for point in latest) / seconds,
            executed=sum(point.executed for point in latest) / seconds,
            failed=sum(point.failed for point in latest) / seconds,
        )

    def lateness(self) -> LatenessShape:
        """Return how late the latest runs began."""
        delays = sorted(self._delays)
        buckets = [BucketShape(le, sum(delay <= le * 1000 for delay in delays)) for le in BUCKETS_S]
        return LatenessShape(
            p50=share(delays, 0.5),
            p90=share(delays, 0.9),
            p99=share(delays, 0.99),
            max=share(delays, 1.0),
            buckets=[*buckets, BucketShape(None, len(delays))],
        )


def share(delays: Sequence[int], part: float) -> float:
    """Return below which delay, in seconds, such a part of them is."""
    return delays[min(int(len(delays) * part), len(delays) - 1)] / 1000 if delays else 0.0
