"""Process instances in an SQLite file."""

from tickwheel.workflow.instances.sqlite.store import SqliteInstances

__all__ = ["SqliteInstances"]
