"""What a store of process instances promises: that everything that happens to an instance happens in one transaction.

    change:  lock the instance -> load it -> let it go on -> save it, its timers and its work items -> commit

What goes on inside is a plain function of what was loaded. Nobody else can change the instance meanwhile, and whoever
dies in the middle has changed nothing. What the instance wants of tickwheel is saved with it: its timers, and `handed`,
the revision whose wishes are known to have reached tickwheel. If that is not the present one, they may have not.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec

from tickwheel.workflow.contract import WorkItem

__all__ = ["Change", "Definition", "Instance", "InstanceStatus", "InstanceStore", "Loaded", "Notice"]

T = TypeVar("T")

InstanceStatus = Literal["running", "completed", "cancelled"]


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """A process as it was deployed: the texts it was read from, known by their hash."""

    hash: str
    process: str
    files: dict[str, str]  # BPMN by name


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """One instance of a process, as a store keeps it. Times are milliseconds since 1970."""

    id: str
    process: str
    definition: str  # the hash of what it was started with, and goes on with
    revision: int = 0  # counts changes
    handed: int = 0
    status: InstanceStatus = "running"
    timers: dict[str, int] = {}  # what it waits for: the engine's id, and when it is due
    data: dict[str, Any] = {}  # its variables, when it is over
    body: str = ""  # all the rest, as the engine writes it
    incident: str | None = None  # why it cannot go on
    created_at: int = 0
    changed_at: int = 0
    finished_at: int | None = None


class Loaded(msgspec.Struct, frozen=True):
    """An instance and its work items that are pending."""

    instance: Instance
    items: list[WorkItem]


class Change(msgspec.Struct, Generic[T], frozen=True):
    """What became of an instance: how it is to be saved, if it changed; and what to tell whoever asked."""

    answer: T
    instance: Instance | None = None
    items: list[WorkItem] = []  # new ones, and those that are over now


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Something that somebody was told about a work item, once for each key."""

    key: str
    item: str
    kind: Literal["escalate", "notify"]
    target: str | None
    reason: str
    told_at: int


class InstanceStore(Protocol):
    """One place that keeps instances."""

    async def close(self) -> None:
        """Let go of it."""

    async def deploy(self, definition: Definition, now: int) -> None:
        """Keep a definition, and start its process with it from now on."""

    async def definition(self, key: str) -> Definition | None:
        """Return a definition by its hash."""

    async def latest(self, process: str) -> Definition | None:
        """Return what a process is started with; None if it was never deployed."""

    async def processes(self) -> list[str]:
        """List the processes that were deployed."""

    async def change(self, instance_id: str, work: Callable[[Loaded | None], Change[T]]) -> T:
        """Change an instance in one transaction; the function gets None if there is none, and may be on any thread."""

    async def get(self, instance_id: str) -> Instance | None:
        """Return an instance."""

    async def find_item(self, item_id: str) -> WorkItem | None:
        """Return a work item."""

    async def items(self, instance: str | None, node: str | None, state: str | None, limit: int) -> list[WorkItem]:
        """List work items, oldest first."""

    async def tell(self, notice: Notice) -> Notice | None:
        """Note that somebody was told, and who has the item now; None if that was noted before, or it is over.

        A notice to nobody goes to whoever has the item.
        """

    async def notices(self, item_id: str) -> list[Notice]:
        """List what people were told about an item."""

    async def report(self, instance_id: str, incident: str, now: int) -> None:
        """Note why an instance cannot go on; it stays as it is."""

    async def unhanded(self, limit: int) -> list[Instance]:
        """List instances whose wishes may not have reached tickwheel."""

    async def hand(self, instance_id: str, revision: int) -> None:
        """Note that the wishes of a revision have reached tickwheel."""

    async def waiting(self, after: str, limit: int) -> Sequence[Instance]:
        """List running instances with timers or work items by id, beyond one."""

    async def purge(self, before: int, limit: int) -> int:
        """Delete instances that were over before a moment, with all that is theirs; return how many."""
