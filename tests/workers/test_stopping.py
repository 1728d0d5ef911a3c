"""Runs end in time, when they are told to, and when the workers are closed; each in its own way, and once."""

import asyncio
import logging
import multiprocessing
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.workers import functions
from tests.workers.functions import PATIENCE_S, alive, handler, in_process, task, told, worker_threads
from tickwheel import aio
from tickwheel.clock import VirtualClock
from tickwheel.errors import RunCancelled, RunFailed, RunNotBegun, RunTimedOut, TaskRunning, WorkersClosed
from tickwheel.tasks import TaskContext
from tickwheel.workers import LoopPool, Outcome, Workers


class Held:
    """A function on a thread that does not look at its flag until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go = threading.Event()
        self.flags: list[bool] = []
        self.inside = self.most = 0

    def __call__(self, context: TaskContext) -> str:
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.begun.set()
        assert self.go.wait(PATIENCE_S)
        self.flags.append(context.cancelled)
        self.inside -= 1
        return "done"

    async def wait_begun(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, PATIENCE_S)


def look(context: TaskContext) -> str:
    """Wait for the flag, as a handler should."""
    ends_s = time.monotonic() + PATIENCE_S
    while not context.cancelled:
        assert time.monotonic() < ends_s
        time.sleep(0.001)
    return "saw it"


async def all_over(workers: Workers) -> None:
    """Wait until what was left behind has given up its place."""
    await asyncio.wait(workers._begun.values(), timeout=PATIENCE_S)
    assert not workers._begun


class Bell(logging.Handler):
    """Rings when something is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.rung = asyncio.Event()
        self.words: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.words.append(record.getMessage())
        self.rung.set()


@pytest.fixture
def started(tmp_path: Path) -> str:
    """Return a named pipe, which a process opens when it has begun."""
    path = str(tmp_path / "started")
    os.mkfifo(path)
    return path


# -- out of time


@pytest.mark.parametrize(("seconds", "in_time"), [(1, True), (2.5, False)])
def test_async_run_that_blocks_the_loop_beyond_its_timeout_is_out_of_time(seconds: float, in_time: bool) -> None:
    clock = VirtualClock()

    async def block() -> str:
        clock.advance(seconds)
        return "done"

    async def main() -> None:
        workers = Workers()
        running = workers.run(handler(block), task(timeout_ms=1000))
        if in_time:
            assert await running == "done"
        else:
            with pytest.raises(RunTimedOut):
                await running
        assert await workers.close() == []

    aio.run(main(), clock=clock)


def test_async_run_out_of_time_is_cancelled() -> None:
    async def main() -> None:
        workers, ended = Workers(), asyncio.Event()

        async def hang() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        with pytest.raises(RunTimedOut) as caught:
            await workers.run(handler(hang), task("slow", timeout_ms=20))
        assert (caught.value.task_id, caught.value.seconds) == ("slow", 0.02)
        assert isinstance(caught.value, TimeoutError)
        assert ended.is_set()
        assert workers.free == 1000
        assert await workers.close() == []

    asyncio.run(main())


@pytest.mark.parametrize("cancelled", [False, True])
def test_async_run_that_swallows_its_cancellation_is_stuck_until_it_returns(cancelled: bool) -> None:
    async def main() -> None:
        workers, begun, go, bell = Workers(queue_max=5), asyncio.Event(), asyncio.Event(), Bell()
        workers._pools["loop"] = LoopPool(patience_s=0.02)
        logging.getLogger("tickwheel.workers").addHandler(bell)

        async def swallow() -> None:
            begun.set()
            with suppress(asyncio.CancelledError):
                await go.wait()
            await go.wait()
            raise ValueError

        running = asyncio.ensure_future(workers.run(handler(swallow), task("slow", timeout_ms=10)))
        await begun.wait()
        assert not cancelled or workers.cancel("slow")
        await asyncio.wait_for(bell.rung.wait(), PATIENCE_S)
        logging.getLogger("tickwheel.workers").removeHandler(bell)
        assert ["'swallow' of task 'slow' ignores its timeout" in words for words in bell.words] == [True]
        assert (workers.stuck, workers.free) == ({"slow"}, 4)
        with pytest.raises(TaskRunning):
            await workers.run(handler(swallow), task("slow"))
        assert not running.done(), "it is not over, and must not be retried"
        go.set()
        with pytest.raises(RunCancelled if cancelled else RunTimedOut):
            await running
        assert (workers.stuck, workers.free) == (set(), 5)
        await workers.close()

    asyncio.run(main())


