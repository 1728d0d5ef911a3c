"""The benchmark of BPMN timers runs, and judges what it measures."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.verdict import Verdict
from bench.workflow import TARGET


def test_both_ways_have_a_figure_and_a_verdict(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.workflow", "--quick", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads((tmp_path / "workflow.json").read_text())
    assert all(len(taken) == 1 and taken[0] > 0 for taken in result["figures_ms"].values())
    ratio = result["figures_ms"]["polled"][0] / result["figures_ms"]["driven"][0]
    assert result["target"]["value"] == pytest.approx(ratio)
    assert TARGET.promise in done.stdout


@pytest.mark.parametrize(("ratio", "outcome"), [(99.9, "missed"), (100.0, "met")])
def test_the_promise_is_a_hundred_times(ratio: float, outcome: str) -> None:
    assert Verdict(TARGET, ratio).outcome == outcome
