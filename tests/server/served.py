"""A real server: the command, in a process and a folder of its own, on a free port."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Any, Self

import httpx

__all__ = ["Served"]

SHOP = """
import asyncio
import os

from tickwheel import AsyncScheduler

scheduler = AsyncScheduler(os.environ.get("SHOP_STORE", "sqlite:///tasks.db"), lease_ttl_ms=1000, grace_s=5)


@scheduler.task("echo")
async def echo(word: str = "", token: str = "") -> str:
    return word.upper()


@scheduler.task("fail")
async def fail() -> None:
    raise ValueError("it failed on purpose")


@scheduler.task("slow", timeout="1h", concurrency=3)
async def slow(seconds: float = 60.0) -> str:
    await asyncio.sleep(seconds)
    return "done"
"""
READY = re.compile(r"ready at (\S+)")


class Served:
    """A server that is started, asked, and stopped or killed."""

    def __init__(self, folder: Path, *flags: str, app: str | None = "shop:scheduler", **environment: str) -> None:
        (folder / "shop.py").write_text(SHOP)
        self.folder = folder
        self.log: IO[str] = (folder / "log").open("a")
        shown = [] if app is None else ["--app", app]
        command = [sys.executable, "-m", "tickwheel", "serve", *shown, "--port", "0", *flags]
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        self.url = self._ready()
        self.client = httpx.Client(base_url=self.url, timeout=60)

    def _ready(self) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := READY.search(line):
                return found[1]
        raise AssertionError((self.folder / "log").read_text())

    def get(self, path: str, status: int = 200, **options: Any) -> Any:
        """Ask for something, and return the JSON."""
        answer = self.client.get(path, **options)
        assert answer.status_code == status, answer.text
        return answer.json()

    def send(self, method: str, path: str, body: Any = None, status: int = 200, **options: Any) -> Any:
        """Send something, and return the JSON."""
        answer = self.client.request(method, path, json=body, **options)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    def post(self, path: str, body: Any = None, status: int = 200, **options: Any) -> Any:
        """Post something, and return the JSON."""
        return self.send("POST", path, body, status, **options)

    def add(self, handler: str = "echo", **fields: Any) -> Any:
        """Add a task, and return it."""
        return self.post("/v1/tasks", {"handler": handler, **fields}, 201)["task"]

    def refused(self, path: str, body: Any, status: int = 422, method: str = "POST") -> tuple[str, list[str]]:
        """Send what is wrong, and return which problem it is and where it points."""
        answer = self.client.request(method, path, json=body)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert problem["status"] == status
        assert len(problem["detail"]) > 10
        return problem["type"].rpartition("/")[2], [fault["pointer"] for fault in problem["errors"]]

    def until(self, path: str, **wanted: Any) -> Any:
        """Ask until the answer is as wanted."""
        for _ in range(2000):
            seen = self.get(path)
            if all(seen[name] == value for name, value in wanted.items()):
                return seen
        raise AssertionError(f"{seen} is not {wanted}")

    def tasks(self) -> dict[str, str]:
        """Read the status of every task there is, page by page."""
        found: dict[str, str] = {}
        cursor = ""
        while True:
            page = self.get("/v1/tasks", params={"limit": 1000, "cursor": cursor})
            found |= {task["id"]: task["status"] for task in page["tasks"]}
            cursor = page["cursor"]
            if cursor is None:
                return found

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Stop it, and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.client.close()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.log.close()
