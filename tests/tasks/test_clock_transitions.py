"""What becomes of a task that waits when the clock is set back."""

from typing import Any

import pytest
from msgspec.structs import replace

from tickwheel.tasks import transitions
from tickwheel.tasks.policies import LatePolicy
from tickwheel.tasks.record import Following, LastRun, RunStatus, Status, Task
from tickwheel.tasks.triggers import Cron, Every

HOUR = 3_600_000
BEFORE = 100 * HOUR  # what the clock showed
NOW = BEFORE - HOUR + 200  # what it shows


def waiting(**fields: Any) -> Task:
    given = {"run_at": BEFORE + 1_000, "occurrence_at": BEFORE + 1_000, "created_at": BEFORE - 10_000, **fields}
    return Task(id="a", handler="h", **given)


def ran(task: Task) -> Task:
    last_run = LastRun(status=RunStatus.COMPLETED, attempt=1, finished_at=BEFORE)
    return replace(task, runs=1, last_run=last_run, started_at=BEFORE - 20)


SECOND = waiting(trigger=Every(interval_ms=1_000), times=-1)


def test_every_goes_on_with_the_first_point_of_its_grid() -> None:
    task = transitions.set_back(ran(SECOND), NOW)
    assert NOW < task.run_at == task.occurrence_at <= NOW + 1_000
    assert task.run_at % 1_000 == 0
    assert transitions.set_back(task, NOW) is task


@pytest.mark.parametrize(("ago", "due"), [(100, NOW + 800), (200, NOW + 800), (201, NOW - 200), (1_200, NOW - 200)])
def test_every_does_not_run_again_at_a_point_that_came_before_its_last_run_ended(ago: int, due: int) -> None:
    """The last point was 200 ms ago; a step is noticed up to a second late."""
    assert transitions.set_back(ran(SECOND), NOW, BEFORE + ago).run_at == due


def test_every_that_has_not_run_yet_goes_on_as_well() -> None:
    assert NOW < transitions.set_back(replace(SECOND, created_at=BEFORE), NOW).run_at <= NOW + 1_000


def test_a_series_whose_time_was_chosen_later_than_it_ran_goes_on() -> None:
    resumed = replace(ran(SECOND), last_run=None, started_at=None, created_at=0)
    for before in (0, BEFORE - HOUR, BEFORE):
        assert transitions.set_back(resumed, NOW, before).run_at <= NOW + 1_000


@pytest.mark.parametrize(
    "task",
    [
        waiting(),
        waiting(trigger=Cron(expression="* * * * *"), times=-1),
        replace(SECOND, run_at=BEFORE + HOUR, occurrence_at=BEFORE + HOUR, grid_at=BEFORE + HOUR),  # delay="1h"
        replace(ran(SECOND), grid_at=BEFORE),  # rescheduled
        replace(ran(SECOND), run_at=NOW + 900, occurrence_at=NOW + 900),
    ],
    ids=["delay", "cron", "delayed", "rescheduled", "soon"],
)
def test_what_is_due_at_a_moment_waits_for_the_wall_clock(task: Task) -> None:
    assert transitions.set_back(task, NOW, BEFORE) is task


@pytest.mark.parametrize("delayed_by", [0, HOUR])
def test_a_run_that_was_rescheduled_to_the_moment_it_had_waits_for_the_wall_clock(delayed_by: int) -> None:
    moment = SECOND.run_at + delayed_by
    series = replace(SECOND, run_at=moment, occurrence_at=moment, grid_at=moment if delayed_by else None)
    rescheduled = transitions.reschedule(series, moment)
    assert transitions.set_back(rescheduled, NOW, BEFORE) is rescheduled
    resumed = transitions.resume(transitions.pause(rescheduled), NOW)
    assert resumed.run_at == moment
    running = transitions.claim(resumed, moment)
    assert transitions.succeed(running, None, moment).task.run_at == moment + 1_000


