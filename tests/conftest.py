"""Fixtures for every room: each test that asks for `build` or `scheme` runs on both builds."""

import os

import pytest
from hypothesis import settings

from tests.builds import BUILDS, Build

# Runs a user's test file in a process of its own; pytest takes it from the top-level conftest only.
pytest_plugins = "pytester"

# The gate takes the same examples every time; `make fuzz` looks for new ones.
settings.register_profile(
    "gate", derandomize=True, deadline=None, max_examples=60, stateful_step_count=40, print_blob=True
)
settings.register_profile("fuzz", deadline=None, max_examples=3000, stateful_step_count=60, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))


def pytest_report_header() -> str:
    """Say which builds are tested."""
    return f"tickwheel builds: {', '.join(map(str, BUILDS))}"


@pytest.fixture(params=BUILDS, ids=str)
def build(request: pytest.FixtureRequest) -> Build:
    """One build of the package."""
    chosen: Build = request.param
    return chosen
