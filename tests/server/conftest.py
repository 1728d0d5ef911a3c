"""One server for each module of tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.served import Served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("server")
    with Served(folder, "--rate", "0") as served:
        yield served
        assert "went wrong" not in (folder / "log").read_text(), "something was answered with 500"
