"""Processes that run the tasks of one store, and one that adds them: what stories of several are played with.

Processes are forked from one that has imported everything and done nothing else (multiprocessing's fork server), so
that hundreds can be killed in a minute. One whose clock is off is an interpreter of its own.
"""

import asyncio
import multiprocessing
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

import msgspec

from tests.cluster import node
from tests.cluster.checker import Line, Wall
from tests.cluster.halting import Halt
from tests.faketime import clock_off_by
from tickwheel.errors import StoreError
from tickwheel.scheduler import AsyncScheduler
from tickwheel.stores import Store, open_store
from tickwheel.stores.contract import PAGE_MAX
from tickwheel.tasks import Status, Task

__all__ = ["FORKING", "LEASE_MS", "PATIENCE_S", "Nodes", "now_ns", "on_stage", "play", "until", "wall_ahead_ns"]

REPOSITORY = Path(__file__).parents[2]
PATIENCE_S = 180.0  # for what takes a second or two on a machine that has nothing else to do
LEASE_MS = 2_000
FOLLOWED_S = 0.02  # between two looks at the machine's wall clock, which may be slewed by milliseconds in a second

ADJUSTED_NS = 50_000  # less is the time that it takes to read two clocks

FORKING: Final = multiprocessing.get_context("forkserver")
STORES: Final = [f"tickwheel.stores.{store}" for store in ("sqlite", "postgres", "redis", "etcd")]
# A child imports the main module as well: `chaos` and what it needs.
FORKING.set_forkserver_preload([*STORES, "tests.cluster.campaign", "rich.progress", "rich.table"])
SPAWNING: Final = multiprocessing.get_context("spawn")


