"""One state machine drives every scheme, on both builds, against a sorted list.

Each step does to the wheel and to the oracle the same random thing: start one or many, stop, restart,
advance by a jump with or without a limit, and, while the batch is worked through, stop, restart and
start from inside it. Some payloads do one more thing when they are dropped, wherever that happens: they
start, stop or restart a timer, or close the wheel. After each step the wheel checks itself and is compared
with the oracle: what fired, in which order, what is pending, when the next is due, and which payloads are
still alive.

A hierarchical wheel may move as few timers in an advance as its limit allows, so that most cascades pause
half-way and everything else happens to it meanwhile.
"""

from collections.abc import Callable
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
HIERARCHY_TIMES = 3


# A slot of the hierarchy with at most so many timers is looked through for the earliest.
WALKED_MAX = 16


class Payload:
    """Something whose life can be watched, and that may do something at its end."""

    def __init__(self, number: int, at_end: Callable[[], None] | None = None) -> None:
        self.number = number
        self.at_end = at_end

    def __del__(self) -> None:
        if self.at_end is not None:
            self.at_end()


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

    @initialize(
        levels=geometries(),
        slots=st.integers(1, 12),
        now=st.sampled_from([0, 1, 59, 60, 12345, 10**9]),
        spare=st.sampled_from([0, 1, 3, 1024]),
    )
    def make(self, levels: list[tuple[int, int]], slots: int, now: int, spare: int) -> None:
        self.levels, self.slots, self.spare = levels, slots, spare
        self.timers: list[Any] = []
        self.alive: list[ref[Payload]] = []
        self.ending: set[int] = set()  # payloads that do something at their end
        self.dying: set[int] = set()  # payloads that are doing it
        self.failures: list[BaseException] = []
        self.fired: set[int] = set()
        self.open(now)

    def open(self, now: int) -> None:
        """Make the wheel, with an oracle beside it."""
        kind = getattr(self.build.wheels, self.scheme)
        levels, slots = self.levels, self.slots
        self.delay_max = FAR
        if self.scheme == "HierarchicalWheel":
            self.wheel = kind(levels, now=now)
            self.wheel._moves_spare = self.spare
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
        self.keys: dict[str, int] = {}
        self.closed = False

    # -- steps

    def draw_delay(self, data: st.DataObject) -> int:
        return data.draw(delays(self.spans), label="delay")

    def pick(self, data: st.DataObject) -> int | None:
        return data.draw(st.integers(0, len(self.timers) - 1), label="timer") if self.timers else None

    def watch(self, timer: Any, payload: Payload) -> None:
        assert payload.number == len(self.timers)
        if payload.at_end is not None:
            self.ending.add(payload.number)
        self.timers.append(timer)
        self.alive.append(ref(payload))

    def payload(self, data: st.DataObject) -> Payload:
        """Make a payload, one in four with something to do at its end."""
        number = len(self.timers)
        what = data.draw(st.sampled_from([None] * 12 + ["start", "stop", "restart", "close"]), label="at the end")
        if what is None:
            return Payload(number)
        delay, other = self.draw_delay(data), data.draw(st.integers(0, number + 3), label="of")
        return Payload(number, lambda: self.at_end(number, what, delay, other))

    def at_end(self, number: int, what: str, delay: int, other: int) -> None:
        """Do what a payload does when it is dropped; in a destructor, where errors go nowhere."""
        if number not in self.ending:  # its start was refused
            return
        self.ending.discard(number)
        self.dying.add(number)
        other %= len(self.timers)
        try:
            if self.closed:
                self.use_closed(other, delay)
            elif what == "start":
                self.start_checked(delay, Payload(len(self.timers)), None)
            elif what == "stop":
                self.stop_checked(other)
            elif what == "restart":
                self.restart_checked(other, delay)
            else:
                self.close()
        except BaseException as error:  # noqa: BLE001 - all of them are looked at later
            self.failures.append(error)
        self.dying.discard(number)

    def use_closed(self, other: int, delay: int) -> None:
        """Use a wheel that is closed, or just being closed."""
        with pytest.raises(self.build.errors.WheelClosed):
            self.wheel.start(1)
        with pytest.raises(self.build.errors.WheelClosed):
            self.wheel.restart(self.timers[other], delay)
        self.fired.discard(other)
        self.wheel.stop(self.timers[other])

    def start_checked(self, delay: int, payload: Payload, key: str | None) -> None:
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

    def stop_checked(self, number: int) -> None:
        expected = self.forget(number)
        assert self.wheel.stop(self.timers[number]) == expected
        self.over(number)

    def restart_checked(self, number: int, delay: int) -> None:
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

    def close(self) -> None:
        """Close the wheel: whatever is pending is over, and what has fired stays."""
        self.closed = True
        self.oracle.pending.clear()
        self.keys.clear()
        self.wheel.close()
        assert len(self.wheel) == 0

    @rule(data=st.data(), key=st.sampled_from([None, None, "a", "b"]))
    def start(self, data: st.DataObject, key: str | None) -> None:
        if not self.closed:
            self.start_checked(self.draw_delay(data), self.payload(data), key)

    @rule(data=st.data(), count=st.integers(0, 6))
    def start_many(self, data: st.DataObject, count: int) -> None:
        if self.closed:
            return
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
            self.stop_checked(number)

    @rule(data=st.data())
    def stop_many(self, data: st.DataObject) -> None:
        if self.closed:
            return
        # One by one is the same, but what happens in between cannot be told to the oracle in time.
        plain = [number for number in range(len(self.timers)) if number not in self.ending]
        numbers = data.draw(st.lists(st.sampled_from(plain))) if plain else []
        expected = sum(self.forget(number) for number in numbers)
        assert self.wheel.stop_many([self.timers[number] for number in numbers]) == expected
        for number in numbers:
            self.over(number)

    @rule(key=st.sampled_from(["a", "b"]))
    def stop_key(self, key: str) -> None:
        if self.closed:
            return
        number = self.keys.get(key)
        if number is not None:
            self.forget(number)
        assert self.wheel.stop_key(key) == (number is not None)
        if number is not None:
            self.over(number)

    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        number = self.pick(data)
        if number is not None and not self.closed:
            self.restart_checked(number, self.draw_delay(data))

    @rule(data=st.data(), limit=st.sampled_from([1, 2, 3, 5, 10**6]), inside=st.booleans())
    def advance(self, data: st.DataObject, limit: int, inside: bool) -> None:
        if self.closed:
            return
        to = self.oracle.now + data.draw(jumps(self.spans), label="jump")
        cascaded = self.wheel.stats.cascaded
        batch = self.wheel.advance(to, limit)
        moved = self.wheel.stats.cascaded - cascaded
        assert moved <= limit + self.spare
        if len(batch) < limit and self.wheel.now < to:
            assert moved == limit + self.spare, "it paused before it had to"
            to = self.wheel.now  # everything until there must have come out, and nothing of what is later
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
                number = timer.payload.number
                self.fired.discard(number)
                timer.take()
                self.over(number)

    def start_one(self, data: st.DataObject) -> None:
        self.start(data, None)

    def agree_on(self, _: st.DataObject) -> None:
        self.agree()

    @rule(now=st.sampled_from([0, 59, 10**9]))
    def reopen(self, now: int) -> None:
        if self.closed:
            self.open(now)

    @rule()
    def go_back(self) -> None:
        if self.oracle.now > 0 and not self.closed:
            with pytest.raises(self.build.errors.HandMovedBack):
                self.wheel.advance(self.oracle.now - 1)

    # -- what must hold

    def forget(self, number: int) -> bool:
        """Note that a timer is about to be stopped, before its payload is dropped; say whether it was pending."""
        self.fired.discard(number)
        self.forget_key(number)
        return self.oracle.stop(number)

    def over(self, number: int) -> None:
        """See that a timer is over for good: its payload must be gone, now."""
        assert self.alive[number]() is None or number in self.dying
        assert self.timers[number].stopped

    def forget_key(self, number: int) -> None:
        self.keys = {key: known for key, known in self.keys.items() if known != number}

    @invariant()
    def agree(self) -> None:
        if not hasattr(self, "oracle"):
            return
        assert not self.failures, self.failures
        self.wheel.check()
        pending = self.oracle.pending
        assert len(self.wheel) == self.wheel.stats.pending == len(pending)
        if not self.closed:
            assert self.wheel.now == self.oracle.now
            assert sum(map(sum, self.wheel.occupancy())) + self.wheel.stats.overflow <= len(pending)
        next_due = self.wheel.next_due()
        if not pending:
            assert next_due is None
        elif self.foresees(self.timers[pending[0][2]]):
            assert next_due == pending[0][0]
        else:
            assert self.oracle.now <= next_due <= pending[0][0]
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

    def foresees(self, first: Any) -> bool:
        """Tell whether the wheel knows when the first of its timers is due, and not only when to look for it."""
        if self.scheme != "HierarchicalWheel":
            return True
        slot = first.slot
        return self.wheel._filled == 0 and bool(slot.count <= WALKED_MAX or slot.level in (-1, 0))

    def teardown(self) -> None:
        if not hasattr(self, "oracle"):
            return
        self.close()
        assert not self.failures, self.failures
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
