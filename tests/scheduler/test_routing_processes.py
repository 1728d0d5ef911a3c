"""Two processes on one SQLite file, with different handlers: each task runs in the process that has its handler."""

import asyncio
import subprocess
import threading
from contextlib import ExitStack
from pathlib import Path

from tests.scheduler.programs import start_program
from tickwheel.scheduler import Scheduler
from tickwheel.stores.contract import Filter
from tickwheel.stores.sqlite import SqliteStore
from tickwheel.tasks import Status

SOON_S = 30.0  # far less than a minute, and more than a busy machine needs

PROGRAM = """
from tickwheel import aio
from tickwheel.scheduler import AsyncScheduler

async def main():
    scheduler = AsyncScheduler("sqlite:///tasks.db")

    @scheduler.task("of.NAME")
    async def run(what: str) -> None:
        print(what, flush=True)

    await scheduler.start()
    print("ready", flush=True)
    await scheduler.run_forever()

aio.run(main())
"""


def test_each_process_runs_the_tasks_whose_handler_it_has(tmp_path: Path) -> None:
    with ExitStack() as ends:
        programs = {}
        for name in "ab":
            (folder := tmp_path / name).mkdir()
            text = PROGRAM.replace("NAME", name).replace("sqlite:///", f"sqlite:///{tmp_path}/")
            programs[name] = ends.enter_context(start_program(folder, text))
            ends.callback(programs[name].kill)
            watchdog = threading.Timer(2 * SOON_S, programs[name].kill)
            ends.callback(watchdog.cancel)
            watchdog.start()
            assert line_of(programs[name]) == "ready"
        with Scheduler(f"sqlite:///{tmp_path}/tasks.db", run=False) as client:
            client.add_many(
                {"handler": f"of.{name}", "args": {"what": f"{name}{n}"}, "delay": 0.5, "id": f"{name}{n}"}
                for n in range(20)
                for name in "ab"
            )
            ran = {name: {line_of(program) for _ in range(20)} for name, program in programs.items()}
            assert ran == {name: {f"{name}{n}" for n in range(20)} for name in "ab"}
            client.run(completed(client, 40))
            for name in "ab":
                for n in range(20):
                    [run] = client.history(f"{name}{n}")
                    assert (run.attempt, run.late_ms < SOON_S * 1000) == (1, True)
        for program in programs.values():
            program.terminate()
            program.communicate(timeout=SOON_S)
            assert program.returncode == 0


def line_of(program: "subprocess.Popen[str]") -> str:
    """Wait for the next line that a program prints."""
    assert program.stdout is not None
    return program.stdout.readline().strip()


async def completed(client: Scheduler, tasks: int) -> None:
    """Wait until so many tasks are over: the handler prints before its outcome is written."""
    async with asyncio.timeout(SOON_S):
        while (await client.inner.count(Filter(status=Status.COMPLETED))).tasks < tasks:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.05)


def test_a_node_writes_its_handlers_once(tmp_path: Path) -> None:
    async def story() -> None:
        store = await SqliteStore.open(tmp_path / "tasks.db", now_ms=lambda: 0)
        try:
            for _ in range(3):
                await store.heartbeat("here", 3000, ["a", "b"], "1")
                commits = store.commits
                await store.heartbeat("here", 3000, ["b", "a"], "1")
                assert store.commits == commits, "nothing is new"
            await store.heartbeat("here", 3000, ["a"], "1")
            assert store.commits == commits + 1
        finally:
            await store.close()

    asyncio.run(story())