def test_a_retry_in_a_series_waits_as_long_as_it_would_have() -> None:
    task = replace(SECOND, run_at=BEFORE, occurrence_at=BEFORE, started_at=BEFORE)
    failed = transitions.snooze(task, 2_000, "", BEFORE).task
    assert failed.run_at == BEFORE + 2_000
    assert transitions.set_back(failed, NOW).run_at == NOW + 2_000


def test_a_retry_of_what_is_due_at_a_moment_is_not_made_before_that() -> None:
    task = replace(waiting(), run_at=BEFORE, occurrence_at=BEFORE, started_at=BEFORE)
    failed = transitions.snooze(task, 2_000, "", BEFORE).task
    assert transitions.set_back(failed, NOW).run_at == BEFORE


def test_a_retry_that_was_decided_since_stays() -> None:
    task = replace(waiting(), run_at=BEFORE, occurrence_at=BEFORE, created_at=0, started_at=BEFORE)
    failed = transitions.snooze(task, HOUR, "", NOW).task
    assert failed.run_at == NOW + HOUR
    assert transitions.set_back(failed, NOW + 100) is failed


@pytest.mark.parametrize("ended_at", [BEFORE, BEFORE + 600_000])
def test_a_retry_waits_as_long_as_it_would_have_though_its_attempt_began_before_the_clock_was_ahead(
    ended_at: int,
) -> None:
    task = replace(SECOND, run_at=NOW, occurrence_at=NOW, started_at=NOW)
    failed = transitions.snooze(task, 2_000, "", ended_at).task
    assert failed.run_at == ended_at + 2_000
    assert transitions.set_back(failed, NOW + 10).run_at == NOW + 10 + 2_000
    claimed = transitions.claim(failed, failed.run_at)
    assert transitions.set_back(transitions.release(claimed).task, NOW + 10).run_at == NOW + 10 + 2_000


def test_a_run_now_stays_at_once() -> None:
    asked = transitions.run_now(replace(SECOND, run_at=BEFORE + HOUR, occurrence_at=BEFORE + HOUR), BEFORE)
    assert transitions.set_back(replace(asked, created_at=BEFORE), NOW).run_at == NOW


def test_a_series_goes_on_from_now_if_the_clock_is_set_back_during_its_run() -> None:
    running = transitions.claim(replace(SECOND, run_at=BEFORE, occurrence_at=BEFORE), BEFORE)
    after = transitions.succeed(running, None, NOW).task
    assert NOW < after.run_at <= NOW + 1_000


@pytest.mark.parametrize("asked_for", [False, True])
def test_what_is_to_follow_a_run_waits_for_it_though_the_claim_is_given_up(asked_for: bool) -> None:
    """The clock is set back between the claim and the run, which is released with another time."""
    waits = replace(ran(SECOND), attempt=1)
    series = transitions.run_now(waits, BEFORE) if asked_for else waits
    claimed = transitions.claim(series, series.run_at)
    other = replace(waiting(args={"n": 1}), created_at=NOW)
    replaced, _ = transitions.add(claimed, other, "replace")
    assert replaced.following is not None
    released = transitions.release(transitions.set_back(claimed, NOW))
    assert (released.task.occurrence_at, released.task.next_at) != (claimed.occurrence_at, claimed.next_at)
    after = transitions.finish(replaced, released.task, NOW, given_back=True)
    assert (after.status, after.run_at, after.args) == (Status.PENDING, released.task.run_at, {})
    assert after.following == replaced.following
    over = transitions.succeed(transitions.claim(after, after.run_at), None, after.run_at).task
    assert over.args == {"n": 1}


@pytest.mark.parametrize("how", ["replace", "update"])
def test_what_is_to_follow_a_run_follows_it_though_the_series_would_go_on_at_the_same_moment(how: Any) -> None:
    """The clock is set back a little during the run, and the moment it was for comes again."""
    series = replace(SECOND, trigger=Every(interval_ms=30_000), run_at=BEFORE, occurrence_at=BEFORE)
    running = transitions.claim(series, BEFORE)
    other = waiting(args={"n": 1}, trigger=Every(interval_ms=7_000), times=-1)
    there = replace(running, following=Following(how, other), version=running.version + 1)
    ended = transitions.succeed(running, None, BEFORE - 5_000).task
    assert ended.occurrence_at == running.occurrence_at
    after = transitions.finish(there, ended, BEFORE - 5_000)
    assert (after.args, after.trigger, after.following) == ({"n": 1}, other.trigger, None)


