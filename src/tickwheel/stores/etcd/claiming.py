"""Claims and finishes: the owner's writes, in several transactions side by side.

Each transaction is whole, and demands of every task that it is as it was read, of every partition in it that it is
still owned, and that no large batch is under way. Of a call that is broken off in the middle some may be done and
others not; what was claimed by it shows as an orphan under the next lease, and what was finished is not finished again.

What this process has claimed it remembers, so that a finish need not read it again.
"""

import asyncio
import secrets
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from tickwheel.errors import StoreUnavailable
from tickwheel.stores.contract import Finish, Lease
from tickwheel.stores.etcd.groups import Groups
from tickwheel.stores.etcd.members import abreast
from tickwheel.stores.etcd.owning import held, token_of
from tickwheel.stores.etcd.records import Kept, Write, claims
from tickwheel.stores.etcd.requests import BYTES_MAX, COMPARED_MAX, Operation, delete, holds, put, transaction
from tickwheel.stores.etcd.tenure import Tenure
from tickwheel.stores.etcd.writing import Ground
from tickwheel.stores.quarantine import Quarantine
from tickwheel.tasks import transitions
from tickwheel.tasks.record import Status, Task, UnreadableTask

__all__ = ["Claims"]

FORGOTTEN_MAX: Final = 32  # groups that are deleted with other writes
TRIES: Final = 20  # while others change the same tasks: each time, somebody has got ahead
REMEMBERED_MAX: Final = 20_000  # tasks; what is claimed beyond them is read again when it is finished


class Fenced(msgspec.Struct, frozen=True):
    """A write of an owner, and what is to be done then."""

    token: bytes
    partition: int
    write: Write
    given: list[Operation]
    size: int
    new: bool  # a claim, and not a finish


