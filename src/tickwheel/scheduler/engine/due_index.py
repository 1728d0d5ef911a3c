"""The due index: which task is due next, and which of those that are due is the most urgent.

    store        everything              run_at
    due index    up to a horizon         |----------------|........................>
                                         now              loaded until

It has two parts. Tasks that are not due wait on a wheel; those that are due wait in heaps, one for each handler:

    wheel    12:00:03  order-7          when its hand gets there, a task moves to the heap of its handler
             12:00:09  order-8
    ready    orders.cancel   (9, 12:00:01, a)  (0, 12:00:00, b)      priority, due time, id
             mail.send       (0, 11:59:58, c)  (0, 11:59:59, d)

The index is derived from the store: it can be dropped and loaded again. An entry may be out of date, because someone
cancelled or moved its task; the store finds out when it is claimed.
"""

import asyncio
from collections import Counter
from collections.abc import Collection
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Final

from tickwheel.observe.picture import Dial, Dials
from tickwheel.scheduler.engine.ready_tasks import ReadyTasks
from tickwheel.stores.contract import Due
from tickwheel.wheels import Geometry, HierarchicalWheel, Timer

__all__ = ["DIALS", "WHEEL_MAX", "DueIndex", "DueWheel"]


LOOKED_AT_MAX: Final = 10_000  # entries; some milliseconds, and those loaded first are the oldest
MS: Final = 1_000_000  # nanoseconds, in which a geometry counts
# The dials of a clock. Ticks are counted from 1970, so that each hand reads as a clock in UTC does.
DIALS: Final = Geometry([(MS, 1000), (1000 * MS, 60), (60_000 * MS, 60), (3_600_000 * MS, 24), (86_400_000 * MS, 30)])
WHEEL_MAX: Final = 50_000  # entries that wait on the wheel, but for those that come between; some 400 bytes each


