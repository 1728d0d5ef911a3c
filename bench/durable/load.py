"""`python -m bench.durable.load`: what tasks cost while they arrive, alone or beside another checkout.

    $ python -m bench.durable.load --against ../tickwheel-before --repeats 5

    steady     1,000 tasks a second come due one after another: CPU time for each, all threads of the process
    lateness   1,000, 5,000 and 10,000 a second: how late 99 % are at the most, less what a bare sleep is late
    bulk       20,000 tasks are due at one moment: CPU time for each, of async and of sync handlers
    backlog    500,000 tasks are overdue at the start: the first, the memory, and what holds the loop
    blocked    250,000 tasks are due and cannot begin, at a limit of one or without a handler: another handler's tasks

CPU time is measured, where it says enough, because other programs on the machine do not take part in it. Samples of the
two checkouts take turns, so that a noisy minute hits both. The other checkout needs its native modules built.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from array import array
from asyncio.events import Handle
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from tickwheel import AsyncScheduler
from tickwheel.tasks.record import Status

__all__ = ["main"]

ROOT = Path(__file__).parents[2]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STEADY_S = 5.0  # how long tasks come due
LEAD_S = 2.0  # from when all are added until the first is due
FILL_PER_S = 5_000  # tasks that are added in a second at the least: on a busy machine
BATCH = 1_000
BULK = 20_000
BACKLOG = 500_000
BLOCKED = 250_000
URGENT = 20  # tasks of another handler, of as many priorities
BACKLOG_S = 15.0  # how long the backlog is worked off, for the rest of it is like the beginning
PATIENCE_S = 120.0
SAMPLE_S_MAX = 600
PROBE_S = 0.001  # what a bare sleeper sleeps
GROUPS = ("steady", "lateness", "bulk", "backlog", "blocked")
RATES = (1_000, 5_000, 10_000)  # tasks a second
HELD_MS_MAX = 10  # what holds the loop for longer is named

Figures = dict[str, float]


# -- in a process of its own, with the checkout that is measured


class Witness:
    """Handlers that remember when they were called, and for when."""

    def __init__(self) -> None:
        self.called_ns = array("q")  # eight bytes each: what they take is not to be taken for the scheduler's
        self.late_ns = array("q")

    def note(self, due_ms: int) -> None:
        """Note a call."""
        now_ns = time.time_ns()
        self.called_ns.append(now_ns)
        self.late_ns.append(now_ns - due_ms * 1_000_000)

    async def note_async(self, due_ms: int) -> None:
        """Note a call, on the loop."""
        self.note(due_ms)


async def run_all(
    url: str, dues_ms: Callable[[int], list[int]], tasks: int, *, sync: bool = False
) -> tuple[Witness, float]:
    """Add tasks, run them, and return the CPU time that it took from shortly before the first until all were over."""
    witness = Witness()
    first_ms = time.time_ns() // 1_000_000 + int(1000 * (LEAD_S + tasks / FILL_PER_S))
    async with AsyncScheduler(url, run=False) as adder:
        wishes = [wish(due_ms) for due_ms in dues_ms(first_ms)]
        for first in range(0, tasks, BATCH):
            await adder.add_many(wishes[first : first + BATCH])
    del wishes  # so that the garbage collector does not walk through them meanwhile
    scheduler = AsyncScheduler(url)
    scheduler.task("note")(witness.note if sync else witness.note_async)
    async with scheduler, asyncio.timeout(PATIENCE_S):
        await asyncio.sleep(max(first_ms / 1000 - 0.2 - time.time(), 0))
        if witness.called_ns:
            raise TimeoutError("the first tasks came due before all were added: the machine is too busy")
        began_s = time.process_time()
        while len(witness.called_ns) < tasks:  # noqa: ASYNC110 - being told of each would be measured, too
            await asyncio.sleep(0.02)
        while (await scheduler.counts())[Status.COMPLETED] < tasks:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        return witness, time.process_time() - began_s


def wish(due_ms: int) -> dict[str, Any]:
    """Return what is asked for with add_many."""
    return {"handler": "note", "args": {"due_ms": due_ms}, "at": EPOCH + timedelta(milliseconds=due_ms)}


def evenly(rate: int) -> tuple[Callable[[int], list[int]], int]:
    """Return when tasks are due that arrive one after another."""
    tasks = int(rate * STEADY_S)
    return lambda first_ms: [first_ms + number * 1000 // rate for number in range(tasks)], tasks


def steady(url: str, rate: int) -> Figures:
    """Measure what a task costs when so many arrive in a second."""
    dues_ms, tasks = evenly(rate)
    witness, cpu_s = asyncio.run(run_all(url, dues_ms, tasks))
    return {"cpu_us": cpu_s * 1e6 / tasks, "early": sum(late < 0 for late in witness.late_ns)}


def lateness(url: str, rate: int) -> Figures:
    """Measure how late tasks begin, and how late a bare sleeper wakes up meanwhile."""
    probe = subprocess.Popen([sys.executable, "-c", PROBE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    dues_ms, tasks = evenly(rate)
    witness, _ = asyncio.run(run_all(url, dues_ms, tasks))
    began_ns, ended_ns = min(witness.called_ns), max(witness.called_ns)
    bare, _ = probe.communicate(f"{began_ns} {ended_ns}\n")
    p99 = sorted(witness.late_ns)[int(tasks * 0.99)] / 1e6
    return {"p99_ms": p99, "bare_p99_ms": float(bare), "early": sum(late < 0 for late in witness.late_ns)}


PROBE = f"""
import sys, threading, time
noted, told = [], []
threading.Thread(target=lambda: told.append(sys.stdin.readline()), daemon=True).start()
while not told:
    due_ns = time.time_ns() + {int(PROBE_S * 1e9)}
    time.sleep({PROBE_S})
    now_ns = time.time_ns()
    noted.append((now_ns, now_ns - due_ns))
