"""Processes whose wall clock is wrong, or is set while they run, and what becomes of their tasks."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faketime import OFFSET, clock_off_by, settable_clock, step_clock
from tickwheel.scheduler import Scheduler

PATIENCE_S = 60

PROGRAM = """
import sys, threading
from tickwheel.scheduler import Scheduler

scheduler = Scheduler(sys.argv[1])

@scheduler.task("tick")
async def tick() -> None:
    print("tick", flush=True)

@scheduler.task("over")
async def over() -> None:
    pass

with scheduler:
    scheduler.add("over", id="over")
    scheduler.add("tick", every="200ms", id="tick")
    threading.Event().wait()
"""


def test_every_goes_on_after_a_crash_of_a_process_whose_clock_was_ahead(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, url],
        env={**os.environ, **clock_off_by(3600)},
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert [child.stdout.readline() for _ in range(15)] == ["tick\n"] * 15  # three seconds: a checkpoint is written
        child.kill()
    ticked = threading.Event()
    scheduler = Scheduler(url)

    @scheduler.task("tick")
    async def tick() -> None:
        ticked.set()

    with scheduler:
        assert ticked.wait(PATIENCE_S), "it waits for the hour that the clock was ahead"
        assert scheduler.get("over").finished_at is not None


CLIENT = """
import sys
from tickwheel.scheduler import Scheduler

with Scheduler(sys.argv[1], run=False) as client:
    client.amend("amended", every="1s")
    client.resume("resumed")
    client.run_now("asked for")
    client.retry("tried again")
"""


def test_what_a_client_changed_whose_clock_was_ahead_goes_on(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    names = {"amended", "resumed", "asked for", "tried again"}
    with Scheduler(url, run=False) as client:
        for name in sorted(names):
            client.add("note", {"name": name}, every="2s", id=name)
        client.pause("resumed")
        client.cancel("tried again")
    subprocess.run([sys.executable, "-c", CLIENT, url], env={**os.environ, **clock_off_by(3600)}, check=True)
    ran: set[str] = set()
    over = threading.Event()
    scheduler = Scheduler(url)

    @scheduler.task("note")
    async def note(name: str) -> None:
        ran.add(name)
        if ran == names:
            over.set()

    with scheduler:
        assert over.wait(PATIENCE_S), f"{names - ran} wait for the hour that the clock was ahead"


# -- nodes on a file where locks do not work

NODE = """
import asyncio, itertools, sys
from pathlib import Path
from tickwheel.clock import SystemClock
from tickwheel.scheduler import AsyncScheduler
from tickwheel.stores.sqlite import SqliteStore

async def main() -> None:
    store = await SqliteStore.open(
        Path(sys.argv[1]), now_ms=lambda: SystemClock.time_ns() // 1_000_000, node_locks=False
    )
    async with AsyncScheduler(store, lease_ttl_ms=int(sys.argv[2])) as scheduler:
        for number in itertools.count():
            line = await asyncio.to_thread(sys.stdin.readline)
            if line == "round\\n":  # two handlers are published in two rounds: then the first one is over
                for name in (f"{sys.argv[3]}-{number}-first", f"{sys.argv[3]}-{number}-second"):
                    scheduler.task(name)(print)
                    while not any(name in (node.handlers or ()) for node in await store.nodes()):
                        await asyncio.sleep(0.01)
            picture = scheduler.picture()
            print(picture.partitions, picture.moves.get("lost", 0), flush=True)

asyncio.run(main())
"""

Ask = Callable[[str], tuple[int, int]]  # says something to a node; it answers how many partitions it owns, and lost
StartNode = Callable[[str, int], tuple["subprocess.Popen[str]", Ask]]


@pytest.fixture
def start_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StartNode]:
    """Start nodes that share a file and a wall clock, which can be set."""
    clock = settable_clock(tmp_path / "clock")
    monkeypatch.setenv(OFFSET, clock[OFFSET])
    started: list[subprocess.Popen[str]] = []

    def start(name: str, ttl_ms: int) -> tuple["subprocess.Popen[str]", Ask]:
        node = subprocess.Popen(
            [sys.executable, "-c", NODE, f"{tmp_path}/tasks.db", str(ttl_ms), name],
            env={**os.environ, **clock},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(node)

        def ask(what: str) -> tuple[int, int]:
            assert node.stdin is not None
            assert node.stdout is not None
            node.stdin.write(f"{what}\n")
            node.stdin.flush()
            owned, lost = map(int, node.stdout.readline().split())
            return owned, lost

        return node, ask

    yield start
    for node in started:
        node.kill()
        with node:
            pass


def wait_until_owned(partitions: int, ask: Ask) -> None:
    """Wait until a node owns so many partitions."""
    until = time.monotonic() + PATIENCE_S
    while ask("look")[0] != partitions:
        assert time.monotonic() < until, f"it owns {ask('look')[0]} partitions, not {partitions}"
        time.sleep(0.05)


@pytest.mark.parametrize("step_s", [3600, -3600])
def test_nodes_without_locks_keep_their_partitions_when_the_clock_is_set(start_node: StartNode, step_s: int) -> None:
    (_, first), (_, second) = start_node("a", 60_000), start_node("b", 60_000)
    second("look")  # it has started
    first("round")  # and is seen
    for ask in (first, second):
        wait_until_owned(32, ask)
    assert step_clock(step_s)
    answers = [ask("round") for _ in range(2) for ask in (first, second)]
    assert answers == [(32, 0)] * 4


@pytest.mark.parametrize("step_s", [3600, -3600])
def test_a_node_without_locks_follows_one_that_died_after_the_clock_was_set(start_node: StartNode, step_s: int) -> None:
    (victim, first), (_, heir) = start_node("a", 3_000), start_node("b", 3_000)
    for ask in (first, heir):
        wait_until_owned(32, ask)
    victim.kill()
    assert step_clock(step_s)
    wait_until_owned(64, heir)
