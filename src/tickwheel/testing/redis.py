"""Redis servers of one's own, for tests and trials: in an empty folder, on free ports, and gone afterwards.

    with RedisServer.fresh() as server:
        asyncio.run(main(server.url))
        server.stop(signal.SIGKILL)                     # and what happens without it?
        server.start()

    with RedisCluster.fresh(replicas=1) as cluster:     # three masters, and a replica of each
        asyncio.run(main(cluster.url))

    with RedisSentinels.fresh() as watched:             # a master, a replica, three sentinels
        watched.master.stop(signal.SIGKILL)

They keep a log of what they are told, and write it to the disk before they answer, unless told otherwise.
"""

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from tickwheel.testing.postgres import free_port

__all__ = ["RedisCluster", "RedisSentinels", "RedisServer"]

PATIENCE_S: Final = 60.0  # for what takes a moment
HOST: Final = "127.0.0.1"
SETTINGS: Final = {
    "bind": HOST,
    "appendonly": "yes",
    "appendfsync": "always",
    "save": "",
    "repl-diskless-sync-delay": "0",  # a replica need not wait for others
}
CLUSTER_SETTINGS: Final = {"cluster-enabled": "yes", "cluster-node-timeout": "2000"}
SLOTS: Final = 16_384
MASTERS: Final = 3
SENTINELS: Final = 3
SERVICE: Final = "shop"  # what sentinels call the master
CLUSTER_PORT_MAX: Final = 55_535  # a server of a cluster uses the port 10,000 above as well


