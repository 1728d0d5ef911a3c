"""The engine on a PostgreSQL database."""

import pytest

from tests.postgres import Database
from tests.scheduler.on_a_store import OnAStore


class TestPostgres(OnAStore):
    @pytest.fixture
    def url(self, database: Database) -> str:
        return database.url()
