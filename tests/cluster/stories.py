"""Stories of processes on one store that every server of them has to stand."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.cluster.nodes import Nodes
from tickwheel.errors import StoreError
from tickwheel.stores.contract import Filter
from tickwheel.tasks import Status

__all__ = ["check", "one_is_killed_and_one_suspended", "stubborn_stream"]

WALL_AHEAD_NS = time.time_ns() - time.monotonic_ns()
ACCURACY_NS = 2_000_000  # of comparing two clocks


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
    """Let three share the work; one dies, and one is away for longer than its leases last."""
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
