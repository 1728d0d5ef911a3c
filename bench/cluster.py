"""`python -m bench.cluster`: how soon another node goes on, and what more nodes are good for.

    takeover   one of two nodes is killed (SIGKILL): until the last task it was running has begun again on the other
    drain      one of two nodes is told to end (SIGTERM), under load: until the other holds everything
    fire       1, 2, 3 and 4 nodes: no-op tasks a second, loaded, claimed, run and finished, and what each took

Nodes are processes with default settings, on a server that is started for it. The figures are medians; two nodes are
held against one round by round.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from bench.results import environment
from bench.verdict import Verdict
from tests.cluster.nodes import Nodes, now_ns, on_stage, until
from tests.cluster.places import PLACES
from tickwheel.tasks import Status

__all__ = ["main"]

LEASE_MS = 3_000  # the default
RUNNING = 200  # tasks in flight when a node is killed
RUN_S = 2.0
BATCH = 1_000
LEAD_S, ADDED_PER_S = 12.0, 5_000  # so that all is added and loaded before it is due, however busy the machine is
NODES_MAX = 4
REPEATS = 3
PATIENCE_S = 120.0
FOLDER = Path(__file__).parent / "results"

Figures = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Target:
    """A promise: a figure, and its bound."""

    promise: str
    figure: str
    relation: str
    bound: float

    def holds(self, value: float) -> bool:
        """Hold a value against the bound."""
        return value <= self.bound if self.relation == "<=" else value >= self.bound


TARGETS = (
    Target("a killed node's tasks run again on another, seconds", "takeover_s", "<=", 3.5),
    Target("a node that is told to end hands over, seconds", "drain_s", "<=", 0.5),
    Target("two nodes fire, times as much as one", "two_nodes", ">=", 1.0),
)


async def takeover(nodes: Nodes) -> dict[str, float]:
    """Kill a node, and see when what it was running begins again."""
    await both_share(nodes)
    await nodes.add(RUNNING, seconds=RUN_S)

    async def are_running() -> bool:
        return nodes.begun().total() == RUNNING

    await until(are_running)
    killed_ns = now_ns()
    await nodes.end("a", signal.SIGKILL)
    ended = {line.id for line in nodes.lines() if line.what == "end"}
    in_flight = {line.id for line in nodes.lines() if line.name == "a"} - ended

    def again() -> dict[str, int]:
        return {line.id: line.ns for line in nodes.lines() if line.name == "b" and line.id in in_flight}

    async def all_again() -> bool:
        return len(again()) == len(in_flight)

    await until(all_again, PATIENCE_S)
    return {"takeover_s": (max(again().values()) - killed_ns) / 1e9}


async def drain(nodes: Nodes) -> dict[str, float]:
    """Let a node leave, and see when the other holds everything."""
    await both_share(nodes)
    async with nodes.stream():
        await nodes.until_begun("a", "b")
        told_ns = now_ns()
        nodes.send("a", signal.SIGTERM)
        await nodes.until_shares(64)
        took_s = (now_ns() - told_ns) / 1e9
        await nodes.end("a", signal.SIGTERM)
    await nodes.until_done()
    return {"drain_s": took_s}


async def both_share(nodes: Nodes) -> None:
    """Start two nodes, and wait for fair shares."""
    await asyncio.gather(nodes.start("a"), nodes.start("b"))
    await nodes.until_shares(32, 32)


async def fire(nodes: Nodes, count: int, tasks: int) -> dict[str, float]:
    """Let some nodes fire tasks that are all due at one moment."""
    due = time.monotonic() + LEAD_S + tasks / ADDED_PER_S
    for _ in range(tasks // BATCH):
        delay_s = due - time.monotonic()
        await nodes.adder.add_many({"handler": "nothing", "delay": delay_s} for _ in range(BATCH))
    names = [f"n{number}" for number in range(count)]
    await asyncio.gather(*map(nodes.start, names))
    await nodes.until_shares(*sorted((64 + number) // count for number in range(count)))
    left_s = due - time.monotonic()
    assert left_s > 1.0, "there was not enough time to get ready"
    await asyncio.sleep(left_s)
    before = spent(nodes, names)

    async def are_done() -> bool:
        await asyncio.sleep(0.02)  # who asks too often is in the way
        return (await nodes.store.counts())[Status.COMPLETED] == tasks

    await until(are_done, PATIENCE_S)
    took_s = time.monotonic() - due
    node_s, store_s = (after - earlier for after, earlier in zip(spent(nodes, names), before, strict=True))
    return {
        f"fire_{count}_per_s": tasks / took_s,
        f"fire_{count}_node_us": node_s / tasks * 1e6,
        f"fire_{count}_store_us": store_s / tasks * 1e6,
        f"fire_{count}_cores": (node_s + store_s) / took_s,
    }


def spent(nodes: Nodes, names: list[str]) -> tuple[float, float]:
    """Return the seconds of processor time that the nodes have taken, and all else that was started from here."""
    parents, ticks = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            pid = int(path.parent.name)
            parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours and pid not in ours}:
        ours |= more
    of_nodes = {process.pid or 0 for process in map(nodes.processes.__getitem__, names)}
    a_second = os.sysconf("SC_CLK_TCK")
    others = ours - of_nodes - {os.getpid()}
    return sum(ticks[pid] for pid in of_nodes) / a_second, sum(ticks[pid] for pid in others) / a_second


async def sample(store: str, play: Callable[[Nodes], Coroutine[None, None, dict[str, float]]]) -> dict[str, float]:
    """Take one sample, on a server of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, PLACES[store](Path(name)) as place:
        async with AsyncExitStack() as stack:
            return await play(await stack.enter_async_context(on_stage(Path(name), place.url, LEASE_MS)))


