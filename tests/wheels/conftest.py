"""A fresh wheel of every scheme, on every build."""

from typing import Any

import pytest

from tests.builds import Build
from tests.wheels.schemes import SCHEMES, UNBOUNDED, make


@pytest.fixture(params=SCHEMES)
def wheel(request: pytest.FixtureRequest, build: Build) -> Any:
    """An empty wheel of 60 slots where it has slots, one for each scheme."""
    return make(build, request.param)


@pytest.fixture(params=UNBOUNDED)
def unbounded(request: pytest.FixtureRequest, build: Build) -> Any:
    """An empty wheel that takes any delay."""
    return make(build, request.param)
