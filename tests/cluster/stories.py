"""What is played with processes on any server, and what has to be true afterwards."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from tests.cluster.nodes import Nodes
from tickwheel.errors import StoreError
from tickwheel.stores import open_store
from tickwheel.stores.contract import Filter
from tickwheel.tasks import Status
from tickwheel.testing.stores.scenario import task

__all__ = [
    "check",
    "hints_are_heard_again",
    "one_is_killed_and_one_suspended",
    "server_crashes",
    "stubborn_stream",
]

WALL_AHEAD_NS = time.time_ns() - time.monotonic_ns()
ACCURACY_NS = 2_000_000  # of comparing two clocks


class Server(Protocol):
    """What is stopped and started again."""

    def stop(self, how: signal.Signals) -> None: ...

    def start(self) -> None: ...


async def in_flight(nodes: Nodes, name: str) -> set[str]:
    """Return what is running in the partitions of a process that cannot go on."""
    partitions = (await nodes.held())[name]
    running = (await nodes.store.query(Filter(status=Status.RUNNING), None, 1000)).tasks
    return {each.id for each in running if each.partition in partitions}


async def check(nodes: Nodes) -> None:
    """See that nothing ran early, and that each result is that of the last attempt, whoever wrote after it."""
    runs = {(line.id, line.attempt): line for line in nodes.lines() if line.what == "begin"}
    for first in range(0, len(nodes.acknowledged), 1000):
        for done in await nodes.store.get(nodes.acknowledged[first : first + 1000]):
            assert done is not None
            assert done.status is Status.COMPLETED
            line = runs[done.id, done.attempt]
            assert done.result == line.name, "a stale write was accepted"
            assert line.ns + WALL_AHEAD_NS + ACCURACY_NS >= done.occurrence_at * 1_000_000, "early"


async def one_is_killed_and_one_suspended(nodes: Nodes) -> None:
    """Of three processes."""
    for name in "abc":
        await nodes.start(name)
    async with nodes.stream():
        await nodes.until_shares(21, 21, 22)
        await nodes.until_begun("a", "b", "c")
        await nodes.end("a", signal.SIGKILL)
        again = await in_flight(nodes, "a")
        await nodes.until_shares(32, 32)
        nodes.send("b", signal.SIGSTOP)
        again |= await in_flight(nodes, "b")
        await nodes.until_shares(64)
        await nodes.until_begun("c", each=50)
        nodes.send("b", signal.SIGCONT)
        await nodes.until_shares(32, 32)
        await nodes.until_begun("b", "c")
    await nodes.until_done()
    assert nodes.ran_twice() <= again, "only what was in flight runs again"
    await check(nodes)


@asynccontextmanager
async def stubborn_stream(nodes: Nodes) -> AsyncIterator[None]:
    """Add tasks all the time, each again and again until it is acknowledged."""
    ended = asyncio.Event()

    async def add(worker: int) -> None:
        number = 0
        while not ended.is_set():
            task_id = f"task-{worker}-{number}"
            try:
                await nodes.adder.add("work", {}, id=task_id, delay=number % 50 / 100, on_conflict="keep")
            except StoreError:
                await asyncio.sleep(0.05)
            else:
                nodes.acknowledged.append(task_id)
                number += 1
                await asyncio.sleep(0.02)

    adding = [asyncio.create_task(add(worker)) for worker in range(8)]
    try:
        yield
    finally:
        ended.set()
        await asyncio.gather(*adding)


def server_crashes(server: Server, *signals: signal.Signals) -> Callable[[Nodes], Awaitable[None]]:
    """Of two processes and a server, the server ends in some ways, and comes back each time."""

    async def story(nodes: Nodes) -> None:
        for name in "ab":
            await nodes.start(name)
        async with stubborn_stream(nodes):
            await nodes.until_shares(32, 32)
            for how in signals:
                await nodes.until_begun("a", "b", each=50)
                await asyncio.to_thread(server.stop, how)
                await asyncio.sleep(0.2)  # so that it is missed
                await asyncio.to_thread(server.start)
            await nodes.until_begun("a", "b", each=50)
        await nodes.until_done()
        nodes.ran_twice()  # which sees that nothing is lost
        await check(nodes)

    return story


async def hints_are_heard_again(url: str, server: Server) -> None:
    """What one store adds is heard by another, also after the server went away."""
    listener, adder = await open_store(url), await open_store(url)
    heard = listener.changes(range(64))

    async def told(partition: int) -> bool:
        async with asyncio.timeout(20):
            async for partitions in heard:
                if partitions == {partition}:  # and not everywhere
                    return True
        return False

    assert len(await anext(heard)) == 64  # it has begun to listen, and may have missed something
    await adder.add([task("a", partition=7)])
    assert await told(7)
    await asyncio.to_thread(server.stop, signal.SIGINT)
    await asyncio.to_thread(server.start)
    assert len(await anext(heard)) == 64
    await adder.add([task("b", partition=9)])
    assert await told(9)
    await listener.close()
    await adder.close()
