"""What one run returns or raises is its own affair: it is not repeated, and keeps no other task from its end."""

import asyncio
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.scheduler.worlds import World
from tests.wheels.schemes import Unprintable
from tickwheel.durations import to_ns
from tickwheel.errors import (
    InvalidResult,
    InvalidTask,
    ProcessDied,
    RetryAfter,
    RunCancelled,
    RunNotBegun,
    RunTimedOut,
    Snooze,
    TickwheelError,
    UnknownHandler,
    WorkersClosed,
    WorkersFull,
)
from tickwheel.observe import Event
from tickwheel.scheduler import AsyncScheduler, Scheduler
from tickwheel.stores import Store
from tickwheel.stores.contract import Finish, Lease
from tickwheel.tasks import RetryPolicy, Status, Task, TaskContext
from tickwheel.tasks.record import ENDED, RunStatus
from tickwheel.testing.stores.scenario import task as stored
from tickwheel.workers.results import RESULT_BYTES_MAX

DEEP: Any = 1
for _ in range(500):
    DEEP = [DEEP]

UNSTORABLE = {
    "an object": object(),
    "NaN": float("nan"),
    "a huge int": 10**5000,
    "a lone surrogate": "\ud800",
    "too deep": DEEP,
    "too long": "x" * 300_000,
    "a key that is no text": {1: 2},
}


@pytest.mark.parametrize("kind", UNSTORABLE)
def test_a_result_that_cannot_be_stored_fails_without_a_retry(kind: str) -> None:
    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("odd", retries=3)
        async def odd() -> Any:
            world.ran.append((world.now(), "odd"))
            return UNSTORABLE[kind]

        await scheduler.add("odd", id="odd")
        await scheduler.add("odd", id="series", every=60, times=2)
        await asyncio.sleep(3600)
        task = await scheduler.get("odd")
        assert (task.status, task.failures, task.result) == (Status.FAILED, 1, None)
        assert task.reason == "its result cannot be stored; it is not tried again"
        assert "cannot be stored" in (task.error or "")
        series = await scheduler.get("series")
        assert (series.status, series.runs) == (Status.FAILED, 2), "its next occurrence ran all the same"

    world.play(story)
    assert len(world.ran) == 3, "what it did was done once for each occurrence"
    assert world.kinds("odd") == ["added", "started", "failed"]


@pytest.mark.parametrize(("more", "status"), [(0, Status.COMPLETED), (1, Status.FAILED)])
def test_the_largest_result_that_is_accepted_is_kept(more: int, status: Status) -> None:
    world = World()
    result = "x" * (RESULT_BYTES_MAX - len('""') + more)

    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("large")
        async def large() -> str:
            return result

        await scheduler.add("large", id="large")
        await asyncio.sleep(10)
        task = await scheduler.get("large")
        assert task.status is status
        assert task.result == (result if status is Status.COMPLETED else None)

    world.play(story)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Unstoppable(BaseException):
    def __str__(self) -> str:
        raise SystemExit("no words")

    __repr__ = __str__


