"""Where process instances are kept: one contract, and a URL that says which store it is.

sqlite:///processes.db          a file of its own, beside the one with tasks
postgresql://ann@host/shop      a database, which may be the one with tasks (extra `postgres`)
"""

from typing import Final

from tickwheel.errors import MissingExtra, UnknownStore
from tickwheel.stores.urls import is_file_url, path_of, split_url
from tickwheel.workflow.instances.contract import Change, Definition, Instance, InstanceStore, Loaded, Notice

__all__ = ["Change", "Definition", "Instance", "InstanceStore", "Loaded", "Notice", "open_instances"]

KNOWN: Final = ("sqlite:///", "postgresql://")


async def open_instances(url: str) -> InstanceStore:
    """Open the store a URL names."""
    if is_file_url(url):
        path = path_of(url)
        from tickwheel.workflow.instances.sqlite import SqliteInstances  # noqa: PLC0415 - only when it is used

        return await SqliteInstances.open(path)
    parts = split_url(url, KNOWN)
    if parts.scheme in ("postgresql", "postgres"):
        try:
            from tickwheel.workflow.instances.postgres import PostgresInstances  # noqa: PLC0415 - only when it is used
        except ModuleNotFoundError as error:
            raise MissingExtra("PostgreSQL stores", str(error.name), "postgres") from error
        return await PostgresInstances.open(url)
    raise UnknownStore(url, KNOWN)