def measure(store: str, repeats: int, tasks: int, only: str | None, nodes_max: int) -> Figures:
    """Take all samples, in rounds, so that a noisy minute hits all alike."""
    plays: dict[str, Callable[[Nodes], Coroutine[None, None, dict[str, float]]]] = {
        "takeover": takeover,
        "drain": drain,
    }
    for count in range(1, nodes_max + 1):
        plays[f"fire {count}"] = lambda nodes, count=count: fire(nodes, count, tasks)  # type: ignore[misc]
    figures: Figures = {}
    for number in range(repeats):
        for name, play in plays.items():
            if only is None or name.startswith(only):
                print(f"round {number + 1} of {repeats}: {name}", file=sys.stderr, flush=True)
                for figure, value in asyncio.run(sample(store, play)).items():
                    figures.setdefault(figure, []).append(value)
    return figures


def judge(figures: Figures) -> list[Verdict[Target]]:
    """Hold the medians against what is promised."""
    medians = {name: median(values) for name, values in figures.items()}
    if "fire_2_per_s" in medians:
        # Round by round: what else the machine does changes from minute to minute, and is much the same within one.
        pairs = zip(figures["fire_2_per_s"], figures["fire_1_per_s"], strict=True)
        medians["two_nodes"] = median(two / one for two, one in pairs)
    return [Verdict(target, medians.get(target.figure)) for target in TARGETS]


def print_report(figures: Figures, verdicts: list[Verdict[Target]]) -> None:
    """Print what was measured, and what was promised."""
    console = Console(width=None if sys.stdout.isatty() else 110)
    table = Table("figure", "median", "from", "to", title="a cluster", title_justify="left")
    for name, values in figures.items():
        table.add_row(
            name,
            *(
                f"{value:,.3g}" if value < BATCH else f"{value:,.0f}"
                for value in (median(values), min(values), max(values))
            ),
        )
    console.print(table)
    table = Table("promise", "target", "measured", "outcome", title="targets", title_justify="left")
    for verdict in verdicts:
        value = "" if verdict.value is None else f"{verdict.value:.3g}"
        table.add_row(
            verdict.target.promise, f"{verdict.target.relation} {verdict.target.bound:g}", value, verdict.outcome
        )
    console.print(table)


def main(arguments: list[str] | None = None) -> int:
    """Measure, tell and write down; return 1 with --strict if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--store", choices=[*PLACES], default="postgresql")
    parser.add_argument("--repeats", type=int, default=REPEATS, choices=range(1, 10))
    parser.add_argument("--tasks", type=int, default=20_000, help="to be fired, in thousands of thousand")
    parser.add_argument("--nodes-max", type=int, default=NODES_MAX, choices=range(1, NODES_MAX + 1), help="that fire")
    parser.add_argument("--only", choices=["takeover", "drain", "fire"])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--strict", action="store_true", help="exit code 1 unless every target is met")
    parser.add_argument("--out", type=Path, default=FOLDER)
    asked = parser.parse_args(arguments)
    figures = measure(asked.store, asked.repeats, asked.tasks, asked.only, asked.nodes_max)
    verdicts = judge(figures)
    document = {
        "environment": environment(),
        "store": asked.store,
        "tasks": asked.tasks,
        "figures": figures,
        "targets": [{**asdict(each.target), "value": each.value, "outcome": each.outcome} for each in verdicts],
    }
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / f"cluster-{asked.store}.json").write_text(json.dumps(document, indent=1) + "\n")
    if asked.json:
        print(json.dumps(document, indent=1))
    else:
        print_report(figures, verdicts)
    return int(asked.strict and any(verdict.outcome != "met" for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
