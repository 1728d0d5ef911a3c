"""BPMN processes end to end, in real time: what has to be alike on every store of instances."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from SpiffWorkflow.bpmn.script_engine import PythonScriptEngine, TaskDataEnvironment

from tests.workflow.bpmn import boundary, catch, ends, flow, process, script, timer, user
from tickwheel import aio
from tickwheel.errors import InstanceStuck, InvalidProcess, UnknownInstance, UnknownProcess, UnknownWorkItem
from tickwheel.scheduler import AsyncScheduler
from tickwheel.tasks import Status
from tickwheel.workflow import TimeoutRule
from tickwheel.workflow.instances import Instance, Notice
from tickwheel.workflow.spiff import SpiffEngine

__all__ = ["OnAStore", "Place"]

APPROVE = process(
    ends("end", "too_late"),
    user("approve"),
    boundary("late", "approve", timer("duration", "limit")),
    script("note_late", "note('late')"),
    flow("begin", "approve", "end"),
    flow("late", "note_late", "too_late"),
    name="approve_it",
)
ASK = process(ends(), user("ask"), flow("begin", "ask", "end"), name="ask_it")
REMIND = process(
    ends("end", "e2"),
    user("approve"),
    boundary("remind", "approve", timer("cycle", "'R2/PT1S'"), interrupting=False),
    script("say", "note('remind')"),
    flow("begin", "approve", "end"),
    flow("remind", "say", "e2"),
    name="remind_it",
)


class Place:
    """Where instances and tasks are, and what scripts and notices said."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.noted: list[str] = []
        self.sent: list[Notice] = []

    @asynccontextmanager
    async def open(
        self, tasks: str = "tasks", *, run: bool = True, **options: Any
    ) -> AsyncIterator[tuple[SpiffEngine, AsyncScheduler]]:
        async def send(notice: Notice) -> None:
            self.sent.append(notice)

        scheduler = AsyncScheduler(f"sqlite:///{self.folder}/{tasks}.db", run=run, lease_ttl_ms=1000)
        scripts = PythonScriptEngine(TaskDataEnvironment({"note": self.noted.append}))
        async with SpiffEngine(self.url, scheduler, script_engine=scripts, on_notice=send, **options) as engine:
            yield engine, scheduler

    def file(self, text: str) -> Path:
        path = self.folder / f"{hash(text)}.bpmn"
        path.write_text(text)
        return path

    def play(self, story: Callable[[SpiffEngine, AsyncScheduler], Coroutine[Any, Any, None]], **options: Any) -> None:
        async def main() -> None:
            async with self.open(**options) as (engine, scheduler):
                for text in (APPROVE, ASK, REMIND):
                    await engine.deploy(self.file(text))
                await story(engine, scheduler)

        aio.run(main())


