"""The same for many tasks: an operation goes through all that fit, page by page, and tells how far it is.

    POST /v1/operations {"action": "retry", "filter": {"status": "failed"}}      202, running
    GET /v1/operations/{id}                                                      matched 4000, done 3200, skipped 3

Newest first, by a cursor: what is added meanwhile is not touched, and nothing is touched twice. An operation belongs to
this process; one that is broken off has done what it has done, and can be asked for again.
"""

import asyncio
import logging
from collections import OrderedDict
from typing import Final, Literal

import msgspec

from tickwheel.clock import Clock
from tickwheel.errors import TickwheelError
from tickwheel.scheduler import AsyncScheduler
from tickwheel.scheduler.verbs import Action, aimed_at
from tickwheel.server.bodies import FilterBody
from tickwheel.server.moments import moment
from tickwheel.server.problems import Problem
from tickwheel.stores.contract import Filter

__all__ = ["Operation", "Operations"]

log = logging.getLogger("tickwheel.server")

KEPT_MAX: Final = 100
RUNNING_MAX: Final = 4
DRY_MAX: Final = 100_000  # tasks that are looked at to say how many fit


class Operation(msgspec.Struct, kw_only=True):
    """One of them, as it stands."""

    id: str
    action: Action
    filter: FilterBody
    dry_run: bool
    state: Literal["running", "done", "failed"] = "running"
    matched: int = 0
    matched_is_exact: bool = True
    done: int = 0
    skipped: int = 0
    started: str
    finished: str | None = None
    error: str | None = None


class Operations:
    """Those that run, and the latest that ran."""

    def __init__(self, scheduler: AsyncScheduler, clock: Clock) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._kept: OrderedDict[str, Operation] = OrderedDict()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._number = clock.time_ns() // 1_000_000

    def listed(self) -> list[Operation]:
        """List them, latest first."""
        return list(reversed(self._kept.values()))

    def find(self, operation_id: str) -> Operation:
        """Return one."""
        if operation_id not in self._kept:
            detail = (
                f"there is no operation {operation_id!r}; the latest {KEPT_MAX} are kept, by the process that ran them"
            )
            raise Problem(404, "unknown-operation", "No such operation", detail)
        return self._kept[operation_id]

    async def begin(self, action: Action, body: FilterBody, wanted: Filter, *, dry_run: bool) -> Operation:
        """Begin one; a dry run is over when this returns."""
        if len(self._running) >= RUNNING_MAX and not dry_run:
            detail = f"{RUNNING_MAX} operations are running; wait for one to end"
            raise Problem(429, "too-many-operations", "Too many operations", detail, headers={"retry-after": "1"})
        self._number += 1
        operation = Operation(
            id=f"{self._number:x}", action=action, filter=body, dry_run=dry_run, started=self._moment()
        )
        if dry_run:
            total = await self._scheduler.count(aimed_at(action, wanted), DRY_MAX)
            operation.matched, operation.matched_is_exact = total.tasks, total.exact
            operation.state, operation.finished = "done", self._moment()
        else:
            work = asyncio.create_task(self._run(operation, wanted))
            self._running[operation.id] = work
            work.add_done_callback(lambda _: self._running.pop(operation.id, None))
        self._kept[operation.id] = operation
        while len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return operation

    async def close(self) -> None:
        """Break off what runs."""
        running = list(self._running.values())
        for work in running:
            work.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _run(self, operation: Operation, wanted: Filter) -> None:
        try:
            async for seen, changed in self._scheduler.sweep(operation.action, wanted):
                operation.matched, operation.done, operation.skipped = seen, changed, seen - changed
            operation.state = "done"
        except asyncio.CancelledError:
            operation.state, operation.error = "failed", "the server was stopped"
            raise
        except TickwheelError as error:
            operation.state, operation.error = "failed", str(error)
        except Exception:
            log.exception("operation %s went wrong", operation.id)
            operation.state, operation.error = "failed", "a mistake of ours; the log has the details"
        finally:
            operation.finished = self._moment()

    def _moment(self) -> str:
        return moment(self._clock.time_ns() // 1_000_000)
