"""Starting and stopping: once or often, at the same time, and broken off at any moment."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.scheduler.worlds import World
from tickwheel import aio
from tickwheel.errors import InvalidDuration, SchedulerNotStarted, SchedulerOnOtherLoop
from tickwheel.scheduler import AsyncScheduler, Scheduler
from tickwheel.stores import Store
from tickwheel.stores.memory import MemoryStore
from tickwheel.tasks import Status

PATIENCE_S = 60.0

VERBS: dict[str, Callable[[AsyncScheduler], Awaitable[Any]]] = {
    "add": lambda scheduler: scheduler.add("note", {"what": "a"}),
    "add_many": lambda scheduler: scheduler.add_many([{"handler": "note"}]),
    "get": lambda scheduler: scheduler.get("a"),
    "list": lambda scheduler: scheduler.list(),
    "cancel": lambda scheduler: scheduler.cancel("a"),
    "reschedule": lambda scheduler: scheduler.reschedule("a", delay=1),
    "run_now": lambda scheduler: scheduler.run_now("a"),
    "purge": lambda scheduler: scheduler.purge(),
    "lease": lambda scheduler: scheduler.lease("emails"),
}


class SlowStore:
    """A store that takes a step of the loop before it does what it is asked to, and one before it answers."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def slow(*args: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(0)
            answer = await found(*args, **kwargs)
            await asyncio.sleep(0)
            return answer

        return slow


@pytest.fixture
def world() -> World:
    world = World()
    world.store = SlowStore(MemoryStore(now_ms=world.now))
    return world


def others() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - {asyncio.current_task()}


async def check_stopped(world: World, scheduler: AsyncScheduler) -> None:
    assert not scheduler.is_open
    assert others() == set(), "nothing runs"
    assert await world.store.leases() == [], "no partitions are held"
    assert await world.store.heartbeat("asker", 1) == ["asker"], "no node is left behind"
    await world.store.leave("asker")


async def check_works(world: World, scheduler: AsyncScheduler, name: str) -> None:
    async with scheduler:
        assert len(await scheduler.leases()) == 64
        await scheduler.add("note", {"what": name})
        await asyncio.sleep(1)
        assert world.ran[-1][1] == name


async def cancel_after(world: World, steps: int, call: Awaitable[Any]) -> bool:
    """Cancel a call after some steps of the loop, a millisecond each; return whether it was over before."""
    task = asyncio.ensure_future(call)
    for _ in range(steps):
        world.clock.advance("1ms")  # the loop has no idle moment to do that itself
        await asyncio.sleep(0)
    if task.done():
        return True
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return False


def test_start_cancelled_after_any_number_of_steps_leaves_nothing_behind(world: World) -> None:
    async def main() -> int:
        steps = 0
        while True:
            scheduler = world.scheduler()
            if await cancel_after(world, steps, scheduler.start()):
                await scheduler.stop()
                return steps
            await check_stopped(world, scheduler)
            await check_works(world, scheduler, f"after {steps}")
            steps += 1

    assert aio.run(main(), clock=world.clock) > 10


