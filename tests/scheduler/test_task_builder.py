"""What a caller says becomes a task, or an error that says what to do; nothing in between."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from tickwheel.errors import InvalidCron, InvalidDuration, InvalidSchedule, InvalidTask, PayloadTooLarge
from tickwheel.scheduler.task_builder import TaskFields, build_task, build_update, moment_of, partition_of
from tickwheel.stores.validation import encode
from tickwheel.tasks import Cron, Every, Handler, LatePolicy, Once, RetryPolicy, Task

NOW = 1_800_000_000_000
HANDLER = Handler(name="orders.cancel", function=print, retry=RetryPolicy(retries=3), timeout_ms=7_000)

DOUBLED: list[Any] = []  # a few lists that contain each other; as JSON, they would have no end
for _ in range(60):
    DOUBLED = [DOUBLED, DOUBLED]

AROUND: dict[str, Any] = {}  # which contains itself, many times
AROUND.update({str(number): AROUND for number in range(100_000)})


@dataclass
class Parcel:
    """An object that is written as what it consists of."""

    content: Any


def make(args: Any = None, **wishes: Any) -> Task:
    told: TaskFields = wishes  # type: ignore[assignment] # wrong ones are what is tested
    return build_task(HANDLER, {"args": args, **told}, told.get("id", "drawn"), now_ns=NOW * 1_000_000, partitions=64)


def test_what_is_not_said_comes_from_the_handler() -> None:
    task = make({"order_id": 7})
    assert (task.id, task.handler, task.args, task.run_at) == ("drawn", "orders.cancel", {"order_id": 7}, NOW)
    assert (task.trigger, task.times, task.retry.retries, task.timeout_ms) == (Once(), 1, 3, 7_000)
    assert task.partition == partition_of("drawn", 64)


def test_times_are_said_in_many_ways() -> None:
    assert make(delay="30d").run_at == NOW + 30 * 86_400_000
    assert make(delay=0.0001).run_at == NOW + 1, "rounded up: never early"
    assert make(at=datetime(2027, 1, 15, 8, tzinfo=UTC)).run_at == NOW
    assert make(at=datetime(2027, 1, 15, 16, 0, 0, 1, tzinfo=timezone(timedelta(hours=8)))).run_at == NOW + 1
    every = make(every="1h", times=24)
    assert (every.trigger, every.times, every.run_at) == (Every(interval_ms=3_600_000), 24, NOW + 3_600_000)
    assert make(every="1h", delay=0).run_at == NOW
    cron = make(cron="0 0 1 * *", tz="Asia/Shanghai")
    assert (cron.trigger, cron.times) == (Cron(expression="0 0 1 * *", tz="Asia/Shanghai"), -1)
    assert datetime.fromtimestamp(cron.run_at / 1000, UTC).isoformat() == "2027-01-31T16:00:00+00:00"


def test_times_goes_with_every_or_cron() -> None:
    assert make(times=1).times == 1, "as it is read"
    for times in (2, -1):
        with pytest.raises(InvalidTask, match="needs every or cron") as refused:
            make(times=times, at=datetime(2027, 1, 15, 8, tzinfo=UTC))
        assert refused.value.field == "times"
        with pytest.raises(InvalidTask, match="needs every or cron"):
            build_update(make(), None, {"times": times}, NOW * 1_000_000)
        assert build_update(make(), None, {"times": times, "every": 5}, NOW * 1_000_000).times == times
        assert build_update(make(every=5), None, {"times": times}, NOW * 1_000_000).times == times


def test_tags_and_an_end_are_kept() -> None:
    task = make(tags=["vip", "gift", "vip"], expires_at=datetime(2027, 1, 15, 8, tzinfo=UTC))
    assert (task.tags, task.expires_at) == (["vip", "gift"], NOW)
    assert (make().tags, make().expires_at) == ([], None)


def test_policies_are_said_in_short_or_in_full() -> None:
    assert make(retries=9).retry == RetryPolicy(retries=9)
    assert make(retry=RetryPolicy(retries=1, first_ms=5)).retry.first_ms == 5
    assert make(late="skip").late.mode == "skip"
    assert make(late=LatePolicy(mode="run_all", catch_up=3)).late.catch_up == 3


@pytest.mark.parametrize(
    ("wishes", "error"),
    [
        ({"delay": -1}, InvalidDuration),
        ({"delay": "soon"}, InvalidDuration),
        ({"delay": 1, "at": datetime(2027, 1, 1, tzinfo=UTC)}, InvalidSchedule),
        ({"at": datetime(2027, 1, 1)}, InvalidSchedule),  # noqa: DTZ001 - without a time zone on purpose
        ({"at": "tomorrow"}, InvalidSchedule),
        ({"every": 0}, InvalidSchedule),
        ({"every": 1, "cron": "* * * * *"}, InvalidSchedule),
        ({"cron": "61 * * * *"}, InvalidCron),
        ({"cron": "0 0 31 2 *"}, InvalidCron),
        ({"cron": "* * * * *", "tz": "Mars/Olympus"}, InvalidCron),
        ({"tz": "UTC"}, InvalidSchedule),
        ({"times": 0}, InvalidTask),
        ({"times": 5}, InvalidTask),
        ({"times": -1, "delay": 1}, InvalidTask),
        ({"timeout": 0}, InvalidTask),
        ({"priority": 1001}, InvalidTask),
        ({"retries": -1}, InvalidSchedule),
        ({"retries": 1, "retry": RetryPolicy()}, InvalidTask),
        ({"late": "sometimes"}, InvalidSchedule),
        ({"id": ""}, InvalidTask),
        ({"id": "x" * 256}, InvalidTask),
        ({"id": 7}, InvalidTask),
        ({"tags": "vip"}, InvalidTask),
        ({"tags": [""]}, InvalidTask),
        ({"tags": ["x" * 65]}, InvalidTask),
        ({"tags": [str(n) for n in range(21)]}, InvalidTask),
        ({"expires_at": "tomorrow"}, InvalidSchedule),
        ({"colour": "red"}, InvalidTask),
        ({"args": [1, 2]}, InvalidTask),
        ({"args": {1: 2}}, InvalidTask),
        ({"args": {"x": object()}}, InvalidTask),
        ({"args": {"x": "y" * 300_000}}, PayloadTooLarge),
        ({"args": {"x": DOUBLED}}, PayloadTooLarge),
        ({"meta": {"x": DOUBLED}}, PayloadTooLarge),
        ({"args": AROUND}, PayloadTooLarge),
        ({"args": {"x": Parcel(DOUBLED)}}, PayloadTooLarge),
        ({"args": {"x": b"y" * 300_000}}, PayloadTooLarge),
        ({"args": {"x": {str(number) for number in range(100_000)}}}, PayloadTooLarge),
        ({"args": DOUBLED}, InvalidTask),
        ({"tags": DOUBLED}, InvalidTask),
        ({"priority": DOUBLED}, InvalidTask),
        ({"timeout": Parcel(DOUBLED)}, InvalidDuration),
        ({"late": "x" * 10_000_000}, InvalidSchedule),
    ],
)
def test_each_mistake_has_an_error_of_its_own(wishes: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        make(wishes.pop("args", None), **wishes)
    assert len(str(raised.value)) > 20, "it says what to do"


def test_a_partition_is_the_same_for_ever() -> None:
    assert [partition_of(f"order-{number}", 64) for number in range(4)] == [57, 47, 21, 3]
    spread = {partition_of(f"order-{number}", 64) for number in range(2000)}
    assert spread == set(range(64))


def test_a_moment_before_1970_is_one_too() -> None:
    assert moment_of(datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)) == -1000


@pytest.mark.parametrize(
    ("at", "moment"),
    [
        (datetime(2025, 7, 1, 9, tzinfo=ZoneInfo("Europe/Berlin")), datetime(2025, 7, 1, 7, tzinfo=UTC)),
        (datetime(2025, 1, 1, 9, tzinfo=ZoneInfo("Europe/Berlin")), datetime(2025, 1, 1, 8, tzinfo=UTC)),
        (datetime(2025, 1, 1, 9, tzinfo=ZoneInfo("Europe/London")), datetime(2025, 1, 1, 9, tzinfo=UTC)),
        (datetime(2025, 7, 1, 9, tzinfo=ZoneInfo("America/New_York")), datetime(2025, 7, 1, 13, tzinfo=UTC)),
        (datetime(2025, 10, 26, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")), datetime(2025, 10, 26, 0, 30, tzinfo=UTC)),
        (
            datetime(2025, 10, 26, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
            datetime(2025, 10, 26, 1, 30, tzinfo=UTC),
        ),
    ],
    ids=str,
)
def test_a_time_is_read_by_the_clocks_of_its_place_on_its_day(at: datetime, moment: datetime) -> None:
    assert moment_of(at) == moment.timestamp() * 1000


def test_policies_that_are_as_usual_are_not_written_down() -> None:
    handler = Handler(name="orders.cancel", function=print, retry=RetryPolicy(retries=0))
    for wishes in ({}, {"retries": 0}, {"retry": RetryPolicy()}, {"late": "run_once"}, {"late": LatePolicy()}):
        task = build_task(handler, wishes, "a", now_ns=NOW * 1_000_000, partitions=64)
        assert {"retry", "late"}.isdisjoint(msgspec.json.decode(encode(task)))
