"""Leases of SQLite nodes without locks: they end by the time that passes, whatever becomes of the wall clock."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tickwheel.clock import VirtualClock
from tickwheel.stores.contract import MEMBERS, Lease
from tickwheel.stores.sqlite import SqliteStore
from tickwheel.testing.stores.scenario import TTL_MS, ids, task

HOUR_NS = 3600 * 10**9
MS = 1_000_000
PATIENCE_S = 60
EVERYTHING = range(4)

Open = Callable[..., Awaitable[SqliteStore]]


def play(path: Path, story: Callable[[Open, VirtualClock], Awaitable[None]]) -> None:
    """Play a story with stores of several processes of one machine."""

    async def main() -> None:
        clock = VirtualClock()
        async with AsyncExitStack() as stack:

            async def open_one(*, node_locks: bool = False) -> SqliteStore:
                store = await SqliteStore.open(
                    path / "tasks.db",
                    now_ms=lambda: clock.time_ns() // MS,
                    boottime_ns=clock.boottime_ns,
                    partitions=len(EVERYTHING),
                    node_locks=node_locks,
                )
                stack.push_async_callback(store.close)
                return store

            await story(open_one, clock)

    asyncio.run(main())


async def hold(store: SqliteStore, node: str) -> list[Lease]:
    """Let a node live and own everything."""
    await store.heartbeat(node, TTL_MS)
    held = await store.acquire(EVERYTHING, node, TTL_MS)
    assert len(held) == len(EVERYTHING)
    return held


async def owners(store: SqliteStore) -> list[str]:
    return [lease.node for lease in await store.leases()]


@pytest.mark.parametrize("step_ns", [HOUR_NS, -HOUR_NS])
def test_an_owner_that_renews_stays_the_owner_when_the_clock_is_set(tmp_path: Path, step_ns: int) -> None:
    async def story(open_one: Open, clock: VirtualClock) -> None:
        ours, theirs = await open_one(), await open_one()
        held = await hold(ours, "owner")
        await ours.add([task("a")])
        assert await theirs.heartbeat("other", TTL_MS) == ["other", "owner"]
        assert await owners(theirs) == ["owner"] * 4
        clock.step_wall(step_ns)
        for _ in range(10):
            clock.advance_ns(TTL_MS * MS // 3)
            assert await theirs.acquire(EVERYTHING, "other", TTL_MS) == []
            assert await theirs.heartbeat("other", TTL_MS) == ["other", "owner"]
            assert await ours.heartbeat("owner", TTL_MS) == ["other", "owner"]
            assert len(await ours.renew(held, TTL_MS)) == 4
            assert await owners(theirs) == await owners(ours) == ["owner"] * 4
        assert ids(await ours.claim(held, ["a"], 1000)) == ["a"]

    play(tmp_path, story)


@pytest.mark.parametrize("step_ns", [HOUR_NS, -HOUR_NS, 0])
def test_a_dead_owner_is_followed_after_the_ttl_when_the_clock_was_set(tmp_path: Path, step_ns: int) -> None:
    async def story(open_one: Open, clock: VirtualClock) -> None:
        ours, theirs = await open_one(), await open_one()
        await hold(ours, "dead")
        assert await theirs.heartbeat("heir", TTL_MS) == ["dead", "heir"]
        assert await owners(theirs) == ["dead"] * 4
        clock.step_wall(step_ns)
        clock.advance_ns((TTL_MS - 1) * MS)
        assert await theirs.acquire(EVERYTHING, "heir", TTL_MS) == []
        assert await theirs.heartbeat("heir", TTL_MS) == ["dead", "heir"]
        clock.advance_ns(MS)
        assert await theirs.heartbeat("heir", TTL_MS) == ["heir"]
        assert await owners(theirs) == []
        assert [lease.epoch for lease in await theirs.acquire(EVERYTHING, "heir", TTL_MS)] == [2] * 4

    play(tmp_path, story)


@pytest.mark.parametrize("step_ns", [HOUR_NS, -HOUR_NS])
def test_an_owner_that_does_not_renew_claims_nothing_after_the_ttl_when_the_clock_was_set(
    tmp_path: Path, step_ns: int
) -> None:
    async def story(open_one: Open, clock: VirtualClock) -> None:
        store = await open_one()
        held = await hold(store, "owner")
        await store.add([task(each) for each in "ab"])
        clock.step_wall(step_ns)
        clock.advance_ns((TTL_MS - 1) * MS)
        assert ids(await store.claim(held, ["a"], 1000)) == ["a"]
        clock.advance_ns(MS)
        assert await store.claim(held, ["b"], 1000) == []
        assert await store.renew(held, TTL_MS) == []

    play(tmp_path, story)


def test_a_renewal_is_seen_though_the_clock_shows_the_same_time_again(tmp_path: Path) -> None:
    async def story(open_one: Open, clock: VirtualClock) -> None:
        ours, theirs = await open_one(), await open_one()
        held = await hold(ours, "owner")
        for _ in range(10):
            assert await theirs.heartbeat("other", TTL_MS) == ["other", "owner"]
            assert await owners(theirs) == ["owner"] * 4
            clock.advance_ns(TTL_MS * MS // 2)
            clock.step_wall(-TTL_MS * MS // 2)
            await ours.heartbeat("owner", TTL_MS)
            assert len(await ours.renew(held, TTL_MS)) == 4

    play(tmp_path, story)


def test_the_ttl_of_a_lease_is_its_owners(tmp_path: Path) -> None:
    async def story(open_one: Open, clock: VirtualClock) -> None:
        ours, theirs = await open_one(), await open_one()
        await ours.heartbeat("slow", 10 * TTL_MS)
        await ours.acquire(EVERYTHING, "slow", 10 * TTL_MS)
        [ends] = {lease.expires_at for lease in await theirs.leases()}
        assert ends == clock.time_ns() // MS + 10 * TTL_MS
        assert await theirs.heartbeat("other", TTL_MS) == ["other", "slow"]
        clock.advance_ns((10 * TTL_MS - 1) * MS)
        assert await theirs.acquire(EVERYTHING, "other", TTL_MS) == []
        assert await theirs.heartbeat("other", TTL_MS) == ["other", "slow"]
        clock.advance_ns(MS)
        assert await theirs.heartbeat("other", TTL_MS) == ["other"]
        assert len(await theirs.acquire(EVERYTHING, "other", TTL_MS)) == 4

    play(tmp_path, story)


def test_who_has_just_come_takes_nobody_for_dead(tmp_path: Path) -> None:
    async def story(open_one: Open, clock: VirtualClock) -> None:
        await hold(await open_one(), "owner")
        clock.advance_ns(HOUR_NS)  # the owner may just have renewed, by a clock that was set meanwhile
        late = await open_one()
        assert await late.acquire(EVERYTHING, "late", TTL_MS) == []
        clock.advance_ns(TTL_MS * MS)
        assert len(await late.acquire(EVERYTHING, "late", TTL_MS)) == 4

    play(tmp_path, story)


def test_a_node_with_a_lock_follows_a_dead_one_without(tmp_path: Path) -> None:
    async def story(open_one: Open, clock: VirtualClock) -> None:
        ours, theirs = await open_one(), await open_one(node_locks=True)
        await hold(ours, "dead")
        assert await theirs.heartbeat("heir", TTL_MS) == ["dead", "heir"]
        assert await owners(theirs) == ["dead"] * 4
        clock.step_wall(-HOUR_NS)
        clock.advance_ns(TTL_MS * MS)
        assert await theirs.heartbeat("heir", TTL_MS) == ["heir"]
        assert len(await theirs.acquire(EVERYTHING, "heir", TTL_MS)) == 4
        assert [node.name for node in await ours.nodes()] == ["heir"], "the dead one is not in the file any more"

    play(tmp_path, story)


def test_a_node_with_a_lock_looks_by_itself_whether_one_without_is_alive(tmp_path: Path) -> None:
    async def main() -> None:
        def now_ms() -> int:
            return time.time_ns() // MS

        ours = await SqliteStore.open(tmp_path / "tasks.db", now_ms=now_ms, node_locks=False)
        theirs = await SqliteStore.open(tmp_path / "tasks.db", now_ms=now_ms)
        await ours.heartbeat("dead", 200)
        changes = theirs.changes([MEMBERS])
        assert "heir" in await theirs.heartbeat("heir", 200)
        async with asyncio.timeout(PATIENCE_S):
            async for _ in changes:
                if [node.name for node in await theirs.nodes()] == ["heir"]:
                    break
        await theirs.close()
        await ours.close()

    asyncio.run(main())