class DueIndex:
    """What the engine knows of the tasks it will run: one entry for each, on the wheel or ready."""

    def __init__(self, origin: int, ahead_ms: int = 0) -> None:
        self.wheel = DueWheel(origin)
        self.ready = ReadyTasks()
        self._ahead_ms = ahead_ms  # how long before it is due a task may be claimed
        self._soon: dict[str, Due] = {}  # the hand has passed them, and they may not be claimed yet
        self._ticks = 0  # of wheels before this one

    def put(self, due: Due, now: int) -> None:
        """Enter a task, or change it."""
        self._soon.pop(due.id, None)
        if due.run_at > self.wheel.now:
            self.ready.drop(due.id)
            self.wheel.put(due)
            return
        self.wheel.drop(due.id)  # the hand has passed it
        if self._claimable_at(due) > now:  # the hand is ahead of the clock, which may also have been set back a little
            self.ready.drop(due.id)
            self._soon[due.id] = due
        else:
            self.ready.put(due)

    def _claimable_at(self, due: Due) -> int:
        """Return from when on a task may be claimed: one that may run at most once is not claimed ahead."""
        return due.run_at if due.at_most_once else due.run_at - self._ahead_ms

    def drop(self, task_id: str) -> None:
        """Take a task out, if it is there."""
        self.wheel.drop(task_id)
        self.ready.drop(task_id)
        self._soon.pop(task_id, None)

    def drop_all(self, task_ids: AbstractSet[str]) -> None:
        """Take out tasks of which hardly any is there."""
        for task_id in (self.wheel.ids() & task_ids) | (self.ready.ids() & task_ids) | (self._soon.keys() & task_ids):
            self.drop(task_id)

    def drop_partitions(self, partitions: Collection[int]) -> None:
        """Take out all tasks of some partitions."""
        self.wheel.drop_partitions(partitions)
        self.ready.drop_partitions(partitions)
        self._soon = {task_id: due for task_id, due in self._soon.items() if due.partition not in partitions}

    def clear(self, origin: int) -> None:
        """Take out everything, and begin with a wheel whose hand is at a moment."""
        self._ticks += self.wheel.ticks
        self.wheel = DueWheel(origin)
        self.ready = ReadyTasks()
        self._soon.clear()

    def clear_wheel(self) -> None:
        """Take out everything that is to come."""
        self._ticks += self.wheel.ticks
        self.wheel = DueWheel(self.wheel.now)

    async def trim_wheel(self, most: int, step: int) -> int:
        """Keep about so many entries of the wheel, those that are due first; return until when they are."""
        seconds: Counter[int] = Counter()
        entries = self.wheel.entries()
        for first in range(0, len(entries), step):
            seconds.update(due.run_at // 1000 for due in entries[first : first + step])
            await asyncio.sleep(0)
        last, kept = 0, 0
        for last in sorted(seconds):
            kept += seconds[last]
            if kept >= most:
                break
        until = (last + 1) * 1000
        for first in range(0, len(entries), step):
            for due in entries[first : first + step]:
                if due.run_at >= until:
                    self.wheel.drop(due.id)
            await asyncio.sleep(0)
        return until - 1

    def collect(self, now: int, until: int, limit: int) -> bool:
        """Move tasks that may be claimed until a moment from the wheel to the others; False if there may be more."""
        entries = self.wheel.take(until, limit)
        for due in entries:
            if due.run_at > (now if due.at_most_once else until):
                self._soon[due.id] = due
            else:
                self.ready.put(due)
        return len(entries) < limit

    def collect_due(self, now: int) -> None:
        """Move tasks that the hand has passed to the others, when they may be claimed and not before."""
        for due in [due for due in self._soon.values() if self._claimable_at(due) <= now]:
            del self._soon[due.id]
            self.ready.put(due)

    def next_soon(self) -> int | None:
        """Return when the first of the tasks may be claimed that the hand has passed; None if there is none."""
        return min(map(self._claimable_at, self._soon.values()), default=None)

    def oldest_due(self, now: int) -> int | None:
        """Return since when the oldest task has been due; None if none is."""
        found = [moment for moment in (self.wheel.oldest_due(now), self.ready.oldest_due()) if moment is not None]
        return min((moment for moment in found if moment <= now), default=None)

    def where(self, task_id: str) -> str | None:
        """Say where a task is; None if it is not here."""
        if task_id in self.wheel or task_id in self._soon:
            return "in the wheel"
        return "due, waiting for a worker" if task_id in self.ready else None

    @property
    def ticks(self) -> int:
        """How many milliseconds its hand has moved."""
        return self._ticks + self.wheel.ticks

    def dials(self, now: int) -> Dials:
        """Return what the wheel looks like; what is ready lies where the hand is."""
        return self.wheel.dials(now, len(self.ready))

    def levels(self) -> list[int]:
        """Count the entries on each dial, the fastest first; what is ready counts as on that."""
        fastest, *others = self.wheel.levels()
        return [fastest + len(self.ready), *others]

    def __len__(self) -> int:
        return len(self.wheel) + len(self.ready) + len(self._soon)


class DueWheel:
    """Entries on a wheel whose tick is a millisecond, one for each task; its hand begins at `origin`.

    At 14:07:30.123 UTC the hands stand here. The days are counted from 1970, thirty to a turn:

        days  [00] ... [29]    hours  [14]    minutes  [07]    seconds  [30]    milliseconds  [123]

    A task due at 14:09:00.250 waits in slot 9 of the minutes; at 14:09:00 it moves to slot 250 of the milliseconds.
    """

    def __init__(self, origin: int) -> None:
        self.origin = origin
        self._wheel = HierarchicalWheel(DIALS, now=origin)
        self._timers: dict[str, Timer] = {}

    @property
    def now(self) -> int:
        """The moment its hand stands on."""
        return self._wheel.now

    def put(self, due: Due) -> None:
        """Enter a task, or move it."""
        known = self._timers.get(due.id)
        if known is not None:
            if known.payload == due:
                return
            self.drop(due.id)
        self._timers[due.id] = self._wheel.start(max(due.run_at - self._wheel.now, 0), due)

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

    def ids(self) -> AbstractSet[str]:
        """Return the ids of all tasks."""
        return self._timers.keys()

    def entries(self) -> list[Due]:
        """List all entries, in no order."""
        return [timer.payload for timer in self._timers.values() if isinstance(timer.payload, Due)]

    def take(self, until: int, limit: int) -> list[Due]:
        """Take out what is due until a moment, at most so many; the rest stays."""
        entries: list[Due] = []
        tick = max(until, self._wheel.now)
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
        return self._wheel.next_due()

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
        occupancy = self._wheel.occupancy()
        occupancy[0][now % DIALS.dials[0].slots] += ready
        return Dials(
            at=now,
            dials=[
                Dial(slot_ms=dial.tick, hand=now // dial.tick % dial.slots, occupancy=slots)
                for dial, slots in zip(DIALS.dials, occupancy, strict=True)
            ],
            overflow=self.overflow,
        )

    def slot(self, level: int, slot: int) -> list[Due]:
        """List what waits in a slot, in the order it came there."""
        found = (each for each in self._wheel._slots() if (each.level, each.index) == (level, slot))
        return [timer.payload for each in found for timer in each.timers() if isinstance(timer.payload, Due)]

    def levels(self) -> list[int]:
        """Count the entries on each dial, the fastest first."""
        return [sum(slots) for slots in self._wheel.occupancy()]

    @property
    def overflow(self) -> int:
        """How many entries lie beyond the slowest dial."""
        return self._wheel.stats.overflow

    @property
    def ticks(self) -> int:
        """How many milliseconds its hand has moved."""
        return self._wheel.now - self.origin

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._timers

    def __len__(self) -> int:
        return len(self._timers)
