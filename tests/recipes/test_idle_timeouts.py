"""Idle keys are told, busy ones are not, and touching moves no timer."""

from typing import Any

import pytest

from tickwheel import IdleTimeouts, ManualTimers
from tickwheel.errors import DuplicateKey, InvalidDuration, MissingCallback


@pytest.fixture
def timers() -> ManualTimers:
    return ManualTimers()


@pytest.fixture
def timeouts(timers: ManualTimers) -> IdleTimeouts:
    return IdleTimeouts(timers)


def test_what_is_not_touched_is_told_once_with_its_key(timers: ManualTimers, timeouts: IdleTimeouts) -> None:
    idle: list[Any] = []
    timeouts.watch("a", 30, idle.append)
    timeouts.watch("b", 30, idle.append, "argument of its own")
    timers.advance(29.9)
    assert idle == []
    timers.advance(100)
    assert idle == ["a", "argument of its own"]
    assert len(timeouts) == 0


def test_a_touched_key_waits_for_a_whole_timeout_from_the_last_touch(
    timers: ManualTimers, timeouts: IdleTimeouts
) -> None:
    when: list[float] = []
    timeouts.watch("a", 30, lambda _: when.append(timers.now_ns() / 1e9))
    for _ in range(4):
        timers.advance(20)
        assert timeouts.touch("a")
    assert timeouts.idle_for("a") == 0
    timers.advance(100)
    assert when == [110.0]


def test_touching_moves_no_timer(timers: ManualTimers, timeouts: IdleTimeouts) -> None:
    timeouts.watch("a", 30, print)
    before = timers.stats
    for _ in range(1000):
        timeouts.touch("a")
    assert timers.stats == before


def test_a_forgotten_key_is_not_told(timers: ManualTimers, timeouts: IdleTimeouts) -> None:
    timeouts.watch("a", 30, print)
    assert "a" in timeouts
    assert timeouts.forget("a")
    assert not timeouts.forget("a")
    assert not timeouts.touch("a")
    assert timeouts.idle_for("a") is None
    assert len(timers) == 0


def test_a_key_may_be_watched_again_from_its_callback(timers: ManualTimers, timeouts: IdleTimeouts) -> None:
    told: list[str] = []

    def again(key: str) -> None:
        told.append(key)
        timeouts.watch(key, 10, again)

    timeouts.watch("a", 10, again)
    timers.advance(35)
    assert told == ["a", "a", "a"]


def test_bad_input_changes_nothing(timeouts: IdleTimeouts) -> None:
    timeouts.watch("a", 30, print)
    with pytest.raises(DuplicateKey):
        timeouts.watch("a", 30, print)
    with pytest.raises(MissingCallback):
        timeouts.watch("b", 30, "print")  # type: ignore[arg-type]
    with pytest.raises(InvalidDuration):
        timeouts.watch("b", -1, print)
    assert len(timeouts) == 1
    assert not timeouts.touch("b")
