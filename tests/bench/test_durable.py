"""Every sample of durable tasks is taken, with a few tasks; how fast is not asserted anywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.durable import children
from bench.durable.__main__ import read_options
from bench.durable.children import PackageMissing, SampleFailed, take_sample
from bench.durable.ours import FAR_OPERATIONS
from bench.durable.report import UNITS, Run
from bench.durable.samples import GROUPS, SAMPLES, samples_of
from bench.durable.targets import TARGETS, TARGETS_OF, Key, Target, judge

ROOT = Path(__file__).parents[2]
SPEED = {"per_s"}
STARTED = {"start_s", "memory_mb"}
CHANGED = {"add_us", "cancel_us", "list_us"}
LATE = {"p50_ms", "p99_ms", "p999_ms"}
TINY = {"add_many": 20, "group_commit": 64, "fire": 20, "lateness": 20}  # tasks, or tasks a second
FEW = ("--quick", "--repeats", 1, "--tasks-max", 100)
A, B, C = (("fire, tickwheel", figure) for figure in ("a", "b", "c"))


def run_durable(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.durable", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)


@pytest.mark.parametrize("name", [sample.name for sample in samples_of("sqlite") if sample.group != "far"])
def test_every_sample_has_its_figures(name: str, tmp_path: Path) -> None:
    figures = take_sample(name, tmp_path, TINY[SAMPLES[name].group])
    if SAMPLES[name].group == "lateness":
        assert set(figures) == {*LATE, "early"}
        assert figures.pop("early") == 0, "how late is noise, that none is early is not"
        assert figures["p50_ms"] <= figures["p99_ms"] <= figures["p999_ms"]
    else:
        assert set(figures) == SPEED
    assert all(value > 0 for value in figures.values())


@pytest.mark.parametrize(("name", "n"), [("far, none", 0), ("far, few", 2 * FAR_OPERATIONS)])
def test_file_that_was_filled_is_measured_again_and_again(name: str, n: int, tmp_path: Path) -> None:
    take_sample("fill", tmp_path, n)
    for turn in range(2):
        figures = take_sample(name, tmp_path, n, turn)
        assert set(figures) == (STARTED | CHANGED if n else STARTED)
        assert all(value > 0 for value in figures.values())


def test_what_was_asked_for_is_measured_and_told_as_json(tmp_path: Path) -> None:
    done = run_durable("--quick", "--repeats", 2, "--only", "group_commit", "--json", "--strict", "--out", tmp_path)
    result = json.loads(done.stdout)
    assert result == json.loads((tmp_path / "durable.json").read_text())
    names = [sample.name for sample in samples_of("sqlite") if sample.group == "group_commit"]
    assert [figure["sample"] for figure in result["figures"]] == names
    for figure in result["figures"]:
        assert len(figure["samples"]) == 2
        assert min(figure["samples"]) <= figure["median"] <= max(figure["samples"])
    outcomes = {target["promise"]: target["outcome"] for target in result["targets"]}
    assert len(outcomes) == len(TARGETS)
    measured = [promise for promise, outcome in outcomes.items() if outcome != "not measured"]
    assert measured == ["group_commit: adds a second of 64 callers, against one"]
    assert all(result["environment"].values())
    assert "round 2 of 2, 2 of 2: add, 64 callers" in done.stderr
    assert done.returncode == 1, "a target that was not measured is not met"


@pytest.mark.parametrize(
    ("store", "name", "beside"), [("postgres", "PostgreSQL", ["fire, procrastinate"]), ("etcd", "etcd", [])]
)
def test_another_store_is_measured_by_our_samples_and_what_is_about_it(
    tmp_path: Path, store: str, name: str, beside: list[str]
) -> None:
    done = run_durable("--store", store, *FEW, "--only", "add_many,fire", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / f"durable-{store}.json").read_text())
    assert [figure["sample"] for figure in result["figures"]] == ["add_many, tickwheel", "fire, tickwheel", *beside]
    assert result["gaps"] == []
    assert [f"fire, {package}" for package in result["peers"]] == beside
    assert all(f"beside {package} {version}" in done.stdout for package, version in result["peers"].items())
    assert len(result["targets"]) == len(TARGETS_OF[store])
    assert f"durable tasks on {name}" in done.stdout


def test_redis_is_measured_beside_arq_and_with_every_write_flushed(tmp_path: Path) -> None:
    done = run_durable("--store", "redis", *FEW, "--only", "add_many,fire", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "durable-redis.json").read_text())
    names = {"add_many, tickwheel", "add_many, flushed", "fire, tickwheel", "fire, arq", "fire, flushed"}
    assert {figure["sample"] for figure in result["figures"]} == names
    assert result["gaps"] == []
    assert "Redis, which writes to the disk each second" in done.stdout


def test_package_that_is_missing_is_told_apart_from_a_sample_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "huey.py").write_text("raise ModuleNotFoundError('No module named huey')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(PackageMissing, match="No module named huey; pip install"):
        take_sample("add_many, huey", tmp_path, 1)
    with pytest.raises(SampleFailed, match=r"exit code 1: .*no folder"):
        take_sample("add_many, tickwheel", tmp_path / "nowhere", 1)


def test_package_that_is_missing_leaves_a_gap_and_the_tables_name_every_figure_and_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "huey.py").write_text("raise ModuleNotFoundError('No module named huey')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = run_durable(*FEW, "--only", "add_many", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "durable.json").read_text())
    assert [gap["sample"] for gap in result["gaps"]] == ["add_many, huey"]
    assert len(result["figures"]) == sum(sample.group == "add_many" for sample in samples_of("sqlite")) - 1
    assert all(sample.name in done.stdout for sample in samples_of("sqlite") if sample.group == "add_many")
    assert all(target.promise in done.stdout for target in TARGETS)


def test_sample_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "SAMPLE_S_MAX", 0.05)  # less than an interpreter takes to start
    with pytest.raises(SampleFailed, match=r"not done after 0\.05 s"):
        take_sample("add, 1 caller", tmp_path, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "everything"], "there is no 'everything'"),
        (["--repeats", "0"], "a number from 1 to"),
        (["--repeats", "6"], "a number from 1 to"),
        (["--tasks-max", "0"], "a number from 1 to"),
        (["--fast"], "unrecognized arguments"),
        (["--store", "paper"], "invalid choice"),
    ],
)
def test_bad_option_is_refused_with_a_message(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        read_options(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "value"),
    [
        (Target("as it is", A, "<=", 1), 12.0),
        (Target("against the faster", A, ">=", 1, (B, C)), 3.0),
        (Target("more than", A, "<=", 1, (B,), less=True), 10.0),
    ],
)
def test_target_compares_medians(target: Target, value: float) -> None:
    known: dict[Key, float] = {A: 12.0, B: 2.0, C: 4.0}
    assert target.value(known.get) == value
    for key in (target.over, *target.under):
        assert target.value({**known, key: None}.get) is None


@pytest.mark.parametrize(("relation", "holds"), [("<=", [True, True, False]), (">=", [False, True, True])])
def test_target_holds_up_to_its_bound(relation: str, holds: list[bool]) -> None:
    target = Target("bound", A, relation, 5)
    assert [target.holds(value) for value in (4.9, 5.0, 5.1)] == holds


def test_one_early_task_in_any_sample_misses_the_target() -> None:
    key = ("lateness, 1,000 a second", "early")
    [verdict] = [verdict for verdict in judge({key: [0.0, 1.0, 0.0]}) if verdict.value is not None]
    assert verdict.outcome == "missed"


def test_every_group_has_targets_and_every_figure_a_unit() -> None:
    assert {SAMPLES[target.over[0]].group for target in TARGETS} == set(GROUPS)
    assert SPEED | STARTED | CHANGED | LATE | {"early"} == set(UNITS)
    assert not [verdict for verdict in Run(quick=True).verdicts if verdict.outcome != "not measured"]
