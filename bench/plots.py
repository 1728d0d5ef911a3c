"""Growth curves: what an operation costs as more timers are pending, one SVG for each workload.

Both axes are logarithmic, so a flat line is a cost that does not grow and a straight rising one is a power of n.
"""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib import pyplot as plt

from bench.measure import Cell
from bench.subjects import LEADER, SUBJECTS
from bench.workloads import WORKLOADS

if TYPE_CHECKING:
    from pathlib import Path

    from bench.rounds import Run

__all__ = ["PLOTTED", "draw_plots"]

PLOTTED = ("start", "stop", "start_stop", "expire", "mixed")

# Okabe and Ito's colours, which the colour-blind can tell apart, darkened where white would swallow them.
COLOURS = (
    *("#d55e00", "#e69f00", "#0072b2", "#56b4e9", "#009e73"),
    *("#cc79a7", "#8c6d31", "#999999", "#666666", "#b8a900"),
    *("#7b3294", "#003c30"),
)
OTHERS = ("#000000", "#555555", "#aaaaaa")


def draw_plots(run: Run, folder: Path, *, collector: bool = True) -> list[Path]:
    """Draw every workload that was measured and return the files."""
    mpl.use("Agg")
    # Identifiers are hashed with this and no date is written: a new run changes only what was measured.
    mpl.rcParams["svg.hashsalt"] = "tickwheel"
    paths = [folder / f"{workload}.svg" for workload in PLOTTED]
    return [path for path in paths if _draw(run, path, collector=collector)]


def _draw(run: Run, path: Path, *, collector: bool) -> bool:
    workload = WORKLOADS[path.stem]
    figure, axes = plt.subplots(figsize=(9, 5.5), layout="constrained")
    colours, others = cycle(COLOURS), cycle(OTHERS)
    drawn = False
    for subject in SUBJECTS.values():
        if subject.family not in workload.families:
            continue
        colour = next(colours if subject.ours else others)
        cells = sorted(
            (cell for cell in run.figures if cell == Cell(workload.name, subject.name, cell.n, collector)),
            key=lambda cell: cell.n,
        )
        if not cells:
            continue
        axes.plot(
            [cell.n for cell in cells],
            [run.median(cell) or 0.0 for cell in cells],
            label=subject.name,
            color=colour,
            linewidth=3.2 if subject.name == LEADER else 1.8 if subject.ours else 1.2,
            linestyle="-" if subject.ours else "--",
            marker="o",
            markersize=4,
            zorder=3 if subject.ours else 2,
        )
        drawn = True
    if drawn:
        axes.set(xscale="log", yscale="log", xlabel="timers (n)", ylabel=workload.unit)
        axes.set_title(f"{workload.name}: {workload.says}", loc="left")
        axes.grid(visible=True, which="major", color="#dddddd")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
        figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return drawn
