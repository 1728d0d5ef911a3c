"""Of all that is due, the most urgent that can begin is taken, and nothing else is in its way."""

import asyncio
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from threading import Event as Flag
from threading import Semaphore
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.worlds import World
from tickwheel.scheduler import AsyncScheduler
from tickwheel.scheduler.engine.ready_tasks import ReadyTasks
from tickwheel.stores import Due
from tickwheel.tasks import RetryPolicy, Status
from tickwheel.tasks.record import RunStatus


def due(task_id: str, handler: str = "h", run_at: int = 0, priority: int = 0, partition: int = 0) -> Due:
    return Due(run_at, task_id, partition, priority, 0, handler)


def ids(entries: list[Due]) -> list[str]:
    return [entry.id for entry in entries]


def anything(_: str) -> bool:
    return True


def test_the_highest_priority_of_all_handlers_comes_first_then_the_oldest() -> None:
    ready = ReadyTasks()
    for entry in (due("a", "x", 5), due("b", "y", 3), due("c", "x", 9, 7), due("d", "z", 1, -1), due("e", "y", 5)):
        ready.put(entry)
    assert ids(ready.take(3, anything)) == ["c", "b", "a"]
    assert ids(ready.take(9, anything)) == ["e", "d"]
    assert len(ready) == 0


def test_a_handler_that_can_begin_nothing_is_not_in_the_way() -> None:
    ready = ReadyTasks()
    for number in range(3000):
        ready.put(due(f"blocked-{number}", "blocked", number, priority=9))
    ready.put(due("free", "other", 5000, priority=-9))
    assert ids(ready.take(10, lambda name: name != "blocked")) == ["free"]
    left = Counter(blocked=2)

    def admits(name: str) -> bool:
        left[name] -= 1
        return left[name] >= 0

    assert ids(ready.take(10, admits)) == ["blocked-0", "blocked-1"]
    assert len(ready) == 2998


def test_what_is_dropped_or_changed_is_taken_once_as_it_is_now() -> None:
    ready = ReadyTasks()
    for number in range(500):
        ready.put(due(str(number), run_at=number))
    for number in range(0, 500, 2):
        ready.drop(str(number))
    ready.put(due("499", run_at=-1))
    ready.put(due("1", "other", run_at=1000))
    assert ready.oldest_due() == -1
    taken = ids(ready.take(1000, anything))
    assert taken == ["499", *(str(number) for number in range(3, 499, 2)), "1"]


def test_partitions_that_are_lost_take_their_tasks_along() -> None:
    ready = ReadyTasks()
    for number in range(10):
        ready.put(due(str(number), partition=number % 2))
    ready.drop_partitions({0})
    assert ids(ready.take(10, anything)) == ["1", "3", "5", "7", "9"]


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.sampled_from("xyz"), st.integers(0, 5), st.integers(-2, 2)), max_size=40
    ),
    st.sets(st.sampled_from("abcdef")),
    st.sets(st.sampled_from("xyz")),
)
def test_it_takes_what_a_sorted_list_would(
    puts: list[tuple[str, str, int, int]], dropped: set[str], blocked: set[str]
) -> None:
    ready = ReadyTasks()
    model: dict[str, Due] = {}
    for task_id, handler, run_at, priority in puts:
        model[task_id] = due(task_id, handler, run_at, priority)
        ready.put(model[task_id])
    for task_id in dropped:
        model.pop(task_id, None)
        ready.drop(task_id)
    assert len(ready) == len(model)
    order = sorted(model.values(), key=lambda entry: (-entry.priority, entry.run_at, entry.id))
    assert ready.take(100, lambda name: name not in blocked) == [e for e in order if e.handler not in blocked]
    assert ready.take(100, anything) == [e for e in order if e.handler in blocked]


# -- with the engine


@pytest.fixture
def world() -> World:
    return World()