class RedisServer:
    """A server and its folder; `url` leads to it."""

    def __init__(self, folder: Path, port: int, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.port = port
        self.settings = {**SETTINGS, **(settings or {})}
        self.process: subprocess.Popen[Any] | None = None

    @property
    def url(self) -> str:
        """Where a client finds it."""
        return f"redis://{HOST}:{self.port}/0"

    @classmethod
    @contextmanager
    def fresh(cls, **settings: str) -> Iterator["RedisServer"]:
        """Start a server, with settings as in redis.conf but for `_` in place of `-`; in the end it is gone."""
        with tempfile.TemporaryDirectory(prefix="redis-", ignore_cleanup_errors=True) as name:
            told = {setting.replace("_", "-"): value for setting, value in settings.items()}
            server = cls(Path(name), free_port(), told)
            try:
                server.start()
                yield server
            finally:
                server.stop(signal.SIGKILL)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self.folder / "log.txt").open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own program and arguments
                self.command(), stdout=log, stderr=subprocess.STDOUT
            )
        end = time.monotonic() + PATIENCE_S
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"Redis does not start: {(self.folder / 'log.txt').read_text()[-2000:]}")
            time.sleep(0.01)

    def command(self) -> list[str]:
        """Return what it is started with."""
        settings = {"port": str(self.port), "dir": str(self.folder), **self.settings}
        return [program("redis-server"), *(part for pair in settings.items() for part in (f"--{pair[0]}", pair[1]))]

    def _answers(self) -> bool:
        try:
            return self.ask("PING").startswith("+PONG")
        except OSError:
            return False

    def ask(self, *words: str) -> str:
        """Send a command, and return the answer as it comes."""
        said = "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
        with socket.create_connection((HOST, self.port), timeout=PATIENCE_S) as connection:
            connection.sendall(f"*{len(words)}\r\n{said}".encode())
            return connection.recv(1 << 20).decode()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop it: SIGTERM lets it end in order, SIGKILL is a crash."""
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(how)
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class RedisCluster:
    """Some masters that share the keys, each with as many replicas; `url` leads to them."""

    def __init__(self, servers: list[RedisServer], replicas: list[RedisServer]) -> None:
        self.servers = servers
        self.replicas = replicas  # of each master in turn, and then again

    @property
    def url(self) -> str:
        """Where a client finds it."""
        return "redis+cluster://" + ",".join(f"{HOST}:{server.port}" for server in self.servers)

    @classmethod
    @contextmanager
    def fresh(cls, masters: int = MASTERS, replicas: int = 0, **settings: str) -> Iterator["RedisCluster"]:
        """Start some masters, with so many replicas of each, and join them; in the end they are gone."""
        told = {**CLUSTER_SETTINGS, **{setting.replace("_", "-"): value for setting, value in settings.items()}}
        with ExitStack() as stack:
            servers = []
            for _ in range(masters * (1 + replicas)):
                folder = tempfile.TemporaryDirectory(prefix="redis-", ignore_cleanup_errors=True)
                server = RedisServer(Path(stack.enter_context(folder)), low_port(), told)
                stack.callback(server.stop, signal.SIGKILL)
                server.start()
                servers.append(server)
            cluster = cls(servers[:masters], servers[masters:])
            cluster.join()
            yield cluster

    def join(self) -> None:
        """Divide the keys among the masters, give them their replicas, and wait until all agree about it."""
        share = -(-SLOTS // len(self.servers))
        for number, server in enumerate(self.servers):
            first = number * share
            server.ask("CLUSTER", "ADDSLOTSRANGE", str(first), str(min(first + share, SLOTS) - 1))
            server.ask("CLUSTER", "SET-CONFIG-EPOCH", str(number + 1))
        everyone = [*self.servers, *self.replicas]
        for server in everyone[1:]:
            server.ask("CLUSTER", "MEET", HOST, str(self.servers[0].port))
        until(lambda: all(map(self._is_whole, everyone)), "the servers do not become a cluster")
        for number, replica in enumerate(self.replicas):
            replica.ask(
                "CLUSTER", "REPLICATE", self.servers[number % len(self.servers)].ask("CLUSTER", "MYID").split()[1]
            )
        until(lambda: all(map(is_linked, self.replicas)), "the replicas do not find their masters")

    def cut_off(self, number: int) -> None:
        """Let a replica hear no more of its master, though it is one of the cluster still."""
        self.replicas[number].ask("CONFIG", "SET", "masterauth", "what the master does not know")
        self.servers[number % len(self.servers)].ask("CLIENT", "KILL", "TYPE", "replica")

    def _is_whole(self, server: RedisServer) -> bool:
        told = server.ask("CLUSTER", "INFO")
        return "cluster_state:ok" in told and f"cluster_known_nodes:{len(self.servers) + len(self.replicas)}" in told


class SentinelServer(RedisServer):
    """A sentinel that watches a master."""

    def __init__(self, folder: Path, master: RedisServer, quorum: int) -> None:
        super().__init__(folder, free_port())
        self._master = master
        self._quorum = quorum

    def command(self) -> list[str]:
        """Return what it is started with: it writes down in its settings what it finds out."""
        path = self.folder / "sentinel.conf"
        path.write_text(
            f"port {self.port}\nbind {HOST}\ndir {self.folder}\n"
            f"sentinel monitor {SERVICE} {HOST} {self._master.port} {self._quorum}\n"
            f"sentinel down-after-milliseconds {SERVICE} 500\n"
            f"sentinel failover-timeout {SERVICE} 3000\n"
        )
        return [program("redis-sentinel"), str(path)]


class RedisSentinels:
    """A master, a replica, and sentinels that make the replica the master if that is gone; `url` leads to it."""

    def __init__(self, master: RedisServer, replica: RedisServer, sentinels: list[SentinelServer]) -> None:
        self.master = master
        self.replica = replica
        self.sentinels = sentinels

    @property
    def url(self) -> str:
        """Where a client finds it."""
        return f"redis+sentinel://{','.join(f'{HOST}:{each.port}' for each in self.sentinels)}/{SERVICE}/0"

    @classmethod
    @contextmanager
    def fresh(cls, sentinels: int = SENTINELS) -> Iterator["RedisSentinels"]:
        """Start them, and wait until they know each other; in the end they are gone."""
        with ExitStack() as stack:
            master = stack.enter_context(RedisServer.fresh())
            replica = stack.enter_context(RedisServer.fresh(replicaof=f"{HOST} {master.port}"))
            watching = []
            for _ in range(sentinels):
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="redis-", ignore_cleanup_errors=True))
                sentinel = SentinelServer(Path(folder), master, sentinels // 2 + 1)
                stack.callback(sentinel.stop, signal.SIGKILL)
                sentinel.start()
                watching.append(sentinel)
            all_of_them = cls(master, replica, watching)
            until(all_of_them.are_ready, "the sentinels do not find each other")
            yield all_of_them

    def cut_off(self) -> None:
        """Let the replica hear no more of its master, until it is told what to do by a sentinel."""
        self.replica.ask("REPLICAOF", HOST, "1")

    def rejoin(self) -> None:
        """Start the master that died as a replica of the one that took over."""
        self.master, self.replica = self.replica, self.master
        self.replica.settings["replicaof"] = f"{HOST} {self.master.port}"
        self.replica.start()

    def are_ready(self) -> bool:
        """Tell whether all sentinels know of each other and of the replica, and that has what the master has."""
        others = f"num-other-sentinels\r\n${len(str(len(self.sentinels) - 1))}\r\n{len(self.sentinels) - 1}\r\n"
        told = [each.ask("SENTINEL", "MASTER", SERVICE) for each in self.sentinels]
        known = all("num-slaves\r\n$1\r\n1\r\n" in each and others in each for each in told)
        return known and is_linked(self.replica)

    def fail_over(self) -> None:
        """Have the replica made the master, though that lives, and wait until sentinels say so.

        The master before stays one, to those who are connected to it, until sentinels make it a replica: ten seconds.
        """
        asked = ("SENTINEL", "FAILOVER", SERVICE)  # it is refused as long as little is known of the replica
        until(lambda: self.sentinels[0].ask(*asked).startswith("+OK"), "the sentinel does not begin a failover")
        self.master, self.replica = self.replica, self.master
        until(lambda: all(map(self._knows_the_master, self.sentinels)), "the sentinels do not promote the replica")

    def _knows_the_master(self, sentinel: SentinelServer) -> bool:
        return str(self.master.port) in sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)


def is_linked(replica: RedisServer) -> bool:
    """Tell whether a server is a replica that has what its master has."""
    return "master_link_status:up" in replica.ask("INFO", "replication")


def until(condition: Callable[[], bool], otherwise: str) -> None:
    """Wait for something."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(otherwise)
        time.sleep(0.02)


def program(name: str) -> str:
    """Find a program of Redis."""
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is not on this machine: install the packages redis-server and redis-sentinel")
    return found


def low_port() -> int:
    """Return a port that nobody uses now, with room above it."""
    while (port := free_port()) > CLUSTER_PORT_MAX:
        pass
    return port
