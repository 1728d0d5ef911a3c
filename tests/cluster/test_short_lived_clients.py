"""Clients that end right after a call, on every store: what they did is known at once to those who run the tasks.

The nodes here never rescan, or hear nothing at all: then it is the rescan that finds it.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

import pytest

from tests.cluster.nodes import FORKING, until
from tests.cluster.places import Place
from tests.cluster.stories import what_changes_right_before_the_end_is_told
from tests.proxy import Proxy
from tickwheel.scheduler import AsyncScheduler, Scheduler
from tickwheel.stores import Store, open_store
from tickwheel.stores.contract import Change
from tickwheel.tasks import Status
from tickwheel.testing.stores.scenario import task

NEVER_MS: Final = 3_600_000
SOON_S: Final = 20.0  # for what takes some milliseconds
VERBS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "add": lambda scheduler, task_id: scheduler.add("note", id=task_id),
    "run_now": lambda scheduler, task_id: scheduler.run_now(task_id),
    "reschedule": lambda scheduler, task_id: scheduler.reschedule(task_id, delay=0),
    "resume": lambda scheduler, task_id: scheduler.resume(task_id),
    "cancel": lambda scheduler, task_id: scheduler.cancel(task_id),
}


class DeafStore:
    """Any store, of which no notification arrives."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def changes(self, _partitions: Sequence[int]) -> AsyncIterator[dict[int, Change]]:
        return silence()

    def running_changes(self) -> Mapping[int, int]:
        return {}


async def silence() -> AsyncIterator[dict[int, Change]]:
    await asyncio.Event().wait()
    yield {}


class Node:
    """A scheduler that runs tasks here, and what it ran."""

    def __init__(self, store: str | Store, rescan_ms: int) -> None:
        self.scheduler = AsyncScheduler(store, rescan_ms=rescan_ms, grace_s=0)
        self.begun: set[str] = set()
        self.ended: set[str] = set()
        self.scheduler.task("note")(self._note)
        self.scheduler.task("wait")(self._wait)

    async def _note(self, context: Any) -> None:
        self.ended.add(context.id)

    async def _wait(self, context: Any) -> None:
        self.begun.add(context.id)
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.add(context.id)


def act_and_exit(url: str, verb: str, task_id: str) -> None:
    """End without closing anything, as a process does that is killed."""

    async def main() -> None:
        scheduler = await AsyncScheduler(url, run=False).start()
        await VERBS[verb](scheduler, task_id)
        os._exit(0)

    asyncio.run(main())


def act_and_close(url: str, verb: str, task_id: str) -> None:
    async def main() -> None:
        async with AsyncScheduler(url, run=False) as scheduler:
            await VERBS[verb](scheduler, task_id)

    asyncio.run(main())


def act_and_block(url: str, verb: str, task_id: str) -> None:
    with Scheduler(url, run=False) as scheduler:
        VERBS[verb](scheduler, task_id)


@pytest.mark.parametrize("act", [act_and_close, act_and_block, act_and_exit])
def test_what_a_client_did_last_is_known_at_once(place: Place, act: Callable[[str, str, str], None]) -> None:
    async def main() -> None:
        node = Node(place.url, NEVER_MS)
        async with node.scheduler, AsyncScheduler(place.url, run=False) as before:
            await before.add("wait", id="cancel")
            await before.add("note", id="run_now", delay=3600)
            await before.add("note", id="reschedule", delay=3600)
            await before.add("note", id="resume", delay=0.5)
            await before.pause("resume")
            await until_in("cancel", node.begun)
            await asyncio.sleep(0.5)  # until what is to be resumed is overdue
            for verb in VERBS:
                client = FORKING.Process(target=act, args=(place.url, verb, verb))
                client.start()
                await asyncio.to_thread(client.join, SOON_S)
                assert client.exitcode == 0
                await until_in(verb, node.ended)

    asyncio.run(main())


def test_a_store_tells_what_changed_before_it_is_closed(place: Place) -> None:
    asyncio.run(what_changes_right_before_the_end_is_told(place.url, served=place.address is not None))


def test_a_store_is_closed_though_its_server_fell_silent(served_place: Place) -> None:
    async def main() -> None:
        assert served_place.address is not None
        async with Proxy.to(served_place.address) as proxy:
            store = await open_store(served_place.via(proxy.port))
            assert len(await anext(store.changes(range(64)))) == 64
            await store.add([task("a")])
            proxy.fall_silent()
            async with asyncio.timeout(SOON_S):
                await store.close()

    asyncio.run(main())


def test_a_rescan_finds_what_nobody_was_told_of(place: Place) -> None:
    async def main() -> None:
        store, client = await open_store(place.url), await open_store(place.url)
        node = Node(DeafStore(store), rescan_ms=500)
        async with node.scheduler, AsyncScheduler(client, run=False) as adder:
            await adder.add("wait", id="cancel")
            await adder.add("note", id="reschedule", delay=3600)
            await until_in("cancel", node.begun)
            await adder.cancel("cancel")
            await adder.reschedule("reschedule", delay=0)
            await until_in("cancel", node.ended)
            await until_in("reschedule", node.ended)

            async def is_cancelled() -> bool:
                return (await adder.get("cancel")).status is Status.CANCELLED

            await until(is_cancelled, SOON_S)
        await client.close()
        await store.close()

    asyncio.run(main())


async def until_in(task_id: str, ids: set[str]) -> None:
    async def is_in() -> bool:
        return task_id in ids

    await until(is_in, SOON_S)
