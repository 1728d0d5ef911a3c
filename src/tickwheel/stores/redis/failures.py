"""What goes wrong between here and the servers, in words that say what to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from redis import exceptions as kinds

from tickwheel.errors import StoreUnavailable
from tickwheel.stores.redis.address import Address

__all__ = ["AWAY", "UnknownMaster", "told"]


class UnknownMaster(kinds.RedisError):
    """A sentinel does not know a master."""


Kinds = type[BaseException] | tuple[type[BaseException], ...]

WORDS: Final[list[tuple[Kinds, str, str]]] = [  # of these kinds, and with this in what they say
    (
        (kinds.AuthenticationError, kinds.AuthorizationError, kinds.AuthenticationWrongNumberOfArgsError),
        "",
        "it does not let this user in; see the user and the password in the URL",
    ),
    (kinds.ResponseError, "NOAUTH", "it wants a password; put it into the URL"),
    (kinds.ResponseError, "WRONGPASS", "it does not let this user in; see the user and the password in the URL"),
    (
        kinds.NoPermissionError,
        "",
        "this user may not do that; let it use its keys and channels (ACL SETUSER)",
    ),
    (kinds.OutOfMemoryError, "", "its memory is full (maxmemory); give it more, or purge"),
    (kinds.ReadOnlyError, "", "it only reads: it is a replica; use the master, or redis+sentinel://"),
    (kinds.BusyLoadingError, "", "it is starting, and still loads its data; try again"),
    (kinds.ClusterDownError, "", "its cluster is not whole: a master is down; see CLUSTER INFO"),
    (kinds.ResponseError, "NOREPLICAS", "it has too few replicas to write to (min-replicas-to-write)"),
    (kinds.ResponseError, "MISCONF", "it cannot write to its disk; see its log"),
    (UnknownMaster, "", "no sentinel knows a master of this name; see the hosts and the name in the URL"),
    (kinds.ResponseError, "cluster support disabled", "it is no cluster; write redis://"),
    (
        (TimeoutError, kinds.TimeoutError),
        "",
        "it did not answer in time; see whether it is overloaded, or the network broken",
    ),
    (
        (OSError, kinds.ConnectionError),
        "certificate verify failed",
        "its certificate is not trusted, or is for another host; see the host and ?ca_file= in the URL",
    ),
    ((OSError, kinds.ConnectionError), "", "it cannot be reached; see whether it runs, and its host and port"),
]

AWAY: Final = (kinds.RedisError, OSError, TimeoutError)  # what may go wrong on the way, whatever is asked


@contextmanager
def told(address: Address) -> Iterator[None]:
    """Make errors of the driver into errors of the store."""
    try:
        yield
    except AWAY as error:
        said = str(error) or type(error).__name__
        fitting = (words for kind, part, words in WORDS if isinstance(error, kind) and part in said)
        why = next(fitting, "it could not do what was asked")
        raise StoreUnavailable(f"{address.shown}: {why} (Redis says: {said})") from error
