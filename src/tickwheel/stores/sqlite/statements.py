"""The SQL: statements by name, and what brings the schema to version 1, 2, ..."""

from tickwheel.stores.scripts import read_scripts

__all__ = ["MIGRATIONS", "SQL"]

SQL, MIGRATIONS = read_scripts("tickwheel.stores.sqlite")
