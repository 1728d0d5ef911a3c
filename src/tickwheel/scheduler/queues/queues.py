"""Pull queues: tasks that come due wait here until a consumer leases them, and are its for a while.

    in the wheel ----due----> parked in a line ----lease----> leased ----> what became of it
    pending                   pending, by priority            running      message_leases.py

A task that waits is pending in the store, and takes up no room among those that run here: a queue that nobody reads
holds up nobody. A lease is a claim like any other, fenced, with one more attempt.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from heapq import nsmallest
from random import Random
from typing import Final, cast

from msgspec.structs import replace

from tickwheel.clock import Clock
from tickwheel.cluster import Ownership
from tickwheel.errors import TooManyLeases
from tickwheel.observe.events import Events
from tickwheel.scheduler.background_calls import BackgroundCalls
from tickwheel.scheduler.engine.batches import claim_in_parts
from tickwheel.scheduler.engine.completer import Completer
from tickwheel.scheduler.engine.due_index import DueWheel
from tickwheel.scheduler.queues.backlog import LAST, Backlog, Place, behind
from tickwheel.scheduler.queues.message_leases import LEASED_MAX, Message, MessageLeases
from tickwheel.stores.contract import Due, Rank, RanksOverdue, Store, due_entry
from tickwheel.tasks import transitions
from tickwheel.tasks.destinations import handler_for_queue, parse_queue
from tickwheel.tasks.record import Status, Task, UnreadableTask

__all__ = ["Queues"]

PAGE: Final = 1_000  # tasks read from the store at once
NOT_OURS_S: Final = 0.1  # how long to wait for partitions before looking again
REFUSED_S: Final = 0.1  # before what a claim refused is offered again


class Queues:
    """The queues of one engine: what waits in its partitions, and what is leased."""

    def __init__(
        self,
        store: Store,
        ownership: Ownership,
        completer: Completer,
        *,
        clock: Clock,
        events: Events,
        rng: Random,
        doubt: Callable[[], None],
        claiming: asyncio.Lock,
        origin: int,
        look_ms: int,
    ) -> None:
        self._store = store
        self._ranks = hasattr(store, "overdue")
        self._ownership = ownership
        self._completer = completer
        self._clock = clock
        self._doubt = doubt  # a claim may have been made whose answer was lost
        self._claiming = claiming  # what is being claimed is leased before its partition can be given back
        self._look_ms = look_ms  # how long to wait at most for what is due: the wall clock may be set meanwhile
        self._background = BackgroundCalls()
        self.leases = MessageLeases(store, completer, clock=clock, events=events, rng=rng, background=self._background)
        self.soon = DueWheel(origin)
        self._lines = Backlog()
        self._look = asyncio.Event()  # at what is due soon
        self._consumers: dict[str, set[asyncio.Future[None]]] = {}  # that wait, by queue
        self._refilling = asyncio.Lock()
        self._stopping = False

    # -- what waits; an entry may be out of date, and the store finds out when it is claimed

    def put(self, due: Due) -> None:
        """Enter a task, or move it: it waits in its queue when it is due."""
        if due.id in self.leases:
            return
        if due.run_at <= self._completer.now():
            self.soon.drop(due.id)
            self._park(due)
        else:
            self._lines.drop(due.id)
            self.soon.put(due)
            self._look.set()

    def drop(self, task_id: str) -> None:
        """Take a task out that does not wait any more."""
        self.soon.drop(task_id)
        self._lines.drop(task_id)

    def forget(self, origin: int) -> None:
        """Begin with nothing that waits, to be entered again."""
        self.soon = DueWheel(origin)
        self._lines = Backlog()

    def look(self) -> None:
        """Look at once what has come due: the wall clock was set."""
        self._look.set()

    async def turn(self) -> None:
        """Park what has come due, and wait for the next."""
        self._look.clear()
        now = self._completer.now()
        for due in self.soon.take(now, PAGE):
            self._park(due)
        following = self.soon.next_due()
        wait_s = None if following is None else min(max(following - now, 1), self._look_ms) / 1000
        try:
            async with asyncio.timeout(wait_s):
                await self._look.wait()
        except TimeoutError:
            pass

    def _park(self, due: Due) -> None:
        assert due.queue is not None
        self._lines.put(due)
        self._wake(due.queue)

    def _wake(self, queue: str) -> None:
        for consumer in self._consumers.get(queue, ()):
            if not consumer.done():
                consumer.set_result(None)

    def where(self, task_id: str) -> str | None:
        """Say where a task is; None if it is not here."""
        if task_id in self.leases:
            return "leased to a consumer"
        if task_id in self._lines:
            return "waiting in its queue"
        return "in the wheel" if task_id in self.soon else None

    def left_out(self) -> list[str]:
        """List the handlers of queues of which some tasks are in the store alone: they are read for a consumer."""
        return [handler_for_queue(queue) for queue in self._lines.left_out()]

    def leave_out_behind(self, rank: Rank, known: Collection[str]) -> list[str]:
        """Leave out what ranks behind a task of queues that are full, besides known ones; return their handlers."""
        queues = [queue for queue in map(parse_queue, known) if queue is not None]
        return [handler_for_queue(queue) for queue in self._lines.leave_out_behind(rank, queues)]

    @property
    def parked(self) -> int:
        """How many tasks are known to be due and to wait for a consumer."""
        return len(self._lines)

    # -- lease

    async def lease(self, queue: str, limit: int, lease_ms: int, wait_ms: int) -> list[Message]:
        """Lease what waits in a queue, at most so many; if nothing does, wait for so long."""
        until_ns = self._clock.monotonic_ns() + wait_ms * 1_000_000
        while not self._stopping:
            messages = await self._take(queue, limit, lease_ms)
            if messages:
                return messages
            ours = bool(self._ownership.leases())
            if ours and self._lines.holds(queue):
                continue  # what it took was out of date
            left_s = (until_ns - self._clock.monotonic_ns()) / 1e9
            if left_s <= 0:
                break
            await self._arrival(queue, left_s if ours else min(left_s, NOT_OURS_S))
        return []

    async def _arrival(self, queue: str, wait_s: float) -> None:
        """Wait until something is parked in a queue, or for so long."""
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        others = self._consumers.setdefault(queue, set())
        others.add(arrived)
        try:
            await asyncio.wait((arrived,), timeout=wait_s)
        finally:
            others.discard(arrived)
            if not others:
                self._consumers.pop(queue, None)

    async def _take(self, queue: str, limit: int, lease_ms: int) -> list[Message]:
        room = LEASED_MAX - len(self.leases)
        if room <= 0:
            raise TooManyLeases(LEASED_MAX)
        if not self._ownership.leases():
            return []
        entries = self._lines.take(queue, min(limit, room))
        if not entries and self._lines.is_cut(queue):
            entries = await self._refill(queue, min(limit, room))
        if not entries:
            return []
        claim = self._background.begin(self._claim(queue, entries, lease_ms))
        try:
            return await asyncio.shield(claim)
        except asyncio.CancelledError:
            claim.add_done_callback(self._unclaim)  # nobody is there any more to work on them
            raise

    async def _claim(self, queue: str, entries: list[Due], lease_ms: int) -> list[Message]:
        async with self._claiming:
            return await self._claim_alone(queue, entries, lease_ms)

    async def _claim_alone(self, queue: str, entries: list[Due], lease_ms: int) -> list[Message]:
        try:
            ids = [due.id for due in entries]
            claimed = await claim_in_parts(self._store, self._ownership.kept(), ids, self._completer.now())
        except BaseException:
            for due in entries:
                self._park(due)  # what was not claimed still waits
            self._doubt()
            raise
        messages = []
        self._completer.check_clock()
        now = self._completer.now()
        for task in claimed:
            if task.queue != queue:
                self._put_back(task, "it was claimed for a queue that it is not in any more")
            elif (begun := self._completer.begin(task, now)) is not None:
                messages.append(self.leases.hold(replace(begun, started_at=now), lease_ms))
        if len(claimed) < len(entries):
            refused = {due.id for due in entries} - {task.id for task in claimed}
            self._background.begin(self._look_again(list(refused)))
        return messages

    async def _look_again(self, refused: Sequence[str]) -> None:
        """Let what could not be claimed wait again, if it still does: the clock may have been set back a little."""
        found = await self._store.get(refused)
        waits = [
            due_entry(task)
            for task in found
            if task is not None and task.listed_status is Status.PENDING and not isinstance(task, UnreadableTask)
        ]
        if waits:
            asyncio.get_running_loop().call_later(REFUSED_S, self._park_again, waits)

    def _park_again(self, entries: Iterable[Due]) -> None:
        for due in entries:
            if due.queue is not None and self.where(due.id) is None and self._ownership.keeps(due.partition):
                self._park(due)

    def _unclaim(self, claim: asyncio.Task[list[Message]]) -> None:
        if not claim.cancelled() and claim.exception() is None:
            for message in claim.result():
                task = self.leases.release(message.id)
                if task is not None:
                    self._put_back(task, "its consumer was gone before it could be told")

    def _put_back(self, task: Task, reason: str) -> None:
        self._completer.settle(task, transitions.release(task, reason), "retried")

    async def _refill(self, queue: str, limit: int) -> list[Due]:
        """Read from the store what was left out of a line; return the best of it, and let the rest wait.

        Nothing is changed before it is read: who asks for it may be gone meanwhile.
        """
        async with self._refilling:
            entries = self._lines.take(queue, limit)
            if entries or not self._lines.is_cut(queue):
                return entries  # someone else has just read it
            found: list[Due] = []
            cut: Place | None = None
            after: Rank | None = None
            most, now = max(self._lines.line_max, limit), self._completer.now()
            while page := await self._page(now, after, queue):
                found += [due for due in page if due.queue == queue and due.id not in self.leases]
                after = page[-1].rank
                if len(page) < PAGE:
                    break
                if len(found) >= most:  # by time, it is not known where what was not read ranks
                    cut = behind(after) if self._ranks else LAST
                    break
            best = nsmallest(limit, found, key=_order)
            taken = {due.id for due in best}
            self._lines.refill(queue, (due for due in found if due.id not in taken), cut)
            return best

    async def _page(self, now: int, after: Rank | None, queue: str) -> list[Due]:
        """Read what is due behind a place: by priority where the store can, and without other queues that are full."""
        leases = self._ownership.kept()
        if not self._ranks:
            return await self._store.due(leases, now, None if after is None else after[1:], PAGE)
        others = [handler_for_queue(other) for other in self._lines.left_out() if other != queue]
        return await cast("RanksOverdue", self._store).overdue(leases, now, after, PAGE, others)

    # -- end

    def stop(self) -> None:
        """Lease no more; what is leased may still be acknowledged."""
        self._stopping = True
        for queue in self._consumers:
            self._wake(queue)

    async def close(self) -> None:
        """Let what is leased be offered again, by whoever goes on."""
        self.stop()
        await self._background.ended()
        self.leases.close()


def _order(due: Due) -> tuple[int, int, str]:
    return -due.priority, due.run_at, due.id
