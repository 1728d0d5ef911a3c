"""Whose turn it is: by priority, then first come, within the limits of handlers, pools and the queue."""

import asyncio
import threading
import time
from asyncio import AbstractEventLoop
from asyncio import Task as Future
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.workers.functions import PATIENCE_S, handler, task, worker_threads
from tickwheel.errors import RunCancelled, WorkersFull
from tickwheel.tasks import Flag, Handler
from tickwheel.workers import Job, Workers
from tickwheel.workers.run_queue import RunQueue


class Gate:
    """A handler on threads that says when a run has begun, and ends it when told."""

    def __init__(self, name: str, concurrency: int | None = None) -> None:
        self.handler = handler(self._run, name=name, concurrency=concurrency)
        self.begun: list[str] = []
        self.changed = threading.Condition()
        self.released: set[str] = set()
        self.most = self._now = 0

    def _run(self, context: Any) -> str:
        with self.changed:
            self.begun.append(context.id)
            self._now += 1
            self.most = max(self.most, self._now)
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: context.id in self.released or "all" in self.released, PATIENCE_S)
            self._now -= 1
            return str(context.id)

    def release(self, *names: str) -> None:
        with self.changed:
            self.released.update(names)
            self.changed.notify_all()

    async def wait_for(self, count: int) -> None:
        """Wait until so many runs have begun; the loop stays free."""

        def wait() -> bool:
            with self.changed:
                return self.changed.wait_for(lambda: len(self.begun) >= count, PATIENCE_S)

        assert await asyncio.to_thread(wait)


def begin(workers: Workers, handler: Handler, name: str, priority: int = 0) -> Future[Any]:
    return asyncio.ensure_future(workers.run(handler, task(name, priority=priority)))


async def settle() -> None:
    """Let everything that was begun take its place in line."""
    for _ in range(3):
        await asyncio.sleep(0)


def test_runs_begin_by_priority_and_then_as_they_came() -> None:
    async def main() -> None:
        workers, gate = Workers(threads=1), Gate("g")
        runs = [begin(workers, gate.handler, "first")]
        for name, priority in (("low", -1), ("a", 0), ("high", 5), ("b", 0), ("higher", 6), ("c", 0)):
            runs.append(begin(workers, gate.handler, name, priority))
            await settle()
        gate.release("all")
        await asyncio.gather(*runs)
        assert gate.begun == ["first", "higher", "high", "a", "b", "c", "low"]
        await workers.close()

    asyncio.run(main())


def test_handler_at_its_limit_is_in_nobodys_way() -> None:
    async def main() -> None:
        workers, one, other = Workers(threads=3), Gate("one", concurrency=1), Gate("other")
        runs = [begin(workers, one.handler, name, priority=9) for name in ("a", "b", "c")]
        runs += [begin(workers, other.handler, name) for name in ("x", "y")]
        await one.wait_for(1)
        await other.wait_for(2)  # though b and c came before, and matter more
        assert one.begun == ["a"]
        one.release("a")
        await one.wait_for(2)
        assert one.begun == ["a", "b"]
        other.release("all")
        one.release("all")
        assert await asyncio.gather(*runs) == ["a", "b", "c", "x", "y"]
        assert one.most == 1
        assert one.begun == ["a", "b", "c"]
        await workers.close()

    asyncio.run(main())


def test_limit_holds_for_async_handlers_too() -> None:
    async def main() -> None:
        workers, running, most, order = Workers(), 0, 0, []

        async def count(context: Any) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            order.append(context.id)
            await asyncio.sleep(0)
            running -= 1

        counted = handler(count, concurrency=3)
        names = [f"{number:02}" for number in range(40)]
        await asyncio.gather(*(begin(workers, counted, name) for name in names))
        assert most == 3
        assert order == names
        await workers.close()

    asyncio.run(main())


def test_run_called_back_and_then_cancelled_does_not_leave_others_waiting() -> None:
    async def main() -> None:
        workers, one, other = Workers(threads=1), Gate("one", concurrency=1), Gate("other")
        a, b, c = (begin(workers, one.handler, name) for name in "abc")
        await one.wait_for(1)
        x = begin(workers, other.handler, "x", priority=1)
        await settle()
        one.release("a")
        await other.wait_for(1)  # the only thread is taken again; b may run, and waits for it
        assert workers.cancel("b")
        other.release("all")
        one.release("all")
        assert [await a, await c, await x] == ["a", "c", "x"]
        with pytest.raises(RunCancelled):
            await b
        assert one.begun == ["a", "c"]
        await workers.close()

    asyncio.run(main())


