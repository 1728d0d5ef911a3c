"""What is foreseen is what comes, one step at a time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tickwheel.tasks import Cron, Every, Once, Status, Task, Trigger
from tickwheel.tasks.transitions import reschedule, run_now, succeed
from tickwheel.tasks.upcoming_runs import preview_all, preview_runs

HOUR = 3_600_000
TRIGGERS = [Once(), Cron(expression="*/7 * * * *", tz="UTC"), Cron(expression="30 2 * * *", tz="Europe/Berlin")]


def task(trigger: Trigger, run_at: int = 0, *, times: int = -1, task_id: str = "a") -> Task:
    return Task(
        id=task_id, handler="h", trigger=trigger, times=times, run_at=run_at, occurrence_at=run_at, created_at=0
    )


def lived(task: Task, begin: int, end: int) -> list[int]:
    """Run a task again and again, each time on the moment."""
    moments = []
    while task.status is Status.PENDING and task.run_at <= end:
        moments.append(task.run_at)
        task = succeed(task, None, task.run_at).task
    return [moment for moment in moments if moment >= begin]


@given(
    trigger=st.one_of(
        st.builds(Every, interval_ms=st.integers(HOUR // 60, 5 * HOUR)),
        st.sampled_from(TRIGGERS),
    ),
    run_at=st.integers(0, 30 * HOUR),
    times=st.sampled_from([-1, 1, 2, 5, 100]),
    begin=st.integers(0, 60 * HOUR),
    length=st.integers(0, 60 * HOUR),
)
def test_it_is_what_running_the_task_gives(trigger: Trigger, run_at: int, times: int, begin: int, length: int) -> None:
    known = task(trigger, run_at, times=1 if isinstance(trigger, Once) else times)
    assert list(preview_runs(known, begin, begin + length)) == lived(known, begin, begin + length)


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED, Status.CANCELLED])
def test_what_does_not_come_due_is_not_foreseen(status: Status) -> None:
    assert list(preview_runs(replace(task(Once(), 5, times=1), status=status), 0, 10)) == []


def test_a_retry_comes_at_its_own_time_and_the_rhythm_stays() -> None:
    late = replace(task(Every(interval_ms=100), 100), run_at=130, failures=1)
    assert list(preview_runs(late, 0, 400)) == [130, 200, 300, 400]
    assert list(preview_runs(late, 150, 400)) == [200, 300, 400]


def test_many_are_listed_by_time_and_no_more_than_asked_for() -> None:
    tasks = [task(Every(interval_ms=1), task_id="fast"), task(Every(interval_ms=3), 1, task_id="slow")]
    assert preview_all(tasks, 10**12, 10**15, 5) == [
        (10**12, "fast", "h"),
        (10**12, "slow", "h"),
        (10**12 + 1, "fast", "h"),
        (10**12 + 2, "fast", "h"),
        (10**12 + 3, "fast", "h"),
    ]


def test_a_paused_task_does_not_come() -> None:
    assert list(preview_runs(replace(task(Every(interval_ms=HOUR)), paused=True), 0, 10 * HOUR)) == []


def test_a_rescheduled_run_and_one_of_run_now_do_not_move_the_grid() -> None:
    series = task(Every(interval_ms=HOUR), HOUR)
    moved = reschedule(series, HOUR + HOUR // 2)
    assert list(preview_runs(moved, 0, 3 * HOUR)) == lived(moved, 0, 3 * HOUR) == [HOUR + HOUR // 2, 2 * HOUR, 3 * HOUR]
    extra = run_now(series, 5)
    assert list(preview_runs(extra, 0, 2 * HOUR)) == lived(extra, 0, 2 * HOUR) == [5, HOUR, 2 * HOUR]
    both = run_now(moved, 5)
    assert list(preview_runs(both, 0, 2 * HOUR)) == lived(both, 0, 2 * HOUR) == [5, HOUR + HOUR // 2, 2 * HOUR]
