"""Batches that are larger than a transaction of etcd: whole or not at all, whoever dies, and whoever is in the way."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from tests.cluster.nodes import begin
from tests.etcd import Prefix
from tickwheel.errors import DuplicateTask, TaskRunning, VersionMismatch
from tickwheel.stores.contract import Filter, Finish
from tickwheel.stores.etcd import EtcdStore
from tickwheel.stores.etcd.requests import ask_all, ask_key
from tickwheel.tasks.record import Status
from tickwheel.testing.stores.scenario import ids, task

PATIENCE_S = 60.0
MANY = 6000


def play(prefix: Prefix, story: Callable[[EtcdStore], Awaitable[None]]) -> None:
    async def main() -> None:
        store = await EtcdStore.open(prefix.url())
        try:
            async with asyncio.timeout(PATIENCE_S):
                await story(store)
        finally:
            await store.close()

    asyncio.run(main())


@asynccontextmanager
async def stopped_while(
    store: EtcdStore, prefix: Prefix, state: bytes, how: signal.Signals
) -> AsyncIterator["subprocess.Popen[str]"]:
    """Start a process that adds many tasks, and send it a signal when its batch is so far, and some of it written."""
    command = [sys.executable, "-m", "tests.stores.etcd_child", prefix.url(), str(MANY)]
    with await asyncio.to_thread(begin, command) as child:
        try:
            keys = store._ground.keys
            asked = [ask_key(keys.batch), ask_all(keys.journal, only="count")]
            while True:
                batch, pages = await store._ground.members.read(asked)
                if batch.kvs and batch.kvs[0].value.startswith(state) and pages.count:
                    break
                assert child.poll() is None, "it was too quick"
            child.send_signal(how)
            yield child
        finally:
            child.kill()


async def clean(store: EtcdStore) -> bool:
    """Tell whether nothing is left of large batches but tasks."""
    keys = store._ground.keys
    answers = await store._ground.members.read([ask_key(keys.batch), ask_all(keys.journal)])
    return not any(answer.kvs for answer in answers)


def test_of_a_batch_whose_writer_dies_before_it_is_decided_nothing_is_there(prefix: Prefix) -> None:
    async def story(store: EtcdStore) -> None:
        async with stopped_while(store, prefix, b"open", signal.SIGKILL) as child:
            await asyncio.to_thread(child.wait)
        [added] = await store.add([task("00000", 5)])  # as soon as its lease is over
        assert added.added
        assert sum((await store.counts()).values()) == 1
        assert not await clean(store), "it was too early"
        await store.add([task(f"{number:05}", partition=number % 64) for number in range(1, MANY)])
        assert (await store.counts())[Status.PENDING] == MANY
        assert await clean(store), "what it left is not cleared away"

    play(prefix, story)


def test_a_batch_whose_writer_dies_when_it_is_decided_is_carried_out_by_others(prefix: Prefix) -> None:
    async def story(store: EtcdStore) -> None:
        leases = await store.acquire(range(64), "here", 60_000)
        heard = store.changes(range(64))
        async with stopped_while(store, prefix, b"decided", signal.SIGKILL) as child:
            await asyncio.to_thread(child.wait)
        await store.due(leases, 1000, None, 10)  # who looks for what is due is enough
        assert (await store.counts())[Status.PENDING] == MANY
        assert await clean(store)
        async with asyncio.timeout(PATIENCE_S):
            assert await anext(heard)
        due = await store.due(leases, 1000, (1000, "05989"), 100)
        assert ids(due) == [f"{number:05}" for number in range(5990, MANY)]

    play(prefix, story)


@pytest.mark.parametrize("state", [b"open", b"decided"])
def test_a_writer_that_was_suspended_does_no_harm_and_ends_well(prefix: Prefix, state: bytes) -> None:
    async def story(store: EtcdStore) -> None:
        async with stopped_while(store, prefix, state, signal.SIGSTOP) as child:
            await store.add([task("other")])  # goes on without it, in the end
            done = (await store.counts())[Status.PENDING]
            assert done == (1 if state == b"open" else MANY + 1)
            cancelled = await store.cancel(["00003", "other"], "no")
            assert (cancelled[0] is None) == (state == b"open")
            child.send_signal(signal.SIGCONT)
            assert await asyncio.to_thread(child.wait, PATIENCE_S) == 0
        there = await store.get(["00003", "00004"])
        assert [each and each.status.value for each in there] == [
            "pending" if state == b"open" else "cancelled",
            "pending",
        ]
        assert sum((await store.counts()).values()) == MANY + 1
        assert await clean(store)

    play(prefix, story)


def test_a_large_batch_with_a_mistake_in_it_changes_nothing(prefix: Prefix) -> None:
    async def story(store: EtcdStore) -> None:
        many = [task(f"{number:03}", partition=number % 64) for number in range(400)]
        await store.add(many)
        with pytest.raises(DuplicateTask):
            await store.add([*(task(f"new-{number}") for number in range(5000)), task("007")])
        with pytest.raises(VersionMismatch):
            await store.amend([replace(each, priority=3, version=each.id == "399") for each in many])
        leases = await store.acquire([0], "here", 60_000)
        await store.claim(leases, ["000"], 1000)
        with pytest.raises(TaskRunning):
            await store.add([replace(each, run_at=7) for each in many], "replace")
        assert await store.get(ids(many[1:])) == many[1:]
        assert sum((await store.counts()).values()) == 400
        assert await clean(store)

    play(prefix, story)


def test_large_tasks_go_through_many_at_a_time(prefix: Prefix) -> None:
    async def story(store: EtcdStore) -> None:
        huge = "x" * 200_000
        many = [task(f"{number:02}", args={"n": huge}, partition=number) for number in range(20)]
        await store.add(many)
        leases = await store.acquire(range(20), "here", 60_000)
        claimed = await store.claim(leases, ids(many), 1000)
        assert ids(claimed) == ids(many)
        done = [replace(each, status=Status.COMPLETED, result=huge) for each in claimed]
        finishes = [Finish(lease=lease, task=each) for lease, each in zip(leases, done, strict=True)]
        assert all(await store.finish(finishes))
        assert len((await store.query(Filter(status=Status.COMPLETED))).tasks) == 20
        assert all(each is not None for each in await store.remove(ids(many)))
        assert sum((await store.counts()).values()) == 0

    play(prefix, story)


def test_two_stores_never_add_one_id_twice(prefix: Prefix) -> None:
    async def story(store: EtcdStore) -> None:
        other = await EtcdStore.open(prefix.url())
        calls = [
            each.add([task(f"{n}"), task(f"{99 - n}")])  # in opposite orders
            for n in range(50)
            for each in (store, other)
        ]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(answer, list | DuplicateTask) for answer in answers), answers
        assert sum(isinstance(answer, list) for answer in answers) == 50
        listed = (await store.query(Filter(), None, 1000)).tasks
        assert len(listed) == len(set(ids(listed))) == 100
        await other.close()

    play(prefix, story)


def test_what_several_add_at_once_arrives_in_the_order_of_each(prefix: Prefix) -> None:
    async def story(store: EtcdStore) -> None:
        stores = [store, *[await EtcdStore.open(prefix.url()) for _ in range(3)]]

        async def add(each: EtcdStore, name: str) -> None:
            for number in range(50):
                await each.add([task(f"{name}{number:02}")])

        await asyncio.gather(*(add(each, name) for each, name in zip(stores, "abcd", strict=True)))
        listed = ids((await store.query(Filter(order="oldest"), None, 1000)).tasks)
        assert len(listed) == 200
        for name in "abcd":
            assert [each for each in listed if each[0] == name] == [f"{name}{number:02}" for number in range(50)]
        for each in stores[1:]:
            await each.close()

    play(prefix, story)


def test_tasks_that_all_change_at_once_are_each_changed_by_one_after_the_other(prefix: Prefix) -> None:
    async def story(store: EtcdStore) -> None:
        others = [await EtcdStore.open(prefix.url()) for _ in range(3)]
        many = [f"{number:03}" for number in range(150)]
        await store.add([task(each, partition=int(each) % 64) for each in many])

        async def move(each: EtcdStore, run_at: int) -> None:
            for name in many[:20]:
                await each.reschedule(name, run_at)
            await each.pause(many)
            await each.resume(many)

        await asyncio.gather(*(move(each, 2000 + number) for number, each in enumerate([store, *others])))
        now = [each for each in await store.get(many) if each is not None]
        assert all(each.status is Status.PENDING for each in now)
        # Four moves of some, and as many resumptions as pauses: of which each that found one to pause counts.
        assert all(each.version % 2 == 0 for each in now)
        assert {each.version for each in now[:20]} <= {6, 8, 10, 12}
        assert {each.version for each in now[20:]} <= {2, 4, 6, 8}
        leases = await store.acquire(range(64), "here", 60_000)
        assert sorted(ids(await store.due(leases, 10**6, None, 1000))) == many
        for each in others:
            await each.close()

    play(prefix, story)
