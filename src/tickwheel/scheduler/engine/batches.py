"""Batches that go to a store: what one task makes fail is found, and the others of its batch are done.

    finish([a, b, c, d])  raises    -> finish([a, b])  done
                                       finish([c, d])  raises -> finish([c])  done
                                                                 finish([d])  raises: it is this one

A store that is away is not the fault of any of them: a `StoreError` is raised, and everything is to be tried again.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from tickwheel.errors import StoreError, TickwheelError
from tickwheel.stores.contract import Lease, Store
from tickwheel.tasks.record import Task

__all__ = ["call_in_parts", "claim_in_parts", "collect_answers"]

log = logging.getLogger("tickwheel.scheduler")

T = TypeVar("T")
R = TypeVar("R")


async def call_in_parts(
    call: Callable[[Sequence[T]], Awaitable[R]], batch: Sequence[T]
) -> list[tuple[Sequence[T], R | Exception]]:
    """Do something with a batch, in parts if it cannot be done at once; return each part with its answer or its error.

    A part that failed is a single one. If all fail, none may be to blame: that is for the caller to judge.
    """
    try:
        return [(batch, await call(batch))]
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 - the caller gets it, with what caused it
        if len(batch) <= 1:
            return [(batch, error)]
    half = len(batch) // 2
    return [*await call_in_parts(call, batch[:half]), *await call_in_parts(call, batch[half:])]


async def claim_in_parts(store: Store, leases: Sequence[Lease], ids: Sequence[str], until: int) -> list[Task]:
    """Claim what can be claimed."""
    parts = await call_in_parts(lambda part: store.claim(leases, part, until), ids)
    return [task for answer in collect_answers("claimed", parts) for task in answer]


def collect_answers(done: str, parts: Sequence[tuple[Sequence[str], R | Exception]]) -> list[R]:
    """Return the answers, and log what failed; if everything did, an error that is not ours is raised: the store's."""
    answers = [answer for _, answer in parts if not isinstance(answer, Exception)]
    for part, answer in parts:
        if isinstance(answer, Exception):
            if not answers and not isinstance(answer, TickwheelError):
                raise answer
            log.error("task %r cannot be %s", part[0], done, exc_info=answer)
    return answers
