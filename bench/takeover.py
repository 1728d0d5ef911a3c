"""How long it takes SQLite nodes to take over from one that was killed, and what they cost while nothing happens.

    python -m bench.takeover [--kills 40] [--far 1000000]

Of the processes on one file, one is killed again and again; measured is the time until another owns all partitions.

    plain      two processes, one is killed
    fork       the one that is killed has forked a child, which lives on
    two        the one that is killed has two schedulers
    heirs      the one that is left has two schedulers, which share what was the other's
    deleted    the lock file of the one that is killed is deleted before
    chain      of three, the second is killed while it takes over from the first
    join       nobody is killed: a second process starts, and the first, which gives it half of what it owns, is not
               told of it: its socket is deleted. Measured from when the second runs

Then one process, and two, do nothing for some seconds: how often their threads were woken, and what they wrote.

Each line ends with its limit, and with MISSED if the worst case is beyond it; then the exit status is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tickwheel import AsyncScheduler
from tickwheel.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tickwheel.stores import Store

__all__ = ["main"]

KILLS = 40
IDLE_SECONDS = 35.0  # more than between two rescans
SETTLE_SECONDS = 3.0
FAR_TASKS = 1_000_000
BATCH = 1_000
LOOK_SECONDS = 0.002
WAYS = ("plain", "fork", "two", "heirs", "deleted", "chain", "join")

# What is promised: a death is noticed at once, a lost notification within a second, and idle nodes cost almost nothing.
TAKEOVER_SECONDS_MAX = 0.3
HAND_OVER_SECONDS_MAX = 1.0
WAKE_UPS_MAX = {1: 5, 2: 15}  # in a second, of each of so many nodes


async def run_node(url: str, way: str) -> None:
    """Run the tasks of a store until killed."""
    async with AsyncExitStack() as stack:
        for _ in range(2 if way in ("two", "heirs") else 1):
            await stack.enter_async_context(AsyncScheduler(url))
        child = os.fork() if way == "fork" else None
        if child == 0:
            signal.pause()  # it is ended with its group
        print("runs", flush=True)
        await asyncio.Event().wait()


class Node:
    """A process that runs tasks; made when it does."""

    def __init__(self, url: str, way: str = "plain") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.takeover", "--node", url, way],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self._process.pid
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "runs\n"

    def kill(self) -> None:
        """Kill it, and not what it forked."""
        self._process.kill()

    def clean_up(self) -> None:
        """End all that is left of it."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        with self._process:
            pass


async def until_owned(store: Store, nodes: int) -> None:
    """Wait until all partitions are owned, by so many nodes and fairly."""
    while True:
        owners = [lease.node for lease in await store.leases()]
        if len(owners) == store.partitions and len(set(owners)) == nodes:
            counts = [owners.count(node) for node in set(owners)]
            if max(counts) - min(counts) <= 1:
                return
        await asyncio.sleep(LOOK_SECONDS)


def lock_files(url: str, suffix: str = "") -> set[Path]:
    """Return the lock files of the nodes of a database, or their sockets."""
    path = Path(url.removeprefix("sqlite:///"))
    return {each for each in path.parent.glob(f"{path.name}-node-*") if each.suffix == suffix}


async def take_over(url: str, way: str, kills: int) -> list[float]:
    """End one of several processes, so many times; return how many seconds each takeover took."""
    store = await open_store(url)
    took: list[float] = []
    for _ in range(kills):
        survivor = await asyncio.to_thread(Node, url, "heirs" if way == "heirs" else "plain")
        others = lock_files(url)
        if way == "join":
            for each in lock_files(url, ".sock"):
                each.unlink()
        kind = way if way in ("fork", "two") else "plain"
        victims = [await asyncio.to_thread(Node, url, kind) for _ in range(2 if way == "chain" else 1)]
        begun = time.perf_counter()
        await until_owned(store, 3 if way in ("two", "heirs", "chain") else 2)
        if way == "deleted":
            for each in lock_files(url) - others:
                each.unlink()
        for number, victim in enumerate(victims if way != "join" else ()):
            if number:
                await asyncio.sleep(0.01 * (len(took) % 10))  # somewhere in the takeover
            begun = time.perf_counter()
            victim.kill()
        if way != "join":
            await until_owned(store, 2 if way == "heirs" else 1)
        took.append(time.perf_counter() - begun)
        for node in (*victims, survivor):
            node.clean_up()
    await store.close()
    return took


