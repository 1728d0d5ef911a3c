"""Adding tasks: a group is one statement and one commit.

Almost always no id of a group is there already, and one statement adds them all; otherwise it adds none of them, and
each call is settled in a transaction for the whole group.
"""

from collections import Counter
from typing import Any

from tickwheel.stores import bounds
from tickwheel.stores.adding import Call, settle_group
from tickwheel.stores.contract import Conflict
from tickwheel.stores.postgres.changing import count, loaded
from tickwheel.stores.postgres.rows import NUMBERS, columns_of
from tickwheel.stores.postgres.sessions import Connection, Sessions
from tickwheel.stores.postgres.statements import SQL
from tickwheel.tasks.record import Task

__all__ = ["add_group"]


async def add_group(sessions: Sessions, group: list[Call]) -> None:
    """Write what a group of calls adds, and give each its answer."""
    if not await _add_all(sessions, group):
        await sessions.transact(lambda connection: _settle_each(connection, group))


async def _add_all(sessions: Sessions, group: list[Call]) -> bool:
    """Add everything, if nothing of it is there."""
    tasks = [task for call in group for task in call.tasks]
    if len({task.id for task in tasks}) < len(tasks):
        return False
    columns = columns_of(tasks, [body for call in group for body in call.bodies])
    [(added,)] = await sessions.fetch("add", *columns)
    if added < len(tasks):
        return False
    for call in group:
        call.answer = [Conflict(task, added=True) for task in call.tasks]
    return True


async def _settle_each(connection: Connection, group: list[Call]) -> None:
    """Bring one call after the other to what is there, and write what is new in the end."""
    there = await loaded(connection, [task.id for call in group for task in call.tasks], locked=True)
    settled, anew = settle_group(there, group)
    changed = list(settled.values())
    await _write(connection, "add", [task for task in changed if task.id not in there])
    await _write(connection, "place_anew", [task for task in changed if task.id in there and task.id in anew])
    await _write(connection, "place", [task for task in changed if task.id in there and task.id not in anew])
    counted: Counter[int] = Counter()
    for task in changed:
        if task.id in there:
            counted[NUMBERS[there[task.id].status]] -= 1
            counted[NUMBERS[task.status]] += 1
    await count(connection, counted)


async def _write(connection: Connection, name: str, tasks: list[Task]) -> None:
    if tasks:
        columns: Any = columns_of(tasks, [bounds.encode(task) for task in tasks])
        await connection.fetch(SQL[name], *columns)
