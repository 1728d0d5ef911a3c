"""What a run comes to, and where a series goes on."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tickwheel.tasks import LEGAL, Cron, Every, LatePolicy, Once, RetryPolicy, RunStatus, Status, Task, transitions
from tickwheel.tasks.transitions.series import recent_points

NOW = 1_800_000_000_000
MINUTE = 60_000


def claimed(**changes: Any) -> Task:
    plain = Task(id="t", handler="h", run_at=NOW, occurrence_at=NOW, created_at=NOW, started_at=NOW, attempt=1)
    return replace(plain, status=Status.RUNNING, **changes)


def series(**changes: Any) -> Task:
    return claimed(**{"trigger": Every(interval_ms=MINUTE), "times": -1, **changes})


def test_a_one_off_is_completed_with_its_result() -> None:
    after, run, skipped = transitions.succeed(claimed(), {"sum": 7}, NOW + 5)
    assert (after.status, after.result, after.runs, after.finished_at) == (Status.COMPLETED, {"sum": 7}, 1, NOW + 5)
    assert run is not None
    assert (run.status, run.started_at, run.finished_at, run.error) == (RunStatus.COMPLETED, NOW, NOW + 5, None)
    assert not skipped


def test_a_failure_waits_for_the_next_attempt_at_the_same_occurrence() -> None:
    policy = RetryPolicy(retries=2, first_ms=1000, jitter=0.0)
    after, run, _ = transitions.fail(claimed(retry=policy), "Traceback: boom", NOW + 5, chance=1.0)
    assert (after.status, after.run_at, after.occurrence_at, after.failures) == (Status.PENDING, NOW + 1005, NOW, 1)
    assert run is not None
    assert run.error == "Traceback: boom"
    assert after.reason == "attempt 1 of 3 failed; the next one is in 1 s"
    again = transitions.fail(replace(after, status=Status.RUNNING), "boom", NOW + 2000, chance=1.0).task
    assert again.run_at == NOW + 4000
    last = transitions.fail(replace(again, status=Status.RUNNING), "boom", NOW + 9000, chance=1.0).task
    assert (last.status, last.error, last.consecutive_failures) == (Status.FAILED, "boom", 1)
    assert last.reason == "it failed 3 times; there are no retries left"


def test_a_failed_occurrence_does_not_end_a_series_and_stays_visible() -> None:
    after, run, _ = transitions.fail(series(), "boom", NOW + 5, chance=0.0)
    assert (after.status, after.run_at, after.failures, after.runs) == (Status.PENDING, NOW + MINUTE, 0, 1)
    assert run is not None
    assert run.status is RunStatus.FAILED
    assert (after.consecutive_failures, after.last_run and after.last_run.status) == (1, RunStatus.FAILED)
    then = transitions.succeed(transitions.claim(after, after.run_at), None, after.run_at).task
    assert (then.consecutive_failures, then.last_run and then.last_run.status) == (0, RunStatus.COMPLETED)


def test_occurrences_end_when_they_were_counted() -> None:
    task = series(times=3)
    for number in (1, 2):
        task = transitions.succeed(replace(task, status=Status.RUNNING), None, task.run_at).task
        assert (task.status, task.runs, task.run_at) == (Status.PENDING, number, NOW + number * MINUTE)
    assert transitions.fail(replace(task, status=Status.RUNNING), "x", task.run_at, 0.0).task.status is Status.FAILED
    task = transitions.succeed(replace(task, status=Status.RUNNING), None, task.run_at).task
    assert (task.status, task.runs) == (Status.COMPLETED, 3)


def test_an_attempt_after_the_clock_was_set_back_is_not_before_its_time() -> None:
    back, policy = NOW - MINUTE, RetryPolicy(retries=1, first_ms=1000)
    outcomes: list[Callable[[Task], transitions.Ended]] = [
        lambda task: transitions.crash(task, back, chance=0.5),
        lambda task: transitions.fail(replace(task, retry=policy), "boom", back, chance=0.5),
        lambda task: transitions.snooze(task, 1000, "later", back),
        lambda task: transitions.interrupt(task, back),
    ]
    for outcome in outcomes:
        assert outcome(claimed()).task.run_at == NOW
        assert outcome(claimed(trigger=Cron(expression="* * * * *"), times=-1)).task.run_at == NOW
        assert outcome(series()).task.run_at < back + MINUTE, "every goes on within an interval"


# -- crashes


def test_a_task_that_kills_its_process_fails_at_the_last_crash_that_is_allowed() -> None:
    task = claimed()
    waits = []
    for number in (1, 2):
        ended = transitions.crash(task, NOW, chance=0.5)
        assert (ended.task.status, ended.task.crashes, ended.task.failures) == (Status.PENDING, number, 0)
        waits.append(ended.task.run_at - NOW)
        task = replace(ended.task, status=Status.RUNNING)
    assert waits == [1000, 2000]
    last = transitions.crash(task, NOW, chance=0.5).task
    assert (last.status, last.reason) == (Status.FAILED, "worker died 3 times while running this task")
    assert transitions.crash(claimed(max_crashes=1), NOW, 0.5).task.status is Status.FAILED


def test_crashes_are_counted_for_each_occurrence() -> None:
    died = transitions.crash(series(crashes=1), NOW, 0.0).task
    assert died.crashes == 2
    after = transitions.succeed(replace(died, status=Status.RUNNING), None, NOW + 5).task
    assert after.crashes == 0
    failed = transitions.crash(series(crashes=2), NOW, 0.0).task
    assert (failed.status, failed.run_at, failed.crashes) == (Status.PENDING, NOW + MINUTE, 0), "the series goes on"


def test_the_wait_after_a_crash_is_spread() -> None:
    waits = {transitions.crash(claimed(), NOW, chance / 10).task.run_at - NOW for chance in range(10)}
    assert len(waits) == 10
    assert min(waits) == 500
    assert max(waits) < 1500


def test_what_runs_at_most_once_fails_after_a_crash_or_a_stop() -> None:
    for ended in (
        transitions.crash(claimed(at_most_once=True), NOW, 0.0),
        transitions.interrupt(claimed(at_most_once=True), NOW),
    ):
        assert ended.task.status is Status.FAILED
        assert "at most once" in (ended.task.reason or "")


def test_a_run_that_is_interrupted_by_a_stop_is_neither_a_crash_nor_a_failure() -> None:
    after, run, _ = transitions.interrupt(claimed(), NOW + 7)
    assert (after.status, after.run_at, after.crashes, after.failures) == (Status.PENDING, NOW + 7, 0, 0)
    assert run is not None
    assert run.status is RunStatus.CANCELLED
    late = LatePolicy(mode="skip")
    assert not transitions.is_missed(replace(after, late=late), NOW + 10 * MINUTE), "it has begun before"


# -- missed runs


@pytest.mark.parametrize(("period_ms", "grace"), [(MINUTE, 30_000), (10 * MINUTE, 60_000), (1000, 500)])
def test_the_grace_is_a_minute_or_half_the_period(period_ms: int, grace: int) -> None:
    task = series(trigger=Every(interval_ms=period_ms))
    assert transitions.grace_ms(task) == grace
    assert not transitions.is_missed(task, NOW + grace)
    assert transitions.is_missed(task, NOW + grace + 1)
    assert transitions.grace_ms(claimed()) == 60_000
    assert transitions.grace_ms(series(trigger=Cron(expression="* * * * *"))) == 30_000


def down_for(ms: int, task: Task) -> Task | transitions.Ended:
    """Begin a task on a node that took over so long after it was due."""
    return transitions.begin(task, NOW + ms + 5, owned_since=NOW + ms)


@pytest.mark.parametrize("trigger", [Every(interval_ms=MINUTE), Cron(expression="* * * * *")])
def test_run_all_runs_the_most_recent_ones(trigger: Any) -> None:
    begin = NOW - NOW % MINUTE
    task = series(trigger=trigger, late=LatePolicy(mode="run_all", catch_up=3), run_at=begin, occurrence_at=begin)
    now = begin + 10 * MINUTE + 30_000
    ran, rows = [], 0
    for _ in range(20):
        begun = transitions.begin(replace(task, status=Status.RUNNING), now, owned_since=now)
        if isinstance(begun, transitions.Ended):
            task, rows = begun.task, rows + len(begun.skipped) + 1
            continue
        ran.append((begun.occurrence_at - begin) // MINUTE)
        task = transitions.succeed(begun, None, now).task
        if task.run_at > now:
            break
    assert ran == [8, 9, 10]
    assert rows == 8, "0 to 7 are in the history"
    assert task.run_at == begin + 11 * MINUTE


def test_run_once_never_begins_two_overdue_occurrences_in_succession() -> None:
    for overlap in ("skip", "queue_one"):
        begun = down_for(10 * MINUTE + 30_000, series(overlap=overlap))
        assert isinstance(begun, Task)
        after = transitions.succeed(begun, None, NOW + 10 * MINUTE + 31_000)
        assert after.task.run_at == NOW + 11 * MINUTE
        assert len(after.skipped) == 10


def test_skip_runs_nothing_that_was_missed() -> None:
    ended = down_for(10 * MINUTE + 30_000, series(late=LatePolicy(mode="skip")))
    assert isinstance(ended, transitions.Ended)
    assert ended.run is not None
    assert (ended.run.status, ended.run.started_at) == (RunStatus.SKIPPED, None)
    assert (ended.task.run_at, len(ended.skipped)) == (NOW + 10 * MINUTE, 9), "30 s late is within the grace"
    once = down_for(10 * MINUTE, claimed(late=LatePolicy(mode="skip")))
    assert isinstance(once, transitions.Ended)
    assert (once.task.status, once.task.reason_code) == (Status.CANCELLED, "skipped")


@pytest.mark.parametrize("mode", ["run_once", "run_all", "skip"])
@pytest.mark.parametrize("expression", ["* * * 1 *", "* * * * 1 *"])
def test_a_calendar_of_one_month_that_was_missed_is_not_read_from_its_beginning(
    expression: str, mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    january = 1_704_067_200_000
    march = january + 60 * 1440 * MINUTE
    cron = Cron(expression=expression)
    task = series(trigger=cron, run_at=january, occurrence_at=january, late=LatePolicy(mode=mode))
    read: list[int] = []
    next_after = Cron.next_after

    def count(cron: Cron, moment: int) -> int | None:
        read.append(moment)
        return next_after(cron, moment)

    monkeypatch.setattr(Cron, "next_after", count)
    begun = transitions.begin(task, march, owned_since=march)
    ended = transitions.succeed(begun, None, march) if isinstance(begun, Task) else begun
    period = 1000 if len(expression.split()) == 6 else MINUTE
    last = january + 31 * 1440 * MINUTE - period
    if mode == "run_all":
        last -= 100 * period  # these are run
    assert [run.occurrence_at for run in ended.skipped] == [last - n * period for n in reversed(range(100))]
    assert "earlier ones" in (ended.skipped[0].reason or "")
    assert len(read) < 3000, "there are 44,640 minutes in January"


def test_a_calendar_is_read_once_for_all_runs_that_a_series_makes_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_704_067_200_000
    begin_at = now - 2000 * MINUTE
    task = series(
        trigger=Cron(expression="* * * * *"),
        run_at=begin_at,
        occurrence_at=begin_at,
        late=LatePolicy(mode="run_all", catch_up=1000),
    )
    read: list[int] = []
    next_after = Cron.next_after

    def count(cron: Cron, moment: int) -> int | None:
        read.append(moment)
        return next_after(cron, moment)

    monkeypatch.setattr(Cron, "next_after", count)
    ran = []
    while task.run_at <= now:
        task = transitions.claim(task, now)
        begun = transitions.begin(task, now, owned_since=now)
        if isinstance(begun, Task):
            ran.append(begun.occurrence_at)
            task = transitions.finish(task, transitions.succeed(begun, None, now).task, now)
        else:
            task = transitions.finish(task, begun.task, now, begun.skipped)
    assert ran == [now - number * MINUTE for number in reversed(range(1000))]
    assert len(read) < 10 * len(ran), "a thousand for each would be a million"


@given(
    expression=st.sampled_from(
        ["* * * 1 *", "0 0 29 2 *", "*/7 * * * * *", "0 0 1 * *", "* 0 1 * *", "30 2 * * *", "*/10 2 * * *"]
    ),
    tz=st.sampled_from(["UTC", "Europe/Berlin"]),
    limit=st.integers(1, 150),
    span_ms=st.integers(0, 40 * 1440 * MINUTE),
    until=st.integers(1_704_067_200_000, 1_735_689_600_000),
)
def test_the_latest_times_of_a_calendar_are_the_end_of_all_of_them(
    expression: str, tz: str, limit: int, span_ms: int, until: int
) -> None:
    task = series(trigger=Cron(expression=expression, tz=tz))
    span_ms = min(span_ms, 4_000_000) if expression.startswith("*") else span_ms
    all_points, moment = [], task.trigger.next_after(until - span_ms - 1)
    while moment is not None and moment <= until:
        all_points.append(moment)
        moment = task.trigger.next_after(moment)
    for first in (until - span_ms // 3, until - span_ms, until - span_ms // 2):  # also of what is known already
        points = [point for point in all_points if point >= first]
        assert recent_points(task, first, until, limit) == (points[-limit:], len(points) > limit)


def test_waiting_for_a_worker_is_not_being_missed() -> None:
    task = claimed(late=LatePolicy(mode="skip"))
    assert transitions.begin(task, NOW + 10 * MINUTE, owned_since=NOW - 1) is task


def test_an_expired_task_does_not_begin_and_ends_with_its_series() -> None:
    for task in (claimed(expires_at=NOW + 5), series(expires_at=NOW + 5)):
        assert isinstance(transitions.begin(task, NOW + 5), Task)
        ended = transitions.begin(task, NOW + 6)
        assert isinstance(ended, transitions.Ended)
        assert (ended.task.status, ended.task.reason_code, ended.run) == (Status.CANCELLED, "expired", None)


# -- overlap


@pytest.mark.parametrize(("overlap", "following", "skipped"), [("skip", 4, 3), ("queue_one", 3, 2)])
def test_what_came_due_during_a_run_is_skipped_or_the_last_of_it_queued(
    overlap: Any, following: int, skipped: int
) -> None:
    ended = transitions.succeed(series(overlap=overlap), None, NOW + 3 * MINUTE + 1)
    assert ended.task.run_at == NOW + following * MINUTE
    assert [(run.occurrence_at - NOW) // MINUTE for run in ended.skipped] == list(range(1, skipped + 1))
    assert [run.attempt for run in ended.skipped] == list(range(2, skipped + 2))
    after = transitions.finish(series(overlap=overlap), ended.task, NOW + 3 * MINUTE + 1, ended.skipped)
    assert after.attempt == skipped + 1, "rows are told apart by their attempts"


def test_many_skipped_occurrences_are_summed_up() -> None:
    task = series(trigger=Every(interval_ms=1))
    ended = transitions.succeed(task, None, NOW + 10_000_000)
    assert len(ended.skipped) == 100
    assert "earlier ones" in (ended.skipped[0].reason or "")
    assert ended.task.run_at == NOW + 10_000_001


@given(
    trigger=st.sampled_from(
        [Once(), Every(interval_ms=1), Every(interval_ms=86_400_000), Cron(expression="*/5 * * * *")]
    ),
    retries=st.integers(0, 3),
    mode=st.sampled_from(["run_once", "run_all", "skip"]),
    times=st.sampled_from([-1, 1, 2]),
    behind_ms=st.integers(0, 10**8),
    overlap=st.sampled_from(["skip", "queue_one"]),
    data=st.data(),
)
def test_every_outcome_is_a_legal_step_and_none_is_due_before_its_occurrence(
    trigger: Any, retries: int, mode: Any, times: int, behind_ms: int, overlap: Any, data: st.DataObject
) -> None:
    policy = RetryPolicy(retries=retries)
    task = claimed(trigger=trigger, times=times, retry=policy, late=LatePolicy(mode=mode), overlap=overlap)
    now = NOW + behind_ms
    for _ in range(5):
        step = data.draw(st.sampled_from(["succeed", "fail", "snooze", "stop", "crash", "interrupt", "begin"]))
        steps: dict[str, Callable[[], Task | transitions.Ended]] = {
            "succeed": partial(transitions.succeed, task, None, now),
            "fail": partial(transitions.fail, task, "boom", now, 0.5),
            "snooze": partial(transitions.snooze, task, 5, "later", now),
            "stop": partial(transitions.stop, task, "asked to", now),
            "crash": partial(transitions.crash, task, now, 0.5),
            "interrupt": partial(transitions.interrupt, task, now),
            "begin": partial(transitions.begin, task, now, now),
        }
        ended = steps[step]()
        if isinstance(ended, Task):
            task = ended
            continue
        after = transitions.finish(task, ended.task, now, ended.skipped)
        assert after.status in LEGAL[Status.RUNNING]
        assert after.run_at >= after.occurrence_at
        assert after.runs in (task.runs, task.runs + 1)
        assert after.version == task.version + 1
        if after.status is not Status.PENDING:
            assert after.finished_at == now
            return
        now = max(now, after.run_at)
        task = transitions.claim(after, now)
