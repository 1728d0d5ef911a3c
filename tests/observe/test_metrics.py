"""Metrics of real schedulers: what is counted is what happened."""

import asyncio
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.observe.told import Told
from tests.scheduler.worlds import World
from tickwheel.observe import Event
from tickwheel.observe.metrics import CONTENT_TYPE, OTHER, Metrics
from tickwheel.scheduler import AsyncScheduler, Scheduler
from tickwheel.tasks import RetryPolicy

HOUR = 3600


def scrape(metrics: Metrics) -> dict[str, float]:
    """Read what is rendered, as Prometheus would: each series by how it is written."""
    series = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            series[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return series


@pytest.fixture
def world() -> World:
    return World()


def test_a_story_is_counted_exactly(world: World) -> None:
    async def leave_undone(scheduler: AsyncScheduler) -> None:
        await scheduler.add("note", {"what": "late"}, delay="1h", id="late")
        await scheduler.add("note", {"what": "too late"}, delay="1h", late="skip", id="too-late")

    async def story(scheduler: AsyncScheduler) -> dict[str, float]:
        metrics = Metrics(scheduler)
        await scheduler.add("note", {"what": "a"}, delay=10)
        await scheduler.add_many({"handler": "work", "args": {"what": "b", "seconds": 2.5}} for _ in range(3))
        await scheduler.add("fail", {"what": "c"}, retry=RetryPolicy(retries=2, first_ms=1000, factor=1, jitter=0.0))
        await scheduler.add("note", {"what": "never"}, delay="1d", id="never")
        await scheduler.add("work", {"what": "stopped", "seconds": 200.0}, delay=20, id="stopped")
        await asyncio.sleep(30)
        await scheduler.cancel("never")
        await scheduler.cancel("never")
        await scheduler.cancel("stopped")
        await asyncio.sleep(30)
        return scrape(metrics)

    world.play(leave_undone)
    world.clock.advance("3h")
    before = len(world.events)
    figures = world.play(story)

    assert figures['tickwheel_tasks_added_total{handler="note"}'] == 2
    assert figures['tickwheel_tasks_added_total{handler="work"}'] == 4
    assert figures['tickwheel_tasks_added_total{handler="fail"}'] == 1
    assert figures['tickwheel_tasks_executed_total{handler="note"}'] == 2, (
        "what was late ran, what was too late did not"
    )
    assert figures['tickwheel_tasks_executed_total{handler="work"}'] == 4, "stopped in the middle is run as well"
    assert figures['tickwheel_tasks_executed_total{handler="fail"}'] == 3
    assert figures['tickwheel_tasks_retried_total{handler="fail"}'] == 2
    assert figures['tickwheel_tasks_failed_total{handler="fail"}'] == 1
    assert figures['tickwheel_tasks_cancelled_total{handler="note"}'] == 1, "twice is once"
    assert figures['tickwheel_tasks_cancelled_total{handler="work"}'] == 1
    assert figures['tickwheel_tasks_skipped_total{handler="note"}'] == 1

    told = world.events[before:]
    late_ms = [event.late_ms for event in told if event.late_ms is not None]
    assert len(late_ms) == 9
    assert 2 * HOUR * 1000 <= max(late_ms) < 2 * HOUR * 1000 + 100
    assert figures["tickwheel_task_lateness_seconds_count"] == 9
    assert figures["tickwheel_task_lateness_seconds_sum"] == pytest.approx(sum(late_ms) / 1000)
    assert figures['tickwheel_task_lateness_seconds_bucket{le="0.1"}'] == 8
    assert figures['tickwheel_task_lateness_seconds_bucket{le="1800.0"}'] == 8
    assert figures['tickwheel_task_lateness_seconds_bucket{le="+Inf"}'] == 9
    assert figures['tickwheel_task_duration_seconds_count{handler="work"}'] == 4
    assert figures['tickwheel_task_duration_seconds_sum{handler="work"}'] == pytest.approx(3 * 2.5 + 10, abs=0.02)
    assert figures['tickwheel_task_duration_seconds_bucket{handler="work",le="5.0"}'] == 3


def test_gauges_show_the_engine_when_they_are_read(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        metrics = Metrics(scheduler)
        empty = scrape(metrics)
        assert (empty["tickwheel_tasks_active"], empty["tickwheel_queue_size"]) == (0, 0)
        for delay in (0.1, 100, 100, 7200):
            await scheduler.add("note", {"what": "later"}, delay=delay + 10)
        await scheduler.add("work", {"what": "now", "seconds": 5.0})
        await asyncio.sleep(1)
        busy = scrape(metrics)
        assert busy["tickwheel_tasks_active"] == 5
        assert busy["tickwheel_queue_size"] == 1
        assert busy["tickwheel_queue_limit"] == 2000
        assert busy["tickwheel_partitions_owned"] == world.store.partitions
        moves = {name: value for name, value in busy.items() if name.startswith("tickwheel_partition_moves_total")}
        assert len(moves) == 5
        assert moves.pop('tickwheel_partition_moves_total{move="free"}') == world.store.partitions
        assert set(moves.values()) == {0}
        assert busy["tickwheel_oldest_due_age_seconds"] == 0
        levels = {name: value for name, value in busy.items() if name.startswith("tickwheel_wheel_timers")}
        assert sum(levels.values()) == 4
        assert levels['tickwheel_wheel_timers{level="overflow"}'] == 0
        await asyncio.sleep(8000)
        over = scrape(metrics)
        assert over["tickwheel_tasks_active"] == 0
        # The hand stands at most a rest behind the time, and a claim's reach ahead of it.
        assert over["tickwheel_ticks_total"] - busy["tickwheel_ticks_total"] == pytest.approx(8_000_000, abs=3_600_000)

    world.play(story)


def test_what_is_due_and_not_claimed_has_an_age(world: World) -> None:
    async def leave_undone(scheduler: AsyncScheduler) -> None:
        for minutes in (29, 30, 31, 90):
            await scheduler.add("work", {"what": "x", "seconds": 100.0}, delay=60 * minutes)

    async def story(scheduler: AsyncScheduler) -> None:
        metrics = Metrics(scheduler)
        await asyncio.sleep(50)
        full = scrape(metrics)
        assert (full["tickwheel_queue_size"], full["tickwheel_queue_limit"]) == (2, 2)
        assert full["tickwheel_oldest_due_age_seconds"] == pytest.approx(2 * HOUR - 31 * 60 + 50, abs=0.1)
        await asyncio.sleep(200)
        assert scrape(metrics)["tickwheel_oldest_due_age_seconds"] == 0

    world.play(leave_undone)
    world.clock.advance("2h")
    world.play(story, in_flight_max=2)


def test_a_clock_that_was_set_is_seen_and_the_ticks_go_on(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        metrics = Metrics(scheduler)
        await scheduler.add("note", {"what": "beat"}, every="10s")
        await asyncio.sleep(65)
        before = scrape(metrics)
        assert before["tickwheel_clock_step_seconds"] == 0
        world.clock.step_wall(-HOUR * 10**9)
        await scheduler.add("note", {"what": "soon"}, delay=20)
        await asyncio.sleep(30)
        after = scrape(metrics)
        assert after["tickwheel_clock_step_seconds"] == -HOUR
        assert after["tickwheel_ticks_total"] > before["tickwheel_ticks_total"]
        world.clock.step_wall(2 * HOUR * 10**9)
        assert scrape(metrics)["tickwheel_clock_step_seconds"] == HOUR

    world.play(story)


def test_handlers_beyond_the_bound_are_counted_together() -> None:
    told = Told()
    metrics = Metrics(told, handlers_max=3)
    for number in range(10):
        for _ in range(2):
            told.events.tell(Event(kind="added", task_id="a", handler=f"h{number}", at=0))
    added = {name: value for name, value in scrape(metrics).items() if name.startswith("tickwheel_tasks_added_total")}
    assert added == {
        'tickwheel_tasks_added_total{handler="h0"}': 2,
        'tickwheel_tasks_added_total{handler="h1"}': 2,
        'tickwheel_tasks_added_total{handler="h2"}': 2,
        f'tickwheel_tasks_added_total{{handler="{OTHER}"}}': 14,
    }


def test_who_runs_nothing_has_counters_and_no_gauges() -> None:
    told = Told()
    metrics = Metrics(told)
    told.events.tell(Event(kind="added", task_id="a", handler="h", at=0))
    figures = scrape(metrics)
    assert figures['tickwheel_tasks_added_total{handler="h"}'] == 1
    assert "tickwheel_queue_size" not in figures


def test_closed_metrics_count_no_more() -> None:
    told = Told()
    metrics = Metrics(told)
    metrics.close()
    assert not told.events.listeners


def test_two_schedulers_have_figures_of_their_own() -> None:
    first, second = Told(), Told()
    metrics = [Metrics(first), Metrics(second)]
    first.events.tell(Event(kind="added", task_id="a", handler="h", at=0))
    assert 'tickwheel_tasks_added_total{handler="h"}' in scrape(metrics[0])
    assert 'tickwheel_tasks_added_total{handler="h"}' not in scrape(metrics[1])


def test_a_blocking_scheduler_is_rendered_from_any_thread(tmp_path: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/tasks.db")
    scheduler.task("note")(print)
    metrics = Metrics(scheduler)
    assert "tickwheel_tasks_active" not in scrape(metrics), "it was not started"
    with scheduler:
        scheduler.add("note", delay="5m")
        assert scrape(metrics)["tickwheel_tasks_active"] == 1
        assert scrape(metrics)["tickwheel_clock_step_seconds"] == pytest.approx(0, abs=0.1)
    assert "tickwheel_tasks_active" not in scrape(metrics)
    assert CONTENT_TYPE.startswith("text/plain")
