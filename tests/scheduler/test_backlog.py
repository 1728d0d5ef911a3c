"""What waits in queues is kept in order and within bounds; what does not fit is read again from the store."""

import asyncio
from typing import Any

import pytest

from tests.scheduler.worlds import World
from tickwheel.scheduler import AsyncScheduler
from tickwheel.scheduler.queues import queues
from tickwheel.scheduler.queues.backlog import Backlog
from tickwheel.stores.contract import Due


def due(task_id: str, queue: str = "q", run_at: int = 0, priority: int = 0) -> Due:
    return Due(run_at, task_id, 0, priority, 0, f"queue:{queue}")


def ids(entries: list[Due]) -> list[str]:
    return [entry.id for entry in entries]


def test_a_line_is_in_order_of_priority_and_then_of_due_time() -> None:
    lines = Backlog()
    for name, run_at, priority in (("a", 3, 0), ("b", 2, 0), ("c", 9, 5), ("d", 1, -5), ("e", 2, 0), ("f", 0, 0)):
        lines.put(due(name, run_at=run_at, priority=priority))
    lines.put(due("a", run_at=1))
    lines.drop("e")
    lines.drop("nobody")
    assert ids(lines.take("q", 2)) == ["c", "f"]
    assert ids(lines.take("q", 5)) == ["a", "b", "d"]
    assert (len(lines), lines.holds("q"), lines.take("q", 5)) == (0, False, [])


def test_entries_that_were_dropped_or_changed_are_swept() -> None:
    lines = Backlog()
    for number in range(1000):
        lines.put(due("a", run_at=number))
        lines.put(due("b", run_at=number))
    assert len(lines._lines["q"]._heap) < 200
    assert [(entry.id, entry.run_at) for entry in lines.take("q", 5)] == [("a", 999), ("b", 999)]


def test_a_task_that_changes_its_queue_waits_in_the_new_one_alone() -> None:
    lines = Backlog()
    lines.put(due("a", "p"))
    lines.put(due("a", "q"))
    assert (ids(lines.take("p", 5)), ids(lines.take("q", 5))) == ([], ["a"])


def test_a_line_that_is_full_remembers_that_there_is_more() -> None:
    lines = Backlog(line_max=2, lines_max=2)
    for name in "abc":
        lines.put(due(name))
    lines.put(due("p", "p"))
    assert (lines.is_cut("q"), lines.is_cut("p"), lines.is_cut("r"), len(lines)) == (True, False, False, 3)
    lines.put(due("r", "r"))
    assert (lines.is_cut("r"), lines.is_cut("p"), "r" in lines) == (True, False, False)
    lines.put(due("urgent", priority=1))
    lines.put(due("bb"))
    assert ids(lines.take("q", 5)) == ["urgent", "a"], "what ranks behind b may be more than is known"
    lines.refill("q", [due("b"), due("bb"), due("c")], None)
    assert lines.is_cut("q")
    assert ids(lines.take("q", 5)) == ["b", "bb"]
    lines.refill("q", [due("c")], None)
    assert not lines.is_cut("q")
    assert ids(lines.take("q", 5)) == ["c"]


def test_what_is_not_read_of_a_full_line_is_not_overtaken() -> None:
    lines = Backlog(line_max=3)
    for name, priority in (("a", 9), ("b", 8), ("late", -1)):
        lines.put(due(name, priority=priority))
    assert lines.leave_out_behind((8, 0, "b"), ["p"]) == ["q"], "it is full, and c, which comes next, is not read"
    assert lines.leave_out_behind((7, 0, "c"), ["q"]) == []
    assert (ids(lines.take("q", 5)), lines.is_cut("q")) == (["a", "b"], True)


@pytest.mark.parametrize(("line_max", "lines_max"), [(3, 10), (1, 1), (100, 1)])
def test_what_was_left_out_of_a_line_is_leased_all_the_same(
    monkeypatch: pytest.MonkeyPatch, line_max: int, lines_max: int
) -> None:
    monkeypatch.setattr(queues, "Backlog", lambda: Backlog(line_max, lines_max))  # the real ones, with less room
    monkeypatch.setattr(queues, "PAGE", 4)
    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        names = [f"{queue}{number}" for number in range(10) for queue in "ab"]
        await scheduler.add_many([{"queue": name[0], "id": name} for name in names])
        await asyncio.sleep(1)
        got: list[str] = []
        for queue in "ab":
            while messages := await scheduler.lease(queue, limit=2):
                for message in messages:
                    got.append(message.id)
                    await scheduler.ack(message.id, message.lease_token)
        assert sorted(got) == sorted(names)

    world.play(story)


@pytest.mark.parametrize("line_max", [1, 3, 20, 10_000])
@pytest.mark.parametrize("before", [True, False], ids=["added before the start", "added while it runs"])
def test_messages_are_leased_by_priority_and_then_due_time_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch, line_max: int, *, before: bool
) -> None:
    monkeypatch.setattr(queues, "Backlog", lambda: Backlog(line_max))
    monkeypatch.setattr(queues, "PAGE", 4)
    world = World(batch_max=5)
    places = [(number * 7 % 5, number * 11 % 13, f"{number:02}") for number in range(60)]

    async def story() -> None:
        async with world.scheduler(run=False) as client, world.scheduler() as scheduler:
            await scheduler.stop()
            wanted = [
                {"queue": "q", "id": name, "priority": priority, "delay": delay} for priority, delay, name in places
            ]
            if not before:
                await scheduler.start()
            for first in range(0, 60, 10):
                await client.add_many([{"queue": "other"}] * 5)
                await client.add_many(wanted[first : first + 10])
            await asyncio.sleep(20)
            await scheduler.start()
            await asyncio.sleep(1)
            got: list[str] = []
            while messages := await scheduler.lease("q", limit=7):
                got += [message.id for message in messages]
            assert got == [name for *_, name in sorted(places, key=lambda each: (-each[0], each[1], each[2]))]
            await client.add_many({"queue": "q", "id": f"n{number}", "priority": number} for number in range(9))
            await asyncio.sleep(1)
            assert (await scheduler.lease("q", limit=1))[0].id == "n8"

    world.perform(story)


def test_a_consumer_that_is_gone_while_a_line_is_read_again_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "Backlog", lambda: Backlog(2))
    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        names = [f"{number}" for number in range(9)]
        await scheduler.add_many([{"queue": "q", "id": name} for name in names])
        await asyncio.sleep(1)
        got = [message.id for message in await scheduler.lease("q", limit=2)]
        overdue = world.store.overdue  # type: ignore[attr-defined]

        async def slow(*args: Any) -> list[Due]:
            page: list[Due] = await overdue(*args)
            await asyncio.sleep(1)
            return page

        monkeypatch.setattr(world.store, "overdue", slow)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await scheduler.lease("q", limit=9)
        while messages := await scheduler.lease("q", limit=2):
            got += [message.id for message in messages]
        assert got == names

    world.play(story)
