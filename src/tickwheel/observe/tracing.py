"""Traces: a span for each add, one for each run, and a link from the run to the add.

    checkout ---- add orders.cancel                      (trace 1, today)
                         ^
                         | link: `traceparent`, in the task's meta
                         |
                  run orders.cancel ---- ship            (trace 2, in 30 days)

A run is not a child of its add: that trace is long over, and a task that comes again would grow it for ever.

    tracing = Tracing(scheduler)

The run's span is the current one in its handler, on the loop and on threads, so that what is traced there belongs to
it; in a process of its own a handler has `context.meta["traceparent"]`, that of the add. A program that only has the
API of OpenTelemetry installed, and no SDK, makes no spans and writes nothing into tasks.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec.structs import replace

from tickwheel.errors import MissingExtra
from tickwheel.observe.events import Event, Kind
from tickwheel.observe.picture import Watched
from tickwheel.tasks.record import Task

try:
    from opentelemetry.context import Context, attach
    from opentelemetry.trace import (
        Link,
        Span,
        SpanKind,
        Status,
        StatusCode,
        TracerProvider,
        get_current_span,
        get_tracer,
        set_span_in_context,
    )
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise MissingExtra("traces", "opentelemetry-api", "otel") from error

__all__ = ["Tracing"]

OPEN_MAX: Final = 100_000  # runs whose end is waited for: as many as a scheduler may have in its queue
ENDS: Final[frozenset[Kind]] = frozenset({"completed", "failed", "retried", "cancelled", "recovered", "lost"})
WENT_WRONG: Final[frozenset[Kind]] = frozenset({"failed", "retried", "recovered", "lost"})


class Tracing:
    """Makes the spans of one scheduler."""

    def __init__(self, scheduler: Watched, provider: TracerProvider | None = None) -> None:
        self._tracer = get_tracer("tickwheel", tracer_provider=provider)
        self._paper = TraceContextTextMapPropagator()
        self._open: dict[str, tuple[Span, int]] = {}  # by task, with when it began; the oldest first
        self._leave = (scheduler.events.attend(self._adding), scheduler.events.listen(self._hear))

    def close(self) -> None:
        """Make no more spans, and end those that are open."""
        for leave in self._leave:
            leave()
        while self._open:
            self._give_up(next(iter(self._open)))

    # -- adds

    @contextmanager
    def _adding(self, tasks: Sequence[Task]) -> Iterator[Sequence[Task]]:
        alone = tasks[0] if len(tasks) == 1 else None
        with self._tracer.start_as_current_span(
            "add tasks" if alone is None else f"add {alone.handler}", kind=SpanKind.PRODUCER
        ) as span:
            if alone is None:
                span.set_attribute("tickwheel.tasks", len(tasks))
            else:
                span.set_attributes({"tickwheel.task.id": alone.id, "tickwheel.task.handler": alone.handler})
            carried: dict[str, str] = {}
            self._paper.inject(carried)
            yield [replace(task, meta={**task.meta, **carried}) for task in tasks] if carried else tasks

    # -- runs

    def _hear(self, event: Event) -> None:
        if event.kind == "started":
            self._begin(event)
        elif event.kind in ENDS:
            self._end(event)

    def _begin(self, event: Event) -> None:
        if event.task_id in self._open:
            self._give_up(event.task_id)
        elif len(self._open) >= OPEN_MAX:
            self._give_up(next(iter(self._open)))
        carried = {name: value for name, value in event.meta.items() if isinstance(value, str)}
        added = get_current_span(self._paper.extract(carried, Context())).get_span_context()
        span = self._tracer.start_span(
            f"run {event.handler}",
            context=Context(),
            kind=SpanKind.CONSUMER,
            attributes={
                "tickwheel.task.id": event.task_id,
                "tickwheel.task.handler": event.handler,
                "tickwheel.run.attempt": event.attempt,
                "tickwheel.run.late_ms": event.late_ms or 0,
            },
            links=[Link(added)] if added.is_valid else [],
            start_time=event.at * 1_000_000,
        )
        self._open[event.task_id] = (span, event.at)
        attach(set_span_in_context(span, Context()))  # for this run alone: its surroundings end with it

    def _end(self, event: Event) -> None:
        span, began_at = self._open.pop(event.task_id, (None, 0))
        if span is None:
            return
        over_ns = (event.at if event.took_ms is None else began_at + event.took_ms) * 1_000_000
        span.set_attribute("tickwheel.run.outcome", event.kind)
        if event.error is not None:
            last_line = event.error.rstrip().rpartition("\n")[2]
            span.add_event(
                "exception", {"exception.message": last_line, "exception.stacktrace": event.error}, timestamp=over_ns
            )
        if event.kind in WENT_WRONG:
            span.set_status(Status(StatusCode.ERROR, event.reason))
        span.end(over_ns)

    def _give_up(self, task_id: str) -> None:
        """End the span of a run whose end was not told: another owner has taken its task over."""
        span, began_at = self._open.pop(task_id)
        span.set_attribute("tickwheel.run.outcome", "unknown")
        span.end(began_at * 1_000_000)
