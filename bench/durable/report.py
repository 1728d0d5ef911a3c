"""Tells the result: as two tables, or as a document."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.durable.samples import SAMPLES
from bench.durable.targets import Key, Target, judge
from bench.results import environment
from bench.verdict import Verdict

__all__ = ["TASKS_MAX", "Run", "document", "print_report"]

NARROW = 110  # a pipe has no width; the tables need about this
NAMES = {
    "sqlite": "SQLite",
    "postgres": "PostgreSQL",
    "etcd": "etcd",
    "redis": "Redis, which writes to the disk each second, or before it answers (flushed)",
}
STYLES = {"met": "green", "missed": "bold red", "not measured": "dim"}
UNITS = {
    "per_s": ("", "a second"),
    "start_s": ("start-up", "s"),
    "memory_mb": ("memory", "MB"),
    "add_us": ("add", "µs"),
    "cancel_us": ("cancel", "µs"),
    "list_us": ("list a page of 100", "µs"),
    "p50_ms": ("50 %", "ms"),
    "p99_ms": ("99 %", "ms"),
    "p999_ms": ("99.9 %", "ms"),
    "early": ("early", "tasks"),
}

TASKS_MAX = 1_000_000  # the most that a sample is about


@dataclass(slots=True)
class Run:
    """What was measured, and what was not, with the reason."""

    quick: bool
    store: str = "sqlite"
    tasks_max: int = TASKS_MAX
    samples: dict[Key, list[float]] = field(default_factory=dict)
    gaps: dict[str, str] = field(default_factory=dict)
    failed: bool = False  # whether something is missing that could have been measured

    @property
    def verdicts(self) -> list[Verdict[Target]]:
        """Every target, held against it."""
        return judge(self.samples, self.store)


def document(run: Run, options: dict[str, Any]) -> dict[str, Any]:
    """Write everything down in what JSON can hold."""
    return {
        "environment": {**environment(), "disk": _file_system()},
        "options": options,
        "peers": _peers(run),
        "figures": [
            {
                "sample": name,
                "n": SAMPLES[name].size(quick=run.quick, tasks_max=run.tasks_max),
                "figure": figure,
                "median": median(taken),
                "samples": taken,
            }
            for (name, figure), taken in run.samples.items()
        ],
        "gaps": [{"sample": name, "reason": reason} for name, reason in run.gaps.items()],
        "targets": [
            {**asdict(verdict.target), "value": verdict.value, "outcome": verdict.outcome} for verdict in run.verdicts
        ],
    }


def _peers(run: Run) -> dict[str, str]:
    """Return which version of what was measured beside ours."""
    packages = {SAMPLES[name].package for name, _ in run.samples} - {""}
    return {package: version(package) for package in sorted(packages)}


def _file_system() -> str:
    """Return what kind of file system the samples were taken on: in memory, a flush to the disk costs nothing."""
    folder = Path(tempfile.gettempdir()).resolve()
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    kinds = {place: kind for place, kind in mounts if folder.is_relative_to(place)}
    return kinds[max(kinds, key=len)] if kinds else "unknown"


def print_report(run: Run) -> None:
    """Print both tables to stdout."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=NARROW)
    table = Table(title=f"durable tasks on {NAMES[run.store]}", title_justify="left")
    for heading in ("measured", "n", "figure"):
        table.add_column(heading, justify="right" if heading == "n" else "left")
    for heading in ("median", "from", "to", "unit"):
        table.add_column(heading, justify="left" if heading == "unit" else "right")
    for (name, figure), taken in run.samples.items():
        what, unit = UNITS[figure]
        numbers = (median(taken), min(taken), max(taken))
        table.add_row(
            name, f"{SAMPLES[name].size(quick=run.quick, tasks_max=run.tasks_max):,}", what, *map(_short, numbers), unit
        )
    console.print(table)
    for package, number in _peers(run).items():
        console.print(f"  beside {package} {number}", style="dim", highlight=False)
    for name, reason in run.gaps.items():
        console.print(f"  {name}: not measured: {reason}", style="dim", highlight=False)
    _print_targets(console, run.verdicts)


def _print_targets(console: Console, verdicts: Sequence[Verdict[Target]]) -> None:
    table = Table(title="targets", title_justify="left")
    table.add_column("promise")
    for heading in ("target", "measured", "outcome"):
        table.add_column(heading, justify="right")
    for verdict in verdicts:
        target = verdict.target
        value = "" if verdict.value is None else _short(verdict.value)
        outcome = f"[{STYLES[verdict.outcome]}]{verdict.outcome}[/]{' (an aim)' if target.aim else ''}"
        table.add_row(target.promise, f"{target.relation} {target.bound:,g}", value, outcome)
    console.print(table)


def _short(figure: float) -> str:
    return f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:.3g}"  # noqa: PLR2004 - three digits tell enough
