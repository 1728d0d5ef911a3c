"""`python -m bench.echo`: the processor time of an echo server that reads every message under a timeout.

    this process, the client      a child, the server
    a message on 100 connections  ->   async with timeout(30): line = await reader.readline()
    their answers                 <-   writer.write(line)
    and so on, until each of the 10,000 had one: a round

A first round does not count; at the end of the last one the server prints the processor time it took since,
and is gone. One server for each variant, in turn, again and again; the figure is the median.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from bench.results import environment
from tickwheel import COMPILED, aio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

__all__ = ["VARIANTS", "Options", "Variant", "main", "measure", "read_options"]

CONNECTIONS, ROUNDS, REPEATS = 10_000, 5, 5
CONNECTIONS_MAX = 25_000  # an address has about 28,000 ports to connect from
ROUNDS_MAX, REPEATS_MAX = 100, 100
SPARE_FILES = 64  # that a process has open besides its connections
MESSAGE = b"tick" * 7 + b"...\n"  # 32 bytes
BUNCH = 100  # connections made, or messages sent, at once: below any backlog, and enough work for a turn of the loop
TIMEOUT_SECONDS = 30.0  # of the server; a round takes far less
PATIENCE_SECONDS = 60.0  # of the client, for any one answer
NARROW = 100  # a pipe has no width; the table needs about this
SERVER_SECONDS_MAX = 900.0  # several times what the largest run takes; then a server ends, or is ended


class ServerFailed(RuntimeError):
    """The server ended without an answer."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A server: its event loop, and whose timeouts it uses."""

    name: str
    make_loop: Callable[[], asyncio.AbstractEventLoop]
    timeout: Callable[[float], AbstractAsyncContextManager[object, bool | None]] | None


_ALL = (
    Variant("asyncio loop, asyncio.timeout", asyncio.SelectorEventLoop, asyncio.timeout),
    Variant("asyncio loop, aio.timeout", asyncio.SelectorEventLoop, aio.timeout),
    Variant("EventLoop, asyncio.timeout", aio.EventLoop, asyncio.timeout),
    Variant("EventLoop, aio.timeout", aio.EventLoop, aio.timeout),
    Variant("asyncio loop, no timeout", asyncio.SelectorEventLoop, None),
)
VARIANTS = {variant.name: variant for variant in _ALL}
FIRST, NO_TIMEOUT = _ALL[0].name, _ALL[-1].name  # the others are compared with these


@dataclass(frozen=True, slots=True)
class Options:
    """A run, fully decided."""

    connections: int
    rounds: int
    repeats: int
    json: bool


def read_options(arguments: Sequence[str]) -> Options:
    """Read the command line; a bad option ends the program with exit code 2 and says what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.echo", description="What timeouts cost a server.")
    parser.add_argument("--connections", type=_number(CONNECTIONS_MAX), default=CONNECTIONS)
    parser.add_argument("--rounds", type=_number(ROUNDS_MAX), default=ROUNDS, help="messages on each connection")
    parser.add_argument("--repeats", type=_number(REPEATS_MAX), default=REPEATS, help="servers of each variant")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of a table")
    return Options(**vars(parser.parse_args(arguments)))


def _number(most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"a number from 1 to {most:,}, not {text!r}")
        return int(text)

    return read


# -- the server


class Server:
    """Echoes lines, and reads the processor's clock when the first round is over and when the last one is."""

    def __init__(self, variant: Variant, connections: int, rounds: int) -> None:
        self.timeout = variant.timeout
        self.first = connections
        self.last = connections * (1 + rounds)
        self.messages = 0
        self.began_s = 0.0
        self.took_s: float | None = None
        self.ended = asyncio.Event()

    async def serve(self) -> float:
        """Serve until the last round is over and return the processor time it took, in seconds."""
        server = await asyncio.start_server(self._echo, "127.0.0.1", 0, backlog=2 * BUNCH)
        print(server.sockets[0].getsockname()[1], flush=True)
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self.ended.set)  # the client is gone
        await asyncio.wait_for(self.ended.wait(), SERVER_SECONDS_MAX)
        if self.took_s is None:
            raise ServerFailed(f"the client left after {self.messages:,} of {self.last:,} messages")
        return self.took_s

    async def _echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        timeout = self.timeout
        while True:
            if timeout is None:
                line = await reader.readline()
            else:
                async with timeout(TIMEOUT_SECONDS):
                    line = await reader.readline()
            if not line:
                break
            writer.write(line)
            await writer.drain()
            self.messages += 1
            if self.messages == self.first:
                self.began_s = _processor_s()
            elif self.messages == self.last:
                self.took_s = _processor_s() - self.began_s
                self.ended.set()
        writer.close()


def _processor_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def serve(name: str, connections: int, rounds: int) -> None:
    """Be the server, and leave without taking leave of ten thousand connections."""
    variant = VARIANTS[name]
    with asyncio.Runner(loop_factory=variant.make_loop) as runner:
        took_s = runner.run(Server(variant, connections, rounds).serve())
        print(took_s, flush=True)
        os._exit(0)


