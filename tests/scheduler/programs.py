"""Programs of their own process for tests of forks, exits and signals."""

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["run_program", "start_program"]

REPOSITORY = Path(__file__).parent.parent.parent


def start_program(folder: Path, text: str, *options: str) -> "subprocess.Popen[str]":
    """Start a program in a folder; what it prints can be read."""
    program = folder / "program.py"
    program.write_text(text)
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY / 'src'}:{REPOSITORY}"}
    return subprocess.Popen(
        [sys.executable, *options, program],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_program(folder: Path, text: str, timeout_s: float = 60) -> list[str]:
    """Run a program to its end, and return the lines it printed; it must not fail, nor complain."""
    with start_program(folder, text, "-W", "ignore::DeprecationWarning") as program:
        try:
            out, err = program.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            program.kill()
            out, err = program.communicate()
            raise AssertionError(f"the program hangs; it printed {out!r} {err!r}") from None
    assert (program.returncode, err) == (0, ""), (out, err, program.returncode)
    return out.splitlines()
