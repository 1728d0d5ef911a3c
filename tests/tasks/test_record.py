"""Records go through JSON and MessagePack unchanged, and lives go the ways they may."""

import pickle
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwheel.tasks import (
    ENDED,
    LEGAL,
    Cron,
    Every,
    Flag,
    LatePolicy,
    Occurrence,
    Once,
    RetryPolicy,
    Run,
    RunStatus,
    Status,
    Task,
    TaskContext,
    Trigger,
    Webhook,
)

MOMENTS = st.integers(0, 2**50)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
TRIGGERS = st.just(Once()) | st.builds(Every, st.integers(1, 2**40)) | st.just(Cron("0 2 * * *", "Europe/Berlin"))
TASKS = st.builds(
    Task,
    id=NAMES,
    handler=NAMES,
    webhook=st.none() | st.builds(Webhook, url=TEXT, headers=st.dictionaries(TEXT, TEXT, max_size=3)),
    args=st.dictionaries(TEXT, JSON, max_size=3),
    meta=st.dictionaries(TEXT, JSON, max_size=3),
    tags=st.lists(TEXT, max_size=3),
    expires_at=st.none() | MOMENTS,
    trigger=TRIGGERS,
    retry=st.builds(RetryPolicy, retries=st.integers(0, 1000), age_ms=st.none() | st.integers(0, 2**40)),
    late=st.builds(LatePolicy, mode=st.sampled_from(["run_once", "run_all", "skip"])),
    priority=st.integers(-100, 100),
    times=st.integers(-1, 100),
    at_most_once=st.booleans(),
    status=st.sampled_from(Status),
    run_at=MOMENTS,
    occurrence_at=MOMENTS,
    created_at=MOMENTS,
    started_at=st.none() | MOMENTS,
    result=JSON,
    error=st.none() | TEXT,
)


def check_round_trip(record: Any, kind: Any) -> None:
    assert msgspec.json.decode(msgspec.json.encode(record), type=kind) == record
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=kind) == record
    assert pickle.loads(pickle.dumps(record)) == record


@given(TASKS)
def test_task_goes_through_json_and_msgpack(task: Task) -> None:
    check_round_trip(task, Task)


@given(TRIGGERS)
def test_trigger_comes_back_as_what_it_was(trigger: Trigger) -> None:
    check_round_trip(trigger, Trigger)


def test_other_records_go_through_json_and_msgpack() -> None:
    run = Run(task_id="a", attempt=1, occurrence_at=1, started_at=2, finished_at=3, status=RunStatus.FAILED, error="x")
    check_round_trip(run, Run)
    for record in (RetryPolicy(retries=3), LatePolicy(mode="skip"), Occurrence(1, "1970-01-01", "note")):
        check_round_trip(record, type(record))


def test_record_that_cannot_be_is_not_read() -> None:
    for written in (b'{"type":"cron","expression":"never"}', b'{"type":"every","interval_ms":0}', b'{"type":"x"}'):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(written, type=Trigger)


def make(**fields: Any) -> Task:
    return Task(**{"id": "a", "handler": "h", "run_at": 5, "occurrence_at": 4, "created_at": 3, **fields})


def test_task_is_never_changed_in_place() -> None:
    task = make()
    with pytest.raises(AttributeError):
        task.status = Status.RUNNING  # type: ignore[misc]
    assert msgspec.structs.replace(task, status=Status.RUNNING).status is Status.RUNNING
    assert task.status is Status.PENDING


def test_tasks_do_not_share_what_they_were_not_given() -> None:
    one, other = make(), make(id="b")
    assert one.args is not other.args
    assert one.meta is not other.meta


def test_run_has_five_minutes_unless_told() -> None:
    assert make().timeout_ms == 300_000


def test_occurrence_has_one_name_in_each_attempt() -> None:
    assert make().occurrence_id == make(attempt=3, failures=2, run_at=99).occurrence_id == "a@4"
    assert make(occurrence_at=5).occurrence_id == "a@5"


def test_life_goes_as_it_is_drawn() -> None:
    assert set(LEGAL) == set(Status) - {Status.PAUSED}  # that is a flag
    assert set(ENDED) == {Status.COMPLETED, Status.FAILED, Status.CANCELLED}
    for ended in ENDED:
        assert LEGAL[ended] == {Status.PENDING}  # by hand: retry, run now
    assert Status.RUNNING not in LEGAL[Status.RUNNING]  # claimed once
    assert Status.COMPLETED not in LEGAL[Status.PENDING]  # nothing completes that did not run
    assert {Status.PENDING, Status.COMPLETED, Status.FAILED, Status.CANCELLED} <= LEGAL[Status.RUNNING]


# -- context


def test_context_says_who_it_runs_for() -> None:
    context = TaskContext(make(attempt=2, result={"page": 3}, meta={"by": "me"}))
    assert (context.id, context.attempt, context.occurrence_id, context.scheduled_at) == ("a", 2, "a@4", 4)
    assert (context.previous_result, context.meta) == ({"page": 3}, {"by": "me"})
    assert not context.cancelled


def test_context_is_cancelled_with_its_flag() -> None:
    stop = Flag()
    context = TaskContext(make(), stop)
    assert not context.cancelled
    stop.set()
    assert context.cancelled


def test_context_goes_to_another_process_without_its_flag() -> None:
    stop = Flag()
    stop.set()
    context = TaskContext(make(attempt=2, result=[1]), stop)
    again = pickle.loads(pickle.dumps(context))
    assert isinstance(again, TaskContext)
    names = ("id", "attempt", "occurrence_id", "previous_result", "scheduled_at", "meta")
    assert [getattr(again, name) for name in names] == [getattr(context, name) for name in names]
    assert not again.cancelled
