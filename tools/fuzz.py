"""Runs the state machines of wheels, timers, recipes, stores and schedulers for a time, each round with new examples.

The rounds alternate between the build that is installed and the interpreted one.

    $ python tools/fuzz.py --minutes 5
    $ python tools/fuzz.py --minutes 60 --only wheels,timers,recipes

It ends with the first counterexample, which Hypothesis prints with the steps that lead to it.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent


PACKAGES = ("wheels", "timers", "recipes", "stores", "scheduler")
# Of stores and schedulers, what is held against the promises: the other models are for the gate alone.
PROMISES = {"stores": ("test_promises_model.py", "test_promises_mutants.py"), "scheduler": ("test_promises_model.py",)}


def machines(packages: Iterable[str]) -> list[str]:
    """Return the tests of packages that are state machines: the modules named after a model."""
    found: list[str] = []
    for package in packages:
        folder = REPOSITORY / "tests" / package
        if package in PROMISES:
            found += [str(folder / name) for name in PROMISES[package]]
        else:
            found += map(str, sorted(folder.glob("test_*model.py")))
    return found


def read_packages(text: str) -> list[str]:
    """Read names with commas between."""
    names = text.split(",")
    if unknown := [name for name in names if name not in PACKAGES]:
        raise argparse.ArgumentTypeError(f"no package {unknown[0]!r}; choose from {', '.join(PACKAGES)}")
    return names


def main() -> int:
    """Run rounds until the time is over; return the code of the first that fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--only", type=read_packages, default=PACKAGES, metavar="PACKAGE,...")
    given = parser.parse_args()
    end = time.monotonic() + 60 * given.minutes
    tests, rounds = machines(given.only), 0
    while True:
        rounds += 1
        pure = rounds % 2 == 0
        environment = {**os.environ, "HYPOTHESIS_PROFILE": "fuzz", "TICKWHEEL_PURE": str(int(pure))}
        left_minutes = (end - time.monotonic()) / 60
        print(f"round {rounds}{', interpreted' if pure else ''}: {left_minutes:.1f} minutes left", flush=True)  # noqa: T201
        # A machine may take much longer here than in the gate, whose tests are taken to hang after some minutes.
        options = ["-q", "-x", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=3600"]
        command = [sys.executable, "-m", "pytest", *options, *tests]
        done = subprocess.run(command, cwd=REPOSITORY, env=environment, check=False)  # noqa: S603 - our own tests
        if done.returncode != 0:
            return done.returncode
        if time.monotonic() > end:
            return 0


if __name__ == "__main__":
    sys.exit(main())