def test_a_claim_that_is_given_up_says_nothing_of_the_clock_if_it_was_due() -> None:
    """A run that was moved to before its point stands for it, and the next one is up to two intervals away."""
    moved = transitions.reschedule(ran(SECOND), BEFORE + 10)
    after = transitions.succeed(transitions.claim(moved, BEFORE + 10), None, BEFORE + 10).task
    assert after.run_at == BEFORE + 2_000
    claimed = transitions.claim(transitions.run_now(replace(after, grid_at=None), BEFORE + 20), BEFORE + 20)
    far = replace(claimed, next_at=BEFORE + 3_000)
    assert transitions.set_back_since_claim(far, BEFORE + 30) is far
    assert transitions.set_back_since_claim(far, NOW).run_at == NOW


def test_a_series_whose_next_points_are_spoken_for_is_not_taken_for_one_of_a_clock_that_was_ahead() -> None:
    moved = transitions.reschedule(transitions.pause(ran(SECOND)), BEFORE + 10)
    after = transitions.succeed(transitions.claim(moved, BEFORE + 10), None, BEFORE + 10).task
    asked = transitions.run_now(replace(after, run_at=after.run_at + 2_000), BEFORE + 20)
    resumed = transitions.resume(asked, BEFORE + 30)
    assert (resumed.paused, resumed.next_at) == (False, BEFORE + 4_000)


@pytest.mark.parametrize("how", ["replace", "update"])
def test_what_is_to_follow_a_wait_goes_on_from_now_as_well(how: Any) -> None:
    other = replace(SECOND, trigger=Every(interval_ms=5_000), run_at=BEFORE + 5_000, occurrence_at=BEFORE + 5_000)
    waits = replace(SECOND, run_at=NOW + 500, occurrence_at=NOW + 500, following=Following(how, other))
    corrected = transitions.set_back(waits, NOW)
    assert corrected.run_at == NOW + 500
    assert corrected.following is not None
    assert NOW < corrected.following.task.run_at <= NOW + 5_000
    assert transitions.set_back(corrected, NOW) is corrected


def test_a_first_run_that_was_asked_for_is_kept_by_an_extra_run() -> None:
    delayed = replace(SECOND, run_at=BEFORE + HOUR, occurrence_at=BEFORE + HOUR, grid_at=BEFORE + HOUR)
    running = transitions.claim(transitions.run_now(delayed, BEFORE), BEFORE)
    assert transitions.succeed(running, None, NOW).task.run_at == BEFORE + HOUR


def test_a_retry_decided_since_stays_though_the_task_was_added_before() -> None:
    task = replace(SECOND, run_at=NOW, occurrence_at=NOW, created_at=BEFORE, started_at=NOW)
    failed = transitions.snooze(task, 3_000, "", NOW).task
    assert transitions.set_back(failed, NOW + 100, BEFORE) is failed


def test_a_retry_is_not_made_early_by_a_second_step() -> None:
    task = replace(SECOND, run_at=BEFORE, occurrence_at=BEFORE, started_at=BEFORE)
    once = transitions.set_back(transitions.snooze(task, 3_000, "", BEFORE).task, NOW)
    twice = transitions.set_back(once, NOW - HOUR + 500, NOW + 500)
    assert twice.run_at == NOW - HOUR + 500 + 3_000, "counted from now, as after the first step"
    assert transitions.set_back(once, NOW + 100, BEFORE) is once, "there was no other step"
    further = transitions.set_back(once, NOW - HOUR + 500, BEFORE + HOUR)
    assert further.run_at == NOW - HOUR + 3_500, "whatever the clock had shown at its worst"


