"""A state machine that does the same random things to a store and to `MemoryStore`, and compares every answer.

    def test_it_does_what_the_memory_store_does():
        check_against_memory(open_my_store, settings=settings(max_examples=20))

It needs Hypothesis. `open_my_store(clock)` is what `StoreConformance.open` is: an empty store of eight partitions.
Leases are told apart by chance, so that they are kept in pairs, and compared but for their nonces.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, cast

from hypothesis import settings as Settings  # noqa: N812 - it is a class
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from msgspec.structs import replace

from tickwheel.clock import VirtualClock
from tickwheel.errors import TickwheelError
from tickwheel.stores.contract import Filter, Finish, Lease, OnConflict, Order, Page, RoutesTasks, Store
from tickwheel.stores.memory import MemoryStore
from tickwheel.tasks.record import LEGAL, Run, RunStatus, Status, Task
from tickwheel.tasks.triggers import Every
from tickwheel.testing.stores.legal import LegalStore
from tickwheel.testing.stores.scenario import now_of, task

__all__ = ["check_against_memory"]

PARTITIONS = 8
Pair = tuple[Lease, Lease]  # what the model got, and what the store got

ids = st.sampled_from(["a", "b", "c", "d", "e", "é"])
id_lists = st.lists(ids, max_size=4)
moments = st.integers(min_value=0, max_value=20)
outcomes = st.sampled_from(sorted(LEGAL[Status.RUNNING]))


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    """Draw a task that may be added."""
    task_id = draw(ids)
    return task(
        task_id,
        draw(moments),
        handler=draw(st.sampled_from(["x", "y"])),
        args={"n": draw(st.integers(0, 3))},
        partition=ord(task_id) % 3,
        priority=draw(st.integers(-1, 1)),
        paused=draw(st.sampled_from([False, False, True])),
        tags=draw(st.sampled_from([[], ["red"], ["red", "blue"]])),
        **draw(st.sampled_from([{}, {}, {"trigger": Every(interval_ms=7), "times": -1}])),
    )


def plain(answer: Any) -> Any:
    """Take out of an answer what chance put in."""
    if isinstance(answer, Lease):
        return replace(answer, nonce="")
    return [plain(each) for each in answer] if isinstance(answer, list) else answer


def routes(store: LegalStore) -> RoutesTasks:
    """Return a store that can move tasks."""
    return cast("RoutesTasks", store.store)


async def moved(store: LegalStore, leases: list[Lease], chosen: list[str], partition: int) -> list[str]:
    """Move tasks; in which order is for the store to say."""
    return sorted(await routes(store).move(leases, chosen, partition))


def check_against_memory(
    opened: Callable[[VirtualClock], AbstractAsyncContextManager[Store]], *, settings: Settings | None = None
) -> None:
    """Look for something a store does otherwise than `MemoryStore`."""

    class Machine(StoreMachine):
        def open(self, clock: VirtualClock) -> AbstractAsyncContextManager[Store]:
            return opened(clock)

    run_state_machine_as_test(Machine, settings=settings)


class StoreMachine(RuleBasedStateMachine):
    """Two stores on one clock."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock(wall_ns=0)
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.store = LegalStore(self.runner.run(self.stack.enter_async_context(self.open(self.clock))))
        self.model = LegalStore(
            MemoryStore(
                now_ms=lambda: now_of(self.clock),
                partitions=PARTITIONS,
                timed_leases=self.store.timed_leases,
                finish_by_epoch=self.store.finish_by_epoch,
            )
        )
        self.leases: list[Pair] = []
        self.claimed: list[Task] = []

    def open(self, clock: VirtualClock) -> AbstractAsyncContextManager[Store]:
        """Open the store to compare."""
        raise NotImplementedError

    def teardown(self) -> None:
        """Close both."""
        self.runner.run(self.stack.aclose())
        self.runner.close()

    def both(self, call: Callable[[LegalStore, int], Awaitable[Any]]) -> tuple[Any, Any]:
        """Make a call on both; `call` is told which of a pair of leases is whose."""

        async def answer_of(store: LegalStore, which: int) -> Any:
            try:
                return await call(store, which)
            except TickwheelError as error:
                return type(error), str(error)

        expected = self.runner.run(answer_of(self.model, 0))
        found = self.runner.run(answer_of(self.store, 1))
        assert plain(found) == plain(expected)
        return expected, found

    def of(self, which: int, pairs: list[Pair]) -> list[Lease]:
        """Take the leases that belong to one of the stores."""
        return [pair[which] for pair in pairs]

    @rule(new=st.lists(tasks(), max_size=4), on_conflict=st.sampled_from(["reject", "replace", "keep", "debounce"]))
    def add(self, new: list[Task], on_conflict: OnConflict) -> None:
        self.both(lambda store, _: store.add(new, on_conflict))

    @rule(chosen=id_lists, reason=st.sampled_from(["no", "not now"]), run_only=st.booleans())
    def cancel(self, chosen: list[str], reason: str, run_only: bool) -> None:  # noqa: FBT001 - drawn
        self.both(lambda store, _: store.cancel(chosen, reason, run_only=run_only))

    @rule(chosen=ids, run_at=moments)
    def reschedule(self, chosen: str, run_at: int) -> None:
        self.both(lambda store, _: store.reschedule(chosen, run_at))

    @rule(chosen=id_lists)
    def remove(self, chosen: list[str]) -> None:
        self.both(lambda store, _: store.remove(chosen))

    @rule(chosen=ids, run_at=moments, stale=st.booleans(), withdraw=st.booleans())
    def amend(self, chosen: str, run_at: int, stale: bool, withdraw: bool) -> None:  # noqa: FBT001 - drawn
        there = self.runner.run(self.model.get([chosen]))[0] or task(chosen)
        wanted = replace(there, run_at=run_at, tags=["new"], priority=5, version=there.version - stale)
        if withdraw:  # as a new time does: a paused task is listed as paused again
            wanted = replace(wanted, run_now_requested=False)
        self.both(lambda store, _: store.amend([wanted]))

    @rule(chosen=id_lists)
    def pause(self, chosen: list[str]) -> None:
        self.both(lambda store, _: store.pause(chosen))

    @rule(chosen=id_lists, run_missed=st.booleans())
    def resume(self, chosen: list[str], run_missed: bool) -> None:  # noqa: FBT001 - drawn
        self.both(lambda store, _: store.resume(chosen, run_missed=run_missed))

    @rule(chosen=id_lists)
    def run_now(self, chosen: list[str]) -> None:
        self.both(lambda store, _: store.run_now(chosen))

    @rule(chosen=id_lists, run_at=moments)
    def revive(self, chosen: list[str], run_at: int) -> None:
        self.both(lambda store, _: store.revive(chosen, run_at))

    @rule(before=st.integers(0, 60))
    def purge(self, before: int) -> None:
        self.both(lambda store, _: store.purge(before))

    @rule(ms=st.integers(1, 12))
    def pass_time(self, ms: int) -> None:
        self.clock.advance_ns(ms * 1_000_000)

    @rule(
        partitions=st.lists(st.integers(0, 3), max_size=4), node=st.sampled_from(["m", "n"]), ttl_ms=st.integers(1, 40)
    )
    def acquire(self, partitions: list[int], node: str, ttl_ms: int) -> None:
        expected, found = self.both(lambda store, _: store.acquire(partitions, node, ttl_ms))
        self.leases = [*self.leases, *zip(expected, found, strict=True)][-12:]

    @rule(data=st.data(), ttl_ms=st.integers(1, 40))
    def renew(self, data: st.DataObject, ttl_ms: int) -> None:
        pairs = self.some_leases(data)
        self.both(lambda store, which: store.renew(self.of(which, pairs), ttl_ms))

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        pairs = self.some_leases(data)
        self.both(lambda store, which: store.release(self.of(which, pairs)))

    @rule(node=st.sampled_from(["k", "m", "n"]), ttl_ms=st.integers(1, 40))
    def heartbeat(self, node: str, ttl_ms: int) -> None:
        self.both(lambda store, _: store.heartbeat(node, ttl_ms))

    @rule(
        node=st.sampled_from(["k", "m", "n"]), ttl_ms=st.integers(1, 40), handlers=st.sets(st.sampled_from(["x", "y"]))
    )
    def publish(self, node: str, ttl_ms: int, handlers: set[str]) -> None:
        if hasattr(self.store.store, "move"):
            self.both(lambda store, _: routes(store).heartbeat(node, ttl_ms, handlers))
            self.both(lambda store, _: routes(store).nodes())

    @rule(chosen=id_lists, partition=st.integers(0, PARTITIONS))
    def move(self, chosen: list[str], partition: int) -> None:
        if hasattr(self.store.store, "move"):
            self.both(lambda store, which: moved(store, self.of(which, self.leases), chosen, partition))

    @rule(node=st.sampled_from(["k", "m", "n"]))
    def leave(self, node: str) -> None:
        self.both(lambda store, _: store.leave(node))

    @rule(data=st.data(), moment=moments)
    def checkpoint(self, data: st.DataObject, moment: int) -> None:
        pairs, moment = self.some_leases(data), now_of(self.clock) + moment
        self.both(lambda store, which: store.checkpoint(self.of(which, pairs), moment))

    @rule(chosen=id_lists, now=moments)
    def claim(self, chosen: list[str], now: int) -> None:
        claimed, _ = self.both(lambda store, which: store.claim(self.of(which, self.leases), chosen, now))
        self.claimed = [*self.claimed, *claimed][-12:]

    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        if not self.claimed or not self.leases:
            return
        drawn = []
        for claimed in data.draw(st.lists(st.sampled_from(self.claimed), max_size=3)):
            fitting = [pair for pair in self.leases if pair[0].partition == claimed.partition] or self.leases
            drawn.append((fitting[-1 if data.draw(st.booleans()) else 0], *self.outcome(data, claimed)))

        def call(store: LegalStore, which: int) -> Awaitable[list[bool]]:
            return store.finish([Finish(lease=pair[which], task=wanted, run=run) for pair, wanted, run in drawn])

        self.both(call)

    def outcome(self, data: st.DataObject, claimed: Task) -> tuple[Task, Run | None]:
        """Draw what a run came to."""
        wanted = replace(
            claimed,
            status=data.draw(outcomes),
            run_at=data.draw(moments),
            failures=data.draw(st.integers(0, 2)),
            finished_at=data.draw(st.none() | moments),
            result=data.draw(st.none() | st.integers(0, 9)),
        )
        run = Run(
            task_id=claimed.id,
            attempt=claimed.attempt,
            occurrence_at=claimed.occurrence_at,
            started_at=0,
            finished_at=data.draw(moments),
            status=RunStatus.FAILED,
        )
        return wanted, data.draw(st.sampled_from([run, None]))

    def some_leases(self, data: st.DataObject) -> list[Pair]:
        """Draw leases, good and stale ones."""
        return data.draw(st.lists(st.sampled_from(self.leases), max_size=4)) if self.leases else []

    @rule(until=moments, after=st.none() | st.tuples(moments, ids), limit=st.integers(1, 5))
    def due(self, until: int, after: tuple[int, str] | None, limit: int) -> None:
        self.both(lambda store, which: store.due(self.of(which, self.leases), until, after, limit))

    @rule(limit=st.integers(1, 5))
    def orphans(self, limit: int) -> None:
        self.both(lambda store, which: store.orphans(self.of(which, self.leases), limit))

    @rule(
        status=st.none() | st.sampled_from(Status),
        handler=st.sampled_from([None, "x", "y"]),
        prefix=st.sampled_from([None, "", "a", "é"]),
        order=st.sampled_from(["newest", "newest", "oldest", "due"]),
        rest=st.fixed_dictionaries(
            {},
            optional={
                "tag": st.sampled_from(["red", "blue"]),
                "text": st.sampled_from(["", "e", "x", "é"]),
                "due_after": moments,
                "due_before": moments,
            },
        ),
        limit=st.integers(1, 3),
    )
    def query(
        self,
        status: Status | None,
        handler: str | None,
        prefix: str | None,
        order: Order,
        rest: dict[str, Any],
        limit: int,
    ) -> None:
        wanted = Filter(status=status, handler=handler, id_prefix=prefix, order=order, **rest)
        page, _ = self.both(lambda store, _: store.query(wanted, None, limit))
        if isinstance(page, Page) and page.cursor is not None:
            self.both(lambda store, _: store.query(wanted, page.cursor, limit))
        self.both(lambda store, _: store.count(wanted))

    @invariant()
    def are_alike(self) -> None:
        """Compare all there is."""
        self.both(lambda store, _: store.query(Filter(), None, 100))
        self.both(lambda store, _: store.counts())
        self.both(lambda store, _: store.leases())
        for each in ("a", "b", "é"):
            self.both(lambda store, _, each=each: store.history(each))  # type: ignore[misc]