def test_a_handler_at_its_limit_holds_up_no_other(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("slow", concurrency=1)
        async def slow() -> None:
            await asyncio.sleep(3600)

        await scheduler.add_many({"handler": "slow", "priority": 1000} for _ in range(3000))
        await asyncio.sleep(1)
        await scheduler.add("note", {"what": "urgent"}, id="urgent")
        begun = world.now()
        await asyncio.sleep(1)
        assert [what for _, what in world.ran] == ["urgent"]
        assert world.ran[0][0] - begun <= 50
        counts = await scheduler.counts()
        assert counts[Status.RUNNING] <= 2, "what cannot begin is not claimed"

    world.play(story, grace_s=0)


def test_threads_that_hang_hold_up_neither_the_loop_nor_the_claims(world: World) -> None:
    end = Flag()

    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("hang")
        def hang() -> None:
            end.wait()

        @scheduler.task("quick")
        def quick(what: str) -> None:
            world.ran.append((world.now(), what))

        await scheduler.add_many({"handler": "hang"} for _ in range(4))
        await asyncio.sleep(1)
        await scheduler.add("quick", {"what": "thread"}, id="thread")
        await scheduler.add("note", {"what": "loop"}, id="loop")
        await asyncio.sleep(1)
        assert [what for _, what in world.ran] == ["loop"]
        assert (await scheduler.get("thread")).status is Status.PENDING
        end.set()
        while (await scheduler.get("thread")).status is not Status.COMPLETED:  # noqa: ASYNC110 - virtual seconds
            await asyncio.sleep(0.01)
        assert [what for _, what in world.ran] == ["loop", "thread"]

    world.play(story, threads=4)


def test_threads_that_are_stuck_do_not_stop_the_next_task_and_are_not_retried(world: World) -> None:
    end = Flag()

    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("hang", timeout=5, retry=RetryPolicy(retries=5, first_ms=100))
        def hang(what: str) -> None:
            world.ran.append((world.now(), what))
            end.wait()

        @scheduler.task("quick")
        def quick() -> None: ...

        await scheduler.add_many({"handler": "hang", "args": {"what": f"{n}"}, "id": f"{n}"} for n in range(4))
        await asyncio.sleep(1)
        await scheduler.add("quick", id="quick")
        await asyncio.sleep(1)
        assert (await scheduler.get("quick")).status is Status.PENDING, "all threads are busy"
        while (await scheduler.get("quick")).status is not Status.COMPLETED:  # noqa: ASYNC110 - virtual seconds
            await asyncio.sleep(0.1)
        await asyncio.sleep(60)
        assert len(world.ran) == 4, "none is retried while its thread goes on"
        stuck = await scheduler.get("0")
        assert (stuck.status, stuck.reason) == (Status.RUNNING, "stuck: its handler ignores its timeout")
        assert (scheduler.where(stuck), stuck.reason_code) == (stuck.reason, "stuck")
        end.set()
        while (await scheduler.counts())[Status.COMPLETED] < 5:  # noqa: ASYNC110 - virtual seconds
            await asyncio.sleep(0.1)
        assert len(world.ran) == 8, "each failed by its timeout, and was retried"

    world.play(story, threads=4)


def test_async_run_that_ignores_its_timeout_is_stuck_and_not_retried_beside_itself(world: World) -> None:
    end, inside = asyncio.Event(), []

    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("hold", timeout=5, retry=RetryPolicy(retries=1, first_ms=100))
        async def hold(what: str) -> None:
            world.ran.append((world.now(), what))
            inside.append(what)
            assert inside == [what], "never beside itself"
            with suppress(asyncio.CancelledError):
                await end.wait()
            await end.wait()
            inside.remove(what)

        await scheduler.add("hold", {"what": "a"}, id="a")
        await asyncio.sleep(60)
        await scheduler.add("note", {"what": "other"}, id="other")
        await asyncio.sleep(60)
        stuck = await scheduler.get("a")
        assert (stuck.status, stuck.reason_code) == (Status.RUNNING, "stuck")
        assert [what for _, what in world.ran] == ["a", "other"]
        end.set()
        await asyncio.sleep(1)
        ended = await scheduler.get("a")
        assert (ended.status, ended.reason_code) == (Status.COMPLETED, None)
        assert [run.status for run in await scheduler.history("a")] == [RunStatus.COMPLETED, RunStatus.FAILED]

    world.play(story)


@pytest.mark.parametrize("is_stuck", [True, False])
def test_stop_does_not_wait_for_an_async_run_that_ignores_its_cancellation(world: World, is_stuck: bool) -> None:
    end = asyncio.Event()

    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("hold", timeout=5 if is_stuck else "1h", retry=RetryPolicy(retries=1, first_ms=100))
        async def hold() -> None:
            with suppress(asyncio.CancelledError):
                await end.wait()
            await end.wait()

        await scheduler.add("hold", id="a")
        await asyncio.sleep(60)
        before = world.now()
        await scheduler.stop(3)
        waited_ms = world.now() - before
        assert 3_000 <= waited_ms < (4_000 if is_stuck else 9_000), "its grace, and patience unless it is stuck"
        [task] = await world.store.get(["a"])
        assert task is not None
        assert task.status is Status.PENDING
        end.set()

    world.play(story)


def test_of_ten_thousand_that_are_due_the_highest_priority_begins_first(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("one", concurrency=1)
        async def one(number: int) -> None:
            world.ran.append((world.now(), str(number)))
            await asyncio.sleep(0.01)

        await scheduler.add_many(
            {"handler": "one", "args": {"number": number}, "priority": number // 10, "delay": 60}
            for number in range(9_999)
        )
        await asyncio.sleep(62)
        order = [int(number) // 10 for _, number in world.ran]
        assert len(order) > 100
        assert order[0] == 999
        assert order == sorted(order, reverse=True)

    world.play(story, grace_s=0)


def test_tasks_that_come_due_one_after_another_are_claimed_and_finished_together(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, int]] = []

    def note(verb: str) -> None:
        call = getattr(world.store, verb)

        async def noted(*arguments: Any) -> Any:
            calls.append((verb, world.now()))
            return await call(*arguments)

        monkeypatch.setattr(world.store, verb, noted)

    note("claim")
    note("finish")

    async def story(scheduler: AsyncScheduler) -> None:
        now = world.now()
        await scheduler.add_many(
            {"handler": "note", "args": {"what": str(due)}, "at": datetime.fromtimestamp((now + due) / 1000, UTC)}
            for due in range(1000, 3000)
        )
        await asyncio.sleep(5)
        assert [int(what) + now for _, what in world.ran] == list(range(now + 1000, now + 3000))
        assert all(0 <= ran - now - int(what) <= 2 for ran, what in world.ran)

    world.play(story)
    claims, finishes = ([at for verb, at in calls if verb == each] for each in ("claim", "finish"))
    assert len(claims) <= 2 * 41  # each is made when the first is due in half of the 50 ms that it is for
    assert len(set(finishes) - set(claims)) <= 2 * 5  # nearly all at the moment of a claim, which is one commit then


def test_one_outcome_alone_is_written_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    finished: list[int] = []
    finish = world.store.finish

    async def noted(*arguments: Any) -> Any:
        finished.append(world.now())
        return await finish(*arguments)

    monkeypatch.setattr(world.store, "finish", noted)

    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("note", {"what": "alone"}, delay=1)
        await asyncio.sleep(2)

    world.play(story)
    assert finished[0] == world.ran[0][0]


def test_thousands_of_slow_threads_hold_up_neither_the_loop_nor_a_higher_priority(world: World) -> None:
    begun, end = Semaphore(0), Flag()

    async def story(scheduler: AsyncScheduler) -> None:
        @scheduler.task("slow")
        def slow() -> None:
            world.ran.append((world.now(), "slow"))
            begun.release()
            end.wait()

        @scheduler.task("quick")
        def quick() -> None:
            world.ran.append((world.now(), "quick"))

        await scheduler.add_many({"handler": "slow"} for _ in range(3000))
        await asyncio.sleep(1)
        for _ in range(4):
            assert begun.acquire(timeout=60)  # no virtual time passes meanwhile
        assert (await scheduler.counts())[Status.RUNNING] == 4, "what cannot begin is not claimed"
        added = world.now()
        await scheduler.add("quick", priority=1000, id="quick")
        await scheduler.add("note", {"what": "loop"}, priority=1000)
        await asyncio.sleep(1)
        assert Counter(what for _, what in world.ran) == {"slow": 4, "loop": 1}
        assert world.ran[-1][0] - added <= 50
        end.set()
        while (await scheduler.counts())[Status.COMPLETED] < 3002:  # noqa: ASYNC110 - virtual seconds
            await asyncio.sleep(0.01)
        assert "quick" in [what for _, what in world.ran][:50], "of what waits for a thread it is the first"

    world.play(story, threads=4)


def test_others_on_the_loop_have_their_turn_while_many_begin(world: World) -> None:
    steps: list[int] = []

    async def story(scheduler: AsyncScheduler) -> None:
        begun, watched = asyncio.Event(), 0

        @scheduler.task("count")
        async def count() -> None:
            nonlocal watched
            watched += 1
            begun.set()

        await scheduler.add_many({"handler": "count", "delay": 1} for _ in range(1000))
        await begun.wait()
        while watched < 1000:
            before = watched
            await asyncio.sleep(0)
            steps.append(watched - before)

    world.play(story)
    assert sum(steps) > 500
    assert max(steps) <= 256, "a few milliseconds at most"
