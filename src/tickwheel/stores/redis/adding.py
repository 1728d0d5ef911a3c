"""Adding tasks: one write for a group that is all new; one that is not is read, settled, and written as it was read."""

from collections.abc import Callable, Iterator

from tickwheel.stores.grouping import Adder, Call, settle_group
from tickwheel.stores.redis.reading import There, load
from tickwheel.stores.redis.shards import Shards
from tickwheel.stores.redis.writing import Draft, give_back, number, persist, put
from tickwheel.tasks.record import Task

__all__ = ["adder"]


def adder(shards: Shards, tell: Callable[[set[int]], None]) -> Adder:
    """Make what writes what is added."""

    async def add_all(tasks: list[Task], bodies: list[bytes]) -> bool:
        serials = await number(shards, len(tasks))
        draft = Draft(shards.partitions)
        for task, serial, body in zip(tasks, serials, bodies, strict=True):
            draft.add(task, serial, body)
        return await put_numbered(shards, draft, serials)

    async def settle(group: list[Call]) -> None:
        await persist(shards, lambda: settle_once(shards, group))

    return Adder(add_all, settle, tell)


async def settle_once(shards: Shards, group: list[Call]) -> bool | None:
    """Bring calls to what is there, and write what is new; None if that changed meanwhile."""
    there = await load(shards, [task.id for call in group for task in call.tasks])
    changed, anew = settle_group(there.tasks, group)
    if not changed:
        return True
    serials = await number(shards, len(anew))
    draft = drafted(shards, changed, there, (iter(serials), anew))
    return await put_numbered(shards, draft, serials) or None


def drafted(shards: Shards, changed: list[Task], there: There, new: tuple[Iterator[int], set[str]]) -> Draft:
    """Draft what is to be written: those that begin a new life get serials, in the order of arrival."""
    serials, anew = new
    draft = Draft(shards.partitions)
    for task in changed:
        draft.change(task, there, next(serials) if task.id in anew else there.entries[task.id].serial)
    return draft


async def put_numbered(shards: Shards, draft: Draft, serials: range) -> bool:
    """Write it, or give the serials back."""
    done = await put(shards, draft)
    if not done:
        await give_back(shards, serials)
    return done
