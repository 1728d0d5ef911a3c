"""Metrics for Prometheus: a listener that counts, and a picture taken when someone looks.

    events  --- added, started, failed, ... ---> counters, histograms --+
                                                                        +--> render() --> GET /metrics
    picture --- when asked ------------------------------------ gauges -+

    metrics = Metrics(scheduler)
    metrics.render()     # bytes, of the type CONTENT_TYPE

Each `Metrics` has a registry of its own, so that it disturbs nobody else's. Units are seconds; what every metric says
is in docs/metrics.md. An event costs a few microseconds, on the scheduler's loop; a picture is taken there as well:
render on that loop for an `AsyncScheduler`, and wherever you like for a `Scheduler`.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tickwheel.errors import InvalidConfig, MissingExtra
from tickwheel.observe.events import Event, Kind
from tickwheel.observe.picture import MOVES, Picture, Watched

try:
    from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, start_http_server
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.exposition import CONTENT_TYPE_LATEST
    from prometheus_client.registry import Collector
except ImportError as error:
    raise MissingExtra("metrics", "prometheus-client", "server") from error

__all__ = ["CONTENT_TYPE", "HANDLERS_MAX", "OTHER", "Metrics"]

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
HANDLERS_MAX: Final = 100  # names of handlers that are told apart: each costs some 40 series
OTHER: Final = "other"  # what all further handlers are counted under

# From a millisecond, the tick of the wheel, to half an hour; 1 s is where lateness is alarming.
BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 1800)

COUNTED: Final[dict[Kind, tuple[str, str]]] = {
    "added": ("tickwheel_tasks_added", "Tasks that were added here."),
    "failed": ("tickwheel_tasks_failed", "Tasks that failed with no retries left."),
    "cancelled": ("tickwheel_tasks_cancelled", "Tasks that were cancelled, waiting or running."),
    "retried": ("tickwheel_tasks_retried", "Runs that did not succeed and will be made again."),
    "skipped": ("tickwheel_tasks_skipped", "Occurrences that were too late to be run."),
    "recovered": ("tickwheel_tasks_recovered", "Tasks that were put back because their worker died or was stopped."),
    "lost": ("tickwheel_tasks_lost", "Runs whose outcome was refused because another owner has the task."),
}
RUN_ENDS: Final[frozenset[Kind]] = frozenset({"completed", "failed", "retried", "cancelled"})


class Metrics:
    """The figures of one scheduler, from the moment it is watched."""

    def __init__(self, scheduler: Watched, *, handlers_max: int = HANDLERS_MAX) -> None:
        self._handlers_max = handlers_max
        self._handlers: dict[str, Figures] = {}
        self.registry = CollectorRegistry()
        labels = ("handler",)
        self._counted = {
            kind: Counter(name, words, labels, registry=self.registry) for kind, (name, words) in COUNTED.items()
        }
        self._executed = Counter(
            "tickwheel_tasks_executed", "Runs that were made, whatever they came to.", labels, registry=self.registry
        )
        self._lateness = Histogram(
            "tickwheel_task_lateness_seconds",
            "How far behind their time runs began.",
            buckets=BUCKETS_S,
            registry=self.registry,
        )
        self._duration = Histogram(
            "tickwheel_task_duration_seconds",
            "How long runs took, with the wait for a free worker.",
            labels,
            buckets=BUCKETS_S,
            registry=self.registry,
        )
        self.registry.register(Gauges(scheduler))
        self._leave = scheduler.events.listen(self._hear)

    def render(self) -> bytes:
        """Return all figures as text that Prometheus reads."""
        return generate_latest(self.registry)

    def serve(self, port: int, host: str = "0.0.0.0") -> int:  # noqa: S104 - Prometheus asks from another machine
        """Serve the figures of a `Scheduler` at `/metrics`, on a thread; return the port (0: any that is free)."""
        try:
            server, _ = start_http_server(port, host, registry=self.registry)
        except OSError as error:
            raise InvalidConfig(f"cannot serve metrics on port {port}: {error}") from None
        return int(server.server_port)

    def close(self) -> None:
        """Count no more."""
        self._leave()

    def _hear(self, event: Event) -> None:
        figures = self._handlers.get(event.handler) or self._figures(event.handler)
        counter = figures.counted.get(event.kind)
        if counter is not None:
            counter.inc()
        if event.late_ms is not None:
            self._lateness.observe(event.late_ms / 1000)
        if event.took_ms is not None and event.kind in RUN_ENDS:
            figures.executed.inc()
            figures.duration.observe(event.took_ms / 1000)

    def _figures(self, handler: str) -> "Figures":
        """Return the figures of a handler, all of them from 0, so that the first failure is seen as a rise."""
        if len(self._handlers) >= self._handlers_max:
            handler = OTHER
        if handler not in self._handlers:
            self._handlers[handler] = Figures(
                counted={kind: counter.labels(handler) for kind, counter in self._counted.items()},
                executed=self._executed.labels(handler),
                duration=self._duration.labels(handler),
            )
        return self._handlers[handler]


class Figures(NamedTuple):
    """What is counted for one handler."""

    counted: dict[Kind, Counter]
    executed: Counter
    duration: Histogram


class Gauges(Collector):
    """What is read from a picture, one for each time someone looks."""

    def __init__(self, scheduler: Watched) -> None:
        self._scheduler = scheduler

    def describe(self) -> list[Metric]:
        """Name nothing before it is asked for: there may be no picture yet."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Take a picture and read it; a scheduler that runs nothing has none."""
        picture = self._scheduler.picture()
        if picture is not None:
            yield from read(picture)


def read(picture: Picture) -> Iterator[Metric]:
    """Return a picture as metrics."""
    yield CounterMetricFamily("tickwheel_ticks", "Milliseconds the hand of the wheel has moved.", picture.ticks)
    for name, words, value in (
        ("tasks_active", "Tasks on the wheel, or claimed and not finished.", picture.active),
        ("queue_size", "Tasks that are claimed and not finished.", picture.queued),
        ("queue_limit", "With so many in the queue, no more are claimed.", picture.queued_max),
        (
            "oldest_due_age_seconds",
            "For how long the oldest task has been due that nobody claimed.",
            picture.oldest_due_age_ms / 1000,
        ),
        (
            "clock_step_seconds",
            "By how much the clock was set since the scheduler began.",
            picture.clock_step_ms / 1000,
        ),
        ("partitions_owned", "Partitions whose tasks this scheduler runs.", picture.partitions),
    ):
        yield GaugeMetricFamily(f"tickwheel_{name}", words, value)
    moves = CounterMetricFamily(
        "tickwheel_partition_moves", "Partitions that came to this scheduler, or left it.", labels=("move",)
    )
    for move in MOVES:
        moves.add_metric((move,), picture.moves.get(move, 0))
    yield moves
    levels = GaugeMetricFamily("tickwheel_wheel_timers", "Tasks on each dial of the wheel.", labels=("level",))
    for level, timers in enumerate(picture.levels):
        levels.add_metric((str(level),), timers)
    levels.add_metric(("overflow",), picture.overflow)
    yield levels
