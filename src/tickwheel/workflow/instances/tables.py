"""What is asked and said in one statement, the same in every store: its name in the SQL, and what comes back."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tickwheel.workflow.contract import WorkItem
from tickwheel.workflow.instances.contract import Definition, Instance, Notice
from tickwheel.workflow.instances.rows import definition_of, instance_of, item_of, notice_of, row_of

__all__ = ["Tables"]

R = TypeVar("R")
Row = Sequence[Any]


class Tables(ABC):
    """Most of a store; it brings how a statement is done, and the transactions of several."""

    @abstractmethod
    async def _all(self, name: str, values: Sequence[Any], read: Callable[[Row], R]) -> list[R]:
        """Ask, and read the rows of the answer."""

    @abstractmethod
    async def _say(self, name: str, *values: Any) -> None:
        """Change something; it is durable when this returns."""

    async def _one(self, name: str, values: Sequence[Any], read: Callable[[Row], R]) -> R | None:
        found = await self._all(name, values, read)
        return found[0] if found else None

    # -- definitions

    async def deploy(self, definition: Definition, now: int) -> None:
        """Keep a definition, and start its process with it from now on."""
        await self._say("deploy", *row_of(definition), now)

    async def definition(self, key: str) -> Definition | None:
        """Return a definition by its hash."""
        return await self._one("definition", [key], definition_of)

    async def latest(self, process: str) -> Definition | None:
        """Return what a process is started with."""
        return await self._one("latest", [process], definition_of)

    async def processes(self) -> list[str]:
        """List the processes that were deployed."""
        return await self._all("processes", [], lambda row: str(row[0]))

    # -- instances

    async def get(self, instance_id: str) -> Instance | None:
        """Return an instance."""
        return await self._one("get", [instance_id], instance_of)

    async def report(self, instance_id: str, incident: str, now: int) -> None:
        """Note why an instance cannot go on."""
        await self._say("report", instance_id, incident, now)

    async def unhanded(self, limit: int) -> list[Instance]:
        """List instances whose wishes may not have reached tickwheel."""
        return await self._all("unhanded", [limit], instance_of)

    async def hand(self, instance_id: str, revision: int) -> None:
        """Note that the wishes of a revision have reached tickwheel."""
        await self._say("hand", instance_id, revision)

    async def waiting(self, after: str, limit: int) -> list[Instance]:
        """List running instances by id, beyond one."""
        return await self._all("waiting", [after, limit], instance_of)

    # -- work items

    async def find_item(self, item_id: str) -> WorkItem | None:
        """Return a work item."""
        return await self._one("find_item", [item_id], item_of)

    async def items(self, instance: str | None, node: str | None, state: str | None, limit: int) -> list[WorkItem]:
        """List work items, oldest first."""
        if instance is not None:
            return await self._all("items_of_instance", [instance, node, state, limit], item_of)
        if node is not None:
            return await self._all("items_at_node", [node, state, limit], item_of)
        return await self._all("items", [state, limit], item_of)

    async def notices(self, item_id: str) -> list[Notice]:
        """List what people were told about an item."""
        return await self._all("notices", [item_id], notice_of)
