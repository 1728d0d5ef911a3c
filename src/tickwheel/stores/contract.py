"""What every store promises: the truth about tasks, and who may change it.

Tasks are divided into partitions; who holds the lease of one is its owner, and the only one to run its tasks.
A lease has an epoch, which grows with every change of owner, and a nonce of its own. Every write of an owner is
checked against both, in the same transaction that makes it: an owner that was paused beyond its lease can change
nothing any more. Anyone else may add, cancel, reschedule, pause and resume.

    anyone      add      get      query      count      cancel      reschedule     pause      resume     revive
                                             counts     amend       remove         run_now
    node        heartbeat         leave      leases
    owner       acquire  renew    release    due        claim       finish         orphans    checkpoint
    besides, where a store can (`hasattr`): overdue; nodes and move, with heartbeats that publish handlers;
    clock_steps and keep_clock_steps

Everything takes batches. A batch is applied whole or not at all, but for its items that no longer fit, which are
left out and said so.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol

import msgspec

from tickwheel.tasks.destinations import parse_queue
from tickwheel.tasks.policies import OnConflict
from tickwheel.tasks.record import Run, Status, Task

__all__ = [
    "ANYTHING",
    "COUNT_MAX",
    "LOOKED_AT_MAX",
    "MEMBERS",
    "NOTHING",
    "PAGE_MAX",
    "Change",
    "ClockStep",
    "Conflict",
    "Due",
    "Filter",
    "Finish",
    "KeepsClockSteps",
    "Lease",
    "Node",
    "OnConflict",
    "Order",
    "Page",
    "Rank",
    "RanksOverdue",
    "Rest",
    "RoutesTasks",
    "Store",
    "Total",
    "due_entry",
]

Order = Literal["newest", "oldest", "due"]
Rest = Callable[[], Awaitable[None]]  # a pause between two steps of something long

PAGE_MAX = 1000  # tasks in an answer
LOOKED_AT_MAX = 5_000  # tasks that are read for a page when a tag or a text is looked for: some 20 ms
COUNT_MAX = 10_000  # tasks that are counted one by one, by default
MEMBERS = -1  # among the partitions that `changes` tells of: nodes came or went, or partitions are free
HINTS_MAX = 10_000  # partitions with news that nobody asked for yet


class Lease(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The right to run the tasks of a partition, for a while or until the node dies."""

    partition: int
    node: str
    epoch: int
    nonce: str
    expires_at: int | None  # by the store's clock; None: it is held until it is released or its node dies
    checkpoint: int = 0  # until when the partition's tasks are known to have been run, or kept waiting by a node


class Due(msgspec.Struct, frozen=True, gc=False):
    """A pending task as the loader sees it: as little as a wheel needs."""

    run_at: int
    id: str
    partition: int
    priority: int
    version: int
    handler: str = ""  # or the way it is delivered; "" where the store does not tell
    at_most_once: bool = False  # if it may be; False where the store does not tell

    @property
    def rank(self) -> "Rank":
        """Its place among what is due."""
        return self.priority, self.run_at, self.id

    @property
    def queue(self) -> str | None:
        """The queue it waits in when it is due; None if it is run or sent."""
        return parse_queue(self.handler)


Rank = tuple[int, int, str]  # priority, run_at, id: the higher priority first, then the earlier


def due_entry(task: Task) -> Due:
    """Return a pending task as the loader sees it."""
    return Due(task.run_at, task.id, task.partition, task.priority, task.version, task.handler, task.at_most_once)


class Change(NamedTuple):
    """What changed in a partition: when the tasks are due that became pending, and whether one was changed that runs.

    Who has loaded less than `first` need not read anything, and others only what is due from `first` to `last`.
    """

    first: int
    last: int  # less than `first` if no task became pending
    runs: bool

    def join(self, other: "Change") -> "Change":
        """Return what both tell."""
        return Change(min(self.first, other.first), max(self.last, other.last), self.runs or other.runs)


ANYTHING: Final = Change(0, 2**53 - 1, runs=True)  # where a store does not know what
NOTHING: Final = Change(2**53 - 1, -1, runs=False)  # that an owner has to read