def test_full_thread_pool_does_not_hold_up_the_loop() -> None:
    async def main() -> None:
        workers, gate = Workers(threads=1), Gate("g")
        runs = [begin(workers, gate.handler, name) for name in ("a", "b")]
        await gate.wait_for(1)

        async def quick() -> str:
            return "done"

        assert await workers.run(handler(quick), task("q")) == "done"
        gate.release("all")
        await asyncio.gather(*runs)
        await workers.close()

    asyncio.run(main())


def test_no_more_threads_are_started_than_allowed() -> None:
    async def main() -> None:
        before, workers, gate = worker_threads(), Workers(threads=3), Gate("g")
        runs = [begin(workers, gate.handler, str(number)) for number in range(10)]
        await gate.wait_for(3)
        await settle()
        assert len(worker_threads() - before) == 3
        assert len(gate.begun) == 3
        gate.release("all")
        await asyncio.gather(*runs)
        assert gate.most == 3
        await workers.close()

    asyncio.run(main())


def test_what_runs_and_waits_stays_within_the_queue() -> None:
    async def main() -> None:
        workers, gate = Workers(threads=1, queue_max=3), Gate("g")
        assert workers.free == 3
        runs = [begin(workers, gate.handler, name) for name in "abc"]
        await settle()
        assert workers.free == 0
        with pytest.raises(WorkersFull) as caught:
            await workers.run(gate.handler, task("d"))
        assert caught.value.queue_max == 3
        assert workers.cancel("c")
        assert workers.free == 1
        gate.release("all")
        assert await asyncio.gather(*runs[:2]) == ["a", "b"]
        assert workers.free == 3
        with pytest.raises(RunCancelled):
            await runs[2]
        await workers.close()

    asyncio.run(main())


# -- the line by itself


NO_LOOP = cast("AbstractEventLoop", SimpleNamespace(time=time.monotonic))  # nothing begins here


def job(name: str, handler_name: str, limit: int | None, priority: int = 0) -> Job:
    known = handler(len, name=handler_name, concurrency=limit)
    return Job(known, task(name, priority=priority), {}, Flag(), print, NO_LOOP)


@pytest.mark.parametrize("seed", range(20))
def test_line_is_what_sorting_all_who_wait_would_give(seed: int) -> None:
    chance, line = Random(seed), RunQueue()
    limits = {"a": 1, "b": 2, "c": None}
    waiting: list[Job] = []  # as they came
    running: list[Job] = []
    for step in range(600):
        what = chance.random()
        if what < 0.5:
            name = chance.choice("abc")
            waiting.append(job(str(step), name, limits[name], chance.randrange(3)))
            line.add(waiting[-1])
        elif what < 0.65 and waiting:
            gone = waiting.pop(chance.randrange(len(waiting)))
            assert line.remove(gone)
            assert not line.remove(gone)
        elif what < 0.85:
            able = [
                each
                for each in waiting
                if (limit := each.handler.concurrency) is None
                or sum(other.handler.name == each.handler.name for other in running) < limit
            ]
            expected = min(able, key=lambda each: -each.task.priority, default=None)
            assert line.next() is expected
            if expected is not None:
                waiting.remove(expected)
                running.append(expected)
        elif running:
            line.done(running.pop(chance.randrange(len(running))))
        assert len(line) == len(waiting)
    assert set(line.clear()) == set(waiting)
    assert len(line) == 0
    assert line.next() is None


def test_line_keeps_nothing_of_those_who_left() -> None:
    line = RunQueue()
    blocking = job("blocking", "a", 1)
    line.add(blocking)
    assert line.next() is blocking
    for number in range(10_000):
        each = job(str(number), "a", 1)
        line.add(each)
        assert line.next() is None
        line.remove(each)
    assert len(line._ready) + sum(map(len, line._aside.values())) < 100
