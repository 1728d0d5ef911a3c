"""Tells the result in the terminal: a table for each workload, one for the targets, and a progress bar.

Progress goes to stderr, so that stdout holds the result and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.measure import Cell
from bench.rounds import Tracker
from bench.subjects import LEADERS, SUBJECTS
from bench.targets import judge
from bench.workloads import WORKLOADS

if TYPE_CHECKING:
    from types import TracebackType

    from bench.options import Options
    from bench.rounds import Run

__all__ = ["Bar", "print_report"]

GAP = "—"
STYLE_OF_OUTCOME = {"met": "green", "missed": "bold red", "not measured": "dim"}
NARROW = 120  # a pipe has no width; tables need about this


class Bar(Tracker):
    """A progress bar on stderr, with the time elapsed and what is being measured."""

    def __init__(self) -> None:
        self.progress = Progress(
            TextColumn("measuring"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=Console(stderr=True),
        )
        self.task = self.progress.add_task("", total=None)

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.progress.stop()

    def expect(self, total: int) -> None:
        """Set the length of the bar."""
        self.progress.update(self.task, total=total)

    def begin(self, cell: Cell) -> None:
        """Show what is being measured."""
        off = "" if cell.collector else ", collector off"
        self.progress.update(self.task, description=f"{cell.workload}: {cell.subject}, n = {cell.n:,}{off}")

    def end(self) -> None:
        """Move on by one."""
        self.progress.advance(self.task)


def print_report(run: Run, options: Options) -> None:
    """Print all tables to stdout."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=NARROW)
    for workload in WORKLOADS:
        for collector in options.collectors:
            _print_workload(console, run, workload, collector=collector)
    for collector in options.collectors:
        _print_targets(console, run, collector=collector)


def _print_workload(console: Console, run: Run, workload: str, *, collector: bool) -> None:
    cells = [cell for cell in (*run.figures, *run.gaps) if cell.workload == workload and cell.collector == collector]
    sizes = sorted({cell.n for cell in cells if cell in run.figures})
    if not sizes:
        return
    subjects = [name for name in SUBJECTS if any(cell.subject == name for cell in cells)]
    row = WORKLOADS[workload]
    state = f", collector {'on' if collector else 'off'}" if row.both_collectors else ""
    table = Table(title=f"{workload}: {row.says} ({row.unit}{state})", title_justify="left")
    table.add_column("subject")
    for n in sizes:
        table.add_column(f"n = {n:,}", justify="right")
    for subject in subjects:
        texts = [_text(run, Cell(workload, subject, n, collector)) for n in sizes]
        table.add_row(subject, *texts, style="bold" if subject in LEADERS.values() else "")
    console.print(table)
    for subject in subjects:
        reasons = {run.gaps[cell]: cell.n for cell in reversed(cells) if cell.subject == subject and cell in run.gaps}
        for reason, n in sorted(reasons.items(), key=lambda pair: pair[1]):
            if n <= sizes[-1]:
                console.print(f"  {GAP} {subject}, from n = {n:,}: {reason}", style="dim", highlight=False)
        if SUBJECTS[subject].note:
            console.print(f"  {subject}: {SUBJECTS[subject].note}", style="dim", highlight=False)
    console.print()


def _text(run: Run, cell: Cell) -> str:
    """Write a median, and how many times that of its family's leader it is."""
    figure = run.median(cell)
    if figure is None:
        return GAP if cell in run.gaps else ""
    text = _short(figure)
    leader = LEADERS[SUBJECTS[cell.subject].family]
    led = run.median(Cell(cell.workload, leader, cell.n, cell.collector))
    return text if led is None or cell.subject == leader else f"{text} ({_short(figure / led)}x)"


def _short(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"  # noqa: PLR2004 - three digits tell enough


def _print_targets(console: Console, run: Run, *, collector: bool) -> None:
    table = Table(title=f"targets, collector {'on' if collector else 'off, for information'}", title_justify="left")
    table.add_column("promise")
    for heading in ("target", "measured", "outcome"):
        table.add_column(heading, justify="right")
    for verdict in judge(run.median, collector=collector):
        value = "" if verdict.value is None else f"{verdict.value:.3g}"
        style = STYLE_OF_OUTCOME[verdict.outcome]
        bound = f"{verdict.target.relation} {verdict.target.bound:g}"
        table.add_row(verdict.target.promise, bound, value, f"[{style}]{verdict.outcome}[/]")
    console.print(table)
