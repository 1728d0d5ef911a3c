"""The command line: what to measure, how often, and where the results go."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.subjects import SUBJECTS
from bench.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["Options", "read_options"]

SIZES = (1000, 10_000, 100_000, 1_000_000, 10_000_000)
QUICK_SIZES = SIZES[:3]
SIZE_MAX = 100_000_000  # more timers than this do not fit a common machine
REPEATS, QUICK_REPEATS = 5, 3
FOLDER = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Options:
    """A run, fully decided."""

    sizes: tuple[int, ...]
    repeats: int
    workloads: tuple[str, ...]
    subjects: tuple[str, ...]
    collectors: tuple[bool, ...]
    folder: Path
    json: bool
    strict: bool
    targets_only: bool


def read_options(arguments: Sequence[str]) -> Options:
    """Read the command line; a bad option ends the program with exit code 2 and says what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="What timers cost.", allow_abbrev=False)
    parser.add_argument("--quick", action="store_true", help="sizes to 100,000, 3 repeats, collector on only: minutes")
    parser.add_argument("--sizes", type=_sizes, help="numbers of timers, as 1000,1e5")
    parser.add_argument("--repeats", type=_repeats, help=f"samples of each figure (default {REPEATS})")
    parser.add_argument("--workloads", type=_names(WORKLOADS), help="from: " + ", ".join(WORKLOADS))
    parser.add_argument("--subjects", type=_names(SUBJECTS), help="from: " + ", ".join(SUBJECTS))
    parser.add_argument("--collector", choices=["on", "off", "both"], help="garbage collector (default both)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of tables")
    parser.add_argument("--out", type=Path, default=FOLDER, metavar="FOLDER", help="default: bench/results")
    parser.add_argument("--strict", action="store_true", help="exit code 1 unless every target is met")
    parser.add_argument("--targets-only", action="store_true", help="measure only what the targets need")
    given = parser.parse_args(arguments)
    if given.targets_only and (given.quick or given.sizes or given.workloads or given.subjects):
        parser.error(
            "--targets-only decides itself what to measure; leave out --quick, --sizes, --workloads, --subjects"
        )
    collector = given.collector or ("on" if given.quick else "both")
    return Options(
        sizes=given.sizes or (QUICK_SIZES if given.quick else SIZES),
        repeats=given.repeats or (QUICK_REPEATS if given.quick else REPEATS),
        workloads=given.workloads or tuple(WORKLOADS),
        subjects=given.subjects or tuple(SUBJECTS),
        collectors={"on": (True,), "off": (False,), "both": (True, False)}[collector],
        folder=given.out,
        json=given.json,
        strict=given.strict,
        targets_only=given.targets_only,
    )


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(sorted({int(float(part)) for part in text.split(",")}))
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"sizes are numbers with commas between, not {text!r}") from None
    if not 1 <= sizes[0] <= sizes[-1] <= SIZE_MAX:
        raise argparse.ArgumentTypeError(f"a size is from 1 to {SIZE_MAX:,}")
    return sizes


def _repeats(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a number of repeats is at least 1, not {text!r}")
    return int(text)


class _names:  # noqa: N801 - used as a function; argparse shows the name of a type in its errors
    """Reads names with commas between, out of those there are."""

    def __init__(self, known: Collection[str]) -> None:
        self.known = known

    def __call__(self, text: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
        for name in names:
            if name not in self.known:
                raise argparse.ArgumentTypeError(f"there is no {name!r}; choose from {', '.join(self.known)}")
        return names
