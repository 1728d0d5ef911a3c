"""What waits in queues is kept in order and within bounds; what does not fit is read again from the store."""

import asyncio

import pytest

from tests.scheduler.worlds import World
from tickwheel.scheduler import AsyncScheduler
from tickwheel.scheduler.queues import queues
from tickwheel.scheduler.queues.backlog import Backlog
from tickwheel.stores.contract import Due


def due(task_id: str, queue: str = "q", run_at: int = 0) -> Due:
    return Due(run_at, task_id, 0, 0, 0, f"queue:{queue}")


def ids(entries: list[Due]) -> list[str]:
    return [entry.id for entry in entries]


def test_a_line_keeps_the_order_of_arrival() -> None:
    lines = Backlog()
    for name in "abc":
        lines.put(due(name))
    lines.put(due("a", run_at=7))
    lines.drop("b")
    lines.drop("nobody")
    assert ids(lines.take("q", 5)) == ["a", "c"]
    assert (len(lines), lines.holds("q"), lines.take("q", 5)) == (0, False, [])


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
    lines.mend("q")
    assert not lines.is_cut("q")


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
