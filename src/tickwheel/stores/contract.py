"""What every store promises: the truth about tasks, and who may change it.

Tasks are divided into partitions; who holds the lease of one is its owner, and the only one to run its tasks.
A lease has an epoch, which grows with every change of owner, and a nonce of its own. Every write of an owner is
checked against both, in the same transaction that makes it: an owner that was paused beyond its lease can change
nothing any more. Anyone else may add, cancel, reschedule, pause and resume.

    anyone      add      get      query      count      cancel      reschedule     pause      resume     revive
                                             counts     amend       remove
    node        heartbeat         leave      leases
    owner       acquire  renew    release    due        claim       finish         orphans    checkpoint

Everything takes batches. A batch is applied whole or not at all, but for its items that no longer fit, which are
left out and said so.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Literal, Protocol

import msgspec

from tickwheel.tasks.delivery import queue_of
from tickwheel.tasks.record import Run, Status, Task

__all__ = [
    "COUNT_MAX",
    "LOOKED_AT_MAX",
    "PAGE_MAX",
    "Conflict",
    "Due",
    "Filter",
    "Finish",
    "Lease",
    "OnConflict",
    "Order",
    "Page",
    "Store",
    "Total",
]

OnConflict = Literal["reject", "replace", "keep", "debounce"]
Order = Literal["newest", "oldest", "due"]

PAGE_MAX = 1000  # tasks in an answer
LOOKED_AT_MAX = 5_000  # tasks that are read for a page when a tag or a text is looked for: some 20 ms
COUNT_MAX = 10_000  # tasks that are counted one by one, unless told
HINTS_MAX = 10_000  # partitions with news that nobody asked for yet


class Lease(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The right to run the tasks of a partition, for a while."""

    partition: int
    node: str
    epoch: int
    nonce: str
    expires_at: int  # by the store's clock
    checkpoint: int = 0  # until when the partition's tasks are known to have been claimed


class Due(msgspec.Struct, frozen=True, gc=False):
    """A pending task as the loader sees it: as little as a wheel needs."""

    run_at: int
    id: str
    partition: int
    priority: int
    version: int
    handler: str = ""  # or the way it is delivered; "" where the store does not tell

    @property
    def queue(self) -> str | None:
        """The queue it waits in when it is due; None if it is run or sent."""
        return queue_of(self.handler)


