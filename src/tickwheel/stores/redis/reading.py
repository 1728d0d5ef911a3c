"""Everything that is only read."""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

import msgspec

from tickwheel.stores import validation
from tickwheel.stores.contract import Due, Lease
from tickwheel.stores.paging import by_turns
from tickwheel.stores.redis.entries import STATUSES, Entry, Token, due_of, leases_of, rows_of, run_of
from tickwheel.stores.redis.keys import home_of
from tickwheel.stores.redis.shards import Shards
from tickwheel.tasks.record import Run, Status, Task, UnreadableTask

__all__ = ["There", "counts", "due", "get", "history", "in_order", "in_shards", "leases", "load", "load_at", "orphans"]

FIRST: Final = (-1, "")

Row = tuple[int, bytes, int]  # when, id, partition


class There(msgspec.Struct, frozen=True):
    """What is there of some ids: the tasks, and where those are said to be that are not where ids belong."""

    entries: dict[str, Entry]
    places: dict[str, int]

    @property
    def tasks(self) -> dict[str, Task]:
        """The tasks alone."""
        return {task_id: entry.task for task_id, entry in self.entries.items()}


async def load(shards: Shards, ids: Iterable[str]) -> There:
    """Read tasks wherever they are: almost always in the partition of their id's hash."""
    homes = {each: home_of(each, shards.partitions) for each in dict.fromkeys(ids) if validation.sayable(each)}
    entries, places = await load_at(shards, homes)
    if places:
        elsewhere, _ = await load_at(shards, places)
        entries |= elsewhere
    return There(entries, places)


async def load_at(shards: Shards, parts: Mapping[str, int]) -> tuple[dict[str, Entry], dict[str, int]]:
    """Read tasks in partitions that are known; return them, and where others are said to be."""
    by_part: dict[int, list[str]] = {}
    for each, part in parts.items():
        by_part.setdefault(part, []).append(each)
    asked = {
        shard: [(part, by_part[part]) for part in there] for shard, there in shards.gathered(by_part.keys()).items()
    }
    entries: dict[str, Entry] = {}
    places: dict[str, int] = {}
    for shard, answer in (await shards.ask("load", asked)).items():
        ids = (each for _, group in asked[shard] for each in group)
        for each, (value, mark, place) in zip(ids, rows_of(answer, 3), strict=True):
            if value is not None:
                entries[each] = Entry.of(each, parts[each], value, mark)
            elif place is not None:
                places[each] = int(place)
    return entries, places


async def get(shards: Shards, ids: Sequence[str]) -> list[Task | None]:
    """Return tasks by id."""
    found = (await load(shards, ids)).tasks
    return [found.get(each) for each in ids]


async def counts(shards: Shards) -> dict[Status, int]:
    """Return how many tasks there are of each status."""
    counted = (await shards.ask("counts", shards.all())).values()
    return {status: sum(each[number] for each in counted) for number, status in enumerate(STATUSES)}


async def history(shards: Shards, task_id: str, limit: int) -> list[Run]:
    """Return the runs of a task, latest first."""
    there = await load(shards, [task_id])
    if task_id not in there.entries:
        return []
    part = there.entries[task_id].task.partition
    runs = await shards.ask_one("history", shards.servers.shard_of(part), (part, task_id, limit))
    return [run_of(body) for body in runs]


async def leases(shards: Shards) -> list[Lease]:
    """List the leases that are held now."""
    answers = await shards.ask("leases", shards.all())
    rows = sorted(row for answer in answers.values() for row in answer)
    return [
        Lease(partition=part, node=node.decode(), epoch=epoch, nonce="", expires_at=ends_at, checkpoint=checkpoint)
        for part, node, epoch, ends_at, checkpoint in rows
    ]


async def due(
    shards: Shards, owned: Sequence[Lease], until: int, after: tuple[int, str] | None, limit: int
) -> list[Due]:
    """List what comes due in owned partitions, by run_at and id."""
    tokens = leases_of(owned, shards.partitions)
    asked = in_shards(shards, tokens)
    moment, last_id = after or FIRST

    async def fetch(each: int) -> list[Row]:
        messages = {shard: (there, until, moment, last_id, each) for shard, there in asked.items()}
        answers = await shards.ask("due", messages)
        found = (rows_of(answer, 3) for answer in answers.values())
        return sorted((int(run_at), task_id, part) for rows in found for run_at, task_id, part in rows)

    if not tokens:
        return []
    rows: list[Row] = await by_turns(fetch, itemgetter(2), len(tokens), limit)
    return await _with_heads(shards, rows)


async def _with_heads(shards: Shards, rows: Sequence[Row]) -> list[Due]:
    """Read what else a wheel needs to know; what is gone meanwhile is left out."""
    by_part: dict[int, list[bytes]] = {}
    for _, task_id, part in rows:
        by_part.setdefault(part, []).append(task_id)
    asked = {
        shard: [(part, [each.decode() for each in by_part[part]]) for part in there]
        for shard, there in shards.gathered(by_part).items()
    }
    headers: dict[tuple[int, str], bytes | None] = {}
    for shard, answer in (await shards.ask("heads", asked)).items():
        places = ((part, each) for part, ids in asked[shard] for each in ids)
        headers |= dict(zip(places, answer, strict=True))
    known = ((run_at, task_id.decode(), part) for run_at, task_id, part in rows)
    found = (due_of(*row, header) for row in known if (header := headers[row[2], row[1]]) is not None)
    return [due for due in found if due is not None]


def in_shards(shards: Shards, tokens: Iterable[Token]) -> dict[int, list[Token]]:
    """Return leases by shard."""
    asked: dict[int, list[Token]] = {}
    for token in tokens:
        asked.setdefault(shards.servers.shard_of(token[0]), []).append(token)
    return asked


async def orphans(shards: Shards, owned: Sequence[Lease], limit: int) -> tuple[list[Task], list[UnreadableTask]]:
    """List running tasks that were claimed under an earlier lease, oldest first; and what could not be read of them."""
    asked = in_shards(shards, leases_of(owned, shards.partitions))
    answers = await shards.ask("list_running", asked)
    left = sorted((int(row[0]), row[1], row[2]) for answer in answers.values() for row in rows_of(answer, 3))
    found: list[Task] = []
    passed: list[UnreadableTask] = []
    for first in range(0, len(left), limit):
        for task in await in_order(shards, [(part, task_id) for _, part, task_id in left[first : first + limit]]):
            if isinstance(task, UnreadableTask):
                passed.append(task)
            elif task is not None:
                found.append(task)
        if len(found) >= limit:
            break
    return found[:limit], passed


async def in_order(shards: Shards, places: Sequence[tuple[int, bytes]]) -> list[Task | None]:
    """Read tasks whose partitions are known; None for each that is gone."""
    parts: dict[str, Any] = {task_id.decode(): part for part, task_id in places}
    entries, _ = await load_at(shards, parts)
    return [entries[each].task if each in entries else None for each in parts]
