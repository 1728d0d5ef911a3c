"""The commands that examples/README.md shows, run as a user runs them: in the folder of the repository."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from tickwheel.testing.postgres import free_port

__all__ = ["EXAMPLES", "PATIENCE_S", "REPOSITORY", "command", "run", "serving_fastapi", "started"]

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


@contextmanager
def serving_fastapi() -> Iterator[httpx.Client]:
    """Serve the shop of FastAPI, in which tickwheel is mounted at /tasks."""
    port = free_port()
    with (
        started("uvicorn", "fastapi_shop:app", "--app-dir", "examples", "--port", str(port)) as server,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as client,
    ):
        try:
            end = time.monotonic() + PATIENCE_S
            while True:
                try:
                    client.get("/tasks/readyz").raise_for_status()
                    break
                except httpx.HTTPError:
                    assert server.poll() is None
                    assert time.monotonic() < end
                    time.sleep(0.05)
            yield client
        finally:
            server.terminate()
            assert server.wait(PATIENCE_S) is not None
