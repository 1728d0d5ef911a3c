"""Processes on one file: they share the work, take over from those that die or leave, and nobody writes too late."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import apsw

from tickwheel.scheduler import AsyncScheduler
from tickwheel.stores.contract import Filter
from tickwheel.stores.sqlite import SqliteStore
from tickwheel.tasks import Status

REPOSITORY = Path(__file__).parents[2]
PATIENCE_S = 30.0  # for what takes a second or two on a machine that has nothing else to do
LEASE_MS = 2_000


class Line(NamedTuple):
    """What a handler wrote: that a run of a task began or ended in a process."""

    name: str
    what: str
    id: str
    attempt: int
    ns: int


class Nodes:
    """A file, the processes that run its tasks, and one that adds them: this one."""

    def __init__(self, folder: Path, store: SqliteStore, lease_ms: int) -> None:
        self.path = folder / "tasks.db"
        self.oracle = folder / "oracle.txt"
        self.oracle.touch()
        self.store = store
        self.adder = AsyncScheduler(store, run=False)
        self.lease_ms = lease_ms
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.ids: dict[str, str] = {}  # the node id of each
        self.acknowledged: list[str] = []

    async def start(self, name: str) -> None:
        """Start a process, and wait until it has started."""
        arguments = [str(self.path), str(self.oracle), name, str(self.lease_ms)]
        command = [sys.executable, "-m", "tests.cluster.node", *arguments]
        self.processes[name] = process = await asyncio.to_thread(begin, command)
        assert process.stdout is not None
        self.ids[name] = (await asyncio.to_thread(process.stdout.readline)).strip()

    def send(self, name: str, number: signal.Signals) -> None:
        self.processes[name].send_signal(number)

    async def end(self, name: str, number: signal.Signals) -> int:
        """Send a signal and wait for the end."""
        self.send(name, number)
        return await asyncio.to_thread(self.processes[name].wait, PATIENCE_S)

    async def held(self) -> dict[str, set[int]]:
        """Return the partitions of each process."""
        names = {node: name for name, node in self.ids.items()}
        held: dict[str, set[int]] = {}
        for lease in await self.store.leases():
            held.setdefault(names.get(lease.node, "?"), set()).add(lease.partition)
        return held

    async def shares(self) -> list[int]:
        return sorted(len(partitions) for partitions in (await self.held()).values())

    async def until_shares(self, *shares: int) -> None:
        async def are_so() -> bool:
            return await self.shares() == list(shares)

        await until(are_so)

    async def until_done(self) -> None:
        async def are_done() -> bool:
            return (await self.store.counts())[Status.COMPLETED] == len(self.acknowledged)

        await until(are_done)

    async def add(self, tasks: int, seconds: float = 0.0, delay_s: float = 0.0) -> list[str]:
        first = len(self.acknowledged)
        args = {"seconds": seconds}
        added = await self.adder.add_many(
            {"handler": "work", "args": args, "delay": delay_s, "id": f"task-{first + number}"}
            for number in range(tasks)
        )
        self.acknowledged += [task.id for task in added]
        return [task.id for task in added]

    @asynccontextmanager
    async def stream(self) -> AsyncIterator[None]:
        """Add tasks all the time: some hundred in a second, due within the next."""

        ended = asyncio.Event()

        async def add() -> None:
            while not ended.is_set():  # broken off, it might add tasks without knowing of it
                await self.add(10, seconds=0.02, delay_s=len(self.acknowledged) % 70 / 100)
                await asyncio.sleep(0.03)

        adding = asyncio.create_task(add())
        try:
            yield
        finally:
            ended.set()
            await adding

    def lines(self) -> list[Line]:
        split = [line.split() for line in self.oracle.read_text().splitlines()]
        return [Line(name, what, task_id, int(attempt), int(ns)) for name, what, task_id, attempt, ns in split]

    def begun(self, since: int = 0) -> Counter[str]:
        """Count the runs of each process."""
        return Counter(line.name for line in self.lines()[since:] if line.what == "begin")

    async def until_begun(self, *names: str, each: int = 20) -> None:
        """Wait until each of some processes has begun so many runs from now on."""
        since = len(self.lines())

        async def have() -> bool:
            begun = self.begun(since)
            return all(begun[name] >= each for name in names)

        await until(have)

    def ran_twice(self) -> set[str]:
        """Return what ran more than once; nothing may be missing, or be run by two at the same time."""
        runs: dict[str, list[Line]] = {}
        for line in self.lines():
            runs.setdefault(line.id, []).append(line)
        assert set(self.acknowledged) - set(runs) == set(), "lost"
        return {task_id for task_id, lines in runs.items() if [line.what for line in lines] != ["begin", "end"]}


def begin(command: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():  # noqa: ASYNC110 - it is about other processes
            await asyncio.sleep(0.01)


def play(folder: Path, story: Callable[[Nodes], Awaitable[None]], lease_ms: int = LEASE_MS) -> None:
    async def main() -> None:
        store = await SqliteStore.open(folder / "tasks.db", now_ms=lambda: time.time_ns() // 1_000_000)
        nodes = Nodes(folder, store, lease_ms)
        try:
            async with nodes.adder:
                await story(nodes)
        finally:
            for process in nodes.processes.values():
                process.kill()
                with process:  # closes its pipe, and waits for it
                    pass
            await store.close()

    asyncio.run(main())


def test_two_processes_share_the_work_and_a_third_joins(tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.start("a")
        assert await nodes.shares() == [64], "the first has everything at once"
        async with nodes.stream():
            await nodes.until_begun("a")
            await nodes.start("b")
            await nodes.until_shares(32, 32)
            await nodes.until_begun("a", "b")
            before = await nodes.held()
            await nodes.start("c")
            await nodes.until_shares(21, 21, 22)
            await nodes.until_begun("a", "b", "c")
            after = await nodes.held()
        assert after["a"] < before["a"]
        assert after["b"] < before["b"]
        await nodes.until_done()
        assert nodes.ran_twice() == set()

    play(tmp_path, story, lease_ms=3_000)


def test_a_process_that_leaves_in_order_hands_over_at_once(tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.start("a")
        await nodes.start("b")
        async with nodes.stream():
            await nodes.until_shares(32, 32)
            await nodes.until_begun("a", "b")
            assert await nodes.end("a", signal.SIGTERM) == 0
            left = time.monotonic()
            await nodes.until_shares(64)
            took_s = time.monotonic() - left
            await nodes.until_begun("b", each=100)
        await nodes.until_done()
        assert nodes.ran_twice() == set()
        assert took_s < 1.0, "it was told, and did not wait for its next round"

    play(tmp_path, story, lease_ms=9_000)  # a round takes three seconds


def test_what_a_killed_process_had_is_taken_over_when_its_lease_ends(tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.start("a")
        await nodes.start("b")
        async with nodes.stream():
            await nodes.until_shares(32, 32)
            await nodes.until_begun("a", "b")
            partitions = (await nodes.held())["a"]
            await nodes.end("a", signal.SIGKILL)
            killed = time.monotonic()
            running = (await nodes.store.query(Filter(status=Status.RUNNING), None, 1000)).tasks
            await nodes.until_shares(64)
            took_s = time.monotonic() - killed
            await nodes.until_begun("b", each=100)
        await nodes.until_done()
        in_flight = {task.id for task in running if task.partition in partitions}
        again = nodes.ran_twice() - in_flight
        assert [line for line in nodes.lines() if line.id in again] == [], "it was not in flight"
        assert took_s < LEASE_MS / 1000 + 1.0

    play(tmp_path, story)


def test_a_process_that_was_suspended_beyond_its_lease_changes_nothing(tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.start("a")
        await nodes.start("b")
        await nodes.until_shares(32, 32)
        later = await nodes.add(100, delay_s=4.0)  # in both their agendas
        long = await nodes.add(100, seconds=2.5)

        async def all_begun() -> bool:
            return nodes.begun().total() == len(long)

        await until(all_begun)
        suspend(nodes, "a")
        ended = {line.id for line in nodes.lines() if line.what == "end"}
        in_flight = {line.id for line in nodes.lines() if line.name == "a"} - ended
        assert in_flight
        await nodes.until_shares(64)
        await nodes.until_done()
        before = await nodes.store.get(nodes.acknowledged)
        since = len(nodes.lines())
        nodes.send("a", signal.SIGCONT)

        async def all_ended() -> bool:
            woken = {line.id for line in nodes.lines()[since:] if (line.name, line.what) == ("a", "end")}
            return woken == in_flight

        await until(all_ended)
        await nodes.until_shares(32, 32)
        assert await nodes.store.get(nodes.acknowledged) == before, "what it wrote too late was refused"
        assert {task.id for task in before if task and task.attempt == 2} == in_flight
        assert {(task.result, task.status) for task in before if task and task.id in in_flight} == {
            ("b", Status.COMPLETED)
        }
        assert nodes.ran_twice() == in_flight
        assert not in_flight & set(later)
        async with nodes.stream():
            await nodes.until_begun("a", "b")
        await nodes.until_done()
        assert nodes.ran_twice() == in_flight

    play(tmp_path, story)


def suspend(nodes: Nodes, name: str) -> None:
    """Stop a process, but not in the middle of a write: nobody else could write then, and take over."""
    connection = apsw.Connection(str(nodes.path))
    connection.set_busy_timeout(500)
    while True:
        nodes.send(name, signal.SIGSTOP)
        os.waitpid(nodes.processes[name].pid, os.WUNTRACED)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
            break
        except apsw.BusyError:
            nodes.send(name, signal.SIGCONT)
    connection.close()
