"""What can be opened as a Redis store, what is refused, and in which words."""

import asyncio
import logging
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.cluster.stories import hints_are_heard_again
from tests.redis import Redis
from tests.stores.unreadable_story import ODD_BODIES, tell_of_an_unreadable_task
from tickwheel.errors import SchemaTooNew, StoreError, StoreUnavailable, UnknownStore
from tickwheel.stores import open_store
from tickwheel.stores.redis import RedisStore
from tickwheel.stores.redis.opening import SCHEMA
from tickwheel.tasks.record import Status
from tickwheel.testing.postgres import free_port
from tickwheel.testing.redis import RedisCluster, RedisServer
from tickwheel.testing.stores.scenario import own, task


async def open_and_close(url: str, partitions: int = 64) -> int:
    store = await open_store(url, partitions=partitions)
    assert isinstance(store, RedisStore)
    await store.close()
    return store.partitions


def refused(url: str, kind: type[Exception] = StoreError) -> str:
    with pytest.raises(kind) as caught:
        asyncio.run(open_and_close(url))
    assert "wheel-of-time" not in str(caught.value), "a password has no place in a message"
    return str(caught.value)


@pytest.fixture
def redis(redis_server: RedisServer) -> Redis:
    return Redis(redis_server.url)


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    """A server that a test may change as it likes."""
    with RedisServer.fresh() as server:
        yield server


def test_partitions_are_counted_when_the_store_is_made(redis: Redis) -> None:
    assert asyncio.run(open_and_close(redis.url(), partitions=16)) == 16
    assert asyncio.run(open_and_close(redis.url(), partitions=64)) == 16


def test_each_name_is_a_store_of_its_own(redis: Redis) -> None:
    async def main() -> None:
        one, other = await open_store(redis.url()), await open_store(redis.url(redis.fresh_name()))
        await one.add([task("a")])
        assert await other.get(["a"]) == [None]
        await one.close()
        await other.close()

    asyncio.run(main())


def test_many_who_open_it_at_once_make_it_once(redis: Redis) -> None:
    async def main() -> None:
        assert await asyncio.gather(*(open_and_close(redis.url()) for _ in range(8))) == [64] * 8

    asyncio.run(main())


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://host/0?name=Shop", "small letters"),
        ("redis://host/0?name=", "small letters"),
        ("redis://host/0?nam=shop", "there is no such option"),
        ("redis://host/shop", "number of a database"),
        ("redis://host:port/0", "is no server"),
        ("redis://host:99999/0", "is no server"),
        ("redis://host/0?replicas=many", "a number up to 5"),
        ("redis://host/0?may_lose=perhaps", "yes or no"),
        ("redis+sentinel://a,b", "ends with its name"),
        ("redis+cluster://a/1", "a cluster has only one"),
        ("redis+cluster://a,,b", "is no server"),
    ],
)
def test_a_url_that_means_nothing_is_refused(url: str, words: str) -> None:
    assert words in refused(url)


def test_a_url_without_a_host_is_no_store() -> None:
    for url in ("redis://", "redis:host", "redis+paper://host"):
        assert "redis+cluster://" in refused(url, UnknownStore)


def test_a_server_that_is_away_is_told() -> None:
    for scheme in ("redis", "redis+cluster", "redis+sentinel"):
        path = "/shop" if scheme == "redis+sentinel" else ""
        told = refused(f"{scheme}://ann:wheel-of-time@127.0.0.1:{free_port()}{path}", StoreUnavailable)
        assert "see " in told


def test_a_wrong_password_is_told(own_server: RedisServer) -> None:
    own_server.ask("CONFIG", "SET", "requirepass", "open sesame")
    assert "password" in refused(own_server.url, StoreUnavailable)
    wrong = own_server.url.replace("redis://", "redis://:wheel-of-time@")
    assert "does not let this user in" in refused(wrong, StoreUnavailable)
    right = own_server.url.replace("redis://", "redis://:open%20sesame@")
    assert asyncio.run(open_and_close(right)) == 64


def test_a_user_who_may_not_is_told(own_server: RedisServer) -> None:
    own_server.ask("ACL", "SETUSER", "guest", "on", ">wheel-of-time", "~nothing", "+@all")
    guest = own_server.url.replace("redis://", "redis://guest:wheel-of-time@")
    assert "may not do that" in refused(guest, StoreUnavailable)


