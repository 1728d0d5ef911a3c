"""What anyone may do to tasks that are there: each is locked, changed by the rules of all stores, and put back."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Final

from tickwheel.errors import UnknownTask
from tickwheel.stores import validation
from tickwheel.stores.contract import Rest
from tickwheel.stores.postgres.rows import NUMBERS, STATUSES, columns_of, task_of
from tickwheel.stores.postgres.sessions import Connection, Sessions
from tickwheel.stores.postgres.statements import SQL
from tickwheel.stores.wire import Spell
from tickwheel.tasks import transitions
from tickwheel.tasks.record import Status, Task

__all__ = ["amend", "change_each", "count", "loaded", "notify", "place", "purge", "remove"]

PURGE_ROWS: Final = 1000  # deleted in one transaction, so that nobody waits long for it


async def loaded(connection: Connection, ids: Sequence[str], *, locked: bool) -> dict[str, Task]:
    """Read those tasks that are there; locked, nobody else can change them until the end of the transaction."""
    known = sorted({each for each in ids if validation.sayable(each)})
    rows = await connection.fetch(SQL["load_locked" if locked else "load"], known)
    return {task.id: task for task in (task_of(*row) for row in rows)}


async def change_each(
    sessions: Sessions, ids: Sequence[str], step: Callable[[Task], Task], spell: Spell | None
) -> tuple[list[Task | None], set[int]]:
    """Take a step with each task that is there; return how they are now, and where something changed."""

    async def work(connection: Connection) -> tuple[list[Task | None], set[int]]:
        there = await loaded(connection, ids, locked=True)
        now = dict(there)
        answers: list[Task | None] = []
        for task_id in ids:
            if task_id in now:
                now[task_id] = step(now[task_id])
            answers.append(now.get(task_id))
        changed = [task for task_id, task in now.items() if task is not there[task_id]]
        await place(connection, changed)
        await count(connection, moved(there, changed))
        await notify(sessions, connection, spell, changed)
        return answers, {task.partition for task in changed}

    return await sessions.transact(work)


async def amend(sessions: Sessions, tasks: Sequence[Task], moment: int, spell: Spell | None) -> list[Task]:
    """Put tasks in the place of those they were made from, or raise."""

    async def work(connection: Connection) -> list[Task]:
        there = await loaded(connection, [task.id for task in tasks], locked=True)
        now = dict(there)
        answers = []
        for task in tasks:
            if task.id not in now:
                raise UnknownTask(task.id)
            now[task.id] = transitions.update(now[task.id], task, moment)
            answers.append(now[task.id])
        await place(connection, list(now.values()))
        await count(connection, moved(there, list(now.values())))
        await notify(sessions, connection, spell, answers)
        return answers

    return await sessions.transact(work)


async def remove(sessions: Sessions, ids: Sequence[str], spell: Spell | None) -> list[Task | None]:
    """Delete tasks that do not run."""

    async def work(connection: Connection) -> list[Task | None]:
        there = await loaded(connection, ids, locked=True)
        gone = [task for task in there.values() if task.status is not Status.RUNNING]
        await connection.fetch(SQL["remove"], [task.id for task in gone])
        await connection.fetch(SQL["purge_runs_of"], [task.id for task in gone])
        counted: Counter[int] = Counter()
        counted.subtract(NUMBERS[task.listed_status] for task in gone)
        await count(connection, counted)
        await notify(sessions, connection, spell, gone)
        return [there.get(task_id) for task_id in ids]

    return await sessions.transact(work)


async def place(connection: Connection, tasks: Sequence[Task]) -> None:
    """Put tasks in the place of those with their ids."""
    if tasks:
        await connection.fetch(SQL["place"], *columns_of(tasks, [validation.encode(task) for task in tasks]))


def moved(there: dict[str, Task], changed: Sequence[Task]) -> Counter[int]:
    """Return by how much each count changes."""
    counted = Counter(NUMBERS[task.listed_status] for task in changed)
    counted.subtract(NUMBERS[there[task.id].listed_status] for task in changed)
    return counted


async def count(connection: Connection, counted: Counter[int]) -> None:
    """Change the counts; the last thing in a transaction, for others may count in the same row."""
    if any(counted.values()):
        await connection.fetch(SQL["count"], *(counted[number] for number in range(len(STATUSES))))


async def notify(sessions: Sessions, connection: Connection, spell: Spell | None, changed: Collection[Task]) -> None:
    """Let a transaction carry a hint, if it is to; the last thing in it, for others who do so wait for its commit."""
    if spell is not None and changed:
        await connection.fetch(SQL["notify"], sessions.address.channel, spell(task.partition for task in changed))


async def purge(sessions: Sessions, before: int, rest: Rest | None = None) -> int:
    """Delete what was over before a moment, some at a time; return how many tasks."""

    async def work(connection: Connection) -> tuple[int, int]:
        gone = await connection.fetch(SQL["purge_tasks"], before, PURGE_ROWS)
        await connection.fetch(SQL["purge_runs_of"], [task_id for task_id, _ in gone])
        runs = await connection.fetch(SQL["purge_runs"], before, PURGE_ROWS)
        counted: Counter[int] = Counter()
        counted.subtract(status for _, status in gone)
        await count(connection, counted)
        return len(gone), len(runs)

    purged, rows = 0, PURGE_ROWS
    while rows == PURGE_ROWS:
        tasks, runs = await sessions.transact(work)
        purged, rows = purged + tasks, max(tasks, runs)
        if rows == PURGE_ROWS and rest is not None:
            await rest()
    await sessions.fetch("gather_counts")
    return purged
