"""A state machine drives timers on virtual time against a naive model, from outside and from inside callbacks.

The model is a list of timers, sorted whenever it is asked. Each callback first checks that the model would run the same
timer now; then it does something to the timers: starts, cancels or touches one, itself included, or stops them all.
"""

from dataclasses import dataclass
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tickwheel import ManualTimers, TimerHandle, VirtualClock
from tickwheel.timers.timers import is_count

MS = 10**6

TIMES = [1, 2, 3, -1]  # how often; -1 for ever


@dataclass
class Entry:
    """What the model knows of a timer; times in milliseconds."""

    number: int
    delay: int
    times: int
    fixed_delay: bool
    key: str | None
    deadline: int = 0
    due: int = 0
    order: int = 0
    state: str = "new"
    count: int = 0
    missed: int = 0
    touched: bool = False


class Model:
    """Timers in a list."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.now = 0
        self.order = 0

    def place(self, entry: Entry, deadline: int) -> None:
        self.order += 1
        entry.deadline, entry.due, entry.order = deadline, max(deadline, self.now + 1), self.order
        entry.state = "pending"

    def of(self, *states: str) -> list[Entry]:
        found = [entry for entry in self.entries if entry.state in states]
        return sorted(found, key=lambda entry: (entry.due, entry.order))

    def collect(self) -> None:
        for entry in self.of("pending"):
            if entry.due <= self.now:
                entry.state = "due"

    def cancel(self, entry: Entry) -> bool:
        if entry.state in ("done", "cancelled"):
            return False
        entry.state = "cancelled"
        return True

    def touch(self, entry: Entry, delay: int | None) -> bool:
        if entry.state in ("done", "cancelled"):
            return False
        deadline = self.now + (entry.delay if delay is None else delay)
        if entry.state == "running":
            entry.deadline, entry.touched = deadline, True
        else:
            self.place(entry, deadline)
        return True

    def begin(self, number: int) -> Entry:
        if not self.of("due"):
            self.collect()
        first = self.of("due")[0]
        assert first.number == number
        first.count += 1
        if first.count == first.times:
            first.state = "done"
            return first
        first.state = "running"
        if not first.fixed_delay:
            passed = (self.now - first.deadline) // first.delay
            first.missed += passed
            first.deadline += passed * first.delay
        return first

    def next_deadline(self, entry: Entry) -> int:
        if entry.touched:
            return entry.deadline
        return (self.now if entry.fixed_delay else entry.deadline) + entry.delay

    def end(self, entry: Entry) -> None:
        if entry.state == "running":
            deadline, entry.touched = self.next_deadline(entry), False
            self.place(entry, deadline)

    def stop(self) -> list[int]:
        left = self.of("due", "running", "pending")
        for entry in left:
            if entry.state == "running":  # it would be placed when its run ends: after what waits for the same moment
                entry.deadline, entry.order = self.next_deadline(entry), self.order + 1
            entry.state = "cancelled"
        return [entry.number for entry in sorted(left, key=lambda entry: (entry.deadline, entry.order))]


class TimersMachine(RuleBasedStateMachine):
    """Timers and their model in lockstep."""

    @initialize()
    def make(self) -> None:
        """Begin with new timers and an empty model."""
        self.clock = VirtualClock()
        self.timers = ManualTimers(self.clock)
        self.model = Model()
        self.handles: list[TimerHandle] = []
        self.data: st.DataObject | None = None
        self.stopped = False

    # -- what is done, from outside or from inside a callback

    def start(self, data: st.DataObject) -> None:
        number = len(self.handles)
        delay = data.draw(st.integers(0, 200), label="delay")
        periodic = data.draw(st.booleans(), label="periodic")
        key = data.draw(st.sampled_from([None, None, "a", "b"]), label="key")
        if periodic:
            times = data.draw(st.sampled_from(TIMES), label="times")
            assert is_count(times)
            fixed_delay = data.draw(st.booleans(), label="fixed delay")
            entry = Entry(number, max(delay, 1), times, fixed_delay, key)
        else:
            entry = Entry(number, delay, 1, fixed_delay=False, key=key)
        self.handles.append(None)  # type: ignore[arg-type] # it has its number before it has its handle
        common: dict[str, Any] = {"key": key, "replace": key is not None}
        wait = f"{entry.delay}ms"
        if periodic:
            mode: Any = "delay" if entry.fixed_delay else "rate"
            handle = self.timers.every(wait, self.run, number, times=entry.times, mode=mode, **common)
        else:
            handle = self.timers.after(wait, self.run, number, **common)
        self.handles[number] = handle
        for other in self.model.entries:
            if key is not None and other.key == key and other.state not in ("done", "cancelled"):
                other.state = "cancelled"
        self.model.entries.append(entry)
        self.model.place(entry, self.model.now + entry.delay)

    def pick(self, data: st.DataObject) -> int | None:
        return data.draw(st.integers(0, len(self.handles) - 1), label="timer") if self.handles else None

    def cancel(self, data: st.DataObject) -> None:
        number = self.pick(data)
        if number is not None and number < len(self.model.entries):
            assert self.handles[number].cancel() == self.model.cancel(self.model.entries[number])

    def touch(self, data: st.DataObject) -> None:
        number = self.pick(data)
        if number is None or number >= len(self.model.entries):
            return
        delay = data.draw(st.none() | st.integers(0, 200), label="new delay")
        touched = self.handles[number].touch(None if delay is None else f"{delay}ms")
        assert touched == self.model.touch(self.model.entries[number], delay)

    def stop(self, _: st.DataObject | None = None) -> None:
        numbers = [self.handles.index(left.handle) for left in self.timers.stop()]
        assert numbers == self.model.stop()
        self.stopped = True

    def run(self, number: int) -> None:
        """Be the callback of every timer."""
        entry = self.model.begin(number)
        assert self.data is not None
        actions: list[Any] = [None, self.start, self.cancel, self.touch]
        if len(self.handles) > 5:
            actions.append(self.stop)
        action = self.data.draw(st.sampled_from(actions), label="inside")
        if action is not None and not self.stopped:
            action(self.data)
        if self.data.draw(st.integers(0, 9), label="raises") == 0 and not self.stopped:
            self.model.end(entry)
            raise ValueError
        self.model.end(entry)

    # -- steps

    @precondition(lambda self: not self.stopped)
    @rule(data=st.data(), action=st.sampled_from(["start", "start", "cancel", "touch"]))
    def act(self, data: st.DataObject, action: str) -> None:
        getattr(self, action)(data)

    @precondition(lambda self: not self.stopped)
    @rule(data=st.data(), wait=st.integers(0, 300))
    def pass_time(self, data: st.DataObject, wait: int) -> None:
        """Let time pass; the model follows with each callback."""
        self.data = data
        end = self.model.now + wait
        while self.model.now < end and not self.stopped:
            self.model.now += 1
            self.timers.advance("1ms")
            self.timers.run_due()
        self.settle()

    @precondition(lambda self: not self.stopped)
    @rule(data=st.data(), wait=st.integers(0, 5000))
    def jump(self, data: st.DataObject, wait: int) -> None:
        """Let time pass unseen, as when a process is suspended."""
        self.data = data
        self.clock.advance_ns(wait * MS)
        self.model.now += wait
        self.timers.run_due()
        self.settle()

    @precondition(lambda self: not self.stopped and len(self.handles) > 10)
    @rule()
    def stop_all(self) -> None:
        self.stop()

    @precondition(lambda self: self.stopped)
    @rule()
    def begin_again(self) -> None:
        self.make()

    # -- what must hold

    def settle(self) -> None:
        """Say that nothing is left that should have run."""
        if not self.stopped:
            self.model.collect()
            assert self.model.of("due") == []

    @invariant()
    def agree(self) -> None:
        if not hasattr(self, "model"):
            return
        registry = self.timers._registry
        if not self.stopped:
            registry.wheel.check()
        assert len(self.timers) == len(self.model.of("pending"))
        for entry, handle in zip(self.model.entries, self.handles, strict=True):
            assert handle.pending == (entry.state == "pending")
            assert handle.done == (entry.state == "done")
            assert handle.cancelled == (entry.state == "cancelled")
            assert (handle.count, handle.missed) == (entry.count, entry.missed)
            if entry.state == "pending":
                assert handle._deadline_ns == entry.deadline * MS
            if entry.state in ("done", "cancelled"):
                assert (handle.callback, handle.args, handle.key) == (None, (), None)
        for key in ("a", "b"):
            found = [entry.number for entry in self.model.of("pending", "due", "running") if entry.key == key]
            held = self.timers.get(key)
            assert ([] if held is None else [self.handles.index(held)]) == found

    def teardown(self) -> None:
        if hasattr(self, "timers"):
            self.timers.stop()


def test_timers_do_what_a_sorted_list_would() -> None:
    run_state_machine_as_test(TimersMachine, settings=settings(max_examples=3 * settings().max_examples))