def test_thread_that_looks_at_its_flag_is_out_of_time_at_once() -> None:
    async def main() -> None:
        workers = Workers(threads=1)
        with pytest.raises(RunTimedOut):
            await workers.run(handler(look), task("slow", timeout_ms=20))
        assert workers.stuck == set()
        await workers.close()

    asyncio.run(main())


def test_thread_that_ignores_its_timeout_is_stuck_until_it_returns() -> None:
    async def main() -> None:
        workers, held, bell = Workers(threads=1, stuck_after_s=0.02), Held(), Bell()
        logging.getLogger("tickwheel.workers").addHandler(bell)
        running = asyncio.ensure_future(workers.run(handler(held, name="orders.pay"), task("slow", timeout_ms=10)))
        await asyncio.wait_for(bell.rung.wait(), PATIENCE_S)
        logging.getLogger("tickwheel.workers").removeHandler(bell)
        assert ["'orders.pay' of task 'slow' ignores its timeout" in words for words in bell.words] == [True]
        assert workers.stuck == {"slow"}
        assert not running.done(), "it is not over, and must not be retried"
        held.go.set()
        with pytest.raises(RunTimedOut):
            await running
        assert held.flags == [True]
        assert workers.stuck == set()
        await workers.close()

    asyncio.run(main())


def test_threads_that_are_stuck_are_replaced_up_to_a_bound() -> None:
    async def main() -> None:
        before = worker_threads()
        workers, held = Workers(threads=4, stuck_after_s=0.01), Held()
        stuck = [asyncio.ensure_future(workers.run(handler(held), task(str(n), timeout_ms=10))) for n in range(4)]
        await asyncio.sleep(0)
        assert await workers.run(handler(lambda: "quick"), task("next")) == "quick"
        assert workers.stuck, "it has the place of one of them"
        stuck += [asyncio.ensure_future(workers.run(handler(held), task(str(n), timeout_ms=10))) for n in range(4, 8)]
        while len(workers.stuck) < 8:  # noqa: ASYNC110 - they have to run out of time
            await asyncio.sleep(0.01)
        last = asyncio.ensure_future(workers.run(handler(lambda: "last"), task("last")))
        await asyncio.sleep(0.05)
        assert not last.done(), "there are eight threads, and no more"
        assert len(worker_threads() - before) == 8
        held.go.set()
        assert await last == "last"
        assert [type(each) for each in await asyncio.gather(*stuck, return_exceptions=True)] == [RunTimedOut] * 8
        await workers.close()

    asyncio.run(main())


def test_limit_of_a_handler_counts_threads_that_are_stuck() -> None:
    async def main() -> None:
        workers, held = Workers(threads=2, stuck_after_s=0.01), Held()
        limited = handler(held, name="limited", concurrency=1)
        first = asyncio.ensure_future(workers.run(limited, task("a", timeout_ms=10)))
        again = asyncio.ensure_future(workers.run(limited, task("b")))
        while not workers.stuck:  # noqa: ASYNC110 - it has to run out of time
            await asyncio.sleep(0.01)
        held.go.set()
        assert await again == "done"
        assert (held.flags, held.most) == ([True, False], 1)
        with pytest.raises(RunTimedOut):
            await first
        await workers.close()

    asyncio.run(main())


def test_process_out_of_time_is_terminated(tmp_path: Path) -> None:
    async def main() -> None:
        workers = Workers(processes=1)
        first = await workers.run(in_process(functions.pid), task())
        with pytest.raises(RunTimedOut):
            await workers.run(
                in_process(functions.wait_forever), task(timeout_ms=100, started=str(tmp_path / "started"))
            )
        assert workers.free == 1000
        assert await workers.run(in_process(functions.pid), task()) != first
        assert await workers.close() == []
        assert multiprocessing.active_children() == []

    asyncio.run(main())


# -- cancelled