class Claims:
    """What the owners in this process do to tasks."""

    def __init__(self, ground: Ground, tenure: Tenure) -> None:
        self._ground = ground
        self._tenure = tenure
        self._claimed: dict[str, Kept] = {}
        self._groups = Groups()
        self._quarantine = Quarantine()
        self._claiming = asyncio.Lock()  # who asks first, claims first

    async def claim(self, leases: Sequence[Lease], ids: Sequence[str], until: int) -> list[Task]:
        """Make pending tasks running, but for those that cannot be read."""
        async with self._claiming:
            return await self._claim(leases, ids, until)

    async def _claim(self, leases: Sequence[Lease], ids: Sequence[str], until: int) -> list[Task]:
        left = list(dict.fromkeys(ids)) if leases else []
        claimed: dict[str, Task] = {}
        for _ in range(TRIES):
            if not left:
                return [claimed[each] for each in dict.fromkeys(ids) if each in claimed]
            good, there = await asyncio.gather(held(self._ground, self._tenure, leases), self._ground.load(left))
            owned = {lease.partition: lease for lease in good}
            self._quarantine.report(kept.task for kept in there.values() if isinstance(kept.task, UnreadableTask))
            wanted = [
                self._fenced(owned[kept.task.partition], kept, transitions.claim(kept.task, until))
                for kept in there.values()
                if transitions.may_claim(kept.task, until) and kept.task.partition in owned
            ]
            done, left = await self._write(wanted)
            for kept in done:
                claimed[kept.task.id] = kept.task
                self._remember(kept)
        raise self._beaten()

    async def finish(self, finishes: Sequence[Finish], now: int) -> list[bool]:
        """Put finished tasks back."""
        await self._tenure.clear()
        answers = [False] * len(finishes)
        left: dict[str, list[int]] = {}
        for number, each in enumerate(finishes):
            left.setdefault(each.task.id, []).append(number)
        there = {task_id: self._claimed.pop(task_id) for task_id in left if task_id in self._claimed}
        there |= await self._ground.load(left.keys() - there.keys())
        good: set[bytes] | None = None  # until it turns out otherwise, every lease is
        for _ in range(TRIES):
            wanted, numbers = [], {}
            for task_id, places in left.items():
                chosen = self._finishable(finishes, places, there.get(task_id), good)
                if chosen is not None:
                    each, kept = finishes[chosen], there[task_id]
                    after = transitions.finish(kept.task, each.task, now, given_back=each.given_back)
                    wanted.append(self._fenced(each.lease, kept, after, each))
                    numbers[task_id] = chosen
                elif task_id not in there or there[task_id].task.status is not Status.RUNNING:
                    self._groups.end(task_id)  # by an earlier call, whose answer was lost
            done, again = await self._write(wanted)
            for kept in done:
                answers[numbers[kept.task.id]] = True
                self._groups.end(kept.task.id)
            if not again:
                return answers
            left = {task_id: left[task_id] for task_id in again}
            owned = [finishes[number].lease for places in left.values() for number in places]
            holding, there = await asyncio.gather(held(self._ground, self._tenure, owned), self._ground.load(left))
            good = {token_of(lease) for lease in holding}
        raise self._beaten()

    @staticmethod
    def _finishable(
        finishes: Sequence[Finish], places: Sequence[int], kept: Kept | None, good: set[bytes] | None
    ) -> int | None:
        """Return which of the finishes of one task is to be taken; there is one at most."""
        for number in places:
            each = finishes[number]
            if kept is None or not transitions.may_finish(kept.task, each.task, each.lease.partition):
                continue
            if good is None or token_of(each.lease) in good:
                return number
        return None

    def _fenced(self, lease: Lease, kept: Kept, after: Task, finish: Finish | None = None) -> Fenced:
        new = finish is None
        write = Write(
            before=kept,
            after=after,
            number=kept.number,
            epoch=lease.epoch if new else kept.epoch,
            run=None if finish is None else finish.run,
        )
        given = write.operations(self._ground.keys)
        size = sum(operation.ByteSize() for operation in given)
        return Fenced(token_of(lease), lease.partition, write, given, size, new)

    async def _write(self, wanted: Sequence[Fenced]) -> tuple[list[Kept], list[str]]:
        """Write what can be written; return how it is now, and the ids of what somebody was in the way of."""
        parts = list(_parts(sorted(wanted, key=lambda each: each.partition)))
        answers = await abreast(self._write_part, parts)
        done: list[Kept] = []
        left: list[str] = []
        for part, revision in zip(parts, answers, strict=True):
            for each in part:
                after = each.write.after
                assert after is not None
                if revision:
                    done.append(Kept(after, each.write.number, each.write.epoch, revision))
                else:
                    left.append(after.id)
        if left:
            await self._ground.batches.settled()
        return done, left

    async def _write_part(self, part: Sequence[Fenced]) -> int:
        """Write all of it or nothing; return the revision, or 0."""
        keys = self._ground.keys
        owners = dict.fromkeys((each.partition, each.token) for each in part)
        compared = [
            self._ground.unhindered,
            *(holds(keys.owner(partition), token) for partition, token in owners),
            *(each.write.comparison(keys) for each in part),
        ]
        given = [operation for each in part for operation in each.given]
        groups = self._grouped(part)
        over = self._groups.take(FORGOTTEN_MAX)
        given += [put(key, claims(kept)) for key, kept in groups.items()]
        given += [delete(key) for key in over]
        revision = 0
        try:
            answer = await self._ground.members.write(transaction(compared, given))
            revision = int(answer.header.revision) if answer.succeeded else 0
        finally:
            if not revision:
                self._groups.put_back(over)
        for key, kept in groups.items() if revision else ():
            self._groups.begin(key, [each.task.id for each in kept])
        return revision

    def _grouped(self, part: Sequence[Fenced]) -> dict[bytes, list[Kept]]:
        """Return what is claimed of each partition, and where that is to be written."""
        claimed: dict[tuple[int, int], list[Kept]] = {}
        for each in part:
            if each.new and each.write.before is not None:
                claimed.setdefault((each.partition, each.write.epoch), []).append(each.write.before)
        return {self._ground.keys.claimed(*which, secrets.token_hex(4)): kept for which, kept in claimed.items()}

    def _remember(self, kept: Kept) -> None:
        while len(self._claimed) >= REMEMBERED_MAX:
            oldest = next(iter(self._claimed))
            del self._claimed[oldest]
            self._groups.forget(oldest)
        self._claimed[kept.task.id] = kept

    def _beaten(self) -> StoreUnavailable:
        return StoreUnavailable(f"{self._ground.members.address.shown}: others change the same tasks all the time")


def _parts(wanted: Sequence[Fenced]) -> Iterator[list[Fenced]]:
    """Divide writes into transactions: so many comparisons, and so many bytes."""
    part: list[Fenced] = []
    owners: set[tuple[int, bytes]] = set()
    size = 0
    for each in wanted:
        owners.add((each.partition, each.token))
        size += each.size
        if part and (1 + len(owners) + len(part) + 1 > COMPARED_MAX or size > BYTES_MAX):
            yield part
            part, owners, size = [], {(each.partition, each.token)}, each.size
        part.append(each)
    if part:
        yield part
