"""Who comes first: the same task added by many at once, and cancels and moves that come just when it is due."""

import asyncio
from collections import Counter
from pathlib import Path
from random import Random

from tests.cluster.checker import Target
from tests.cluster.nodes import Nodes, now_ns, play, wall_ahead_ns
from tests.cluster.places import Place
from tests.cluster.stream import Stream
from tickwheel.errors import DuplicateTask, TaskFinished, TaskRunning
from tickwheel.scheduler import AsyncScheduler
from tickwheel.tasks import Status

TASKS = 120


def test_the_same_add_sent_by_many_is_one_task(place: Place, tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        await asyncio.gather(nodes.start("a"), nodes.start("b"))
        async with AsyncScheduler(place.url, run=False) as other:
            adders = [nodes.adder, other] * 5
            for kind in ("keep", "reject"):
                answers = await asyncio.gather(
                    *(adder.add("work", {}, id=kind, delay=60, on_conflict=kind) for adder in adders),
                    return_exceptions=True,
                )
                refused = [answer for answer in answers if isinstance(answer, DuplicateTask)]
                assert len(refused) == (0 if kind == "keep" else len(adders) - 1)
                await other.run_now(kind)
                nodes.acknowledged.append(kind)
            await nodes.until_done()
            ran = Counter(line.id for line in nodes.lines() if line.what == "begin")
            assert ran == {"keep": 1, "reject": 1}
            before = await nodes.as_they_are(["keep"])
            for adder in adders:
                assert (await adder.add("work", {}, id="keep", on_conflict="keep")).status is Status.COMPLETED
            assert await nodes.as_they_are(["keep"]) == before, "what is over stays so"
            again = await asyncio.gather(
                *(adder.add("work", {}, id="reject") for adder in adders), return_exceptions=True
            )
            assert all(isinstance(answer, DuplicateTask) for answer in again), "an id runs successfully only once"
            await asyncio.sleep(1)
        ran = Counter(line.id for line in nodes.lines() if line.what == "begin")
        assert ran == {"keep": 1, "reject": 1}

    play(tmp_path, place.url, story)


def test_a_cancel_or_a_move_wins_or_comes_too_late_but_never_both(place: Place, tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        await asyncio.gather(nodes.start("a"), nodes.start("b"))
        await nodes.until_shares(32, 32)
        stream = Stream(nodes, Random(0))
        won: Counter[tuple[str, bool]] = Counter()
        due_s = 3.0  # long after all have been added
        added = await nodes.adder.add_many(
            {"handler": "work", "args": {"seconds": 0.01}, "delay": due_s, "id": f"task-{number}"}
            for number in range(TASKS)
        )
        stream.targets |= {task.id: Target(task.run_at) for task in added}

        async def cancel(task_id: str) -> bool:
            answer = await nodes.adder.cancel(task_id)
            if answer.status is Status.CANCELLED:
                stream.targets[task_id].cancelled_ns = now_ns()
            stream.targets[task_id].certain = answer.status is not Status.RUNNING
            return answer.status is Status.CANCELLED

        async def move(task_id: str) -> bool:
            asked_ns = now_ns()
            try:
                moved = await nodes.adder.reschedule(task_id, delay=0.5)
            except (TaskRunning, TaskFinished):
                return False
            stream.targets[task_id].move(moved.run_at, asked_ns, now_ns())
            return True

        async def race(number: int) -> None:
            # From long before it is due, when nobody has claimed it, until long after; most of them when it is.
            left_s = (added[number].run_at * 1_000_000 - wall_ahead_ns() - now_ns()) / 1e9
            await asyncio.sleep(left_s + 1.0 * (2 * number / TASKS - 1) ** 3)
            act = cancel if number % 2 else move
            won[act.__name__, await act(f"task-{number}")] += 1

        await asyncio.gather(*map(race, range(TASKS)))
        verdict = await stream.judged([])
        assert verdict.good, str(verdict)
        assert {what for what, _ in won} == {"cancel", "move"}, won

    play(tmp_path, place.url, story)
