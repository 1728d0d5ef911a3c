"""What a file of process instances is: one of its own, which the number in its header tells from one of tasks."""

from typing import Final

from tickwheel.stores.scripts import read_scripts
from tickwheel.stores.sqlite.schema import Schema

__all__ = ["INSTANCES", "SQL"]

SQL, MIGRATIONS = read_scripts("tickwheel.workflow.instances.sqlite")

INSTANCES: Final = Schema("process instances", 0x7469636B, MIGRATIONS)  # "tick"