began, ended = map(int, told[0].split())
late = sorted(late for at, late in noted if began <= at <= ended) or [0]
print(late[int(len(late) * 0.99)] / 1e6)
"""


def bulk(url: str, *, sync: bool) -> Figures:
    """Measure what a task costs when all are due at one moment."""
    witness, cpu_s = asyncio.run(run_all(url, lambda first_ms: [first_ms] * BULK, BULK, sync=sync))
    took_s = (max(witness.called_ns) - min(witness.called_ns)) / 1e9
    return {"cpu_us": cpu_s * 1e6 / BULK, "wall_us": took_s * 1e6 / BULK}


def backlog(url: str) -> Figures:
    """Measure the first seconds of a scheduler that finds many tasks overdue."""
    return asyncio.run(work_off(url))


async def work_off(url: str) -> Figures:
    """Fill a file, measure a scheduler that is idle, then one that finds the backlog."""
    past_ms = time.time_ns() // 1_000_000 - 30_000
    async with AsyncScheduler(url, run=False) as adder:
        for first in range(0, BACKLOG, BATCH):
            await adder.add_many([wish(past_ms - number) for number in range(first, first + BATCH)])
    async with AsyncScheduler(f"{url}-idle") as idle:
        idle.task("note")(Witness().note_async)
        await asyncio.sleep(1)
        gc.collect()
        idle_mb = resident_mb()
    witness, watch = Witness(), LoopWatch()
    scheduler = AsyncScheduler(url)
    scheduler.task("note")(witness.note_async)
    with watch:
        began_s, most_mb = time.monotonic(), 0.0
        async with scheduler:
            started_s = time.monotonic()
            while time.monotonic() < began_s + BACKLOG_S:
                await asyncio.sleep(0.01)
                most_mb = max(most_mb, resident_mb())
            done, ended_s = len(witness.called_ns), time.monotonic()
            held = watch.figures()  # not while it stops: closing the file brings its log back into it
    first_s = (witness.called_ns[0] - time.time_ns()) / 1e9 + time.monotonic() - began_s
    return {
        "start_s": started_s - began_s,
        "first_s": first_s,
        "per_s": done / (ended_s - began_s),
        "memory_mb": most_mb - idle_mb,
        **held,
    }


def blocked(url: str, *, known: bool) -> Figures:
    """Measure when another handler's tasks begin among many that are due and cannot."""
    return asyncio.run(get_past(url, known=known))