def test_start_that_is_cancelled_leaves_no_node_of_a_file_behind(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"

    def lock_files() -> list[Path]:
        return list(tmp_path.glob("*-node-*"))

    def threads() -> set[threading.Thread]:
        return {each for each in threading.enumerate() if each.name in ("tickwheel-reader", "tickwheel-writer")}

    async def main() -> None:
        async with AsyncScheduler(url):
            assert lock_files()
        async with AsyncScheduler(url, run=False) as client:
            before = threads()
            for steps in range(40):  # a start takes some tens, as the threads of the store answer
                starting = asyncio.create_task(AsyncScheduler(url).start())
                for _ in range(steps):
                    await asyncio.sleep(0.001)
                starting.cancel()
                with suppress(asyncio.CancelledError):
                    await (await starting).stop()
                if closing := others():  # a file that was opened for nobody is closed in a thread
                    await asyncio.wait(closing, timeout=PATIENCE_S)
                assert others() == set()
                assert await client.leases() == []
                for thread in threads() - before:
                    thread.join(PATIENCE_S)  # it ends by itself
                assert (lock_files(), threads() - before) == ([], set()), "no ghost is left"

    asyncio.run(main())


def test_stop_cancelled_after_any_number_of_steps_has_stopped(world: World) -> None:
    async def main() -> int:
        steps = 1  # cancelled before its first step, it is not called at all
        while True:
            scheduler = await world.scheduler(grace_s=1000.0).start()
            await scheduler.add("work", {"what": "long", "seconds": 20.0}, id=f"long {steps}")
            await asyncio.sleep(1)
            ended = await cancel_after(world, steps, scheduler.stop(0))
            await check_stopped(world, scheduler)
            assert (await world.store.get([f"long {steps}"]))[0].status is Status.PENDING  # type: ignore[union-attr]
            await world.store.remove([f"long {steps}"])
            if ended:
                return steps
            await check_works(world, scheduler, f"after {steps}")
            steps += 1

    assert aio.run(main(), clock=world.clock) > 10


def test_stop_that_is_cancelled_waits_no_longer_for_runs(world: World) -> None:
    async def main() -> None:
        scheduler = await world.scheduler(grace_s=1000.0).start()
        await scheduler.add("work", {"what": "long", "seconds": 200.0})
        await asyncio.sleep(1)
        begun_ms = world.now()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await scheduler.stop()
        assert world.now() - begun_ms < 6_000
        await check_stopped(world, scheduler)

    aio.run(main(), clock=world.clock)


def test_three_starts_at_once_make_one_engine(world: World) -> None:
    async def main() -> None:
        alone = await world.scheduler().start()
        loops = len(others())
        await alone.stop()
        scheduler = world.scheduler()
        await asyncio.gather(scheduler.start(), scheduler.start(), scheduler.start())
        await scheduler.start()
        assert len(others()) == loops
        assert {lease.node for lease in await scheduler.leases()} == {scheduler.node}
        await asyncio.gather(scheduler.stop(), scheduler.stop(), scheduler.stop())
        await scheduler.stop()
        await check_stopped(world, scheduler)

    aio.run(main(), clock=world.clock)


def test_a_start_that_waits_for_another_one_takes_over_when_that_is_cancelled(world: World) -> None:
    async def main() -> None:
        scheduler = world.scheduler()
        first, second = asyncio.ensure_future(scheduler.start()), asyncio.ensure_future(scheduler.start())
        for _ in range(5):
            await asyncio.sleep(0)
        first.cancel()
        await second
        assert first.cancelled()
        assert len(await scheduler.leases()) == 64
        await scheduler.stop()
        await check_stopped(world, scheduler)

    aio.run(main(), clock=world.clock)


def test_start_and_stop_at_once_come_one_after_the_other(world: World) -> None:
    async def main() -> None:
        scheduler = world.scheduler()
        await asyncio.gather(scheduler.start(), scheduler.stop(), scheduler.start(), scheduler.stop())
        await check_stopped(world, scheduler)
        await check_works(world, scheduler, "later")

    aio.run(main(), clock=world.clock)


@pytest.mark.parametrize("verb", VERBS)
def test_a_scheduler_that_is_not_started_says_so(world: World, verb: str) -> None:
    async def main() -> None:
        scheduler = world.scheduler()
        with pytest.raises(SchedulerNotStarted, match="is not started; use it in a `with` block"):
            await VERBS[verb](scheduler)
        await scheduler.start()
        await scheduler.stop()
        with pytest.raises(SchedulerNotStarted, match=r"was stopped; call start\(\)"):
            await VERBS[verb](scheduler)
        await check_stopped(world, scheduler)

    aio.run(main(), clock=world.clock)


@pytest.mark.parametrize("verb", [*VERBS, "start", "stop"])
def test_a_scheduler_that_was_started_on_another_loop_says_so(verb: str, tmp_path: Path) -> None:
    scheduler = AsyncScheduler(f"sqlite:///{tmp_path / 'tasks.db'}")

    @scheduler.task("note")
    async def note(what: str) -> None: ...

    async def call() -> None:
        calling = (
            scheduler.start() if verb == "start" else scheduler.stop(0) if verb == "stop" else VERBS[verb](scheduler)
        )
        await asyncio.wait_for(calling, PATIENCE_S)

    with asyncio.Runner() as runner:
        runner.run(scheduler.start())
        with pytest.raises(SchedulerOnOtherLoop, match="on another event loop; start it, use it and stop it on one"):
            asyncio.run(call())
        runner.run(scheduler.stop())
    asyncio.run(scheduler.stop())  # it is stopped: no effect


def test_a_scheduler_whose_loop_is_closed_neither_hangs_nor_acknowledges() -> None:
    scheduler = AsyncScheduler("memory://", run=False)
    asyncio.run(scheduler.start())
    for call in (scheduler.add("note"), scheduler.start(), scheduler.stop()):
        with pytest.raises(SchedulerOnOtherLoop, match="another event loop, which is closed"):
            asyncio.run(asyncio.wait_for(call, PATIENCE_S))


def test_a_handler_can_add_tasks_while_the_scheduler_stops(world: World) -> None:
    async def main() -> None:
        scheduler = world.scheduler()

        @scheduler.task("chain")
        async def chain() -> None:
            await asyncio.sleep(5)
            await scheduler.add("note", {"what": "next"}, id="next")

        async with scheduler:
            await scheduler.add("chain", id="chain")
            await asyncio.sleep(1)
        [first, second] = await world.store.get(["chain", "next"])
        assert (first.status, second.status) == (Status.COMPLETED, Status.PENDING)  # type: ignore[union-attr]

    aio.run(main(), clock=world.clock)
    assert world.ran == []


# -- what has not begun when it is stopped


def test_a_task_that_waits_for_a_worker_does_not_begin_once_stop_was_called(world: World) -> None:
    async def main() -> None:
        scheduler = world.scheduler()

        @scheduler.task("single", concurrency=1)
        async def single(what: str) -> None:
            world.ran.append((world.now(), what))
            await asyncio.sleep(10)

        async with scheduler:
            for name in ("first", "second", "third"):
                await scheduler.add("single", {"what": name}, id=name)
            await asyncio.sleep(1)
        assert [what for _, what in world.ran] == ["first"]
        first, *rest = await world.store.get(["first", "second", "third"])
        assert first is not None
        assert first.status is Status.COMPLETED
        for task in rest:
            assert task is not None
            assert (task.status, task.failures, task.started_at) == (Status.PENDING, 0, None)
            assert task.reason is None, "what cannot begin is not claimed"
            assert await world.store.history(task.id) == []
        async with scheduler:
            await asyncio.sleep(60)
        assert sorted(what for _, what in world.ran) == ["first", "second", "third"]

    aio.run(main(), clock=world.clock)


def test_a_task_that_waits_for_its_moment_does_not_begin_once_stop_was_called(world: World) -> None:
    async def main() -> None:
        async with world.scheduler(ahead_ms=2_000) as scheduler:
            await scheduler.add("work", {"what": "long", "seconds": 10.0})
            await scheduler.add("note", {"what": "soon"}, delay=1.5, id="soon")
            await asyncio.sleep(1)
            [soon] = await world.store.get(["soon"])
            assert soon is not None
            assert soon.status is Status.RUNNING, "it is claimed"
        assert [what for _, what in world.ran] == ["long"]
        [soon] = await world.store.get(["soon"])
        assert soon is not None
        assert (soon.status, soon.failures) == (Status.PENDING, 0)

    aio.run(main(), clock=world.clock)


def test_a_released_task_runs_elsewhere_while_the_first_scheduler_still_drains() -> None:
    world = World(lease_ttl_ms=3_000)

    async def main() -> None:
        first, second = world.scheduler(), world.scheduler()

        for scheduler in (first, second):

            @scheduler.task("single", concurrency=1)
            async def single(what: str) -> None:
                world.ran.append((world.now(), what))
                await asyncio.sleep(15)

        await first.start()
        for name in "ab":
            await first.add("single", {"what": name}, id=name)
        await asyncio.sleep(1)
        await second.start()
        begun_ms = world.now()
        await first.stop()
        assert [what for _, what in world.ran] == ["a", "b"]
        assert world.ran[1][0] - begun_ms < 5_000, "the other one did not wait for the first to end"
        await second.stop()

    aio.run(main(), clock=world.clock)


# -- the grace period


@pytest.mark.parametrize(("where", "anew"), [("sqlite", False), ("sqlite", True), ("a store", False)])
def test_a_thread_that_outlives_stop_keeps_its_task_from_running_beside_it(
    where: str, anew: bool, tmp_path: Path
) -> None:
    calls: list[str] = []
    begun, may_return, after, again = (threading.Event() for _ in range(4))

    def hold() -> None:
        calls.append("hold")
        (begun if len(calls) == 1 else again).set()
        assert may_return.wait(PATIENCE_S)

    def make() -> Scheduler:
        store = MemoryStore(now_ms=lambda: time.time_ns() // 1_000_000)
        scheduler = Scheduler(f"sqlite:///{tmp_path / 'tasks.db'}" if where == "sqlite" else store)
        scheduler.task("hold")(hold)
        scheduler.task("after")(after.set)
        return scheduler

    scheduler = make()
    with scheduler:
        scheduler.add("hold", id="held")
        assert begun.wait(PATIENCE_S)
        scheduler.stop(0)
    if anew:
        scheduler = make()
    with scheduler:
        scheduler.add("after", priority=-1)
        assert after.wait(PATIENCE_S)
        held = scheduler.get("held")
        assert (held.status, held.reason_code, calls) == (Status.PENDING, "no_capacity", ["hold"])
        may_return.set()
        assert again.wait(PATIENCE_S)
    assert calls == ["hold", "hold"]


def test_a_grace_period_can_be_given_to_stop(world: World) -> None:
    async def main() -> None:
        scheduler = await world.scheduler(grace_s=5.0).start()
        await scheduler.add("work", {"what": "long", "seconds": 20.0}, id="long")
        await asyncio.sleep(1)
        await scheduler.stop("1m")
        assert (await world.store.get(["long"]))[0].status is Status.COMPLETED  # type: ignore[union-attr]

    aio.run(main(), clock=world.clock)


@pytest.mark.parametrize("grace", [-1, -0.001, "-1s", "soon", float("nan")])
def test_a_grace_period_that_is_none_is_refused_and_nothing_is_stopped(world: World, grace: Any) -> None:
    async def main() -> None:
        async with world.scheduler() as scheduler:
            with pytest.raises(InvalidDuration) as raised:
                await scheduler.stop(grace)
            assert raised.value.field == "grace"
            assert await scheduler.counts()

    aio.run(main(), clock=world.clock)
    with Scheduler("memory://") as scheduler:
        with pytest.raises(InvalidDuration, match="grace: "):
            scheduler.stop(grace)
        assert scheduler.counts()


def test_a_second_stop_can_make_the_grace_period_shorter(world: World) -> None:
    async def main() -> None:
        scheduler = await world.scheduler(grace_s=1000.0).start()
        await scheduler.add("work", {"what": "long", "seconds": 200.0}, id="long")
        await asyncio.sleep(1)
        begun_ms = world.now()
        patient = asyncio.ensure_future(scheduler.stop())
        await asyncio.sleep(1)
        await scheduler.stop(2)
        await patient
        assert 3_000 <= world.now() - begun_ms < 4_000

    aio.run(main(), clock=world.clock)


def test_a_scheduler_goes_on_though_a_handler_cancels_all_asyncio_tasks(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        scheduler = world.scheduler()

        @scheduler.task("clean up")
        async def clean_up() -> None:
            for task in others() - {story}:
                task.cancel()

        story = asyncio.current_task()
        async with scheduler:
            for round_ in range(3):
                await scheduler.add("clean up", id=f"{round_}")
                await asyncio.sleep(1)
                await scheduler.add("note", {"what": f"after {round_}"})
                await asyncio.sleep(1)
                assert (await scheduler.get(f"{round_}")).status is Status.COMPLETED
        assert [what for _, what in world.ran] == [f"after {round_}" for round_ in range(3)]

    aio.run(main(), clock=world.clock)
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 3, "and an orderly end is none"


def test_a_program_that_ends_without_stopping_its_scheduler_ends() -> None:
    program = """
import asyncio
from tickwheel import AsyncScheduler

async def main():
    await AsyncScheduler("memory://").start()

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert "begin again" in done.stderr
    assert "Task was destroyed" not in done.stderr
