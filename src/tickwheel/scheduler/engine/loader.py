"""The loader: reads pending tasks from the store into the due index, as much as there is room for.

    overdue, by priority                       to come, by time
    ..............................|------------------------|.......................>  run_at
    the best of each handler      now                      loaded until

What is overdue is read by priority, and of each handler a bounded share: a handler with 250,000 due tasks that can
begin one at a time takes up its share, and the tasks of others are read all the same. What is to come is read by time,
up to a horizon and a number of entries. The rest stays in the store until there is room. Everything is read page by
page, and others on the loop have their turn in between.

A handler that has begun half of its share is read on from where it was left, beside everything else: it does not run
out of tasks while all that is overdue is read through for tasks of others.

A rescan reads again what is due or will be soon, for what a lost notification told of. A store that cannot list by
priority is read by time: more of it, for the same result.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Final, cast

from tickwheel.clock import Clock
from tickwheel.cluster import Ownership
from tickwheel.scheduler.engine.due_index import WHEEL_MAX, DueIndex
from tickwheel.scheduler.engine.executor import Executor
from tickwheel.scheduler.options import Options
from tickwheel.scheduler.queues import Queues
from tickwheel.stores.contract import ANYTHING, Change, Due, Lease, Rank, RanksOverdue, Store

__all__ = ["Loader"]

LAST_ID: Final = "\U0010ffff"  # after every id
FIRST_PAGES: Final = 10  # read before a start is over; the rest follows
ENTERED_MAX: Final = 250  # entries in one step of the loop: about a millisecond
PASS_NS_MIN: Final = 50_000_000  # between two passes through what is overdue
PASS_SHARE: Final = 5  # and so many times as long as the last one took; reading on may take half of the time
PAGE_NS_MAX: Final = (
    100_000_000  # that count as taken for a page: one takes longer if the process is suspended meanwhile
)

Position = tuple[int, str]  # run_at and id


class Loader:
    """Keeps the due index of one engine filled; `wake` is called when there is something new in it."""

    def __init__(
        self,
        store: Store,
        ownership: Ownership,
        index: DueIndex,
        executor: Executor,
        queues: Queues,
        *,
        clock: Clock,
        options: Options,
        wake: Callable[[], None],
    ) -> None:
        self._store = store
        self._ranks = hasattr(store, "overdue")
        self._ownership = ownership
        self._index = index
        self._executor = executor
        self._queues = queues
        self._clock = clock
        self._options = options
        self._wake = wake
        self._until: Position = (self._now(), "")  # everything to come up to here is in the index
        self._reading_until = 0
        self._extending = asyncio.Lock()  # held by who reads what is to come: one at a time knows how far
        self._restarts = 0  # how often that was begun again, for new partitions or after a step of the clock
        self._pass_at_ns = 0  # when what is overdue may be read again
        self._wanted = asyncio.Event()  # something is to be read
        self._room = asyncio.Event()  # a handler has room for more of what was left out
        self._reading_on: set[str] = set()  # handlers that are being read on
        self._stale = True  # what is overdue may be more than is known
        self._set_back = False  # the clock was: everything is to be read again
        self._reads = 0  # that are under way
        self._entered: dict[str, int] = {}  # versions of what was entered meanwhile: what they read may be older
        self._rescan_at_ns = clock.monotonic_ns() + options.rescan_ms * 1_000_000

    def _now(self) -> int:
        return self._clock.time_ns() // 1_000_000

    @property
    def loaded_until(self) -> int:
        """The moment up to which tasks to come are in the index, or are being read."""
        return max(self._until[0], self._reading_until)

    # -- when to read

    def refresh(self) -> None:
        """Read what is overdue again: there may be more of it."""
        self._stale = True
        self._wanted.set()

    def want(self) -> None:
        """Read more, for there is room."""
        (self._room if self._ranks else self._wanted).set()

    async def begin(self, leases: list[Lease]) -> int:
        """Read the first pages of what is due in new partitions; return how many are overdue, up to 10,000."""
        if len(self._index.wheel) >= WHEEL_MAX:
            self._index.clear_wheel()
        await self._load_overdue(leases, FIRST_PAGES)
        await self._extend(FIRST_PAGES, restart=True)
        self.refresh()
        return await self._count_overdue(leases)

    async def _count_overdue(self, leases: list[Lease]) -> int:
        """Count what is overdue, some pages of it at most."""
        now, counted, after = self._now(), 0, None
        for _ in range(FIRST_PAGES if leases else 0):
            page = await self._store.due(leases, now, after, self._options.batch_max)
            counted += sum(due.run_at < now for due in page)
            if len(page) < self._options.batch_max:
                break
            after = (page[-1].run_at, page[-1].id)
        return counted

    def on_step(self, step_ms: int) -> None:
        """Read what is due now that the wall clock was set; back, everything: what was due may not be any more."""
        self._set_back = self._set_back or step_ms < 0
        self.refresh()

    def _reload(self) -> None:
        self._set_back, self._stale = False, True
        self._index.clear(self._now())
        self._queues.forget(self._now())

    async def load(self) -> None:
        """Read what there is room for; wait until there is more to be read."""
        self._wanted.clear()
        if self._set_back:
            self._reload()
            await self._extend(FIRST_PAGES, restart=True)
        now_ns = self._clock.monotonic_ns()
        if now_ns >= self._rescan_at_ns:
            self._rescan_at_ns = now_ns + self._options.rescan_ms * 1_000_000
            await self.load_soon(self._ownership.kept())
        if self._stale or self._lacks():
            await self._pass()
        if len(self._index.wheel) > 2 * WHEEL_MAX:
            await self._trim()
        await self._extend()
        if not self._stale and not self._lacks():
            await self._rest()

    def _lacks(self) -> bool:
        """Tell whether a handler has room, in a store that can only be read from the beginning."""
        return bool(self._index.ready.wanting) and not self._ranks

    async def read_on(self) -> None:
        """Read more of handlers that have room for it, from where they were left until they have their share."""
        await self._room.wait()
        self._room.clear()
        begun_ns, pages = self._clock.monotonic_ns(), 0
        ready = self._index.ready
        handlers, first = ready.admit_again()
        if first is None:
            return
        self._reading_on = handlers
        try:
            # From the millisecond it is due: there may be another one with a lesser id.
            after: Rank | None = (first.priority, first.run_at - 1, LAST_ID)
            leases, now = self._ownership.kept(), self._now()
            while after is not None:
                with self._reading():
                    page = await self._overdue_page(leases, now, after, self._queues.left_out()) if leases else []
                    await self._enter_overdue(page)
                pages += 1
                if len(page) < self._options.batch_max:
                    return
                after = page[-1].rank
                for handler in filter(ready.is_full, handlers):
                    ready.leave_out(page[-1], handler)
                if handlers <= set(ready.left_out()):
                    return
        except BaseException:
            self.refresh()  # how far they were read is unknown
            raise
        finally:
            self._reading_on = set()
            await asyncio.sleep(self._took_ns(begun_ns, pages) / 1e9)

    async def _pass(self) -> None:
        """Read what is overdue; not all the time, however much of it there is."""
        await asyncio.sleep(max(self._pass_at_ns - self._clock.monotonic_ns(), 0) / 1e9)
        self._stale = False
        begun_ns = self._clock.monotonic_ns()
        try:
            pages = await self._load_overdue(self._ownership.kept())
        except BaseException:
            self._stale = True
            raise
        rest_ns = max(PASS_NS_MIN, self._took_ns(begun_ns, pages) * PASS_SHARE)
        self._pass_at_ns = self._clock.monotonic_ns() + rest_ns

    def _took_ns(self, begun_ns: int, pages: int) -> int:
        """Return how long it took to read so many pages, as far as that was work."""
        return min(self._clock.monotonic_ns() - begun_ns, pages * PAGE_NS_MAX)

    async def _rest(self) -> None:
        wait_ms = (self._rescan_at_ns - self._clock.monotonic_ns()) // 1_000_000
        if not self._ownership.kept():
            pass  # there is nothing to read before there are partitions, and then `begin` does
        elif len(self._index.wheel) < WHEEL_MAX:
            wait_ms = min(wait_ms, max(self._until[0] - self._options.horizon_ms // 2 - self._now(), 0) + 1)
        else:
            wait_ms = min(wait_ms, 1000)  # it has become emptier then
        try:
            async with asyncio.timeout(max(wait_ms, 1) / 1000):
                await self._wanted.wait()
        except TimeoutError:
            pass

    # -- what is overdue

    async def _load_overdue(self, leases: list[Lease], pages_max: int | None = None) -> int:
        """Read what is due, the best of each handler; return how many pages that were."""
        now, pages = self._now(), 0
        if not self._ranks:
            self._index.ready.admit_again()
        after: Rank | None = None
        queues = set(self._queues.left_out())
        for _ in range(pages_max) if pages_max is not None else count():
            others = queues | self._reading_on  # what is read on is read in order, and only once
            with self._reading():
                page = await self._overdue_page(leases, now, after, others) if leases else []
                await self._enter_overdue(page)
            pages += 1
            if len(page) < self._options.batch_max:
                break
            if pages_max is not None and self._index.ready.left_out():
                break  # there is enough to begin with, and the next page may be far
            after = page[-1].rank
            if self._ranks:
                queues.update(self._queues.leave_out_behind(after, queues))
        return pages

    async def _overdue_page(
        self, leases: list[Lease], now: int, after: Rank | None, others: Collection[str]
    ) -> list[Due]:
        """Read what is due, but for handlers that have their share, and some others."""
        limit = self._options.batch_max
        if not self._ranks:
            return await self._store.due(leases, now, None if after is None else after[1:], limit)
        without = {*self._index.ready.left_out(), *others}
        return await cast("RanksOverdue", self._store).overdue(leases, now, after, limit, without)

    async def _enter_overdue(self, page: list[Due]) -> None:
        ready = self._index.ready
        for first in range(0, len(page), ENTERED_MAX):
            if first:
                await asyncio.sleep(0)
            chunk = []
            for due in page[first : first + ENTERED_MAX]:
                if self._ranks and due.queue is None and ready.is_full(due.handler) and due.id not in ready:
                    ready.leave_out(due)
                else:
                    chunk.append(due)
            self._enter_read(chunk)

    # -- what is to come

    async def _extend(self, pages_max: int | None = None, *, restart: bool = False) -> None:
        """Read what is to come, if less than half of the horizon is loaded and there is room.

        A restart reads it again from now, for all partitions. Who reads meanwhile, without the new ones, stops:

            load     kept: 1 2      page  page ------> stops: how far it came says nothing of partition 3
            begin    kept: 1 2 3               restart, page  page  page
        """
        self._restarts += restart
        async with self._extending:
            if restart:
                self._until = (self._now(), "")
            await self._read_to_come(pages_max)

    async def _read_to_come(self, pages_max: int | None) -> None:
        leases, horizon, restarts = self._ownership.kept(), self._options.horizon_ms, self._restarts
        until = self._now() + horizon
        if self._until[0] >= until - horizon // 2:
            return
        self._reading_until = until  # what is added here meanwhile is entered
        try:
            for _ in range(pages_max) if pages_max is not None else count():
                if not leases or len(self._index.wheel) >= WHEEL_MAX:
                    return
                with self._reading():
                    page = await self._store.due(leases, until, self._until, self._options.batch_max)
                    await self._enter_page(page)
                if restarts != self._restarts:
                    return
                if len(page) < self._options.batch_max:
                    self._until = (until, LAST_ID)
                    return
                self._until = (page[-1].run_at, page[-1].id)
        finally:
            self._reading_until = 0

    async def load_changed(self, changes: Mapping[int, Change]) -> None:
        """Read what became pending, as far as it belongs into the index."""
        changed = [(lease, changes[lease.partition]) for lease in self._ownership.kept() if lease.partition in changes]
        unknown = [lease for lease, change in changed if change.first == ANYTHING.first]
        if unknown:
            await self.load_soon(unknown)
        ranges: dict[tuple[int, int], list[Lease]] = {}  # what is added in one call is read in one, often
        for lease, change in changed:
            if change.first != ANYTHING.first and change.first <= min(change.last, self.loaded_until):
                ranges.setdefault((change.first, min(change.last, self.loaded_until)), []).append(lease)
        with self._reading():
            overdue = [
                due for (first, last), leases in ranges.items() for due in await self._load_range(leases, first, last)
            ]
            # All at once: what was read first would begin before what is of higher priority.
            await self._enter_overdue(sorted(overdue, key=lambda due: (-due.priority, due.run_at, due.id)))

    async def _load_range(self, leases: list[Lease], first: int, last: int) -> list[Due]:
        """Read what is due in a range; enter what is to come, and return what is overdue."""
        now, overdue = self._now(), []
        if first <= now:
            overdue = await self._store.due(leases, min(last, now), (first, ""), self._options.batch_max)
            if len(overdue) == self._options.batch_max:
                overdue = [*overdue, *await self._overdue_page(leases, now, None, self._queues.left_out())]  # the best
                self.refresh()  # and the rest
        after = (max(first, now + 1), "")
        while after[0] <= last:
            page = await self._store.due(leases, last, after, self._options.batch_max)
            await self._enter_page(page)
            if len(page) < self._options.batch_max:
                break
            after = (page[-1].run_at, page[-1].id)
        return overdue

    async def load_soon(self, leases: list[Lease]) -> None:
        """Read what is due before the next rescan; what is due later is found in time by that."""
        self.refresh()
        now = self._now()
        until, after = min(self._until[0], now + 2 * self._options.rescan_ms), (now, "")
        while leases:
            with self._reading():
                page = await self._store.due(leases, until, after, self._options.batch_max)
                await self._enter_page(page)
            if len(page) < self._options.batch_max:
                return
            after = (page[-1].run_at, page[-1].id)

    async def _enter_page(self, page: list[Due]) -> None:
        for first in range(0, len(page), ENTERED_MAX):
            if first:
                await asyncio.sleep(0)
            self._enter_read(page[first : first + ENTERED_MAX])

    async def _trim(self) -> None:
        """Take out what is due last, of much more than there is room for: it was added here, in the loaded range."""
        async with self._extending:
            self._until = await self._index.trim_wheel(WHEEL_MAX, ENTERED_MAX), ""

    def enter(self, page: Iterable[Due]) -> None:
        """Enter tasks into the index, or into their queues, as they are in the store now."""
        page = list(page)
        if self._reads:
            if len(self._entered) >= WHEEL_MAX:  # older tasks may replace them, and cannot be claimed
                self._entered.clear()
            self._entered.update((due.id, due.version) for due in page)
        self._put(page)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Read something and enter it: what was entered meanwhile and is newer stays.

        read      task 7, version 3, due at 12:00 ......................... enters 7? no
        finish              7 ran: version 5, due at 12:01, is entered
        """
        self._reads += 1
        try:
            yield
        finally:
            self._reads -= 1
            if not self._reads:
                self._entered.clear()

    def _enter_read(self, page: Iterable[Due]) -> None:
        known = self._entered
        self._put([due for due in page if known.get(due.id, 0) <= due.version] if known else page)

    def _put(self, page: Iterable[Due]) -> None:
        now, keeps, in_flight = self._now(), self._ownership.keeps, self._executor.ids()
        for due in page:
            if not keeps(due.partition):
                continue
            if due.queue is not None:
                self._index.drop(due.id)
                self._queues.put(due)
            elif due.id not in in_flight:
                self._index.put(due, now)
        if len(self._index.wheel) > 2 * WHEEL_MAX:
            self._wanted.set()
        self._wake()
