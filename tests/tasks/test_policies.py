"""Retries wait longer each time, up to a cap, and end; late policies refuse what cannot work."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwheel.errors import InvalidSchedule
from tickwheel.tasks import LatePolicy, RetryPolicy

POLICIES = st.builds(
    RetryPolicy,
    retries=st.integers(0, 1000),
    first_ms=st.integers(0, 10**9),
    factor=st.floats(1, 100),
    cap_ms=st.integers(0, 10**10),
    jitter=st.floats(0, 1),
    age_ms=st.none() | st.integers(0, 10**10),
)


@given(POLICIES, st.floats(0, 1))
def test_waits_grow_up_to_the_cap_and_are_never_negative(policy: RetryPolicy, chance: float) -> None:
    waits = [policy.wait_ms(failures, chance) for failures in range(1, policy.retries + 1)]
    numbers = [wait for wait in waits if wait is not None]
    assert len(numbers) == policy.retries
    for one, other in pairwise(numbers):
        assert 0 <= one <= other
    assert all(0 <= wait <= policy.cap_ms * (1 + policy.jitter) for wait in numbers)
    assert policy.wait_ms(policy.retries + 1, chance) is None


@given(POLICIES, st.floats(0, 1), st.integers(1, 1000))
def test_chance_adds_no_more_than_its_share(policy: RetryPolicy, chance: float, failures: int) -> None:
    least, wait = policy.wait_ms(failures, 0.0), policy.wait_ms(failures, chance)
    if least is None or wait is None:
        assert least is wait
    else:
        assert least <= wait <= (least + 1) * (1 + policy.jitter * chance)


@given(POLICIES, st.integers(0, 10**11))
def test_occurrence_that_is_too_old_is_not_tried_again(policy: RetryPolicy, age_ms: int) -> None:
    too_old = policy.age_ms is not None and age_ms > policy.age_ms
    assert (policy.wait_ms(1, 0.0, age_ms) is None) == (too_old or policy.retries == 0)


def test_small_factor_goes_on_growing() -> None:
    """A regression: waits stood still after 64 failures."""
    policy = RetryPolicy(retries=1000, first_ms=1000, factor=1.01, cap_ms=3_600_000, jitter=0.0)
    assert policy.wait_ms(65, 0.0) == 1890
    assert policy.wait_ms(200, 0.0) == 7243
    assert policy.wait_ms(1000, 0.0) == 3_600_000


def test_largest_growth_does_not_overflow() -> None:
    policy = RetryPolicy(retries=1000, first_ms=1, factor=100.0, jitter=0.0)
    assert policy.wait_ms(1000, 0.0) == policy.cap_ms
    assert RetryPolicy(retries=1000, first_ms=0, factor=100.0).wait_ms(1000, 1.0) == 0


def test_nothing_is_tried_again_unless_told() -> None:
    assert RetryPolicy().wait_ms(1, 0.0) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"retries": -1},
        {"retries": 1001},
        {"first_ms": -1},
        {"cap_ms": -1},
        {"factor": 0.5},
        {"factor": 101.0},
        {"factor": float("nan")},
        {"factor": float("inf")},
        {"factor": 10**400},
        {"jitter": 10**400},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"jitter": float("nan")},
        {"age_ms": -1},
    ],
)
def test_retry_policy_refuses_what_cannot_work(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchedule):
        RetryPolicy(**wrong)


@pytest.mark.parametrize("wrong", [{"mode": "never"}, {"grace_ms": -1}, {"catch_up": 0}, {"catch_up": 10_001}])
def test_late_policy_refuses_what_cannot_work(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchedule):
        LatePolicy(**wrong)
