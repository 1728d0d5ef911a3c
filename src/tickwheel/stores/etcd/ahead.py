"""How far a clock is ahead of ours that tells whole seconds only: between two bounds, which answers bring together.

    asked                                answered
    |------- it read 12:00:07 somewhere here -------|        by our clock that only goes forward
    s                                               e

    it is ahead of ours by at least `12:00:07 - e`, and by less than `12:00:08 - s`

One answer leaves a second of doubt. The next question is sent so that it arrives when, by the middle of the bounds, a
second begins there: whichever of the two it tells, half of the doubt is gone. Meanwhile clocks drift, and the bounds
with them. An answer that fits no bounds is of a clock that was set: then it alone counts.

>>> first = Ahead.told(7, 100_000_000, 102_000_000)
>>> first.least_ns, first.most_ns
(6898000000, 7900000000)
>>> first.narrowed(Ahead.told(8, 700_000_000, 702_000_000)).least_ns
7298000000
"""

from collections.abc import Iterable
from typing import Final

import msgspec

__all__ = ["Ahead"]

SECOND_NS: Final = 10**9
DRIFT: Final = 1000  # one part in so many: two clocks, each of which is corrected by one in 2,000, as NTP does
NARROW_NS: Final = 10_000_000


class Ahead(msgspec.Struct, frozen=True):
    """By how much a clock is ahead of ours, as of a moment."""

    least_ns: int
    most_ns: int
    way_ns: int  # half of the time between a question and its answer, of the quickest
    as_of_ns: int

    @classmethod
    def told(cls, second: int, asked_ns: int, answered_ns: int) -> "Ahead":
        """Read an answer."""
        read_ns = second * SECOND_NS
        way_ns = (answered_ns - asked_ns) // 2
        return cls(read_ns - answered_ns, read_ns + SECOND_NS - asked_ns, way_ns, answered_ns)

    @staticmethod
    def middle(those: Iterable["Ahead"]) -> "Ahead":
        """Return what most clocks agree on, or rather less: of three, one that is wrong does not matter."""
        known = sorted(those, key=lambda each: each.least_ns)
        return known[(len(known) - 1) // 2]

    @property
    def is_narrow(self) -> bool:
        """Whether it is known well enough, until it has drifted."""
        return self.most_ns - self.least_ns <= NARROW_NS

    def at(self, now_ns: int) -> "Ahead":
        """Return what is known of it later."""
        drift_ns = max(now_ns - self.as_of_ns, 0) // DRIFT
        return Ahead(self.least_ns - drift_ns, self.most_ns + drift_ns, self.way_ns, max(now_ns, self.as_of_ns))

    def narrowed(self, newer: "Ahead") -> "Ahead":
        """Return what is known of it after another answer."""
        older = self.at(newer.as_of_ns)
        least_ns, most_ns = max(older.least_ns, newer.least_ns), min(older.most_ns, newer.most_ns)
        if least_ns > most_ns:
            return newer
        return Ahead(least_ns, most_ns, min(older.way_ns, newer.way_ns), newer.as_of_ns)

    def holds(self, ahead_ns: int) -> bool:
        """Tell whether it may be so."""
        return self.least_ns <= ahead_ns <= self.most_ns

    def choose(self, *wished_ns: int) -> int:
        """Return the first that may be so, or the least: rather late than early."""
        return next(filter(self.holds, wished_ns), self.least_ns)

    def next_second_ns(self, since_ns: int) -> int:
        """Return when to ask next: so that the question arrives as a second begins there, as far as is known."""
        arrives_ns = since_ns + self.way_ns + (self.least_ns + self.most_ns) // 2
        return since_ns + -arrives_ns % SECOND_NS
