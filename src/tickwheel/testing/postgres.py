"""A PostgreSQL server of one's own, for tests and trials: made in an empty folder, on a free port, and gone afterwards.

    with PostgresServer.fresh() as server:
        asyncio.run(main(server.url))
        server.stop()                       # and what happens without it?
        server.start()

It keeps to its promises: what is committed is on the disk. PostgreSQL does not run as root; there, it is started as
another user.

    with PostgresServer.fresh() as primary, primary.standby() as standby:
        primary.wait_for_standbys()         # from now on nothing is acknowledged that the standby has not on its disk
        primary.stop(signal.SIGQUIT)
        standby.promote()
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

__all__ = ["PostgresServer"]

USER: Final = "tickwheel"
PASSWORD: Final = "wheel-of-time"  # noqa: S105 - of a server that nobody else can reach
PATIENCE_S: Final = 60.0  # for what takes a second
SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "on",
    "shared_buffers": "64MB",
    "max_connections": "100",
}


class PostgresServer:
    """A server and its folder; `url` leads to it."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self._process: subprocess.Popen[Any] | None = None

    @property
    def url(self) -> str:
        """Where a client finds it."""
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    @classmethod
    @contextmanager
    def fresh(cls) -> Iterator["PostgresServer"]:
        """Make a server and start it; in the end it is stopped and its folder removed."""
        with cls._in_a_folder() as server:
            password = server.folder / "password"
            password.write_text(PASSWORD)
            password.chmod(0o644)
            server.run(
                *("initdb", "--pgdata", server.folder / "data", "--username", USER, "--pwfile", password),
                *("--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"),
            )
            server.start()
            yield server

    @classmethod
    @contextmanager
    def _in_a_folder(cls) -> Iterator["PostgresServer"]:
        """Make a folder for a server; in the end the server is stopped and its folder removed."""
        with tempfile.TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            if os.geteuid() == 0:
                shutil.chown(folder, other_user())
            server = cls(folder, free_port())
            try:
                yield server
            finally:
                server.stop()

    @contextmanager
    def standby(self) -> Iterator["PostgresServer"]:
        """Make a server that follows this one, and start it."""
        with self._in_a_folder() as server:
            server.run(
                *("pg_basebackup", "--pgdata", server.folder / "data", "--host=127.0.0.1", f"--port={self.port}"),
                *("--username", USER, "--write-recovery-conf", "--checkpoint=fast", "--no-sync"),
            )
            server.start()
            yield server

    def wait_for_standbys(self) -> None:
        """Acknowledge nothing any more before a standby has it on its disk."""
        assert self._process is not None
        with (self.folder / "data" / "postgresql.auto.conf").open("a") as settings:
            settings.write("synchronous_standby_names = '*'\n")
        self._process.send_signal(signal.SIGHUP)
        asked = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
        end = time.monotonic() + PATIENCE_S
        while self.run("psql", "--tuples-only", "--dbname", self.url, "--command", asked).strip() != "1":
            if time.monotonic() > end:
                raise RuntimeError("no standby follows this server")
            time.sleep(0.02)

    def promote(self) -> None:
        """Make a standby the primary, and wait until it is."""
        self.run("pg_ctl", "promote", "--wait", "--pgdata", self.folder / "data")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
        command = [program("postgres"), "-D", str(self.folder / "data"), "-p", str(self.port), *settings]
        with (self.folder / "log.txt").open("ab") as log:
            process = subprocess.Popen(  # noqa: S603
                command, stdout=log, stderr=subprocess.STDOUT, **self.as_other_user()
            )
        self._process = process
        question = [program("pg_isready"), "--quiet", "--host=127.0.0.1", f"--port={self.port}"]
        end = time.monotonic() + PATIENCE_S
        while subprocess.run(question, check=False).returncode != 0:  # noqa: S603
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"PostgreSQL does not start: {(self.folder / 'log.txt').read_text()[-2000:]}")
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT breaks off what clients are doing, SIGQUIT is like a crash."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def run(self, name: str, *arguments: str | Path) -> str:
        """Run a program of PostgreSQL, as the server's user; return what it prints."""
        settings = {**os.environ, "PGPASSWORD": PASSWORD}
        ran: subprocess.CompletedProcess[str] = subprocess.run(  # noqa: S603 - our own program and arguments
            [program(name), *arguments],
            capture_output=True,
            check=False,
            env=settings,
            text=True,
            **self.as_other_user(),
        )
        if ran.returncode != 0:
            raise RuntimeError(f"{name} of PostgreSQL failed: {ran.stderr[-2000:]}")
        return ran.stdout

    def as_other_user(self) -> dict[str, Any]:
        """Return how to start a program of it."""
        if os.geteuid() != 0:
            return {}
        user = other_user()
        return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": [], "cwd": self.folder}


def other_user() -> str:
    """Return whom root starts it as."""
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def program(name: str) -> str:
    """Find a program of PostgreSQL: Debian keeps those of each version in a folder of its own."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    paths = os.pathsep.join([*map(str, folders), os.environ.get("PATH", os.defpath)])
    found = shutil.which(name, path=paths)
    if found is None:
        raise FileNotFoundError(f"{name} of PostgreSQL is not on this machine: install the package postgresql")
    return found


def free_port() -> int:
    """Return a port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
