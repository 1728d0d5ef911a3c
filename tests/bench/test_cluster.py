"""The benchmark of the cluster: small runs of it, and what it makes of figures."""

import json
from pathlib import Path

from bench import cluster


def test_a_small_run_tells_and_writes_down_what_it_measured(tmp_path: Path) -> None:
    arguments = ["--store", "sqlite", "--repeats", "1", "--only", "drain", "--json", "--out", str(tmp_path)]
    assert cluster.main(arguments) == 0
    written = json.loads((tmp_path / "cluster-sqlite.json").read_text())
    [took_s] = written["figures"]["drain_s"]
    assert took_s > 0
    assert [target["outcome"] for target in written["targets"]].count("not measured") == 2


def test_figures_are_held_against_what_is_promised() -> None:
    figures = {
        "takeover_s": [3.0, 9.0, 3.1],
        "drain_s": [0.6],
        "fire_1_per_s": [10.0, 4.0],
        "fire_2_per_s": [12.0, 4.1],
    }
    assert [verdict.outcome for verdict in cluster.judge(figures)] == ["met", "missed", "met"]
    assert [verdict.outcome for verdict in cluster.judge({})] == ["not measured"] * 3
