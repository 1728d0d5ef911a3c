"""One state machine drives every scheme, on both builds, against a sorted list.

Each step does to the wheel and to the oracle the same random thing: start one or many, stop, restart,
advance by a jump with or without a limit, and, while the batch is worked through, stop, restart and
start from inside it. After each step the wheel checks itself and is compared with the oracle: what fired,
in which order, what is pending, when the next is due, and which payloads are still alive.
"""

from typing import Any
from weakref import ref

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.builds import BUILDS, Build
from tests.wheels.oracle import Oracle
from tests.wheels.schemes import SCHEMES

FAR = 10**12

# The hierarchy has more corners than the others, and is the one in use.
HIERARCHY_TIMES = 6


class Payload:
    """Something whose life can be watched."""

    def __init__(self, number: int) -> None:
        self.number = number


@st.composite
def geometries(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Draw a valid geometry: each turn a multiple of the one below, made of slots that divide it."""
    levels = [(1, draw(st.sampled_from([12, 8, 6, 4, 3, 2, 1])))]
    for _ in range(draw(st.sampled_from([2, 1, 3, 0]))):
        tick, slots = levels[-1]
        factors = [factor for factor in range(2, slots + 1) if slots % factor == 0]
        if not factors:
            break
        factor = draw(st.sampled_from(factors))
        turns = draw(st.integers(2, 6))
        levels.append((tick * factor, slots // factor * turns))
    return levels


def delays(spans: list[int]) -> st.SearchStrategy[int]:
    """Draw delays where trouble is: none, one, within and around every turn, and far beyond."""
    edges = [max(span + offset, 0) for span in spans for offset in (-1, 0, 1)]
    within = [st.integers(0, 2 * span) for span in spans]
    return st.one_of(*within, st.integers(0, 3), st.sampled_from(edges), st.sampled_from([4 * spans[-1], FAR]))


def jumps(spans: list[int]) -> st.SearchStrategy[int]:
    """Draw steps of the hand: mostly short, so that most timers are still there to be harmed."""
    return st.one_of(st.integers(0, 3), st.integers(0, 2 * spans[0]), st.integers(0, spans[-1]), st.just(FAR))


class Machine(RuleBasedStateMachine):
    """A wheel and its oracle; subclasses name the scheme and the build."""

    build: Build
    scheme: str

    @initialize(levels=geometries(), slots=st.integers(1, 12), now=st.sampled_from([0, 1, 59, 60, 12345, 10**9]))
    def make(self, levels: list[tuple[int, int]], slots: int, now: int) -> None:
        kind = getattr(self.build.wheels, self.scheme)
        self.delay_max = FAR
        if self.scheme == "HierarchicalWheel":
            self.wheel = kind(levels, now=now)
            self.spans = [tick * count for tick, count in levels]
        elif SCHEMES[self.scheme]:
            self.wheel = kind(slots, now=now)
            self.spans = [slots]
            if self.scheme == "SimpleWheel":
                self.delay_max = slots
        else:
            self.wheel = kind(now=now)
            self.spans = [60]
        self.oracle = Oracle(now)
        self.timers: list[Any] = []
        self.alive: list[ref[Payload]] = []
        self.fired: set[int] = set()
        self.keys: dict[str, int] = {}

    # -- steps

    def draw_delay(self, data: st.DataObject) -> int:
        return data.draw(delays(self.spans), label="delay")

    def pick(self, data: st.DataObject) -> int | None:
        return data.draw(st.integers(0, len(self.timers) - 1), label="timer") if self.timers else None

    def watch(self, timer: Any, payload: Payload) -> None:
        assert payload.number == len(self.timers)
        self.timers.append(timer)
        self.alive.append(ref(payload))

    @rule(data=st.data(), key=st.sampled_from([None, None, "a", "b"]))
    def start(self, data: st.DataObject, key: str | None) -> None:
        delay = self.draw_delay(data)
        payload = Payload(len(self.timers))
        if delay > self.delay_max:
            with pytest.raises(self.build.errors.DelayOutOfRange):
                self.wheel.start(delay, payload, key)
        elif key in self.keys:
            with pytest.raises(self.build.errors.DuplicateKey):
                self.wheel.start(delay, payload, key)
        else:
            self.watch(self.wheel.start(delay, payload, key), payload)
            self.oracle.start(payload.number, delay)
            if key is not None:
                self.keys[key] = payload.number

    @rule(data=st.data(), count=st.integers(0, 6))
    def start_many(self, data: st.DataObject, count: int) -> None:
        wanted = [self.draw_delay(data) for _ in range(count)]
        payloads = [Payload(len(self.timers) + index) for index in range(count)]
        if any(delay > self.delay_max for delay in wanted):
            with pytest.raises(self.build.errors.DelayOutOfRange):
                self.wheel.start_many(wanted, payloads)
            return
        for timer, payload, delay in zip(self.wheel.start_many(wanted, payloads), payloads, wanted, strict=True):
            self.watch(timer, payload)
            self.oracle.start(payload.number, delay)

    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        number = self.pick(data)
        if number is not None:
            assert self.wheel.stop(self.timers[number]) == self.oracle.stop(number)
            self.over(number)

    @rule(data=st.data())
    def stop_many(self, data: st.DataObject) -> None:
        numbers = data.draw(st.lists(st.sampled_from(range(len(self.timers))))) if self.timers else []
        expected = sum(self.oracle.stop(number) for number in numbers)
        assert self.wheel.stop_many([self.timers[number] for number in numbers]) == expected
        for number in numbers:
            self.over(number)

    @rule(key=st.sampled_from(["a", "b"]))
    def stop_key(self, key: str) -> None:
        assert self.wheel.stop_key(key) == (key in self.keys)
        if key in self.keys:
            number = self.keys[key]
            self.oracle.stop(number)
            self.over(number)

    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        number = self.pick(data)
        if number is None:
            return
        delay = self.draw_delay(data)
        if delay > self.delay_max:
            with pytest.raises(self.build.errors.DelayOutOfRange):
                self.wheel.restart(self.timers[number], delay)
        elif self.oracle.is_pending(number) or number in self.fired:
            self.wheel.restart(self.timers[number], delay)
            self.oracle.stop(number)
            self.oracle.start(number, delay)
            self.fired.discard(number)
        else:
            with pytest.raises(self.build.errors.TimerStopped):
                self.wheel.restart(self.timers[number], delay)

    @rule(data=st.data(), limit=st.sampled_from([1, 2, 3, 5, 10**6]), inside=st.booleans())
    def advance(self, data: st.DataObject, limit: int, inside: bool) -> None:
        to = self.oracle.now + data.draw(jumps(self.spans), label="jump")
        batch = self.wheel.advance(to, limit)
        assert [timer.payload.number for timer in batch] == self.oracle.advance(to, limit)
        for timer in batch:
            number = timer.payload.number
            self.fired.add(number)
            self.forget_key(number)
        self.agree()
        for timer in batch:
            if inside:
                data.draw(st.sampled_from([self.stop, self.restart, self.start_one, self.agree_on]))(data)
            if timer.fired:
                number = timer.take().number
                self.over(number)

    def start_one(self, data: st.DataObject) -> None:
        self.start(data, None)

    def agree_on(self, _: st.DataObject) -> None:
        self.agree()

    @rule()
    def go_back(self) -> None:
        if self.oracle.now > 0:
            with pytest.raises(self.build.errors.HandMovedBack):
                self.wheel.advance(self.oracle.now - 1)

    # -- what must hold

    def over(self, number: int) -> None:
        """Note that a timer is over for good: its payload must be gone, now."""
        self.fired.discard(number)
        self.forget_key(number)
        assert self.alive[number]() is None
        assert self.timers[number].stopped

    def forget_key(self, number: int) -> None:
        self.keys = {key: known for key, known in self.keys.items() if known != number}

    @invariant()
    def agree(self) -> None:
        if not hasattr(self, "oracle"):
            return
        self.wheel.check()
        pending = self.oracle.pending
        assert self.wheel.now == self.oracle.now
        assert len(self.wheel) == self.wheel.stats.pending == len(pending)
        assert sum(map(sum, self.wheel.occupancy())) + self.wheel.stats.overflow <= len(pending)
        next_due = self.wheel.next_due()
        if pending:
            assert self.oracle.now <= next_due <= pending[0][0]
        else:
            assert next_due is None
        for due, _, number in pending:
            timer = self.timers[number]
            assert timer.pending
            assert timer.due == due
            assert self.alive[number]() is timer.payload
        for number in self.fired:
            assert self.timers[number].fired
        for key in ("a", "b"):
            found = self.wheel.find(key)
            assert found is (self.timers[self.keys[key]] if key in self.keys else None)

    def teardown(self) -> None:
        if not hasattr(self, "oracle"):
            return
        self.wheel.close()
        assert len(self.wheel) == 0
        for number, timer in enumerate(self.timers):
            if number in self.fired:
                assert timer.fired
            else:
                assert timer.stopped
                assert self.alive[number]() is None


@pytest.mark.parametrize("build", BUILDS, ids=str)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_does_what_a_sorted_list_would(scheme: str, build: Build) -> None:
    machine = type(f"{scheme}{build.name.title()}Machine", (Machine,), {"scheme": scheme, "build": build})
    times = HIERARCHY_TIMES if scheme == "HierarchicalWheel" else 1
    run_state_machine_as_test(machine, settings=settings(max_examples=times * settings().max_examples))
