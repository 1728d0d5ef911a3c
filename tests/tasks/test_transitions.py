"""What every verb does in every state: the tables of the specification, row by row."""

from typing import Any

import pytest
from msgspec.structs import replace

from tickwheel.errors import DuplicateTask, InvalidTask, TaskFinished, TaskRunning, VersionMismatch
from tickwheel.tasks import ENDED, Every, Status, Task, Webhook, transitions

NOW = 1_800_000_000_000
MINUTE = 60_000
STATES = ("pending", "paused", "running", "completed", "failed", "cancelled")


def make(state: str, *, recurring: bool = False, **fields: Any) -> Task:
    """Make a task in a state, due in a minute."""
    usual: dict[str, Any] = {"handler": "h", "run_at": NOW + MINUTE, "occurrence_at": NOW + MINUTE}
    if recurring:
        usual |= {"trigger": Every(interval_ms=MINUTE), "times": -1}
    task = Task(id="t", created_at=NOW, **{**usual, **fields})
    if state == "paused":
        return replace(task, paused=True)
    if state == "running":
        return transitions.claim(task, task.run_at)
    if state in ("completed", "failed", "cancelled"):
        return replace(task, status=Status(state), finished_at=NOW, attempt=1)
    return task


def act(verb: str, task: Task) -> Task:
    """Do something to a task a second after NOW."""
    now = NOW + 1000
    return {
        "cancel": lambda: transitions.cancel(task, "no", now),
        "cancel run_only": lambda: transitions.cancel(task, "no", now, run_only=True),
        "pause": lambda: transitions.pause(task),
        "resume": lambda: transitions.resume(task, now),
        "reschedule": lambda: transitions.reschedule(task, NOW + 5 * MINUTE),
        "update": lambda: transitions.update(task, replace(task, priority=7), NOW),
        "run_now": lambda: transitions.run_now(task, now),
        "retry": lambda: transitions.retry(task, now),
    }[verb]()


TABLE: dict[str, tuple[Any, ...]] = {
    # verb: pending, paused, running; then all that are finished
    "cancel": ("cancelled", "cancelled", "asked", "same"),
    "cancel run_only": ("same", "same", "asked", "same"),
    "pause": ("paused", "same", "running paused", TaskFinished),
    "resume": ("same", "pending", "same", TaskFinished),
    "reschedule": ("moved", "moved paused", TaskRunning, TaskFinished),
    "update": ("changed", "changed paused", TaskRunning, TaskFinished),
    "run_now": ("now", "now paused", TaskRunning, TaskFinished),
    "retry": ("same", "same", "same", "now"),
}


def outcome(before: Task, after: Task) -> str:
    """Say what became of a task."""
    if after is before:
        return "same"
    assert after.version == before.version + 1
    words = [("cancelled", after.status is Status.CANCELLED), ("asked", after.cancel_requested)]
    words += [("running", after.status is Status.RUNNING), ("changed", after.priority != before.priority)]
    words += [("now", after.run_at == NOW + 1000), ("moved", after.run_at != before.run_at)]
    first = next((word for word, fits in words if fits), after.status.value)
    if first == "pending" and after.paused:
        return "paused"
    return f"{first} paused" if after.paused else first


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("verb", TABLE)
def test_a_verb_does_to_a_one_off_what_the_table_says(verb: str, state: str) -> None:
    task = make(state)
    expected = TABLE[verb][min(STATES.index(state), 3)]
    if isinstance(expected, str):
        assert outcome(task, act(verb, task)) == expected
        return
    with pytest.raises(expected):
        act(verb, task)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("verb", TABLE)
def test_a_verb_repeated_changes_nothing_further(verb: str, state: str) -> None:
    for recurring in (False, True):
        try:
            once = act(verb, make(state, recurring=recurring))
            twice = act(verb, once)
        except (TaskFinished, TaskRunning):
            continue
        assert replace(twice, version=0) == replace(once, version=0), (verb, state, recurring)