class Finish(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What became of a claimed task: how it is to be from now on, and the run to remember, if there was one."""

    lease: Lease
    task: Task  # with the attempt it was claimed with
    run: Run | None = None


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which tasks to list; what is not given does not matter."""

    status: Status | None = None
    handler: str | None = None
    id_prefix: str | None = None
    tag: str | None = None
    text: str | None = None  # somewhere in its id, its handler or one of its tags, as it is written
    due_after: int | None = None  # `run_at` is later than this
    due_before: int | None = None
    order: Order = "newest"  # of arrival; `due` lists what is pending, and alone that, the next first


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Some tasks, and where to go on; None at the end."""

    tasks: list[Task]
    cursor: str | None


class Total(msgspec.Struct, frozen=True):
    """How many tasks there are; at least, if it is not exact."""

    tasks: int
    exact: bool


class Conflict(msgspec.Struct, frozen=True, gc=False):
    """What an add came to: the task that is in the store now, and whether it is the one that was brought."""

    task: Task
    added: bool


class Store(Protocol):
    """One place that keeps tasks. All times are milliseconds since 1970."""

    partitions: int  # how many there are; fixed when the store is created

    async def close(self) -> None:
        """Let go of it; nothing acknowledged is lost."""

    async def time(self) -> int:
        """Read the store's own clock, by which leases expire."""

    # -- anyone

    async def add(self, tasks: Sequence[Task], on_conflict: OnConflict = "reject") -> list[Conflict]:
        """Add tasks; they are durable when this returns.

        If an id is there already: `reject` raises `DuplicateTask` and adds none of the batch; `keep` leaves it as it
        is; `replace` puts the new one in its place, and `debounce` gives it the new time and arguments, unless it is
        running, which raises `TaskIsRunning`. A task that has failed or was cancelled gives its id to the new one in
        any case, a completed one to `replace` and `debounce` only. The new one is then the newest, and keeps the
        attempts of the old one.
        """

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        """Return tasks by id, in that order; None for each that is not there."""

    async def query(self, wanted: Filter, cursor: str | None = None, limit: int = 100) -> Page:
        """List tasks, newest first unless told. A cursor stays good while tasks are added and change.

        Tags, texts and times are compared task by task, and for one page a store may stop after so many
        (`LOOKED_AT_MAX`): such a page is short or empty, and has a cursor.
        """

    async def count(self, wanted: Filter, most: int = COUNT_MAX) -> Total:
        """Count the tasks of a filter; of many, it may stop after looking at so many and say so."""

    async def counts(self) -> dict[Status, int]:
        """Count the tasks of each status."""

    async def history(self, task_id: str, limit: int = 100) -> list[Run]:
        """Return the runs of a task, latest first."""

    async def cancel(self, ids: Sequence[str], reason: str) -> list[Task | None]:
        """Cancel tasks and return how they are now; None for each that is not there.

        A pending or paused one is cancelled at once, a running one is asked to stop (`cancel_requested`), and
        one that is over stays as it is.
        """

    async def reschedule(self, task_id: str, run_at: int) -> Task:
        """Move a task that is pending or paused; `UnknownTask`, `TaskIsRunning` or `TaskIsOver` otherwise.

        Its occurrence moves along, unless the task waits to be tried again: then it is the same one still.
        """

    async def amend(self, tasks: Sequence[Task]) -> list[Task]:
        """Put tasks in the place of those they were made from, which have to be as they were read; all or none.

        `UnknownTask` if there is none of that id, `TaskIsRunning`, `TaskIsOver`, and `TaskHasChanged` if its version
        is another one. Its id, partition, status, attempts and age stay, and its version is one higher.
        """

    async def remove(self, ids: Sequence[str]) -> list[Task | None]:
        """Delete tasks with their runs and return how they were; one that runs stays, and is returned as it is."""

    async def pause(self, ids: Sequence[str]) -> list[Task | None]:
        """Keep pending tasks from coming due; those that are not pending stay as they are."""

    async def resume(self, ids: Sequence[str]) -> list[Task | None]:
        """Let paused tasks come due again, at once if their time has passed."""

    async def revive(self, ids: Sequence[str], run_at: int) -> list[Task | None]:
        """Make tasks that are over pending again, as if new but for their attempts and version."""

    async def purge(self, before: int) -> int:
        """Delete tasks, and runs, that were over before a moment; return how many tasks."""

    # -- nodes

    async def heartbeat(self, node: str, ttl_ms: int) -> list[str]:
        """Say that a node lives, for so long; return all that live, sorted. Those that do not are forgotten."""

    async def leave(self, node: str) -> None:
        """Say that a node lives no more; its leases stay as they are."""

    async def leases(self) -> list[Lease]:
        """List the leases that are held now, by partition: to look at, for without their nonces they are no good."""

    # -- owners

    async def acquire(self, partitions: Sequence[int], node: str, ttl_ms: int) -> list[Lease]:
        """Take the leases of partitions that nobody holds, or nobody any more; return those that were got."""

    async def renew(self, leases: Sequence[Lease], ttl_ms: int) -> list[Lease]:
        """Hold on to leases; return those that are still ours, with their new end."""

    async def release(self, leases: Sequence[Lease]) -> None:
        """Give leases back; those that are not ours any more do not matter."""

    async def due(self, leases: Sequence[Lease], until: int, after: tuple[int, str] | None, limit: int) -> list[Due]:
        """List pending tasks of owned partitions with `run_at <= until`, by run_at and id, beyond `after`."""

    async def claim(self, leases: Sequence[Lease], ids: Sequence[str], until: int) -> list[Task]:
        """Make pending tasks running, with one more attempt; left out are those that are not, or not due until then.

        Left out as well is what lies in a partition whose lease is not ours any more.
        """

    async def finish(self, finishes: Sequence[Finish]) -> list[bool]:
        """Put finished tasks back as they are to be; False for each that was not ours to change any more.

        The lease has to be ours, the task running, and its attempt the one that was claimed. A task that was asked
        to stop while it ran does not become pending again: it is cancelled.
        """

    async def orphans(self, leases: Sequence[Lease], limit: int) -> list[Task]:
        """List running tasks of owned partitions that were claimed under an earlier lease."""

    async def checkpoint(self, leases: Sequence[Lease], moment: int) -> None:
        """Note that everything due until a moment has been claimed."""

    def changes(self, partitions: Sequence[int]) -> AsyncIterator[set[int]]:
        """Tell, as long as it is read, in which partitions something was added, moved or cancelled by anyone.

        A partition that was given back is told of as well: who wants it need not wait for a lease to end. It listens
        from the call on, and ends when the store is closed. A hint may be lost or come twice; a task may not.
        """
