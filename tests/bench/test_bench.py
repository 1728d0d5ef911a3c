"""The benchmarks run, at sizes too small to mean anything; how fast is not asserted anywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from bench import lateness
from bench.measure import Cell, Sample
from bench.options import read_options
from bench.plots import PLOTTED
from bench.rounds import Plan, Tracker, run_rounds
from bench.subjects import LEADER, LEADERS, SUBJECTS, THREADS
from bench.targets import TARGETS, Target, judge, needed_cells
from bench.threads import TimersRig
from bench.workloads import BYTES_N_MIN, WORKLOADS
from tickwheel import COMPILED

# Without a native build there is nothing to measure the interpreted one against, and the program says so.
needs_native = pytest.mark.skipif(not COMPILED, reason="no C compiler here, so no native build to measure")

ROOT = Path(__file__).parents[2]
SIZES = (100,)
A, B = Cell("start", "asyncio", 10), Cell("start", LEADER, 10)
IN_REAL_TIME = ("lateness", "early")  # they take seconds at any size; see below


def run_bench(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def medians(result: dict[str, Any], *, collector: bool = True) -> dict[tuple[str, str, int], float]:
    figures = [figure for figure in result["figures"] if figure["collector"] == collector]
    return {(figure["workload"], figure["subject"], figure["n"]): figure["median"] for figure in figures}


@needs_native
@pytest.mark.parametrize(
    "name", [subject.name for subject in SUBJECTS.values() if not (subject.pure or subject.family == "thread")]
)
def test_every_subject_can_be_measured_in_every_workload_that_applies(name: str) -> None:
    subject = SUBJECTS[name]
    for workload in WORKLOADS.values():
        for n in workload.sizes or SIZES:
            if workload.name in IN_REAL_TIME or not workload.applies(subject, n):
                continue
            rig = subject.make()
            lap = workload.run(rig, subject, n)
            rig.close()
            assert lap.total > 0, workload.name
            assert lap.operations > 0, workload.name


@needs_native
def test_what_leads_its_family_goes_into_the_tables_and_plots(tmp_path: Path) -> None:
    # What is plotted, and what can only be measured in a process of its own; the others are measured above.
    workloads = [*PLOTTED, "after_cancel", "cache_get"]
    chosen = [
        subject
        for subject in SUBJECTS.values()
        if subject.name in LEADERS.values() or subject.pure or subject.family == "thread"
    ]
    done = run_bench(
        "--sizes", "100", "--repeats", 1, "--collector", "on", "--workloads", ",".join(workloads),
        "--subjects", ",".join(subject.name for subject in chosen), "--out", tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "results.json").read_text())
    expected = {
        (workload.name, subject.name, n)
        for workload in (WORKLOADS[name] for name in workloads)
        for n in workload.sizes or SIZES
        for subject in chosen
        if workload.applies(subject, n)
    }
    found = medians(result)
    assert set(found) == expected
    assert all(figure > 0 for figure in found.values())
    assert {name for name, _, _ in expected} == set(workloads)
    assert all(result["environment"].values())
    for name in PLOTTED:
        assert ET.parse(tmp_path / f"{name}.svg").getroot().tag.endswith("svg")
    assert "targets, collector on" in done.stdout


@needs_native
def test_json_goes_to_stdout_and_progress_does_not(tmp_path: Path) -> None:
    subjects = f"{LEADER},asyncio"
    done = run_bench(
        "--sizes", BYTES_N_MIN, "--repeats", 1, "--workloads", "bytes,start", "--subjects", subjects,
        "--json", "--out", tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result == json.loads((tmp_path / "results.json").read_text())
    assert len(medians(result)) == 4
    assert set(medians(result, collector=False)) == {("start", "asyncio", BYTES_N_MIN)}, "what a target speaks of"
    assert all(figure > 0 for figure in medians(result).values())


@pytest.mark.parametrize("name", IN_REAL_TIME)
def test_timers_that_come_due_in_real_time_are_each_measured(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lateness, "SECONDS", 0.05)
    rig = TimersRig()
    lap = WORKLOADS[name].run(rig, SUBJECTS[THREADS], 1000)
    rig.close()
    assert lap.operations == 1
    assert lap.total > 0 if name == "lateness" else lap.total == 0  # how late is noise, that none is early is not


def test_every_subject_is_compared_with_one_of_ours_in_its_family() -> None:
    for subject in SUBJECTS.values():
        leader = SUBJECTS[LEADERS[subject.family]]
        assert leader.ours
        assert any(w.applies(subject, n) and w.applies(leader, n) for w in WORKLOADS.values() for n in w.sizes or SIZES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sizes", "many"], "sizes are numbers"),
        (["--sizes", "0"], "a size is from 1"),
        (["--repeats", "0"], "at least 1"),
        (["--subjects", "sundial"], "there is no 'sundial'"),
        (["--workloads", "rest"], "there is no 'rest'"),
        (["--targets-only", "--quick"], "leave out"),
        (["--fast"], "unrecognized arguments"),
    ],
)
def test_bad_option_is_refused_with_a_message(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        read_options(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_bad_option_ends_the_program_with_2() -> None:
    done = run_bench("--sizes", "many")
    assert done.returncode == 2
    assert "sizes are numbers" in done.stderr


@pytest.mark.parametrize(
    ("relation", "bound", "outcome"),
    [(">=", 12, "met"), (">=", 12.5, "missed"), ("<=", 12, "met"), ("<=", 11.9, "missed"), (">", 12, "missed")],
)
def test_target_divides_and_holds_against_its_bound(relation: str, bound: float, outcome: str) -> None:
    target = Target("faster", A, B, relation, bound)
    (verdict,) = judge({A: 1200.0, B: 100.0}.get, collector=True, targets=[target])
    assert verdict.value == 12
    assert verdict.outcome == outcome


def test_target_without_divisor_is_held_against_its_bound_itself() -> None:
    weight = Cell("bytes", LEADER, 10)
    (verdict,) = judge({weight: 88.0}.get, collector=False, targets=[Target("light", weight, None, "<=", 88)])
    assert verdict.outcome == "met"


@pytest.mark.parametrize("known", [{}, {A: 1.0}, {B: 1.0}])
def test_target_with_a_median_missing_is_not_measured(known: dict[Cell, float]) -> None:
    (verdict,) = judge(known.get, collector=True, targets=[Target("faster", A, B, ">=", 1)])
    assert verdict.outcome == "not measured"


def test_every_cell_the_targets_need_can_be_measured() -> None:
    for cell in needed_cells([True, False], TARGETS):
        assert WORKLOADS[cell.workload].applies(SUBJECTS[cell.subject], cell.n)


def test_size_projected_to_take_too_long_is_left_out_unless_needed() -> None:
    small, medium, large = (Cell("start", "OrderedList", n) for n in (10, 100, 1000))
    cost_s = {small: 0.01, medium: 1.0, large: 100.0}

    def sample(cell: Cell, timeout_s: float) -> Sample:
        assert timeout_s > 0
        return Sample(1.0, cost_s[cell])

    run = run_rounds(Plan((small, medium, large), frozenset(), {}), 2, Tracker(), sample)
    assert set(run.figures) == {small, medium}
    assert run.gaps == {large: "a sample takes about 100 s"}
    run = run_rounds(Plan((small, medium, large), frozenset([large]), {}), 2, Tracker(), sample)
    assert run.figures[large] == [1.0, 1.0]
