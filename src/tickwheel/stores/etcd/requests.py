"""What etcd is asked, and how much of it at once.

A transaction may hold 128 operations, and as many comparisons. Where that is too few, operations are put into
transactions of their own within it, for which it is as atomic: of the 128, comparisons and groups take 96, which leaves
32 operations a group.

    transaction     compare 96 at most
        group       32 operations
        group       32 operations       96 groups at most
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

from aetcd import rpc

from tickwheel.stores.etcd.keys import after

__all__ = [
    "BYTES_MAX",
    "COMPARED_MAX",
    "GIVEN_MAX",
    "Comparison",
    "Operation",
    "Question",
    "answers",
    "ask_all",
    "ask_key",
    "delete",
    "delete_all",
    "exists",
    "holds",
    "put",
    "questions",
    "separately",
    "stands",
    "transaction",
]

Operation: TypeAlias = Any  # the driver has no types
Comparison: TypeAlias = Any
Question: TypeAlias = Any

FLAT_MAX: Final = 128  # etcd's own limit, unless its --max-txn-ops says otherwise
COMPARED_MAX: Final = 96
GROUP: Final = FLAT_MAX - COMPARED_MAX
GIVEN_MAX: Final = COMPARED_MAX * GROUP
BYTES_MAX: Final = 1_000_000  # of a request; etcd takes 1.5 MiB, unless its --max-request-bytes says otherwise


def put(key: bytes, value: bytes, lease: int = 0) -> Operation:
    """Write a key."""
    return rpc.RequestOp(request_put=rpc.PutRequest(key=key, value=value, lease=lease))


def delete(key: bytes) -> Operation:
    """Delete a key."""
    return rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key))


def delete_all(prefix: bytes) -> Operation:
    """Delete all keys that begin with a prefix."""
    return rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=prefix, range_end=after(prefix)))


def ask_key(key: bytes) -> Question:
    """Read a key."""
    return rpc.RangeRequest(key=key)


def ask_all(
    prefix: bytes,
    *,
    begin: bytes | None = None,
    end: bytes | None = None,
    limit: int = 0,
    backwards: bool = False,
    only: str = "",
) -> Question:
    """Read the keys that begin with a prefix, or some of them in order; `only` the "keys", or their "count"."""
    return rpc.RangeRequest(
        key=prefix if begin is None else begin,
        range_end=after(prefix) if end is None else end,
        limit=limit,
        sort_order=rpc.RangeRequest.DESCEND if backwards else rpc.RangeRequest.NONE,
        sort_target=rpc.RangeRequest.KEY,
        keys_only=only == "keys",
        count_only=only == "count",
    )


def stands(key: bytes, revision: int) -> Comparison:
    """Demand that a key was last changed at a revision; 0 if it is not there."""
    return rpc.Compare(result=rpc.Compare.EQUAL, target=rpc.Compare.MOD, key=key, mod_revision=revision)


def exists(key: bytes) -> Comparison:
    """Demand that a key is there."""
    return rpc.Compare(result=rpc.Compare.GREATER, target=rpc.Compare.MOD, key=key, mod_revision=0)


def holds(key: bytes, value: bytes) -> Comparison:
    """Demand that a key has a value."""
    return rpc.Compare(result=rpc.Compare.EQUAL, target=rpc.Compare.VALUE, key=key, value=value)


def transaction(compared: Iterable[Comparison], given: Sequence[Operation]) -> Any:
    """Do everything that is given if everything compares, and otherwise nothing."""
    compared = list(compared)
    assert len(compared) <= COMPARED_MAX
    assert len(given) <= GIVEN_MAX
    if len(given) > FLAT_MAX:
        groups = (given[first : first + GROUP] for first in range(0, len(given), GROUP))
        given = [rpc.RequestOp(request_txn=rpc.TxnRequest(success=group)) for group in groups]
    return rpc.TxnRequest(compare=compared, success=given)


def separately(cases: Iterable[tuple[Sequence[Comparison], Sequence[Operation]]]) -> list[Any]:
    """Make transactions of many small ones, each of which happens or not by itself."""
    nested = [rpc.RequestOp(request_txn=rpc.TxnRequest(compare=compared, success=given)) for compared, given in cases]
    return [
        rpc.TxnRequest(success=nested[first : first + COMPARED_MAX]) for first in range(0, len(nested), COMPARED_MAX)
    ]


def questions(asked: Sequence[Question]) -> list[Any]:
    """Make transactions of questions, each answered as of one moment."""
    given = [rpc.RequestOp(request_range=question) for question in asked]
    return [rpc.TxnRequest(success=given[first : first + FLAT_MAX]) for first in range(0, len(given), FLAT_MAX)]


def answers(responses: Iterable[Any]) -> list[Any]:
    """Return the answers to all questions, in order."""
    return [answer.response_range for answer in chain.from_iterable(response.responses for response in responses)]
