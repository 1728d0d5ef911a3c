"""Takes all samples, in rounds: each round takes one sample of every cell of every table.

On a shared machine a noisy minute hits one sample of each of many cells, not all samples of one, and
the median leaves it out. The first round also finds what takes too long:

    OrderedList, start:   1,000 -> 0.001 s   10,000 -> 0.2 s   100,000 -> 40 s projected, left out
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log
from statistics import median
from typing import TYPE_CHECKING

from bench.measure import Cell, Sample, take_sample
from bench.subjects import SUBJECTS
from bench.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["Plan", "Run", "Tracker", "plan_cells", "run_rounds"]

PASS_S_MAX = 2.5  # a sample projected, or found in the first round, to take longer is left out
TIMEOUT_S = 8.0  # and one that does take this long, against the projection, is broken off
NEEDED_TIMEOUT_S = 60.0  # unless a target needs it


@dataclass(frozen=True, slots=True)
class Plan:
    """Which cells to measure, by ascending size within a workload; `needed` ones are never left out."""

    cells: tuple[Cell, ...]
    needed: frozenset[Cell]
    gaps: dict[Cell, str]


@dataclass(slots=True)
class Run:
    """What came of it: the figures of every cell, and why some have none."""

    figures: dict[Cell, list[float]] = field(default_factory=dict)
    gaps: dict[Cell, str] = field(default_factory=dict)

    def median(self, cell: Cell) -> float | None:
        """Return the median of a cell, if it was measured."""
        figures = self.figures.get(cell)
        return median(figures) if figures else None


class Tracker:
    """Told what is going on; this one keeps it to itself."""

    def expect(self, total: int) -> None:
        """Take note of how many samples there will be."""

    def begin(self, cell: Cell) -> None:
        """Take note of what is being measured."""

    def end(self) -> None:
        """Take note that it was."""


def plan_cells(
    workloads: Iterable[str],
    subjects: Sequence[str],
    sizes: Sequence[int],
    collectors: Sequence[bool],
    needed: frozenset[Cell],
) -> Plan:
    """Lay out every cell of the tables, and name those that are too large for their subject."""
    cells: list[Cell] = []
    gaps: dict[Cell, str] = {}
    for workload in (WORKLOADS[name] for name in workloads):
        for n in workload.sizes or sorted(sizes):
            for subject in (SUBJECTS[name] for name in subjects):
                if not workload.applies(subject, n):
                    continue
                for collector in collectors if workload.both_collectors else [True]:
                    cell = Cell(workload.name, subject.name, n, collector)
                    if True in collectors and not collector and cell not in needed:
                        continue  # beside the tables with it on, only the targets are measured with it off
                    if n > subject.n_max and cell not in needed:
                        gaps[cell] = f"sizes end at {subject.n_max:,} for this subject"
                    else:
                        cells.append(cell)
    return Plan(tuple(cells), needed, gaps)


def run_rounds(
    plan: Plan,
    repeats: int,
    tracker: Tracker,
    sample: Callable[[Cell, float], Sample | None] = take_sample,
) -> Run:
    """Take every sample, round after round."""
    run = Run(gaps=dict(plan.gaps))
    pass_s: dict[Cell, list[tuple[int, float]]] = {}  # of the sizes below, by the cell of size 0
    tracker.expect(len(plan.cells) * repeats)
    for round_number in range(repeats):
        for cell in plan.cells:
            if cell in run.gaps:
                continue
            points = pass_s.setdefault(Cell(cell.workload, cell.subject, 0, cell.collector), [])
            needed = cell in plan.needed
            projected_s = _project(points, cell.n) if round_number == 0 and not needed else 0.0
            # Every workload begins by starting n timers: where that takes too long, so does the rest.
            unstartable = run.gaps.get(Cell("start", cell.subject, cell.n, cell.collector)) if not needed else None
            tracker.begin(cell)
            taken = None
            if not unstartable and projected_s <= PASS_S_MAX:
                taken = sample(cell, NEEDED_TIMEOUT_S if needed else TIMEOUT_S)
            if taken is not None and taken.pass_s > PASS_S_MAX and not needed and round_number == 0:
                projected_s, taken = taken.pass_s, None
            if taken is None:
                run.gaps[cell] = unstartable or _explain(projected_s)
                run.figures.pop(cell, None)
                points.append((cell.n, max(projected_s, PASS_S_MAX * 2)))  # larger ones will not do either
                tracker.expect(_left(plan, run, repeats))
                continue
            points.append((cell.n, taken.pass_s))
            run.figures.setdefault(cell, []).append(taken.figure)
            tracker.end()
    return run


def _explain(projected_s: float) -> str:
    if projected_s > PASS_S_MAX:
        return f"a sample takes about {projected_s:,.0f} s"
    return f"a sample was broken off after {TIMEOUT_S:.0f} s"


def _left(plan: Plan, run: Run, repeats: int) -> int:
    return sum(cell not in run.gaps for cell in plan.cells) * repeats


def _project(points: list[tuple[int, float]], n: int) -> float:
    """Project the time of a pass from the growth of the last two sizes; 0 if there is nothing to go by.

    >>> round(_project([(1_000, 0.001), (10_000, 0.1)], 100_000), 3)
    10.0
    """
    if len(points) < 2:  # noqa: PLR2004 - two points make a line
        return 0.0
    (n_before, before_s), (n_last, last_s) = points[-2:]
    if n_before == 0:
        return 0.0
    exponent: float = log(last_s / before_s) / log(n_last / n_before)
    return max(last_s, last_s * float((n / n_last) ** exponent))
