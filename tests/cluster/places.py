"""The stores that the same stories are played on: where each is, and how its server is stopped and started.

A new one needs one entry in PLACES: what makes it, and a `Place`. One without a server of its own has a URL only.
"""

import fcntl
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from tickwheel.stores.sqlite.file_locks import TURN_BYTE, ask
from tickwheel.stores.sqlite.open_files import OPENING, identify
from tickwheel.testing.etcd import EtcdCluster
from tickwheel.testing.postgres import PostgresServer
from tickwheel.testing.redis import RedisServer

__all__ = ["PLACES", "Place", "sqlite_writable"]

Act = Callable[[], None]

DISK_BYTES: Final = 1 << 29  # for some hundred thousand tasks and their history


class Place(NamedTuple):
    """A store that is empty, and what can be done to its server."""

    url: str
    address: tuple[str, int] | None = None  # of the server, as it is written in the URL: a proxy goes before it
    start: Act | None = None  # after it was stopped
    stops: Mapping[str, Act] = {}  # in each way that it can be stopped
    writable: Callable[[], bool] = lambda: True  # False if a suspended node keeps everybody from writing
    others: Sequence[tuple[str, int]] = ()  # that are in the URL as well: a proxy leads to one that is there
    file: Path | None = None  # of a store without a server
    full: Callable[[], AbstractContextManager[None]] | None = None  # fills the disk of the file for a while

    def via(self, port: int) -> str:
        """Return its URL through a proxy."""
        assert self.address is not None
        host, own = self.address
        url = self.url.replace(f"{host}:{own}", f"127.0.0.1:{port}", 1)
        for host, own in self.others:
            url = url.replace(f",{host}:{own}", "", 1)
        return url


def sqlite_writable(path: Path) -> bool:
    """Say whether no process is in the middle of a transaction; a store of this process has the file open."""
    locks = OPENING.files[identify(path)].locks
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(300)
    try:
        connection.execute("BEGIN IMMEDIATE")
    except apsw.BusyError:
        return False
    finally:
        connection.close()
    return ask(locks._database, TURN_BYTE)[0] == fcntl.F_UNLCK


@contextmanager
def sqlite(folder: Path) -> Iterator[Place]:
    """Make a place on a disk of its own, if this process may mount one: it can then be full."""
    disk = folder / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tickwheel-chaos", str(disk)]
    mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
    path = disk / "tasks.db"
    full = partial(filled, disk / "filling") if mounted else None
    try:
        yield Place(f"sqlite:///{path}", writable=partial(sqlite_writable, path), file=path, full=full)
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(disk)], check=True)


@contextmanager
def filled(filling: Path) -> Iterator[None]:
    """Take all the room that is left on a disk, until the end."""
    try:
        with filling.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(1 << 20))
        yield
    finally:
        filling.unlink()


@contextmanager
def postgresql(_folder: Path) -> Iterator[Place]:
    with PostgresServer.fresh() as server:
        stops: dict[str, Act] = {"stop": server.stop, "crash": partial(server.stop, signal.SIGQUIT)}
        yield Place(server.url, ("127.0.0.1", server.port), server.start, stops)


@contextmanager
def redis(_folder: Path) -> Iterator[Place]:
    with RedisServer.fresh() as server:
        stops: dict[str, Act] = {"stop": server.stop, "crash": partial(server.stop, signal.SIGKILL)}
        yield Place(server.url, ("127.0.0.1", server.port), server.start, stops)


@contextmanager
def etcd(_folder: Path) -> Iterator[Place]:
    with EtcdCluster.fresh() as cluster:

        def end(how: signal.Signals) -> None:
            for number in cluster.members:
                cluster.stop(number, how)

        stops: dict[str, Act] = {
            "leader": lambda: cluster.stop(cluster.leader(), signal.SIGKILL),
            "stop": partial(end, signal.SIGTERM),
            "crash": partial(end, signal.SIGKILL),
        }
        first, *others = [("127.0.0.1", port) for port, _ in cluster.ports]
        yield Place(cluster.url("shop"), first, cluster.start, stops, others=others)


PLACES: Final[Mapping[str, Callable[[Path], AbstractContextManager[Place]]]] = {
    "sqlite": sqlite,
    "postgresql": postgresql,
    "redis": redis,
    "etcd": etcd,
}
