"""Who owns a partition, for how long, and what becomes of it afterwards."""

import asyncio

from msgspec.structs import replace

from tickwheel.clock import VirtualClock
from tickwheel.stores.contract import Finish
from tickwheel.tasks.record import Status
from tickwheel.testing.stores.legal import LegalStore
from tickwheel.testing.stores.scenario import TTL_MS, Opening, end_of, ids, lapse, own, scenario, start, task

__all__ = ["Leasing"]


class Leasing(Opening):
    """`acquire`, `renew`, `release`, `checkpoint`, and what stale leases cannot do."""

    @scenario
    async def test_a_free_partition_is_got_once(self, store: LegalStore, clock: VirtualClock) -> None:
        leases = await store.acquire([0, 1], "here", TTL_MS)
        assert [(lease.partition, lease.node, lease.epoch) for lease in leases] == [(0, "here", 1), (1, "here", 1)]
        assert all(lease.expires_at == end_of(store, clock) for lease in leases)
        assert leases[0].nonce != leases[1].nonce
        [other] = await store.acquire([0, 1, 2], "there", TTL_MS)
        assert (other.partition, other.node) == (2, "there")
        assert await store.acquire([0, 1, 2], "here", TTL_MS) == []

    @scenario
    async def test_there_are_no_partitions_beyond_the_last(self, store: LegalStore, _clock: VirtualClock) -> None:
        assert await store.acquire([store.partitions, -1], "here", TTL_MS) == []
        assert len(await store.acquire(range(store.partitions), "here", TTL_MS)) == store.partitions
        assert await store.acquire([], "here", TTL_MS) == []

    @scenario
    async def test_of_many_who_want_it_at_once_one_gets_it(self, store: LegalStore, _clock: VirtualClock) -> None:
        answers = await asyncio.gather(*(store.acquire([5, 5], f"node{n}", TTL_MS) for n in range(20)))
        assert sum(len(leases) for leases in answers) == 1

    @scenario
    async def test_a_lease_lasts_until_its_end_and_no_longer(self, store: LegalStore, clock: VirtualClock) -> None:
        [lease] = await own(store, 3)
        clock.advance_ns((TTL_MS - 1) * 1_000_000)
        assert await store.acquire([3], "there", TTL_MS) == []
        clock.advance_ns(1_000_000)
        if not store.timed_leases:
            clock.advance(1000)
            assert await store.acquire([3], "there", TTL_MS) == [], "it is held until its node dies"
            assert await store.renew([lease], TTL_MS) == [lease]
            return
        assert await store.renew([lease], TTL_MS) == []
        [other] = await store.acquire([3], "there", TTL_MS)
        assert other.epoch == lease.epoch + 1
        assert other.nonce != lease.nonce

    @scenario
    async def test_a_renewed_lease_lasts_longer(self, store: LegalStore, clock: VirtualClock) -> None:
        leases = await own(store, 0, 1)
        clock.advance(2)
        renewed = await store.renew(leases, TTL_MS)
        assert renewed == [replace(lease, expires_at=end_of(store, clock)) for lease in leases]
        clock.advance(2)
        assert await store.acquire([0, 1], "there", TTL_MS) == []
        # The token is the epoch and the nonce: an older copy of it is as good.
        assert len(await store.renew(leases, TTL_MS)) == 2

    @scenario
    async def test_a_lease_given_back_is_free_at_once(self, store: LegalStore, _clock: VirtualClock) -> None:
        leases = await own(store, 0, 1)
        await store.release(leases[:1])
        await store.release(leases[:1])
        assert await store.renew(leases, TTL_MS) == leases[1:]
        [other] = await store.acquire([0, 1], "there", TTL_MS)
        assert (other.partition, other.epoch) == (0, 2)
        await store.release(leases[:1])  # not ours any more: does not matter
        assert await store.acquire([0], "here", TTL_MS) == []

    @scenario
    async def test_epochs_grow_with_every_owner(self, store: LegalStore, clock: VirtualClock) -> None:
        epochs = []
        for turn in range(4):
            [lease] = await own(store, 0)
            epochs.append(lease.epoch)
            if turn % 2 or not store.timed_leases:
                await store.release([lease])
            else:
                clock.advance(10)
        assert epochs == [1, 2, 3, 4]

    @scenario
    async def test_a_checkpoint_is_remembered_by_the_next_owner(self, store: LegalStore, clock: VirtualClock) -> None:
        leases = await own(store, 0, 1)
        assert [lease.checkpoint for lease in leases] == [0, 0]
        moment = await store.time() + 5000
        await store.checkpoint(leases[:1], moment)
        assert [lease.checkpoint for lease in await store.renew(leases, TTL_MS)] == [moment, 0]
        await store.release(leases[:1] if store.timed_leases else leases)
        clock.advance(10)
        assert [lease.checkpoint for lease in await own(store, 0, 1, node="there")] == [moment, 0]

    @scenario
    async def test_when_it_was_changed_is_remembered_though_the_clock_is_set_back(
        self, store: LegalStore, clock: VirtualClock
    ) -> None:
        clock.advance(10)
        ahead = await store.time()
        await store.add([replace(task("ahead"), created_at=ahead)])
        assert await store.changed_at() == ahead
        if not store.local_clock:
            return
        await store.pause(["ahead"])
        clock.step_wall(-5 * 10**9)
        await store.resume(["ahead"])
        assert await store.changed_at() == ahead
        leases = await own(store, 0, 1)
        await store.checkpoint(leases[:1], ahead - 5_000)
        assert await store.changed_at() == ahead - 5_000
        # What is in the other partition was not looked at yet.
        assert [lease.checkpoint for lease in await store.renew(leases, TTL_MS)] == [ahead - 5_000, ahead]

    @scenario
    async def test_a_stale_lease_can_do_nothing(self, store: LegalStore, clock: VirtualClock) -> None:
        leases, [running] = await start(store, task("ran"))
        await store.add([task("waits"), task("late")])
        finish = Finish(lease=leases[0], task=replace(running, status=Status.COMPLETED))

        async def nothing_works() -> None:
            assert await store.renew(leases, TTL_MS) == []
            assert await store.due(leases, 10**6, None, 10) == []
            assert await store.claim(leases, ["waits"], 1000) == []
            assert await store.orphans(leases, 10) == []
            await store.checkpoint(leases, 9000)
            await store.release(leases)

        await lapse(store, clock, leases)
        await nothing_works()  # it is over, though nobody else has it yet
        if not store.finish_by_epoch:
            assert await store.finish([finish]) == [False]
        [other] = await own(store, 0, node="there")
        assert other.checkpoint == 0
        await nothing_works()
        assert await store.finish([finish]) == [False]
        assert await store.get(["ran"]) == [running]
        assert await store.renew([other], TTL_MS) == [other]

    @scenario
    async def test_what_ran_under_a_lease_can_be_finished_until_another_node_has_it(
        self, store: LegalStore, clock: VirtualClock
    ) -> None:
        leases, running = await start(store, *(task(each) for each in "abc"))
        done = [Finish(lease=leases[0], task=replace(each, status=Status.COMPLETED)) for each in running]
        await lapse(store, clock, leases)
        assert await store.finish(done[:1]) == [store.finish_by_epoch], "nobody else has it"
        [again] = await own(store, 0)
        assert again.epoch == leases[0].epoch + 1
        assert await store.finish(done[1:2]) == [store.finish_by_epoch], "it is ours again"
        await lapse(store, clock, [again])
        [other] = await own(store, 0, node="there")
        assert await store.finish(done[2:]) == [False], "it is another node's"
        assert await store.finish([replace(done[2], lease=other)]) == [True]

    @scenario
    async def test_a_forged_lease_can_do_nothing(self, store: LegalStore, _clock: VirtualClock) -> None:
        [lease] = await own(store, 0)
        await store.add([task("a")])
        forgeries = [
            replace(lease, nonce="0" * 16),
            replace(lease, epoch=lease.epoch + 1),
            replace(lease, epoch=lease.epoch - 1),
            replace(lease, partition=1),
            replace(lease, partition=10**6),
        ]
        assert await store.renew(forgeries, TTL_MS) == []
        assert await store.claim(forgeries, ["a"], 1000) == []
        [running] = await store.claim([lease], ["a"], 1000)
        done = replace(running, status=Status.COMPLETED)
        assert await store.finish([Finish(lease=forged, task=done) for forged in forgeries[:2]]) == [False, False]

    @scenario
    async def test_of_good_and_stale_leases_the_good_ones_work(self, store: LegalStore, clock: VirtualClock) -> None:
        stale = await own(store, 0)
        await lapse(store, clock, stale)
        good = await own(store, 1)
        await store.add([task("a", partition=0), task("b", partition=1), task("c", partition=2)])
        both = [*stale, *good]
        assert ids(await store.due(both, 10**6, None, 10)) == ["b"]
        assert ids(await store.claim(both, ["a", "b", "c"], 1000)) == ["b"]
        assert await store.renew(both, TTL_MS) == good
