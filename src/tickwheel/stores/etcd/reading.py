"""Everything that is only read."""

from collections.abc import Collection, Sequence
from typing import Final

from tickwheel.stores.contract import Due, Lease
from tickwheel.stores.etcd.records import claims_of, due_of, run_of
from tickwheel.stores.etcd.requests import ask_all, delete, transaction
from tickwheel.stores.etcd.writing import Ground
from tickwheel.stores.paging import by_turns
from tickwheel.tasks.record import Run, Status, Task, UnreadableTask

__all__ = ["LISTED", "counts", "due", "get", "history", "orphans", "queued"]

LISTED: Final = [status for status in Status if status not in (Status.PENDING, Status.RUNNING)]
FORGOTTEN_MAX: Final = 100  # claims in one transaction


async def get(ground: Ground, ids: Sequence[str]) -> list[Task | None]:
    """Return tasks by id."""
    there = await ground.load(ids)
    return [there[each].task if each in there else None for each in ids]


async def counts(ground: Ground) -> dict[Status, int]:
    """Count the tasks of each status; those that run are all that have no other place."""
    keys = ground.keys
    asked = [keys.arrivals, keys.queues, *(keys.listed(status) for status in LISTED)]
    answers = await ground.members.read([ask_all(each, only="count") for each in asked])
    every, pending, *listed = [int(answer.count) for answer in answers]
    known = {Status.PENDING: pending, Status.RUNNING: every - pending - sum(listed)}
    known |= dict(zip(LISTED, listed, strict=True))
    return {status: known[status] for status in Status}


async def history(ground: Ground, task_id: str, limit: int) -> list[Run]:
    """Return the runs of a task, latest first."""
    if "\0" in task_id:
        return []
    [answer] = await ground.members.read([ask_all(ground.keys.history(task_id), limit=limit)])
    return [run_of(pair) for pair in answer.kvs]


async def due(
    ground: Ground, leases: Collection[Lease], until: int, beyond: tuple[int, str] | None, limit: int
) -> list[Due]:
    """List what comes due in some partitions, by run_at and id."""
    return await queued(ground, [lease.partition for lease in leases], beyond or (-1, ""), (-1, until + 1), limit)


async def queued(
    ground: Ground, partitions: Sequence[int], beyond: tuple[int, str], between: tuple[int, int], limit: int
) -> list[Due]:
    """List pending tasks by run_at and id: beyond one, and later than the first of two moments, before the second."""
    keys = ground.keys
    low, high = between

    def asked(partition: int, each: int) -> object:
        begin = keys.due(partition, max(beyond[0], 0), beyond[1]) + b"\0" if beyond[0] >= 0 else keys.queue(partition)
        begin = max(begin, keys.moment(partition, max(low + 1, 0)))
        end = keys.moment(partition, max(high, 0))
        return ask_all(keys.queue(partition), begin=begin, end=max(begin, end), limit=each)

    async def fetch(each: int) -> list[Due]:
        answers = await ground.members.read([asked(partition, each) for partition in partitions])
        found = (due_of(keys, pair) for answer in answers for pair in answer.kvs)
        return sorted(found, key=lambda each: (each.run_at, each.id))

    return await by_turns(fetch, lambda each: each.partition, len(partitions), limit) if partitions else []


async def orphans(ground: Ground, leases: Collection[Lease], limit: int) -> list[Task]:
    """List running tasks that were claimed under an earlier lease, oldest first; forget claims that are all over."""
    keys = ground.keys
    epochs = {lease.partition: lease.epoch for lease in leases}
    asked = [ask_all(keys.claimed(each, 0), end=keys.claimed(each, epoch)) for each, epoch in epochs.items()]
    groups = {pair.key: claims_of(pair) for answer in await ground.members.read(asked) for pair in answer.kvs}
    there = await ground.load(task_id for group in groups.values() for _, task_id in group)
    left = {
        task_id: kept
        for task_id, kept in there.items()
        if kept.task.status is Status.RUNNING
        and kept.epoch < epochs.get(kept.task.partition, 0)
        and not isinstance(kept.task, UnreadableTask)
    }
    over = [delete(key) for key, group in groups.items() if not any(task_id in left for _, task_id in group)]
    for first in range(0, len(over), FORGOTTEN_MAX):
        await ground.members.write_again(transaction([], over[first : first + FORGOTTEN_MAX]))
    return [kept.task for kept in sorted(left.values(), key=lambda kept: kept.number)[:limit]]
