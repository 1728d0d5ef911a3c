"""Processes on one etcd cluster: its leader dies, and others go on."""

import asyncio
import signal
from pathlib import Path

from tests.cluster.nodes import play
from tests.cluster.stories import something_happens, told
from tests.etcd import Prefix, add_until_heard
from tickwheel.stores import open_store
from tickwheel.testing.etcd import EtcdCluster
from tickwheel.testing.stores.scenario import task


def test_the_leader_is_killed(prefix: Prefix, etcd: EtcdCluster, tmp_path: Path) -> None:
    async def blow() -> None:
        leader = await asyncio.to_thread(etcd.leader)
        await asyncio.to_thread(etcd.stop, leader, signal.SIGKILL)
        await asyncio.sleep(1)  # in which the others go on
        await asyncio.to_thread(etcd.start, leader)

    play(tmp_path, prefix.url(), something_happens(blow))


def test_hints_are_heard_again_when_their_member_is_gone(prefix: Prefix, etcd: EtcdCluster) -> None:
    async def main() -> None:
        listener, adder = await open_store(prefix.url()), await open_store(etcd.url(prefix.name, first=1))
        heard = listener.changes(range(64))

        assert len(await anext(heard)) == 64  # it has begun to listen, and may have missed something
        await adder.add([task("a", partition=7)])
        assert await told(heard, 7)
        await asyncio.to_thread(etcd.stop, 0, signal.SIGKILL)
        assert len(await anext(heard)) == 64
        await add_until_heard(adder, task("b", partition=9))
        assert await told(heard, 9)
        await listener.close()
        await adder.close()
        await asyncio.to_thread(etcd.start, 0)

    asyncio.run(main())
