"""The agenda hands out what is due, in order, once, and whatever else it holds stays."""

from hypothesis import given
from hypothesis import strategies as st

from tickwheel.scheduler.agenda import Agenda
from tickwheel.stores import Due

NOW = 1_800_000_000_000


def due(run_at: int, task_id: str, priority: int = 0) -> Due:
    return Due(run_at, task_id, 0, priority, 0)


def test_it_hands_out_by_time_and_of_one_moment_by_priority() -> None:
    agenda = Agenda(NOW)
    for entry in (due(NOW + 9, "c"), due(NOW + 5, "a"), due(NOW + 5, "b", 7), due(NOW + 99, "d")):
        agenda.put(entry)
    assert [entry.id for entry in agenda.take(NOW + 50, 10)] == ["b", "a", "c"]
    assert agenda.take(NOW + 50, 10) == []
    assert "d" in agenda
    assert NOW + 50 < (agenda.next_due() or 0) <= NOW + 99


def test_a_task_is_there_once_at_its_latest_time() -> None:
    agenda = Agenda(NOW)
    agenda.put(due(NOW + 5, "a"))
    agenda.put(due(NOW + 20, "a"))
    assert agenda.take(NOW + 10, 10) == []
    agenda.put(due(NOW + 12, "a"))
    assert [entry.run_at for entry in agenda.take(NOW + 30, 10)] == [NOW + 12]
    agenda.put(due(NOW + 40, "a"))
    agenda.drop("a")
    agenda.drop("a")
    assert (len(agenda), agenda.next_due()) == (0, None)


def test_what_is_overdue_comes_next_and_a_limit_leaves_the_rest() -> None:
    agenda = Agenda(NOW)
    for number in range(10):
        agenda.put(due(NOW - 1000 + number, str(number)))
    first = agenda.take(NOW + 10, 4)
    rest = agenda.take(NOW + 10, 100)
    assert [entry.id for entry in first + rest] == [str(number) for number in range(10)]


def test_the_oldest_is_told_by_its_own_time_and_only_when_it_is_due() -> None:
    agenda = Agenda(NOW)
    assert agenda.oldest_due(NOW) is None
    agenda.put(due(NOW + 100_000, "far"))
    assert agenda.oldest_due(NOW + 99_999) is None, "its dial may turn before it is due"
    assert agenda.oldest_due(NOW + 100_000) == NOW + 100_000
    agenda.put(due(NOW - 5_000, "overdue"))
    assert agenda.oldest_due(NOW + 1) == NOW - 5_000
    agenda.take(NOW + 50, 10)
    assert agenda.oldest_due(NOW + 99_999) is None


def test_it_counts_its_entries_by_dial_and_its_ticks() -> None:
    agenda = Agenda(NOW)
    for delay in (5, 6, 100, 10_000):
        agenda.put(due(NOW + delay, str(delay)))
    assert agenda.levels()[:3] == [2, 1, 1]
    assert (sum(agenda.levels()), agenda.overflow) == (4, 0)
    agenda.take(NOW + 50, 10)
    assert agenda.ticks == 50


@given(
    st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 30)), max_size=60),
    st.lists(st.integers(0, 700), max_size=20),
)
def test_every_task_comes_out_once_and_none_early(puts: list[tuple[int, int]], steps: list[int]) -> None:
    agenda = Agenda(NOW)
    latest: dict[str, int] = {}
    for delay, number in puts:
        agenda.put(due(NOW + delay, str(number)))
        latest[str(number)] = NOW + delay
    taken: dict[str, int] = {}
    now = NOW
    for step in [*steps, 10_000]:
        now += step
        for entry in agenda.take(now, 1000):
            assert entry.run_at <= max(now, NOW + 1), "a delay of nothing takes a tick"
            assert entry.id not in taken
            taken[entry.id] = entry.run_at
    assert taken == latest
