"""Instances, work items and notices as rows of a table, and back: the same columns in every store, in this order."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tickwheel.workflow.contract import WorkItem
from tickwheel.workflow.instances.contract import Definition, Instance, Notice

__all__ = ["definition_of", "instance_of", "item_of", "notice_of", "row_of"]

Row = Sequence[Any]


def row_of(record: Definition | Instance | WorkItem | Notice) -> list[Any]:
    """Return the columns of a record; what is a dict is written as JSON."""
    return [_written(getattr(record, name)) for name in record.__struct_fields__]


def _written(value: Any) -> Any:
    return msgspec.json.encode(value).decode() if isinstance(value, dict) else value


def definition_of(row: Row) -> Definition:
    """Read a definition."""
    return Definition(hash=row[0], process=row[1], files=msgspec.json.decode(row[2]))


def instance_of(row: Row) -> Instance:
    """Read an instance."""
    fields = dict(zip(Instance.__struct_fields__, row, strict=True))
    return Instance(
        **{**fields, "timers": msgspec.json.decode(fields["timers"]), "data": msgspec.json.decode(fields["data"])}
    )


def item_of(row: Row) -> WorkItem:
    """Read a work item."""
    return WorkItem(**dict(zip(WorkItem.__struct_fields__, row, strict=True)))


def notice_of(row: Row) -> Notice:
    """Read a notice."""
    return Notice(**dict(zip(Notice.__struct_fields__, row, strict=True)))