def test_a_retry_keeps_its_wait_though_it_was_claimed_by_a_clock_that_was_ahead() -> None:
    """The claim says nothing of when the wait was chosen: it did not begin."""
    task = replace(SECOND, run_at=NOW, occurrence_at=NOW, created_at=NOW - 1_000, started_at=NOW)
    waits = transitions.snooze(task, 3_000, "", NOW).task
    claimed = transitions.claim(waits, BEFORE)
    assert transitions.release(transitions.set_back(claimed, NOW + 100, BEFORE)).task.run_at == NOW + 3_000
    again = transitions.claim(transitions.release(claimed).task, BEFORE + 500)
    assert transitions.set_back(again, NOW + 100, BEFORE).run_at == NOW + 3_000, "also after a second claim"
    tried = transitions.snooze(claimed, 3_000, "", BEFORE).task
    assert transitions.set_back(tried, NOW + 100, BEFORE).run_at == NOW + 3_100, "what has begun chose anew"


def test_a_retry_that_waits_for_its_moment_already_is_not_written_again() -> None:
    task = replace(waiting(), run_at=BEFORE, occurrence_at=BEFORE, started_at=BEFORE)
    failed = transitions.interrupt(task, NOW).task
    assert failed.run_at == BEFORE
    late = replace(failed, started_at=BEFORE)
    assert transitions.set_back(late, NOW) is late


def test_what_follows_a_run_now_goes_on_from_now_as_well() -> None:
    asked = transitions.run_now(ran(SECOND), NOW)
    assert asked.next_at == BEFORE + 1_000
    for before in (0, BEFORE + 500):
        corrected = transitions.set_back(asked, NOW, before)
        assert corrected.run_at == NOW
        assert corrected.next_at is not None
        assert NOW < corrected.next_at <= NOW + 1_000, "the run that was asked for stands for what was passed"


def test_a_series_that_has_only_skipped_so_far_goes_on() -> None:
    skipping = replace(SECOND, created_at=BEFORE - HOUR, attempt=2)
    assert transitions.set_back(skipping, NOW, BEFORE).run_at <= NOW


def test_what_was_missed_by_a_clock_that_was_ahead_is_forgotten_when_a_run_ends() -> None:
    late = LatePolicy(mode="run_all", catch_up=1)
    catching_up = replace(SECOND, run_at=BEFORE, occurrence_at=BEFORE, missed_until=BEFORE + 5_000, late=late)
    after = transitions.succeed(transitions.claim(catching_up, BEFORE), None, NOW).task
    again = transitions.begin(transitions.claim(after, after.run_at), after.run_at)
    assert isinstance(again, Task), "it runs, and is not skipped up to an hour from now"


def test_an_interrupted_run_is_made_again_at_once_also_if_the_clock_was_ahead_only_at_its_end() -> None:
    task = replace(waiting(), run_at=NOW - 2_000, occurrence_at=NOW - 2_000, created_at=0, started_at=NOW - 2_000)
    interrupted = transitions.interrupt(task, BEFORE).task
    assert transitions.set_back(interrupted, NOW, BEFORE).run_at == NOW


def test_a_series_whose_interval_was_changed_before_its_first_run_goes_on() -> None:
    changed = replace(SECOND, created_at=BEFORE - HOUR)
    assert transitions.set_back(changed, NOW, BEFORE).run_at <= NOW


@pytest.mark.parametrize(
    "task",
    [waiting(), waiting(trigger=Cron(expression="* * * * *"), times=-1), ran(replace(SECOND, times=1))],
    ids=["once", "cron", "every"],
)
def test_what_was_retried_runs_now(task: Task) -> None:
    """It was asked for now, and its node did not come to it before the clock was set."""
    failed = replace(task, status=Status.FAILED, finished_at=BEFORE - 5_000)
    retried = transitions.retry(failed, BEFORE + 300)
    corrected = transitions.set_back(retried, NOW, BEFORE + 1_000)
    assert corrected.run_at == corrected.occurrence_at == NOW
    assert transitions.set_back(corrected, NOW - HOUR, NOW).run_at == NOW - HOUR, "and once more"
    if isinstance(task.trigger, Every):
        series = replace(corrected, times=-1, started_at=NOW, status=Status.RUNNING)
        assert transitions.succeed(series, None, NOW + 10).task.run_at == NOW + 800, "the grid is as it was"


