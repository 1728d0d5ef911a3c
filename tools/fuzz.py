"""Runs the state machines of wheels, timers, recipes, stores and schedulers for a time, each round with new examples.

The rounds alternate between the build that is installed and the interpreted one.

    $ python tools/fuzz.py --minutes 5

It ends with the first counterexample, which Hypothesis prints with the steps that lead to it.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent


def machines() -> list[str]:
    """Return the tests that are state machines: the modules named after a model."""
    folders = ("wheels", "timers", "recipes")
    found = [path for folder in folders for path in sorted((REPOSITORY / "tests" / folder).glob("test_*model.py"))]
    promises = ["stores/test_promises_model.py", "scheduler/test_promises_model.py", "stores/test_promises_mutants.py"]
    return [str(path) for path in (*found, *(REPOSITORY / "tests" / name for name in promises))]


def main() -> int:
    """Run rounds until the time is over; return the code of the first that fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    end = time.monotonic() + 60 * parser.parse_args().minutes
    tests, rounds = machines(), 0
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
