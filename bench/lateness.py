"""How late timers are when a hundred thousand come due every second.

    t        start them all       lead          3 s: one is due every 10 µs
    ---------|--------------------|-------------|-------------------------------|
                                                deadline 0, 1, 2, …             the last one

They are all started beforehand, with deadlines at even distances; each callback notes the time. A deadline is
the clock's reading right before `after` was called, and the delay: no timer may fire before it, not by a nanosecond.
Meanwhile the main thread sleeps.
"""

from __future__ import annotations

import threading
from time import monotonic_ns
from typing import TYPE_CHECKING

from bench.lap import Lap

if TYPE_CHECKING:
    from bench.subjects import Subject
    from bench.threads import TimersRig
    from tickwheel import Timers

__all__ = ["early", "late"]

SECONDS = 3.0  # that timers come due
PROBED = 10_000  # timers by which the time it takes to start all is estimated
PROBE_SECONDS = 3600.0
LEAD_FACTOR = 3  # of that estimate: starting slows down as the garbage collector has more to look at
LEAD_NS_MIN = 200_000_000
GRACE_SECONDS = 30.0  # for a machine that cannot keep up; it is late then, and the figure says so


def late(rig: TimersRig, _subject: Subject, per_second: int) -> Lap:
    """Return the lateness that 99 % keep to, in milliseconds."""
    lateness_ns = sorted(_measure(rig.timers, per_second))
    return Lap(lateness_ns[len(lateness_ns) * 99 // 100] / 1e6, 1)


def early(rig: TimersRig, _subject: Subject, per_second: int) -> Lap:
    """Return how many timers fired before their deadline."""
    return Lap(sum(ns < 0 for ns in _measure(rig.timers, per_second)), 1)


def _measure(timers: Timers, per_second: int) -> list[int]:
    """Let timers come due and return by how many nanoseconds each was late."""
    total = max(int(per_second * SECONDS), 1)
    lead_ns = LEAD_NS_MIN + LEAD_FACTOR * _probe_ns(timers) * total // PROBED
    fired_ns = [0] * total
    finished = threading.Event()

    def note(index: int) -> None:
        fired_ns[index] = monotonic_ns()

    begin_ns = monotonic_ns() + lead_ns
    deadlines_ns = [begin_ns + index * 1_000_000_000 // per_second for index in range(total)]
    after = timers.after
    for index, deadline_ns in enumerate(deadlines_ns):
        before_ns = monotonic_ns()
        after((deadline_ns - before_ns) / 1e9, note, index)
    if monotonic_ns() >= begin_ns:
        message = f"timers came due before all {total:,} of them were started"
        raise AssertionError(message)
    after((deadlines_ns[-1] - monotonic_ns()) / 1e9 + 0.001, finished.set)  # a tick later than all others
    if not finished.wait(lead_ns / 1e9 + SECONDS + GRACE_SECONDS) or 0 in fired_ns:
        message = f"{fired_ns.count(0):,} of {total:,} timers did not fire"
        raise AssertionError(message)
    return [fired - deadline for fired, deadline in zip(fired_ns, deadlines_ns, strict=True)]


def _probe_ns(timers: Timers) -> int:
    """Return how long it takes to start some timers."""
    began_ns = monotonic_ns()
    started = [timers.after(PROBE_SECONDS, bool) for _ in range(PROBED)]
    took_ns = monotonic_ns() - began_ns
    for handle in started:
        handle.cancel()
    return took_ns
