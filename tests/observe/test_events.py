"""The stream of events: who hears what, who is there when tasks are added, and what they cannot break."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import pytest
from msgspec.structs import replace

from tests.scheduler.worlds import World
from tickwheel.errors import DuplicateTask
from tickwheel.observe import Event
from tickwheel.scheduler import AsyncScheduler
from tickwheel.tasks import Status, Task


@pytest.fixture
def world() -> World:
    return World()


def test_events_say_when_a_task_is_due_what_it_raised_and_what_was_said_about_it(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("fail", {"what": "x"}, delay=10, id="x", retries=0, meta={"shop": "7"})
        await asyncio.sleep(20)

    due_at = world.now() + 10_000
    world.play(story)
    added, started, failed = (event for event in world.events if event.task_id == "x")
    assert (added.due_at, started.due_at) == (due_at, due_at)
    assert {event.meta["shop"] for event in (added, started, failed)} == {"7"}
    assert (added.error, started.error) == (None, None)
    assert "ValueError: x" in (failed.error or "")


def test_to_cancel_twice_is_told_once(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("note", {"what": "a"}, delay="1h", id="a")
        for _ in range(3):
            await scheduler.cancel("a")

    world.play(story)
    assert world.kinds("a") == ["added", "cancelled"]


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit])
@pytest.mark.parametrize("kind", ["added", "started", "completed"])
def test_a_listener_that_raises_harms_nobody(
    world: World, caplog: pytest.LogCaptureFixture, error: type[BaseException], kind: str
) -> None:
    def stumble(event: Event) -> None:
        if event.kind == kind:
            raise error(event.kind)

    async def story(scheduler: AsyncScheduler) -> None:
        scheduler.events.listen(stumble)
        for id_ in ("a", "b"):
            await scheduler.add("note", {"what": id_}, id=id_)
            await asyncio.sleep(1)
            assert (await scheduler.get(id_)).status is Status.COMPLETED

    world.play(story)
    assert [what for _, what in world.ran] == ["a", "b"]
    assert "a listener raised" in caplog.text


def test_a_witness_writes_on_what_is_added_and_sees_what_is_refused(world: World) -> None:
    seen: list[str] = []

    @contextmanager
    def witness(tasks: Sequence[Task]) -> Iterator[Sequence[Task]]:
        try:
            yield [replace(task, meta={**task.meta, "by": "witness"}) for task in tasks]
        except DuplicateTask:
            seen.append("refused")
            raise
        seen.append("added")

    async def story(scheduler: AsyncScheduler) -> None:
        leave = scheduler.events.attend(witness)
        await scheduler.add("note", {"what": "a"}, delay="1h", id="a", meta={"shop": "7"})
        assert (await scheduler.get("a")).meta == {"shop": "7", "by": "witness"}
        with pytest.raises(DuplicateTask):
            await scheduler.add("note", {"what": "a"}, id="a")
        leave()
        await scheduler.add("note", {"what": "b"}, delay="1h", id="b")
        assert (await scheduler.get("b")).meta == {}

    world.play(story)
    assert seen == ["added", "refused"]


def test_what_a_listener_sets_when_a_run_starts_is_seen_by_that_run_alone(world: World) -> None:
    current: ContextVar[str] = ContextVar("current", default="nothing")
    seen: list[tuple[str, str]] = []

    def begin(event: Event) -> None:
        if event.kind == "started":
            current.set(event.task_id)

    async def story(scheduler: AsyncScheduler) -> None:
        scheduler.events.listen(begin)

        @scheduler.task("look")
        async def look(name: str) -> None:
            seen.append((name, current.get()))
            await asyncio.sleep(5)
            seen.append((name, current.get()))

        @scheduler.task("look-on-a-thread")
        def look_there(name: str) -> None:
            seen.append((name, current.get()))

        for name in ("a", "b"):
            await scheduler.add("look", {"name": name}, id=name)
            await asyncio.sleep(1)
        await scheduler.add("look-on-a-thread", {"name": "c"}, id="c")
        while len(seen) < 5:  # noqa: ASYNC110 - a thread is not on the loop's time
            await asyncio.sleep(1)
        assert current.get() == "nothing"

    world.play(story)
    assert sorted(seen) == [("a", "a"), ("a", "a"), ("b", "b"), ("b", "b"), ("c", "c")]