def test_waiting_run_that_is_cancelled_never_begins() -> None:
    async def main() -> None:
        workers, held = Workers(threads=1), Held()
        first = asyncio.ensure_future(workers.run(handler(held), task("a")))
        calls: list[int] = []
        second = asyncio.ensure_future(workers.run(handler(lambda: calls.append(1)), task("b")))
        await held.wait_begun()
        assert workers.cancel("b")
        with pytest.raises(RunCancelled) as caught:
            await second
        assert (caught.value.task_id, caught.value.closing) == ("b", False)
        assert not workers.cancel("b")
        held.go.set()
        assert await first == "done"
        assert calls == []
        await workers.close()

    asyncio.run(main())


def test_async_run_that_is_cancelled_cleans_up_first() -> None:
    async def main() -> None:
        workers, begun, flags = Workers(), asyncio.Event(), []

        async def hang(context: TaskContext) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                flags.append(context.cancelled)

        running = asyncio.ensure_future(workers.run(handler(hang), task("a")))
        await begun.wait()
        assert workers.cancel("a")
        assert workers.cancel("a")
        with pytest.raises(RunCancelled):
            await running
        assert flags == [True]
        await workers.close()

    asyncio.run(main())


def test_async_run_that_is_cancelled_before_its_first_step_runs_nothing() -> None:
    async def main() -> None:
        workers, calls = Workers(), []

        async def note() -> None:
            calls.append(1)  # pragma: no cover

        running = asyncio.ensure_future(workers.run(handler(note), task("a")))
        asyncio.get_running_loop().call_soon(workers.cancel, "a")
        with pytest.raises(RunCancelled):
            await running
        assert calls == []
        assert workers.free == 1000
        await workers.close()

    asyncio.run(main())


@pytest.mark.parametrize("begun", [False, True])
def test_async_run_whose_task_other_code_ends_gives_up_its_place(begun: bool) -> None:
    async def main() -> None:
        workers = Workers()
        outcomes: asyncio.Queue[Outcome] = asyncio.Queue()
        job = workers.begin(
            handler(asyncio.sleep), task("a", timeout_ms=50, delay=60), lambda _, outcome: outcomes.put_nowait(outcome)
        )
        assert isinstance(job.over, asyncio.Task)
        if begun:
            await asyncio.sleep(0)
            job.over.get_coro().close()
        job.over.cancel()
        outcome = await asyncio.wait_for(outcomes.get(), PATIENCE_S)
        assert isinstance(outcome.error, RunFailed if begun else RunNotBegun)
        assert workers.free == 1000
        await workers.close()

    asyncio.run(main())


def test_thread_that_is_cancelled_sees_the_flag() -> None:
    async def main() -> None:
        workers = Workers(threads=1)
        running = asyncio.ensure_future(workers.run(handler(look), task("a")))
        await asyncio.sleep(0)
        assert workers.cancel("a")
        with pytest.raises(RunCancelled):
            await running
        assert workers.free == 1000  # it has returned
        await workers.close()

    asyncio.run(main())


def test_cancelled_thread_that_does_not_look_is_stuck_when_its_time_is_up() -> None:
    async def main() -> None:
        workers, held = Workers(threads=1, stuck_after_s=0.01), Held()
        running = asyncio.ensure_future(workers.run(handler(held), task("a", timeout_ms=50)))
        await held.wait_begun()
        assert workers.cancel("a")
        while not workers.stuck:  # noqa: ASYNC110 - it has to run out of time
            await asyncio.sleep(0.01)
        assert not running.done()
        held.go.set()
        await running  # it has done its work
        await workers.close()

    asyncio.run(main())


@pytest.mark.parametrize("function", [functions.wait_forever, functions.wait_stubbornly])
def test_process_that_is_cancelled_is_gone(function: Any, started: str) -> None:
    async def main() -> None:
        workers = Workers(processes=1)
        running = asyncio.ensure_future(workers.run(in_process(function), task("a", started=started)))
        pid = await told(started)
        assert workers.cancel("a")
        with pytest.raises(RunCancelled):
            await running
        assert not alive(pid)
        await workers.close()

    asyncio.run(main())


