"""Every statement finds its rows by an index, whatever the file holds."""

import asyncio
import re
from pathlib import Path

import apsw
import pytest

from tests.stores.children import opened
from tickwheel.stores.sqlite.statements import SQL

# By its nature: the newest matches of a prefix have to be sorted out of all of them.
SORTS = {"list_by_prefix_newest", "list_by_prefix_oldest"}


@pytest.fixture
def connection(tmp_path: Path) -> apsw.Connection:
    async def make() -> None:
        await (await opened(str(tmp_path / "tasks.db"))).close()

    asyncio.run(make())
    return apsw.Connection(str(tmp_path / "tasks.db"))


@pytest.mark.parametrize("name", SQL)
def test_no_statement_reads_a_whole_table(connection: apsw.Connection, name: str) -> None:
    steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {SQL[name]}", bindings_of(name))]
    assert not [step for step in steps if step.startswith(("SCAN tasks", "SCAN runs"))], steps
    assert any("TEMP B-TREE" in step for step in steps) == (name in SORTS), steps
    connection.close()


def bindings_of(name: str) -> dict[str, None] | tuple[None, ...]:
    if ":limit" in SQL[name] or ":before" in SQL[name]:
        return dict.fromkeys(re.findall(r":(\w+)", SQL[name]))
    return (None,) * SQL[name].count("?")


def test_what_comes_due_is_read_in_order_from_its_index(connection: apsw.Connection) -> None:
    step, *_ = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {SQL['due']}", bindings_of("due"))]
    assert "USING INDEX tasks_due ((run_at,id)>(?,?)" in step
    connection.close()
