"""`python -m bench.service`: what tasks over HTTP cost, beside an empty handler of the same framework.

    this process, the client                      a child, the server
    64 connections, a POST on each, again    ->   read, check, commit to the disk, answer 201
                                             ->   Litestar: read, answer 201, and nothing else

Servers are taken in turn, again and again; the figures are medians, the first one a ratio of two.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import cast
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table

from bench.results import environment
from tickwheel.webhooks.signing import new_secret

__all__ = ["main"]

CONNECTIONS = 64
BATCH, BATCH_CONNECTIONS = 1_000, 4
LISTENERS, EVENTS_PER_S = 50, 1_000
PATIENCE_S = 120.0
DUE_S = 4.0  # until webhooks are due: longer than it takes to add them
REPEATS = 3
FAR = "30d"
ROOT = Path(__file__).parent.parent

HALF, BATCHED, SENT, HEARD, GROWN_MB = 0.5, 15_000, 1_000, 950, 5.0

Figures = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    seconds: float
    listen_s: int
    webhooks: int


FULL, QUICK = Size(3.0, 8, 5_000), Size(0.3, 1, 300)


@contextmanager
def server(command: list[str], folder: Path) -> Iterator[tuple[str, int, int]]:
    """Run a server until it is not needed any more; give its host, its port and its process."""
    with subprocess.Popen(
        [sys.executable, *command], cwd=folder, env={"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as child:  # fmt: skip
        try:
            assert child.stdout is not None
            found = None
            for line in child.stdout:
                found = re.search(r"http://[\d.]+:\d+", line)
                if found:
                    break
            if found is None:
                raise RuntimeError("the server ended before it was ready")
            threading.Thread(target=child.stdout.read, daemon=True).start()  # a pipe that is full would hold it up
            parts = urlsplit(found.group())
            yield str(parts.hostname), int(parts.port or 0), child.pid
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait(PATIENCE_S)


def ours(folder: Path, *more: str) -> list[str]:
    """Return how our server is started."""
    (folder / "config.toml").write_text('rate_per_s = 0\nwebhook_networks = ["127.0.0.0/8"]\n')
    return ["-m", "tickwheel", "serve", "--config", "config.toml", "--port", "0", *more]


APP = ("--app", "bench.service_apps:scheduler")
EMPTY = [
    *("-m", "uvicorn", "bench.service_apps:empty", "--port", "0", "--no-access-log"),
    *("--http", "httptools", "--loop", "tickwheel.aio:EventLoop"),  # as ours is served
]


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, body: bytes) -> int:
    """Send a POST, read its answer, and return its status."""
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    writer.write(f"{head}\r\n\r\n".encode() + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", answer, re.IGNORECASE)
    await reader.readexactly(int(length.group(1)) if length else 0)
    return int(answer[9:12])


async def post_for(
    host: str, port: int, path: str, body: Callable[[int], bytes], connections: int, seconds: float
) -> float:
    """Post on many connections for a while, and return how many a second were answered with success."""
    done, ends_s = 0, time.perf_counter() + seconds

    async def one(number: int) -> None:
        nonlocal done
        reader, writer = await asyncio.open_connection(host, port)
        while time.perf_counter() < ends_s:
            status = await ask(reader, writer, path, body(number))
            if status >= 300:  # noqa: PLR2004 - no success
                raise RuntimeError(f"the server answered {status}")
            done += 1
        writer.close()

    began_s = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(connections):
            group.create_task(one(number))
    return done / (time.perf_counter() - began_s)


def task(number: int, **more: object) -> dict[str, object]:
    """Return a task of the form that is used everywhere here."""
    return {"handler": "noop", "args": {"order_id": number}, "delay": FAR, **more}


def measure_single(folder: Path, figures: Figures, size: Size) -> None:
    """Add one task a request."""
    body = json.dumps(task(7)).encode()
    for name, command in (("POST, tickwheel", ours(folder, *APP)), ("POST, empty Litestar", EMPTY)):
        with server(command, folder) as (host, port, _):
            rate = asyncio.run(post_for(host, port, "/v1/tasks", lambda _: body, CONNECTIONS, size.seconds))
            figures.setdefault(f"{name}, a second", []).append(rate)


def measure_batches(folder: Path, figures: Figures, size: Size) -> None:
    """Add a thousand tasks a request."""
    body = json.dumps({"tasks": [task(number) for number in range(BATCH)]}).encode()
    with server(ours(folder, *APP), folder) as (host, port, _):
        rate = asyncio.run(post_for(host, port, "/v1/tasks:batch", lambda _: body, BATCH_CONNECTIONS, size.seconds))
        figures.setdefault("batches of 1,000, tasks a second", []).append(rate * BATCH)


def measure_listeners(folder: Path, figures: Figures, size: Size) -> None:
    """Let many listen while much happens, and see how the server's memory grows from the middle to the end."""

    async def sample(host: str, port: int, pid: int) -> tuple[float, float]:
        heard = 0

        async def listen() -> None:
            nonlocal heard
            reader, writer = await asyncio.open_connection(host, port, limit=2**20)
            writer.write(b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
            async for line in reader:
                heard += line.startswith(b"event:")

        listeners = [asyncio.create_task(listen()) for _ in range(LISTENERS)]
        reader, writer = await asyncio.open_connection(host, port)
        body = json.dumps({"tasks": [task(number) for number in range(EVENTS_PER_S // 10)]}).encode()
        sizes = []
        began_s = time.perf_counter()
        for tenth in range(size.listen_s * 10):
            await ask(reader, writer, "/v1/tasks:batch", body)
            sizes.append(resident_mb(pid))
            await asyncio.sleep(max(began_s + (tenth + 1) / 10 - time.perf_counter(), 0))
        rate = heard / LISTENERS / (time.perf_counter() - began_s)
        for listener in listeners:
            listener.cancel()
        return rate, sizes[-1] - sizes[len(sizes) // 2]

    with server(ours(folder, *APP), folder) as (host, port, pid):
        rate, growth_mb = asyncio.run(sample(host, port, pid))
        figures.setdefault("50 listeners, events a second each", []).append(rate)
        figures.setdefault("50 listeners, MB more in the second half", []).append(growth_mb)


class Receiver(asyncio.Protocol):
    """Answers every request on a connection, and notes when it came."""

    def __init__(self, received_s: list[float], wanted: int, everything: asyncio.Event) -> None:
        self._received_s, self._wanted, self._everything = received_s, wanted, everything
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take in a request, or a part of one."""
        self._unread += data
        while b"\r\n\r\n" in self._unread:
            head, _, rest = self._unread.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
            size = int(length.group(1)) if length else 0
            if len(rest) < size:
                return
            self._unread = rest[size:]
            self._transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            self._received_s.append(time.perf_counter())
            if len(self._received_s) == self._wanted:
                self._everything.set()


def measure_webhooks(folder: Path, figures: Figures, size: Size) -> None:
    """Have many webhooks sent that are due at once, to a receiver that answers and does nothing else."""
    (folder / "secret").write_text(new_secret())

    async def sample(host: str, port: int) -> float:
        received_s: list[float] = []
        everything = asyncio.Event()
        receiver = await asyncio.get_running_loop().create_server(
            lambda: Receiver(received_s, size.webhooks, everything), "127.0.0.1", 0
        )
        url = f"http://127.0.0.1:{receiver.sockets[0].getsockname()[1]}/hook"
        due = datetime.now(UTC) + timedelta(seconds=DUE_S)
        item = {"webhook": {"url": url}, "args": {"order_id": 7}, "at": due.isoformat()}
        reader, writer = await asyncio.open_connection(host, port, limit=2**24)
        for first in range(0, size.webhooks, BATCH):
            body = json.dumps({"tasks": [item] * min(BATCH, size.webhooks - first)}).encode()
            await ask(reader, writer, "/v1/tasks:batch", body)
        async with asyncio.timeout(PATIENCE_S):
            await everything.wait()
        writer.close()
        return size.webhooks / (received_s[-1] - received_s[0])

    with server(ours(folder, *APP, "--webhook-secret-file", "secret"), folder) as (host, port, _):
        figures.setdefault("webhooks, a second", []).append(asyncio.run(sample(host, port)))


def resident_mb(pid: int) -> float:
    """Return how much memory a process has."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found.group(1)) / 1000 if found else 0.0


def targets(medians: dict[str, float]) -> list[tuple[str, str, float, bool]]:
    """Hold what was measured against what is promised."""
    batched = medians["batches of 1,000, tasks a second"]
    sent = medians["webhooks, a second"]
    heard = medians["50 listeners, events a second each"]
    grown_mb = medians["50 listeners, MB more in the second half"]
    ratio = medians["POST, tickwheel, a second"] / medians["POST, empty Litestar, a second"]
    return [
        ("POST with a durable commit, of an empty handler", ">= 0.5", ratio, ratio >= HALF),
        ("batches of 1,000, tasks a second", ">= 15,000", batched, batched >= BATCHED),
        ("webhooks to a local receiver, a second", ">= 1,000", sent, sent >= SENT),
        ("50 listeners to 1,000 events a second hear, a second each", ">= 950", heard, heard >= HEARD),
        ("50 listeners to 1,000 events a second: MB more in the second half", "<= 5", grown_mb, grown_mb <= GROWN_MB),
    ]


def main() -> int:
    """Measure, tell, write down."""
    parser = argparse.ArgumentParser(prog="python -m bench.service", description="What tasks over HTTP cost.")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--quick", action="store_true", help="one round of little, to see that it works")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results")
    options = parser.parse_args()
    repeats, size = (1, QUICK) if options.quick else (options.repeats, FULL)
    figures: Figures = {}
    for number in range(repeats):
        for measure in (measure_single, measure_batches, measure_webhooks, measure_listeners):
            print(f"\r\x1b[Kround {number + 1} of {repeats}: {measure.__name__}", end="", file=sys.stderr)
            with tempfile.TemporaryDirectory() as folder:
                measure(Path(folder), figures, size)
    print("\r\x1b[K", end="", file=sys.stderr)
    medians = {name: median(taken) for name, taken in figures.items()}
    verdicts = targets(medians)
    console = Console(width=None if sys.stdout.isatty() else 110)
    table = Table("measured", "median", "from", "to")
    for name, taken in figures.items():
        table.add_row(name, *(f"{figure:,.1f}" for figure in (medians[name], min(taken), max(taken))))
    console.print(table)
    for promise, bound, value, met in verdicts:
        console.print(f"{promise}: {value:,.2f}, {bound}: {'met' if met else 'missed'}", highlight=False)
    options.out.mkdir(parents=True, exist_ok=True)
    document = {"environment": environment(), "figures": figures, "targets": verdicts}
    (options.out / "service.json").write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
