"""`python -m bench.durable`: measure, tell, write down."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from bench.durable.children import PackageMissing, SampleFailed, take_sample
from bench.durable.report import TASKS_MAX, Run, document, print_report
from bench.durable.samples import GROUPS, Sample, samples_of
from bench.durable.targets import TARGETS_OF
from tickwheel.testing.etcd import EtcdCluster
from tickwheel.testing.postgres import PostgresServer
from tickwheel.testing.redis import RedisServer

__all__ = ["Options", "main", "read_options"]

REPEATS, REPEATS_MAX = 3, 5  # of far tasks, each repeat cancels some, and there are a thousand in the smaller file
FOLDER = Path(__file__).parents[1] / "results"


@dataclass(frozen=True, slots=True)
class Options:
    """A run, fully decided."""

    quick: bool
    json: bool
    strict: bool
    groups: tuple[str, ...]
    repeats: int
    folder: Path
    store: str
    tasks_max: int


def read_options(arguments: Sequence[str]) -> Options:
    """Read the command line; a bad option ends the program with exit code 2 and says what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.durable", description="What durable tasks cost.")
    parser.add_argument("--quick", action="store_true", help="fewer tasks; 100,000 far ones instead of 1,000,000")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of tables")
    parser.add_argument(
        "--strict", action="store_true", help="exit code 1 unless every target is met; aims need not be"
    )
    parser.add_argument("--only", type=_groups, default=GROUPS, metavar="NAME,...", help="from: " + ", ".join(GROUPS))
    parser.add_argument("--repeats", type=_repeats, default=REPEATS, help=f"samples of each figure (default {REPEATS})")
    parser.add_argument("--out", type=Path, default=FOLDER, metavar="FOLDER", help="default: bench/results")
    parser.add_argument(
        "--store",
        choices=list(TARGETS_OF),
        default="sqlite",
        help="but for sqlite: on a server started for it",
    )
    parser.add_argument(
        "--tasks-max",
        type=_tasks,
        default=TASKS_MAX,
        metavar="N",
        help="no more tasks in a sample; of few, figures mean little",
    )
    given = parser.parse_args(arguments)
    return Options(
        given.quick, given.json, given.strict, given.only, given.repeats, given.out, given.store, given.tasks_max
    )


def _groups(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in names:
        if name not in GROUPS:
            raise argparse.ArgumentTypeError(f"there is no {name!r}; choose from {', '.join(GROUPS)}")
    return names


def _repeats(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= REPEATS_MAX:
        raise argparse.ArgumentTypeError(f"a number from 1 to {REPEATS_MAX}, not {text!r}")
    return int(text)


def _tasks(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= TASKS_MAX:
        raise argparse.ArgumentTypeError(f"a number from 1 to {TASKS_MAX:,}, not {text!r}")
    return int(text)


def measure(options: Options) -> Run:
    """Take all samples, in rounds, so that a noisy minute hits all alike."""
    run = Run(options.quick, options.store, options.tasks_max)
    samples = [sample for sample in samples_of(options.store) if sample.group in options.groups]
    with ExitStack() as stack:
        filled = {}
        for sample in samples:
            if sample.shared:
                filled[sample.name] = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="durable-")))
                take_sample("fill", filled[sample.name], sample.size(quick=run.quick, tasks_max=run.tasks_max))
        for turn in range(options.repeats):
            for number, sample in enumerate(samples, 1):
                _show(f"round {turn + 1} of {options.repeats}, {number} of {len(samples)}: {sample.name}")
                if sample.name not in run.gaps:
                    _take(run, sample, filled.get(sample.name), turn)
    _show("")
    return run


def _take(run: Run, sample: Sample, filled: Path | None, turn: int) -> None:
    os.sync()  # what the last one left to be written to the disk would be this one's burden
    try:
        with tempfile.TemporaryDirectory(prefix="durable-") as fresh, _store(run.store, sample) as url:
            figures = take_sample(
                sample.name, filled or Path(fresh), sample.size(quick=run.quick, tasks_max=run.tasks_max), turn, url
            )
    except SampleFailed as error:
        run.gaps[sample.name] = str(error)
        run.failed = run.failed or not isinstance(error, PackageMissing)
        run.samples = {key: taken for key, taken in run.samples.items() if key[0] != sample.name}
        return
    for figure, value in figures.items():
        run.samples.setdefault((sample.name, figure), []).append(value)


@contextmanager
def _store(store: str, sample: Sample) -> Iterator[str]:
    """Start a server where one is needed: what one sample left to be cleaned up shall not be the next one's burden."""
    if store == "sqlite":
        yield ""
        return
    if store == "etcd":
        with EtcdCluster.fresh() as cluster:
            yield cluster.url("bench", first=cluster.leader())  # a follower only passes on what it is asked
        return
    if store == "redis":
        with RedisServer.fresh(appendfsync="always" if sample.flushed else "everysec") as redis:
            yield redis.url
        return
    with PostgresServer.fresh() as server:
        yield server.url


def _show(progress: str) -> None:
    print(f"\r\x1b[K{progress}", end="", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark and return the exit code."""
    options = read_options(arguments)
    signal.signal(signal.SIGTERM, _leave)
    try:
        run = measure(options)
    except SampleFailed as error:
        print(f"\nfilling a file: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; nothing was written", file=sys.stderr)
        return 130
    # Where the files went is nobody's concern but the caller's.
    told = {
        "store": options.store,
        "quick": options.quick,
        "tasks_max": options.tasks_max,
        "groups": options.groups,
        "repeats": options.repeats,
    }
    result = json.dumps(document(run, told), indent=1)
    options.folder.mkdir(parents=True, exist_ok=True)
    name = "durable.json" if options.store == "sqlite" else f"durable-{options.store}.json"
    (options.folder / name).write_text(result + "\n")
    if options.json:
        print(result)
    else:
        print_report(run)
    missed = [verdict for verdict in run.verdicts if not verdict.target.aim and verdict.outcome != "met"]
    return 1 if run.failed or (options.strict and missed) else 0


def _leave(number: int, _frame: FrameType | None) -> None:
    """End like after an exception, so that the child is ended and the folders are removed."""
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