class Unbound(Exception):
    """Raises when it is asked for its class, as a proxy without an object does."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("not loaded")


class Hidden(Exception):
    """Raises whatever it is asked for."""

    def __getattribute__(self, name: str) -> Any:
        raise SystemExit(name)

    def __bool__(self) -> bool:
        raise SystemExit("bool")


class Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise KeyboardInterrupt

    @property
    def __mro__(cls) -> Any:
        raise KeyboardInterrupt


class Anonymous(BaseException, metaclass=Nameless):
    def __str__(self) -> str:
        raise SystemExit("no words")


class Causeless(Exception):
    @property
    def __cause__(self) -> Any:  # type: ignore[override]
        raise SystemExit("no cause")


class Talkative(str):
    __slots__ = ()

    def __bool__(self) -> bool:
        raise SystemExit("bool")

    def __ne__(self, other: object) -> bool:
        raise SystemExit("ne")

    __hash__ = str.__hash__


class Worded(BaseException):
    def __str__(self) -> str:
        return Talkative("words")


ODD = {
    "Unspeakable": Unspeakable,
    "Unstoppable": Unstoppable,
    "Unbound": Unbound,
    "Hidden": Hidden,
    "Anonymous": Anonymous,
    "Causeless": Causeless,
    "Worded": Worded,
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("pool", ["loop", "thread"])
def test_an_exception_that_cannot_be_shown_fails_its_task(name: str, pool: str) -> None:
    world, kind = World(), ODD[name]

    async def story(scheduler: AsyncScheduler) -> None:
        async def on_loop() -> None:
            raise kind

        def on_thread() -> None:
            raise kind

        scheduler.task("odd")(on_loop if pool == "loop" else on_thread)
        await scheduler.add("odd", id="odd")
        for _ in range(1000):
            task = await scheduler.get("odd")
            if task.status is Status.FAILED:
                break
            time.sleep(0.01)  # noqa: ASYNC251 - a thread takes real time, and the virtual one is short
            await asyncio.sleep(0.01)
        assert task.status is Status.FAILED
        assert name in (task.error or "")

    world.play(story)


class Stubborn(dict[str, int]):
    def items(self) -> Any:
        raise KeyboardInterrupt

    __iter__ = items
    keys = items


class Exiting(list[int]):
    def __iter__(self) -> Any:
        raise SystemExit


class Classless:
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise GeneratorExit


@pytest.mark.parametrize("kind", [Stubborn, Exiting, Classless])
@pytest.mark.parametrize("pool", ["loop", "thread"])
def test_a_result_that_raises_whatever_it_is_asked_for_fails_without_a_retry(kind: Any, pool: str) -> None:
    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        async def on_loop() -> Any:
            return kind()

        def on_thread() -> Any:
            return kind()

        scheduler.task("odd", retries=3)(on_loop if pool == "loop" else on_thread)
        await scheduler.add("odd", id="odd")
        for _ in range(1000):
            task = await scheduler.get("odd")
            if task.status is Status.FAILED:
                break
            time.sleep(0.01)  # noqa: ASYNC251 - a thread takes real time, and the virtual one is short
            await asyncio.sleep(0.01)
        assert (task.status, task.failures) == (Status.FAILED, 1)
        assert task.reason == "its result cannot be stored; it is not tried again"

    world.play(story)


def test_an_outcome_that_cannot_be_decided_counts_as_a_failure() -> None:
    class Slippery(RetryAfter):
        def __init__(self) -> None:
            super().__init__("5s")
            self.delay = Unprintable()  # an object of the caller's

    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("odd", retries=1)
        async def odd() -> None:
            raise Slippery

        await scheduler.add("odd", id="odd")
        await scheduler.add("note", {"what": "after"}, delay=60)
        await asyncio.sleep(600)
        task = await scheduler.get("odd")
        assert (task.status, task.failures) == (Status.FAILED, 2)

    world.play(story)
    assert [what for _, what in world.ran] == ["after"]


@pytest.mark.parametrize("delay", [-1, "300000000d", 10**400, "5 bananas", None])
def test_snooze_with_an_invalid_delay_is_no_failure_and_waits_a_minute(
    delay: Any, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("odd", retries=0)
        async def odd(context: TaskContext) -> None:
            world.ran.append((world.now(), f"attempt {context.attempt}"))
            if context.attempt == 1:
                raise Snooze(delay)

        await scheduler.add("odd", id="odd")
        await asyncio.sleep(600)
        task = await scheduler.get("odd")
        assert (task.status, task.failures) == (Status.COMPLETED, 0)
        assert [run.status for run in await scheduler.history("odd")] == [RunStatus.COMPLETED, RunStatus.SNOOZED]

    world.play(story)
    first, second = (moment for moment, _ in world.ran)
    assert 60_000 <= second - first < 61_000
    assert "task 'odd' raised Snooze: invalid duration" in caplog.text


@pytest.mark.parametrize("delay", [-1, 10**400, "5 bananas", None])
def test_retry_after_an_invalid_delay_counts_as_a_failure_with_the_usual_wait(delay: Any) -> None:
    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("odd", retries=1)
        async def odd() -> None:
            raise RetryAfter(delay)

        await scheduler.add("odd", id="odd")
        await asyncio.sleep(600)
        task = await scheduler.get("odd")
        assert (task.status, task.failures) == (Status.FAILED, 2)

    world.play(story)


# -- never early


@pytest.mark.parametrize("delay", [0.5, "250ms", 0.0001, 86_400])
def test_a_delay_is_counted_from_the_very_moment_and_rounded_up(delay: Any) -> None:
    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        world.clock.advance(0.0004)  # two fifths of a millisecond into it
        begun_ns = world.clock.time_ns()
        due_ns = begun_ns + to_ns(delay)
        added = [
            await scheduler.add("note", {"what": "a"}, delay=delay),
            (await scheduler.add_many([{"handler": "note", "args": {"what": "b"}, "delay": delay}]))[0],
        ]
        moved = await scheduler.add("note", {"what": "d"}, id="moved", delay="30d")
        added += [await scheduler.amend(moved.id, delay=delay), await scheduler.reschedule(moved.id, delay=delay)]
        assert world.clock.time_ns() == begun_ns
        for task in added:
            assert 0 <= task.run_at * 1_000_000 - due_ns < 1_000_000
            await scheduler.cancel(task.id)
        series = await scheduler.add("note", {"what": "c"}, every=delay)
        assert series.run_at * 1_000_000 >= due_ns

    world.play(story, run=False)


def test_a_wait_that_a_run_asks_for_is_not_cut_short() -> None:
    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        begun: list[int] = []

        @scheduler.task("later", retries=1)
        async def later() -> None:
            begun.append(world.clock.time_ns())
            if len(begun) == 1:
                world.clock.advance(0.0004)
                begun[0] = world.clock.time_ns()
                raise RetryAfter(0.01)

        await scheduler.add("later", id="later")
        await asyncio.sleep(60)
        assert begun[1] - begun[0] >= 10_000_000

    world.play(story)


OWN_WORDS = (
    InvalidResult("other", "t", "x"),
    ProcessDied("other", "t", -9),
    RunCancelled("t"),
    RunCancelled("t", closing=True),
    RunNotBegun("t"),
    RunTimedOut("t", 1),
    UnknownHandler("other", []),
    WorkersClosed(),
    WorkersFull(1),
)


@pytest.mark.parametrize("error", OWN_WORDS, ids=lambda error: type(error).__name__)
def test_an_error_of_the_workers_that_a_handler_raises_is_an_ordinary_failure(error: TickwheelError) -> None:
    scheduler = Scheduler("memory://")
    failed = {"loop": threading.Event(), "thread": threading.Event()}

    @scheduler.task("loop")
    async def on_loop() -> None:
        raise error

    @scheduler.task("thread")
    def on_thread() -> None:
        raise error

    def listen(event: Event) -> None:
        if event.kind == "failed":
            failed[event.task_id].set()

    scheduler.events.listen(listen)
    with scheduler:
        for pool, is_failed in failed.items():
            scheduler.add(pool, id=pool)
            assert is_failed.wait(60), f"{pool}: {scheduler.get(pool)}"
            task = scheduler.get(pool)
            assert (task.status, task.failures) == (Status.FAILED, 1)
            assert type(error).__name__ in (task.error or "")
            assert [run.status for run in scheduler.history(pool)] == ["failed"]


def until_ended(scheduler: Scheduler, task_id: str) -> Task:
    for _ in range(6000):
        task = scheduler.get(task_id)
        if task.status in ENDED:
            return task
        time.sleep(0.01)
    raise AssertionError(task)


def spoil_object(data: Any) -> None:
    data["seen"] = object()


def spoil_size(data: Any) -> None:
    data["log"] = "x" * 3_000_000


def spoil_cycle(data: Any) -> None:
    data["self"] = data


@pytest.mark.parametrize("spoil", [spoil_object, spoil_size, spoil_cycle])
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_what_a_handler_or_listener_does_to_its_data_reaches_no_store(spoil: Any, store: str, tmp_path: Path) -> None:
    url = "memory://" if store == "memory" else f"sqlite:///{tmp_path}/tasks.db"
    scheduler, given = Scheduler(url), list[Any]()
    scheduler.events.listen(lambda event: spoil(event.meta))

    @scheduler.task("bad", retry=RetryPolicy(retries=1, first_ms=1))
    def bad(order: Any, context: TaskContext) -> Any:
        given.append((str(order), str(context.meta), str(context.previous_result)))
        for data in (order, order["lines"][0], context.meta):
            spoil(data)
        raise ValueError

    @scheduler.task("good")
    def good() -> None: ...

    with scheduler:
        task = scheduler.add("bad", {"order": {"id": 7, "lines": [{}]}}, id="bad", meta={"user": {}})
        spoil(task.args)
        spoil(scheduler.get("bad").args)
        scheduler.add("good", id="good")
        finished = {task_id: until_ended(scheduler, task_id) for task_id in ("good", "bad")}
    assert [task.status for task in finished.values()] == [Status.COMPLETED, Status.FAILED]
    assert given == [("{'id': 7, 'lines': [{}]}", "{'user': {}}", "None")] * 2, "each attempt gets what was added"
    assert finished["bad"].args == {"order": {"id": 7, "lines": [{}]}}


def test_an_outcome_that_no_store_can_keep_keeps_no_other_from_being_written(caplog: pytest.LogCaptureFixture) -> None:
    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        engine: Any = scheduler._engine
        decide = engine._completer._decide

        def spoiled(task: Task, outcome: Any) -> None:
            decide(replace(task, args={"what": object()}) if task.id == "odd" else task, outcome)

        engine._completer._decide = spoiled
        await scheduler.add_many([{"handler": "note", "args": {"what": name}, "id": name} for name in ("odd", "good")])
        await asyncio.sleep(60)
        assert (await scheduler.get("good")).status is Status.COMPLETED
        assert (await scheduler.get("odd")).status is Status.RUNNING

    world.play(story)
    assert "task 'odd': its outcome cannot be written" in caplog.text


class Choosy:
    """A store that cannot take what is called odd, as if the task itself made the call fail."""

    def __init__(self, store: Store, verb: str, error: Exception) -> None:
        self._store = store
        self._verb = verb
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def finish(self, finishes: Sequence[Finish]) -> list[bool]:
        if self._verb == "finish" and any(finish.task.id == "odd" for finish in finishes):
            raise self._error
        return await self._store.finish(finishes)

    async def claim(self, leases: Sequence[Lease], ids: Sequence[str], until: int) -> list[Task]:
        if self._verb == "claim" and "odd" in ids:
            raise self._error
        return await self._store.claim(leases, ids, until)


@pytest.mark.parametrize("verb", ["finish", "claim"])
@pytest.mark.parametrize("error", [InvalidTask("no store takes it"), OverflowError("too large")])
def test_what_one_task_makes_fail_in_the_store_is_done_for_the_others(
    verb: str, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    store = world.store
    world.store = Choosy(store, verb, error)
    names = ["a", "b", "odd", "c", "d"]

    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add_many([{"handler": "note", "args": {"what": name}, "id": name} for name in names])
        await asyncio.sleep(60)
        found = {name: (await scheduler.get(name)).status for name in names}
        assert found.pop("odd") is not Status.COMPLETED
        assert set(found.values()) == {Status.COMPLETED}

    world.play(story)
    assert "task 'odd'" in caplog.text
    world.store = store

    async def again(scheduler: AsyncScheduler) -> None:
        await asyncio.sleep(60)
        assert (await scheduler.get("odd")).status is Status.COMPLETED

    world.play(again)


def test_orphans_that_cannot_be_written_keep_no_node_from_starting(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    store = world.store

    async def crash() -> None:
        await store.add([stored(name, handler="note", args={"what": name}) for name in ("a", "odd", "b")])
        leases = await store.acquire(range(store.partitions), "dead", 1)
        await store.claim(leases, ["a", "odd", "b"], 10**15)
        await store.release(leases)

    world.perform(crash)
    world.store = Choosy(store, "finish", InvalidTask("no store takes it"))

    async def story(scheduler: AsyncScheduler) -> None:
        await asyncio.sleep(60)
        assert {(await scheduler.get(name)).status for name in ("a", "b")} == {Status.COMPLETED}

    world.play(story)
    assert "task 'odd': its outcome cannot be written" in caplog.text


def test_stop_leaves_its_partitions_to_others_though_outcomes_cannot_be_written() -> None:
    world = World()

    async def story() -> None:
        scheduler = await world.scheduler().start()
        engine: Any = scheduler._engine

        async def flush() -> None:
            raise OSError("no memory")

        engine._completer.flush = flush
        with pytest.raises(OSError, match="no memory"):
            await scheduler.stop()
        assert await world.store.leases() == []

    world.perform(story)


class Slow(Exception):
    asked = threading.Event()
    free = threading.Event()

    def __str__(self) -> str:
        self.asked.set()
        assert self.free.wait(60)
        return "at last"


def test_an_exception_that_takes_long_to_be_shown_holds_up_its_own_thread_only() -> None:
    scheduler = Scheduler("memory://")

    @scheduler.task("slow")
    def slow() -> None:
        raise Slow

    @scheduler.task("quick")
    async def quick() -> None: ...

    with scheduler:
        scheduler.add("slow", id="slow")
        assert Slow.asked.wait(60)
        scheduler.add("quick", id="quick")
        assert until_ended(scheduler, "quick").status is Status.COMPLETED
        assert scheduler.get("slow").status is Status.RUNNING
        Slow.free.set()
        assert "at last" in (until_ended(scheduler, "slow").error or "")


@pytest.mark.parametrize(("before", "after"), [(0, 20), (25, 275), (145, 155)])
def test_what_has_not_begun_when_a_handler_cancels_everything_on_the_loop_runs_all_the_same(
    before: int, after: int
) -> None:
    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("cancel everything")
        async def cancel_everything() -> None:
            for task in asyncio.all_tasks() - {asyncio.current_task(), main}:
                task.cancel()

        main = asyncio.current_task()
        await scheduler.add("cancel everything", delay=1)
        wanted = [{"handler": "note", "args": {"what": ""}, "delay": 1, "priority": 1}] * before
        wanted += [{"handler": "note", "args": {"what": ""}, "delay": 1, "priority": -1}] * after
        tasks = await scheduler.add_many(wanted)
        await asyncio.sleep(3)
        over = [(await scheduler.get(task.id)).status for task in tasks]
        assert over == [Status.COMPLETED] * len(tasks)

    world.play(story)
