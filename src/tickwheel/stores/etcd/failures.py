"""What goes wrong between here and the cluster, in words that say what to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from grpc import StatusCode
from grpc.aio import AioRpcError

from tickwheel.errors import StoreUnavailable
from tickwheel.stores.etcd.address import Address

__all__ = ["is_away", "is_dropped", "is_stranger", "told"]

WORDS: Final[dict[StatusCode, str]] = {
    StatusCode.UNAVAILABLE: "it cannot be reached, or has no leader; see whether most of its members run",
    StatusCode.DEADLINE_EXCEEDED: "it did not answer in time; see whether it is overloaded, or the network broken",
    StatusCode.RESOURCE_EXHAUSTED: "it has no room; compact and defragment it, or raise --quota-backend-bytes",
    StatusCode.PERMISSION_DENIED: "this user may not do that; grant its role readwrite on the prefix",
    StatusCode.UNAUTHENTICATED: "it does not let this user in; see the user and the password in the URL",
    StatusCode.INVALID_ARGUMENT: "it does not take such a request; see the user, and --max-request-bytes",
}
AWAY: Final = frozenset({StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED, StatusCode.CANCELLED})
DROPPED: Final = "raft proposal dropped"  # there was no leader to propose it to: it has not happened, and never will
STRANGE: Final = "invalid auth token"  # it was good for some minutes, or the member has started again


def is_away(error: AioRpcError) -> bool:
    """Tell whether another member may do better."""
    return error.code() in AWAY or is_dropped(error)


def is_dropped(error: AioRpcError) -> bool:
    """Tell whether it is certain that nothing came of a request."""
    return DROPPED in (error.details() or "")


def is_stranger(error: AioRpcError) -> bool:
    """Tell whether we have to say again who we are."""
    return STRANGE in (error.details() or "")


@contextmanager
def told(address: Address) -> Iterator[None]:
    """Make errors of the driver into errors of the store."""
    try:
        yield
    except AioRpcError as error:
        why = WORDS.get(error.code(), "it could not do what was asked")
        said = error.details() or error.code().name
        raise StoreUnavailable(f"{address.shown}: {why} (etcd says: {said})") from error
