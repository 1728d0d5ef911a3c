"""Keys whose hash or equality changes, raises or runs other code, and bulk starts that fail halfway."""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from tests.builds import Build
from tests.wheels.schemes import HUGE, Unprintable


class Key:
    """A key whose hash and equality can be changed."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.run: Callable[[], Any] = lambda: None

    def __hash__(self) -> int:
        self.run()
        return hash(self.number)

    def __eq__(self, other: object) -> bool:
        self.run()
        return isinstance(other, Key) and other.number == self.number

    __repr__ = Unprintable.__repr__


class Hidden(Exception):
    """What a key raises."""


def fail() -> None:
    raise Hidden


def mutate(key: Key) -> None:
    key.number += 1000


def collide(key: Key) -> None:
    key.number = 2


def spoil(key: Key) -> None:
    key.run = fail


changes = pytest.mark.parametrize("change", [mutate, collide, spoil])


@changes
def test_every_timer_comes_out_once_when_a_key_has_changed(wheel: Any, change: Callable[[Key], None]) -> None:
    key, other = Key(1), Key(2)
    timers = [wheel.start(5, "first"), wheel.start(5, "keyed", key=key), wheel.start(5, "last")]
    later = wheel.start(9, "later", key=other)
    change(key)
    assert wheel.advance(5) == timers
    assert wheel.find(other) is later
    wheel.check()
    assert wheel.advance(9) == [later]
    assert (len(wheel), wheel.stats.expired) == (0, 4)
    wheel.start(5, key=Key(1))
    wheel.check()


@changes
def test_a_timer_whose_key_has_changed_is_stopped(wheel: Any, change: Callable[[Key], None]) -> None:
    key, other = Key(1), Key(2)
    timer, pending = wheel.start(5, "payload", key=key), wheel.start(5, key=other)
    change(key)
    assert wheel.stop(timer)
    assert (timer.stopped, timer.payload) == (True, None)
    assert wheel.find(other) is pending
    wheel.check()
    assert wheel.stop_key(other)
    wheel.check()
    assert len(wheel) == 0


def test_many_changed_keys_are_forgotten_by_one_advance(wheel: Any) -> None:
    keys = [Key(number) for number in range(100)]
    timers = [wheel.start(1 + key.number // 50, key=key) for key in keys]
    for key in keys[::2]:
        spoil(key)
    assert wheel.advance(1) == timers[:50]
    wheel.check()
    assert wheel.find(Key(51)) is timers[51]
    assert wheel.advance(2) == timers[50:]
    wheel.check()


@pytest.mark.parametrize("times", [1, 2, 3])
def test_nothing_is_pending_when_the_key_of_a_start_fails(wheel: Any, times: int) -> None:
    left = times

    def fail_later() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Hidden

    key = Key(1)
    key.run = fail_later
    try:
        timer = wheel.start(5, "payload", key=key)
    except Hidden:
        assert (len(wheel), wheel.advance(5)) == (0, [])
    else:
        assert wheel.advance(5) == [timer]
    key.run = lambda: None
    assert wheel.find(key) is None
    wheel.check()


def test_a_start_that_is_refused_frees_its_key(wheel: Any, build: Build) -> None:
    for delay in (-1, 1.5, HUGE):
        with pytest.raises((build.errors.DelayOutOfRange, build.errors.NotWholeTicks)):
            wheel.start(delay, key="k")
    assert wheel.find("k") is None
    wheel.start(1, key="k")
    wheel.check()


@pytest.mark.parametrize("key", [[], ([],), Decimal("sNaN")], ids=repr)
def test_a_key_that_cannot_be_hashed_is_refused_by_every_call_that_takes_one(
    wheel: Any, build: Build, key: Any
) -> None:
    attempts: list[Callable[[], Any]] = [
        lambda: wheel.start(5, key=key),
        lambda: wheel.find(key),
        lambda: wheel.stop_key(key),
    ]
    for attempt in attempts:
        with pytest.raises(build.errors.Unhashable, match=rf"key must be hashable, .* not {re.escape(repr(key))}"):
            attempt()
    assert len(wheel) == 0
    wheel.check()


def test_a_type_error_of_a_key_is_the_cause_of_the_error(wheel: Any, build: Build) -> None:
    def fail_as_unhashable() -> None:
        raise TypeError("from the key")

    key = Key(1)
    key.run = fail_as_unhashable
    attempts: list[Callable[[], Any]] = [lambda: wheel.start(5, key=key), lambda: wheel.find(key)]
    for attempt in attempts:
        with pytest.raises(build.errors.Unhashable) as refused:
            attempt()
        assert str(refused.value.__cause__) == "from the key"
    assert len(wheel) == 0


def test_a_key_started_by_its_own_hash_is_a_duplicate(wheel: Any, build: Build) -> None:
    def start_inner() -> None:
        key.run = lambda: None
        started.append(wheel.start(4, "inner", key=key))

    started: list[Any] = []
    key = Key(1)
    key.run = start_inner
    with pytest.raises(build.errors.DuplicateKey, match="whose repr"):
        wheel.start(5, "outer", key=key)
    assert wheel.find(key) is started[0]
    assert wheel.advance(10) == started
    wheel.check()


def interrupt() -> None:
    raise KeyboardInterrupt


def interrupt_once(key: Key) -> None:
    def raise_once() -> None:
        key.run = lambda: None
        interrupt()

    key.run = raise_once


def test_a_stop_whose_key_is_interrupted_is_complete(wheel: Any) -> None:
    key, other = Key(1), Key(2)
    timer, pending = wheel.start(5, "payload", key=key), wheel.start(5, key=other)
    interrupt_once(key)
    with pytest.raises(KeyboardInterrupt):
        wheel.stop(timer)
    assert (timer.stopped, timer.payload, wheel.find(key), wheel.find(other)) == (True, None, None, pending)
    wheel.check()
    wheel.start(5, key=key)
    assert len(wheel) == 2


@pytest.mark.parametrize("interrupted", [0, 1, 2])
def test_an_advance_whose_key_is_interrupted_hands_out_nothing_and_loses_nothing(wheel: Any, interrupted: int) -> None:
    keys = [Key(1), Key(2), Key(3)]
    timers = [wheel.start(5, key=key) for key in keys]
    later = wheel.start(9)
    interrupt_once(keys[interrupted])
    with pytest.raises(KeyboardInterrupt):
        wheel.advance(5)
    assert len(wheel) == 4
    assert [wheel.find(key) for key in keys] == timers
    wheel.check()
    assert wheel.advance(5) == timers
    wheel.check()
    assert [wheel.find(key) for key in keys] == [None] * 3
    assert wheel.advance(9) == [later]


def test_an_advance_whose_key_closes_the_wheel_and_is_interrupted(wheel: Any) -> None:
    def close() -> None:
        wheel.close()
        interrupt()

    key = Key(1)
    wheel.start(5, key=key)
    wheel.start(5)
    key.run = close
    with pytest.raises(KeyboardInterrupt):
        wheel.advance(5)
    wheel.check()


@pytest.mark.parametrize("end", ["stop", "advance"])
def test_a_key_finds_no_timer_that_is_no_longer_pending(wheel: Any, end: str) -> None:
    def look() -> None:
        key.run = lambda: None
        found.append((wheel.find(key), wheel.stop_key(key)))

    found: list[Any] = []
    key = Key(1)
    timer = wheel.start(5, "payload", key=key)
    key.run = look
    if end == "stop":
        assert wheel.stop(timer)
    else:
        assert wheel.advance(5) == [timer]
        assert timer.take() == "payload"
    assert found == [(None, False)]
    wheel.check()


def test_a_timer_stopped_while_keys_are_entered_anew_gives_up_its_key(wheel: Any) -> None:
    def stop_it() -> None:
        key.run = lambda: None
        assert wheel.stop(timer)

    changed, key = Key(1), Key(2)
    first, timer = wheel.start(5, key=changed), wheel.start(5, key=key)
    spoil(changed)
    key.run = stop_it
    assert wheel.stop(first)
    wheel.check()
    assert wheel.find(key) is None
    wheel.start(5, key=key)
    wheel.check()


class Delay:
    """Runs code when it is looked at as a delay."""

    def __init__(self, run: Callable[[], Any]) -> None:
        self.run = run

    def __repr__(self) -> str:
        self.run()
        return "delay"


@pytest.mark.parametrize("bad", [pytest.param(HUGE, id="huge"), Unprintable(), Delay(fail), None, -1])
def test_a_bulk_start_that_fails_starts_none(wheel: Any, bad: Any) -> None:
    pending = wheel.start(3, "pending")
    with pytest.raises((ValueError, TypeError, Hidden)):
        wheel.start_many([2, 3, bad, 4], ["a", "b", "c", "d"])
    assert (len(wheel), wheel.stats.started, wheel.next_due()) == (1, 1, 3)
    wheel.check()
    assert wheel.advance(10) == [pending]
    wheel.check()


def test_a_bulk_start_that_fails_after_the_wheel_was_turned_counts_right(wheel: Any) -> None:
    handed_out: list[Any] = []
    with pytest.raises(TypeError):
        wheel.start_many([1, 5, Delay(lambda: handed_out.extend(wheel.advance(2)))], ["a", "b", "c"])
    assert [timer.take() for timer in handed_out] == ["a"]
    assert (len(wheel), wheel.stats.started, wheel.stats.expired) == (0, 1, 1)
    wheel.check()
