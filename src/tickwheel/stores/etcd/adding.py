"""Adding tasks: a group is one transaction.

New tasks are numbered in the order of their arrival. Whoever adds demands that the last number is still the one that
was read: so no two tasks have one number, and nobody else can have added one of these ids since they were looked for.

Almost always no id of a group is there already, and nobody else adds: then nothing has to be read at all.
"""

from typing import Final

import msgspec

from tickwheel.stores.etcd.records import Write
from tickwheel.stores.etcd.requests import COMPARED_MAX, ask_key, put, stands
from tickwheel.stores.etcd.writing import Ground, Plan
from tickwheel.stores.grouping import Call, settle_group
from tickwheel.tasks.record import Task

__all__ = ["GROUP_TASKS_MAX", "Additions"]

GROUP_TASKS_MAX: Final = 500  # of all calls in a group: small ones fit into one transaction, with room to spare
UNREAD_MAX: Final = COMPARED_MAX - 2  # tasks of which a transaction can itself find out that they are not there


class Last(msgspec.Struct, frozen=True):
    """The number of the last task that arrived, and since when that is so."""

    number: int
    revision: int


class Additions:
    """Writes what groups of calls add."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._known: Last | None = None

    async def add_all(self, tasks: list[Task], _: list[bytes]) -> bool:
        """Add tasks if none of them is there, and say whether that was so; many at once are always looked for."""
        if len(tasks) > UNREAD_MAX:
            return False
        last, self._known = self._known or await self._last(), None
        writes = [Write(before=None, after=task, number=last.number + place) for place, task in enumerate(tasks, 1)]
        absent = [write.comparison(self._ground.keys) for write in writes]
        number = last.number + len(tasks)
        revision = await self._ground.attempt(self._counted(last, number, writes, absent))
        if not revision:
            return False
        self._known = Last(number, revision)
        return True

    async def settle(self, group: list[Call]) -> None:
        """Bring calls to what is there."""
        await self._ground.transact(lambda: self._plan(group))

    async def _plan(self, group: list[Call]) -> Plan[None]:
        """Bring one call after the other to what is there."""
        last = await self._last()  # before the tasks: whatever is added after it was read is noticed
        there = await self._ground.load(task.id for call in group for task in call.tasks)
        changed, anew = settle_group({task_id: kept.task for task_id, kept in there.items()}, group)
        writes, number = [], last.number
        for task in changed:
            number += task.id in anew
            mine = number if task.id in anew else there[task.id].number
            writes.append(Write(before=there.get(task.id), after=task, number=mine))
        return self._counted(last, number, writes, [])

    async def _last(self) -> Last:
        [answer] = await self._ground.members.read([ask_key(self._ground.keys.last)])
        return Last(int(answer.kvs[0].value), answer.kvs[0].mod_revision) if answer.kvs else Last(0, 0)

    def _counted(self, last: Last, number: int, writes: list[Write], compared: list[object]) -> Plan[None]:
        """Write tasks, and the new last number if there is one."""
        key = self._ground.keys.last
        if number == last.number:
            return Plan(answer=None, writes=writes, compared=compared)
        compared = [stands(key, last.revision), *compared]
        return Plan(answer=None, writes=writes, compared=compared, given=[put(key, b"%d" % number)])
