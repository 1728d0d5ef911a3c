"""What anyone may do to tasks that are there: each is read, changed by the rules of all stores, and put back."""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from typing import Any, Final

from tickwheel.errors import UnknownTask
from tickwheel.stores.contract import Rest
from tickwheel.stores.etcd.keys import after
from tickwheel.stores.etcd.records import Kept, Write, place_of
from tickwheel.stores.etcd.requests import ask_all, delete, transaction
from tickwheel.stores.etcd.writing import Ground, Plan
from tickwheel.tasks import transitions
from tickwheel.tasks.record import ENDED, Status, Task, UnreadableTask

__all__ = ["amend", "change_each", "purge", "remove"]

PURGE_TASKS: Final = 90  # deleted in one transaction, so that nobody waits long for it
PURGE_KEYS: Final = 2000  # read at a time


async def change_each(ground: Ground, ids: Sequence[str], step: Callable[[Task], Task]) -> list[Task | None]:
    """Take a step with each task that is there; return how they are now."""

    async def work() -> Plan[list[Task | None]]:
        there = await ground.load(ids)
        now = {task_id: kept.task for task_id, kept in there.items()}
        answers: list[Task | None] = []
        for task_id in ids:
            if task_id in now:
                now[task_id] = step(now[task_id])
            answers.append(now.get(task_id))
        return Plan(answer=answers, writes=_changes(there, now))

    return await ground.transact(work)


async def amend(ground: Ground, tasks: Sequence[Task], moment: int) -> list[Task]:
    """Put tasks in the place of those they were made from, or raise."""

    async def work() -> Plan[list[Task]]:
        there = await ground.load(task.id for task in tasks)
        now = {task_id: kept.task for task_id, kept in there.items()}
        answers = []
        for task in tasks:
            if task.id not in now:
                raise UnknownTask(task.id)
            now[task.id] = transitions.update(now[task.id], task, moment)
            answers.append(now[task.id])
        return Plan(answer=answers, writes=_changes(there, now))

    return await ground.transact(work)


def _changes(there: dict[str, Kept], now: dict[str, Task]) -> list[Write]:
    """Return what is to be written: nothing for those that stayed as they are."""
    return [
        Write(before=there[task_id], after=task, number=there[task_id].number, epoch=there[task_id].epoch)
        for task_id, task in now.items()
        if task is not there[task_id].task
    ]


async def remove(ground: Ground, ids: Sequence[str]) -> list[Task | None]:
    """Delete tasks that do not run."""

    async def work() -> Plan[list[Task | None]]:
        there = await ground.load(ids)
        gone = [kept for kept in there.values() if kept.task.status is not Status.RUNNING]
        answers = [there[task_id].task if task_id in there else None for task_id in ids]
        odd = {kept.task.id for kept in gone if isinstance(kept.task, UnreadableTask)}
        given = [delete(key) for key in await _places_of(ground, odd)] if odd else []
        return Plan(answer=answers, writes=[_removal(kept) for kept in gone], given=given)

    return await ground.transact(work)


async def _places_of(ground: Ground, ids: Collection[str]) -> list[bytes]:
    """Find the keys that lead to tasks that cannot be read, among all: their data do not tell."""
    keys = ground.keys
    asked = [ask_all(keys.arrivals), ask_all(keys.queues), ask_all(keys.places)]
    arrivals, queues, places = await ground.members.read(asked)
    found = [pair.key for pair in arrivals.kvs if pair.value.decode() in ids]
    found += [pair.key for pair in queues.kvs if keys.read_due(pair.key)[2] in ids]
    return found + [pair.key for pair in places.kvs if place_of(pair.value)[1] in ids]


def _removal(kept: Kept) -> Write:
    return Write(before=kept, after=None, number=kept.number)


async def purge(ground: Ground, before: int, rest: Rest | None = None) -> int:
    """Delete what was over before a moment, some at a time; return how many tasks."""
    purged = 0
    for status in sorted(ENDED):
        async for pairs in _walk(ground, ground.keys.listed(status), only=""):
            places = (place_of(pair.value) for pair in pairs)
            past = [task_id for finished_at, task_id in places if finished_at < before]
            for some in _parts(past, PURGE_TASKS):
                purged += await _purge_tasks(ground, some, before)
                if rest is not None:
                    await rest()
    async for pairs in _walk(ground, ground.keys.runs, only="keys"):
        past_runs = [pair.key for pair in pairs if ground.keys.finished_at(pair.key) < before]
        for runs in _parts(past_runs, PURGE_TASKS):
            await ground.members.write_again(transaction([], [delete(key) for key in runs]))
            if rest is not None:
                await rest()
    return purged


async def _purge_tasks(ground: Ground, ids: Sequence[str], before: int) -> int:
    async def work() -> Plan[int]:
        there = await ground.load(ids)
        past = [kept for kept in there.values() if kept.task.status in ENDED and (kept.task.finished_at or 0) < before]
        return Plan(answer=len(past), writes=[_removal(kept) for kept in past])

    return await ground.transact(work)


async def _walk(ground: Ground, prefix: bytes, only: str) -> AsyncIterator[Sequence[Any]]:
    """Read all keys that begin with a prefix, some at a time."""
    begin, more = prefix, True
    while more:
        asked = ask_all(prefix, begin=begin, end=after(prefix), limit=PURGE_KEYS, only=only)
        [answer] = await ground.members.read([asked])
        if answer.kvs:
            yield answer.kvs
            begin = answer.kvs[-1].key + b"\0"
        more = answer.more


def _parts(whole: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    return (whole[first : first + size] for first in range(0, len(whole), size))