def test_process_that_is_cancelled_while_it_starts_does_not_run(tmp_path: Path) -> None:
    async def main() -> None:
        workers, path = Workers(processes=1), tmp_path / "started"
        running = asyncio.ensure_future(workers.run(in_process(functions.wait_forever), task("a", started=str(path))))
        await asyncio.sleep(0)
        assert workers.cancel("a")
        with pytest.raises(RunCancelled):
            await running
        assert await workers.run(in_process(functions.double), task(number=2)) == 4
        await workers.close()

    asyncio.run(main())
    assert not (tmp_path / "started").exists()


def test_unknown_task_cannot_be_cancelled() -> None:
    assert not Workers().cancel("nobody")


def test_run_that_is_over_cannot_be_cancelled() -> None:
    async def main() -> None:
        workers = Workers(threads=1)
        running = asyncio.ensure_future(workers.run(handler(lambda: 1), task("a")))
        await asyncio.sleep(0)
        (job,) = workers._begun
        assert job.over is not None
        answers: list[bool] = []
        job.over.add_done_callback(lambda _: answers.append(workers.cancel("a")))
        assert await running == 1
        assert answers == [False]
        await workers.close()

    asyncio.run(main())


# -- the caller is cancelled


def test_run_is_cancelled_with_its_caller() -> None:
    async def main() -> None:
        workers, begun, ended = Workers(), asyncio.Event(), asyncio.Event()

        async def hang() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                ended.set()

        running = asyncio.ensure_future(workers.run(handler(hang), task("a")))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert ended.is_set()
        assert workers.free == 1000
        assert not workers.cancel("a")
        await workers.close()

    asyncio.run(main())


def test_thread_is_told_that_its_caller_is_gone() -> None:
    async def main() -> None:
        workers, held = Workers(threads=1), Held()
        running = asyncio.ensure_future(workers.run(handler(held), task("a")))
        await held.wait_begun()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        held.go.set()
        await all_over(workers)
        assert held.flags == [True]
        await workers.close()

    asyncio.run(main())


def test_waiting_run_leaves_with_its_caller() -> None:
    async def main() -> None:
        workers, held = Workers(threads=1), Held()
        first = asyncio.ensure_future(workers.run(handler(held), task("a")))
        second = asyncio.ensure_future(workers.run(handler(held), task("b")))
        await held.wait_begun()
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert workers.free == 999
        held.go.set()
        await first
        assert held.flags == [False]
        await workers.close()

    asyncio.run(main())


# -- closing


def test_close_waits_for_what_runs_and_begins_nothing_more() -> None:
    async def main() -> None:
        workers, held = Workers(threads=1), Held()
        running = asyncio.ensure_future(workers.run(handler(held), task("a")))
        waiting = asyncio.ensure_future(workers.run(handler(held), task("b")))
        await held.wait_begun()
        closing = asyncio.ensure_future(workers.close(PATIENCE_S))
        with pytest.raises(WorkersClosed):
            await waiting
        with pytest.raises(WorkersClosed):
            await workers.run(handler(held), task("c"))
        assert not closing.done()
        held.go.set()
        assert await running == "done"
        assert await closing == []
        assert await workers.close(0) == []

    asyncio.run(main())


def test_close_stops_what_still_runs_and_says_what_it_was(started: str) -> None:
    async def main() -> None:
        before, workers, held = worker_threads(), Workers(threads=2, processes=1), Held()

        async def hang() -> None:
            await asyncio.Event().wait()

        runs = [
            asyncio.ensure_future(workers.run(handler(hang), task("loop"))),
            asyncio.ensure_future(workers.run(handler(held), task("thread"))),
            asyncio.ensure_future(workers.run(in_process(functions.wait_forever), task("p", started=started))),
        ]
        pid = await told(started)
        await held.wait_begun()
        assert await workers.close(0.02) == ["loop", "p", "thread"]
        assert await workers.close(0.02) == ["loop", "p", "thread"]
        for outcome in await asyncio.gather(*runs, return_exceptions=True):
            assert isinstance(outcome, RunCancelled)
            assert outcome.closing
        assert not alive(pid)
        (left,) = worker_threads() - before  # the one that does not look, and it goes as soon as it does
        held.go.set()
        await asyncio.to_thread(left.join, PATIENCE_S)
        assert not left.is_alive()
        assert held.flags == [True]

    asyncio.run(main())


def test_workers_that_never_ran_anything_can_be_closed() -> None:
    assert asyncio.run(Workers(processes=2).close(1)) == []
