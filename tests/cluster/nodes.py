"""Processes that run the tasks of one store, and one that adds them: what stories of several are played with."""

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from tickwheel.scheduler import AsyncScheduler
from tickwheel.stores import Store, open_store
from tickwheel.tasks import Status

__all__ = ["LEASE_MS", "Line", "Nodes", "play", "until"]

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
    """A store, the processes that run its tasks, and one that adds them: this one."""

    def __init__(self, folder: Path, url: str, store: Store, lease_ms: int) -> None:
        self.url = url
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
        arguments = [self.url, str(self.oracle), name, str(self.lease_ms)]
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


def play(folder: Path, url: str, story: Callable[[Nodes], Awaitable[None]], lease_ms: int = LEASE_MS) -> None:
    """Let a story happen; in the end no process is left."""

    async def main() -> None:
        store = await open_store(url)
        nodes = Nodes(folder, url, store, lease_ms)
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
