"""Tasks in a PostgreSQL database: durable, and shared by any number of processes on any number of machines."""

from tickwheel.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