def test_what_was_retried_and_then_given_a_time_waits_for_it() -> None:
    retried = transitions.retry(replace(ran(SECOND), status=Status.CANCELLED), BEFORE)
    moved = transitions.reschedule(retried, BEFORE + 10_000)
    assert transitions.set_back(moved, NOW, BEFORE) is moved


def test_a_series_that_was_retried_goes_on_within_an_interval_after_a_run_now() -> None:
    """The clock is set back after the retry, and run_now is asked for before that is noticed."""
    retried = transitions.retry(replace(ran(SECOND), status=Status.CANCELLED), BEFORE + 300)
    asked = transitions.run_now(retried, NOW)
    assert (asked.run_at, asked.version) == (NOW, retried.version + 1)
    after = transitions.succeed(transitions.claim(asked, NOW), None, NOW + 10).task
    assert after.run_at == NOW + 800, "the grid is as it was"


def test_a_series_that_was_retried_and_paused_goes_on_within_an_interval_after_a_run_now() -> None:
    retried = transitions.retry(replace(ran(SECOND), status=Status.CANCELLED), BEFORE + 300)
    asked = transitions.run_now(transitions.pause(retried), BEFORE + 400)
    assert asked.next_at == BEFORE + 300
    corrected = transitions.set_back(asked, NOW, BEFORE + 1_000)
    assert (corrected.run_at, corrected.next_at) == (NOW, NOW)
    assert transitions.set_back(corrected, NOW, BEFORE + 1_000) is corrected
    after = transitions.succeed(transitions.claim(corrected, NOW), None, NOW + 10).task
    assert after.run_at == NOW + 800, "the grid is as it was"


@pytest.mark.parametrize("updates", [1, 2])
def test_an_update_of_arguments_alone_leaves_a_series_where_it_was_resumed(updates: int) -> None:
    """Its claim was given back after the update, and it was paused and resumed before it was claimed again."""
    task, args = transitions.claim(replace(SECOND, run_at=NOW, occurrence_at=NOW), NOW), {"n": 1}
    for moment in (NOW, NOW + 10_000)[:updates]:
        wanted = replace(task, args=args) if task.following is None else replace(task.following.task, args=args)
        updated = transitions.update(task, replace(wanted, version=task.version), moment)
        given_back = transitions.finish(updated, transitions.release(task).task, moment, given_back=True)
        resumed = transitions.resume(transitions.pause(given_back), moment + 10_000)
        task = transitions.claim(resumed, resumed.run_at)
    after = transitions.finish(task, transitions.succeed(task, None, task.run_at).task, task.run_at)
    assert (after.args, after.run_at) == (args, task.run_at + 1_000)


def test_what_was_missed_is_not_made_up_for_after_a_late_run_that_was_updated_meanwhile() -> None:
    """A node takes over ten points late, and the task is updated while the one run for them goes on."""
    series = replace(SECOND, run_at=BEFORE, occurrence_at=BEFORE, overlap="queue_one")
    claimed = transitions.claim(series, NOW)
    taken_over = BEFORE + 10_600
    begun = transitions.begin(claimed, taken_over, taken_over)
    assert isinstance(begun, Task)
    there = transitions.update(claimed, replace(claimed, args={"n": 1}), taken_over)
    ended = transitions.succeed(begun, None, taken_over)
    after = transitions.finish(there, ended.task, taken_over, ended.skipped)
    assert (after.args, after.run_at) == ({"n": 1}, BEFORE + 11_000)
    following = transitions.succeed(transitions.claim(after, after.run_at), None, after.run_at).task
    assert following.missed_until is None


def test_a_rescheduled_run_keeps_its_moment_after_a_run_now_made_since_the_clock_was_set_back() -> None:
    asked = transitions.run_now(SECOND, BEFORE)
    moved = transitions.reschedule(asked, NOW + HOUR // 2)
    corrected = transitions.set_back(moved, NOW)
    ended = transitions.succeed(transitions.claim(corrected, NOW), None, NOW + 5).task
    assert (ended.status, ended.run_at) == (Status.PENDING, NOW + HOUR // 2)
