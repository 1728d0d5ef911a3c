"""What can be opened as an etcd store, what is refused, and in which words."""

import asyncio
import logging
import signal
from pathlib import Path
from typing import Any

import pytest
import trustme
from aetcd import rpc

from tests.etcd import Prefix, add_until_heard
from tests.proxy import Proxy
from tests.stores.unreadable_story import ODD_BODIES, tell_of_an_unreadable_task
from tickwheel.errors import SchemaTooNew, StoreError, StoreUnavailable
from tickwheel.stores import open_store
from tickwheel.stores.etcd import EtcdStore
from tickwheel.stores.etcd.opening import VERSION
from tickwheel.stores.etcd.requests import put, transaction
from tickwheel.testing.etcd import EtcdCluster, quiet_ports
from tickwheel.testing.stores.scenario import task


async def open_and_close(url: str, partitions: int = 64) -> int:
    store = await open_store(url, partitions=partitions)
    assert isinstance(store, EtcdStore)
    await store.close()
    return store.partitions


def refused(url: str, kind: type[StoreError] = StoreUnavailable) -> str:
    with pytest.raises(kind) as caught:
        asyncio.run(open_and_close(url))
    assert "wheel-of-time" not in str(caught.value), "a password has no place in a message"
    return str(caught.value)


async def write(store: EtcdStore, key: bytes, value: bytes) -> None:
    await store._ground.members.write(transaction([], [put(key, value)]))


def test_partitions_are_counted_when_the_store_is_made(prefix: Prefix) -> None:
    assert asyncio.run(open_and_close(prefix.url(), partitions=16)) == 16
    assert asyncio.run(open_and_close(prefix.url(), partitions=64)) == 16


def test_each_prefix_is_a_store_of_its_own(prefix: Prefix) -> None:
    async def main() -> None:
        one, other = await open_store(prefix.url()), await open_store(prefix.url(f"{prefix.name}0"))
        await one.add([task("a")])
        assert await other.get(["a"]) == [None]
        await one.close()
        await other.close()

    asyncio.run(main())


def test_what_is_below_a_prefix_has_to_be_a_store(prefix: Prefix) -> None:
    asyncio.run(open_and_close(prefix.url(f"{prefix.name}/more")))
    assert "something else" in refused(prefix.url(), StoreError)


def test_many_who_open_it_at_once_make_it_once(prefix: Prefix) -> None:
    async def main() -> None:
        answers = await asyncio.gather(*(open_and_close(prefix.url(), partitions=n) for n in range(8, 16)))
        assert len(set(answers)) == 1

    asyncio.run(main())


def test_a_cluster_that_is_away_is_told() -> None:
    [port] = quiet_ports(1)
    assert "see whether its members run" in refused(f"etcd://ann:wheel-of-time@127.0.0.1:{port}/shop")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("etcd:///shop", "names the members"),
        ("etcd://a:port/shop", "no endpoint"),
        ("etcd://a:99999/shop", "no endpoint"),
        ("etcd://a,,b/shop", "names the members"),
        (f"etcd://a/{'x' * 300}", "at most 254 bytes"),
        ("etcd://a/shop?tls=yes", "no option 'tls'"),
        ("etcd://a/shop?cert=c.pem", "needs its key"),
        ("etcd://127.0.0.1/shop?ca=/nowhere.pem", "cannot be read"),
    ],
)
def test_a_url_that_leads_nowhere_is_refused(url: str, words: str) -> None:
    assert words in refused(url, StoreError)


def test_a_newer_layout_is_left_alone(prefix: Prefix) -> None:
    async def main() -> None:
        store = await EtcdStore.open(prefix.url())
        await write(store, store._ground.keys.version, b'{"version": %d, "partitions": 64}' % (VERSION + 1))
        await store.close()
        with pytest.raises(SchemaTooNew) as caught:
            await open_and_close(prefix.url())
        assert (caught.value.found, caught.value.known) == (VERSION + 1, VERSION)

    asyncio.run(main())


@pytest.mark.parametrize("head", [b"2 0 ", b"? ", b""])
@pytest.mark.parametrize("kind", sorted(ODD_BODIES.keys() - {"another handler"}))  # of which nothing else tells there
def test_a_task_that_cannot_be_read_is_set_aside(prefix: Prefix, kind: str, head: bytes) -> None:
    async def main() -> None:
        store = await EtcdStore.open(prefix.url(), partitions=1)
        key = store._ground.keys.task("bad")
        await tell_of_an_unreadable_task(store, lambda: write(store, key, head + ODD_BODIES[kind]))
        await store.close()

    asyncio.run(main())


def test_what_cannot_be_read_is_told(prefix: Prefix) -> None:
    async def main() -> None:
        store = await EtcdStore.open(prefix.url())
        await store.add([task("a"), task("b")])
        await write(store, store._ground.keys.version, b"?")
        with pytest.raises(StoreError, match="damaged"):
            await open_and_close(prefix.url())
        await store.close()

    asyncio.run(main())


def test_a_cluster_that_goes_away_is_told_and_used_again_when_it_is_back(prefix: Prefix, etcd: EtcdCluster) -> None:
    async def main() -> None:
        store = await open_store(prefix.url())
        await store.add([task("a")])
        for number in etcd.members:
            await asyncio.to_thread(etcd.stop, number)
        calls: list[Any] = [store.get(["a"]), store.add([task("b")]), store.cancel(["a"], "no"), store.counts()]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(answer) for answer in answers] == [StoreUnavailable] * len(calls)
        await asyncio.to_thread(etcd.start)
        assert await store.get(["a", "b"]) == [task("a"), None]
        await store.add([task("b")])
        await store.close()

    asyncio.run(main())


