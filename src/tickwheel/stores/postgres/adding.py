"""Adding tasks: one statement for a group that is all new, and a transaction for one that is not."""

from collections import Counter
from itertools import groupby

import asyncpg

from tickwheel.stores import validation
from tickwheel.stores.grouping import Adder, Call, settle_group
from tickwheel.stores.postgres.changing import count, loaded, notify
from tickwheel.stores.postgres.rows import NUMBERS, columns_of
from tickwheel.stores.postgres.sessions import Connection, Sessions
from tickwheel.stores.postgres.statements import SQL
from tickwheel.stores.wire import Spell, Wire
from tickwheel.tasks.record import Status, Task

__all__ = ["adder"]


def adder(sessions: Sessions, wire: Wire) -> Adder:
    """Make what writes what is added."""

    async def add_all(tasks: list[Task], bodies: list[bytes], spell: Spell | None) -> bool:
        values = (*columns_of(tasks, bodies), *_counted(tasks))
        if spell is None:
            [(added,)] = await sessions.fetch("add", *values)
            return bool(added)

        async def add(connection: Connection) -> bool:
            added = await connection.fetchval(SQL["add"], *values)
            if added:
                await notify(sessions, connection, spell, tasks)
            return bool(added)

        return await sessions.transact(add)

    async def settle(group: list[Call], spell: Spell | None) -> None:
        async def work(connection: Connection) -> None:
            await notify(sessions, connection, spell, await _settle(connection, group))

        await sessions.transact(work)

    return Adder(add_all, settle, wire)


async def _settle(connection: Connection, group: list[Call]) -> list[Task]:
    """Bring one call after the other to what is there, and write what is new in the end; return that."""
    there = await loaded(connection, [task.id for call in group for task in call.tasks], locked=True)
    changed, anew = settle_group(there, group)
    # In the order of arrival, by which tasks are listed.
    for is_there, tasks in groupby([task for task in changed if task.id in anew], lambda task: task.id in there):
        if is_there:
            await _write(connection, "place_anew", list(tasks))
        else:
            await _add(connection, list(tasks))
    await _write(connection, "place", [task for task in changed if task.id in there and task.id not in anew])
    counted: Counter[int] = Counter()
    for task in changed:
        if task.id in there:
            counted[NUMBERS[there[task.id].listed_status]] -= 1
            counted[NUMBERS[task.listed_status]] += 1
    await count(connection, counted)
    return changed


async def _add(connection: Connection, tasks: list[Task]) -> None:
    if tasks:
        columns = columns_of(tasks, [validation.encode(task) for task in tasks])
        if not await connection.fetchval(SQL["add"], *columns, *_counted(tasks)):
            raise asyncpg.UniqueViolationError("one of these ids was added meanwhile")  # so that all is done again


def _counted(tasks: list[Task]) -> tuple[int, int]:
    """Return how many of new tasks are pending, and how many paused."""
    paused = [task.listed_status for task in tasks].count(Status.PAUSED)
    return len(tasks) - paused, paused


async def _write(connection: Connection, name: str, tasks: list[Task]) -> None:
    if tasks:
        await connection.fetch(SQL[name], *columns_of(tasks, [validation.encode(task) for task in tasks]))