def count_wakeups(pid: int) -> int:
    """Return how often the threads of a process went to sleep so far."""
    status = (each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/status"))
    return sum(
        int(line.split()[1])
        for text in status
        for line in text.splitlines()
        if line.startswith("voluntary_ctxt_switches")
    )


def count_written(pid: int) -> int:
    """Return how many bytes a process has written so far, to files and anything else."""
    fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(fields["wchar"])


def idle(url: str, nodes: int) -> list[tuple[float, int]]:
    """Return for each of some idle processes how often it woke in a second, and how many bytes it wrote."""
    processes = [Node(url) for _ in range(nodes)]
    time.sleep(SETTLE_SECONDS)
    before = [(count_wakeups(each.pid), count_written(each.pid)) for each in processes]
    time.sleep(IDLE_SECONDS)
    after = [(count_wakeups(each.pid), count_written(each.pid)) for each in processes]
    for each in processes:
        each.clean_up()
    return [((late[0] - soon[0]) / IDLE_SECONDS, late[1] - soon[1]) for soon, late in zip(before, after, strict=True)]


async def add_far_tasks(url: str, far: int) -> None:
    """Add tasks that are due in a year."""
    async with AsyncScheduler(url, run=False) as scheduler:
        for _ in range(far // BATCH):
            await scheduler.add_many({"handler": "nothing", "delay": "365d"} for _ in range(BATCH))


def judge(line: str, limit: str, *, met: bool) -> bool:
    """Print what was measured, and what is promised; return whether that is met."""
    print(f"{line} (limit: {limit}){'' if met else ' MISSED'}", flush=True)
    return met


def main(arguments: Sequence[str]) -> int:
    """Measure, and print what was found; return the exit status."""
    parser = argparse.ArgumentParser(description="takeovers and idle costs of nodes on an SQLite file")
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--far", type=int, default=FAR_TASKS, help="tasks that are due in a year, while nodes are idle")
    parser.add_argument("--only", choices=[*WAYS, "idle"])
    chosen = parser.parse_args(arguments)
    met = True
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/tasks.db"
        for way in WAYS if chosen.only is None else {chosen.only} & set(WAYS):
            took = sorted(asyncio.run(take_over(url, way, chosen.kills)))
            p90 = took[int(chosen.kills * 0.9)]
            limit_s = HAND_OVER_SECONDS_MAX if way == "join" else TAKEOVER_SECONDS_MAX
            met &= judge(
                f"{chosen.kills} takeovers, {way}: median {median(took):.3f} s, p90 {p90:.3f} s, max {took[-1]:.3f} s",
                f"{limit_s} s",
                met=took[-1] <= limit_s,
            )
        for far in (0, chosen.far) if chosen.only in (None, "idle") else ():
            if far:
                asyncio.run(add_far_tasks(url, far))
            for nodes in (1, 2):
                for wakeups, written in idle(url, nodes):
                    met &= judge(
                        f"idle, {nodes} nodes, {far:,} far tasks: {wakeups:.1f} wake-ups/s, {written:,} bytes written",
                        f"{WAKE_UPS_MAX[nodes]}, and none",
                        met=wakeups <= WAKE_UPS_MAX[nodes] and written == 0,
                    )
    return 0 if met else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--node"]:
        asyncio.run(run_node(*sys.argv[2:]))
    else:
        sys.exit(main(sys.argv[1:]))
