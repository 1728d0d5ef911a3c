"""What tickwheel needs from a workflow engine, and no more: any engine that can do this has timeouts that last.

    find        a work item: where it is in its process, and whether somebody still has to do it
    complete    it, as someone, for a reason, with variables
    escalate    it to someone else
    notify      someone about it
    start       a process
    purge       what was over long ago

Everything may be asked for twice: a process dies after it has acted and before it wrote that down, and whoever comes
next acts again. `complete` is about the item's own state, `start` about the instance's id; `escalate` and `notify` are
told a key, the same in every attempt at the same thing, and an engine that has seen it does nothing. What an engine
keeps that key with decides what "once" is worth: in one transaction with the effect, it is once.
"""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

import msgspec

__all__ = ["WorkItem", "WorkState", "WorkflowEngine"]

WorkState = Literal["pending", "completed", "cancelled"]


class WorkItem(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a person has to do, at a node of a process."""

    id: str
    node: str  # what it is called in the process: rules go by it
    state: WorkState = "pending"
    process: str = ""
    instance: str = ""
    assignee: str | None = None  # who has it now
    created_at: int | None = None  # milliseconds since 1970; timeouts count from here, if it is known
    ended_at: int | None = None
    ended_by: str | None = None
    reason: str | None = None  # why it was completed or cancelled, in words


class WorkflowEngine(Protocol):
    """An engine as a `TimeoutMonitor` sees it."""

    async def find(self, item_id: str) -> WorkItem | None:
        """Return a work item; None if there is none, or none any more."""

    async def complete(
        self, item_id: str, *, by: str, reason: str | None = None, variables: Mapping[str, Any] | None = None
    ) -> bool:
        """Complete a work item; False, and nothing done, if it was not pending any more."""

    async def escalate(self, item_id: str, target: str, *, reason: str, key: str) -> bool:
        """Give a pending item to someone else, once for each key; False if nothing was done."""

    async def notify(self, item_id: str, target: str | None, *, reason: str, key: str) -> bool:
        """Tell someone about a pending item, or whoever has it, once for each key; False if nothing was done."""

    async def start(self, process: str, variables: Mapping[str, Any] | None = None, *, id: str) -> str:  # noqa: A002
        """Start a process and return the instance's id; one that is there already is not started again."""

    async def purge(self, before: int, limit: int) -> int:
        """Delete at most so many instances that were over before a moment, and return how many."""
