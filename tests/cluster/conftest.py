"""Every store, for stories that have to come to the same on each; and nodes in virtual time."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.places import PLACES, Place
from tests.cluster.virtual import Cluster


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A store that is empty."""
    with PLACES[request.param](tmp_path) as made:
        yield made


@pytest.fixture(params=[name for name in PLACES if name != "sqlite"])
def served_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """One that has a server, and so a clock of its own."""
    with PLACES[request.param](tmp_path) as made:
        yield made


@pytest.fixture
def cluster() -> Cluster:
    """Nodes in virtual time, none yet."""
    return Cluster()
