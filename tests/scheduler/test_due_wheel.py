"""The wheel hands out what is due, in order, once, and whatever else it holds stays."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tickwheel.scheduler.engine.due_index import DueWheel
from tickwheel.stores import Due

NOW = 1_800_000_000_000  # 2027-01-15 08:00:00 UTC
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def due(run_at: int, task_id: str, priority: int = 0) -> Due:
    return Due(run_at, task_id, 0, priority, 0)


def test_it_hands_out_by_time_and_of_one_moment_by_priority() -> None:
    wheel = DueWheel(NOW)
    for entry in (due(NOW + 9, "c"), due(NOW + 5, "a"), due(NOW + 5, "b", 7), due(NOW + 99, "d")):
        wheel.put(entry)
    assert [entry.id for entry in wheel.take(NOW + 50, 10)] == ["b", "a", "c"]
    assert wheel.take(NOW + 50, 10) == []
    assert "d" in wheel
    assert NOW + 50 < (wheel.next_due() or 0) <= NOW + 99


def test_a_task_is_there_once_at_its_latest_time() -> None:
    wheel = DueWheel(NOW)
    wheel.put(due(NOW + 5, "a"))
    wheel.put(due(NOW + 20, "a"))
    assert wheel.take(NOW + 10, 10) == []
    wheel.put(due(NOW + 12, "a"))
    assert [entry.run_at for entry in wheel.take(NOW + 30, 10)] == [NOW + 12]
    wheel.put(due(NOW + 40, "a"))
    wheel.drop("a")
    wheel.drop("a")
    assert (len(wheel), wheel.next_due()) == (0, None)


def test_what_is_overdue_comes_next_and_a_limit_leaves_the_rest() -> None:
    wheel = DueWheel(NOW)
    for number in range(10):
        wheel.put(due(NOW - 1000 + number, str(number)))
    first = wheel.take(NOW + 10, 4)
    rest = wheel.take(NOW + 10, 100)
    assert [entry.id for entry in first + rest] == [str(number) for number in range(10)]


def test_the_oldest_is_told_by_its_own_time_and_only_when_it_is_due() -> None:
    wheel = DueWheel(NOW)
    assert wheel.oldest_due(NOW) is None
    wheel.put(due(NOW + 100_000, "far"))
    assert wheel.oldest_due(NOW + 99_999) is None, "its dial may turn before it is due"
    assert wheel.oldest_due(NOW + 100_000) == NOW + 100_000
    wheel.put(due(NOW - 5_000, "overdue"))
    assert wheel.oldest_due(NOW + 1) == NOW - 5_000
    wheel.take(NOW + 50, 10)
    assert wheel.oldest_due(NOW + 99_999) is None


def test_it_counts_its_entries_by_dial_and_its_ticks() -> None:
    wheel = DueWheel(NOW)
    for delay in (5, 600, 10_000, 100_000, 7_200_000, 86_400_000):
        wheel.put(due(NOW + delay, str(delay)))
    assert wheel.levels() == [2, 1, 1, 1, 1]
    assert wheel.overflow == 0
    wheel.take(NOW + 50, 10)
    assert wheel.ticks == 50


@given(st.timedeltas(timedelta(0), timedelta(days=100_000)), st.integers(0, 10**10))
def test_hands_read_as_a_clock_in_utc(since: timedelta, started_ms_before: int) -> None:
    moment, now = EPOCH + since, since // timedelta(milliseconds=1)
    dials = DueWheel(max(now - started_ms_before, 0)).dials(now).dials
    assert [dial.hand for dial in dials] == [
        moment.microsecond // 1000,
        moment.second,
        moment.minute,
        moment.hour,
        since.days % 30,
    ]
    assert [(dial.slot_ms, len(dial.occupancy)) for dial in dials] == [
        (1, 1000),
        (1000, 60),
        (60_000, 60),
        (3_600_000, 24),
        (86_400_000, 30),
    ]


def test_a_task_waits_in_the_slot_a_clock_shows_when_it_is_due() -> None:
    now, at = (
        (datetime(2027, 3, 4, *time, tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
        for time in ((14, 7, 30, 123_000), (14, 9, 0, 250_000))
    )
    wheel = DueWheel(now)
    wheel.put(due(at, "a"))
    assert [entry.id for entry in wheel.slot(2, 9)] == ["a"], "minutes"
    assert wheel.take(at - 250, 10) == []
    assert [entry.id for entry in wheel.slot(0, 250)] == ["a"], "milliseconds, from 14:09:00 on"
    assert wheel.dials(at - 250, ready=3).dials[0].occupancy[0] == 3, "what is ready lies where the hand is"
    assert [entry.id for entry in wheel.take(at, 10)] == ["a"]


@given(
    st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 30)), max_size=60),
    st.lists(st.integers(0, 700), max_size=20),
)
def test_every_task_comes_out_once_and_none_early(puts: list[tuple[int, int]], steps: list[int]) -> None:
    wheel = DueWheel(NOW)
    latest: dict[str, int] = {}
    for delay, number in puts:
        wheel.put(due(NOW + delay, str(number)))
        latest[str(number)] = NOW + delay
    taken: dict[str, int] = {}
    now = NOW
    for step in [*steps, 10_000]:
        now += step
        for entry in wheel.take(now, 1000):
            assert entry.run_at <= max(now, NOW + 1), "a delay of nothing takes a tick"
            assert entry.id not in taken
            taken[entry.id] = entry.run_at
    assert taken == latest
