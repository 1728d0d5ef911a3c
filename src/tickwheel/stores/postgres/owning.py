"""What the owner of partitions writes: every statement first locks their rows, and sees that the leases still hold.

    claim      lease rows FOR SHARE  ->  tasks that are pending and due  ->  running, one attempt more
    finish     lease rows FOR SHARE  ->  tasks as they were claimed      ->  as they are to be

A new owner has to write the lease's row, and cannot while a statement of the old one is under way; afterwards the old
one finds another epoch there. Each is one statement, so that a process that is suspended leaves nothing locked.
"""

import secrets
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from tickwheel.stores import validation
from tickwheel.stores.contract import Finish, Lease
from tickwheel.stores.postgres.changing import count, loaded, moved, place
from tickwheel.stores.postgres.rows import brief, columns_of, encode_run, leases_of, lines, task_of, written
from tickwheel.stores.postgres.sessions import Connection, Sessions
from tickwheel.stores.postgres.statements import SQL
from tickwheel.tasks import transitions
from tickwheel.tasks.record import Task, UnreadableTask

__all__ = ["acquire", "checkpoint", "claim", "finish", "release", "renew"]

PART: Final = 3  # the column of the partition
RESERVE_MS: Final = 60_000  # how far ahead claims are made possible at a time: one write a minute for it


async def acquire(
    sessions: Sessions, partitions: Sequence[int], node: str, ttl_ms: int, now: int | None
) -> list[Lease]:
    """Take leases that nobody holds."""
    wanted = list(dict.fromkeys(partitions))
    nonces = [secrets.token_hex(8) for _ in wanted]
    rows = await sessions.fetch("acquire", wanted, nonces, node, ttl_ms, now)
    got = {
        part: Lease(partition=part, node=node, epoch=epoch, nonce=nonce, expires_at=expires_at, checkpoint=checkpoint)
        for part, epoch, nonce, expires_at, checkpoint in rows
    }
    return [got[part] for part in wanted if part in got]


async def renew(sessions: Sessions, leases: Sequence[Lease], ttl_ms: int, now: int | None) -> list[Lease]:
    """Hold on to leases."""
    rows = await sessions.fetch("renew", *leases_of(leases), ttl_ms, now)
    ends = {part: (expires_at, checkpoint) for part, expires_at, checkpoint in rows}
    return [
        replace(lease, expires_at=ends[part][0], checkpoint=ends[part][1])
        for part, lease in {lease.partition: lease for lease in leases}.items()
        if part in ends
    ]


async def release(sessions: Sessions, leases: Sequence[Lease], now: int | None) -> set[int]:
    """Give leases back; return the partitions that are free now."""
    return {part for (part,) in await sessions.fetch("release", *leases_of(leases), now)}


async def checkpoint(sessions: Sessions, leases: Sequence[Lease], moment: int, now: int | None) -> None:
    """Note how far owned partitions are."""
    await sessions.fetch("checkpoint", *leases_of(leases), moment, now)


async def claim(
    sessions: Sessions, leases: Sequence[Lease], ids: Sequence[str], until: int, now: int | None, partitions: int
) -> tuple[list[Task], list[UnreadableTask]]:
    """Make pending tasks running; return those, and what could not be read of what was wanted."""
    epochs = [0] * partitions
    for lease in leases:
        if 0 <= lease.partition < partitions:
            epochs[lease.partition] = max(epochs[lease.partition], lease.epoch)
    wanted = [each for each in dict.fromkeys(ids) if validation.sayable(each)]
    rows = await sessions.fetch("claim", *leases_of(leases), now, sorted(wanted), epochs, until)
    if any(unreserved is not None for unreserved, *_ in rows):
        await sessions.fetch("reserve", *leases_of(leases), until + RESERVE_MS, now)
        rows += await sessions.fetch("claim", *leases_of(leases), now, sorted(wanted), epochs, until)
    tasks = [task_of(*row) for unreserved, *row in rows if unreserved is None]
    passed = [task for task in tasks if isinstance(task, UnreadableTask)]
    if passed:
        await sessions.fetch("unclaim", [task.id for task in passed], until)
    claimed = {task.id: task for task in tasks if not isinstance(task, UnreadableTask)}
    return [claimed[each] for each in wanted if each in claimed], passed


async def finish(sessions: Sessions, finishes: Sequence[Finish], now: int, given: int | None) -> list[bool]:
    """Put finished tasks back.

    First those that are as they were claimed, which are almost always all. What has changed since is looked at one by
    one, in a transaction of its own: somebody asked it to stop, or it is not ours any more.
    """
    after = [transitions.finish(each.task, each.task, now) for each in finishes]
    columns = list(columns_of(after, [validation.encode(task) for task in after]))
    answers = [False] * len(finishes)
    at_once = not any(transitions.depends_on_stored(each.task) for each in finishes)
    if at_once and len({task.id for task in after}) == len(after):
        leases = {_token(each): each.lease for each in finishes}
        numbers = {token: number for number, token in enumerate(leases, 1)}
        columns[PART] = written([each.lease.partition for each in finishes])
        columns.append(written([numbers[_token(each)] for each in finishes]))
        for (number,) in await sessions.fetch("finish", *leases_of(leases.values()), given, *columns, *_runs(finishes)):
            answers[number - 1] = True
    left = [number for number, done in enumerate(answers) if not done]
    if left:
        rest = [finishes[number] for number in left]
        done = await sessions.transact(lambda connection: _finish_each(connection, rest, given))
        for number, accepted in zip(left, done, strict=True):
            answers[number] = accepted
    return answers


def _token(finish: Finish) -> tuple[int, int, str]:
    return finish.lease.partition, finish.lease.epoch, finish.lease.nonce


def _runs(finishes: Iterable[Finish]) -> tuple[list[int], list[int], str]:
    """Return the runs to remember as the columns attempt, finished_at, body."""
    runs = [each.run for each in finishes]
    return (
        brief([0 if run is None else run.attempt for run in runs]),
        brief([0 if run is None else run.finished_at for run in runs]),
        lines(map(encode_run, runs)),
    )


async def _finish_each(connection: Connection, finishes: Sequence[Finish], given: int | None) -> list[bool]:
    now = await connection.fetchval(SQL["time"]) if given is None else given
    leases = {_token(each): each.lease for each in finishes}
    tokens = list(leases)
    held = {tokens[number - 1] for (number,) in await connection.fetch(SQL["hold"], *leases_of(leases.values()), given)}
    there = await loaded(connection, [each.task.id for each in finishes], locked=True)
    changed: dict[str, Task] = {}
    remembered: list[Finish] = []
    answers = []
    for each in finishes:
        task = changed.get(each.task.id) or there.get(each.task.id)
        ours = (
            task is not None and _token(each) in held and transitions.may_finish(task, each.task, each.lease.partition)
        )
        answers.append(ours)
        if ours and task is not None:
            changed[task.id] = transitions.finish(task, each.task, now, given_back=each.given_back)
            if each.run is not None:
                remembered.append(each)
    await place(connection, list(changed.values()))
    if remembered:
        await connection.fetch(SQL["add_runs"], [each.task.id for each in remembered], *_runs(remembered))
    await count(connection, moved(there, list(changed.values())))
    return answers
