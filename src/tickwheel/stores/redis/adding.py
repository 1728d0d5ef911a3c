"""Adding tasks: one script for a group that is all new; another group is read, settled, and written as it was read."""

from collections.abc import Iterator
from typing import Final

from tickwheel.stores.grouping import Adder, Call, settle_group
from tickwheel.stores.redis.entries import prefixes_of
from tickwheel.stores.redis.keys import home_of
from tickwheel.stores.redis.numbering import Numbering
from tickwheel.stores.redis.reading import There, load
from tickwheel.stores.redis.shards import Shards
from tickwheel.stores.redis.writing import Draft, persist, put
from tickwheel.stores.wire import Spell, Wire
from tickwheel.tasks.record import Status, Task

__all__ = ["adder"]

NUMBERED: Final = -1  # in place of the serial before: theirs were taken already
NOT_NEXT: Final = -1  # what the script answers if their serials are not the next ones


def adder(shards: Shards, wire: Wire) -> Adder:
    """Make what writes what is added."""
    numbering = Numbering(shards)

    async def add_all(tasks: list[Task], bodies: list[bytes], spell: Spell | None) -> bool:
        if not shards.address.clustered and are_plain(tasks, shards.partitions):
            return await add_plain(shards, numbering, tasks, bodies, spell)
        serials = await numbering.take(len(tasks))
        draft = Draft(shards.partitions)
        for task, serial, body in zip(tasks, serials, bodies, strict=True):
            draft.add(task, serial, body)
        return await put_numbered(shards, draft, numbering, serials, spell)

    async def settle(group: list[Call], spell: Spell | None) -> None:
        await persist(shards, lambda: settle_once(shards, numbering, group, spell))

    return Adder(add_all, settle, wire)


def are_plain(tasks: list[Task], partitions: int) -> bool:
    """Tell whether tasks are like most: pending, and where schedulers put them."""
    homes = [home_of(task.id, partitions) for task in tasks]
    return homes == [task.partition for task in tasks] and all(task.listed_status is Status.PENDING for task in tasks)


async def add_plain(
    shards: Shards, numbering: Numbering, tasks: list[Task], bodies: list[bytes], spell: Spell | None
) -> bool:
    """Add tasks that are like most, with the serials that should be next or else with some that were taken."""
    hints = {} if spell is None else {0: spell(task.partition for task in tasks)}

    async def add(before: int, serials: range) -> int:
        message = (before, len(tasks), by_part(tasks, serials, bodies))
        added: int = (await shards.ask("add", {0: message}, lasting=True, hints=hints))[0]
        return added

    expected = numbering.expect(len(tasks))
    if expected is not None and (added := await add(expected.start - 1, expected)) != NOT_NEXT:
        if added:
            numbering.took(expected)
        return bool(added)
    serials = await numbering.take(len(tasks))
    added = await add(NUMBERED, serials)
    if not added:
        await numbering.give_back(serials)
    return bool(added)


def by_part(tasks: list[Task], serials: range, bodies: list[bytes]) -> list[tuple[int, list[str]]]:
    """Return new tasks as the script takes them, for each partition."""
    parts: dict[int, list[str]] = {}
    for task, prefix, serial, body in zip(tasks, prefixes_of(tasks), map(str, serials), bodies, strict=True):
        rows = parts.get(task.partition)
        if rows is None:
            rows = parts[task.partition] = []
        rows += (task.id, f"{prefix}{serial}\n{body.decode()}", serial, str(task.run_at))
    return list(parts.items())


async def settle_once(shards: Shards, numbering: Numbering, group: list[Call], spell: Spell | None) -> bool | None:
    """Bring calls to what is there, and write what is new; None if that changed meanwhile."""
    there = await load(shards, [task.id for call in group for task in call.tasks])
    changed, anew = settle_group(there.tasks, group)
    if not changed:
        return True
    serials = await numbering.take(len(anew))
    draft = drafted(shards, changed, there, (iter(serials), anew))
    return await put_numbered(shards, draft, numbering, serials, spell) or None


def drafted(shards: Shards, changed: list[Task], there: There, new: tuple[Iterator[int], set[str]]) -> Draft:
    """Draft what is to be written: those that begin a new life get serials, in the order of arrival."""
    serials, anew = new
    draft = Draft(shards.partitions)
    for task in changed:
        draft.change(task, there, next(serials) if task.id in anew else there.entries[task.id].serial)
    return draft


async def put_numbered(shards: Shards, draft: Draft, numbering: Numbering, serials: range, spell: Spell | None) -> bool:
    """Write it, or give the serials back."""
    done = await put(shards, draft, spell)
    if not done:
        await numbering.give_back(serials)
    return done
