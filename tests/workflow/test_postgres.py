"""BPMN processes on PostgreSQL."""

from pathlib import Path

import pytest

from tests.postgres import Database
from tests.workflow.on_a_store import OnAStore, Place


class TestPostgres(OnAStore):
    @pytest.fixture
    def place(self, tmp_path: Path, database: Database) -> Place:
        return Place(tmp_path, database.url())
