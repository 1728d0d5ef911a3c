"""A Redis Cluster changes: a slot is moved from one server to another, and a server goes away and comes back."""

import asyncio
import signal
from collections.abc import Iterator

import pytest
from redis.crc import key_slot

from tests.redis import Redis
from tickwheel.errors import StoreUnavailable
from tickwheel.scheduler.task_builder import partition_of
from tickwheel.stores.redis import RedisStore
from tickwheel.stores.redis.keys import lead_key
from tickwheel.tasks.record import Status, Task
from tickwheel.testing.redis import RedisCluster, RedisServer
from tickwheel.testing.stores.scenario import ids, own, task


@pytest.fixture
def cluster() -> Iterator[RedisCluster]:
    """A cluster that a test may change as it likes."""
    with RedisCluster.fresh() as servers:
        yield servers


def tasks_of(partition: int, many: int, begin: int = 0) -> list[Task]:
    """Make tasks that belong into one partition."""
    names = (f"t{n}" for n in range(begin, begin + 10**6))
    found = (task(name, partition=partition) for name in names if partition_of(name, 64) == partition)
    return [next(found) for _ in range(many)]


def words(answer: str) -> list[str]:
    """Read a list of texts."""
    return [line for line in answer.split("\r\n")[1:] if line and not line.startswith("$")]


class Move:
    """The way of a slot from one server to another, step by step."""

    def __init__(self, cluster: RedisCluster, slot: int) -> None:
        self.slot = str(slot)
        share = -(-16_384 // len(cluster.servers))
        self.source = cluster.servers[slot // share]
        self.target = next(server for server in cluster.servers if server is not self.source)
        self.cluster = cluster

    def begin(self) -> None:
        self.target.ask("CLUSTER", "SETSLOT", self.slot, "IMPORTING", self._id(self.source))
        self.source.ask("CLUSTER", "SETSLOT", self.slot, "MIGRATING", self._id(self.target))

    def keys(self) -> list[str]:
        return words(self.source.ask("CLUSTER", "GETKEYSINSLOT", self.slot, "1000"))

    def move(self, keys: list[str]) -> None:
        for key in keys:
            assert "+OK" in self.source.ask("MIGRATE", "127.0.0.1", str(self.target.port), key, "0", "5000")

    def end(self) -> None:
        for server in (self.target, self.source, *self.cluster.servers):
            server.ask("CLUSTER", "SETSLOT", self.slot, "NODE", self._id(self.target))

    @staticmethod
    def _id(server: RedisServer) -> str:
        return words(server.ask("CLUSTER", "MYID"))[0]


def test_a_slot_is_moved_and_nothing_of_it_is_lost(cluster: RedisCluster) -> None:
    partition = 17

    async def main() -> None:
        store = await RedisStore.open(Redis(cluster.url).url())
        before, after = tasks_of(partition, 20), tasks_of(partition, 5, 10**4)
        await store.add(before)
        [lease] = await own(store, partition, ttl_ms=60_000)
        [running] = await store.claim([lease], [before[0].id], 1000)
        move = Move(cluster, key_slot(lead_key(store._shards.address.name, partition).encode()))
        await asyncio.to_thread(move.begin)
        keys = move.keys()
        await asyncio.to_thread(move.move, keys[: len(keys) // 2])
        adding = asyncio.create_task(store.add(after))  # it is neither here nor there
        claiming = asyncio.create_task(store.claim([lease], ids(before[1:3]), 1000))
        await asyncio.sleep(0.3)
        assert not adding.done()
        await asyncio.to_thread(move.move, keys[len(keys) // 2 :])
        await asyncio.to_thread(move.end)
        await asyncio.gather(adding, claiming)
        assert claiming.result() == [], "a lease does not move along: it might have been lost on the way"
        [new] = await own(store, partition)
        assert await store.orphans([new], 10) == [running]
        assert ids(await store.claim([new], ids(before[1:3]), 1000)) == ids(before[1:3])
        assert await store.get(ids([running, *before[3:], *after])) == [running, *before[3:], *after]
        counted = await store.counts()
        assert (counted[Status.PENDING], counted[Status.RUNNING]) == (22, 3)
        await store.close()

    asyncio.run(main())


def test_one_server_goes_away_and_comes_back(cluster: RedisCluster) -> None:
    async def main() -> None:
        store = await RedisStore.open(Redis(cluster.url).url())
        everywhere = [each for partition in range(64) for each in tasks_of(partition, 1)]
        await store.add(everywhere)
        held = await own(store, ttl_ms=60_000)
        victim = cluster.servers[1]
        await asyncio.to_thread(victim.stop, signal.SIGKILL)
        with pytest.raises(StoreUnavailable):
            await store.get(ids(everywhere))
        with pytest.raises(StoreUnavailable):
            await store.add([task(f"more{n}", partition=n) for n in range(64)])
        await asyncio.to_thread(victim.start)

        async def is_back() -> list[Task | None]:
            while True:
                try:
                    return await store.get(ids(everywhere))
                except StoreUnavailable:
                    await asyncio.sleep(0.05)

        async with asyncio.timeout(60):
            assert await is_back() == everywhere
        kept = {lease.partition for lease in await store.renew(held, 60_000)}
        assert 0 < len(kept) < 64, "the leases of what was on the other servers"
        assert {lease.partition for lease in await own(store)} == set(range(64)) - kept
        await store.close()

    asyncio.run(main())