ADDS: dict[str, tuple[Any, ...]] = {
    # on_conflict: waiting, running, completed, failed or cancelled
    "reject": (DuplicateTask, DuplicateTask, DuplicateTask, "added"),
    "keep": ("kept", "kept", "kept", "added"),
    "replace": ("added", TaskRunning, "added", "added"),
    "debounce": ("debounced", "later", "added", "added"),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("on_conflict", ADDS)
def test_an_add_of_an_id_that_is_there_does_what_the_table_says(on_conflict: Any, state: str) -> None:
    there = make(state, args={"n": 1})
    new = make("pending", args={"n": 2}, run_at=NOW + 9 * MINUTE, occurrence_at=NOW + 9 * MINUTE)
    expected = ADDS[on_conflict][(0, 0, 1, 2, 3, 3)[STATES.index(state)]]
    if not isinstance(expected, str):
        with pytest.raises(expected) as raised:
            transitions.add(there, new, on_conflict)
        if expected is DuplicateTask:
            assert raised.value.task is there
        return
    task, added = transitions.add(there, new, on_conflict)
    assert added == (expected == "added")
    if expected == "kept":
        assert task is there
        return
    assert (task.version, task.attempt) == (there.version + 1, there.attempt)
    if expected == "later":
        assert (task.status, task.args, task.run_at) == (Status.RUNNING, {"n": 1}, there.run_at)
        assert task.following is not None
    else:
        assert (task.status, task.args, task.run_at) == (Status.PENDING, {"n": 2}, NOW + 9 * MINUTE)
        assert task.paused == (expected == "debounced" and there.paused), "replace clears the flag, debounce keeps it"


def test_debounce_is_for_one_offs() -> None:
    for there, new in ((True, False), (False, True)):
        with pytest.raises(InvalidTask):
            transitions.add(make("pending", recurring=there), make("pending", recurring=new), "debounce")


def test_debounce_does_not_change_where_a_task_goes() -> None:
    for state in ("pending", "paused", "running"):
        there = make(state, handler="orders.cancel")
        with pytest.raises(InvalidTask, match=r"'orders\.cancel'.*'orders\.remind'"):
            transitions.add(there, make("pending", handler="orders.remind"), "debounce")
    sent = make("pending", handler="webhook", webhook=Webhook(url="https://example.org/a"))
    with pytest.raises(InvalidTask, match="another webhook"):
        transitions.add(sent, replace(sent, webhook=Webhook(url="https://example.org/b")), "debounce")


def test_a_debounced_task_expires_as_it_was_said_last() -> None:
    first, second = NOW + 5 * MINUTE, NOW + 9 * MINUTE
    for state in ("pending", "running"):
        there = make(state, expires_at=first)
        for given, expected in (((), first), ((None,), first), ((second,), second), ((second, None), second)):
            task = there
            for expires_at in given:
                task, _ = transitions.add(task, make("pending", expires_at=expires_at), "debounce")
            if state == "running" and given:
                assert task.expires_at == first, "that of the present run"
                task = finished(task, transitions.succeed(there, None, NOW + MINUTE), NOW + MINUTE)
            assert task.expires_at == expected


def test_an_update_needs_the_version_that_was_read() -> None:
    task = make("pending")
    with pytest.raises(VersionMismatch):
        transitions.update(replace(task, version=3), task, NOW)


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("state", ["pending", "paused", "waits for a retry", "run now"])
def test_a_series_that_waits_and_has_no_run_left_is_completed(state: str, times: int) -> None:
    series = make("paused" if state == "paused" else "pending", recurring=True, runs=3, times=5)
    if state == "waits for a retry":
        series = replace(series, failures=1)
    elif state == "run now":
        series = transitions.run_now(series, NOW)
    ended = transitions.update(series, replace(series, times=times), NOW)
    assert (ended.status, ended.paused, ended.run_now_requested) == (Status.COMPLETED, False, False)
    assert (ended.runs, ended.times, ended.finished_at, ended.version) == (3, times, NOW, series.version + 1)
    assert ended.reason == f"it has run 3 times, and is to run {times} times"
    again = transitions.retry(ended, NOW)
    claimed = transitions.claim(again, NOW)
    assert transitions.succeed(claimed, None, NOW).task.status is Status.COMPLETED, "one more, as always"


def test_a_series_that_has_a_run_left_goes_on() -> None:
    for times in (4, -1):
        series = make("pending", recurring=True, runs=3, times=5)
        assert transitions.update(series, replace(series, times=times), NOW).status is Status.PENDING


# -- what takes effect when a run is over


def finished(running: Task, ended: transitions.Ended, now: int) -> Task:
    """Write the outcome of a task that was claimed as something else than it is now."""
    return transitions.finish(running, ended.task, now, ended.skipped)


def test_a_task_that_is_paused_while_it_runs_is_paused_then() -> None:
    for recurring in (False, True):
        claimed = make("running", recurring=recurring, retry=make("pending").retry)
        paused = transitions.pause(claimed)
        now = claimed.run_at + 5
        snoozed = finished(paused, transitions.snooze(claimed, 1000, "later", now), now)
        assert (snoozed.listed_status, snoozed.run_at) == (Status.PAUSED, now + 1000)
    following = finished(paused, transitions.succeed(claimed, None, now), now)
    assert (following.listed_status, following.run_at) == (Status.PAUSED, NOW + 2 * MINUTE)
    resumed = transitions.resume(paused, now)
    assert finished(resumed, transitions.succeed(claimed, None, now), now).listed_status is Status.PENDING


def test_a_recurring_task_that_is_changed_while_it_runs_is_another_one_from_its_next_occurrence() -> None:
    claimed = make("running", recurring=True)
    changed = transitions.update(claimed, replace(claimed, priority=7, args={"n": 2}), NOW)
    assert (changed.priority, changed.args) == (0, {}), "not yet"
    now = claimed.run_at + 5
    failed = finished(changed, transitions.snooze(claimed, 1000, "later", now), now)
    assert (failed.priority, failed.args) == (0, {}), "the same occurrence"
    after = finished(changed, transitions.succeed(claimed, "ok", now), now)
    assert (after.priority, after.args, after.run_at, after.runs) == (7, {"n": 2}, NOW + 2 * MINUTE, 1)
    assert (after.result, after.following, after.attempt) == ("ok", None, 1)


@pytest.mark.parametrize("trigger", [Every(interval_ms=MINUTE), Every(interval_ms=7)])
@pytest.mark.parametrize("extra", [False, True])
@pytest.mark.parametrize("times", [1, 3])
def test_a_series_that_has_no_run_left_ends_when_its_present_run_does(trigger: Every, extra: bool, times: int) -> None:
    waiting = make("pending", recurring=True, runs=3, times=5)
    claimed = transitions.claim(transitions.run_now(waiting, NOW) if extra else waiting, NOW + MINUTE)
    wanted = replace(claimed, times=times, trigger=trigger)
    changed = transitions.update(claimed, wanted, NOW)
    assert changed.status is Status.RUNNING
    now = NOW + MINUTE + 5
    completed = finished(changed, transitions.succeed(claimed, "ok", now), now)
    assert (completed.status, completed.runs, completed.times) == (Status.COMPLETED, 3 if extra else 4, times)
    failed = finished(changed, transitions.fail_for_good(claimed, "no", "no", now), now)
    assert (failed.status, failed.following) == (Status.FAILED, None)


def test_a_recurring_task_that_is_replaced_while_it_runs_goes_on_as_the_new_one() -> None:
    claimed = make("running", recurring=True)
    new = make("pending", handler="other", run_at=NOW + 90_000, occurrence_at=NOW + 90_000)
    replaced, added = transitions.add(transitions.pause(claimed), new, "replace")
    assert not added
    assert not replaced.paused
    now = claimed.run_at + 5
    after = finished(replaced, transitions.succeed(claimed, None, now), now)
    assert (after.handler, after.run_at, after.runs, after.attempt) == ("other", NOW + 90_000, 0, 1)


def test_a_debounce_while_it_runs_makes_one_following_run_with_the_new_arguments() -> None:
    claimed = make("running", args={"n": 1}, retry=transitions_retry())
    later = make("pending", args={"n": 2}, run_at=NOW + 5 * MINUTE, occurrence_at=NOW + 5 * MINUTE)
    asked, _ = transitions.add(claimed, later, "debounce")
    now = claimed.run_at + 5
    again = finished(asked, transitions.fail(claimed, "boom", now, 0.0), now)
    assert (again.args, again.failures) == ({"n": 1}, 1), "a retry keeps the old arguments"
    second = transitions.claim(again, again.run_at)
    after = finished(second, transitions.succeed(second, None, now), now)
    assert (after.status, after.args, after.run_at, after.failures) == (Status.PENDING, {"n": 2}, NOW + 5 * MINUTE, 0)
    assert transitions.cancel(asked, "no", now).following is None, "cancel discards it"


def transitions_retry() -> Any:
    return replace(make("pending").retry, retries=2)


@pytest.mark.parametrize("recurring", [False, True])
def test_a_run_that_is_cancelled_ends_cancelled_and_is_not_retried(recurring: bool) -> None:
    claimed = make("running", recurring=recurring, retry=transitions_retry())
    now = claimed.run_at + 5
    asked = transitions.cancel(claimed, "enough", now)
    for ended in (
        transitions.stop(claimed, "stopped", now),
        transitions.fail(claimed, "boom", now, 0.0),
        transitions.crash(claimed, now, 0.0),
        transitions.snooze(claimed, 5, "later", now),
    ):
        after = finished(asked, ended, now)
        assert (after.status, after.reason, after.finished_at) == (Status.CANCELLED, "enough", now)
    returned = finished(asked, transitions.succeed(claimed, 7, now), now)
    assert returned.status is (Status.CANCELLED if recurring else Status.COMPLETED)
    assert returned.result == 7


def test_run_only_stops_a_run_and_its_series_goes_on() -> None:
    claimed = make("running", recurring=True, retry=transitions_retry())
    now = claimed.run_at + 5
    asked = transitions.cancel(claimed, "enough", now, run_only=True)
    for ended in (transitions.stop(claimed, "stopped", now), transitions.fail(claimed, "boom", now, 0.0)):
        after = finished(asked, ended, now)
        assert (after.status, after.run_at, after.cancel_requested) == (Status.PENDING, NOW + 2 * MINUTE, False)
    harder = transitions.cancel(asked, "really", now)
    assert (harder.cancel_run_only, harder.reason) == (False, "really")
    one_off = transitions.cancel(make("running"), "enough", now, run_only=True)
    assert not one_off.cancel_run_only, "the same as cancel"


def test_a_series_whose_last_run_was_to_stop_ends_cancelled_unless_that_returned() -> None:
    claimed = make("running", recurring=True, times=1)
    now = claimed.run_at + 5
    asked = transitions.cancel(claimed, "enough", now, run_only=True)
    for ended in (
        transitions.stop(claimed, "stopped", now),
        transitions.fail(claimed, "boom", now, 0.0),
        transitions.crash(replace(claimed, max_crashes=1), now, 0.0),
    ):
        assert finished(asked, ended, now).status is Status.CANCELLED
    assert finished(asked, transitions.succeed(claimed, 7, now), now).status is Status.COMPLETED


# -- run_now


def test_run_now_of_a_series_is_one_run_more_and_moves_nothing() -> None:
    task = make("pending", recurring=True, times=3)
    asked = transitions.run_now(task, NOW + 5)
    assert (asked.run_at, asked.occurrence_at, asked.listed_status) == (NOW + 5, NOW + 5, Status.PENDING)
    claimed = transitions.claim(asked, NOW + 5)
    after = transitions.succeed(claimed, None, NOW + 10).task
    assert (after.run_at, after.occurrence_at, after.runs, after.next_at) == (task.run_at, task.run_at, 0, None)
    assert not after.run_now_requested


def test_run_now_of_a_paused_task_runs_once_and_it_stays_paused() -> None:
    task = make("paused", recurring=True)
    asked = transitions.run_now(task, NOW + 5)
    assert transitions.may_claim(asked, NOW + 5)
    after = transitions.succeed(transitions.claim(asked, NOW + 5), None, NOW + 10).task
    assert (after.listed_status, after.run_at) == (Status.PAUSED, task.run_at)
    assert not transitions.may_claim(after, NOW + 10 * MINUTE)


def test_a_run_now_whose_process_died_was_made_also_if_an_earlier_run_was_interrupted() -> None:
    task = replace(make("paused", recurring=True), interrupted=True)
    asked = transitions.claim(transitions.run_now(task, NOW + 5), NOW + 5)
    died = transitions.crash(asked, NOW + 6, 0.0).task
    assert (died.listed_status, died.run_now_requested) == (Status.PAUSED, False)
    stopped = transitions.interrupt(asked, NOW + 6).task
    assert (stopped.listed_status, stopped.run_now_requested) == (Status.PENDING, True)


def test_pause_withdraws_a_run_now_and_reschedule_does_not() -> None:
    for recurring in (False, True):
        task = make("pending", recurring=recurring)
        asked = transitions.run_now(task, NOW + 5)
        withdrawn = transitions.pause(asked)
        assert (withdrawn.listed_status, withdrawn.run_at, withdrawn.next_at) == (Status.PAUSED, task.run_at, None)
        moved = transitions.reschedule(asked, NOW + 90_000)
        assert (moved.run_at, moved.next_at) == (NOW + 5, NOW + 90_000)


def test_a_run_now_that_was_asked_for_is_made_whatever_the_task_waited_for() -> None:
    for recurring in (False, True):
        claimed = make("running", recurring=recurring, retry=transitions_retry())
        waiting = transitions.fail(claimed, "boom", NOW, 0.0).task
        overdue = transitions.pause(make("pending", recurring=recurring, run_at=NOW - 5, occurrence_at=NOW - 5))
        for task in (waiting, transitions.pause(waiting), overdue):
            asked = transitions.run_now(task, NOW + 5)
            moved = transitions.reschedule(asked, NOW + 90_000)
            assert (moved.listed_status, moved.run_at) == (Status.PENDING, asked.run_at)
            withdrawn = transitions.pause(moved)
            assert (withdrawn.listed_status, withdrawn.run_at) == (Status.PAUSED, NOW + 90_000), "the time it was given"


def test_a_run_that_was_moved_and_is_passed_over_during_a_run_now_stands_for_its_grid_point() -> None:
    task = make("pending", recurring=True)
    moved = transitions.reschedule(transitions.run_now(task, NOW + 5), NOW + 10)
    ended = transitions.succeed(transitions.claim(moved, NOW + 5), None, NOW + 20)
    assert [run.occurrence_at for run in ended.skipped] == [NOW + 10]
    assert ended.task.run_at == task.run_at + MINUTE, "the moved one took the place of the first"


def test_run_now_of_what_waits_to_be_tried_again_tries_it_now() -> None:
    claimed = make("running", recurring=True, retry=transitions_retry())
    waiting = transitions.fail(claimed, "boom", NOW + MINUTE, 0.0).task
    asked = transitions.run_now(waiting, NOW + MINUTE + 5)
    assert (asked.run_at, asked.occurrence_at, asked.next_at, asked.failures) == (
        NOW + MINUTE + 5,
        waiting.occurrence_at,
        None,
        1,
    )


def test_pause_gives_what_waits_to_be_tried_again_its_time_back() -> None:
    for recurring in (False, True):
        claimed = make("running", recurring=recurring, retry=transitions_retry())
        waiting = transitions.fail(claimed, "boom", NOW + MINUTE, 0.0).task
        asked = transitions.run_now(transitions.pause(waiting), NOW + MINUTE + 5)
        withdrawn = transitions.pause(asked)
        assert (withdrawn.listed_status, withdrawn.run_at) == (Status.PAUSED, waiting.run_at)
        assert withdrawn.occurrence_at == waiting.occurrence_at
        moved = transitions.pause(transitions.reschedule(asked, NOW + 10 * MINUTE))
        assert moved.run_at == NOW + 10 * MINUTE, "the time it was given since then"
        begun = transitions.claim(asked, NOW + MINUTE + 5)
        interrupted = transitions.interrupt(begun, NOW + MINUTE + 6).task
        assert transitions.pause(interrupted).run_at == NOW + MINUTE + 6, "it is to run again, not to wait longer"


# -- reschedule, resume, retry of a series


@pytest.mark.parametrize(("moved_to", "following"), [(90_000, 120_000), (30_000, 120_000), (200_000, 240_000)])
def test_a_rescheduled_run_replaces_its_grid_point(moved_to: int, following: int) -> None:
    moved = transitions.reschedule(make("pending", recurring=True), NOW + moved_to)
    assert moved.run_at == moved.occurrence_at == NOW + moved_to
    after = transitions.succeed(transitions.claim(moved, moved.run_at), None, moved.run_at + 1).task
    assert (after.run_at, after.grid_at) == (NOW + following, None)


def test_a_series_is_resumed_with_its_next_occurrence_and_keeps_a_rescheduled_time() -> None:
    paused = make("paused", recurring=True)
    assert transitions.resume(paused, NOW + 5 * MINUTE + 3).run_at == NOW + 6 * MINUTE
    assert transitions.resume(paused, NOW + 3).run_at == NOW + MINUTE
    moved = transitions.reschedule(paused, NOW + 90_000)
    assert transitions.resume(moved, NOW + 3).run_at == NOW + 90_000
    missed = transitions.resume(paused, NOW + 5 * MINUTE + 3, run_missed=True)
    assert (missed.run_at, missed.missed_until) == (NOW + MINUTE, NOW + 5 * MINUTE + 3)
    assert transitions.is_missed(missed, 0)


def test_a_one_off_that_is_overdue_when_it_is_resumed_is_due() -> None:
    assert transitions.may_claim(transitions.resume(make("paused"), NOW + 5 * MINUTE), NOW + 5 * MINUTE)


def test_a_retry_begins_anew_and_a_series_follows_its_grid() -> None:
    failed = make("failed", failures=3, crashes=2, error="boom", result=1)
    again = transitions.retry(failed, NOW + 7)
    assert (again.status, again.run_at, again.failures, again.crashes, again.error) == (
        Status.PENDING,
        NOW + 7,
        0,
        0,
        None,
    )
    series = transitions.retry(make("cancelled", recurring=True), NOW + 7)
    after = transitions.succeed(transitions.claim(series, NOW + 7), None, NOW + 8).task
    assert (after.status, after.run_at) == (Status.PENDING, NOW + MINUTE)
    used_up = transitions.retry(make("completed", recurring=True, times=3, runs=3), NOW + 7)
    assert transitions.succeed(transitions.claim(used_up, NOW + 7), None, NOW + 8).task.status is Status.COMPLETED


def test_every_ended_status_can_be_retried() -> None:
    for status in ENDED:
        assert transitions.retry(make(status.value), NOW).status is Status.PENDING


def test_a_run_only_cancel_of_a_missed_run_does_not_queue_another_missed_one() -> None:
    trigger = Every(interval_ms=10)
    series = Task(
        id="a", handler="h", run_at=0, occurrence_at=0, created_at=0, trigger=trigger, times=-1, overlap="queue_one"
    )
    claimed = transitions.claim(series, 100)
    begun = transitions.begin(claimed, 101, 100)
    assert isinstance(begun, Task)
    stopped = transitions.stop(begun, "cancelled while it ran", 105)
    asked = transitions.cancel(claimed, "enough", 103, run_only=True)
    assert transitions.finish(asked, stopped.task, 105).run_at == 110
