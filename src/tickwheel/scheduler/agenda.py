"""What is due soon: the wheel of the durable tasks, in memory, derived from the store.

    store           everything              run_at
    agenda          up to a horizon         |----------------|........................>
                                            now              loaded until

Nothing is lost with an agenda: it can be thrown away and loaded again. An entry may be out of date, because someone
cancelled or moved its task; the store finds out when it is claimed.
"""

from collections.abc import Collection
from itertools import islice

from tickwheel.observe.picture import Dial, Dials
from tickwheel.stores.contract import Due
from tickwheel.wheels import BINARY, HierarchicalWheel, Timer

__all__ = ["Agenda"]

LOOKED_AT_MAX = 10_000  # entries; some milliseconds, and those loaded first are the oldest


class Agenda:
    """Entries on a wheel of milliseconds since `origin`, one for each task."""

    def __init__(self, origin: int) -> None:
        self.origin = origin
        self._wheel = HierarchicalWheel(BINARY)  # its tick is a millisecond
        self._timers: dict[str, Timer] = {}

    @property
    def now(self) -> int:
        """The moment its hand stands on."""
        return self.origin + self._wheel.now

    def put(self, due: Due) -> None:
        """Enter a task, or move it."""
        known = self._timers.get(due.id)
        if known is not None:
            if known.payload == due:
                return
            self.drop(due.id)
        self._timers[due.id] = self._wheel.start(max(due.run_at - self.now, 0), due)

    def drop(self, task_id: str) -> None:
        """Take a task out, if it is there."""
        timer = self._timers.pop(task_id, None)
        if timer is not None:
            self._wheel.stop(timer)

    def drop_partitions(self, partitions: Collection[int]) -> None:
        """Take out all tasks of some partitions."""
        if partitions:
            entries = [timer.payload for timer in self._timers.values()]
            for due in entries:
                assert isinstance(due, Due)
                if due.partition in partitions:
                    self.drop(due.id)

    def take(self, until: int, limit: int) -> list[Due]:
        """Take out what is due until a moment, at most so many; the rest stays."""
        entries: list[Due] = []
        tick = max(until - self.origin, self._wheel.now)
        timers = self._wheel.advance(tick, limit)
        while not timers and self._wheel.now < tick:  # a cascade that took more than one step
            timers = self._wheel.advance(tick, limit)
        for timer in timers:
            due = timer.take()
            assert isinstance(due, Due)
            del self._timers[due.id]
            entries.append(due)
        return sorted(entries, key=lambda due: (due.run_at, -due.priority))

    def next_due(self) -> int | None:
        """Return a moment before which nothing is due; None if nothing is pending."""
        tick = self._wheel.next_due()
        return None if tick is None else self.origin + tick

    def oldest_due(self, now: int) -> int | None:
        """Return since when the oldest entry has been due, of those entered first; None if nothing is."""
        due = self.next_due()
        if due is None or due > now:
            return None
        # The wheel has what came too late on its next tick; its own time is in the entry.
        entries = (timer.payload for timer in islice(self._timers.values(), LOOKED_AT_MAX))
        oldest = min((due.run_at for due in entries if isinstance(due, Due)), default=now + 1)
        return oldest if oldest <= now else None

    def dials(self, now: int, ready: int = 0) -> Dials:
        """Return what the wheel looks like, the fastest dial first; between two dues its hand waits for nobody.

        Tasks that are due and wait for a worker lie where the hand is.
        """
        hand = max(now - self.origin, 0)
        occupancy = self._wheel.occupancy()
        occupancy[0][hand % self._wheel.geometry.dials[0].slots] += ready
        return Dials(
            at=now,
            dials=[
                Dial(slot_ms=dial.tick, hand=hand // dial.tick % dial.slots, occupancy=slots)
                for dial, slots in zip(self._wheel.geometry.dials, occupancy, strict=True)
            ],
            overflow=self.overflow,
        )

    def slot(self, level: int, slot: int) -> list[Due]:
        """List what waits in a slot, in the order it came there."""
        found = (each for each in self._wheel._slots() if (each.level, each.index) == (level, slot))
        return [timer.payload for each in found for timer in each.timers() if isinstance(timer.payload, Due)]

    def levels(self, ready: int = 0) -> list[int]:
        """Count the entries on each dial, the fastest first; those that are ready count as on that."""
        fastest, *others = [sum(slots) for slots in self._wheel.occupancy()]
        return [fastest + ready, *others]

    @property
    def overflow(self) -> int:
        """How many entries lie beyond the slowest dial."""
        return self._wheel.stats.overflow

    @property
    def ticks(self) -> int:
        """How many milliseconds its hand has moved."""
        return self._wheel.now

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._timers

    def __len__(self) -> int:
        return len(self._timers)
