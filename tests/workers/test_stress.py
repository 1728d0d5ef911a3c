"""Thousands of runs in every pool, cancelled at random: each ends once, with one outcome, and nothing is left."""

import asyncio
import multiprocessing
import threading
from collections import Counter
from random import Random

import pytest

from tests.workers.functions import PATIENCE_S, double, handler, in_process, task, worker_threads
from tickwheel.errors import RunCancelled, RunTimedOut
from tickwheel.tasks import TaskContext
from tickwheel.workers import Workers

RUNS = 5000
AT_ONCE = 200


class Broken(Exception):
    """What some of the runs raise."""


class Trial:
    """Many runs, and what became of each."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.workers = Workers(threads=4, processes=2, queue_max=2 * AT_ONCE)
        self.calls: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.outcomes: dict[str, list[str]] = {str(number): [] for number in range(RUNS)}
        self.cancelled: set[str] = set()
        self.handlers = [
            handler(self.count, name="thread"),
            handler(self.count, name="limited", concurrency=2),
            handler(self.step, name="loop"),
            handler(self.step, name="loop-limited", concurrency=3),
            handler(self.hang, name="hang"),
            in_process(double),
        ]

    def count(self, context: TaskContext, number: int) -> int:
        with self.lock:
            self.calls[context.id] += 1
        if number % 10 == 0:
            raise Broken
        return number

    async def step(self, context: TaskContext, number: int) -> int:
        for _ in range(number % 4):
            await asyncio.sleep(0)
        return self.count(context, number)

    async def hang(self, context: TaskContext, number: int) -> None:
        self.count(context, number + 1 - number % 10)
        await asyncio.Event().wait()

    async def run(self, number: int) -> None:
        name, outcome = str(number), "caller gone"
        chosen = self.chance.choices(self.handlers, (30, 20, 30, 15, 2, 10))[0]
        timeout_ms = 5 if chosen.name == "hang" else 30_000
        wanted = task(name, priority=self.chance.randrange(3), timeout_ms=timeout_ms, number=number)
        try:
            result = await self.workers.run(chosen, wanted)
            outcome = "result" if result == (2 * number if chosen.pool == "process" else number) else "wrong"
        except (Broken, RunTimedOut, RunCancelled) as error:
            outcome = type(error).__name__
        finally:
            self.outcomes[name].append(outcome)

    async def run_all(self) -> None:
        room = asyncio.Semaphore(AT_ONCE)
        runs: list[asyncio.Task[None]] = []
        for number in range(RUNS):
            await room.acquire()
            runs.append(asyncio.ensure_future(self.run(number)))
            runs[-1].add_done_callback(lambda _: room.release())
            victim = self.chance.randrange(max(0, number - AT_ONCE), number + 1)
            if self.chance.random() < 0.3 and self.workers.cancel(str(victim)):
                self.cancelled.add(str(victim))
            if self.chance.random() < 0.02:
                runs[victim].cancel()
        await asyncio.wait(runs)
        for name, run in enumerate(runs):
            assert run.cancelled() or run.exception() is None
            if run.cancelled() and not self.outcomes[str(name)]:
                self.outcomes[str(name)].append("caller gone")  # before its first step: it never asked for a run


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_every_run_ends_once_and_nothing_is_left(seed: int) -> None:
    async def main() -> None:
        before, tasks = worker_threads(), asyncio.all_tasks()
        trial = Trial(seed)
        await trial.run_all()
        assert await trial.workers.close(PATIENCE_S) == []
        assert {len(each) for each in trial.outcomes.values()} == {1}
        kinds = Counter(each[0] for each in trial.outcomes.values())
        assert set(kinds) == {"result", "Broken", "RunTimedOut", "RunCancelled", "caller gone"}
        told = {name for name, (outcome,) in trial.outcomes.items() if outcome == "RunCancelled"}
        gone = {name for name, (outcome,) in trial.outcomes.items() if outcome == "caller gone"}
        done = {name for name, (outcome,) in trial.outcomes.items() if outcome == "result"}
        assert trial.cancelled - gone - done <= told <= trial.cancelled  # who returns all the same has its result
        assert set(trial.calls.values()) == {1}
        assert trial.workers.free == 2 * AT_ONCE
        assert (trial.workers._jobs, trial.workers._begun) == ({}, {})
        assert worker_threads() <= before
        assert multiprocessing.active_children() == []
        assert asyncio.all_tasks() == tasks

    asyncio.run(main())
