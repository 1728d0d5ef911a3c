"""How far a wall clock was set, seen by one that only goes forward."""

import pytest

from tickwheel.clock import READ_NS_MAX, STEP_NS, ClockSteps, VirtualClock

HOUR_NS = 3600 * 10**9


def steps_of(clock: VirtualClock) -> ClockSteps:
    return ClockSteps(clock.time_ns, clock.monotonic_ns)


@pytest.mark.parametrize("step_ns", [HOUR_NS, -HOUR_NS, STEP_NS + 1, -STEP_NS - 1])
def test_a_step_is_told_until_it_is_taken(step_ns: int) -> None:
    clock = VirtualClock()
    steps = steps_of(clock)
    clock.advance(100)
    assert steps.peek() == steps.take() == 0, "time that passes is no step"
    clock.step_wall(step_ns)
    clock.advance(100)
    assert [steps.peek(), steps.peek(), steps.take(), steps.peek(), steps.take()] == [step_ns, step_ns, step_ns, 0, 0]


def test_corrections_that_are_taken_never_add_up_to_a_step() -> None:
    clock = VirtualClock()
    steps = steps_of(clock)
    for _ in range(10):
        clock.step_wall(STEP_NS)
        assert steps.take() == 0
    for _ in range(2):
        assert steps.peek() == 0
        clock.step_wall(STEP_NS)
    assert steps.peek() == 2 * STEP_NS, "those that were only looked at do"


def test_a_process_that_is_suspended_between_two_readings_sees_no_step_and_loses_none() -> None:
    clock = VirtualClock()
    suspended_ns = 0

    def time_ns() -> int:
        clock.advance_ns(suspended_ns)
        return clock.time_ns()

    steps = ClockSteps(time_ns, clock.monotonic_ns)
    suspended_ns = HOUR_NS
    assert steps.peek() == steps.take() == 0
    clock.step_wall(-HOUR_NS)
    assert steps.take() == 0, "the readings cannot be compared"
    suspended_ns = READ_NS_MAX
    assert steps.take() == -HOUR_NS + READ_NS_MAX