async def until(ready: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    async with asyncio.timeout(60):
        while not await ready():  # noqa: ASYNC110 - schedulers and stores, and nobody to tell
            await asyncio.sleep(0.01)


async def over(engine: SpiffEngine, instance: str) -> Instance:
    async def is_over() -> bool:
        return (await engine.get(instance)).status != "running"

    await until(is_over)
    return await engine.get(instance)


class OnAStore:
    """Tests for every store of instances; a subclass brings the fixture `place`."""

    def test_a_timer_of_the_process_fires_by_itself(self, place: Place) -> None:
        async def story(engine: SpiffEngine, scheduler: AsyncScheduler) -> None:
            instance = await engine.start("approve_it", {"limit": "PT0.2S"})
            [item] = await engine.items(instance=instance)
            [waiting] = (await scheduler.list(handler="bpmn.timer")).tasks
            done = await over(engine, instance)
            assert done.finished_at is not None
            assert done.finished_at >= waiting.run_at
            assert place.noted == ["late"]
            found = await engine.find(item.id)
            assert found is not None
            assert (found.state, found.reason) == ("cancelled", "the process went on without it")
            assert not await engine.complete(item.id, by="ann"), "it is too late"

        place.play(story)

    def test_a_user_who_is_in_time_cancels_the_timer(self, place: Place) -> None:
        async def story(engine: SpiffEngine, scheduler: AsyncScheduler) -> None:
            instance = await engine.start("approve_it", {"limit": "P1D"}, id="expense-7")
            assert await engine.start("approve_it", {"limit": "P2D"}, id="expense-7") == instance, "twice is once"
            [item] = await engine.items(node="approve")
            assert (item.instance, item.process) == ("expense-7", "approve_it")
            assert await engine.complete(item.id, by="ann", reason="fine", variables={"approved": True})
            assert not await engine.complete(item.id, by="bob")
            done = await engine.get(instance)
            assert (done.status, done.data["approved"], done.timers) == ("completed", True, {})
            [task] = (await scheduler.list(handler="bpmn.timer")).tasks
            assert (task.status, task.reason) == (Status.CANCELLED, "the process went on")
            [ended] = await engine.items(instance=instance, state=None)
            assert (ended.ended_by, ended.reason) == ("ann", "fine")

        place.play(story)

    def test_an_instance_goes_on_in_another_program_that_never_saw_its_bpmn(self, place: Place) -> None:
        async def begin(engine: SpiffEngine, _scheduler: AsyncScheduler) -> None:
            await engine.start("approve_it", {"limit": "PT0.5S"}, id="a")
            await engine.start("ask_it", id="b")

        async def go_on() -> None:
            async with place.open() as (engine, _):
                await over(engine, "a")
                [item] = await engine.items(instance="b")
                assert await engine.complete(item.id, by="ann")
                assert (await engine.get("b")).status == "completed"

        place.play(begin)
        aio.run(go_on())
        assert place.noted == ["late"]

    def test_an_instance_goes_on_with_what_it_was_started_with(self, place: Place) -> None:
        async def story(engine: SpiffEngine, _scheduler: AsyncScheduler) -> None:
            await engine.start("ask_it", id="old")
            changed = process(
                ends(), user("ask"), script("s", "note('new')"), flow("begin", "ask", "s", "end"), name="ask_it"
            )
            await engine.deploy(place.file(changed))
            await engine.start("ask_it", id="new")
            for item in await engine.items(node="ask"):
                await engine.complete(item.id, by="ann")
            assert place.noted == ["new"]
            assert (await engine.get("old")).definition != (await engine.get("new")).definition

        place.play(story)

    def test_a_cycle_reminds_while_the_item_is_pending(self, place: Place) -> None:
        async def story(engine: SpiffEngine, scheduler: AsyncScheduler) -> None:
            instance = await engine.start("remind_it")

            async def reminded() -> bool:
                return len(place.noted) == 2

            await until(reminded)
            [item] = await engine.items(instance=instance)
            assert await engine.complete(item.id, by="ann")
            assert (await engine.get(instance)).status == "completed"

            async def both_done() -> bool:
                tasks = (await scheduler.list(handler="bpmn.timer", status=Status.COMPLETED)).tasks
                return [task.result for task in tasks] == ["fired", "fired"]

            await until(both_done)

        place.play(story)

    def test_rules_time_out_items_of_nodes_without_timers(self, place: Place) -> None:
        async def story(engine: SpiffEngine, scheduler: AsyncScheduler) -> None:
            instance = await engine.start("ask_it")
            [item] = await engine.items(instance=instance)

            async def escalated() -> bool:
                return len(place.sent) == 2

            await until(escalated)
            assert [(notice.kind, notice.target) for notice in place.sent] == [("notify", None), ("escalate", "boss")]
            found = await engine.find(item.id)
            assert found is not None
            assert found.assignee == "boss"
            assert [notice.reason for notice in await engine.notices(item.id)] == ["due in 0.1s", "not done in time"]
            again = {"reason": "x", "key": place.sent[1].key}
            assert not await engine.escalate(item.id, "king", **again), "once for each key"
            assert await engine.complete(item.id, by="boss")
            assert not await engine.notify(item.id, None, reason="x", key="another"), "it is over"
            assert (await scheduler.counts())[Status.PENDING] == 1, "only the reconciliation is left"

        place.play(story, rules={"ask_it/ask": TimeoutRule("0.3s", "escalate", target="boss", remind=("0.1s",))})

    def test_a_rule_completes_an_item_as_the_system(self, place: Place) -> None:
        async def story(engine: SpiffEngine, scheduler: AsyncScheduler) -> None:
            done = await over(engine, await engine.start("ask_it"))
            assert done.data == {"answer": "none"}
            [item] = await engine.items(instance=done.id, state="completed")

            async def done_with() -> bool:
                return bool((await scheduler.get(f"bpmn.timeout/{item.id}")).result == "auto")

            await until(done_with)
            assert (item.ended_by, item.reason) == ("system", "no answer")

        place.play(story, rules={"ask": TimeoutRule("0.2s", "auto", reason="no answer", variables={"answer": "none"})})

    def test_a_timer_that_is_delivered_twice_fires_once(self, place: Place) -> None:
        async def story(engine: SpiffEngine, scheduler: AsyncScheduler) -> None:
            instance = await engine.start("approve_it", {"limit": "PT0.2S"})
            [task] = (await scheduler.list(handler="bpmn.timer")).tasks
            await scheduler.add("bpmn.timer", task.args, id="again", delay="0.25s")
            await scheduler.add("bpmn.timer", {**task.args, "due": task.args["due"] + 1}, id="moved", delay="0.1s")
            await scheduler.add("bpmn.timer", {**task.args, "instance": "nobody"}, id="nobody")
            await over(engine, instance)

            async def all_done() -> bool:
                others = await scheduler.get_many(["again", "moved", "nobody"])
                return [other.result for other in others if other] == ["gone"] * 3

            await until(all_done)
            assert place.noted == ["late"]

        place.play(story)

    def test_a_timer_that_is_delivered_too_early_waits_for_its_moment(self, place: Place) -> None:
        async def story(engine: SpiffEngine, scheduler: AsyncScheduler) -> None:
            instance = await engine.start("approve_it", {"limit": "PT1S"})
            [task] = (await scheduler.list(handler="bpmn.timer")).tasks
            await scheduler.cancel(task.id)
            await scheduler.add("bpmn.timer", task.args, id="early")  # as it would be if the clock was set back

            done = await over(engine, instance)
            assert done.finished_at is not None
            assert done.finished_at >= task.run_at

            async def recorded() -> bool:
                return bool((await scheduler.get("early")).result == "fired")

            await until(recorded)
            early = await scheduler.get("early")
            assert early.attempt > 1
            assert early.snoozes > 0
            assert early.failures == 0

        place.play(story)

    def test_a_process_that_cannot_go_on_stays_as_it_was_and_says_why(self, place: Place) -> None:
        async def story(engine: SpiffEngine, _scheduler: AsyncScheduler) -> None:
            broken = process(
                ends(), user("ask"), script("s", "1 / number"), flow("begin", "ask", "s", "end"), name="broken"
            )
            await engine.deploy(place.file(broken))
            instance = await engine.start("broken")
            before = await engine.get(instance)
            [item] = await engine.items(instance=instance)
            with pytest.raises(InstanceStuck, match="division by zero"):
                await engine.complete(item.id, by="ann", variables={"number": 0})
            after = await engine.get(instance)
            assert "division by zero" in str(after.incident)
            assert (after.revision, after.body) == (before.revision, before.body)
            assert await engine.items(instance=instance) == [item]
            assert await engine.go_on(instance)
            assert (await engine.get(instance)).incident is None
            assert await engine.complete(item.id, by="ann", variables={"number": 1})
            assert not await engine.go_on(instance), "it is over"

        place.play(story)

    def test_a_timer_that_cannot_be_computed_is_an_incident_and_tried_again(self, place: Place) -> None:
        async def story(engine: SpiffEngine, scheduler: AsyncScheduler) -> None:
            late = process(
                ends(),
                catch("first", timer("duration", "'PT0.1S'")),
                catch("second", timer("date", "when")),
                flow("begin", "first", "second", "end"),
                name="late",
            )
            await engine.deploy(place.file(late))
            instance = await engine.start("late", {"when": "2099-01-01T00:00:00"})

            async def reported() -> bool:
                return (await engine.get(instance)).incident is not None

            await until(reported)
            assert "with an offset" in str((await engine.get(instance)).incident)
            [task] = (await scheduler.list(handler="bpmn.timer")).tasks
            assert task.status in (Status.PENDING, Status.RUNNING), "it is not given up: the process may be mended"
            with pytest.raises(InstanceStuck, match="Invalid duration"):
                await engine.start("approve_it", {"limit": "soon"}, id="never")
            with pytest.raises(UnknownInstance):
                await engine.get("never")

        place.play(story)

    def test_two_programs_complete_an_item_once(self, place: Place) -> None:
        async def story(engine: SpiffEngine, _scheduler: AsyncScheduler) -> None:
            async with place.open("other") as (other, _):
                for number in range(10):
                    await engine.start("approve_it", {"limit": "P1D"}, id=f"{number}")
                items = await engine.items()
                answers = await asyncio.gather(
                    *(who.complete(item.id, by=by) for item in items for who, by in ((engine, "a"), (other, "b")) * 2)
                )
                assert sum(answers) == 10
                revisions = [(await engine.get(f"{number}")).revision for number in range(10)]
                assert revisions == [2] * 10

        place.play(story)

    def test_tasks_that_were_lost_with_their_store_are_added_again(self, place: Place) -> None:
        async def begin(engine: SpiffEngine, _scheduler: AsyncScheduler) -> None:
            for number in range(3):
                await engine.start("approve_it", {"limit": "PT0.5S"}, id=f"{number}")
                await engine.start("ask_it", id=f"ask-{number}")

        async def go_on() -> None:
            async with place.open("fresh", rules={"ask": TimeoutRule("0.5s", "auto")}) as (engine, _):
                assert await engine.reconcile(everything=True) == 6
                for number in range(3):
                    await over(engine, f"{number}")
                    await over(engine, f"ask-{number}")

        place.play(begin, run=False)
        aio.run(go_on())
        assert place.noted == ["late"] * 3

    def test_instances_are_cancelled_and_cleaned_up(self, place: Place) -> None:
        async def story(engine: SpiffEngine, scheduler: AsyncScheduler) -> None:
            for number in range(5):
                await engine.start("approve_it", {"limit": "P1D"}, id=f"{number}")
            for number in range(3):
                assert await engine.cancel(f"{number}")
                assert not await engine.cancel(f"{number}")
            assert (await engine.get("0")).status == "cancelled"
            assert {item.instance for item in await engine.items()} == {"3", "4"}
            assert (await scheduler.counts())[Status.CANCELLED] == 3
            now = (await engine.get("2")).changed_at
            assert await engine.purge(now - 86_400_000, 10) == 0
            assert await engine.purge(now + 1, 2) == 2
            assert await engine.purge(now + 1, 2) == 1
            assert len(await engine.items(state=None)) == 2
            await engine.timeouts.clean_up("30d")
            assert (await scheduler.get("bpmn.clean-up")).status is Status.PENDING

        place.play(story)

    def test_a_process_is_started_later(self, place: Place) -> None:
        async def story(engine: SpiffEngine, _scheduler: AsyncScheduler) -> None:
            await engine.start_later("ask_it", {"about": "tea"}, delay="0.1s", id="later")

            async def there() -> bool:
                return bool(await engine.items(instance="later"))

            await until(there)

        place.play(story)

    def test_what_is_wrong_is_refused(self, place: Place) -> None:
        async def story(engine: SpiffEngine, _scheduler: AsyncScheduler) -> None:
            with pytest.raises(UnknownProcess, match="did you mean 'ask_it'"):
                await engine.start("ask-it")
            with pytest.raises(UnknownWorkItem):
                await engine.complete("8a4f0f6e-0000-4000-8000-000000000000", by="ann")
            with pytest.raises(UnknownInstance):
                await engine.cancel("nobody")
            with pytest.raises(InvalidProcess, match="at most 150"):
                await engine.start("ask_it", id="x" * 151)
            with pytest.raises(InvalidProcess, match="typename"):
                await engine.start("ask_it", {"typename": 1})
            assert await engine.items(state=None) == []

        place.play(story)
