"""Which nodes live, and who of them holds what."""

import asyncio

from msgspec.structs import replace

from tickwheel.clock import VirtualClock
from tickwheel.testing.stores.legal import LegalStore
from tickwheel.testing.stores.scenario import TTL_MS, Opening, lapse, own, scenario, task

__all__ = ["Meeting"]


class Meeting(Opening):
    """`heartbeat`, `leave` and `leases`."""

    @scenario
    async def test_nodes_that_live_know_of_each_other(self, store: LegalStore, _clock: VirtualClock) -> None:
        assert await store.heartbeat("m", TTL_MS) == ["m"]
        assert await store.heartbeat("b", TTL_MS) == ["b", "m"]
        assert await store.heartbeat("z", TTL_MS) == ["b", "m", "z"]
        assert await store.heartbeat("b", TTL_MS) == ["b", "m", "z"]

    @scenario
    async def test_a_node_lives_until_its_time_is_over(self, store: LegalStore, clock: VirtualClock) -> None:
        await store.heartbeat("gone", TTL_MS)
        clock.advance_ns((TTL_MS - 1) * 1_000_000)
        assert await store.heartbeat("here", TTL_MS) == ["gone", "here"]
        clock.advance_ns(1_000_000)
        if not store.timed_leases:
            assert await store.heartbeat("here", TTL_MS) == ["gone", "here"], "it lives until its process ends"
            return
        assert await store.heartbeat("here", TTL_MS) == ["here"]
        assert await store.heartbeat("gone", TTL_MS) == ["gone", "here"], "it was only away"

    @scenario
    async def test_a_heartbeat_lets_a_node_live_longer(self, store: LegalStore, clock: VirtualClock) -> None:
        for _ in range(3):
            await store.heartbeat("here", TTL_MS)
            clock.advance(2)
        assert await store.heartbeat("there", TTL_MS) == ["here", "there"]

    @scenario
    async def test_a_node_that_leaves_is_gone_at_once(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.heartbeat("gone", TTL_MS)
        await store.leave("gone")
        await store.leave("gone")
        await store.leave("never here")
        assert await store.heartbeat("here", TTL_MS) == ["here"]

    @scenario
    async def test_many_nodes_that_come_at_once_are_all_counted(self, store: LegalStore, _clock: VirtualClock) -> None:
        await asyncio.gather(*(store.heartbeat(f"node{n:02}", TTL_MS) for n in range(20)))
        assert await store.heartbeat("node00", TTL_MS) == [f"node{n:02}" for n in range(20)]

    @scenario
    async def test_leases_are_listed_while_they_are_held(self, store: LegalStore, clock: VirtualClock) -> None:
        assert await store.leases() == []
        late = await own(store, 6, 2, node="there", ttl_ms=2 * TTL_MS)
        soon = await own(store, 4)
        listed = await store.leases()
        assert [(lease.partition, lease.node, lease.epoch) for lease in listed] == [
            (2, "there", 1),
            (4, "here", 1),
            (6, "there", 1),
        ]
        assert {lease.expires_at for lease in listed} == {late[0].expires_at, soon[0].expires_at}
        moment = await store.time() + 5000
        await store.checkpoint(soon, moment)
        assert [lease.checkpoint for lease in await store.leases()] == [0, moment, 0]
        await store.release([lease for lease in late if lease.partition == 2])
        assert [lease.partition for lease in await store.leases()] == [4, 6]
        await lapse(store, clock, soon) if not store.timed_leases else clock.advance_ns(TTL_MS * 1_000_000)
        assert [lease.partition for lease in await store.leases()] == [6]

    @scenario
    async def test_a_lease_from_the_list_is_no_good(self, store: LegalStore, _clock: VirtualClock) -> None:
        held = await own(store, 0)
        listed = await store.leases()
        assert listed == [replace(lease, nonce="") for lease in held]
        await store.add([task("a")])
        assert await store.claim(listed, ["a"], 1000) == []
        assert await store.renew(listed, TTL_MS) == []
        await store.release(listed)
        assert await store.renew(held, TTL_MS) == held

    @scenario
    async def test_a_node_that_left_keeps_its_leases(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.heartbeat("here", TTL_MS)
        held = await own(store, 0)
        await store.leave("here")
        assert await store.renew(held, TTL_MS) == held
        assert await store.acquire([0], "there", TTL_MS) == []
