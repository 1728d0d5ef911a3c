"""The benchmark of the server runs, and measures something of everything."""

import json
import subprocess
import sys
from pathlib import Path


def test_everything_has_a_figure(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.service", "--quick", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr[-2000:]
    figures = json.loads((tmp_path / "service.json").read_text())["figures"]
    growth = figures.pop("50 listeners, MB more in the second half")
    assert len(growth) == 1
    assert len(figures) == 5
    assert all(len(taken) == 1 and taken[0] > 0 for taken in figures.values()), figures
    assert "of an empty handler" in done.stdout
