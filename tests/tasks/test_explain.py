"""Every task that is not running says why, with a code and a sentence, from its record and what is around it."""

from typing import Any

import pytest

from tickwheel.tasks import Status, Task
from tickwheel.tasks.explain import NO_POOL, Around, Obstacle, explain

NOW = 10_000
HERE = Around(now=NOW, nodes=2, handlers={"h", "webhook"})


def task(run_at: int = 5_000, **fields: Any) -> Task:
    return Task(**{"id": "a", "handler": "h", "run_at": run_at, "occurrence_at": run_at, "created_at": 0, **fields})


@pytest.mark.parametrize(
    ("waiting", "around", "obstacle", "code", "sentence"),
    [
        (task(20_000), HERE, None, "not_due", "waiting for its due time, 1970-01-01T00:00:20Z"),
        (task(20_000, handler="x"), HERE, None, "not_due", "waiting for its due time, 1970-01-01T00:00:20Z"),
        (task(2**53 - 1), HERE, None, "not_due", "waiting for its due time, 9,007,199,254,740,991 ms after 1970"),
        (task(paused=True), HERE, None, "paused", "paused; waiting to be resumed"),
        (task(20_000, paused=True, failures=1), HERE, None, "paused", "paused; waiting to be resumed"),
        (
            task(20_000, failures=1, reason="attempt 1 of 3 failed"),
            HERE,
            None,
            "waiting_for_retry",
            "waiting for its next attempt, 1970-01-01T00:00:20Z: attempt 1 of 3 failed",
        ),
        (
            task(20_000, reason="no handler 'h' here", reason_code="no_handler"),
            HERE,
            None,
            "no_handler",
            "waiting to be tried again, 1970-01-01T00:00:20Z: no handler 'h' here",
        ),
        (task(handler="x"), HERE, None, "no_handler", "waiting for a node with handler 'x'; nodes online: 2"),
        (task(), Around(now=NOW, nodes=0), None, "no_handler", "waiting for a node with handler 'h'; nodes online: 0"),
        (task(), Around(now=NOW), "no_handler", "no_handler", "waiting for a node with handler 'h'"),
        (
            task(handler="x"),
            HERE,
            "no_processes",
            "no_handler",
            f"waiting for a node with handler 'x'; nodes online: 2; {NO_POOL['no_processes']}",
        ),
        (
            task(),
            Around(now=NOW),
            "no_threads",
            "no_handler",
            f"waiting for a node with handler 'h'; {NO_POOL['no_threads']}",
        ),
        (
            task(),
            HERE,
            "no_threads",
            "no_capacity",
            "waiting for its node, for a free worker or for its handler's limit; due since 1970-01-01T00:00:05Z",
        ),
        (
            task(handler="webhook"),
            Around(now=NOW, nodes=1, handlers={"h"}),
            None,
            "no_handler",
            "waiting for a node that sends webhooks; nodes online: 1",
        ),
        (
            task(),
            HERE,
            None,
            "no_capacity",
            "waiting for its node, for a free worker or for its handler's limit; due since 1970-01-01T00:00:05Z",
        ),
        (
            task(failures=1),
            HERE,
            "no_capacity",
            "no_capacity",
            "waiting for a free worker; due since 1970-01-01T00:00:05Z",
        ),
        (task(handler="queue:q"), HERE, None, "no_capacity", "waiting in queue 'q' for a consumer"),
        (
            task(),
            HERE,
            "limit_reached",
            "limit_reached",
            "waiting for another run of 'h' to end: its limit is reached; due since 1970-01-01T00:00:05Z",
        ),
        (task(), HERE, "store_unavailable", "store_unavailable", "waiting for the store: it cannot be written to"),
    ],
)
def test_a_pending_task_says_what_it_waits_for(
    waiting: Task, around: Around, obstacle: Obstacle | None, code: str, sentence: str
) -> None:
    told = explain(waiting, around, obstacle)
    assert (told.reason_code, told.reason) == (code, sentence)
    assert told.status is Status.PENDING


def test_the_reason_of_a_finished_task_is_the_one_it_was_given() -> None:
    for status in (Status.COMPLETED, Status.FAILED, Status.CANCELLED):
        over = task(status=status, finished_at=9_000, reason="because")
        assert explain(over, HERE) is over
    expired = task(status=Status.CANCELLED, finished_at=9_000, reason="expired", reason_code="expired")
    assert explain(expired, HERE).reason_code == "expired"


def test_a_running_task_may_be_stuck() -> None:
    running = task(status=Status.RUNNING, attempt=1)
    assert explain(running, HERE) is running
    assert explain(running, HERE, "no_capacity") is running
    assert explain(running, HERE, "stuck").reason_code == "stuck"


def test_a_paused_task_that_was_asked_to_run_now_waits_for_a_worker() -> None:
    assert explain(task(paused=True, run_now_requested=True), HERE).reason_code == "no_capacity"
