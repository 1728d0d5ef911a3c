"""Processes are kept, end without harm to others, and carry out what functions raise."""

import asyncio
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.workers import functions
from tests.workers.functions import in_process, task, told
from tickwheel.errors import (
    InvalidArguments,
    InvalidResult,
    ProcessDied,
    RunCancelled,
    RunFailed,
    RunTimedOut,
    UnknownHandler,
    WorkersClosed,
)
from tickwheel.tasks import Task
from tickwheel.workers import Outcome, Workers
from tickwheel.workers.child import NUMBER_BYTES, READY, Call
from tickwheel.workers.process_pool import SPAWN, Child
from tickwheel.workers.results import words_of


def test_processes_are_used_again_and_no_more_than_allowed() -> None:
    async def main() -> None:
        workers = Workers(processes=2)
        runs = (workers.run(in_process(functions.pid), task(str(number))) for number in range(20))
        assert len(set(await asyncio.gather(*runs))) <= 2
        first = await workers.run(in_process(functions.pid), task())
        assert await workers.run(in_process(functions.pid), task()) == first
        await workers.close()
        assert multiprocessing.active_children() == []

    asyncio.run(main())


def test_killed_process_fails_its_run_only_and_is_replaced(tmp_path: Path) -> None:
    async def main() -> None:
        workers = Workers(processes=2)
        paths = {name: str(tmp_path / name) for name in ("a", "b")}
        for path in paths.values():
            os.mkfifo(path)
        a, b = (
            asyncio.ensure_future(workers.run(in_process(functions.wait_forever), task(name, started=path)))
            for name, path in paths.items()
        )
        pids = [await told(path) for path in paths.values()]
        os.kill(pids[0], signal.SIGKILL)
        with pytest.raises(ProcessDied, match="killed by SIGKILL") as caught:
            await a
        error = caught.value
        assert (error.signal, error.exit_code, error.task_id, error.handler) == ("SIGKILL", -9, "a", "wait_forever")
        assert not b.done()
        assert await workers.run(in_process(functions.pid), task()) not in pids
        assert workers.cancel("b")
        await asyncio.wait([b])
        await workers.close()

    asyncio.run(main())


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGTERM", "SIGABRT"])
def test_error_names_the_signal(name: str) -> None:
    async def main() -> None:
        workers = Workers(processes=1)
        with pytest.raises(ProcessDied, match=name):
            await workers.run(in_process(functions.kill_self), task(number=int(signal.Signals[name])))
        assert await workers.run(in_process(functions.double), task(number=4)) == 8
        await workers.close()

    asyncio.run(main())


def test_process_that_leaves_by_itself_is_told_by_its_exit_code() -> None:
    async def main() -> None:
        workers = Workers(processes=1)
        with pytest.raises(ProcessDied, match="exit code 3") as caught:
            await workers.run(in_process(functions.leave), task(code=3))
        assert (caught.value.signal, caught.value.exit_code) == (None, 3)
        await workers.close()

    asyncio.run(main())


def test_process_killed_while_idle_harms_nobody() -> None:
    async def main() -> None:
        workers = Workers(processes=1)
        pid = await workers.run(in_process(functions.pid), task())
        (child,) = multiprocessing.active_children()  # before the kill: who is dead may be left out
        os.kill(pid, signal.SIGKILL)
        child.join()
        assert await workers.run(in_process(functions.pid), task()) != pid
        await workers.close()

    asyncio.run(main())


def test_timeout_that_is_shorter_than_the_start_of_a_process_counts_from_the_begin() -> None:
    async def main() -> None:
        workers = Workers(processes=1)
        run = workers.run(in_process(functions.wait_forever), task(timeout_ms=10, started=os.devnull))
        with pytest.raises(RunTimedOut):
            await asyncio.wait_for(run, functions.PATIENCE_S)
        await workers.close()

    asyncio.run(main())


