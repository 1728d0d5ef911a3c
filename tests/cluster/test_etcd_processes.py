"""Processes on one etcd cluster: one is killed, one suspended; its leader dies, and then all of its members."""

import asyncio
import signal
from pathlib import Path

from tests.cluster.nodes import Nodes, play
from tests.cluster.stories import check, one_is_killed_and_one_suspended, stubborn_stream
from tests.etcd import Prefix
from tickwheel.stores import open_store
from tickwheel.testing.etcd import EtcdCluster
from tickwheel.testing.stores.scenario import task


def test_one_of_three_is_killed_and_one_suspended(prefix: Prefix, tmp_path: Path) -> None:
    play(tmp_path, prefix.url(), one_is_killed_and_one_suspended)


def test_the_leader_is_killed(prefix: Prefix, etcd: EtcdCluster, tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        for name in "ab":
            await nodes.start(name)
        async with stubborn_stream(nodes):
            await nodes.until_shares(32, 32)
            await nodes.until_begun("a", "b", each=50)
            leader = await asyncio.to_thread(etcd.leader)
            await asyncio.to_thread(etcd.stop, leader, signal.SIGKILL)
            await nodes.until_begun("a", "b", each=50)  # without it
            await asyncio.to_thread(etcd.start, leader)
            await nodes.until_begun("a", "b", each=50)
        await nodes.until_done()
        nodes.ran_twice()  # which sees that nothing is lost
        await check(nodes)

    play(tmp_path, prefix.url(), story)


def test_all_members_crash_and_come_back(prefix: Prefix, etcd: EtcdCluster, tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        for name in "ab":
            await nodes.start(name)
        async with stubborn_stream(nodes):
            await nodes.until_shares(32, 32)
            await nodes.until_begun("a", "b", each=50)
            for number in etcd.members:
                await asyncio.to_thread(etcd.stop, number, signal.SIGKILL)
            await asyncio.sleep(0.2)  # so that they are missed
            await asyncio.to_thread(etcd.start)
            await nodes.until_begun("a", "b", each=50)
        await nodes.until_done()
        nodes.ran_twice()
        await check(nodes)

    play(tmp_path, prefix.url(), story)


def test_hints_are_heard_again_when_their_member_is_gone(prefix: Prefix, etcd: EtcdCluster) -> None:
    async def main() -> None:
        listener, adder = await open_store(prefix.url()), await open_store(etcd.url(prefix.name, first=1))
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
        await asyncio.to_thread(etcd.stop, 0, signal.SIGKILL)
        assert len(await anext(heard)) == 64
        await adder.add([task("b", partition=9)])
        assert await told(9)
        await listener.close()
        await adder.close()
        await asyncio.to_thread(etcd.start, 0)

    asyncio.run(main())
