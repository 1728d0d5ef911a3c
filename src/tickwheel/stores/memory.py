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
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice

from msgspec.structs import replace

from tickwheel.errors import StoreClosed, UnknownTask
from tickwheel.stores import listing, validation
from tickwheel.stores.contract import (
    COUNT_MAX,
    MEMBERS,
    NOTHING,
    Change,
    ClockStep,
    Conflict,
    Due,
    Filter,
    Finish,
    Lease,
    Node,
    OnConflict,
    Page,
    Rank,
    Rest,
    Total,
    due_entry,
)
from tickwheel.stores.mutations import Step, check_added, check_move, settle, step_for
from tickwheel.stores.notifications import News, Notifications
from tickwheel.stores.ranking import Ranking
from tickwheel.tasks import transitions
from tickwheel.tasks.record import ENDED, Run, Status, Task, UnreadableTask, copy_json

__all__ = ["MemoryStore"]

Key = tuple[int, str]  # run_at and id: the order in which tasks come due

PURGE_TASKS = 1_000  # looked at in one step of a purge: about a millisecond


class MemoryStore:
    """A store in plain dictionaries, for one event loop."""

    keeps_skipped = True
    local_clock = True

    def __init__(
        self,
        *,
        now_ms: Callable[[], int],
        partitions: int = 64,
        timed_leases: bool = True,
        finish_by_epoch: bool = True,
    ) -> None:
        self.partitions = partitions
        self.timed_leases = timed_leases
        self.finish_by_epoch = finish_by_epoch  # False: as stores do that do not know better yet, to compare them
        self._now_ms = now_ms
        self._tasks: dict[str, Task] = {}
        self._serials: dict[str, int] = {}
        self._ids: dict[int, str] = {}  # by serial, and so in the order of arrival
        self._last_serial = 0
        self._due: list[list[Key]] = [[] for _ in range(partitions)]  # pending tasks, sorted
        self._ranking = Ranking()  # the same, by priority
        self._running: dict[str, int] = {}  # the epoch under which each was claimed
        self._runs: dict[str, dict[int, Run]] = {}  # by task and attempt
        self._nodes: dict[str, int] = {}  # until when each is known to live
        self._published: dict[str, Node] = {}  # what they said of themselves
        self._leases: dict[int, Lease] = {}
        self._last: dict[int, Lease] = {}  # of each partition, also when it was given back
        self._epochs = [0] * partitions
        self._checkpoints = [0] * partitions
        self._changed_at = 0
        self._clock_steps: list[ClockStep] = []
        self._hints = Notifications()
        self._running_changes: Counter[int] = Counter()
        self._closed = False

    async def close(self) -> None:
        """Forget everything."""
        self._closed = True
        self._hints.close()

    async def time(self) -> int:
        """Read the clock it was given."""
        return self._open()

    async def changed_at(self) -> int:
        """Return when anything was changed last."""
        self._open()
        return self._changed_at

    async def clock_steps(self) -> list[ClockStep]:
        """Return the steps that were kept last."""
        self._open()
        return list(self._clock_steps)

    async def keep_clock_steps(self, steps: Sequence[ClockStep]) -> None:
        """Keep some steps instead."""
        self._open()
        self._clock_steps = sorted(steps)

    def _open(self) -> int:
        if self._closed:
            raise StoreClosed
        return self._now_ms()

    # -- anyone

    async def add(self, tasks: Sequence[Task], on_conflict: OnConflict = "reject") -> list[Conflict]:
        """Add tasks, all of them or none."""
        self._open()
        check_added(tasks, self.partitions, on_conflict)
        for task in tasks:
            validation.encode(task)
        settled = settle(self._tasks, tasks, on_conflict)
        for task in settled.changed.values():
            if task.version:  # made of what was given and what was there
                validation.encode(task)
        for task_id in settled.changed:
            if task_id in settled.anew:
                self._number(task_id)
        self._change(settled.changed.values())
        return [Conflict(own(conflict.task), added=conflict.added) for conflict in settled.conflicts]

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        """Return tasks by id."""
        self._open()
        validation.check_batch(ids)
        return [own(self._tasks[task_id]) if task_id in self._tasks else None for task_id in ids]

    async def query(self, wanted: Filter, cursor: str | None = None, limit: int = 100) -> Page:
        """List tasks, newest first by default."""
        self._open()
        validation.check_limit(limit)
        listing.check_filter(wanted)
        found = list(islice(self._listed(wanted, listing.place_of(cursor, wanted.order)), limit + 1))
        more = listing.cursor_of(found[limit - 1][0], wanted.order) if len(found) > limit else None
        return Page(tasks=[own(task) for _, task in found[:limit]], cursor=more)

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
        validation.check_limit(most, validation.COUNT_ROWS_MAX)
        listing.check_filter(wanted)
        return Total(sum(listing.fits(task, wanted) for task in self._tasks.values()), exact=True)

    async def counts(self) -> dict[Status, int]:
        """Count the tasks of each status."""
        self._open()
        counted = Counter(task.listed_status for task in self._tasks.values())
        return {status: counted[status] for status in Status}

    async def history(self, task_id: str, limit: int = 100) -> list[Run]:
        """Return the runs of a task, latest first."""
        self._open()
        validation.check_limit(limit)
        runs = self._runs.get(task_id, {})
        return [runs[attempt] for attempt in sorted(runs, reverse=True)[:limit]]

    async def cancel(self, ids: Sequence[str], reason: str, *, run_only: bool = False) -> list[Task | None]:
        """Cancel tasks, or ask them to stop."""
        now = self._open()
        return self._each(ids, step_for(transitions.cancel, reason, now, run_only=run_only))

    async def reschedule(self, task_id: str, run_at: int) -> Task:
        """Move a task."""
        self._open()
        validation.check_moment(run_at)
        task = self._tasks.get(task_id)
        if task is None:
            raise UnknownTask(task_id)
        moved = transitions.reschedule(task, run_at)
        self._change([moved])
        return own(moved)

    async def amend(self, tasks: Sequence[Task]) -> list[Task]:
        """Put tasks in the place of those they were made from."""
        now = self._open()
        validation.check_amended(tasks)
        amended: dict[str, Task] = {}
        answers = []
        for task in tasks:
            there = amended.get(task.id) or self._tasks.get(task.id)
            if there is None:
                raise UnknownTask(task.id)
            amended[task.id] = transitions.update(there, task, now)
            validation.encode(amended[task.id])
            answers.append(own(amended[task.id]))
        self._change(amended.values())
        return answers

    async def remove(self, ids: Sequence[str]) -> list[Task | None]:
        """Delete tasks that do not run."""
        self._open()
        validation.check_batch(ids)
        answers = [self._tasks.get(task_id) for task_id in ids]
        gone = {task.id: task for task in answers if task is not None and task.status is not Status.RUNNING}
        for task in gone.values():
            if task.listed_status is Status.PENDING:
                keys = self._due[task.partition]
                del keys[bisect_left(keys, (task.run_at, task.id))]
                self._ranking.remove(task)
            self._forget(task.id)
        self._hints.tell(dict.fromkeys((task.partition for task in gone.values()), NOTHING))
        return answers

    async def pause(self, ids: Sequence[str]) -> list[Task | None]:
        """Keep tasks from beginning."""
        self._open()
        return self._each(ids, step_for(transitions.pause))

    async def resume(self, ids: Sequence[str], *, run_missed: bool = False) -> list[Task | None]:
        """Let paused tasks begin again."""
        now = self._open()
        return self._each(ids, step_for(transitions.resume, now, run_missed=run_missed))

    async def run_now(self, ids: Sequence[str]) -> list[Task | None]:
        """Let tasks that wait run now."""
        now = self._open()
        return self._each(ids, step_for(transitions.run_now, now))

    async def revive(self, ids: Sequence[str], run_at: int) -> list[Task | None]:
        """Begin tasks that are over once more."""
        self._open()
        validation.check_moment(run_at)
        return self._each(ids, step_for(transitions.retry, run_at))

    async def purge(self, before: int, rest: Rest | None = None) -> int:
        """Delete what was over before a moment."""
        self._open()
        ids, purged = list(self._tasks), 0
        for first in range(0, len(ids), PURGE_TASKS):
            if first and rest is not None:
                await rest()
            purged += sum(self._purge(task_id, before) for task_id in ids[first : first + PURGE_TASKS])
        return purged

    def _purge(self, task_id: str, before: int) -> bool:
        """Delete a task, or some of its runs; return whether it is gone by that."""
        task = self._tasks.get(task_id)
        if task is None:
            return False
        if task.status in ENDED and (task.finished_at or 0) < before:
            self._forget(task_id)
            return True
        runs = self._runs.get(task_id)
        if runs is not None:
            left = {attempt: run for attempt, run in runs.items() if run.finished_at >= before}
            self._runs[task_id] = left
            if not left:
                del self._runs[task_id]
        return False

    # -- nodes

    async def heartbeat(
        self, node: str, ttl_ms: int, handlers: Collection[str] | None = None, version: str = ""
    ) -> list[str]:
        """Say that a node lives, and which handlers it has."""
        now = self._open()
        before = set(self._nodes), self._published.get(node)
        self._nodes[node] = now + ttl_ms
        self._nodes = self._online(now)
        self._published = {name: said for name, said in self._published.items() if name in self._nodes}
        if handlers is not None:
            self._published[node] = Node(node, frozenset(handlers), version)
        if before != (set(self._nodes), self._published.get(node)):
            self._hints.tell({MEMBERS: NOTHING})
        return sorted(self._nodes)

    def _online(self, now: int) -> dict[str, int]:
        return {each: until for each, until in self._nodes.items() if now < until or not self.timed_leases}

    async def nodes(self) -> list[Node]:
        """List the nodes that live, with the handlers they have."""
        return [self._published.get(name) or Node(name) for name in sorted(self._online(self._open()))]

    async def leave(self, node: str) -> None:
        """Say that a node lives no more."""
        self._open()
        self._published.pop(node, None)
        if self._nodes.pop(node, None) is not None:
            self._hints.tell({MEMBERS: NOTHING})

    async def leases(self) -> list[Lease]:
        """List the leases that are held now."""
        now = self._open()
        held = sorted(partition for partition, lease in self._leases.items() if not _is_over(lease, now))
        return [replace(self._leases[each], nonce="", checkpoint=self._checkpoints[each]) for each in held]

    # -- owners

    async def acquire(self, partitions: Sequence[int], node: str, ttl_ms: int) -> list[Lease]:
        """Take leases that nobody holds."""
        now = self._open()
        got = []
        for partition in dict.fromkeys(partitions):
            held = self._leases.get(partition)
            if not 0 <= partition < self.partitions or (held is not None and not _is_over(held, now)):
                continue
            self._epochs[partition] += 1
            lease = Lease(
                partition=partition,
                node=node,
                epoch=self._epochs[partition],
                nonce=secrets.token_hex(8),
                expires_at=now + ttl_ms if self.timed_leases else None,
                checkpoint=self._checkpoints[partition],
            )
            self._leases[partition] = self._last[partition] = lease
            got.append(lease)
        return got

    async def renew(self, leases: Sequence[Lease], ttl_ms: int) -> list[Lease]:
        """Hold on to leases."""
        now = self._open()
        held = [
            replace(
                lease,
                expires_at=now + ttl_ms if self.timed_leases else None,
                checkpoint=self._checkpoints[lease.partition],
            )
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
        if held:
            self._hints.tell(dict.fromkeys({*held, MEMBERS}, NOTHING))

    async def due(self, leases: Sequence[Lease], until: int, after: tuple[int, str] | None, limit: int) -> list[Due]:
        """List what comes due, by run_at and id."""
        validation.check_limit(limit)
        ranges = []
        for lease in self._held(leases):
            keys = self._due[lease.partition]
            first = 0 if after is None else bisect_right(keys, after)
            ranges.append(islice(keys, first, bisect_left(keys, (until + 1, ""))))
        page = (self._tasks[task_id] for _, task_id in islice(merge(*ranges), limit))
        return [due_entry(task) for task in page]

    async def overdue(
        self, leases: Sequence[Lease], until: int, after: Rank | None, limit: int, without: Collection[str] = ()
    ) -> list[Due]:
        """List what is due, by priority."""
        validation.check_limit(limit)
        partitions = {lease.partition for lease in self._held(leases)}
        page = islice(self._ranking.overdue(partitions, until, after, frozenset(without)), limit)
        return [due_entry(self._tasks[task_id]) for task_id in page]

    async def claim(self, leases: Sequence[Lease], ids: Sequence[str], until: int) -> list[Task]:
        """Make pending tasks running."""
        epochs = {lease.partition: lease.epoch for lease in self._held(leases)}
        validation.check_batch(ids)
        claimed = {}
        for task_id in ids:
            task = self._tasks.get(task_id)
            if task is not None and transitions.may_claim(task, until) and task.partition in epochs:
                claimed[task_id] = transitions.claim(task, until)
        self._change(claimed.values(), hint=False)
        for task in claimed.values():
            self._running[task.id] = epochs[task.partition]
        return list(claimed.values())

    async def move(self, leases: Sequence[Lease], ids: Sequence[str], partition: int) -> list[str]:
        """Move pending tasks to another partition."""
        held = {lease.partition for lease in self._held(leases)}
        check_move(ids, partition, self.partitions)
        there = (self._tasks[task_id] for task_id in dict.fromkeys(ids) if task_id in self._tasks)
        moved = [task for task in there if task.partition in held and transitions.may_move(task, partition)]
        self._change([transitions.move(task, partition) for task in moved])
        return [task.id for task in moved]

    async def finish(self, finishes: Sequence[Finish]) -> list[bool]:
        """Put finished tasks back."""
        now = self._open()
        validation.check_finishes(finishes)
        held = {(lease.partition, lease.nonce) for lease in self._finishable([finish.lease for finish in finishes])}
        changed: dict[str, Task] = {}
        rows: dict[str, Sequence[Run]] = {}  # of skipped occurrences
        answers = []
        for finish in finishes:
            task = changed.get(finish.task.id) or self._tasks.get(finish.task.id)
            ours = (finish.lease.partition, finish.lease.nonce) in held
            ours = ours and task is not None and transitions.may_finish(task, finish.task, finish.lease.partition)
            answers.append(ours)
            if ours and task is not None:
                changed[task.id], rows[task.id] = transitions.conclude(
                    task, finish.task, now, finish.skipped, given_back=finish.given_back
                )
                validation.encode(changed[task.id])
        self._change(changed.values(), hint=False)
        self._changed_at = max(self._changed_at, now)
        wanted = {finish.task.id: finish.task for finish in finishes}
        # Its owner knows what it wrote, and not what came of a change that was made meanwhile.
        merged = (task for task in changed.values() if transitions.was_merged(wanted[task.id], task))
        self._hints.tell(News.of(merged))
        for finish, ours in zip(finishes, answers, strict=True):
            for run in (finish.run, *rows[finish.task.id]) if ours else ():
                if run is not None:
                    self._runs.setdefault(finish.task.id, {})[run.attempt] = run
        return answers

    async def orphans(self, leases: Sequence[Lease], limit: int) -> list[Task]:
        """List running tasks that were claimed under an earlier lease, oldest first."""
        epochs = {lease.partition: lease.epoch for lease in self._held(leases)}
        validation.check_limit(limit)
        left = [
            self._tasks[task_id]
            for task_id, epoch in self._running.items()
            if epoch < epochs.get(self._tasks[task_id].partition, 0)
            and not isinstance(self._tasks[task_id], UnreadableTask)
        ]
        return sorted(left, key=lambda task: self._serials[task.id])[:limit]

    async def checkpoint(self, leases: Sequence[Lease], moment: int) -> None:
        """Note that tasks were run until a moment, or kept waiting by the node."""
        validation.check_moment(moment)
        held = self._held(leases)
        if held and moment < self._changed_at:  # the clock was set back, as the next owners of the others have to see
            self._checkpoints = [max(checkpoint, self._changed_at) for checkpoint in self._checkpoints]
        for lease in held:
            self._checkpoints[lease.partition] = self._changed_at = moment

    def changes(self, partitions: Sequence[int]) -> AsyncIterator[dict[int, Change]]:
        """Tell in which partitions something changes from now on."""
        return self._hints.watch(partitions)

    def running_changes(self) -> Mapping[int, int]:
        """Count the changes of running tasks, by whomever."""
        return self._running_changes

    # -- within

    def _held(self, leases: Sequence[Lease]) -> list[Lease]:
        """Leave out leases that are not their holders' any more, and copies."""
        now = self._open()
        held = {}
        for lease in leases:
            there = self._leases.get(lease.partition)
            ours = there is not None and there.epoch == lease.epoch and there.nonce == lease.nonce
            if ours and there is not None and not _is_over(there, now):
                held[lease.partition] = lease
        return list(held.values())

    def _finishable(self, leases: Sequence[Lease]) -> list[Lease]:
        """Leave out leases under which nothing can be finished any more: another node has a newer one."""
        if not self.finish_by_epoch:
            return self._held(leases)
        return [lease for lease in leases if self._counts(lease)]

    def _counts(self, lease: Lease) -> bool:
        last, holder = self._last.get(lease.partition), self._leases.get(lease.partition)
        if last is not None and (last.epoch, last.nonce) == (lease.epoch, lease.nonce):
            return True
        return holder is not None and holder.node == lease.node and lease.epoch < holder.epoch

    def _each(self, ids: Sequence[str], step: Step) -> list[Task | None]:
        """Take a step with each task that is there."""
        validation.check_batch(ids)
        answers: list[Task | None] = []
        for task_id in ids:
            task = self._tasks.get(task_id)
            if task is not None and (changed := step(task)) is not task:
                self._change([changed])
                task = changed
            answers.append(None if task is None else own(task))
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
            if there is not None and there.listed_status is Status.PENDING:
                keys = self._due[there.partition]
                del keys[bisect_left(keys, (there.run_at, there.id))]
                self._ranking.remove(there)
            if task.listed_status is Status.PENDING:
                insort(self._due[task.partition], (task.run_at, task.id))
                self._ranking.add(task)
            if task.status is not Status.RUNNING:
                self._running.pop(task.id, None)
            self._tasks[task.id] = task
        if hint:
            self._changed_at = max(self._changed_at, self._now_ms())
            news = News.of(tasks)
            self._running_changes.update(partition for partition, change in news.items() if change.runs)
            self._hints.tell(news)


def own(task: Task) -> Task:
    """Return a task as one that reads it from a file gets it: with data of its own, which may be changed."""
    if not (task.args or task.meta or task.tags or task.result):
        return task
    data = (task.args, task.meta, task.tags, task.result)
    args, meta, tags, result = map(copy_json, data)
    return replace(task, args=args, meta=meta, tags=tags, result=result)


def _is_over(lease: Lease, now: int) -> bool:
    return lease.expires_at is not None and lease.expires_at <= now
