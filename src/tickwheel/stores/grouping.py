"""Adding tasks in groups: those who add at the same time share a write.

    ann    add ----+                            +-> answer
    bob    add ----+-- one write for the two ---+-> answer
    cy             add ---- waits for the next one ...

Whatever comes while a group is being written is the next group: the busier it gets, the fewer writes a task takes, and
nobody waits for company. Almost always no id of a group is there already, and one write adds them all; otherwise it
adds none of them, and each call is settled by itself.
"""

import asyncio
from collections import ChainMap, deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from tickwheel.errors import StoreClosed, TickwheelError
from tickwheel.stores import validation
from tickwheel.stores.contract import Conflict, OnConflict
from tickwheel.stores.mutations import settle
from tickwheel.stores.wire import Spell, Wire
from tickwheel.tasks.record import Task

__all__ = ["Adder", "Call", "settle_group"]

WAITING_MAX: Final = 1024  # calls in the queue; whoever comes then waits before it
GROUP_CALLS_MAX: Final = 256
GROUP_ROWS_MAX: Final = 10_000  # of all calls in a group, unless one alone brings more


class Call:
    """Tasks that somebody adds, and what came of it."""

    __slots__ = ("answer", "bodies", "future", "on_conflict", "tasks")

    def __init__(self, tasks: Sequence[Task], on_conflict: OnConflict) -> None:
        self.tasks = tasks
        self.bodies = [validation.encode(task) for task in tasks]
        self.on_conflict = on_conflict
        self.future: asyncio.Future[list[Conflict]] = asyncio.get_running_loop().create_future()
        self.answer: list[Conflict] | TickwheelError = []


class Adder:
    """Writes what is added, in groups.

    `add_all` adds tasks if none of them is there, and says whether it did; `settle` brings calls to what is there. Both
    send a notification together with what they write, if they are given the function that words it. `wire` sends one
    afterwards for the partitions that something came into; without it, the store's own means do.
    """

    def __init__(
        self,
        add_all: Callable[[list[Task], list[bytes], Spell | None], Awaitable[bool]],
        settle: Callable[[list[Call], Spell | None], Awaitable[None]],
        wire: Wire | None,
        rows_max: int = GROUP_ROWS_MAX,
    ) -> None:
        self._add_all = add_all
        self._settle = settle
        self._wire = wire
        self._rows_max = rows_max
        self._waiting: deque[Call] = deque()
        self._room = asyncio.Semaphore(WAITING_MAX)
        self._writing: asyncio.Task[None] | None = None
        self._closed = False

    async def add(self, tasks: Sequence[Task], on_conflict: OnConflict) -> list[Conflict]:
        """Add tasks with the next group; who stops waiting before it was begun takes them back."""
        call = Call(tasks, on_conflict)
        async with self._room:
            if self._closed:
                raise StoreClosed
            self._waiting.append(call)
            if self._writing is None:
                self._writing = asyncio.create_task(self._write())
            return await call.future

    async def close(self) -> None:
        """Write what waits, and take no more."""
        self._closed = True
        if self._writing is not None:
            await self._writing

    async def _write(self) -> None:
        try:
            while group := self._take():
                await self._write_group(group)
        finally:
            self._writing = None

    def _take(self) -> list[Call]:
        group: list[Call] = []
        rows = 0
        while self._waiting and len(group) < GROUP_CALLS_MAX:
            rows += len(self._waiting[0].tasks)
            if group and rows > self._rows_max:
                break
            call = self._waiting.popleft()
            if not call.future.cancelled():
                group.append(call)
        return group

    async def _write_group(self, group: list[Call]) -> None:
        spell = None if self._wire is None else self._wire.carried()
        try:
            if not await self._add_new(group, spell):
                await self._settle(group, spell)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is their answer
            for call in group:
                call.answer = error  # type: ignore[assignment] # only here can it be any
        for call in group:
            failed = isinstance(call.answer, BaseException)
            if self._wire is not None and not failed:  # also if nobody waits for the answer any more
                self._wire.tell({task.partition for task in call.tasks}, carried=spell is not None)
            if call.future.done():
                continue
            if isinstance(call.answer, BaseException):
                call.future.set_exception(call.answer)
            else:
                call.future.set_result(call.answer)

    async def _add_new(self, group: list[Call], spell: Spell | None) -> bool:
        """Add everything, if nothing of it is there."""
        tasks = [task for call in group for task in call.tasks]
        if len({task.id for task in tasks}) < len(tasks):
            return False
        if tasks and not await self._add_all(tasks, [body for call in group for body in call.bodies], spell):
            return False
        for call in group:
            call.answer = [Conflict(task, added=True) for task in call.tasks]
        return True


def settle_group(there: dict[str, Task], group: Sequence[Call]) -> tuple[list[Task], set[str]]:
    """Bring one call after the other to what is there.

    Returns the tasks to write, in the order of arrival, and which of them begin a new life.
    """
    changed: dict[str, Task] = {}
    anew: set[str] = set()
    for call in group:
        try:
            settled = settle(ChainMap(changed, there), call.tasks, call.on_conflict)
        except TickwheelError as error:
            call.answer = error
            continue
        call.answer = settled.conflicts
        for task_id in settled.anew:  # it arrives now, whatever was to be written by that id
            changed.pop(task_id, None)
        changed |= settled.changed
        anew |= settled.anew
    return list(changed.values()), anew
