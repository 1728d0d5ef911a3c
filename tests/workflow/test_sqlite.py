"""BPMN processes on SQLite."""

from pathlib import Path

import pytest

from tests.workflow.on_a_store import OnAStore, Place
from tickwheel import aio
from tickwheel.errors import SchemaTooNew, StoreUnavailable, UnknownStore
from tickwheel.stores import open_store
from tickwheel.workflow.instances import open_instances


class TestSqlite(OnAStore):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        return Place(tmp_path, f"sqlite:///{tmp_path}/processes.db")


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    async def main() -> None:
        url = f"sqlite:///{tmp_path}/tasks.db"
        await (await open_store(url)).close()
        with pytest.raises(StoreUnavailable, match="not of process instances"):
            await open_instances(url)
        with pytest.raises(StoreUnavailable, match="no folder"):
            await open_instances(f"sqlite:///{tmp_path}/nowhere/processes.db")
        with pytest.raises(UnknownStore):
            await open_instances("memory://")

    aio.run(main())


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    import apsw  # noqa: PLC0415 - to write what only a newer version would

    async def main() -> None:
        url = f"sqlite:///{tmp_path}/processes.db"
        await (await open_instances(url)).close()
        connection = apsw.Connection(f"{tmp_path}/processes.db")
        connection.pragma("user_version", 99)
        connection.close()
        with pytest.raises(SchemaTooNew):
            await open_instances(url)

    aio.run(main())
