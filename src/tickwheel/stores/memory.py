"""The store that forgets: everything in this process, gone when it ends. The reference for all others.

Nothing awaits in the middle of a call, so that every call is a transaction by itself: it first finds out what is to
change, where it may still raise, and then changes it.

>>> import asyncio
>>> store = MemoryStore(now_ms=lambda: 1000)
>>> task = Task(id="tea", handler="kettle.whistle", run_at=4000, occurrence_at=4000, created_at=1000)
>>> [conflict.added for conflict in asyncio.run(store.add([task]))]
[True]
>>> [task.id for task in asyncio.run(store.cancel(["tea"], "it is coffee today"))]
['tea']
"""

import secrets
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from heapq import merge
from itertools import islice

from msgspec.structs import replace

from tickwheel.errors import StoreClosed, UnknownTask
from tickwheel.stores import bounds, listing, steps
from tickwheel.stores.contract import COUNT_MAX, Conflict, Due, Filter, Finish, Lease, OnConflict, Page, Total
from tickwheel.stores.hints import Hints
from tickwheel.tasks.record import ENDED, Run, Status, Task, UnreadableTask

__all__ = ["MemoryStore"]

Key = tuple[int, str]  # run_at and id: the order in which tasks come due


class MemoryStore:
    """A store in plain dictionaries, for one event loop."""

    def __init__(self, *, now_ms: Callable[[], int], partitions: int = 64) -> None:
        self.partitions = partitions
        self._now_ms = now_ms
        self._tasks: dict[str, Task] = {}
        self._serials: dict[str, int] = {}
        self._ids: dict[int, str] = {}  # by serial, and so in the order of arrival
        self._last_serial = 0
        self._due: list[list[Key]] = [[] for _ in range(partitions)]  # pending tasks, sorted
        self._running: dict[str, int] = {}  # the epoch under which each was claimed
        self._runs: dict[str, dict[int, Run]] = {}  # by task and attempt
        self._nodes: dict[str, int] = {}  # until when each is known to live
        self._leases: dict[int, Lease] = {}
        self._epochs = [0] * partitions
        self._checkpoints = [0] * partitions
        self._hints = Hints()
        self._closed = False

    async def close(self) -> None:
        """Forget everything."""
        self._closed = True
        self._hints.close()

    async def time(self) -> int:
        """Read the clock it was given."""
        return self._open()

    def _open(self) -> int:
        if self._closed:
            raise StoreClosed
        return self._now_ms()

    # -- anyone

    async def add(self, tasks: Sequence[Task], on_conflict: OnConflict = "reject") -> list[Conflict]:
        """Add tasks, all of them or none."""
        self._open()
        bounds.check_on_conflict(on_conflict)
        bounds.check_new(tasks, self.partitions)
        for task in tasks:
            bounds.encode(task)
        settled = steps.settle(self._tasks, tasks, on_conflict)
        for task_id in settled.changed:
            if task_id in settled.anew:
                self._number(task_id)
        self._change(settled.changed.values())
        return settled.conflicts

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        """Return tasks by id."""
        self._open()
        bounds.check_batch(ids)
        return [self._tasks.get(task_id) for task_id in ids]

    async def query(self, wanted: Filter, cursor: str | None = None, limit: int = 100) -> Page:
        """List tasks, newest first unless told."""
        self._open()
        bounds.check_limit(limit)
        listing.check_filter(wanted)
        found = list(islice(self._listed(wanted, listing.place_of(cursor, wanted.order)), limit + 1))
        more = listing.cursor_of(found[limit - 1][0], wanted.order) if len(found) > limit else None
        return Page(tasks=[task for _, task in found[:limit]], cursor=more)

    def _listed(self, wanted: Filter, after: listing.Place) -> Iterator[tuple[listing.Place, Task]]:
        """Walk through what fits, in order, beyond a place."""
        if wanted.order == "due":
            placed = (((run_at, task_id), self._tasks[task_id]) for run_at, task_id in merge(*self._due))
        else:
            serials = reversed(self._ids) if wanted.order == "newest" else iter(self._ids)
            placed = (((serial, ""), self._tasks[self._ids[serial]]) for serial in serials)
        fitting = (each for each in placed if listing.fits(each[1], wanted))
        if wanted.order == "newest":
            return (each for each in fitting if each[0] < after)
        return (each for each in fitting if each[0] > after)

    async def count(self, wanted: Filter, most: int = COUNT_MAX) -> Total:
        """Count the tasks of a filter, all of them."""
        self._open()
        bounds.check_limit(most, bounds.COUNT_ROWS_MAX)
        listing.check_filter(wanted)
        return Total(sum(listing.fits(task, wanted) for task in self._tasks.values()), exact=True)

    async def counts(self) -> dict[Status, int]:
        """Count the tasks of each status."""
        self._open()
        counted = Counter(task.status for task in self._tasks.values())
        return {status: counted[status] for status in Status}

    async def history(self, task_id: str, limit: int = 100) -> list[Run]:
        """Return the runs of a task, latest first."""
        self._open()
        bounds.check_limit(limit)
        runs = self._runs.get(task_id, {})
        return [runs[attempt] for attempt in sorted(runs, reverse=True)[:limit]]

    async def cancel(self, ids: Sequence[str], reason: str) -> list[Task | None]:
        """Cancel tasks, or ask them to stop."""
        now = self._open()
        return self._each(ids, lambda task: steps.cancel(task, reason, now))

    async def reschedule(self, task_id: str, run_at: int) -> Task:
        """Move a task."""
        self._open()
        bounds.check_moment(run_at)
        task = self._tasks.get(task_id)
        if task is None:
            raise UnknownTask(task_id)
        moved = steps.move(task, run_at)
        self._change([moved])
        return moved

    async def amend(self, tasks: Sequence[Task]) -> list[Task]:
        """Put tasks in the place of those they were made from."""
        self._open()
        bounds.check_amended(tasks)
        amended: dict[str, Task] = {}
        answers = []
        for task in tasks:
            there = amended.get(task.id) or self._tasks.get(task.id)
            if there is None:
                raise UnknownTask(task.id)
            amended[task.id] = steps.amend(there, task)
            bounds.encode(amended[task.id])
            answers.append(amended[task.id])
        self._change(amended.values())
        return answers

    async def remove(self, ids: Sequence[str]) -> list[Task | None]:
        """Delete tasks that do not run."""
        self._open()
        bounds.check_batch(ids)
        answers = [self._tasks.get(task_id) for task_id in ids]
        gone = {task.id: task for task in answers if task is not None and task.status is not Status.RUNNING}
        for task in gone.values():
            if task.status is Status.PENDING:
                keys = self._due[task.partition]
                del keys[bisect_left(keys, (task.run_at, task.id))]
            self._forget(task.id)
        self._hints.tell({task.partition for task in gone.values()})
        return answers

    async def pause(self, ids: Sequence[str]) -> list[Task | None]:
        """Keep pending tasks from coming due."""
        self._open()
        return self._each(ids, steps.pause)

    async def resume(self, ids: Sequence[str]) -> list[Task | None]:
        """Let paused tasks come due again."""
        self._open()
        return self._each(ids, steps.resume)

    async def revive(self, ids: Sequence[str], run_at: int) -> list[Task | None]:
        """Begin tasks that are over once more."""
        self._open()
        bounds.check_moment(run_at)
        return self._each(ids, lambda task: steps.revive(task, run_at))

    async def purge(self, before: int) -> int:
        """Delete what was over before a moment."""
        self._open()
        past = [task for task in self._tasks.values() if task.status in ENDED and (task.finished_at or 0) < before]
        for task in past:
            self._forget(task.id)
        for task_id, runs in list(self._runs.items()):
            left = {attempt: run for attempt, run in runs.items() if run.finished_at >= before}
            if left:
                self._runs[task_id] = left
            else:
                del self._runs[task_id]
        return len(past)

    # -- nodes

    async def heartbeat(self, node: str, ttl_ms: int) -> list[str]:
        """Say that a node lives."""
        now = self._open()
        self._nodes[node] = now + ttl_ms
        self._nodes = {each: until for each, until in self._nodes.items() if now < until}
        return sorted(self._nodes)

    async def leave(self, node: str) -> None:
        """Say that a node lives no more."""
        self._open()
        self._nodes.pop(node, None)

    async def leases(self) -> list[Lease]:
        """List the leases that are held now."""
        now = self._open()
        held = sorted((lease.partition, lease) for lease in self._leases.values() if now < lease.expires_at)
        return [replace(lease, nonce="", checkpoint=self._checkpoints[partition]) for partition, lease in held]

    # -- owners

    async def acquire(self, partitions: Sequence[int], node: str, ttl_ms: int) -> list[Lease]:
        """Take leases that nobody holds."""
        now = self._open()
        got = []
        for partition in dict.fromkeys(partitions):
            held = self._leases.get(partition)
            if not 0 <= partition < self.partitions or (held is not None and now < held.expires_at):
                continue
            self._epochs[partition] += 1
            lease = Lease(
                partition=partition,
                node=node,
                epoch=self._epochs[partition],
                nonce=secrets.token_hex(8),
                expires_at=now + ttl_ms,
                checkpoint=self._checkpoints[partition],
            )
            self._leases[partition] = lease
            got.append(lease)
        return got

    async def renew(self, leases: Sequence[Lease], ttl_ms: int) -> list[Lease]:
        """Hold on to leases."""
        now = self._open()
        held = [
            replace(lease, expires_at=now + ttl_ms, checkpoint=self._checkpoints[lease.partition])
            for lease in self._held(leases)
        ]
        for lease in held:
            self._leases[lease.partition] = lease
        return held

    async def release(self, leases: Sequence[Lease]) -> None:
        """Give leases back."""
        held = {lease.partition for lease in self._held(leases)}
        for partition in held:
            del self._leases[partition]
        self._hints.tell(held)

    async def due(self, leases: Sequence[Lease], until: int, after: tuple[int, str] | None, limit: int) -> list[Due]:
        """List what comes due, by run_at and id."""
        bounds.check_limit(limit)
        ranges = []
        for lease in self._held(leases):
            keys = self._due[lease.partition]
            first = 0 if after is None else bisect_right(keys, after)
            ranges.append(islice(keys, first, bisect_left(keys, (until + 1, ""))))
        page = (self._tasks[task_id] for _, task_id in islice(merge(*ranges), limit))
        return [Due(task.run_at, task.id, task.partition, task.priority, task.version, task.handler) for task in page]

    async def claim(self, leases: Sequence[Lease], ids: Sequence[str], until: int) -> list[Task]:
        """Make pending tasks running."""
        epochs = {lease.partition: lease.epoch for lease in self._held(leases)}
        bounds.check_batch(ids)
        claimed = {}
        for task_id in ids:
            task = self._tasks.get(task_id)
            if task is None or task.status is not Status.PENDING or task.run_at > until:
                continue
            if isinstance(task, UnreadableTask):
                continue
            if task.partition in epochs:
                claimed[task_id] = steps.claim(task, until)
        self._change(claimed.values(), hint=False)
        for task in claimed.values():
            self._running[task.id] = epochs[task.partition]
        return list(claimed.values())

    async def finish(self, finishes: Sequence[Finish]) -> list[bool]:
        """Put finished tasks back."""
        now = self._open()
        bounds.check_finishes(finishes)
        held = {lease.partition: lease.nonce for lease in self._held([finish.lease for finish in finishes])}
        changed: dict[str, Task] = {}
        answers = []
        for finish in finishes:
            task = changed.get(finish.task.id) or self._tasks.get(finish.task.id)
            ours = held.get(finish.lease.partition) == finish.lease.nonce
            ours = ours and task is not None and steps.may_finish(task, finish)
            answers.append(ours)
            if ours and task is not None:
                changed[task.id] = steps.finish(task, finish.task, now)
                bounds.encode(changed[task.id])
        self._change(changed.values(), hint=False)
        for finish, ours in zip(finishes, answers, strict=True):
            if ours and finish.run is not None:
                self._runs.setdefault(finish.task.id, {})[finish.run.attempt] = finish.run
        return answers

    async def orphans(self, leases: Sequence[Lease], limit: int) -> list[Task]:
        """List running tasks that were claimed under an earlier lease, oldest first."""
        epochs = {lease.partition: lease.epoch for lease in self._held(leases)}
        bounds.check_limit(limit)
        left = [
            self._tasks[task_id]
            for task_id, epoch in self._running.items()
            if epoch < epochs.get(self._tasks[task_id].partition, 0)
            and not isinstance(self._tasks[task_id], UnreadableTask)
        ]
        return sorted(left, key=lambda task: self._serials[task.id])[:limit]

    async def checkpoint(self, leases: Sequence[Lease], moment: int) -> None:
        """Note that everything due until a moment has been claimed."""
        bounds.check_moment(moment)
        for lease in self._held(leases):
            self._checkpoints[lease.partition] = moment

    def changes(self, partitions: Sequence[int]) -> AsyncIterator[set[int]]:
        """Tell in which partitions something changes from now on."""
        return self._hints.watch(partitions)

    # -- within

    def _held(self, leases: Sequence[Lease]) -> list[Lease]:
        """Leave out leases that are not their holders' any more, and copies."""
        now = self._open()
        held = {}
        for lease in leases:
            there = self._leases.get(lease.partition)
            ours = there is not None and there.epoch == lease.epoch and there.nonce == lease.nonce
            if ours and there is not None and now < there.expires_at:
                held[lease.partition] = lease
        return list(held.values())

    def _each(self, ids: Sequence[str], step: Callable[[Task], Task]) -> list[Task | None]:
        """Take a step with each task that is there."""
        bounds.check_batch(ids)
        answers: list[Task | None] = []
        for task_id in ids:
            task = self._tasks.get(task_id)
            if task is not None and (changed := step(task)) is not task:
                self._change([changed])
                task = changed
            answers.append(task)
        return answers

    def _forget(self, task_id: str) -> None:
        del self._tasks[task_id]
        del self._ids[self._serials.pop(task_id)]
        self._runs.pop(task_id, None)

    def _number(self, task_id: str) -> None:
        """Make a task the newest one."""
        if task_id in self._serials:
            del self._ids[self._serials[task_id]]
        self._last_serial += 1
        self._serials[task_id] = self._last_serial
        self._ids[self._last_serial] = task_id

    def _change(self, tasks: Collection[Task], *, hint: bool = True) -> None:
        """Put tasks in the place of those with their ids, and keep what is derived from them in step."""
        for task in tasks:
            there = self._tasks.get(task.id)
            if there is not None and there.status is Status.PENDING:
                keys = self._due[there.partition]
                del keys[bisect_left(keys, (there.run_at, there.id))]
            if task.status is Status.PENDING:
                insort(self._due[task.partition], (task.run_at, task.id))
            if task.status is not Status.RUNNING:
                self._running.pop(task.id, None)
            self._tasks[task.id] = task
        if hint:
            self._hints.tell({task.partition for task in tasks})
