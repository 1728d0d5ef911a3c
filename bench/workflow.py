"""`python -m bench.workflow`: what a BPMN timer costs that comes due among many, beside looking at all that wait.

    driven      some of 10,000 waiting instances come due: each is claimed, loaded, goes on, is saved and finished
    polled      a program that looks for them loads each of the 10,000, refreshes its timers, and finds nothing to do

Both are processor time of this process with all its threads, for one instance that is due and for one look at all; they
are taken in turn on the same file, and the figures are medians. A program that polls pays for every look.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import apsw
from rich.console import Console
from rich.table import Table
from SpiffWorkflow.bpmn.script_engine import PythonScriptEngine

from bench.results import environment
from bench.verdict import Verdict
from tickwheel import aio
from tickwheel.scheduler import AsyncScheduler
from tickwheel.workflow.spiff import SpiffEngine
from tickwheel.workflow.spiff.definitions import read, specs_of
from tickwheel.workflow.spiff.writing import read_body

__all__ = ["TARGET", "main"]

ROOT = Path(__file__).parent.parent
BPMN = ROOT / "examples" / "approval" / "expense.bpmn"
WAITING, QUICK_WAITING = 10_000, 200
DUE = 50  # instances that come due together, to divide what is measured by
REPEATS = 3
AHEAD_S = 3.0  # from their start until they are due: none of it is counted but the end
FILLED_AT_ONCE = 200  # starts that share commits
FAR = {"remind_every": "P30D", "escalate_after": "P60D", "give_up_after": "P1D", "expense": "x"}


@dataclass(frozen=True, slots=True)
class Target:
    """What is promised."""

    promise: str
    bound: float

    def holds(self, value: float) -> bool:
        """Hold a ratio against the bound."""
        return value >= self.bound


TARGET = Target("one look at all that wait, against one instance that is due", 100.0)


async def fill(engine: SpiffEngine, waiting: int) -> None:
    """Start many instances that wait for a month."""
    for first in range(0, waiting, FILLED_AT_ONCE):
        names = [f"waiting-{number}" for number in range(first, min(first + FILLED_AT_ONCE, waiting))]
        await asyncio.gather(*(engine.start("expense", FAR, id=name) for name in names))
        print(f"\r\x1b[K{first + len(names):,} of {waiting:,} instances wait", end="", file=sys.stderr)


async def measure_driven(engine: SpiffEngine, sample: int) -> float:
    """Let some instances come due, and return the processor time of one, in milliseconds."""
    names = [f"due-{sample}-{number}" for number in range(DUE)]
    due_s = time.time() + AHEAD_S
    times = {**FAR, "escalate_after": f"PT{AHEAD_S}S"}
    await asyncio.gather(*(engine.start("expense", times, id=name) for name in names))
    await asyncio.sleep(due_s - time.time() - 0.05)
    began_s = time.process_time()
    # All were started within a moment, and are due within one; then the next item of each is there.
    await asyncio.sleep(due_s - time.time())
    while len(await engine.items(node="decide", limit=1000)) < DUE * (sample + 1):  # noqa: ASYNC110 - as a page would
        await asyncio.sleep(0.05)
    return (time.process_time() - began_s) / DUE * 1000


def measure_polled(path: Path) -> float:
    """Look at every instance that waits, and return the processor time in milliseconds."""
    [definition] = read({BPMN.name: BPMN.read_text(encoding="utf-8")})
    specs, scripts = specs_of(definition), PythonScriptEngine()
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        began_s = time.process_time()
        for (body,) in connection.execute("SELECT body FROM instances WHERE finished_at IS NULL"):
            workflow = read_body(body, specs, scripts)
            workflow.refresh_timers()
            workflow.do_engine_steps()
        return (time.process_time() - began_s) * 1000


async def measure(folder: Path, waiting: int, repeats: int) -> dict[str, list[float]]:
    """Take both figures in turn."""
    figures: dict[str, list[float]] = {"driven": [], "polled": []}
    scheduler = AsyncScheduler(f"sqlite:///{folder}/tasks.db")
    async with SpiffEngine(f"sqlite:///{folder}/processes.db", scheduler) as engine:
        await engine.deploy(BPMN)
        await fill(engine, waiting)
        for sample in range(repeats):
            print(f"\r\x1b[Kround {sample + 1} of {repeats}", end="", file=sys.stderr)
            figures["driven"].append(await measure_driven(engine, sample))
            figures["polled"].append(await asyncio.to_thread(measure_polled, folder / "processes.db"))
    print("\r\x1b[K", end="", file=sys.stderr)
    return figures


def tell(figures: dict[str, list[float]], verdict: Verdict[Target], waiting: int) -> None:
    """Print a table, and whether the promise was kept."""
    names = {"driven": "driven: one instance that is due", "polled": f"polled: one look at {waiting:,} that wait"}
    table = Table("measured", "median, ms", "from", "to")
    for name, taken in figures.items():
        table.add_row(names[name], *(f"{figure:,.2f}" for figure in (median(taken), min(taken), max(taken))))
    console = Console(width=None if sys.stdout.isatty() else 110)
    console.print(table)
    words = f"{verdict.target.promise}: {verdict.value:,.0f}, >= {verdict.target.bound:,.0f}: {verdict.outcome}"
    console.print(words, highlight=False)


def main() -> int:
    """Measure, tell, write down."""
    parser = argparse.ArgumentParser(prog="python -m bench.workflow", description="What a BPMN timer costs.")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--quick", action="store_true", help="few instances, to see that it works")
    parser.add_argument("--strict", action="store_true", help="exit code 1 if the target is missed")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results")
    options = parser.parse_args()
    waiting, repeats = (QUICK_WAITING, 1) if options.quick else (WAITING, options.repeats)
    with tempfile.TemporaryDirectory() as folder:
        figures = aio.run(measure(Path(folder), waiting, repeats))
    verdict = Verdict(TARGET, median(figures["polled"]) / median(figures["driven"]))
    tell(figures, verdict, waiting)
    options.out.mkdir(parents=True, exist_ok=True)
    target = {**asdict(TARGET), "value": verdict.value, "outcome": verdict.outcome}
    result = {"environment": environment(), "waiting": waiting, "figures_ms": figures, "target": target}
    (options.out / "workflow.json").write_text(json.dumps(result, indent=1) + "\n")
    return 1 if options.strict and verdict.outcome != "met" else 0


if __name__ == "__main__":
    sys.exit(main())
