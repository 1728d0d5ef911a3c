"""The wheel hands out what is due, in order, once, and whatever else it holds stays."""

from hypothesis import given
from hypothesis import strategies as st

from tickwheel.scheduler.engine.due_index import DueWheel
from tickwheel.stores import Due

NOW = 1_800_000_000_000


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
    for delay in (5, 6, 100, 10_000):
        wheel.put(due(NOW + delay, str(delay)))
    assert wheel.levels()[:3] == [2, 1, 1]
    assert (sum(wheel.levels()), wheel.overflow) == (4, 0)
    wheel.take(NOW + 50, 10)
    assert wheel.ticks == 50


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
