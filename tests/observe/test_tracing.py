"""Traces, made with OpenTelemetry's own SDK."""

import asyncio
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from tests.observe.told import Told
from tests.scheduler.worlds import World
from tickwheel import aio
from tickwheel.errors import DuplicateTask
from tickwheel.observe import Event
from tickwheel.observe import tracing as module
from tickwheel.observe.tracing import Tracing
from tickwheel.scheduler import AsyncScheduler, Scheduler
from tickwheel.tasks import RetryPolicy


class Recorder:
    """A provider of spans that keeps them."""

    def __init__(self) -> None:
        self.provider = TracerProvider(shutdown_on_exit=False)
        self._kept = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._kept.get_finished_spans() if span.name == name]


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    yield recorder
    recorder.provider.shutdown()


def linked(run: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in run.links]


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    span_id: int = span.context.span_id
    return span_id


def test_a_run_is_linked_to_its_add_and_begins_a_trace_of_its_own(recorder: Recorder) -> None:
    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        Tracing(scheduler, recorder.provider)
        with recorder.provider.get_tracer("shop").start_as_current_span("checkout"):
            await scheduler.add("work", {"what": "a", "seconds": 2.5}, delay="30d", id="a", meta={"shop": "7"})
        assert (await scheduler.get("a")).meta.keys() == {"shop", "traceparent"}
        await asyncio.sleep(31 * 86_400)

    due_ns = (world.now() + 30 * 86_400_000) * 1_000_000
    world.play(story)
    (checkout,), (add,), (run,) = (recorder.spans(name) for name in ("checkout", "add work", "run work"))
    assert add.parent is not None
    assert add.parent.span_id == id_of(checkout)
    assert (add.kind, run.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert add.attributes == {"tickwheel.task.id": "a", "tickwheel.task.handler": "work"}
    assert linked(run) == [id_of(add)]
    assert run.parent is None
    assert run.context is not None
    assert add.context is not None
    assert run.context.trace_id != add.context.trace_id
    assert (run.start_time, run.end_time) == (due_ns, due_ns + 2_500_000_000)
    assert run.status.status_code is StatusCode.UNSET
    assert run.attributes == {
        "tickwheel.task.id": "a",
        "tickwheel.task.handler": "work",
        "tickwheel.run.attempt": 1,
        "tickwheel.run.late_ms": 0,
        "tickwheel.run.outcome": "completed",
    }


def test_a_run_is_no_child_of_what_started_the_scheduler(recorder: Recorder) -> None:
    world = World()

    async def main() -> None:
        with recorder.provider.get_tracer("shop").start_as_current_span("boot"):
            scheduler = await world.scheduler().start()
        Tracing(scheduler, recorder.provider)
        await scheduler.add("note", {"what": "a"})
        await asyncio.sleep(5)
        await scheduler.stop()

    aio.run(main(), clock=world.clock)
    (run,) = recorder.spans("run note")
    assert run.parent is None


def test_a_run_ends_when_its_function_does_not_when_that_is_written(recorder: Recorder) -> None:
    told = Told()
    Tracing(told, recorder.provider)
    started = Event(kind="started", task_id="a", handler="h", at=1000, attempt=1, late_ms=0)
    copy_context().run(told.events.tell, started)  # the run's surroundings, not the test's
    told.events.tell(Event(kind="completed", task_id="a", handler="h", at=5000, attempt=1, took_ms=2500))
    (run,) = recorder.spans("run h")
    assert (run.start_time, run.end_time) == (1_000_000_000, 3_500_000_000)


def test_each_attempt_is_a_span_with_what_it_raised(recorder: Recorder) -> None:
    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        Tracing(scheduler, recorder.provider)
        await scheduler.add("fail", {"what": "x"}, retry=RetryPolicy(retries=1, first_ms=1000, jitter=0.0))
        await asyncio.sleep(60)

    world.play(story)
    (add,), runs = recorder.spans("add fail"), recorder.spans("run fail")
    assert [linked(run) for run in runs] == [[id_of(add)], [id_of(add)]]
    assert [dict(run.attributes or {})["tickwheel.run.outcome"] for run in runs] == ["retried", "failed"]
    assert [run.status.status_code for run in runs] == [StatusCode.ERROR, StatusCode.ERROR]
    assert runs[1].status.description == "it failed 2 times; there are no retries left"
    for run in runs:
        (raised,) = run.events
        told = dict(raised.attributes or {})
        assert raised.name == "exception"
        assert told["exception.message"] == "ValueError: x"
        assert str(told["exception.stacktrace"]).startswith("Traceback")


def test_a_run_that_is_cancelled_or_stopped_says_so(recorder: Recorder) -> None:
    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        Tracing(scheduler, recorder.provider)
        await scheduler.add("work", {"what": "a", "seconds": 200.0}, id="a")
        await scheduler.add("work", {"what": "b", "seconds": 200.0}, id="b")
        await scheduler.add("note", {"what": "c"}, delay="1h", id="c")
        await asyncio.sleep(5)
        await scheduler.cancel("a")
        await scheduler.cancel("c")
        await asyncio.sleep(5)

    world.play(story, grace_s=1.0)
    outcomes = {
        dict(run.attributes or {})["tickwheel.task.id"]: (
            dict(run.attributes or {})["tickwheel.run.outcome"],
            run.status.status_code,
        )
        for run in recorder.spans("run work")
    }
    assert outcomes == {"a": ("cancelled", StatusCode.UNSET), "b": ("recovered", StatusCode.ERROR)}
    assert recorder.spans("run note") == []


def test_a_batch_is_one_add(recorder: Recorder) -> None:
    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        Tracing(scheduler, recorder.provider)
        await scheduler.add_many({"handler": "note", "args": {"what": str(number)}} for number in range(5))
        await asyncio.sleep(5)

    world.play(story)
    (add,) = recorder.spans("add tasks")
    assert add.attributes == {"tickwheel.tasks": 5}
    assert [linked(run) for run in recorder.spans("run note")] == [[id_of(add)]] * 5


def test_an_add_that_is_refused_is_an_error(recorder: Recorder) -> None:
    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        Tracing(scheduler, recorder.provider)
        await scheduler.add("note", {"what": "a"}, delay="1h", id="a")
        with pytest.raises(DuplicateTask):
            await scheduler.add("note", {"what": "a"}, id="a")

    world.play(story)
    assert [add.status.status_code for add in recorder.spans("add note")] == [StatusCode.UNSET, StatusCode.ERROR]


def test_what_a_handler_traces_belongs_to_its_run(recorder: Recorder) -> None:
    world = World()
    tracer = recorder.provider.get_tracer("shop")

    async def story(scheduler: AsyncScheduler) -> None:
        Tracing(scheduler, recorder.provider)

        @scheduler.task("ship")
        async def ship(seconds: float) -> None:
            with tracer.start_as_current_span("ship on the loop"):
                await asyncio.sleep(seconds)

        @scheduler.task("pack", timeout="1000d")  # virtual time flies while a thread works
        def pack() -> None:
            with tracer.start_as_current_span("pack on a thread"):
                pass

        for number in range(3):
            await scheduler.add("ship", {"seconds": 3.0 - number})
        await scheduler.add("pack")
        while not recorder.spans("run pack"):  # noqa: ASYNC110 - a thread is not on the loop's time
            await asyncio.sleep(1)
        await asyncio.sleep(10)
        assert not get_current_span().get_span_context().is_valid

    world.play(story)
    for inner, outer, count in (("ship on the loop", "run ship", 3), ("pack on a thread", "run pack", 1)):
        parents = [span.parent.span_id for span in recorder.spans(inner) if span.parent is not None]
        assert sorted(parents) == sorted(id_of(run) for run in recorder.spans(outer))
        assert len(set(parents)) == count


def test_the_way_back_leads_through_a_file(recorder: Recorder, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    with Scheduler(url, run=False) as adder:
        Tracing(adder, recorder.provider)
        with recorder.provider.get_tracer("shop").start_as_current_span("checkout"):
            adder.add("note", id="a")
    elsewhere = Recorder()

    async def main() -> None:
        scheduler = AsyncScheduler(url)
        done = asyncio.Event()

        @scheduler.task("note")
        async def note() -> None:
            done.set()

        Tracing(scheduler, elsewhere.provider)
        async with scheduler:
            await asyncio.wait_for(done.wait(), 10)

    aio.run(main())
    (checkout,), (add,), (run,) = recorder.spans("checkout"), recorder.spans("add note"), elsewhere.spans("run note")
    assert add.parent is not None, "the caller's span is known on the scheduler's thread"
    assert add.parent.span_id == id_of(checkout)
    assert linked(run) == [id_of(add)]
    elsewhere.provider.shutdown()


def test_without_an_sdk_nothing_is_written_into_tasks() -> None:
    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        Tracing(scheduler)
        await scheduler.add("note", {"what": "a"}, id="a")
        await asyncio.sleep(5)
        assert (await scheduler.get("a")).meta == {}

    world.play(story)
    assert [what for _, what in world.ran] == ["a"]


def test_a_meta_that_is_no_trace_is_no_link(recorder: Recorder) -> None:
    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add("note", {"what": "a"}, delay=10, meta={"traceparent": "of nobody"})
        Tracing(scheduler, recorder.provider)
        await asyncio.sleep(20)

    world.play(story)
    (run,) = recorder.spans("run note")
    assert linked(run) == []


def test_spans_whose_end_is_not_told_are_bounded_and_ended(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPEN_MAX", 2)
    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        tracing = Tracing(scheduler, recorder.provider)
        for name in ("a", "b", "c"):
            await scheduler.add("work", {"what": name, "seconds": 50.0}, id=name)
        await asyncio.sleep(5)
        assert len(recorder.spans("run work")) == 1
        tracing.close()
        assert len(recorder.spans("run work")) == 3
        await scheduler.add("note", {"what": "d"}, id="d")
        await asyncio.sleep(100)

    world.play(story)
    outcomes = {dict(run.attributes or {})["tickwheel.run.outcome"] for run in recorder.spans("run work")}
    assert outcomes == {"unknown"}
    assert recorder.spans("add note") == recorder.spans("run note") == []
