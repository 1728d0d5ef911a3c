"""What goes wrong between here and the server, in words that say what to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import asyncpg

from tickwheel.errors import StoreUnavailable
from tickwheel.stores.postgres.address import Address

__all__ = ["AGAIN", "AWAY", "told"]

WORDS: Final[list[tuple[type[BaseException] | tuple[type[BaseException], ...], str]]] = [
    (
        (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError),
        "it does not let this user in; see the user and the password in the URL, and pg_hba.conf",
    ),
    (asyncpg.InvalidCatalogNameError, "there is no such database; make it with createdb, or correct the URL"),
    (
        asyncpg.InsufficientPrivilegeError,
        "this user may not do that; GRANT it what it needs, or make the schema for it",
    ),
    (asyncpg.ReadOnlySQLTransactionError, "it only reads: it is a standby; use the primary, or target_session_attrs"),
    (asyncpg.DiskFullError, "its disk is full; make room"),
    (asyncpg.TooManyConnectionsError, "it has too many connections; raise max_connections, or close some"),
    (asyncpg.UndefinedTableError, "its tables are gone; open the store again to make them"),
    ((asyncpg.CannotConnectNowError, asyncpg.AdminShutdownError), "it is starting or stopping; try again"),
    (TimeoutError, "it did not answer in time; see whether it is overloaded, or the network broken"),
    ((OSError, asyncpg.PostgresConnectionError), "it cannot be reached; see whether it runs, and its host and port"),
    # The last is what the driver makes of a farewell that the server sent while nothing was asked.
    ((asyncpg.InterfaceError, asyncpg.InternalClientError), "the connection was lost; try again"),
]

# What may go wrong on the way, whatever is asked.
AWAY: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)

# What somebody else's transaction made of ours: nothing was written, and the next try will find things settled.
AGAIN: Final = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError, asyncpg.UniqueViolationError)


@contextmanager
def told(address: Address) -> Iterator[None]:
    """Make errors of the driver into errors of the store."""
    try:
        yield
    except AWAY as error:
        why = next((words for kinds, words in WORDS if isinstance(error, kinds)), "it could not do what was asked")
        said = str(error) or type(error).__name__
        raise StoreUnavailable(f"{address.shown}: {why} (PostgreSQL says: {said})") from error