def test_a_server_that_would_forget_tasks_is_refused(own_server: RedisServer) -> None:
    own_server.ask("CONFIG", "SET", "appendonly", "no")
    assert "CONFIG SET appendonly yes" in refused(own_server.url)
    assert own_server.ask("DBSIZE") == ":0\r\n", "and nothing is made on it"
    assert asyncio.run(open_and_close(f"{own_server.url}?may_lose=yes")) == 64
    own_server.ask("CONFIG", "SET", "appendonly", "yes")
    assert asyncio.run(open_and_close(own_server.url)) == 64
    for policy in ("allkeys-lru", "allkeys-random"):
        own_server.ask("CONFIG", "SET", "maxmemory-policy", policy)
        assert "maxmemory-policy noeviction" in refused(own_server.url)
        assert asyncio.run(open_and_close(f"{own_server.url}?may_lose=yes")) == 64
    own_server.ask("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
    assert asyncio.run(open_and_close(own_server.url)) == 64, "nothing of ours is volatile"


def test_a_cluster_in_which_one_server_would_forget_tasks_is_refused(redis_cluster: RedisCluster) -> None:
    redis_cluster.servers[1].ask("CONFIG", "SET", "appendonly", "no")
    try:
        assert "CONFIG SET appendonly yes" in refused(Redis(redis_cluster.url).url())
    finally:
        redis_cluster.servers[1].ask("CONFIG", "SET", "appendonly", "yes")


def test_a_cluster_is_told_from_a_server(redis_server: RedisServer, redis_cluster: RedisCluster) -> None:
    assert "begins with redis+cluster://" in refused(redis_cluster.servers[0].url)
    assert "it is no cluster" in refused(redis_server.url.replace("redis://", "redis+cluster://").removesuffix("/0"))


def test_replicas_that_are_not_there_are_waited_for_in_vain(redis: Redis) -> None:
    assert "only 0 of 1 replicas" in refused(f"{redis.url()}&replicas=1&wait_ms=50", StoreUnavailable)


def test_what_replicas_have_not_got_is_not_acknowledged(redis: Redis, redis_server: RedisServer) -> None:
    with RedisServer.fresh(replicaof=f"127.0.0.1 {redis_server.port}") as replica:

        async def main() -> None:
            store = await open_store(f"{redis.url()}&replicas=1&wait_ms=10000")
            await store.add([task("a")])
            await store.close()
            assert "master_link_status:up" in replica.ask("INFO", "replication")
            assert replica.process is not None
            hasty = await open_store(f"{redis.url()}&replicas=1&wait_ms=100")
            replica.process.send_signal(signal.SIGSTOP)
            with pytest.raises(StoreUnavailable, match="only 0 of 1 replicas"):
                await hasty.add([task("b")])
            replica.process.send_signal(signal.SIGCONT)
            await hasty.close()

        asyncio.run(main())


def test_a_newer_schema_is_left_alone(redis: Redis, redis_server: RedisServer) -> None:
    asyncio.run(open_and_close(redis.url()))
    redis_server.ask("HSET", "{" + redis.name + "}:meta", "schema", str(SCHEMA + 1))
    with pytest.raises(SchemaTooNew) as caught:
        asyncio.run(open_and_close(redis.url()))
    assert (caught.value.found, caught.value.known) == (SCHEMA + 1, SCHEMA)


def test_keys_of_something_else_are_left_alone(redis: Redis, redis_server: RedisServer) -> None:
    key = "{" + redis.name + "}:meta"
    redis_server.ask("HSET", key, "title", "notes")
    assert "something else" in refused(redis.url())
    redis_server.ask("SET", key, "notes")
    assert "WRONGTYPE" in refused(redis.url())
    assert "notes" in redis_server.ask("GET", key)


def test_a_server_that_goes_away_is_told_and_used_again_when_it_is_back(
    redis: Redis, redis_server: RedisServer
) -> None:
    async def main() -> None:
        store = await open_store(redis.url())
        await store.add([task("a")])
        await asyncio.to_thread(redis_server.stop)
        calls: list[Any] = [store.get(["a"]), store.add([task("b")]), store.cancel(["a"], "no"), store.counts()]
        for call in calls:
            with pytest.raises(StoreUnavailable):
                await call
        await asyncio.to_thread(redis_server.start)
        assert await store.get(["a", "b"]) == [task("a"), None]
        await store.add([task("b")])
        await store.close()

    asyncio.run(main())


def test_a_master_that_is_made_a_replica_is_told_until_it_is_one_again(own_server: RedisServer) -> None:
    async def main() -> None:
        store = await open_store(own_server.url)
        await store.add([task("a")])
        own_server.ask("REPLICAOF", "127.0.0.1", "1")
        for _ in range(2):  # over a connection from before, and over a new one
            with pytest.raises(StoreUnavailable, match="it is a replica"):
                await store.add([task("b")])
        own_server.ask("REPLICAOF", "NO", "ONE")
        await store.add([task("b")])
        assert await store.get(["a", "b"]) == [task("a"), task("b")]
        await store.close()

    asyncio.run(main())


def test_leases_of_a_server_that_was_started_again_are_ended(
    redis: Redis, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        store = await open_store(redis.url())
        await store.add([task("a"), task("b")])
        held = await own(store, 0, ttl_ms=60_000)
        [running] = await store.claim(held, ["a"], 1000)
        await asyncio.to_thread(redis_server.stop, signal.SIGKILL)
        await asyncio.to_thread(redis_server.start)
        with caplog.at_level(logging.WARNING):
            assert await store.renew(held, 60_000) == []
        assert "was started again; 1 leases are ended" in caplog.text
        assert await store.claim(held, ["b"], 1000) == []
        [new] = await own(store, 0)
        assert new.epoch == held[0].epoch + 1
        assert await store.orphans([new], 10) == [running]
        caplog.clear()
        other = await open_store(redis.url())
        assert await other.renew([new], 3000) != []
        assert not caplog.records, "once is enough"
        await other.close()
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("header", ['0 0 0 0 "orders.cancel" 2\n', "0 0 0 0 ? 2\n", "?"])
@pytest.mark.parametrize("kind", ODD_BODIES)
def test_a_task_that_cannot_be_read_is_set_aside(
    redis: Redis, redis_server: RedisServer, kind: str, header: str
) -> None:
    async def main() -> None:
        store = await open_store(redis.url(), partitions=1)

        async def damage() -> None:
            redis_server.ask("HSET", "{" + redis.name + ":0}:tasks", "bad", header + ODD_BODIES[kind].decode())

        await tell_of_an_unreadable_task(store, damage)
        await store.close()

    asyncio.run(main())


def test_a_server_that_still_loads_its_data_is_waited_for(own_server: RedisServer) -> None:
    async def main() -> None:
        store = await open_store(own_server.url)
        await store.add([task("a")])
        own_server.ask("EVAL", "for n = 1, 9000 do redis.call('SET', KEYS[1] .. n, n) end", "1", "x")
        own_server.stop()
        own_server.settings["key-load-delay"] = "100"  # microseconds; it answers now and then meanwhile
        starting = asyncio.create_task(asyncio.to_thread(own_server.start))
        said = set()
        while not starting.done():
            try:
                await store.time()
            except StoreUnavailable as error:
                said.add(str(error).partition(": ")[2].partition(";")[0])
        assert said == {"it cannot be reached", "it is starting, and still loads its data"}
        assert (await store.counts())[Status.PENDING] == 1
        await store.close()

    asyncio.run(main())


def test_a_server_is_used_by_tls_if_its_certificate_is_right(tmp_path: Path) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    issued = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    stranger.cert_pem.write_to_path(tmp_path / "stranger.pem")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "server.pem")
    issued.private_key_pem.write_to_path(tmp_path / "server.key")
    port = free_port()
    settings = {
        "tls_port": str(port),
        "tls_cert_file": f"{tmp_path}/server.pem",
        "tls_key_file": f"{tmp_path}/server.key",
        "tls_ca_cert_file": f"{tmp_path}/ca.pem",
        "tls_auth_clients": "no",
    }
    with RedisServer.fresh(**settings) as server:
        url = f"rediss://localhost:{port}?ca_file={tmp_path}/ca.pem"
        asyncio.run(hints_are_heard_again(url, server))
        for wrong in (
            url.replace("ca.pem", "stranger.pem"),
            url.replace("localhost", "127.0.0.1"),  # it is issued for the name
            f"rediss://localhost:{port}",
        ):
            assert "its certificate is not trusted" in refused(wrong, StoreUnavailable)
        assert "cannot be reached" in refused(f"redis://localhost:{port}", StoreUnavailable)
