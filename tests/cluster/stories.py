"""What is played with processes on any server, and what has to be true afterwards."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Protocol

from tests.cluster.checker import EVERYBODY, Fault
from tests.cluster.nodes import Nodes, now_ns
from tests.cluster.stream import Stream
from tickwheel.stores import Store, open_store
from tickwheel.stores.contract import Change
from tickwheel.testing.stores.scenario import task

__all__ = [
    "hints_are_heard_again",
    "one_is_killed_and_one_suspended",
    "server_crashes",
    "something_happens",
    "told",
    "what_changes_right_before_the_end_is_told",
]

Blow = Callable[[], Awaitable[None]]


class Server(Protocol):
    """What is stopped and started again."""

    def stop(self, how: signal.Signals) -> None: ...

    def start(self) -> None: ...


async def one_is_killed_and_one_suspended(nodes: Nodes) -> None:
    """Of three processes."""
    await asyncio.gather(*map(nodes.start, "abc"))
    stream = Stream(nodes, Random(1))
    async with stream.flowing():
        await nodes.until_shares(21, 21, 22)
        await nodes.until_begun("a", "b", "c")
        await nodes.end("a", signal.SIGKILL)
        killed = Fault("kill", "a", now_ns(), now_ns())
        await nodes.until_shares(32, 32)
        nodes.send("b", signal.SIGSTOP)
        suspended_ns = now_ns()
        await nodes.until_shares(64)
        await nodes.until_begun("c", each=50)
        nodes.send("b", signal.SIGCONT)
        await nodes.until_shares(32, 32)
        suspended = Fault("suspend", "b", suspended_ns, now_ns())
        await nodes.until_begun("b", "c")
    verdict = await stream.judged([killed, suspended])
    assert verdict.good, str(verdict)


def something_happens(*blows: Blow) -> Callable[[Nodes], Awaitable[None]]:
    """To the server that two processes work on, one thing after the other; each is over when everything is back."""

    async def story(nodes: Nodes) -> None:
        await asyncio.gather(*map(nodes.start, "ab"))
        stream, faults = Stream(nodes, Random(2)), []
        async with stream.flowing():
            await nodes.until_shares(32, 32)
            for blow in blows:
                await nodes.until_begun("a", "b", each=50)
                begun_ns = now_ns()
                await blow()
                faults.append(Fault("stop", EVERYBODY, begun_ns, now_ns()))
            await nodes.until_begun("a", "b", each=50)
        verdict = await stream.judged(faults)
        assert verdict.good, str(verdict)

    return story


def server_crashes(server: Server, *signals: signal.Signals) -> Callable[[Nodes], Awaitable[None]]:
    """The server ends in some ways, and comes back each time."""

    def ends(how: signal.Signals) -> Blow:
        async def blow() -> None:
            await asyncio.to_thread(server.stop, how)
            await asyncio.sleep(0.2)  # so that it is missed
            await asyncio.to_thread(server.start)

        return blow

    return something_happens(*map(ends, signals))


async def told(heard: AsyncIterator[dict[int, Change]], partition: int) -> bool:
    """Wait to be told of a partition, and not of all of them."""
    async with asyncio.timeout(60):
        async for partitions in heard:
            if partitions.keys() == {partition}:
                return True
    return False


async def hints_are_heard_again(url: str, server: Server) -> None:
    """What one store adds is heard by another, also after the server went away."""
    listener, adder = await open_store(url), await open_store(url)
    heard = listener.changes(range(64))

    assert len(await anext(heard)) == 64  # it has begun to listen, and may have missed something
    await adder.add([task("a", partition=7)])
    assert await told(heard, 7)
    await asyncio.to_thread(server.stop, signal.SIGINT)
    await asyncio.to_thread(server.start)
    assert len(await anext(heard)) == 64
    await adder.add([task("b", partition=9)])
    assert await told(heard, 9)
    await listener.close()
    await adder.close()


async def what_changes_right_before_the_end_is_told(url: str, *, served: bool = True) -> None:
    """What a store changes, and is closed at once, is heard by another."""
    listener, owner = await open_store(url), await open_store(url)
    await owner.add([task(f"{number}", partition=number, run_at=10**13) for number in range(5)])
    [lease] = await owner.acquire([6], "node", 60_000)
    await listener.heartbeat("listener", 60_000)  # an SQLite file tells its nodes only
    heard = listener.changes(range(64))
    if served:
        assert len(await anext(heard)) == 64  # it listens, and may have missed something

    async def change(work: Callable[[Store], Awaitable[object]], partitions: set[int]) -> None:
        store = await open_store(url)
        await work(store)
        await store.close()
        async with asyncio.timeout(60):
            left = set(partitions)
            while left:
                told_of = set(await anext(heard))
                assert len(told_of) < 64  # not of all of them, in case something was missed
                left -= told_of

    await change(lambda store: store.cancel(["0"], ""), {0})
    await change(lambda store: store.remove(["1"]), {1})
    await change(lambda store: store.reschedule("2", 0), {2})
    await change(lambda store: store.pause(["3"]), {3})
    await change(lambda store: store.add([task("4", partition=4)], "replace"), {4})
    await change(lambda store: store.add([task("5", partition=5), task("7", partition=7)]), {5, 7})
    await change(lambda store: store.release([lease]), {6})
    await owner.close()
    await listener.close()
