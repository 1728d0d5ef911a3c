"""What anyone may do to tasks that are there: each is read, changed by the rules of all stores, and put back.

If another was quicker, it is read again.
"""

from collections.abc import Callable, Sequence
from typing import Final

from tickwheel.errors import UnknownTask
from tickwheel.stores.contract import Rest
from tickwheel.stores.redis.entries import rows_of
from tickwheel.stores.redis.keys import home_of
from tickwheel.stores.redis.reading import There, load
from tickwheel.stores.redis.shards import Shards
from tickwheel.stores.redis.writing import Draft, persist, put
from tickwheel.stores.wire import Spell
from tickwheel.tasks import transitions
from tickwheel.tasks.record import Status, Task

__all__ = ["amend", "change_each", "purge", "remove"]

PURGE_ROWS: Final = 1000  # deleted in one script, so that nobody waits long for it


async def change_each(
    shards: Shards, ids: Sequence[str], step: Callable[[Task], Task], spell: Spell | None
) -> list[Task | None]:
    """Take a step with each task that is there; return how they are now."""

    async def attempt() -> list[Task | None] | None:
        there = await load(shards, ids)
        now = there.tasks
        answers: list[Task | None] = []
        for task_id in ids:
            if task_id in now:
                now[task_id] = step(now[task_id])
            answers.append(now.get(task_id))
        return answers if await _replace(shards, there, now, spell) else None

    return await persist(shards, attempt)


async def amend(shards: Shards, tasks: Sequence[Task], moment: int, spell: Spell | None) -> list[Task]:
    """Put tasks in the place of those they were made from, or raise."""

    async def attempt() -> list[Task] | None:
        there = await load(shards, [task.id for task in tasks])
        now = there.tasks
        answers = []
        for task in tasks:
            if task.id not in now:
                raise UnknownTask(task.id)
            now[task.id] = transitions.update(now[task.id], task, moment)
            answers.append(now[task.id])
        return answers if await _replace(shards, there, now, spell) else None

    return await persist(shards, attempt)


async def _replace(shards: Shards, there: There, now: dict[str, Task], spell: Spell | None) -> bool:
    draft = Draft(shards.partitions)
    for task_id, entry in there.entries.items():
        if now[task_id] is not entry.task:
            draft.change(now[task_id], there, entry.serial)
    return await put(shards, draft, spell)


async def remove(shards: Shards, ids: Sequence[str], spell: Spell | None) -> list[Task | None]:
    """Delete tasks that do not run."""

    async def attempt() -> list[Task | None] | None:
        there = await load(shards, ids)
        draft = Draft(shards.partitions)
        for entry in there.entries.values():
            if entry.task.status is not Status.RUNNING:
                draft.remove(entry)
        return [there.tasks.get(task_id) for task_id in ids] if await put(shards, draft, spell) else None

    return await persist(shards, attempt)


async def purge(shards: Shards, before: int, rest: Rest | None = None) -> int:
    """Delete what was over before a moment, some at a time; return how many tasks."""
    purged = 0
    left = shards.all()
    while left:
        answers = await shards.ask("purge", {shard: (parts, before, PURGE_ROWS) for shard, parts in left.items()})
        for shard, (runs, *gone) in answers.items():
            rows = rows_of(gone, 2)
            purged += len(rows)
            await _forget(shards, [(part, task_id.decode()) for part, task_id in rows])
            if max(len(rows), runs) < PURGE_ROWS:
                del left[shard]
        if left and rest is not None:
            await rest()
    return purged


async def _forget(shards: Shards, gone: list[tuple[int, str]]) -> None:
    """Take back the notes of tasks that are gone; if others are there by their ids already, the notes are theirs."""
    for part, task_id in gone:
        if home_of(task_id, shards.partitions) != part:
            draft = Draft(shards.partitions)
            draft.forget(task_id, part)
            await put(shards, draft)
