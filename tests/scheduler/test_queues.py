"""Pull queues on virtual time: nothing is lost, and nobody has what another has."""

import asyncio
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from tests.scheduler.flaky import FlakyStore
from tests.scheduler.worlds import World
from tickwheel import aio
from tickwheel.errors import (
    InvalidDuration,
    InvalidLease,
    InvalidLimit,
    InvalidTask,
    LeaseLost,
    NoQueuesHere,
    StoreError,
    UnknownTask,
)
from tickwheel.scheduler import AsyncScheduler, Message
from tickwheel.tasks import RetryPolicy, Status


@pytest.fixture
def world() -> World:
    return World()


async def lease_one(scheduler: AsyncScheduler, queue: str = "emails", **wishes: Any) -> Message:
    [message] = await scheduler.lease(queue, limit=1, **wishes)
    return message


def test_a_message_is_leased_when_it_is_due_and_done_when_it_is_acknowledged(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        due = world.now() + 60_000
        await scheduler.add(queue="emails", args={"to": "ada"}, delay=60, id="m", meta={"team": "a"})
        await asyncio.sleep(59.9)
        assert await scheduler.lease("emails") == []
        await asyncio.sleep(0.2)
        assert await scheduler.lease("letters") == []
        message = await lease_one(scheduler, lease="10s")
        assert (message.id, message.queue, message.args, message.meta) == ("m", "emails", {"to": "ada"}, {"team": "a"})
        assert (message.attempt, message.due, message.expires) == (1, due, world.now() + 10_000)
        assert await scheduler.lease("emails") == [], "it is someone's"
        task = await scheduler.get("m")
        assert (task.status, task.queue, task.handler) == (Status.RUNNING, "emails", "queue:emails")
        assert (await scheduler.ack("m", message.lease_token)).status is Status.COMPLETED
        assert (await scheduler.get("m")).status is Status.COMPLETED
        with pytest.raises(LeaseLost):
            await scheduler.ack("m", message.lease_token)

    world.play(story)
    assert world.kinds("m") == ["added", "started", "completed"]


@pytest.mark.parametrize("verb", ["ack", "nack"])
def test_what_is_settled_is_returned_as_it_is_stored(world: World, verb: str) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add_many([{"queue": "emails", "id": name, "args": {"to": "ada"}} for name in ("m", "n")])
        await scheduler.add(queue="emails", id="o", every=60, delay=0)
        await asyncio.sleep(1)
        tokens = {message.id: message.lease_token for message in await scheduler.lease("emails", limit=3)}
        await scheduler.add(queue="emails", id="m", args={"to": "eve"}, delay="1h", on_conflict="debounce")
        await scheduler.pause("o")
        await scheduler.cancel("n")
        for task_id in ("m", "o"):
            settled = await getattr(scheduler, verb)(task_id, tokens[task_id])
            assert (await world.store.get([task_id])) == [settled]
            assert settled.status is Status.PENDING
            assert settled.paused is (task_id == "o")
        with pytest.raises(LeaseLost):
            await getattr(scheduler, verb)("n", tokens["n"])
        await asyncio.sleep(3700)
        [message] = await scheduler.lease("emails")
        assert (message.id, message.args) == ("m", {"to": "eve" if verb == "ack" else "ada"}), "a retry is as before"

    world.play(story)


def test_an_ack_counts_though_its_task_cannot_be_read_afterwards(world: World) -> None:
    store = world.store = FlakyStore(world.store, -1, after=False)

    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add(queue="emails", id="m")
        await asyncio.sleep(1)
        message = await lease_one(scheduler)
        store._fail_at = store.calls + 2
        assert (await scheduler.ack("m", message.lease_token)).status is Status.COMPLETED
        assert store.failed == "get"
        assert (await scheduler.get("m")).status is Status.COMPLETED

    world.play(story)


def test_those_that_have_waited_longest_are_leased_first(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        for number in (3, 1, 2):
            await scheduler.add(queue="emails", delay=number, id=f"m{number}")
        await asyncio.sleep(5)
        assert [message.id for message in await scheduler.lease("emails", limit=2)] == ["m1", "m2"]
        assert [message.id for message in await scheduler.lease("emails", limit=2)] == ["m3"]

    world.play(story)


def test_what_is_given_back_is_offered_again_by_its_policy_or_after_a_delay(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        policy = RetryPolicy(retries=2, first_ms=5_000, factor=2.0, jitter=0.0)
        await scheduler.add(queue="emails", id="m", retry=policy)
        first = await lease_one(scheduler, wait=1)
        task = await scheduler.nack("m", first.lease_token, "no such address")
        assert (task.status, task.error, task.run_at) == (Status.PENDING, "no such address", world.now() + 5_000)
        assert await scheduler.lease("emails", wait=4.9) == []
        second = await lease_one(scheduler, wait=1)
        assert (second.attempt, second.lease_token != first.lease_token) == (2, True)
        with pytest.raises(LeaseLost):
            await scheduler.ack("m", first.lease_token)
        await scheduler.nack("m", second.lease_token, delay="1h")
        assert await scheduler.lease("emails", wait=60) == []
        await asyncio.sleep(3_541)
        third = await lease_one(scheduler)
        assert (await scheduler.nack("m", third.lease_token)).status is Status.FAILED
        assert [run.attempt for run in await scheduler.history("m")] == [3, 2, 1]

    world.play(story)
    assert world.kinds("m") == ["added", "started", "retried", "started", "retried", "started", "failed"]


def test_a_lease_that_runs_out_is_a_failed_attempt(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add(queue="emails", id="m")
        first = await lease_one(scheduler, lease="10s", wait=1)
        assert await scheduler.lease("emails", wait=9) == []
        assert (await scheduler.get("m")).status is Status.RUNNING
        second = await lease_one(scheduler, wait=5)
        assert second.attempt == 2
        task = await scheduler.get("m")
        assert (task.failures, task.error) == (1, "its lease ran out")
        with pytest.raises(LeaseLost, match="its lease ran out"):
            await scheduler.ack("m", first.lease_token)
        await scheduler.ack("m", second.lease_token)

    world.play(story)


def test_what_says_nothing_of_retries_is_offered_again_and_again_and_what_says_none_is_not(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add(queue="emails", id="usual")
        await scheduler.add(queue="once", id="once", retries=0)
        assert await scheduler.lease("once", lease=1, wait=1)
        for attempt in range(1, 7):
            assert (await lease_one(scheduler, lease=1, wait=60)).attempt == attempt
        await asyncio.sleep(2)
        assert (await scheduler.get("usual")).status is Status.PENDING
        task = await scheduler.get("once")
        assert (task.status, task.error) == (Status.FAILED, "its lease ran out")

    world.play(story)


def test_a_lease_can_be_extended_as_long_as_it_lasts(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add(queue="emails", id="m")
        message = await lease_one(scheduler, lease="10s", wait=1)
        for _ in range(5):
            await asyncio.sleep(8)
            assert await scheduler.extend("m", message.lease_token, lease="10s") == world.now() + 10_000
        with pytest.raises(LeaseLost):
            await scheduler.extend("m", "guess")
        assert (await scheduler.ack("m", message.lease_token)).status is Status.COMPLETED
        with pytest.raises(LeaseLost):
            await scheduler.extend("m", message.lease_token)

    world.play(story)


def test_a_token_is_good_for_its_own_message_only(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        for name in ("a", "b"):
            await scheduler.add(queue="emails", id=name)
        await asyncio.sleep(0.1)
        first, second = await scheduler.lease("emails")
        for token in (second.lease_token, "", "é", "\ud800", first.lease_token[:-1]):
            with pytest.raises(LeaseLost):
                await scheduler.ack(first.id, token)
        assert (await scheduler.get(first.id)).status is Status.RUNNING

    world.play(story)


@pytest.mark.parametrize("call", ["ack", "extend", "nack"])
def test_a_message_that_is_not_there_is_unknown_and_a_token_is_text(world: World, call: str) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add(queue="emails", id="m")
        message = await lease_one(scheduler, wait=1)
        settle: Any = getattr(scheduler, call)
        with pytest.raises(UnknownTask):
            await settle("nobody", message.lease_token)
        for token in (None, 7, message.lease_token.encode(), message):
            with pytest.raises(InvalidLease, match="expected the lease_token of a message") as caught:
                await settle("m", token)
            assert caught.value.field == "token"
        with pytest.raises(InvalidTask):
            await settle(None, message.lease_token)
        await scheduler.ack("m", message.lease_token)
        with pytest.raises(LeaseLost):
            await settle("m", message.lease_token)
        await scheduler.delete("m")
        with pytest.raises(UnknownTask):
            await settle("m", message.lease_token)

    world.play(story)


@pytest.mark.parametrize("call", ["ack", "extend", "nack"])
def test_a_leased_message_that_is_cancelled_is_nobodys_any_more(world: World, call: str) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add(queue="emails", id="m")
        message = await lease_one(scheduler, wait=1)
        await scheduler.cancel("m", "not wanted any more")
        with pytest.raises(LeaseLost):
            await getattr(scheduler, call)("m", message.lease_token)
        await asyncio.sleep(1)
        task = await scheduler.get("m")
        assert (task.status, task.reason) == (Status.CANCELLED, "not wanted any more")

    world.play(story)
    assert world.kinds("m")[-1] == "cancelled"


def test_a_cancel_by_another_process_is_seen_when_the_lease_is_extended(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add(queue="emails", id="m")
        message = await lease_one(scheduler, wait=1)
        await world.store.cancel(["m"], "by someone else")
        with pytest.raises(LeaseLost):
            await scheduler.extend("m", message.lease_token)
        await asyncio.sleep(1)
        assert (await scheduler.get("m")).status is Status.CANCELLED

    world.play(story)


def test_a_waiting_message_that_is_cancelled_paused_or_moved_is_not_leased(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        for name in ("cancelled", "paused", "moved", "left"):
            await scheduler.add(queue="emails", id=name)
        await asyncio.sleep(1)
        await scheduler.cancel("cancelled")
        await scheduler.pause("paused")
        await scheduler.reschedule("moved", delay=3600)
        assert [message.id for message in await scheduler.lease("emails", lease="12h")] == ["left"]
        await scheduler.resume("paused")
        assert [message.id for message in await scheduler.lease("emails", lease="12h", wait=1)] == ["paused"]
        await asyncio.sleep(3600)
        assert [message.id for message in await scheduler.lease("emails", wait=1)] == ["moved"]

    world.play(story)


def test_a_consumer_waits_until_a_message_comes_due(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        begun = world.now()
        await scheduler.add(queue="emails", delay=20, id="m")
        assert (await lease_one(scheduler, lease="1h", wait=30)).id == "m"
        assert world.now() - begun == 20_000
        assert await scheduler.lease("emails", wait=30) == []
        assert world.now() - begun == 50_000
        waiting = asyncio.create_task(scheduler.lease("emails", wait=30))
        await asyncio.sleep(5)
        await scheduler.add(queue="emails", id="n")
        assert [message.id for message in await waiting] == ["n"]
        assert world.now() - begun == 55_000

    world.play(story)


def test_a_recurring_message_comes_again_after_it_is_acknowledged(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add(queue="emails", every=60, times=3, id="m")
        dues: list[int] = []
        for _ in range(3):
            await asyncio.sleep(1)
            message = await lease_one(scheduler, wait=60)
            dues.append(message.due)
            await scheduler.ack("m", message.lease_token)
        assert [later - sooner for sooner, later in pairwise(dues)] == [60_000, 60_000]
        assert (await scheduler.get("m")).status is Status.COMPLETED

    world.play(story)


def test_a_message_that_came_due_while_nobody_served_its_queue_is_skipped_if_it_says_so(world: World) -> None:
    async def leave(scheduler: AsyncScheduler) -> None:
        await scheduler.add(queue="emails", id="stale", late="skip", delay=10)

    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add(queue="emails", id="fresh", late="skip")
        await asyncio.sleep(300)  # waiting for a consumer is not being missed
        assert [message.id for message in await scheduler.lease("emails", limit=1)] == ["fresh"]
        await asyncio.sleep(1)
        stale = await scheduler.get("stale")
        assert (stale.status, stale.reason_code) == (Status.CANCELLED, "skipped")
        [run] = await scheduler.history("stale")
        assert (run.status.value, run.started_at) == ("skipped", None)

    world.play(leave)
    world.clock.advance(300)
    world.play(story)
    assert world.kinds("stale") == ["added", "skipped"]


def test_a_queue_that_nobody_reads_holds_up_nobody() -> None:
    world = World(in_flight_max=5)

    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add_many([{"queue": "unread", "id": f"u{number}"} for number in range(100)])
        for number in range(20):
            await scheduler.add("note", {"what": f"n{number}"})
        await asyncio.sleep(5)
        assert len(world.ran) == 20
        picture = scheduler.picture()
        assert picture is not None
        assert (picture.parked, picture.leased, picture.queued) == (100, 0, 0)

    world.play(story)


def test_workers_that_are_full_do_not_hold_up_queues() -> None:
    world = World(in_flight_max=5)

    async def story(scheduler: AsyncScheduler) -> None:
        for number in range(20):
            await scheduler.add("work", {"what": f"w{number}", "seconds": 250.0})
        await scheduler.add(queue="emails", delay=10, id="m")
        assert (await lease_one(scheduler, wait=11)).id == "m"

    world.play(story)


def test_what_was_leased_when_its_server_died_is_offered_again(world: World) -> None:
    async def crash() -> Message:
        scheduler = await world.scheduler().start()
        await scheduler.add(queue="emails", id="m")
        return await lease_one(scheduler, wait=1)

    before = aio.run(crash(), clock=world.clock)
    world.clock.advance("7h")  # beyond the leases of the engine that died

    async def story(scheduler: AsyncScheduler) -> None:
        assert scheduler.startup_report is not None
        assert scheduler.startup_report.orphaned == 1
        message = await lease_one(scheduler, wait=2)  # after a crash it waits for a moment
        assert (message.id, message.attempt, message.due) == ("m", 2, before.due)
        with pytest.raises(LeaseLost):
            await scheduler.ack("m", before.lease_token)
        await scheduler.ack("m", message.lease_token)

    world.play(story)


def test_what_is_leased_when_its_server_stops_is_offered_again_at_once(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add(queue="emails", id="m")
        await lease_one(scheduler, wait=1)

    world.play(story)

    async def next_story(scheduler: AsyncScheduler) -> None:
        assert (await lease_one(scheduler, wait=1)).attempt == 2

    world.play(next_story)


def test_a_consumer_that_waits_when_its_server_stops_is_sent_away(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> asyncio.Task[Any]:
        waiting = asyncio.create_task(scheduler.lease("emails", wait=60))
        await asyncio.sleep(1)
        await scheduler.stop()
        assert await waiting == []
        return waiting

    world.play(story)


def test_a_consumer_that_hangs_up_while_it_is_served_takes_nothing_with_it(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        for number in range(50):
            await scheduler.add(queue="emails", id=f"m{number}")
        await asyncio.sleep(0.1)
        for steps in range(12):  # it hangs up a little later each time
            consumer = asyncio.create_task(scheduler.lease("emails", limit=50))
            for _ in range(steps):
                await asyncio.sleep(0)
            if consumer.cancel():
                assert await asyncio.gather(consumer, return_exceptions=True)
            elif not consumer.cancelled():
                for message in await consumer:
                    await scheduler.nack(message.id, message.lease_token, delay=0)
            await asyncio.sleep(0.1)
        left = await scheduler.lease("emails", limit=50, wait=1)
        assert len(left) == 50
        assert {(await scheduler.get(message.id)).status for message in left} == {Status.RUNNING}

    world.play(story)


def test_a_task_that_took_the_place_of_a_message_is_not_leased(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add(queue="emails", id="m")
        await asyncio.sleep(1)
        await scheduler.add("note", {"what": "m"}, id="m", on_conflict="replace")
        assert await scheduler.lease("emails", wait=1) == []
        assert [what for _, what in world.ran] == ["m"]
        await scheduler.add(queue="emails", id="n")
        await scheduler.add(queue="letters", id="n", on_conflict="replace")
        assert await scheduler.lease("emails", wait=1) == []
        assert (await lease_one(scheduler, "letters", wait=1)).id == "n"

    world.play(story)


@pytest.mark.parametrize("seed", range(4))
def test_many_consumers_never_have_the_same_message_and_miss_none(seed: int) -> None:
    world = World(seed)
    chance = Random(seed)
    held: dict[str, tuple[int, int]] = {}  # by message: who has it, and until when
    done: Counter[str] = Counter()

    async def consume(scheduler: AsyncScheduler, who: int) -> None:
        while len(done) < 100:
            messages = await scheduler.lease("emails", limit=chance.randint(1, 5), lease=2, wait=3)
            for message in messages:
                owner = held.get(message.id)
                assert owner is None or owner[1] <= world.now(), f"{message.id} is {owner}'s, and {who} got it"
                held[message.id] = (who, message.expires)
            for message in messages:
                await asyncio.sleep(chance.choice([0.0, 0.3, 2.5]))
                if held.get(message.id) == (who, message.expires):
                    del held[message.id]  # from here on it is the scheduler's again
                try:
                    if chance.random() < 0.2:
                        await scheduler.nack(message.id, message.lease_token, "no luck", delay=chance.random())
                    else:
                        await scheduler.ack(message.id, message.lease_token)
                        done[message.id] += 1
                except LeaseLost:
                    pass

    async def story(scheduler: AsyncScheduler) -> None:
        policy = RetryPolicy(retries=1000, first_ms=100, cap_ms=1_000)
        for number in range(100):
            await scheduler.add(queue="emails", id=f"m{number}", delay=chance.uniform(0, 30), retry=policy)
        await asyncio.gather(*(consume(scheduler, who) for who in range(8)))
        assert set(done.values()) == {1}
        assert (await scheduler.counts())[Status.COMPLETED] == 100

    world.play(story)


def consume_all(fail_at: int, *, after: bool) -> tuple[FlakyStore, set[Status]]:
    world = World(lease_ttl_ms=3_000, rescan_ms=5_000, horizon_ms=15_000)
    flaky: Any = FlakyStore(world.store, fail_at, after=after)
    world.store = flaky
    wanted = [{"queue": "emails", "id": f"m{number}", "delay": number * 4} for number in range(3)]

    async def story(scheduler: AsyncScheduler) -> set[Status]:
        for _ in range(60):
            with suppress(StoreError, LeaseLost):  # as a consumer does, it goes on
                await scheduler.add_many(wanted, on_conflict="keep")
                for message in await scheduler.lease("emails", limit=1, lease=5, wait=2):
                    await scheduler.ack(message.id, message.lease_token)
        return {(await scheduler.get(f"m{number}")).status for number in range(3)}

    while True:
        try:
            return flaky, world.play(story)
        except StoreError:
            world.clock.advance(4)  # it could not start, or stop: as a supervisor does, try again


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_whichever_call_of_the_store_fails_every_message_is_done(after: bool) -> None:
    for fail_at in range(1, 40):
        flaky, statuses = consume_all(fail_at, after=after)
        assert statuses == {Status.COMPLETED}, (fail_at, flaky.failed)


def test_what_cannot_be_is_refused(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        for name in ("", "a b", "x" * 101, "a:b", "a/b", 7):
            with pytest.raises(InvalidTask, match=r"invalid queue .*expected a name of 1 to 100"):
                await scheduler.add(queue=name)  # type: ignore[arg-type] # on purpose
        with pytest.raises(InvalidTask, match="say one of them"):
            await scheduler.add("note", {"what": "x"}, queue="emails")
        with pytest.raises(InvalidTask, match="say which"):
            await scheduler.add()
        with pytest.raises(InvalidTask, match="say webhook or queue"):
            await scheduler.add("queue:emails")
        with pytest.raises(InvalidTask, match="a way of delivery"):
            scheduler.task("queue:emails")(print)
        with pytest.raises(InvalidLimit):
            await scheduler.lease("emails", limit=0)
        for lease in (0.05, "13h"):
            with pytest.raises(InvalidLease):
                await scheduler.lease("emails", lease=lease)
        with pytest.raises(InvalidLease):
            await scheduler.lease("emails", wait="2m")
        with pytest.raises(InvalidDuration):
            await scheduler.lease("emails", wait=-1)
        assert sum((await scheduler.counts()).values()) == 0

    world.play(story)


def test_only_one_who_runs_tasks_can_lease_them(world: World) -> None:
    async def story(scheduler: AsyncScheduler) -> None:
        await scheduler.add(queue="emails", id="m")
        with pytest.raises(NoQueuesHere):
            await scheduler.lease("emails")

    world.play(story, run=False)
