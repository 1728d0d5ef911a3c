"""A PostgreSQL server for all tests, in which each has a schema of its own."""

from itertools import count

from tickwheel.testing.postgres import PostgresServer

__all__ = ["Database"]

numbers = count()


class Database:
    """Where a test has its tables."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.schema = self.fresh_schema()

    @staticmethod
    def fresh_schema() -> str:
        return f"test_{next(numbers)}"

    def url(self, schema: str | None = None) -> str:
        return f"{self.server.url}?schema={schema or self.schema}"