def test_process_that_hangs_before_a_run_begins_is_replaced() -> None:
    async def main() -> None:
        workers = Workers(processes=1)
        pid = await workers.run(in_process(functions.pid), task())
        os.kill(pid, signal.SIGSTOP)
        start_s_max, workers.start_s_max = workers.start_s_max, 0.1
        run = workers.run(in_process(functions.pid), task(timeout_ms=300_000))
        with pytest.raises(ProcessDied, match=r"was not ready to begin within 0\.1 s, and was killed") as caught:
            await asyncio.wait_for(run, functions.PATIENCE_S)
        assert caught.value.not_ready_s == 0.1
        workers.start_s_max = start_s_max
        assert await workers.run(in_process(functions.pid), task()) != pid
        assert not functions.alive(pid)
        await workers.close()

    asyncio.run(main())


def test_stopped_process_is_ended_when_its_time_is_up(tmp_path: Path) -> None:
    async def main() -> None:
        workers, started = Workers(processes=1), str(tmp_path / "started")
        os.mkfifo(started)
        running = asyncio.ensure_future(
            workers.run(in_process(functions.wait_forever), task(timeout_ms=1000, started=started))
        )
        os.kill(await told(started), signal.SIGSTOP)  # such a process does not even see SIGTERM
        with pytest.raises(RunTimedOut):
            await running
        await workers.close()
        assert multiprocessing.active_children() == []

    asyncio.run(main())


@pytest.mark.parametrize(("how", "status"), [("return", 0), ("raise", 1), ("exit", 3)])
def test_what_a_function_forks_ends_where_it_comes_back_and_answers_for_nobody(how: str, status: int) -> None:
    async def main() -> None:
        workers = Workers(processes=1)
        run = workers.run(in_process(functions.fork), task(how=how))
        assert await asyncio.wait_for(run, functions.PATIENCE_S) == status
        for number in range(3):
            assert await workers.run(in_process(functions.double), task(number=number)) == 2 * number
        await workers.close()

    asyncio.run(main())


def test_process_ends_though_what_it_forked_lives_on(tmp_path: Path) -> None:
    async def main() -> None:
        workers, started, lives = Workers(processes=1), str(tmp_path / "started"), str(tmp_path / "lives")
        os.mkfifo(started)
        os.mkfifo(lives)
        run = workers.run(in_process(functions.fork_and_wait), task(started=started, child_lives=lives))
        running = asyncio.ensure_future(run)
        await told(started)
        assert workers.cancel("t")
        with pytest.raises(RunCancelled):
            await asyncio.wait_for(running, functions.PATIENCE_S)
        await workers.close()
        assert await asyncio.to_thread(Path(lives).read_text) == "it does"

    asyncio.run(main())


def test_answer_to_another_call_is_passed_over() -> None:
    child = Child()
    ours, theirs = SPAWN.Pipe()
    child.pipe.close()
    child.pipe = ours
    for number, word in ((7, b"of another"), (1, READY), (7, b"of another"), (1, b"ours")):
        theirs.send_bytes(number.to_bytes(NUMBER_BYTES) + word)
    assert child.ask(b"call", lambda: True) == b"ours"
    theirs.close()
    child.bury()


def test_interrupt_from_the_terminal_is_left_to_the_parent() -> None:
    async def main() -> None:
        workers = Workers(processes=1)
        assert await workers.run(in_process(functions.kill_self), task(number=int(signal.SIGINT))) is None
        assert await workers.run(in_process(functions.start_program), task()) == "out\n"
        await workers.close()

    asyncio.run(main())


def test_what_is_raised_comes_out_with_its_trace() -> None:
    async def main() -> None:
        workers = Workers(processes=1)
        with pytest.raises(ValueError, match="bad luck") as plain:
            await workers.run(in_process(functions.raise_value_error), task(words="bad luck"))
        assert "in raise_value_error" in plain.value.__notes__[0]
        with pytest.raises(functions.OddError, match="42: odd") as odd:
            await workers.run(in_process(functions.raise_odd), task())
        assert odd.value.code == 42
        with pytest.raises(RunFailed, match=r"HeavyError: too heavy") as heavy:
            await workers.run(in_process(functions.raise_heavy), task())
        assert "in raise_heavy" in heavy.value.__notes__[0]
        with pytest.raises(RunFailed, match="SystemExit: enough"):
            await workers.run(in_process(functions.exit_politely), task())
        await workers.close()

    asyncio.run(main())


