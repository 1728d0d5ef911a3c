"""A store around a store, which holds every change of a task against what may become of what."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from tickwheel.stores.contract import (
    COUNT_MAX,
    Change,
    Conflict,
    Due,
    Filter,
    Finish,
    Lease,
    OnConflict,
    Page,
    Rest,
    Store,
    Total,
)
from tickwheel.tasks.record import ENDED, LEGAL, Run, Status, Task

__all__ = ["LegalStore"]


class LegalStore:
    """Looks at the tasks of each call before and after it; for tests, where nobody else changes them meanwhile."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.partitions = store.partitions
        self.keeps_skipped = store.keeps_skipped
        self.local_clock = store.local_clock

    @property
    def timed_leases(self) -> bool:
        """Whether leases expire."""
        return self.store.timed_leases

    @property
    def finish_by_epoch(self) -> bool:
        """Whether an expired lease lets finish."""
        return self.store.finish_by_epoch

    @asynccontextmanager
    async def _watched(self, ids: Sequence[str], *, anew: bool = False, left: bool = False) -> AsyncIterator[None]:
        before = await self.store.get(ids)
        try:
            yield
        finally:  # what was refused has to be legal, too: nothing at all
            for old, new in zip(before, await self.store.get(ids), strict=True):
                check(old, new, anew=anew, left=anew or left)

    async def close(self) -> None:
        """Close it."""
        await self.store.close()

    async def time(self) -> int:
        """Read its clock."""
        return await self.store.time()

    async def changed_at(self) -> int:
        """Read when it was changed."""
        return await self.store.changed_at()

    async def add(self, tasks: Sequence[Task], on_conflict: OnConflict = "reject") -> list[Conflict]:
        """Add, watched."""
        async with self._watched([task.id for task in tasks], anew=True):
            return await self.store.add(tasks, on_conflict)

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        """Get."""
        return await self.store.get(ids)

    async def query(self, wanted: Filter, cursor: str | None = None, limit: int = 100) -> Page:
        """List."""
        return await self.store.query(wanted, cursor, limit)

    async def count(self, wanted: Filter, most: int = COUNT_MAX) -> Total:
        """Count what is wanted."""
        return await self.store.count(wanted, most)

    async def counts(self) -> dict[Status, int]:
        """Count."""
        return await self.store.counts()

    async def history(self, task_id: str, limit: int = 100) -> list[Run]:
        """Read runs."""
        return await self.store.history(task_id, limit)

    async def cancel(self, ids: Sequence[str], reason: str, *, run_only: bool = False) -> list[Task | None]:
        """Cancel, watched."""
        async with self._watched(ids):
            return await self.store.cancel(ids, reason, run_only=run_only)

    async def reschedule(self, task_id: str, run_at: int) -> Task:
        """Move, watched."""
        async with self._watched([task_id]):
            return await self.store.reschedule(task_id, run_at)

    async def amend(self, tasks: Sequence[Task]) -> list[Task]:
        """Amend, watched."""
        async with self._watched([task.id for task in tasks], left=True):
            return await self.store.amend(tasks)

    async def remove(self, ids: Sequence[str]) -> list[Task | None]:
        """Remove, watched: what runs stays."""
        before = await self.store.get(ids)
        removed = await self.store.remove(ids)
        for old, new in zip(before, await self.store.get(ids), strict=True):
            running = old is not None and old.status is Status.RUNNING
            assert new == (old if running else None), f"{old} is {new} after it was removed"
        return removed

    async def pause(self, ids: Sequence[str]) -> list[Task | None]:
        """Pause, watched."""
        async with self._watched(ids):
            return await self.store.pause(ids)

    async def resume(self, ids: Sequence[str], *, run_missed: bool = False) -> list[Task | None]:
        """Resume, watched."""
        async with self._watched(ids):
            return await self.store.resume(ids, run_missed=run_missed)

    async def run_now(self, ids: Sequence[str]) -> list[Task | None]:
        """Run now, watched."""
        async with self._watched(ids):
            return await self.store.run_now(ids)

    async def revive(self, ids: Sequence[str], run_at: int) -> list[Task | None]:
        """Revive, watched."""
        async with self._watched(ids):
            return await self.store.revive(ids, run_at)

    async def purge(self, before: int, rest: Rest | None = None) -> int:
        """Purge."""
        return await self.store.purge(before, rest)

    async def heartbeat(self, node: str, ttl_ms: int) -> list[str]:
        """Say that a node lives."""
        return await self.store.heartbeat(node, ttl_ms)

    async def leave(self, node: str) -> None:
        """Say that a node lives no more."""
        await self.store.leave(node)

    async def leases(self) -> list[Lease]:
        """List leases."""
        return await self.store.leases()

    async def acquire(self, partitions: Sequence[int], node: str, ttl_ms: int) -> list[Lease]:
        """Take leases."""
        return await self.store.acquire(partitions, node, ttl_ms)

    async def renew(self, leases: Sequence[Lease], ttl_ms: int) -> list[Lease]:
        """Hold on to leases."""
        return await self.store.renew(leases, ttl_ms)

    async def release(self, leases: Sequence[Lease]) -> None:
        """Give leases back."""
        await self.store.release(leases)

    async def due(self, leases: Sequence[Lease], until: int, after: tuple[int, str] | None, limit: int) -> list[Due]:
        """List what comes due."""
        return await self.store.due(leases, until, after, limit)

    async def claim(self, leases: Sequence[Lease], ids: Sequence[str], until: int) -> list[Task]:
        """Claim, watched."""
        async with self._watched(ids):
            return await self.store.claim(leases, ids, until)

    async def finish(self, finishes: Sequence[Finish]) -> list[bool]:
        """Finish, watched."""
        async with self._watched([finish.task.id for finish in finishes]):
            return await self.store.finish(finishes)

    async def orphans(self, leases: Sequence[Lease], limit: int) -> list[Task]:
        """List orphans."""
        return await self.store.orphans(leases, limit)

    async def checkpoint(self, leases: Sequence[Lease], moment: int) -> None:
        """Note how far it is."""
        await self.store.checkpoint(leases, moment)

    def changes(self, partitions: Sequence[int]) -> AsyncIterator[dict[int, Change]]:
        """Listen."""
        return self.store.changes(partitions)

    def running_changes(self) -> Mapping[int, int]:
        """Count the changes of running tasks that are known."""
        return self.store.running_changes()


def check(old: Task | None, new: Task | None, *, anew: bool = False, left: bool = False) -> None:
    """Assert that one task may have become the other.

    It may be another one by the same id if `anew`, and have been left the same change for after its run if `left`.
    """
    if old == new:
        return
    assert new is not None, f"{old} went away"
    if old is None:
        assert anew, f"{new} came from nowhere"
        return
    marks = (new.cancel_requested, new.cancel_run_only, new.paused, new.following)
    marked = marks != (old.cancel_requested, old.cancel_run_only, old.paused, old.following)
    again = left and new.following is not None
    asked = old.status is new.status is Status.RUNNING and (marked or again)
    replaced = anew and old.status in ENDED
    used_up = old.status is Status.PENDING and new.status is Status.COMPLETED and 0 < new.times <= new.runs
    assert asked or replaced or used_up or new.status in LEGAL[old.status], f"{old.status} became {new.status}"
    assert new.version > old.version, f"{new} changed and has the version it had"
    assert new.attempt >= old.attempt, f"{new} lost attempts"
    assert new.status not in ENDED or new.finished_at is not None, f"{new} is over, and nobody knows since when"
