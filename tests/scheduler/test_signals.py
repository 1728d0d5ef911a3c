"""SIGTERM and SIGINT in the foreground: running tasks end, nothing else begins, and the process exits with 0."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.scheduler.programs import start_program
from tickwheel.scheduler import Scheduler
from tickwheel.tasks import Status

pytestmark = pytest.mark.slow  # each test starts programs

BLOCKING = """
import signal, sys, time
from tickwheel import Scheduler

scheduler = Scheduler("sqlite:///tasks.db", grace_s=300, threads=1)

@scheduler.task("work")
def work(seconds: float) -> str:
    print("begun", flush=True)
    time.sleep(seconds)
    return "done"

before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
scheduler.run_forever()
assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
print("ended", flush=True)
"""

ASYNC = """
import asyncio, signal
from tickwheel import AsyncScheduler

scheduler = AsyncScheduler("sqlite:///tasks.db", grace_s=300)

@scheduler.task("work", concurrency=1)
async def work(seconds: float) -> str:
    print("begun", flush=True)
    await asyncio.sleep(seconds)
    return "done"

async def main():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    await scheduler.run_forever()
    assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    print("ended", flush=True)

asyncio.run(main())
"""

PROGRAMS = pytest.mark.parametrize("text", [BLOCKING, ASYNC], ids=["blocking", "async"])


def add(folder: Path, seconds: float) -> None:
    with Scheduler(f"sqlite:///{folder}/tasks.db", run=False) as adder:
        for task_id in ("first", "second"):
            adder.add("work", {"seconds": seconds}, id=task_id)


def statuses(folder: Path) -> list[tuple[Status, int]]:
    with Scheduler(f"sqlite:///{folder}/tasks.db", run=False) as asker:
        assert asker.leases() == [], "the partitions were given back"
        return [(task.status, task.failures) for task in map(asker.get, ("first", "second"))]


def end(program: "subprocess.Popen[str]", within_s: float) -> str:
    """Wait for the end of a program, and return what else it printed."""
    try:
        out, err = program.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        program.kill()
        raise
    assert (program.returncode, "Traceback" in err) == (0, False), err
    return out


def wait_until_begun(program: "subprocess.Popen[str]") -> None:
    assert program.stdout is not None
    assert program.stdout.readline() == "begun\n"


@PROGRAMS
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_running_tasks_end_and_begins_no_others(tmp_path: Path, text: str, number: int) -> None:
    add(tmp_path, seconds=2)
    with start_program(tmp_path, text) as program:
        wait_until_begun(program)
        program.send_signal(number)
        assert end(program, within_s=60) == "ended\n"
    (first, _), (second, failures) = sorted(statuses(tmp_path))
    assert (first, second, failures) == (Status.COMPLETED, Status.PENDING, 0)


@PROGRAMS
def test_a_signal_that_another_thread_gets_stops_it(tmp_path: Path, text: str) -> None:
    lost = """
    import threading
    threading.Thread(target=lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM), daemon=True).start()
    """
    with start_program(
        tmp_path, text.replace('print("begun", flush=True)', f'print("begun", flush=True){lost}')
    ) as program:
        add(tmp_path, seconds=0)
        wait_until_begun(program)
        assert end(program, within_s=60).endswith("ended\n")


@PROGRAMS
def test_a_second_signal_ends_the_grace_period(tmp_path: Path, text: str) -> None:
    add(tmp_path, seconds=600)
    with start_program(tmp_path, text) as program:
        wait_until_begun(program)
        program.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(1)
        program.send_signal(signal.SIGTERM)
        assert end(program, within_s=60) == "ended\n"
    assert statuses(tmp_path) == [(Status.PENDING, 0)] * 2, "both run again"


def test_more_signals_do_not_break_off_an_orderly_stop(tmp_path: Path) -> None:
    add(tmp_path, seconds=600)
    text = ASYNC.replace(
        "    await asyncio.sleep(seconds)\n",
        "    try:\n        await asyncio.sleep(seconds)\n    finally:\n        await asyncio.sleep(0.5)\n",
    )
    with start_program(tmp_path, text) as program:
        wait_until_begun(program)
        for _ in range(6):
            program.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                program.wait(0.05)
        assert end(program, within_s=60) == "ended\n"
    assert statuses(tmp_path) == [(Status.PENDING, 0)] * 2


@PROGRAMS
def test_a_signal_while_it_starts_ends_it(tmp_path: Path, text: str) -> None:
    started = text.replace(
        "\n@scheduler.task",
        """
from tickwheel.cluster import Ownership
take = Ownership.take
async def killed(self, *args):
    import os
    os.kill(os.getpid(), signal.SIGTERM)
    await take(self, *args)
Ownership.take = killed

@scheduler.task""",
        1,
    )
    with start_program(tmp_path, started) as program:
        assert end(program, within_s=60) == "ended\n"
    add(tmp_path, seconds=0)
    assert statuses(tmp_path) == [(Status.PENDING, 0)] * 2


def test_signals_stay_as_they_are_for_a_scheduler_on_another_thread(tmp_path: Path) -> None:
    text = BLOCKING.replace(
        "scheduler.run_forever()\n",
        "import threading\nthreading.Thread(target=scheduler.run_forever, daemon=True).start()\ntime.sleep(60)\n",
    )
    add(tmp_path, seconds=0)
    with start_program(tmp_path, text) as program:
        wait_until_begun(program)
        os.kill(program.pid, signal.SIGTERM)
        program.communicate(timeout=60)
    assert program.returncode == -signal.SIGTERM
