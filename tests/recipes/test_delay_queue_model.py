"""`DelayQueue` against a sorted list, and both delay queues in CPython's own tests of the standard queues."""

import importlib.util
import queue
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tickwheel import DelayQueue, VirtualClock

REPOSITORY = Path(__file__).parents[2]
TICK_NS = 1_000_000
MAXSIZE = 2000

# Within a tick, over several levels of the wheel, and beyond its last.
NANOSECONDS = st.one_of(
    st.integers(0, 5 * TICK_NS), st.integers(0, 10**6).map(lambda ticks: ticks * TICK_NS), st.integers(0, 10**17)
)


class QueueAgainstList(RuleBasedStateMachine):
    """Every item is kept as (due tick, number), which is also the order they come out in."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.queue: DelayQueue[int] = DelayQueue(MAXSIZE, clock=self.clock)
        self.items: list[tuple[int, int]] = []
        self.number = 0

    @rule(delay_ns=NANOSECONDS, count=st.sampled_from([1, 1, 1, 2, 300]))
    def put(self, delay_ns: int, count: int) -> None:
        now_ns = self.clock.monotonic_ns()
        due_tick = -(-(now_ns + delay_ns) // TICK_NS) if delay_ns else now_ns // TICK_NS
        for _ in range(count):
            self.number += 1
            try:
                self.queue.put_nowait(self.number, delay=f"{delay_ns}ns")
            except queue.Full:
                assert len(self.items) == MAXSIZE
            else:
                self.items.append((due_tick, self.number))

    @rule(ns=NANOSECONDS)
    def advance(self, ns: int) -> None:
        self.clock.advance_ns(ns)

    @rule(count=st.sampled_from([1, 1, 2, 300]))
    def get(self, count: int) -> None:
        for _ in range(count):
            due = self.find_due()
            if due:
                assert self.queue.get_nowait() == min(due)[1]
                self.items.remove(min(due))
            else:
                with pytest.raises(queue.Empty):
                    self.queue.get_nowait()
                break

    @rule()
    def count_due(self) -> None:
        assert self.queue.due() == len(self.find_due())

    @rule()
    def drain(self) -> None:
        assert self.queue.drain() == [number for _, number in sorted(self.items)]
        self.items.clear()

    @invariant()
    def counts_agree(self) -> None:
        assert self.queue.qsize() == len(self.items)
        assert self.queue.empty() == (not self.items)
        assert self.queue.full() == (len(self.items) == MAXSIZE)

    def find_due(self) -> list[tuple[int, int]]:
        tick = self.clock.monotonic_ns() // TICK_NS
        return [item for item in self.items if item[0] <= tick]


TestQueueAgainstList = QueueAgainstList.TestCase


@pytest.mark.parametrize(
    "run", ["threads", "asyncio --loop asyncio", "asyncio --loop uvloop", "asyncio --loop tickwheel"]
)
def test_cpythons_own_tests_of_the_standard_queues_pass(run: str) -> None:
    assert importlib.util.find_spec("test.test_asyncio"), f"{sys.executable} was installed without its test package"
    command = [sys.executable, "-W", "ignore", "-m", "tests.recipes.cpython_queues", *run.split()]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr[-5000:]
    assert "\nOK" in done.stderr
    assert "Ran 0 tests" not in done.stderr
