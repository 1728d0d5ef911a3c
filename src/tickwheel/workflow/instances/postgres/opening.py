"""Opening the store: its tables are made in the schema of the URL, beside those of tasks if they are there."""

from typing import Final

from tickwheel.errors import SchemaTooNew
from tickwheel.stores.postgres.address import Address
from tickwheel.stores.postgres.failures import told
from tickwheel.stores.postgres.sessions import Connection, connect
from tickwheel.stores.scripts import read_scripts

__all__ = ["SQL", "prepare"]

SQL, MIGRATIONS = read_scripts("tickwheel.workflow.instances.postgres")

LOCK: Final = 0x62706D6E  # "bpmn": our lock in the database


async def prepare(address: Address) -> None:
    """Make the tables, or bring them up to date, in one transaction that only one process makes."""
    connection = await connect(address)
    try:
        with told(address):
            async with connection.transaction():
                await _migrate(connection, address)
    finally:
        connection.terminate()


async def _migrate(connection: Connection, address: Address) -> None:
    await connection.execute("SELECT pg_advisory_xact_lock($1, hashtext($2))", LOCK, address.schema)
    await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {address.schema}")
    await connection.execute("CREATE TABLE IF NOT EXISTS bpmn_version (version integer NOT NULL)")
    found: int = await connection.fetchval("SELECT coalesce(max(version), 0) FROM bpmn_version")
    if found > len(MIGRATIONS):
        raise SchemaTooNew(found, len(MIGRATIONS))
    for script in MIGRATIONS[found:]:
        await connection.execute(script)
    if found < len(MIGRATIONS):
        await connection.execute("INSERT INTO bpmn_version VALUES ($1)", len(MIGRATIONS))
