"""Scripts that run on a build in a process of their own, so that a crash is a failure and memory is their own."""

import os
import subprocess
import sys
import textwrap


def run(script: str, build_name: str) -> subprocess.CompletedProcess[str]:
    """Run a script on a build and return what it printed; it must end well."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=os.environ | {"TICKWHEEL_PURE": "1" if build_name == "pure" else "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"{done.returncode}: {done.stderr}"
    return done
