"""Process instances in PostgreSQL."""

from tickwheel.workflow.instances.postgres.store import PostgresInstances

__all__ = ["PostgresInstances"]
