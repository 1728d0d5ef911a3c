"""A program that forgets its workers ends all the same, and leaves no process behind."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent.parent

PROGRAM = """
import asyncio, os, sys, threading
from tests.workers import functions
from tests.workers.functions import handler, in_process, task
from tickwheel.workers import Workers

async def main():
    workers = Workers(threads=2, processes=1)
    begun = threading.Event()
    def hang():
        begun.set()
        threading.Event().wait()
    hanging = asyncio.ensure_future(workers.run(handler(hang), task("thread")))
    print(await workers.run(in_process(functions.pid), task("idle")), flush=True)
    await asyncio.to_thread(begun.wait)
    {then}

if __name__ == "__main__":
    asyncio.run(main())
"""


def start(tmp_path: Path, then: str) -> "subprocess.Popen[str]":
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(then=then))
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.Popen(
        [sys.executable, program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_gone(pid: int) -> None:
    """Wait for the end of a process that is not ours to reap."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(watch, select.POLLIN)
        assert poll.poll(30_000), "the worker process outlived its parent"
    finally:
        os.close(watch)


@pytest.mark.parametrize(
    "then", ["hanging", "await workers.close(0.01); await asyncio.gather(hanging, return_exceptions=True)"]
)
def test_program_ends_though_a_thread_never_returns(tmp_path: Path, then: str) -> None:
    program = start(tmp_path, then)
    out, err = program.communicate(timeout=60)
    assert (program.returncode, err) == (0, "")
    wait_gone(int(out))


def test_process_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    program = start(tmp_path, "await asyncio.Event().wait()")
    assert program.stdout is not None
    pid = int(program.stdout.readline())
    os.kill(program.pid, signal.SIGKILL)
    program.communicate(timeout=60)
    wait_gone(pid)