class Nodes:
    """A store, the processes that run its tasks, and one that adds them: this one."""

    def __init__(self, folder: Path, url: str, store: Store, lease_ms: int) -> None:
        self.url = url
        self.oracle = folder / "oracle.txt"
        self.oracle.touch()
        self.log = folder / "nodes.txt"  # what they have to say
        self.log.touch()
        self.store = store
        self.adder = AsyncScheduler(store, run=False)
        self.lease_ms = lease_ms
        self.wall = Wall(wall_ahead_ns())
        self.processes: dict[str, BaseProcess] = {}
        self.ids: dict[str, str] = {}  # the node id of each
        self.acknowledged: list[str] = []
        self._told: list[Line] = []
        self._told_bytes = 0

    async def start(self, name: str, *, url: str | None = None, halt: Halt | None = None, clock_off_s: int = 0) -> None:
        """Start a process, and wait until it has started; from then on it may come to the step that it stops at."""
        arguments = (url or self.url, str(self.oracle), name, self.lease_ms, None if halt is None else str(halt))
        heard, told = multiprocessing.Pipe(duplex=False)
        with heard:
            with told, environment(clock_off_by(clock_off_s) if clock_off_s else {}):
                context = SPAWNING if clock_off_s else FORKING
                process = context.Process(target=node.run, args=(told, str(self.log), *arguments), daemon=True)
                process.start()
            self.processes[name] = process
            self.ids[name] = await asyncio.to_thread(hear, heard)
        assert self.ids[name], f"{name} could not start: {self.log.read_text()[-2000:]}"

    def send(self, name: str, number: signal.Signals) -> None:
        pid = self.processes[name].pid
        assert pid is not None
        os.kill(pid, number)

    async def until_halted(self, name: str) -> None:
        """Wait until a process has suspended itself."""

        async def is_so() -> bool:
            return self.is_halted(name)

        await until(is_so)

    def is_halted(self, name: str) -> bool:
        """Say whether a process is suspended."""
        return process_state(self.processes[name].pid) == "T"

    async def end(self, name: str, number: signal.Signals) -> int:
        """Send a signal, unless the process has ended, and wait for the end."""
        with suppress(ProcessLookupError):
            self.send(name, number)
        await asyncio.to_thread(self.processes[name].join, PATIENCE_S)
        code = self.processes[name].exitcode
        assert code is not None, f"{name} did not end"
        return code

    async def held(self) -> dict[str, set[int]]:
        """Return the partitions of each process."""
        names = {node: name for name, node in self.ids.items()}
        held: dict[str, set[int]] = {}
        for lease in await self.store.leases():
            held.setdefault(names.get(lease.node, "?"), set()).add(lease.partition)
        return held

    async def held_now(self) -> dict[str, set[int]] | None:
        """Return the same, or None if the store cannot be asked."""
        try:
            return await self.held()
        except StoreError:
            return None

    async def shares(self) -> list[int]:
        return sorted(len(partitions) for partitions in (await self.held()).values())

    async def until_shares(self, *shares: int) -> None:
        async def are_so() -> bool:
            return await self.shares() == list(shares)

        await until(are_so)

    async def as_they_are(self, ids: Iterable[str]) -> dict[str, Task | None]:
        """Return how tasks are in the store."""
        wanted = list(ids)
        found: dict[str, Task | None] = {}
        for first in range(0, len(wanted), PAGE_MAX):
            page = wanted[first : first + PAGE_MAX]
            found.update(zip(page, await self.store.get(page), strict=True))
        return found

    def keep_evidence(self, tasks: Iterable[Task | None]) -> None:
        """Write down how tasks are in the store, for whoever looks into it later."""
        self.log.with_name("tasks.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, tasks)))

    async def completed(self) -> dict[str, Task | None]:
        """Return those that are completed."""
        tasks = await self.as_they_are(self.acknowledged)
        return {each: task for each, task in tasks.items() if task and task.status is Status.COMPLETED}

    async def until_over(self, patience_s: float = PATIENCE_S) -> None:
        """Wait until nothing is left to do."""

        async def is_over() -> bool:
            counts = await self.store.counts()
            return counts[Status.PENDING] + counts[Status.RUNNING] == 0

        await until(is_over, patience_s)

    async def until_done(self) -> None:
        async def are_done() -> bool:
            return (await self.store.counts())[Status.COMPLETED] == len(self.acknowledged)

        await until(are_done)

    async def add(
        self, tasks: int, seconds: float = 0.0, delay_s: float = 0.0, *, at_most_once: bool = False
    ) -> list[str]:
        first = len(self.acknowledged)
        args = {"seconds": seconds}
        added = await self.adder.add_many(
            {
                "handler": "work",
                "args": args,
                "delay": delay_s,
                "id": f"task-{first + number}",
                "at_most_once": at_most_once,
            }
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

    def told(self) -> list[Line]:
        """Return all that nodes wrote, but for a line that is just being written."""
        with self.oracle.open("rb") as file:
            file.seek(self._told_bytes)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._told_bytes += len(whole)
        split = (line.split() for line in whole.decode().splitlines())
        self._told += (Line(name, what, task_id, int(attempt), int(ns)) for name, what, task_id, attempt, ns in split)
        return self._told

    def lines(self) -> list[Line]:
        """Return what they wrote of runs."""
        return [line for line in self.told() if line.what != "stall"]

    def begun(self, since: int = 0) -> Counter[str]:
        """Count the runs of each process."""
        return Counter(line.name for line in self.told()[since:] if line.what == "begin")

    async def until_begun(self, *names: str, each: int = 20) -> None:
        """Wait until each of some processes has begun so many runs from now on."""
        since = len(self.told())

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


def begin(
    command: list[str], settings: dict[str, str] | None = None, log: Path | None = None
) -> "subprocess.Popen[str]":
    """Start a process; what it complains of goes into a log, or to where ours goes."""
    environment = {**os.environ, **(settings or {})}
    with nullcontext() if log is None else log.open("a") as said:
        return subprocess.Popen(
            command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=said, text=True, env=environment
        )


@contextmanager
def environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Have other settings for a process that is started meanwhile."""
    before = dict(os.environ)
    os.environ.update(settings)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def hear(heard: Connection) -> str:
    """Return what a process says when it has started; nothing if it ended before."""
    try:
        return str(heard.recv())
    except EOFError:
        return ""


def process_state(pid: int | None) -> str:
    """Return how the system has a process: R, S, T if it is suspended."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def now_ns() -> int:
    """Read the clock that all processes of a machine share."""
    return time.monotonic_ns()


def wall_ahead_ns() -> int:
    """Return how far the machine's wall clock is ahead of that."""
    return time.time_ns() - now_ns()


async def until(condition: Callable[[], Awaitable[bool]], patience_s: float = PATIENCE_S) -> None:
    async with asyncio.timeout(patience_s):
        while not await condition():  # noqa: ASYNC110 - it is about other processes
            await asyncio.sleep(0.01)


def play(folder: Path, url: str, story: Callable[[Nodes], Awaitable[None]], lease_ms: int = LEASE_MS) -> None:
    """Let a story happen; in the end no process is left."""

    async def main() -> None:
        async with on_stage(folder, url, lease_ms) as nodes:
            await story(nodes)

    asyncio.run(main())


@asynccontextmanager
async def on_stage(folder: Path, url: str, lease_ms: int = LEASE_MS) -> AsyncIterator[Nodes]:
    """Open a store for processes to be started on; in the end none is left."""
    store = await open_store(url)
    nodes = Nodes(folder, url, store, lease_ms)
    following = asyncio.create_task(follow(nodes.wall))
    try:
        async with nodes.adder:
            yield nodes
    finally:
        following.cancel()
        for process in nodes.processes.values():
            process.kill()
            process.join()
        await store.close()


async def follow(wall: Wall) -> None:
    """Note how the machine's wall clock is adjusted, besides the steps that are noted by who sets it."""
    while True:
        await asyncio.sleep(FOLLOWED_S)
        by_ns = wall_ahead_ns() - wall.latest_ns
        if abs(by_ns) > ADJUSTED_NS:
            wall.step(by_ns, now_ns())
