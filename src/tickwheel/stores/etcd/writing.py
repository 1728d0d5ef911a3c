"""How tasks are changed by anyone: read, decided, and written if nobody was in between; otherwise once more.

Every transaction demands that each task is as it was read, and that no large batch is under way. What does not fit into
one, and what others are in the way of again and again, is written as a large batch, which keeps them out.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from tickwheel.stores.etcd.batches import Batches
from tickwheel.stores.etcd.keys import Keys
from tickwheel.stores.etcd.members import Members
from tickwheel.stores.etcd.records import Kept, Write, kept_of
from tickwheel.stores.etcd.requests import (
    BYTES_MAX,
    COMPARED_MAX,
    GIVEN_MAX,
    Comparison,
    Operation,
    Question,
    ask_key,
    put,
    stands,
    transaction,
)

__all__ = ["Ground", "Plan"]

T = TypeVar("T")

TRIES: Final = 5  # before others are kept out


class Plan(msgspec.Struct, Generic[T], kw_only=True):
    """What to write, and what to answer then."""

    answer: T
    writes: Sequence[Write]
    compared: list[Comparison] = []
    given: list[Operation] = []
    guarded: bool = False  # that tasks are not there is seen by what is compared


class Ground:
    """What everything in a store stands on."""

    def __init__(self, keys: Keys, members: Members, partitions: int) -> None:
        self.keys = keys
        self.members = members
        self.partitions = partitions
        self.batches = Batches(keys, members)

    async def load(self, ids: Iterable[str]) -> dict[str, Kept]:
        """Read those tasks that are there."""
        wanted = dict.fromkeys(ids)
        answers = await self.members.read([ask_key(self.keys.task(each)) for each in wanted])
        found = (kept_of(self.keys, pair) for answer in answers for pair in answer.kvs)
        return {kept.task.id: kept for kept in found}

    @property
    def unhindered(self) -> Comparison:
        """Demand that no large batch is under way."""
        return stands(self.keys.batch, 0)

    async def attempt(self, plan: Plan[T], otherwise: Sequence[Question] = ()) -> Any:
        """Do what a plan says in one transaction, and return what etcd says; None if it is too much for one."""
        compared, given, hint = self._spell(plan)
        if not fits(compared, given):
            return None
        return await self.members.write(transaction(compared, [*given, hint], otherwise))

    async def transact(self, work: Callable[[], Awaitable[Plan[T]]]) -> T:
        """Do what a plan says, whole or not at all; it may be made more than once."""
        for _ in range(TRIES):
            plan = await work()
            if not plan.writes:
                return plan.answer
            said = await self.attempt(plan)
            if said is None:
                break
            if said.succeeded:
                return plan.answer
            await self.batches.settled()

        async def alone() -> tuple[T, list[Operation], Operation]:
            plan = await work()
            _, given, hint = self._spell(plan)
            return plan.answer, given, hint

        return await self.batches.write(alone)

    def _spell(self, plan: Plan[T]) -> tuple[list[Comparison], list[Operation], Operation]:
        """Write a plan out: what it demands, what it does, and what it tells."""
        as_read = [write.comparison(self.keys) for write in plan.writes if not (plan.guarded and write.before is None)]
        given = [*plan.given]
        touched: set[int] = set()
        for write in plan.writes:
            given += write.operations(self.keys)
            touched |= write.partitions
        return [self.unhindered, *plan.compared, *as_read], given, self.hint(touched)

    def hint(self, partitions: Iterable[int]) -> Operation:
        """Say where something changed."""
        return put(self.keys.news, ",".join(map(str, sorted(partitions))).encode())


def fits(compared: Sequence[Comparison], given: Sequence[Operation]) -> bool:
    """Tell whether it can be one transaction."""
    return (
        len(compared) <= COMPARED_MAX
        and len(given) < GIVEN_MAX
        and sum(operation.ByteSize() for operation in given) <= BYTES_MAX
    )