async def get_past(url: str, *, known: bool) -> Figures:
    """Let some tasks be there at the start, the last and the first by priority, and add some to a node that runs."""
    past_ms = time.time_ns() // 1_000_000 - 30_000
    called: list[tuple[int, str, int]] = []  # when, which batch, and of which priority
    async with AsyncScheduler(url, run=False) as adder:
        for first in range(0, BLOCKED, BATCH):
            await adder.add_many(
                [{**wish(past_ms - number), "handler": "slow"} for number in range(first, first + BATCH)]
            )
        await adder.add_many(urgent("start", -URGENT // 2))
        scheduler = AsyncScheduler(url)

        @scheduler.task("urgent", concurrency=1)  # so that their order is seen
        async def note(batch: str, priority: int) -> None:
            called.append((time.monotonic_ns(), batch, priority))

        if known:

            @scheduler.task("slow", concurrency=1)
            async def slow(due_ms: int) -> None:  # noqa: ARG001
                await asyncio.Event().wait()

        figures: Figures = {}
        for batch, lowest in (("start", -URGENT // 2), ("later", -URGENT // 2), ("most", 1001 - URGENT)):
            began_ns = time.monotonic_ns()
            await (scheduler.start() if batch == "start" else adder.add_many(urgent(batch, lowest)))
            async with asyncio.timeout(PATIENCE_S):
                while sum(each[1] == batch for each in called) < URGENT:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
            ours = [each for each in called if each[1] == batch]
            figures[f"{batch}_first_s"] = (ours[0][0] - began_ns) / 1e9
            figures[f"{batch}_last_s"] = (ours[-1][0] - began_ns) / 1e9
            priorities = [priority for _, _, priority in ours]
            figures[f"{batch}_disorder"] = sum(sooner < later for sooner, later in pairwise(priorities))
            await asyncio.sleep(1)
        await scheduler.stop(0)
    return figures


def urgent(batch: str, lowest: int) -> list[dict[str, Any]]:
    """Return tasks of another handler, of ascending priorities."""
    return [
        {"handler": "urgent", "args": {"batch": batch, "priority": priority}, "priority": priority}
        for priority in range(lowest, lowest + URGENT)
    ]


class LoopWatch:
    """Times every callback of the loop, and every run of the garbage collector."""

    def __init__(self) -> None:
        self.wall_ms = self.cpu_ms = self.collector_ms = 0.0
        self._run = Handle._run
        self._collecting_s = 0.0
        self._collected_ms = 0.0  # within the present callback

    def __enter__(self) -> None:
        run = self._run

        def timed(handle: Handle) -> None:
            self._collected_ms = 0.0
            wall_s, cpu_s = time.perf_counter(), time.thread_time()
            run(handle)
            wall_ms = (time.perf_counter() - wall_s) * 1e3
            cpu_ms = (time.thread_time() - cpu_s) * 1e3 - self._collected_ms
            self.wall_ms, self.cpu_ms = max(self.wall_ms, wall_ms), max(self.cpu_ms, cpu_ms)
            if cpu_ms > HELD_MS_MAX:
                what = getattr(handle._callback, "__self__", handle)  # type: ignore[attr-defined]
                print(f"held for {cpu_ms:.1f} ms: {what!r:.300}", file=sys.stderr)

        Handle._run = timed  # type: ignore[assignment, method-assign]
        gc.callbacks.append(self._collected)

    def __exit__(self, *_: object) -> None:
        Handle._run = self._run  # type: ignore[method-assign]
        gc.callbacks.remove(self._collected)

    def _collected(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._collecting_s = time.thread_time()
        else:
            took_ms = (time.thread_time() - self._collecting_s) * 1e3
            self._collected_ms += took_ms
            self.collector_ms = max(self.collector_ms, took_ms)

    def figures(self) -> Figures:
        """Return the longest of each: by the clock, in CPU time without the collector, and the collector alone."""
        return {"held_ms": self.wall_ms, "held_cpu_ms": self.cpu_ms, "collector_ms": self.collector_ms}


def resident_mb() -> float:
    """Return how much memory this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


SAMPLES: dict[str, Callable[[str], Figures]] = {
    "steady, 1,000 a second": lambda url: steady(url, 1_000),
    **{f"lateness, {rate:,} a second": (lambda url, rate=rate: lateness(url, rate)) for rate in RATES},  # type: ignore[misc]
    "bulk, async": lambda url: bulk(url, sync=False),
    "bulk, sync": lambda url: bulk(url, sync=True),
    "backlog": backlog,
    "blocked, at a limit of one": lambda url: blocked(url, known=True),
    "blocked, without a handler": lambda url: blocked(url, known=False),
}


# -- taking turns


def take(name: str, checkout: Path) -> Figures:
    """Take a sample in a fresh process that imports tickwheel from a checkout."""
    os.sync()
    with tempfile.TemporaryDirectory(prefix="load-") as folder:
        child = subprocess.run(
            [sys.executable, __file__, "--sample", name, f"sqlite:///{folder}/tasks.db"],
            stdout=subprocess.PIPE,
            text=True,
            timeout=SAMPLE_S_MAX,
            check=True,
            env={**os.environ, "PYTHONPATH": str(checkout / "src")},
        )
    figures: Figures = json.loads(child.stdout)
    return figures


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.durable.load", description="What tasks cost as they arrive.")
    parser.add_argument("--against", type=Path, metavar="PATH", help="another checkout, measured in turn")
    parser.add_argument("--only", default=",".join(GROUPS), metavar="NAME,...", help="from: " + ", ".join(GROUPS))
    parser.add_argument("--repeats", type=int, default=3, help="samples of each (default 3)")
    given = parser.parse_args(arguments)
    checkouts = {"here": ROOT} | ({"there": given.against.resolve()} if given.against else {})
    for name in SAMPLES:
        group = name.partition(",")[0]
        if group not in given.only.split(","):
            continue
        taken: dict[str, list[Figures]] = {where: [] for where in checkouts}
        for _ in range(given.repeats):
            for where, checkout in checkouts.items():
                if where == "here" or group in ("steady", "bulk"):
                    taken[where].append(take(name, checkout))
        report(name, taken)
    return 0


def report(name: str, taken: dict[str, list[Figures]]) -> None:
    """Print the median of each figure, and its range."""
    for where, samples in taken.items():
        for figure in samples[0] if samples else ():
            values = sorted(sample[figure] for sample in samples)
            print(f"{name:28} {where:6} {figure:12} {median(values):10.2f}   {values[0]:.2f} to {values[-1]:.2f}")
    if taken.get("there"):
        here, there = (median(sample["cpu_us"] for sample in taken[where]) for where in ("here", "there"))
        print(f"{name:28} ratio  cpu_us       {here / there:10.2f}")
    if name.startswith("lateness"):
        above = min(sample["p99_ms"] - sample["bare_p99_ms"] for sample in taken["here"])
        print(f"{name:28} best   above_ms     {above:10.2f}")
    sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--sample"]:
        print(json.dumps(SAMPLES[sys.argv[2]](sys.argv[3])), flush=True)
        os._exit(0)
    sys.exit(main(sys.argv[1:]))
