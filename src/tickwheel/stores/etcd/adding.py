"""Adding tasks: a group is one transaction.

New tasks are numbered in the order of their arrival. A transaction demands that its numbers are free, and that no task
of its ids is there. Of several processes that add at the same time some may choose the same numbers; who is late takes
others, and then further and further apart: the order between processes is that of arrival but for such moments.

Almost always no id of a group is there already: then nothing has to be read at all.
"""

import secrets
from typing import Any, Final

from tickwheel.stores.etcd.records import Write
from tickwheel.stores.etcd.requests import COMPARED_MAX, Comparison, Question, are_free, ask_all, ask_key, put, stands
from tickwheel.stores.etcd.writing import Ground, Plan
from tickwheel.stores.grouping import Call, settle_group
from tickwheel.tasks.record import Task

__all__ = ["GROUP_TASKS_MAX", "Additions"]

GROUP_TASKS_MAX: Final = 500  # of all calls in a group: small ones fit into one transaction, with room to spare
TRIES: Final = 8
APART: Final = 8  # times as far apart are the numbers that are tried next
UNREAD_MAX: Final = COMPARED_MAX - 3  # tasks of which a transaction can itself demand that they are not there


class Additions:
    """Writes what groups of calls add."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._last = 0  # number that we know of

    async def add_all(self, tasks: list[Task], _bodies: list[bytes], _spell: object = None) -> bool:
        """Add tasks if none of them is there, and say whether that was so; many at once are always looked for."""
        if len(tasks) > UNREAD_MAX:
            return False
        self._last = self._last or self._read(await self._ground.members.read(self._asked()))
        for turn in range(TRIES):
            first = self._last + 1
            numbered = enumerate(tasks, first)
            writes = [Write(before=None, after=task, number=number) for number, task in numbered]
            said = await self._ground.attempt(self._numbered(first, writes, []), self._asked())
            if said is None:
                return False
            if said.succeeded:
                self._last += len(tasks)
                return True
            last = self._read(each.response_range for each in said.responses)
            if last < first:
                return False  # the numbers are free: something of it is there, or a large batch under way
            self._last = last + (secrets.randbelow(len(tasks) * APART**turn) if turn else 0)
        return False

    async def settle(self, group: list[Call], _spell: object = None) -> None:
        """Bring calls to what is there."""
        await self._ground.transact(lambda: self._plan(group))

    async def _plan(self, group: list[Call]) -> Plan[None]:
        """Bring one call after the other to what is there."""
        # Before the tasks: whoever adds one after that has told the news.
        *numbers, news = await self._ground.members.read([*self._asked(), ask_key(self._ground.keys.news)])
        there = await self._ground.load(task.id for call in group for task in call.tasks)
        changed, anew = settle_group({task_id: kept.task for task_id, kept in there.items()}, group)
        first = number = self._read(numbers) + 1
        writes = []
        for task in changed:
            mine = number if task.id in anew else there[task.id].number
            writes.append(Write(before=there.get(task.id), after=task, number=mine))
            number += task.id in anew
        self._last = 0  # until it is known what came of it
        if len(writes) <= UNREAD_MAX:
            return self._numbered(first, writes, [])
        unchanged = stands(self._ground.keys.news, news.kvs[0].mod_revision if news.kvs else 0)
        return self._numbered(first, writes, [unchanged])

    def _asked(self) -> list[Question]:
        """Ask for the last number: the one that was noted, or that of the newest task, whichever is higher."""
        keys = self._ground.keys
        return [ask_key(keys.last), ask_all(keys.arrivals, limit=1, only="keys")]

    def _read(self, answers: Any) -> int:
        noted, newest = answers
        last = int(noted.kvs[0].value) if noted.kvs else 0
        return max(last, self._ground.keys.number_of(newest.kvs[0].key) if newest.kvs else 0)

    def _numbered(self, first: int, writes: list[Write], guard: list[Comparison]) -> Plan[None]:
        """Write tasks, and note the last number, if there are new ones."""
        keys = self._ground.keys
        last = max((write.number for write in writes), default=0)
        if last < first:
            return Plan(answer=None, writes=writes, compared=guard, guarded=bool(guard))
        # Numbers count down in keys: the last one comes first.
        free = are_free(keys.arrival(last), keys.arrival(first - 1))
        noted = [put(keys.last, b"%d" % last)]
        return Plan(answer=None, writes=writes, compared=[free, *guard], given=noted, guarded=bool(guard))
