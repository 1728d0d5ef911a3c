"""One sample, in a process of its own.

Every sample begins with a fresh interpreter, so that no subject inherits the heap another one left:

    $ python -m bench.measure '{"workload": "start", "subject": "asyncio", "n": 1000, "collector": true}'
    {"figure": 1034.2, "pass_s": 0.0021}
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass

__all__ = ["Cell", "Sample", "SampleFailed", "take_sample"]

TIMED_NS_MIN = 20_000_000  # a shorter section is repeated: below this, interrupts weigh too much
PASSES_S_MAX = 0.4  # but set-ups are not repeated for longer than this
TIMEOUT_S = 60  # for what nobody could foresee


@dataclass(frozen=True, slots=True)
class Cell:
    """A place in the tables: what is measured, and under which conditions."""

    workload: str
    subject: str
    n: int
    collector: bool = True  # Python's garbage collector, on by default

    def turned(self, *, collector: bool) -> Cell:
        """Return the same cell with the collector on or off."""
        return Cell(self.workload, self.subject, self.n, collector)


@dataclass(frozen=True, slots=True)
class Sample:
    """A child's answer."""

    figure: float  # in the workload's unit
    pass_s: float  # what one pass took with its set-up; the time box goes by this


class SampleFailed(RuntimeError):
    """A child died, or answered nothing that can be read."""


def take_sample(cell: Cell, timeout_s: float = TIMEOUT_S) -> Sample | None:
    """Take a sample in a fresh process; None if it took too long."""
    from bench.subjects import SUBJECTS  # noqa: PLC0415 - the child sets up its own order of imports

    env = {**os.environ, "TICKWHEEL_PURE": "1" if SUBJECTS[cell.subject].pure else "0", "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "bench.measure", json.dumps(asdict(cell))]
    try:
        child = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return None
    if child.returncode != 0:
        raise SampleFailed(f"{cell} ended with exit code {child.returncode}:\n{child.stderr.strip()}")
    return Sample(**json.loads(child.stdout))


def measure(cell: Cell) -> Sample:
    """Take a sample here and now."""
    from bench.subjects import SUBJECTS  # noqa: PLC0415
    from bench.workloads import WORKLOADS  # noqa: PLC0415
    from tickwheel import COMPILED  # noqa: PLC0415

    subject, workload = SUBJECTS[cell.subject], WORKLOADS[cell.workload]
    if subject.pure == COMPILED:
        raise SampleFailed(f"{subject.name} would run on the {'compiled' if COMPILED else 'interpreted'} build")
    rig = subject.make()
    rig.warm_up()
    rig.close()
    if not cell.collector:
        gc.disable()
    total, operations, passes = 0.0, 0, 0
    began = time.perf_counter()
    while True:
        rig = subject.make()
        lap = workload.run(rig, subject, cell.n)
        total, operations, passes = total + lap.total, operations + lap.operations, passes + 1
        spent_s = time.perf_counter() - began
        if not workload.unit.startswith("ns") or total >= TIMED_NS_MIN or spent_s >= PASSES_S_MAX:
            return Sample(total / operations, spent_s / passes)
        rig.close()


if __name__ == "__main__":
    print(json.dumps(asdict(measure(Cell(**json.loads(sys.argv[1]))))), flush=True)
    os._exit(0)  # freeing ten million timers one by one would only keep the next sample waiting