# -- the client


def measure(variant: Variant, options: Options) -> float:
    """Run a server and return its processor time for a message, in microseconds."""
    arguments = [variant.name, str(options.connections), str(options.rounds)]
    command = [sys.executable, "-m", "bench.echo", "serve", *arguments]
    with ExitStack() as stack:
        # Nothing is written to its standard input, but that it ends tells the server that we did.
        pipe = subprocess.PIPE
        child = stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, process_group=0))
        stack.callback(child.kill)
        watchdog = threading.Timer(SERVER_SECONDS_MAX, child.kill)
        watchdog.start()
        stack.callback(watchdog.cancel)
        assert child.stdout is not None
        port = child.stdout.readline()
        if not port:
            raise ServerFailed(f"{variant.name}: the server did not start")
        try:
            _send_rounds(stack, int(port), options)
        except OSError as error:
            raise ServerFailed(f"{variant.name}: {error}") from error
        took_s = child.stdout.readline()
        if not took_s:
            raise ServerFailed(f"{variant.name}: the server ended without an answer")
        return float(took_s) * 1e6 / (options.connections * options.rounds)


def _send_rounds(stack: ExitStack, port: int, options: Options) -> None:
    address = ("127.0.0.1", port)
    bunches: list[list[socket.socket]] = []
    for first in range(0, options.connections, BUNCH):
        size = min(BUNCH, options.connections - first)
        bunch = [stack.enter_context(socket.create_connection(address, PATIENCE_SECONDS)) for _ in range(size)]
        _exchange(bunch)  # the round that does not count: all are connected when it is over
        bunches.append(bunch)
    for _ in range(options.rounds):
        for bunch in bunches:
            _exchange(bunch)


def _exchange(connections: Sequence[socket.socket]) -> None:
    """Send a message on each connection, then read all the answers."""
    for connection in connections:
        connection.sendall(MESSAGE)
    for connection in connections:
        answer = connection.recv(len(MESSAGE), socket.MSG_WAITALL)
        if answer != MESSAGE:
            raise ConnectionError(f"the server answered {answer!r}")


def raise_file_limit(connections: int) -> str | None:
    """Allow this process, and its children, as many files as it may have; say so if they do not do."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most != resource.RLIM_INFINITY and most < connections + SPARE_FILES:
        return (
            f"{connections:,} connections need {connections + SPARE_FILES:,} open files, and {most:,} are allowed; "
            f"raise the hard limit (ulimit -Hn), or ask for fewer with --connections"
        )
    return None


# -- the result


def main(arguments: Sequence[str]) -> int:
    """Run all servers and return the exit code."""
    options = read_options(arguments)
    if problem := raise_file_limit(options.connections):
        print(problem, file=sys.stderr)
        return 1
    samples_us: dict[str, list[float]] = {name: [] for name in VARIANTS}
    runs = [variant for _ in range(options.repeats) for variant in _ALL]
    try:
        for number, variant in enumerate(runs, 1):
            print(f"\r\x1b[Kserver {number} of {len(runs)}: {variant.name}", end="", file=sys.stderr, flush=True)
            samples_us[variant.name].append(measure(variant, options))
    except ServerFailed as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    print(file=sys.stderr)
    figures = [_figure(name, samples_us) for name in VARIANTS]
    if options.json:
        written = [asdict(figure) for figure in figures]
        print(json.dumps({"environment": environment(), "options": asdict(options), "figures": written}, indent=1))
    else:
        _print_table(figures, options)
    return 0


@dataclass(frozen=True, slots=True)
class Figure:
    """The processor time of one variant for a message."""

    variant: str
    median_us: float
    timeout_us: float  # what it takes more than the server without a timeout
    ratio: float  # to the first variant
    samples_us: list[float]


def _figure(name: str, samples_us: dict[str, list[float]]) -> Figure:
    median_us = median(samples_us[name])
    timeout_us = median_us - median(samples_us[NO_TIMEOUT])
    return Figure(name, median_us, timeout_us, median_us / median(samples_us[FIRST]), samples_us[name])


def _print_table(figures: Sequence[Figure], options: Options) -> None:
    title = f"processor time of a server for a message, {options.connections:,} connections"
    if not COMPILED:
        title += "; tickwheel is not compiled"
    table = Table(title=title, title_justify="left")
    table.add_column("server")
    for heading in ("µs", "from", "to", "for the timeout", "ratio"):
        table.add_column(heading, justify="right")
    for figure in figures:
        times_us = (figure.median_us, min(figure.samples_us), max(figure.samples_us), figure.timeout_us)
        table.add_row(figure.variant, *(f"{us:.1f}" for us in times_us), f"{figure.ratio:.3f}")
    console = Console()
    (console if console.is_terminal else Console(width=NARROW)).print(table)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    sys.exit(main(sys.argv[1:]))
