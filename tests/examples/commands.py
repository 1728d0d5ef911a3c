"""The commands that examples/README.md shows, run as a user runs them: in the folder of the repository."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

__all__ = ["EXAMPLES", "PATIENCE_S", "REPOSITORY", "command", "run", "started"]

REPOSITORY: Final = Path(__file__).parent.parent.parent
EXAMPLES: Final = REPOSITORY / "examples"
PATIENCE_S: Final = 60.0  # for what takes a few seconds


def command(*words: str | Path, **environment: str) -> dict[str, Any]:
    """Return how a command is started; its program is the one beside this interpreter."""
    beside = Path(sys.executable).parent
    paths = os.pathsep.join([str(beside), os.environ.get("PATH", os.defpath)])
    program, *arguments = map(str, words)
    return {
        "args": [str(beside / program), *arguments],
        "cwd": REPOSITORY,
        "env": {**os.environ, "PATH": paths, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", **environment},
        "text": True,
    }


def run(*words: str | Path, **environment: str) -> str:
    """Run a command and return what it printed; it has to end well."""
    done = subprocess.run(**command(*words, **environment), capture_output=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def started(*words: str | Path, **environment: str) -> "subprocess.Popen[str]":
    """Start a command that goes on; whoever asked for it ends it."""
    return subprocess.Popen(**command(*words, **environment), stdout=subprocess.PIPE)
