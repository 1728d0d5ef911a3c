"""A real `tickwheel serve` on a free port, and a client to fill it."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

__all__ = ["Service", "free_port", "serving"]

START_S = 30.0
PAUSE_S = 0.05


@dataclass(frozen=True)
class Service:
    """A server that is up."""

    url: str
    client: httpx.Client

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Ask for something that has to be granted."""
        answer = self.client.post(path, json=body)
        assert answer.is_success, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    def get(self, path: str) -> Any:
        """Read something that has to be there."""
        answer = self.client.get(path)
        assert answer.is_success, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    def add(self, handler: str = "orders.cancel", **fields: Any) -> str:
        """Add a task and return its id."""
        if not {"delay", "at", "every", "cron"} & fields.keys():
            fields["delay"] = "1h"
        added: str = self.post("/v1/tasks", {"handler": handler, **fields})["task"]["id"]
        return added

    def await_status(self, task_id: str, status: str) -> dict[str, Any]:
        """Wait until a task is as it should be."""
        until = time.monotonic() + START_S
        while True:
            task: dict[str, Any] = self.get(f"/v1/tasks/{task_id}")
            if task["status"] == status:
                return task
            assert time.monotonic() < until, task
            time.sleep(PAUSE_S)


def free_port() -> int:
    """Find a port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def serving(folder: Path, *options: str, token: str | None = None, port: int | None = None) -> Iterator[Service]:
    """Serve an SQLite file in a folder, with the handlers of the shop."""
    port = port or free_port()
    command = [
        *(sys.executable, "-m", "tickwheel", "serve"),
        *("--app", "tests.dashboard.shop:scheduler", "--store", f"sqlite:///{folder}/tasks.db"),
        *("--host", "127.0.0.1", "--port", str(port), *options),
    ]
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    log = folder / "serve.log"
    # A connection for each request: one that is kept may be closed by the server just when it is used again.
    limits = httpx.Limits(max_keepalive_connections=0)
    address = f"http://127.0.0.1:{port}"
    with log.open("wb") as out, httpx.Client(base_url=address, headers=headers, limits=limits) as client:
        process = subprocess.Popen(command, stdout=out, stderr=out)
        try:
            _await_ready(client, process, log)
            yield Service(f"http://127.0.0.1:{port}/", client)
        finally:
            process.terminate()
            process.wait(START_S)


def _await_ready(client: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_S
    while True:
        assert process.poll() is None, log.read_text()
        try:
            if client.get("/readyz").is_success:
                return
        except httpx.TransportError:
            pass  # not yet
        assert time.monotonic() < until, log.read_text()
        time.sleep(PAUSE_S)