def tell(told: "asyncio.Future[Outcome]", _: Task, outcome: Outcome) -> None:
    told.set_result(outcome)


def test_exception_that_misbehaves_fails_its_run_and_leaves_the_process_alone() -> None:
    async def main() -> None:
        workers = Workers(processes=1)
        first = await workers.run(in_process(functions.pid), task())
        for kind in functions.MISBEHAVING:
            told: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            raising = in_process(functions.raise_misbehaving)
            workers.begin(raising, task(kind=kind), partial(tell, told))
            _, error, raised, _ = await told
            assert error is not None
            assert raised, kind
            assert kind in f"{type(error).__name__} {words_of(error)}"
        with pytest.raises(InvalidResult, match="KeyboardInterrupt"):
            await workers.run(in_process(functions.return_misbehaving), task())
        assert await workers.run(in_process(functions.pid), task()) == first
        await workers.close()

    asyncio.run(main())


def test_argument_that_cannot_be_sent_is_named() -> None:
    async def main() -> None:
        workers = Workers(processes=1)
        with pytest.raises(InvalidArguments, match="unexpected 'number'"):
            await workers.run(in_process(functions.double), task(number=lambda: 1))
        await workers.close()

    asyncio.run(main())


def test_errors_can_be_pickled() -> None:
    for error in (UnknownHandler("a.b", ["a.c"]), RunTimedOut("t", 1.5), ProcessDied("h", "t", -9, "SIGKILL")):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert (str(again), vars(again)) == (str(error), vars(error))


PARENT = """
import asyncio, os, signal, sys, threading
from tests.workers import functions
from tests.workers.functions import in_process, task
from tickwheel.workers import Workers

async def main():
    workers = Workers(processes=1)
    run = asyncio.ensure_future(workers.run(in_process(functions.wait_forever), task(started=sys.argv[1])))
    if sys.argv[2] == "forked":
        await asyncio.to_thread(sys.stdin.readline)
        if not os.fork():
            print("forked", flush=True)
            signal.pause()
    await run

asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["alone", "forked"])
def test_process_in_the_middle_of_a_run_dies_with_its_parent(tmp_path: Path, how: str) -> None:
    async def main() -> None:
        fifo = str(tmp_path / "started")
        os.mkfifo(fifo)
        parent = subprocess.Popen(  # noqa: ASYNC220 - it takes no time that matters
            [sys.executable, "-c", PARENT, fifo, how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert parent.stdin is not None
        assert parent.stdout is not None
        try:
            worker = await told(fifo)
            parent.stdin.write(b"\n")
            parent.stdin.flush()
            if how == "forked":  # a child that has copies of everything, and outlives it
                assert await asyncio.to_thread(parent.stdout.readline) == b"forked\n"
            parent.kill()
            parent.wait()
            async with asyncio.timeout(functions.PATIENCE_S):
                while functions.alive(worker):  # noqa: ASYNC110 - it is not our child
                    await asyncio.sleep(0.01)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(parent.pid, signal.SIGKILL)
            parent.stdin.close()
            parent.stdout.close()

    asyncio.run(main())


def test_process_outlives_the_thread_that_first_needed_it() -> None:
    request = pickle.dumps(Call("h", "t", "os", "getpid", {}))
    made: list[Child] = []

    def use() -> None:
        made.append(Child())
        assert made[0].ask(request, lambda: True) is not None

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert made[0].ask(request, lambda: True) is not None
    assert made[0].bury() == 0


def test_what_a_function_raises_is_told_apart_from_what_the_workers_say() -> None:
    async def main() -> None:
        workers = Workers(processes=1)
        outcomes: asyncio.Queue[Outcome] = asyncio.Queue()

        def tell(_: Task, outcome: Outcome) -> None:
            outcomes.put_nowait(outcome)

        for function, error, raised in (
            (functions.raise_closed, WorkersClosed, True),
            (functions.return_object, InvalidResult, False),
        ):
            workers.begin(in_process(function), task(), tell)
            outcome = await outcomes.get()
            assert (type(outcome.error), outcome.raised) == (error, raised)
        await workers.close()

    asyncio.run(main())
