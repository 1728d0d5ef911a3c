"""What a node hears of late, or while the store is away, in virtual time: nothing has to wait for a rescan."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.cluster.virtual import TTL_S, AwayStore, Cluster, SlowStore, id_in
from tests.scheduler.flaky import FlakyStore
from tickwheel.tasks import Status


def test_what_is_told_while_leases_are_almost_over_is_not_forgotten(cluster: Cluster) -> None:
    slow: Any = SlowStore(cluster.store, 0, after=False)
    slow.slow_at = "heartbeat"

    async def story() -> None:
        slow.takes_s = 0.0
        await cluster.join("a", slow)
        adder = await cluster.scheduler(run=False).start()
        slow.takes_s = TTL_S * 0.6  # with a round every third of a lease, it is renewed in time by the store's clock
        for number in range(100):
            await adder.add("whose", {"what": str(number)})
            await asyncio.sleep(0.1)
        assert {lease.epoch for lease in await cluster.store.leases()} == {1}
        await asyncio.sleep(TTL_S)
        assert len(cluster.by) == 100, "nothing had to wait for a rescan"

    cluster.live(story)


def test_one_look_that_took_long_makes_no_node_deaf(cluster: Cluster) -> None:
    slow: Any = SlowStore(cluster.store, 0, after=False)

    async def story() -> None:
        slow.takes_s = 0.0
        await cluster.join("a", slow)
        adder = await cluster.scheduler(run=False).start()
        slow.takes_s = 2.0
        await adder.add("whose", {"what": "first"})
        await asyncio.sleep(1)
        slow.takes_s = 0.0
        await asyncio.sleep(1.5)
        assert [what for _, what in cluster.by] == ["first"]
        await adder.add("whose", {"what": "next"})
        await asyncio.sleep(1.1)
        assert [what for _, what in cluster.by] == ["first", "next"]

    cluster.live(story)


def test_what_is_added_while_a_node_starts_is_found_at_once(cluster: Cluster) -> None:
    async def story() -> None:
        await cluster.join("a")
        adder = await cluster.scheduler(run=False).start()
        await adder.add("whose", {"what": "at once"})  # nobody of the node has had a turn since
        await asyncio.sleep(0.3)
        assert [what for _, what in cluster.by] == ["at once"]

    cluster.live(story)


def test_a_hint_that_could_not_be_looked_into_is_looked_into_again(cluster: Cluster) -> None:
    async def story() -> None:
        flaky: Any = FlakyStore(cluster.store, 0, after=False)
        await cluster.join("a", flaky)
        adder = await cluster.scheduler(run=False).start()
        await asyncio.sleep(0.15)
        for number in range(100):  # in most rounds it is the look that fails
            flaky._fail_at = flaky.calls + 1
            await adder.add("whose", {"what": str(number)})
            await asyncio.sleep(0.5)
        await asyncio.sleep(1)
        assert len(cluster.by) == 100

    cluster.live(story)


@pytest.mark.parametrize("away_s", [step / 10 for step in range(5, 100, 5)])
def test_what_ends_while_the_store_is_away_is_written_however_long_that_takes(cluster: Cluster, away_s: float) -> None:
    store: Any = AwayStore(cluster.store, 0, after=False)

    async def story() -> None:
        await cluster.join("a", store)
        for partition in range(64):
            seconds = 0.3 + partition / 20
            await cluster.nodes["a"].add("whose", {"what": str(partition), "seconds": seconds}, id=id_in(partition))
        await asyncio.sleep(0.2)
        store.away = True
        await asyncio.sleep(away_s)
        store.away = False
        await asyncio.sleep(25)  # less than a rescan
        assert (await cluster.nodes["a"].counts())[Status.COMPLETED] == 64
        # Its leases ended, but nobody else had them: what ran is as good as if nothing had happened.
        assert max(Counter(what for _, what in cluster.by).values()) <= 2

    cluster.live(story)
