"""The master dies and a replica takes over: what can be lost is bounded and told, and everything else goes on."""

import asyncio
import logging
import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.cluster.nodes import play, until
from tests.cluster.stories import something_happens
from tickwheel.errors import StoreError
from tickwheel.scheduler.task_builder import partition_of
from tickwheel.stores import Store, open_store
from tickwheel.stores.contract import Finish
from tickwheel.tasks import Status, Task
from tickwheel.testing.redis import RedisCluster, RedisSentinels, RedisServer
from tickwheel.testing.stores.scenario import own, task


@pytest.fixture
def watched() -> Iterator[RedisSentinels]:
    with RedisSentinels.fresh(sentinels=1) as servers:
        yield servers


async def goes_on(store: Store) -> None:
    """Wait until a replica has taken over."""

    async def answers() -> bool:
        try:
            await store.counts()
        except StoreError:
            return False
        return True

    await until(answers)


def test_nothing_that_replicas_have_is_lost_when_the_master_is_killed(tmp_path: Path) -> None:
    with RedisSentinels.fresh() as servers:
        url = f"{servers.url}?replicas=1"

        async def blow() -> None:
            store = await open_store(url)
            await asyncio.to_thread(servers.master.stop, signal.SIGKILL)
            await goes_on(store)
            await asyncio.to_thread(servers.rejoin)  # until then, nothing is acknowledged
            await store.close()

        play(tmp_path, url, something_happens(blow))


def test_nothing_is_lost_when_master_and_replica_change_places(watched: RedisSentinels, tmp_path: Path) -> None:
    async def blow() -> None:
        await asyncio.to_thread(watched.fail_over)
        watched.replica.ask("REPLICAOF", "127.0.0.1", str(watched.master.port))  # as sentinels do later

    play(tmp_path, f"{watched.url}?replicas=1", something_happens(blow))


def test_a_master_that_was_replaced_is_left_though_it_goes_on(watched: RedisSentinels) -> None:
    async def main() -> None:
        store = await open_store(watched.url)
        await asyncio.to_thread(watched.fail_over)
        numbers = count()

        async def is_left() -> bool:
            number = next(numbers)
            await store.add([task(f"task-{number}")])
            return f"task-{number}" in watched.master.ask("HGETALL", "{tickwheel:0}:tasks")

        await until(is_left, 5.0)
        assert "role:master" in watched.replica.ask("INFO", "replication")
        await store.close()

    asyncio.run(main())


@pytest.fixture
def cluster() -> Iterator[RedisCluster]:
    with RedisCluster.fresh(replicas=1, cluster_node_timeout="1000") as servers:
        yield servers


def test_nothing_that_replicas_have_is_lost_when_a_master_of_a_cluster_is_killed(
    cluster: RedisCluster, tmp_path: Path
) -> None:
    url = f"{cluster.url}?replicas=1"

    async def blow() -> None:
        store = await open_store(url)
        await asyncio.to_thread(cluster.servers[0].stop, signal.SIGKILL)
        await goes_on(store)
        await asyncio.to_thread(cluster.servers[0].start)  # it is a replica now
        await store.close()

    play(tmp_path, url, something_happens(blow))


def test_what_a_replica_in_a_cluster_lacks_is_lost_and_that_is_told(
    cluster: RedisCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        safe, store = await open_store(f"{cluster.url}?replicas=1"), await open_store(cluster.url)
        kept, lost, *others = tasks_on(cluster.servers[0])
        await safe.add([kept, *others[:5]])
        leases = await own(store, kept.partition, ttl_ms=600_000)
        cluster.cut_off(0)
        await store.add([lost])
        await asyncio.to_thread(cluster.servers[0].stop, signal.SIGKILL)
        await goes_on(store)
        assert "is a replica that was promoted; 1 leases are ended" in caplog.text
        assert "What had not reached it is lost" in caplog.text

        assert [each is not None for each in await store.get([kept.id, lost.id])] == [True, False]
        assert await store.renew(leases, 3000) == []
        await store.add([lost])
        assert (await store.counts())[Status.PENDING] == 7
        for each in (safe, store):
            await each.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())


def tasks_on(server: RedisServer) -> list[Task]:
    """Make tasks, where schedulers put them, in one partition that a server of a cluster has."""
    there = (part for part in range(64) if not server.ask("EXISTS", f"{{tickwheel:{part}}}:tasks").startswith("-MOVED"))
    part = next(there)
    return [task(str(n), partition=part) for n in range(2_000) if partition_of(str(n), 64) == part]


def test_what_had_not_reached_the_replica_is_lost_and_that_is_told(
    watched: RedisSentinels, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        store = await open_store(watched.url)
        await store.add([task("kept"), task("ran"), task("waits")])
        leases = await own(store, 0, ttl_ms=600_000)
        [running] = await store.claim(leases, ["ran"], 1000)

        async def has_it() -> bool:
            return "ran" in watched.replica.ask("HGETALL", "{tickwheel:0}:running")

        await until(has_it)
        watched.cut_off()
        await store.add([task("lost")])
        done = Finish(lease=leases[0], task=replace(running, status=Status.COMPLETED))
        assert await store.finish([done]) == [True]
        await asyncio.to_thread(watched.master.stop, signal.SIGKILL)
        await goes_on(store)
        assert "a replica that was promoted; 1 leases are ended" in caplog.text
        assert "What had not reached it is lost" in caplog.text

        assert [each is not None for each in await store.get(["kept", "lost", "ran"])] == [True, False, True]
        assert await store.renew(leases, 3000) == [], "who held it has to look at everything again"
        assert await store.claim(leases, ["waits"], 1000) == []
        [new] = await own(store, 0)
        assert await store.orphans([new], 10) == [running], "its outcome was lost: it runs again"
        assert await store.finish([done]) == [False]
        assert await store.finish([replace(done, lease=new)]) == [True]
        await store.add([task("lost")])
        assert (await store.counts())[Status.PENDING] == 3
        await store.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())


def test_an_owner_that_hears_nothing_of_a_failover_can_change_nothing(watched: RedisSentinels) -> None:
    async def main() -> None:
        store, other = await open_store(watched.url), await open_store(watched.url)
        await store.add([task("a")])

        async def has_it() -> bool:
            return "a" in watched.replica.ask("HGETALL", "{tickwheel:0}:tasks")

        await until(has_it)
        watched.cut_off()
        # An epoch that the replica never hears of: after the failover it is given again.
        [lost] = await own(store, 0, ttl_ms=600_000)
        await asyncio.to_thread(watched.master.stop, signal.SIGKILL)
        await goes_on(other)
        [new] = await own(other, 0, node="there")
        assert (new.epoch, new.nonce != lost.nonce) == (lost.epoch, True)
        assert await store.claim([lost], ["a"], 1000) == []
        assert await store.renew([lost], 1000) == []
        assert len(await other.claim([new], ["a"], 1000)) == 1
        for each in (store, other):
            await each.close()

    asyncio.run(main())
