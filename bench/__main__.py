"""`python -m bench`: measure, tell, write down."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec

from bench.measure import SampleFailed
from bench.options import Options, read_options
from bench.results import document
from bench.rounds import plan_cells, run_rounds
from bench.subjects import SUBJECTS
from bench.targets import judge, needed_cells
from bench.workloads import WORKLOADS
from tickwheel import COMPILED

NOT_COMPILED = """\
The wheels are not compiled, so there is nothing to compare the interpreted one with.
Install with a C compiler (Debian: apt install gcc python3-dev):  pip install --force-reinstall tickwheel[bench]
In a checkout:  pip install -e .[bench]
If TICKWHEEL_PURE is set, unset it."""


def main() -> int:
    """Run the benchmarks and return the exit code."""
    options = read_options(sys.argv[1:])
    if problem := _find_problem(options):
        print(problem, file=sys.stderr)
        return 1
    from bench.plots import draw_plots  # noqa: PLC0415 - only now is it known that matplotlib is there
    from bench.report import Bar, print_report  # noqa: PLC0415

    needed = needed_cells(options.collectors)
    if options.targets_only:
        sizes = sorted({cell.n for cell in needed if not WORKLOADS[cell.workload].sizes})
        plan = plan_cells(WORKLOADS, tuple(SUBJECTS), sizes, options.collectors, needed)
        plan = type(plan)(tuple(cell for cell in plan.cells if cell in needed), needed, {})
    else:
        plan = plan_cells(options.workloads, options.subjects, options.sizes, options.collectors, needed)
    try:
        with Bar() as bar:
            run = run_rounds(plan, options.repeats, bar)
    except SampleFailed as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; nothing was written", file=sys.stderr)
        return 130
    result = json.dumps(document(run, options), indent=1)
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / "results.json").write_text(result + "\n")
    if not options.targets_only:  # a curve needs more sizes than the targets do
        draw_plots(run, options.folder, collector=options.collectors[0])
    if options.json:
        print(result)
    else:
        print_report(run, options)
    verdicts = judge(run.median, collector=options.collectors[0])
    return 1 if options.strict and any(verdict.outcome != "met" for verdict in verdicts) else 0


def _find_problem(options: Options) -> str | None:
    """Say what keeps the run from starting."""
    for package in ("uvloop", "cachetools", "matplotlib"):
        if find_spec(package) is None:
            return f"{package} is missing; pip install tickwheel[bench]"
    subjects = [SUBJECTS[name] for name in options.subjects]
    if not COMPILED and any(subject.ours and not subject.pure for subject in subjects):
        return NOT_COMPILED
    return None


if __name__ == "__main__":
    sys.exit(main())
