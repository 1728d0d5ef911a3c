r"""How a scheduler stands at one moment: what metrics and a dashboard show, and nothing of the engine itself.

    due index (wheel)       queue: claimed and not finished
    [....#..##....#] -----> [ waiting | running | being written ] -----> store
          `levels`                       `queued`
    \________________________ `active` ________________________/

It is made by the engine, on its loop, when someone asks: between two pictures nothing is kept.
"""

from operator import add
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from tickwheel.observe.events import Events

__all__ = ["MOVES", "Dial", "Dials", "Picture", "Watched"]

MOVES: Final = (
    "free",  # taken, and nobody was seen to have it before
    "handed_over",  # taken, given back by another node
    "taken_over",  # taken, because the lease of another node had run out
    "given_back",  # so that another node could have it
    "lost",  # to another node, or because it could not be renewed in time
)


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """One look at an engine."""

    at: int  # milliseconds since 1970, by the engine's clock
    queued: int  # tasks that are claimed and not finished
    queued_max: int  # with so many, no more are claimed
    levels: list[int]  # entries on each dial of the wheel, the fastest first
    overflow: int  # entries beyond the slowest dial
    ticks: int  # milliseconds the hand has moved since the engine began
    oldest_due_at: int | None  # of what is due and not claimed; None if nothing is
    clock_step_ms: int  # by how much the wall clock was set since the engine began; below 0: back
    partitions: int  # that this engine owns for certain
    moves: dict[str, int] = {}  # how many partitions came to it or left it, by how: see MOVES
    parked: int = 0  # tasks that are due and wait in queues for consumers
    leased: int = 0  # tasks that consumers have leased from queues

    @property
    def active(self) -> int:
        """Count the tasks the engine has in its hands: on the wheel, or claimed."""
        return sum(self.levels) + self.overflow + self.queued

    @property
    def oldest_due_age_ms(self) -> int:
        """Return for how long the oldest task has been due that nobody claimed; 0 if there is none."""
        return 0 if self.oldest_due_at is None else max(self.at - self.oldest_due_at, 0)


class Dial(msgspec.Struct, frozen=True, kw_only=True):
    """One dial of the wheel."""

    slot_ms: int  # how long the hand stays on a slot
    hand: int  # the slot it is on
    occupancy: list[int]  # entries in each slot


class Dials(msgspec.Struct, frozen=True, kw_only=True):
    """What the wheel looks like, the fastest dial first."""

    at: int  # milliseconds since 1970
    dials: list[Dial]
    overflow: int  # entries beyond the slowest dial

    def and_those_of(self, other: "Dials") -> "Dials":
        """Lay one wheel over another with the same dials and hands."""
        laid = [
            replace(one, occupancy=list(map(add, one.occupancy, two.occupancy)))
            for one, two in zip(self.dials, other.dials, strict=True)
        ]
        return Dials(at=self.at, dials=laid, overflow=self.overflow + other.overflow)


class Watched(Protocol):
    """What can be watched: an `AsyncScheduler` or a `Scheduler`."""

    @property
    def events(self) -> Events:
        """What happens, as it happens."""

    def picture(self) -> Picture | None:
        """How it stands; None if it runs no tasks now."""
