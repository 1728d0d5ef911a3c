"""What becomes of a task: decided in one place, and always a legal step."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tickwheel.tasks import ENDED, LEGAL, Cron, Every, LatePolicy, Once, RetryPolicy, Status, Task, outcomes

NOW = 1_800_000_000_000
MINUTE = 60_000


def claimed(**changes: Any) -> Task:
    plain = Task(id="t", handler="h", run_at=NOW, occurrence_at=NOW, created_at=NOW, started_at=NOW, attempt=1)
    return replace(plain, status=Status.RUNNING, **changes)


def test_a_task_of_once_is_completed_with_its_result() -> None:
    after, run = outcomes.succeed(claimed(), {"sum": 7}, NOW + 5)
    assert (after.status, after.result, after.runs, after.finished_at) == (Status.COMPLETED, {"sum": 7}, 1, NOW + 5)
    assert (run.status, run.started_at, run.finished_at, run.error) == (Status.COMPLETED, NOW, NOW + 5, None)


def test_a_failure_waits_for_the_next_attempt_at_the_same_occurrence() -> None:
    policy = RetryPolicy(retries=2, first_ms=1000, jitter=0.0)
    after, run = outcomes.fail(claimed(retry=policy), "Traceback: boom", NOW + 5, chance=1.0)
    assert (after.status, after.run_at, after.occurrence_at, after.failures) == (Status.PENDING, NOW + 1005, NOW, 1)
    assert run.error == "Traceback: boom"
    assert after.reason == "attempt 1 of 3 failed; the next one is in 1 s"
    again, _ = outcomes.fail(replace(after, status=Status.RUNNING), "boom", NOW + 2000, chance=1.0)
    assert again.run_at == NOW + 4000
    last, _ = outcomes.fail(replace(again, status=Status.RUNNING), "boom", NOW + 9000, chance=1.0)
    assert (last.status, last.error, last.reason) == (
        Status.FAILED,
        "boom",
        "it failed 3 times; there are no retries left",
    )


def test_a_failed_occurrence_does_not_end_a_task_that_comes_again() -> None:
    after, run = outcomes.fail(claimed(trigger=Every(interval_ms=MINUTE), times=-1), "boom", NOW + 5, chance=0.0)
    assert (after.status, after.run_at, after.failures, after.runs) == (Status.PENDING, NOW + MINUTE, 0, 1)
    assert run.status is Status.FAILED


def test_occurrences_end_when_they_were_counted() -> None:
    task = claimed(trigger=Every(interval_ms=MINUTE), times=3)
    for number in (1, 2):
        task, _ = outcomes.succeed(replace(task, status=Status.RUNNING), None, task.run_at)
        assert (task.status, task.runs, task.run_at) == (Status.PENDING, number, NOW + number * MINUTE)
    task, _ = outcomes.succeed(replace(task, status=Status.RUNNING), None, task.run_at)
    assert (task.status, task.runs) == (Status.COMPLETED, 3)


@pytest.mark.parametrize(
    ("late", "expected"),
    [
        (LatePolicy(mode="run_once"), NOW + 11 * MINUTE),
        (LatePolicy(mode="skip"), NOW + 11 * MINUTE),
        (LatePolicy(mode="run_all"), NOW + MINUTE),
        (LatePolicy(mode="run_all", catch_up=4), NOW + 7 * MINUTE),
    ],
)
def test_what_was_missed_is_made_up_for_by_policy(late: LatePolicy, expected: int) -> None:
    for trigger in (Every(interval_ms=MINUTE), Cron(expression="* * * * *")):
        begin = NOW - NOW % MINUTE
        task = claimed(trigger=trigger, times=-1, late=late, run_at=begin, occurrence_at=begin)
        after, _ = outcomes.succeed(task, None, begin + 10 * MINUTE + 30_000)
        if isinstance(trigger, Cron) and late.catch_up == 4:
            assert after.run_at == begin + 11 * MINUTE, "cron goes on from here when there is too much to make up for"
        else:
            assert after.run_at == expected - NOW + begin


def test_being_behind_by_less_than_the_grace_is_not_late() -> None:
    assert not outcomes.is_late(claimed(), NOW + 60_000)
    assert outcomes.is_late(claimed(), NOW + 60_001)
    assert not outcomes.is_late(claimed(failures=1), NOW + 10**9), "a retry is as late as it has to be"


def test_a_skipped_task_says_how_late_it_was() -> None:
    after, run = outcomes.skip(claimed(), NOW + 90_000)
    assert (after.status, after.reason, run.reason) == (Status.CANCELLED, "skipped: 90 s late", "skipped: 90 s late")


def test_an_orphan_runs_again_unless_it_must_not() -> None:
    again, run = outcomes.orphan(claimed(), NOW + 7)
    assert (again.status, again.run_at, again.attempt) == (Status.PENDING, NOW + 7, 1)
    assert run.status is Status.FAILED
    never, _ = outcomes.orphan(claimed(at_most_once=True), NOW + 7)
    assert never.status is Status.FAILED
    assert "must not run twice" in (never.reason or "")


@given(
    trigger=st.sampled_from(
        [Once(), Every(interval_ms=1), Every(interval_ms=86_400_000), Cron(expression="*/5 * * * *")]
    ),
    retries=st.integers(0, 3),
    mode=st.sampled_from(["run_once", "run_all", "skip"]),
    times=st.sampled_from([-1, 1, 2]),
    behind_ms=st.integers(0, 10**9),
    data=st.data(),
)
def test_every_outcome_is_a_legal_step_and_none_is_due_before_its_occurrence(
    trigger: Any, retries: int, mode: Any, times: int, behind_ms: int, data: st.DataObject
) -> None:
    task = claimed(trigger=trigger, times=times, retry=RetryPolicy(retries=retries), late=LatePolicy(mode=mode))
    now = NOW + behind_ms
    for _ in range(5):
        step = data.draw(st.sampled_from(["succeed", "fail", "skip", "stop", "orphan"]))
        after, run = {
            "succeed": lambda task=task, now=now: outcomes.succeed(task, None, now),
            "fail": lambda task=task, now=now: outcomes.fail(task, "boom", now, 0.5),
            "skip": lambda task=task, now=now: outcomes.skip(task, now),
            "stop": lambda task=task, now=now: outcomes.stop(task, "asked to", now),
            "orphan": lambda task=task, now=now: outcomes.orphan(task, now),
        }[step]()
        assert after.status in LEGAL[Status.RUNNING]
        assert after.run_at >= after.occurrence_at
        assert after.runs in (task.runs, task.runs + 1)
        assert run.status in ENDED
        if after.status is not Status.PENDING:
            assert after.finished_at == now
            return
        task, now = replace(after, status=Status.RUNNING), max(now, after.run_at)
