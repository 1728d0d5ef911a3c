"""A sample in a process of its own: nothing is left over from the one before, and it ends in any case."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from bench.durable.samples import SAMPLE_S_MAX
from bench.durable.setting import Figures

__all__ = ["PackageMissing", "SampleFailed", "take_sample"]

MISSING = "ModuleNotFoundError: "


class SampleFailed(RuntimeError):
    """A child died, or took too long."""


class PackageMissing(SampleFailed):
    """What was to be measured is not installed."""


def take_sample(name: str, folder: Path, n: int, turn: int = 0, url: str = "") -> Figures:
    """Take a sample of this name, or fill a file, in a fresh process."""
    setting = {"name": name, "folder": str(folder), "n": n, "turn": turn, "url": url}
    setting["began_ns"] = time.monotonic_ns()
    command = [sys.executable, "-m", "bench.durable.samples", json.dumps(setting)]
    errors = None if name == "fill" else subprocess.PIPE  # filling tells how far it is
    try:
        child = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, timeout=SAMPLE_S_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        raise SampleFailed(f"not done after {SAMPLE_S_MAX} s") from None
    if child.returncode != 0:
        last = (child.stderr or "").strip().rpartition("\n")[2]
        if last.startswith(MISSING):
            raise PackageMissing(f"{last.removeprefix(MISSING)}; pip install tickwheel[bench]")
        raise SampleFailed(f"exit code {child.returncode}: {last}")
    figures: Figures = json.loads(child.stdout)
    return figures
