"""Processes on one PostgreSQL database: one is killed, one suspended, the server itself goes away and comes back."""

import asyncio
import signal
from pathlib import Path
from random import Random

from tests.cluster.checker import EVERYBODY, Fault
from tests.cluster.nodes import Nodes, now_ns, play
from tests.cluster.stream import Stream
from tests.postgres import Database
from tickwheel.stores import open_store
from tickwheel.testing.postgres import PostgresServer
from tickwheel.testing.stores.scenario import task


def test_one_of_three_is_killed_and_one_suspended(database: Database, tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        for name in "abc":
            await nodes.start(name)
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

    play(tmp_path, database.url(), story)


def test_the_server_crashes_and_comes_back(database: Database, postgres: PostgresServer, tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        for name in "ab":
            await nodes.start(name)
        stream, faults = Stream(nodes, Random(2)), []
        async with stream.flowing():
            await nodes.until_shares(32, 32)
            for how in (signal.SIGQUIT, signal.SIGINT):
                await nodes.until_begun("a", "b", each=50)
                begun_ns = now_ns()
                await asyncio.to_thread(postgres.stop, how)
                await asyncio.sleep(0.2)  # so that it is missed
                await asyncio.to_thread(postgres.start)
                faults.append(Fault("stop", EVERYBODY, begun_ns, now_ns()))
            await nodes.until_begun("a", "b", each=50)
        verdict = await stream.judged(faults)
        assert verdict.good, str(verdict)

    play(tmp_path, database.url(), story)


def test_hints_are_heard_again_when_the_server_is_back(database: Database, postgres: PostgresServer) -> None:

    async def main() -> None:
        listener, adder = await open_store(database.url()), await open_store(database.url())
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
        await asyncio.to_thread(postgres.stop)
        await asyncio.to_thread(postgres.start)
        assert len(await anext(heard)) == 64
        await adder.add([task("b", partition=9)])
        assert await told(9)
        await listener.close()
        await adder.close()

    asyncio.run(main())
