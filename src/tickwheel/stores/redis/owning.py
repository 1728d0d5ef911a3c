"""What the owner of partitions writes: every script first sees that the leases still hold.

    claim      a mark that it runs, by whom and since when; the task itself stays as it was written
    finish     tasks as they were claimed, as they are to be

A script runs alone on its server. An owner that was paused beyond its lease finds another epoch or nonce there.
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from tickwheel.stores import validation
from tickwheel.stores.contract import Finish, Lease
from tickwheel.stores.redis.entries import NUMBERS, Entry, Token, encode_run, leases_of, moment_of, prefix_of, rows_of
from tickwheel.stores.redis.keys import home_of
from tickwheel.stores.redis.reading import in_shards, load, load_at
from tickwheel.stores.redis.shards import Shards
from tickwheel.tasks import transitions
from tickwheel.tasks.record import ENDED, Task, UnreadableTask

__all__ = ["acquire", "checkpoint", "claim", "finish", "release", "renew"]

TRIES: Final = 5  # to finish what others change: they may do so once


async def acquire(shards: Shards, partitions: Sequence[int], node: str, ttl_ms: int) -> list[Lease]:
    """Take leases that nobody holds."""
    wanted = [part for part in dict.fromkeys(partitions) if 0 <= part < shards.partitions]
    messages = {
        shard: (parts, [secrets.token_hex(8) for _ in parts], node, ttl_ms)
        for shard, parts in shards.gathered(wanted).items()
    }
    got = {
        part: Lease(
            partition=part, node=node, epoch=epoch, nonce=nonce.decode(), expires_at=ends_at, checkpoint=checkpoint
        )
        for answer in (await shards.ask("acquire", messages, lasting=True)).values()
        for part, epoch, nonce, ends_at, checkpoint in answer
    }
    return [got[part] for part in wanted if part in got]


async def renew(shards: Shards, leases: Sequence[Lease], ttl_ms: int) -> list[Lease]:
    """Hold on to leases."""
    asked = in_shards(shards, leases_of(leases, shards.partitions))
    answers = await shards.ask("renew", {shard: (tokens, ttl_ms) for shard, tokens in asked.items()})
    held = {tuple(row[:3]): row[3:] for answer in answers.values() for row in answer}
    ours = {(lease.partition, lease.epoch, lease.nonce.encode()): lease for lease in leases}
    return [
        replace(lease, expires_at=held[token][0], checkpoint=held[token][1])
        for token, lease in ours.items()
        if token in held
    ]


async def release(shards: Shards, leases: Sequence[Lease]) -> set[int]:
    """Give leases back; return the partitions that are free now."""
    answers = await shards.ask("release", in_shards(shards, leases_of(leases, shards.partitions)))
    return {part for answer in answers.values() for part in answer}


async def checkpoint(shards: Shards, leases: Sequence[Lease], moment: int) -> None:
    """Note how far owned partitions are."""
    asked = in_shards(shards, leases_of(leases, shards.partitions))
    await shards.ask("checkpoint", {shard: (tokens, moment) for shard, tokens in asked.items()})


async def claim(
    shards: Shards, leases: Sequence[Lease], ids: Sequence[str], until: int
) -> tuple[list[Task], list[UnreadableTask]]:
    """Make pending tasks running: where their ids belong, and those that are not there wherever else they are.

    What cannot be read of them is returned besides, and is as it was.
    """
    wanted = [each for each in dict.fromkeys(ids) if validation.sayable(each)]
    claimed = await _claim(shards, leases, {each: home_of(each, shards.partitions) for each in wanted}, until)
    if missing := [each for each in wanted if each not in claimed]:
        places = (await load(shards, missing)).places
        claimed |= await _claim(shards, leases, places, until) if places else {}
    tasks = [claimed[each] for each in wanted if each in claimed]
    passed = [task for task in tasks if isinstance(task, UnreadableTask)]
    await _unclaim(shards, passed, until)
    return [task for task in tasks if not isinstance(task, UnreadableTask)], passed


async def _unclaim(shards: Shards, passed: Sequence[UnreadableTask], until: int) -> None:
    by_part: dict[int, list[tuple[str, str]]] = {}
    for task in passed:
        by_part.setdefault(task.partition, []).append((task.id, str(min(max(task.run_at, 0), until))))
    messages = {
        shard: ([(part, by_part[part]) for part in parts], until) for shard, parts in shards.gathered(by_part).items()
    }
    await shards.ask("unclaim", messages, lasting=True)


async def _claim(shards: Shards, leases: Sequence[Lease], parts: dict[str, int], until: int) -> dict[str, Task]:
    by_part: dict[int, list[str]] = {}
    for each, part in parts.items():
        by_part.setdefault(part, []).append(each)
    tokens = [token for token in leases_of(leases, shards.partitions) if token[0] in by_part]
    messages = {
        shard: (owned, [(part, by_part.pop(part)) for part, _, _ in owned if part in by_part], until)
        for shard, owned in in_shards(shards, tokens).items()
    }
    answers = await shards.ask("claim", messages, lasting=True)
    mark = f"0 {until}".encode()
    return {
        each: Entry.of(each, parts[each], value, mark).task
        for answer in answers.values()
        for each, value in ((task_id.decode(), value) for task_id, value in rows_of(answer, 2))
    }


async def finish(shards: Shards, finishes: Sequence[Finish], time: Callable[[], Awaitable[int]]) -> list[bool]:
    """Put finished tasks back.

    First those that are as they were claimed, which are almost always all. What has changed since is read: somebody
    asked it to stop, or it is not ours any more. The time is asked for where one may end without having it.
    """
    now = await time() if any(map(_is_timeless, finishes)) else 0
    rows: dict[int, tuple[Any, ...]] = {}
    for number, each in enumerate(finishes):
        if transitions.depends_on_stored(each.task):
            continue
        before = replace(each.task, version=each.task.version - 1, attempt=each.task.attempt - 1)
        rows[number] = _row(each, prefix_of(before), transitions.finish(each.task, each.task, now))
    done = await _finish(shards, finishes, rows) if rows else set()
    for _ in range(TRIES):
        left = {number: each for number, each in enumerate(finishes) if number not in done}
        if not left:
            break
        rows = await _changed_since(shards, left, await time())
        if not rows:
            break
        done |= await _finish(shards, finishes, rows)
    return [number in done for number in range(len(finishes))]


def _is_timeless(wanted: Finish) -> bool:
    """Tell whether a task ends without saying when."""
    return wanted.task.finished_at is None and wanted.task.status in ENDED


def _row(wanted: Finish, before: str, after: Task) -> tuple[Any, ...]:
    run = wanted.run
    return (
        after.id,
        before,
        prefix_of(after),
        validation.encode(after).decode(),
        NUMBERS[after.listed_status],
        str(moment_of(after)),
        "" if run is None else str(run.attempt),
        "" if run is None else str(run.finished_at),
        encode_run(run),
    )


async def _changed_since(shards: Shards, left: dict[int, Finish], now: int) -> dict[int, tuple[Any, ...]]:
    """Return what is to become of tasks that somebody changed while they ran."""
    parts = {each.task.id: each.lease.partition for each in left.values()}
    known = {task_id: part for task_id, part in parts.items() if 0 <= part < shards.partitions}
    there, _ = await load_at(shards, known)
    rows: dict[int, tuple[Any, ...]] = {}
    taken: set[str] = set()
    for number, each in left.items():
        entry = there.get(each.task.id)
        if (
            entry is not None
            and each.task.id not in taken
            and transitions.may_finish(entry.task, each.task, each.lease.partition)
        ):
            rows[number] = _row(
                each, entry.prefix, transitions.finish(entry.task, each.task, now, given_back=each.given_back)
            )
            taken.add(each.task.id)
    return rows


async def _finish(shards: Shards, finishes: Sequence[Finish], rows: dict[int, tuple[Any, ...]]) -> set[int]:
    """Put tasks back; return the numbers of those that were."""
    by_lease: dict[Token, list[int]] = {}
    for number in rows:
        lease = finishes[number].lease
        by_lease.setdefault((lease.partition, lease.epoch, lease.nonce), []).append(number)
    asked = in_shards(shards, [token for token in by_lease if 0 <= token[0] < shards.partitions])
    messages = {
        shard: [(token, [rows[number] for number in by_lease[token]]) for token in tokens]
        for shard, tokens in asked.items()
    }
    done: set[int] = set()
    for shard, answer in (await shards.ask("finish", messages, lasting=True)).items():
        numbers = [number for token in asked[shard] for number in by_lease[token]]
        done |= {number for number, accepted in zip(numbers, answer, strict=True) if accepted}
    return done
