"""Opening the store: what the database has to be, and what is made in it.

The tables are made and brought up to date in one transaction, under a lock that only one process can have. Who finds
them up to date needs neither, and no right to change them.
"""

from typing import Final

from tickwheel.errors import SchemaTooNew, StoreError
from tickwheel.stores.postgres.address import Address
from tickwheel.stores.postgres.failures import told
from tickwheel.stores.postgres.sessions import Connection, connect
from tickwheel.stores.postgres.statements import MIGRATIONS, SQL

__all__ = ["prepare"]

SERVER_LEAST: Final = 130_000  # has all that the SQL uses; older ones are not mended any more
TABLES: Final = {"tasks", "runs", "partitions", "nodes", "counts"}
LOCK: Final = 0x7469636B  # "tick": our lock in the database


async def prepare(address: Address, partitions: int) -> int:
    """Make the tables, or bring them up to date; return how many partitions there are."""
    connection = await connect(address)
    try:
        with told(address):
            await _check(connection, address)
            if await _version(connection, address) < len(MIGRATIONS):
                async with connection.transaction():
                    await _migrate(connection, address, partitions)
            stored: int = await connection.fetchval(SQL["partitions_count"])
    finally:
        connection.terminate()
    if stored < 1:
        raise StoreError(f"{address.shown}: it has no partitions; it is damaged")
    return stored


async def _check(connection: Connection, address: Address) -> None:
    number, encoding = await connection.fetchrow(
        "SELECT current_setting('server_version_num')::integer, current_setting('server_encoding')"
    ) or (0, "")
    if number < SERVER_LEAST:
        raise StoreError(f"{address.shown}: PostgreSQL 13 or later is needed, and this is {number // 10_000}")
    if encoding != "UTF8":
        raise StoreError(f"{address.shown}: ids are any text, and a database in {encoding} cannot keep it; use UTF8")


async def _version(connection: Connection, address: Address) -> int:
    """Return the version of the tables that are there, 0 if there are none."""
    # From the catalogue itself: to_regclass may still answer from before the lock was waited for.
    rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", address.schema)
    tables = {name for (name,) in rows}
    ours = "schema_version" in tables
    if tables & TABLES and not ours:
        raise StoreError(f"{address.shown}: this schema has tables of something else; choose another with ?schema=")
    found: int = await connection.fetchval(SQL["schema_version"]) if ours else 0
    if found > len(MIGRATIONS):
        raise SchemaTooNew(found, len(MIGRATIONS))
    return found


async def _migrate(connection: Connection, address: Address, partitions: int) -> None:
    await connection.execute("SELECT pg_advisory_xact_lock($1, hashtext($2))", LOCK, address.schema)
    found = await _version(connection, address)  # once more: another process may have been here meanwhile
    if found == 0:
        await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {address.schema}")
        await connection.execute("CREATE TABLE schema_version (version integer NOT NULL)")
        await connection.execute("INSERT INTO schema_version VALUES (0)")
    for script in MIGRATIONS[found:]:
        await connection.execute(script)
    if found == 0:
        await connection.execute("INSERT INTO partitions (part) SELECT generate_series(0, $1::integer - 1)", partitions)
    await connection.execute("UPDATE schema_version SET version = $1", len(MIGRATIONS))
