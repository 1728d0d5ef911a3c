"""`python -m bench.cascade`: how long one limited advance may take while a million timers fall together.

They wait in one coarse slot, or all in one turn beyond the last dial, and every one of them has to be moved down
before the first can be handed out. An advance with a limit of 1,000 moves some and pauses; the longest of all these
calls is held against sorting 50,000 random floats in the same process, the median of five sorts. Both are processor
time: on a busy machine the longest of two thousand calls would otherwise be the one that waited for a core.

    slot        longest call    1.2 ms    sort    7.9 ms    ratio 0.15, at most 1: met

Meanwhile other threads go on starting timers: while a million timers of `Timers` fall and run, another thread starts
one a millisecond, and 99 % of these calls take at most 5 ms of real time.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from random import Random
from statistics import median
from time import perf_counter_ns, sleep, thread_time_ns
from typing import TYPE_CHECKING

from tickwheel import COMPILED, Timers
from tickwheel.wheels import DEFAULT, HierarchicalWheel

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Fall", "Waits", "measure", "measure_waits"]

TIMERS = 1_000_000
LIMIT = 1_000
RATIO_MAX = 1.0

WAIT_MS_MAX = 5.0
WAIT_PERCENT = 99
DUE_SECONDS = 2.0  # after the last of them was started

SORTED = 50_000
SORTS = 5

MINUTE_TICKS = DEFAULT.dials[1].span
# Where they wait: in the slot of one minute, half an hour away, or in the first minute of a turn beyond the last dial.
FIRST_TICKS = {"slot": 30 * MINUTE_TICKS, "overflow": 2 * DEFAULT.span}


@dataclass(frozen=True, slots=True)
class Fall:
    """What was seen while timers fell together."""

    name: str
    timers: int
    calls: int
    longest_ns: int
    sort_ns: float

    @property
    def ratio(self) -> float:
        """The longest call against the sort."""
        return self.longest_ns / self.sort_ns

    @property
    def met(self) -> bool:
        """Whether no call took longer than the sort."""
        return self.ratio <= RATIO_MAX


def measure(name: str, timers: int, seed: int = 1) -> Fall:
    """Let timers fall and hand them out by a limit, timing every call."""
    random = Random(seed)
    first = FIRST_TICKS[name]
    wheel = HierarchicalWheel(DEFAULT)
    wheel.start_many([first + random.randrange(MINUTE_TICKS) for _ in range(timers)], [None] * timers)
    to = first + MINUTE_TICKS
    calls = handed_out = longest_ns = 0
    while wheel.now < to or len(wheel):
        began_ns = thread_time_ns()
        batch = wheel.advance(to, LIMIT)
        longest_ns = max(longest_ns, thread_time_ns() - began_ns)
        handed_out += len(batch)
        calls += 1
    assert handed_out == timers, "a timer was lost"
    return Fall(name, timers, calls, longest_ns, median(_sort_ns(random) for _ in range(SORTS)))


@dataclass(frozen=True, slots=True)
class Waits:
    """How long another thread was held up in `after` while timers fell and ran."""

    timers: int
    calls: int
    p99_ms: float

    @property
    def met(self) -> bool:
        """Whether the bound is kept."""
        return self.p99_ms <= WAIT_MS_MAX


def measure_waits(timers: int) -> Waits:
    """Start timers for one moment, and time the starts of others while they come due."""
    left = [timers]

    def run() -> None:
        left[0] -= 1

    with Timers() as driven:
        due_ns = driven.now_ns() + int((DUE_SECONDS + timers * 3e-6) * 1e9)
        for _ in range(timers):
            driven.after((due_ns - driven.now_ns()) / 1e9, run)
        sleep(max(due_ns - driven.now_ns(), 0) / 1e9)
        waits_ns: list[int] = []
        while left[0] > 0:
            began_ns = perf_counter_ns()
            driven.after(3600.0, run)
            waits_ns.append(perf_counter_ns() - began_ns)
            sleep(0.001)
    ordered = sorted(waits_ns) or [0]
    return Waits(timers, len(waits_ns), ordered[len(ordered) * WAIT_PERCENT // 100] / 1e6)


def _sort_ns(random: Random) -> int:
    """Return how long a sort takes."""
    drawn = [random.random() for _ in range(SORTED)]
    began_ns = thread_time_ns()
    sorted(drawn)
    return thread_time_ns() - began_ns


def read_options(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser("python -m bench.cascade", description="Time advances while timers fall together.")
    parser.add_argument("--timers", type=int, default=TIMERS, help=f"how many fall (default: {TIMERS:,})")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--strict", action="store_true", help="end with exit code 1 unless every ratio is met")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Measure both falls and tell."""
    options = read_options(arguments)
    falls = [measure(name, options.timers) for name in FIRST_TICKS]
    waits = measure_waits(options.timers)
    if options.json:
        shown = [asdict(fall) | {"ratio": fall.ratio} for fall in falls]
        print(json.dumps({"compiled": COMPILED, "falls": shown, "waits": asdict(waits)}, indent=1))
    else:
        for fall in falls:
            print(
                f"{fall.name:<10}  {fall.timers:,} timers, {fall.calls:,} calls    "
                f"longest {fall.longest_ns / 1e6:.2f} ms    sort {fall.sort_ns / 1e6:.2f} ms    "
                f"ratio {fall.ratio:.2f}, at most {RATIO_MAX:g}: {'met' if fall.met else 'missed'}"
            )
        print(
            f"{'threads':<10}  {waits.timers:,} timers, {waits.calls:,} calls    {WAIT_PERCENT} % of `after` within "
            f"{waits.p99_ms:.3f} ms, at most {WAIT_MS_MAX:g}: {'met' if waits.met else 'missed'}"
        )
    return 1 if options.strict and not (waits.met and all(fall.met for fall in falls)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
