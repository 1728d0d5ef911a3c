"""How tasks are changed by anyone: read, decided, and written if nobody was in between; otherwise once more.

Every transaction demands that each task is as it was read, and that no large batch is under way. What does not fit into
one, and what others are in the way of again and again, is written as a large batch, which keeps them out.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, Generic, TypeVar

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
        found = (kept_of(pair) for answer in answers for pair in answer.kvs)
        return {kept.task.id: kept for kept in found}

    @property
    def unhindered(self) -> Comparison:
        """Demand that no large batch is under way."""
        return stands(self.keys.batch, 0)

    async def attempt(self, plan: Plan[T]) -> int | None:
        """Do what a plan says in one transaction; return the revision, 0 if others were quicker, None if too much."""
        compared, given, hint = self._spell(plan)
        if not fits(compared, given):
            return None
        answer = await self.members.write(transaction(compared, [*given, hint]))
        return int(answer.header.revision) if answer.succeeded else 0

    async def transact(self, work: Callable[[], Awaitable[Plan[T]]]) -> T:
        """Do what a plan says, whole or not at all; it may be made more than once."""
        for _ in range(TRIES):
            plan = await work()
            if not plan.writes:
                return plan.answer
            revision = await self.attempt(plan)
            if revision:
                return plan.answer
            if revision is None:
                break
            await self.batches.settled()

        async def alone() -> tuple[T, list[Operation], Operation]:
            plan = await work()
            _, given, hint = self._spell(plan)
            return plan.answer, given, hint

        return await self.batches.write(alone)

    def _spell(self, plan: Plan[T]) -> tuple[list[Comparison], list[Operation], Operation]:
        """Write a plan out. That a task is not there need not be demanded: it would have a number, and `last` grown."""
        there = [write.comparison(self.keys) for write in plan.writes if write.before is not None]
        given = [*plan.given]
        touched: set[int] = set()
        for write in plan.writes:
            given += write.operations(self.keys)
            touched |= write.partitions
        return [self.unhindered, *plan.compared, *there], given, self.hint(touched)

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
