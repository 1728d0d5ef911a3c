"""The contract every timer scheme keeps: four routines, counted in whole ticks.

    start     begin a timer                            |  for whoever wants to be woken
    stop      end it before it fires                   |

    advance   move the hand, collect what is due       |  for whoever turns the wheel
    take      hand one expired timer's payload over    |  (`Timer.take`)

A wheel knows no clock, no thread, no lock and no callback: it is turned by a driver that does. What
it promises in return:

- A timer of `delay` ticks is due on tick `now + max(delay, 1)`, and `advance` hands it out when
  the hand reaches that tick: never earlier, never later, never twice.
- Timers come out by due tick, those of one tick in the order they were started.
- A timer started, stopped or restarted while a batch is being worked through is treated as at any
  other time: one handed out already cannot be caught any more (`stop` says False), but it drops its
  payload and its state says so, and the driver passes it over.
- With a limit, `advance` does a bounded amount of work, on `HierarchicalWheel` also while timers move down a
  level; what is left undone is continued by the next call.
- Bad input raises an error of `tickwheel.errors` and changes nothing.

    >>> from tickwheel.wheels import HierarchicalWheel, CLOCK
    >>> wheel = HierarchicalWheel(CLOCK)
    >>> egg = wheel.start(4 * 60, "egg", key="breakfast")
    >>> tea = wheel.start(75, "tea")
    >>> [timer.take() for timer in wheel.advance(3600)]
    ['tea', 'egg']
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Protocol

from tickwheel.wheels.timer import TICK_MAX, Timer

__all__ = ["Stats", "Wheel"]


@dataclass(frozen=True, slots=True)
class Stats:
    """What a wheel has done and holds; counts since it was made."""

    pending: int  # waiting now
    started: int  # by start, start_many, and restart of a fired timer
    restarted: int  # moved by restart while pending
    stopped: int
    expired: int  # handed out by advance
    cascaded: int  # timers moved down a level, counted once a move
    overflow: int  # waiting now beyond the top level


class Wheel(Protocol):
    """A timer module. One thread at a time may use it."""

    @property
    def now(self) -> int:
        """The tick the hand stands on."""

    @property
    def stats(self) -> Stats:
        """What it has done and holds."""

    def start(self, delay: int, payload: object = None, key: Hashable = None) -> Timer:
        """Start a timer that is due `max(delay, 1)` ticks from now.

        A key, if given, must be unique among the pending timers; it is free again when the timer fires.
        A key whose hash or equality changes while the timer is pending, or fails, may stop naming it; the timer
        itself is not affected.
        """

    def start_many(self, delays: Iterable[int], payloads: Iterable[object]) -> list[Timer]:
        """Start one timer for each delay and payload: all of them, or none if one is refused."""

    def stop(self, timer: Timer) -> bool:
        """Stop a timer and drop its payload; False if it has fired or was stopped before.

        A timer that has fired belongs to no wheel: any wheel takes it here, and drops its payload.
        """

    def stop_many(self, timers: Iterable[Timer]) -> int:
        """Stop timers and return how many were still pending."""

    def stop_key(self, key: Hashable) -> bool:
        """Stop the pending timer with this key; False if there is none."""

    def find(self, key: Hashable) -> Timer | None:
        """Return the pending timer with this key."""

    def restart(self, timer: Timer, delay: int) -> None:
        """Give a pending timer a new delay, or start a fired one again; a stopped one is refused.

        Among timers of one tick it counts as started last.
        """

    def advance(self, to: int, limit: int = TICK_MAX) -> list[Timer]:
        """Move the hand to a tick and hand out every timer due until then.

        With a limit, the hand may stop before `to`, and the next call continues from there:

        - on the tick of the last timer handed out, if the batch is full;
        - before the first tick of a turn whose timers are still being moved down. At most `limit` + 1,024
          timers are moved in one call, so the batch may be short, or empty, although more is due.

        There may be more to hand out if the batch is full or `now < to`. Without a limit the hand always
        reaches `to`.
        """

    def next_due(self) -> int | None:
        """Return a tick before which nothing is due; None if nothing is pending.

        It is the due tick of the earliest timer, with one exception: if a hierarchical wheel has that timer in
        a slot above the lowest level with more than 16 timers, it is the tick at which the slot is cascaded.
        While a limited advance is unfinished it is at most one tick ahead: call `advance` again.
        """

    def occupancy(self) -> list[list[int]]:
        """Count the timers in each slot, level by level; what waits beyond is in `stats.overflow`."""

    def check(self) -> None:
        """Raise `BrokenWheel` if the wheel contradicts itself. Looks at every timer."""

    def close(self) -> None:
        """Stop every timer and let go of all payloads; the wheel takes no more. Harmless if repeated."""

    def __len__(self) -> int:
        """How many timers are pending."""
