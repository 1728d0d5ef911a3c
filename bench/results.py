"""The result of a run as a document: figures, gaps, verdicts, and where they were taken.

{"environment": {"python": "3.11.7", "cpu": ..., "compiled": true, ...},
 "options": {"sizes": [1000], "repeats": 5, ...},
 "figures": [{"workload": "start", "subject": "asyncio", "n": 1000, "collector": true,
              "median": 1034.2, "samples": [...], "unit": "ns per timer"}],
 "gaps": [{..., "reason": "a sample takes about 40 s"}],
 "targets": [{"promise": ..., "collector": true, "value": 15.6, "outcome": "met", ...}]}
"""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tickwheel
from bench.targets import judge
from bench.workloads import WORKLOADS

if TYPE_CHECKING:
    from bench.options import Options
    from bench.rounds import Run

__all__ = ["document", "environment"]


def document(run: Run, options: Options) -> dict[str, Any]:
    """Write everything down in what JSON can hold."""
    return {
        "environment": environment(),
        # Where the files went is nobody's concern but the caller's.
        "options": {name: value for name, value in asdict(options).items() if name != "folder"},
        "figures": [
            {**asdict(cell), "median": run.median(cell), "samples": figures, "unit": WORKLOADS[cell.workload].unit}
            for cell, figures in run.figures.items()
        ],
        "gaps": [{**asdict(cell), "reason": reason} for cell, reason in run.gaps.items()],
        "targets": [
            {
                "promise": verdict.target.promise,
                "collector": collector,
                "relation": verdict.target.relation,
                "bound": verdict.target.bound,
                "value": verdict.value,
                "outcome": verdict.outcome,
            }
            for collector in options.collectors
            for verdict in judge(run.median, collector=collector)
        ],
    }


def environment() -> dict[str, object]:
    """Say where figures were taken, and of what."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "tickwheel": tickwheel.__version__,
        "compiled": tickwheel.COMPILED,
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