class Finish(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What became of a claimed task: how it is to be from now on, and the run to remember, if there was one."""

    lease: Lease
    task: Task  # with the attempt it was claimed with
    run: Run | None = None
    skipped: Sequence[Run] = ()  # history rows of occurrences that are passed over besides, where the store keeps them

    @property
    def given_back(self) -> bool:
        """Whether nothing came of the claim: the task did not run, and waits again."""
        return self.run is None and self.task.status is Status.PENDING


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


class RanksOverdue(Protocol):
    """What a store can do besides: list what is due by priority, without some handlers. Asked for by `hasattr`."""

    async def overdue(
        self, leases: Sequence[Lease], until: int, after: Rank | None, limit: int, without: Collection[str] = ()
    ) -> list[Due]:
        """List pending tasks of owned partitions with `run_at <= until`, by rank, beyond one, but for some handlers."""


class Node(msgspec.Struct, frozen=True, gc=False):
    """A node that is online, as it published itself."""

    name: str
    handlers: frozenset[str] | None = None  # None: it published none, and may have any
    version: str = ""  # of tickwheel


class RoutesTasks(Protocol):
    """What a store can do besides: tell which node has which handlers, and move tasks there. Asked for by `hasattr`.

    A task's partition is the hash of its id until it is moved; from then on it is what is stored.
    """

    async def heartbeat(
        self, node: str, ttl_ms: int, handlers: Collection[str] | None = None, version: str = ""
    ) -> list[str]:
        """Say that a node is online, and which handlers it has; without them, what it published before stays.

        What is published already is not written again. Where leases are not timed, `changes` tells of `MEMBERS` when
        it is another set of handlers.
        """

    async def nodes(self) -> list[Node]:
        """List the nodes that are online and take partitions, by name."""

    async def move(self, leases: Sequence[Lease], ids: Sequence[str], partition: int) -> list[str]:
        """Move pending tasks of owned partitions to another partition; return the ids of those that were moved.

        Left out are tasks that are not pending, that cannot be read, that are there already, and that lie in a
        partition whose lease is not ours any more. A move is no attempt: all that changes is the partition and the
        version. `changes` tells of the partition they are moved to.
        """


class ClockStep(NamedTuple):
    """How far the wall clock was set forward, or may have been while nobody ran tasks."""

    at: int  # when, by the wall clock as it was when this was kept
    step_ms: int


class KeepsClockSteps(Protocol):
    """What a store can do besides: remember how the wall clock was set, for nodes that start. Asked for by `hasattr`.

    What was over before a step is purged by a clock without it. Without this, only a node that ran then knows of it.
    """

    async def clock_steps(self) -> list[ClockStep]:
        """Return the steps that were kept last, the earliest first; none if there were none."""

    async def keep_clock_steps(self, steps: Sequence[ClockStep]) -> None:
        """Keep some steps instead of those that were kept before, whoever kept them."""


class Store(Protocol):
    """One place that keeps tasks. All times are milliseconds since 1970."""

    keeps_skipped: bool  # whether `Finish.skipped` is kept in the history
    local_clock: bool  # whether its clock is the machine's: when that is set, the store's is

    partitions: int  # how many there are; fixed when the store is created

    @property
    def timed_leases(self) -> bool:
        """Whether leases and nodes expire by time; to be asked after the first heartbeat.

        Otherwise they hold until they are given back or the process of the node ends, however long it is suspended;
        then `changes` tells of `MEMBERS`.
        """

    @property
    def finish_by_epoch(self) -> bool:
        """Whether `finish` is rejected only once another node has a newer epoch; otherwise also by an expired lease."""

    async def close(self) -> None:
        """Let go of it; nothing acknowledged is lost.

        What `changes` of others has not been told of yet is told first, if that takes no longer than some seconds.
        """

    async def time(self) -> int:
        """Read the store's own clock, by which leases expire."""

    async def changed_at(self) -> int:
        """Return what the store's clock showed when tasks were added or changed, at the latest; 0 if that is not known.

        If that is later than now, the clock was set back since. Where `local_clock`, a checkpoint by a clock that was
        set back begins it anew; the checkpoints of all other partitions become what it was.
        """

    # -- anyone

    async def add(self, tasks: Sequence[Task], on_conflict: OnConflict = "reject") -> list[Conflict]:
        """Add tasks; they are durable when this returns.

        If an id is there already: `reject` raises `DuplicateTask` and adds none of the batch; `keep` leaves it as it
        is; `replace` puts the new one in its place, and `debounce` gives it the new time and arguments. While it runs,
        `debounce` and, for a series, `replace` take effect afterwards, and `replace` of a one-off raises `TaskRunning`.
        A recurring task cannot be debounced, nor can one be given to another handler: `InvalidTask`. A task that has
        failed or was cancelled gives its id to the new one in any case, a completed one to `replace` and `debounce`
        only. The new one is then the newest, and keeps the attempts of the old one.
        """

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        """Return tasks by id, in that order; None for each that is not there."""

    async def query(self, wanted: Filter, cursor: str | None = None, limit: int = 100) -> Page:
        """List tasks, newest first by default. A cursor stays good while tasks are added and change.

        Tags, texts and times are compared task by task, and for one page a store may stop after so many
        (`LOOKED_AT_MAX`): such a page is short or empty, and has a cursor.
        """

    async def count(self, wanted: Filter, most: int = COUNT_MAX) -> Total:
        """Count the tasks of a filter; of many, it may stop after looking at so many and say so."""

    async def counts(self) -> dict[Status, int]:
        """Count the tasks of each status."""

    async def history(self, task_id: str, limit: int = 100) -> list[Run]:
        """Return the runs of a task, latest first."""

    # What becomes of a task is decided by `tickwheel.tasks.transitions`; of several tasks, those that a verb cannot be
    # done to stay as they are.

    async def cancel(self, ids: Sequence[str], reason: str, *, run_only: bool = False) -> list[Task | None]:
        """Cancel tasks and return how they are now; None for each that is not there.

        A pending one is cancelled at once, a running one is asked to stop (`cancel_requested`), and one that is over
        stays as it is. With `run_only`, only runs are stopped, and their series go on.
        """

    async def reschedule(self, task_id: str, run_at: int) -> Task:
        """Move a task that is pending; `UnknownTask`, `TaskRunning` or `TaskFinished` otherwise.

        Its occurrence moves along, unless the task waits to be tried again: then it is the same one still. The grid of
        a series stays where it is.
        """

    async def amend(self, tasks: Sequence[Task]) -> list[Task]:
        """Put tasks in the place of those they were made from, which have to be as they were read; all or none.

        `UnknownTask` if there is none of that id, `TaskRunning`, `TaskFinished`, and `VersionMismatch` if its version
        is another one. Its id, partition, status, attempts and age stay, and its version is one higher. A recurring
        task that runs is changed when its run is over.
        """

    async def remove(self, ids: Sequence[str]) -> list[Task | None]:
        """Delete tasks with their runs and return how they were; one that runs stays, and is returned as it is."""

    async def pause(self, ids: Sequence[str]) -> list[Task | None]:
        """Set the flag `paused`: a pending task does not begin, a running one not again."""

    async def resume(self, ids: Sequence[str], *, run_missed: bool = False) -> list[Task | None]:
        """Clear the flag: a one-off is due at once if its time has passed, a series goes on with its next occurrence.

        With `run_missed`, the missed-run policy of a series applies to the time it was paused.
        """

    async def run_now(self, ids: Sequence[str]) -> list[Task | None]:
        """Let pending tasks run now, by the store's clock; a series makes one run more, and a paused task stays so."""

    async def revive(self, ids: Sequence[str], run_at: int) -> list[Task | None]:
        """Make tasks that are over pending again."""

    async def purge(self, before: int, rest: Rest | None = None) -> int:
        """Delete tasks, and runs, that were over before a moment; return how many tasks.

        That is done in small steps, so that others can write in between; `rest` is awaited between two of them.
        """

    # -- nodes

    async def heartbeat(self, node: str, ttl_ms: int) -> list[str]:
        """Say that a node lives, for so long; return all that live, sorted. Those that do not are forgotten.

        Where leases are not timed, it lives until it leaves or its process ends, and this writes nothing once it is
        known.
        """

    async def leave(self, node: str) -> None:
        """Say that a node lives no more; its leases stay as they are."""

    async def leases(self) -> list[Lease]:
        """List the leases that are held now, by partition: to look at, for without their nonces they are no good."""

    # -- owners

    async def acquire(self, partitions: Sequence[int], node: str, ttl_ms: int) -> list[Lease]:
        """Take the leases of partitions that nobody holds, or nobody any more; return those that were got.

        Where leases are not timed, they have no end.
        """

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

        The lease has to be ours, the task running, and its attempt the one that was claimed. With `finish_by_epoch` a
        lease is ours until another node has a newer one, expired or not, and so is one that we had before our own.
        What others changed meanwhile is merged: a task that was asked to stop does not become pending again, a paused
        one is paused, and a change that waits for the end of the run takes effect.
        """

    async def orphans(self, leases: Sequence[Lease], limit: int) -> list[Task]:
        """List running tasks of owned partitions that were claimed under an earlier lease."""

    async def checkpoint(self, leases: Sequence[Lease], moment: int) -> None:
        """Note that tasks were run until a moment, or kept waiting by the node."""

    def changes(self, partitions: Sequence[int]) -> AsyncIterator[dict[int, Change]]:
        """Tell, as long as it is read, in which partitions something was added, moved or cancelled by anyone.

        A partition that was given back is told of as well: who wants it need not wait for a lease to end. Who watches
        `MEMBERS` as well is told where leases are not timed that nodes came or went. It listens
        from the call on, and ends when the store is closed. A hint may be lost or come twice; a task may not.
        """

    def running_changes(self) -> Mapping[int, int]:
        """Count, by partition, the changes of running tasks by others that are known here, also those not told of yet.

        An owner that sees another number than before a claim looks whether the task was asked to stop, and only then
        begins it. Nothing is counted where a store does not know what kind of change it hears of.
        """