def test_a_cluster_that_is_back_is_reached_at_once(prefix: Prefix, etcd: EtcdCluster) -> None:
    async def main() -> None:
        async with Proxy.to(*(("127.0.0.1", port) for port, _ in etcd.ports)) as proxy:
            store = await open_store(f"etcd://127.0.0.1:{proxy.port}/{prefix.name}")
            proxy.cut()
            with pytest.raises(StoreUnavailable):
                await store.get(["a"])
            proxy.mend()
            assert await store.get(["a"]) == [None], "whatever the pauses between two attempts to connect"
            await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP])
def test_another_member_is_asked_when_one_is_away(prefix: Prefix, etcd: EtcdCluster, how: signal.Signals) -> None:
    async def main() -> None:
        leader = await asyncio.to_thread(etcd.leader)
        ours = (leader + 1) % 3
        store = await open_store(etcd.url(prefix.name, first=ours))
        await store.add([task("a")])
        if how is signal.SIGSTOP:
            etcd.send(ours, how)
        else:
            await asyncio.to_thread(etcd.stop, ours, how)
        try:
            assert await store.get(["a"]) == [task("a")]  # nobody has to be told that it took another way
            await add_until_heard(store, task("b"))
        finally:
            if how is signal.SIGSTOP:
                etcd.send(ours, signal.SIGCONT)
            else:
                await asyncio.to_thread(etcd.start, ours)
        assert await store.get(["b"]) == [task("b")]
        await store.close()

    asyncio.run(main())


def test_leases_are_etcds_where_no_clock_is_given(prefix: Prefix) -> None:
    async def main() -> None:
        store = await EtcdStore.open(prefix.url(), partitions=4)
        [lease] = await store.acquire([2], "here", 1000)
        [listed] = await store.leases()
        assert lease.expires_at is not None
        assert listed.expires_at is not None
        assert abs(listed.expires_at - lease.expires_at) <= 2000
        assert lease.expires_at - await store.time() <= 2000, "two seconds are the least that etcd takes"
        assert await store.heartbeat("here", 1000) == ["here"]
        heard = store.changes([2])
        async with asyncio.timeout(60):
            while await store.leases():  # nobody renews it: etcd itself lets go of it
                assert (await anext(heard)).keys() == {2}
        assert await store.renew([lease], 1000) == []
        [other] = await store.acquire([2], "there", 1000)
        assert other.epoch == 2
        async with asyncio.timeout(60):
            while await store.heartbeat("there", 1000) != ["there"]:  # noqa: ASYNC110 - etcd lets go of the other, too
                await asyncio.sleep(0.1)
        await store.close()

    asyncio.run(main())


def test_users_and_passwords_are_told_to_etcd(prefix: Prefix) -> None:
    async def main() -> None:
        store = await EtcdStore.open(prefix.url())
        auth = store._ground.members._stub(0, "Auth")
        prefixed = store._ground.keys.prefix
        await auth.UserAdd(rpc.AuthUserAddRequest(name="root", password="wheel-of-time"))
        await auth.RoleAdd(rpc.AuthRoleAddRequest(name="root"))
        await auth.UserGrantRole(rpc.AuthUserGrantRoleRequest(user="root", role="root"))
        await auth.UserAdd(rpc.AuthUserAddRequest(name="ann", password="wheel-of-time"))
        await auth.RoleAdd(rpc.AuthRoleAddRequest(name="shop"))
        right = rpc.Permission(permType=rpc.Permission.READWRITE, key=prefixed, range_end=prefixed[:-1] + b"0")
        await auth.RoleGrantPermission(rpc.AuthRoleGrantPermissionRequest(name="shop", perm=right))
        await auth.UserGrantRole(rpc.AuthUserGrantRoleRequest(user="ann", role="shop"))
        await auth.AuthEnable(rpc.AuthEnableRequest())
        try:
            url = prefix.url().replace("etcd://", "etcd://ann:wheel-of-time@")
            ours = await open_store(url)
            await ours.add([task("a")])
            assert len(await ours.acquire(range(64), "here", 3000)) == 64
            assert await ours.heartbeat("here", 3000) == ["here"]
            await ours.close()
            for wrong, words in [
                (prefix.url(), "user"),
                (url.replace("time@", "fortune@"), "user"),
                (url.replace(prefix.name, "elsewhere"), "may not do that"),
            ]:
                with pytest.raises(StoreUnavailable, match=words):
                    await open_and_close(wrong)
        finally:
            request = rpc.AuthenticateRequest(name="root", password="wheel-of-time")
            token = (await auth.Authenticate(request)).token
            await auth.AuthDisable(rpc.AuthDisableRequest(), metadata=(("token", token),))
            await store.close()

    asyncio.run(main())


def test_certificates_are_shown_to_etcd(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    for name, issued in [("server", authority.issue_cert("127.0.0.1")), ("client", authority.issue_cert("ann"))]:
        issued.cert_chain_pems[0].write_to_path(tmp_path / f"{name}.pem")
        issued.private_key_pem.write_to_path(tmp_path / f"{name}.key")
    with EtcdCluster.fresh(1, tls=tmp_path) as cluster:
        url = cluster.url("shop")
        shown = f"{url}?ca={tmp_path}/ca.pem&cert={tmp_path}/client.pem&key={tmp_path}/client.key"
        with caplog.at_level(logging.WARNING):
            assert asyncio.run(open_and_close(shown)) == 64
        assert caplog.messages == [], "it tells the time as well"
        for wrong in (url, url.replace("etcd:", "etcds:"), f"{url}?ca={tmp_path}/ca.pem"):
            assert "cannot be reached" in refused(wrong)
