"""Putting tasks in the place of what was read: all of them, or none if anything has changed since.

In one shard that is one script. In several, what is to be written is held in each of them first; only when nobody was
in the way anywhere is it written. Should we die between the two, the holds end by themselves after a while, and should
we die between two writes, some of the batch is there that was not acknowledged.

An id belongs into the partition of its hash, and schedulers put it there. A task that somebody puts elsewhere is found
by a note in the partition where it belongs; that makes two places to write.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import Any, Final, TypeVar

from tickwheel.errors import StoreUnavailable
from tickwheel.stores import validation
from tickwheel.stores.redis.entries import NUMBERS, Entry, moment_of, value_of
from tickwheel.stores.redis.keys import home_of
from tickwheel.stores.redis.reading import There
from tickwheel.stores.redis.shards import Shards
from tickwheel.stores.wire import Spell
from tickwheel.tasks.record import Task

__all__ = ["Draft", "persist", "put"]

T = TypeVar("T")

HOLD_MS: Final = 5_000  # what is held is written within milliseconds, or never
PATIENCE_S: Final = 10.0  # with others who change the same tasks: a hold of the dead ends before
PAUSE_S: Final = 0.002
PAUSE_S_MAX: Final = 0.2
NOTHING: Final = -1  # the status of a task that is not there
ABSENT: Final = ""  # the header of a task that is not there
ABSENT_HERE: Final = "-"  # the same, where its note is written as well

_chance = Random()  # noqa: S311 - so that those who were in each other's way do not meet again


class Draft:
    """What is to be written: tasks and notes, by partition."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.parts: dict[int, tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]] = {}

    def add(self, task: Task, serial: int, body: bytes) -> None:
        """Add a task that is nowhere yet."""
        home = home_of(task.id, self.partitions)
        self._put(task, serial, body, ABSENT)
        if home != task.partition:
            self._note(home, (task.id, "", str(task.partition), False))

    def change(self, task: Task, there: There, serial: int) -> None:
        """Put a task in the place of what was read, if anything was."""
        entry = there.entries.get(task.id)
        home, said = home_of(task.id, self.partitions), there.places.get(task.id, home_of(task.id, self.partitions))
        body = validation.encode(task)
        if entry is not None and entry.task.partition == task.partition:
            self._put(task, serial, body, entry.header, entry)
            return
        if entry is not None:  # it moves, and its runs are forgotten
            self._remove(entry)
        self._put(task, serial, body, ABSENT_HERE)
        here = entry is not None and entry.task.partition == home
        self._note(home, (task.id, _said(said, home), _said(task.partition, home), here))

    def remove(self, entry: Entry) -> None:
        """Delete a task that was read."""
        self._remove(entry)
        home, part = home_of(entry.task.id, self.partitions), entry.task.partition
        if home != part:
            self._note(home, (entry.task.id, str(part), "", False))

    def forget(self, task_id: str, part: int) -> None:
        """Take back the note of a task that is gone."""
        self._note(home_of(task_id, self.partitions), (task_id, str(part), "", False))

    def _put(self, task: Task, serial: int, body: bytes, header: str, entry: Entry | None = None) -> None:
        value = value_of(task, serial, body)
        old = NOTHING if entry is None else NUMBERS[entry.task.listed_status]
        mark = "" if entry is None else entry.mark
        new = NUMBERS[task.listed_status]
        row = (task.id, header, mark, old, new, value, str(serial), str(moment_of(task)))
        self.parts.setdefault(task.partition, ([], []))[0].append(row)

    def _remove(self, entry: Entry) -> None:
        task = entry.task
        old = NUMBERS[task.listed_status]
        row = (task.id, entry.header, entry.mark, old, NOTHING, "", "0", "0")
        self.parts.setdefault(task.partition, ([], []))[0].append(row)

    def _note(self, home: int, note: tuple[Any, ...]) -> None:
        self.parts.setdefault(home, ([], []))[1].append(note)


def _said(part: int, home: int) -> str:
    return "" if part == home else str(part)


async def put(shards: Shards, draft: Draft, spell: Spell | None = None) -> bool:
    """Write it, or nothing of it if anything is not as it was read; each write carries the hint of it, if it shall."""
    by_shard = shards.gathered(draft.parts)
    token = secrets.token_hex(8)

    def tasks(shard: int) -> list[int]:
        """Return where tasks are written; of notes nobody has to know."""
        return [part for part in by_shard[shard] if draft.parts[part][0]]

    async def each(how: str, among: Iterable[int]) -> dict[int, Any]:
        messages = {
            shard: (how, token, HOLD_MS, [(part, *draft.parts[part]) for part in by_shard[shard]]) for shard in among
        }
        writes = how in ("now", "write")
        hints = {} if spell is None or not writes else {each: spell(parts) for each in among if (parts := tasks(each))}
        return await shards.ask("put", messages, lasting=writes, hints=hints)

    if len(by_shard) <= 1:
        return not any((await each("now", by_shard)).values())
    wrong = await each("hold", by_shard)
    if any(wrong.values()):
        await each("drop", [shard for shard, ids in wrong.items() if not ids])
        shards.dropped(set(draft.parts))
        return False
    if any((await each("write", by_shard)).values()):
        raise StoreUnavailable(f"{shards.address.shown}: it took too long to write; some of it may be written")
    return True


async def persist(shards: Shards, attempt: Callable[[], Awaitable[T | None]]) -> T:
    """Try to change something until nobody is in the way, for a while; None says that somebody was."""
    pause_s = PAUSE_S
    end_s = asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        done = await attempt()
        if done is not None:
            return done
        if asyncio.get_running_loop().time() > end_s:
            raise StoreUnavailable(f"{shards.address.shown}: others keep changing the same tasks; try again")
        await asyncio.sleep(pause_s * _chance.random())
        pause_s = min(pause_s * 2, PAUSE_S_MAX)
