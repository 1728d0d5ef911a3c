"""An etcd cluster of one's own, for tests and trials: made in an empty folder, on free ports, and gone afterwards.

    with EtcdCluster.fresh() as cluster:
        asyncio.run(main(cluster.url("shop")))
        cluster.stop(cluster.leader(), signal.SIGKILL)      # and what happens without it?

It keeps to its promises: what is acknowledged is on the disks of most members, with every test too:
on a disk of our days they take hardly longer for it.
"""

import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

__all__ = ["EtcdCluster", "quiet_ports"]

MEMBERS: Final = 3
QUIET_PORTS: Final = range(15_000, 32_000)
PATIENCE_S: Final = 60.0  # for what takes a second
ANSWER_S: Final = 2.0
REACH_S: Final = 0.5  # what is lost on the way to the leader is asked again


class EtcdCluster:
    """Some members and their folder; `url` leads to all of them."""

    def __init__(self, folder: Path, ports: Sequence[tuple[int, int]], tls: Path | None = None) -> None:
        self.folder = folder
        self.ports = list(ports)  # for clients, and for each other
        self.tls = tls
        self._processes: dict[int, subprocess.Popen[Any]] = {}

    @property
    def members(self) -> range:
        """The numbers of the members."""
        return range(len(self.ports))

    def url(self, prefix: str, first: int = 0) -> str:
        """Where a client finds it; the member that is first in there is asked first."""
        order = [*self.members[first:], *self.members[:first]]
        return f"etcd://{','.join(f'127.0.0.1:{self.ports[number][0]}' for number in order)}/{prefix}"

    @classmethod
    @contextmanager
    def fresh(cls, members: int = MEMBERS, *, tls: Path | None = None) -> Iterator["EtcdCluster"]:
        """Make a cluster and start it; in the end it is stopped and its folder removed.

        With a folder for `tls` clients are served by its server.pem and server.key, and have to show a certificate that
        ca.pem vouches for, as client.pem and client.key there.
        """
        with tempfile.TemporaryDirectory(prefix="etcd-", ignore_cleanup_errors=True) as name:
            ports = quiet_ports(2 * members)
            cluster = cls(Path(name), list(zip(ports[::2], ports[1::2], strict=True)), tls)
            try:
                cluster.start()
                yield cluster
            finally:
                for number in cluster.members:
                    cluster.stop(number, signal.SIGKILL)

    def start(self, *numbers: int) -> None:
        """Start members, all that do not run unless told, and wait until each answers for the leader."""
        started = numbers or tuple(number for number in self.members if number not in self._processes)
        for number in started:
            with self._log(number).open("ab") as log:
                self._processes[number] = subprocess.Popen(  # noqa: S603 - our own program and arguments
                    self._command(number), stdout=log, stderr=subprocess.STDOUT
                )
        end = time.monotonic() + PATIENCE_S
        for number in started:
            while not self._serves(number):
                if self._processes[number].poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"etcd does not start: {self._log(number).read_text()[-2000:]}")
                time.sleep(0.02)

    def stop(self, number: int, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop a member: SIGTERM lets it say good-bye, SIGKILL is a crash."""
        process = self._processes.pop(number, None)
        if process is not None:
            process.send_signal(how)
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def send(self, number: int, what: signal.Signals) -> None:
        """Send a signal to a member."""
        self._processes[number].send_signal(what)

    def leader(self) -> int:
        """Return the member that leads; there has to be one within a while."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            for number in self._processes:
                leader, itself = self._seen_by(number)
                if leader and leader == itself:
                    return number
            time.sleep(0.02)
        raise RuntimeError("the members do not agree on a leader")

    def _log(self, number: int) -> Path:
        return self.folder / f"log-{number}.txt"

    def _command(self, number: int) -> list[str]:
        client = f"http{'s' if self.tls else ''}://127.0.0.1:{self.ports[number][0]}"
        peer = f"http://127.0.0.1:{self.ports[number][1]}"
        peers = ",".join(f"member-{each}=http://127.0.0.1:{self.ports[each][1]}" for each in self.members)
        options = {
            "name": f"member-{number}",
            "data-dir": self.folder / f"data-{number}",
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": peers,
            "initial-cluster-state": "new",
            "logger": "zap",
            "log-level": "warn",
        }
        if self.tls is not None:
            options |= {"cert-file": self.tls / "server.pem", "key-file": self.tls / "server.key"}
            options |= {"trusted-ca-file": self.tls / "ca.pem", "client-cert-auth": "true"}
        return [program(), *(f"--{name}={value}" for name, value in options.items())]

    def _seen_by(self, number: int) -> tuple[int, int]:
        """Return whom a member takes for the leader, and who it is itself; one that does not answer knows of none."""
        import grpc  # noqa: PLC0415 - where no cluster is started, the driver need not be installed
        from aetcd import rpc  # noqa: PLC0415

        with self._channel(number) as channel:
            try:
                status = rpc.MaintenanceStub(channel).Status(rpc.StatusRequest(), timeout=ANSWER_S)
            except grpc.RpcError:
                return 0, 0
        return status.leader, status.header.member_id

    def _serves(self, number: int) -> bool:
        """Tell whether what is asked of a member gets to the leader and back: it may know it, and not reach it yet."""
        import grpc  # noqa: PLC0415 - as above
        from aetcd import rpc  # noqa: PLC0415

        with self._channel(number) as channel:
            try:
                rpc.KVStub(channel).Range(rpc.RangeRequest(key=b"\0", keys_only=True), timeout=REACH_S)
            except grpc.RpcError as error:
                # One that says who may ask has looked it up.
                return error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
        return True

    def _channel(self, number: int) -> Any:
        import grpc  # noqa: PLC0415 - as above

        endpoint = f"127.0.0.1:{self.ports[number][0]}"
        if self.tls is None:
            return grpc.insecure_channel(endpoint)
        shown = [(self.tls / name).read_bytes() for name in ("ca.pem", "client.key", "client.pem")]
        return grpc.secure_channel(endpoint, grpc.ssl_channel_credentials(*shown))


def quiet_ports(many: int) -> list[int]:
    """Return ports that nobody uses now, and that no connection is given: they are free when one starts again."""
    with ExitStack() as stack:
        found: list[int] = []
        while len(found) < many:
            probe = stack.enter_context(socket.socket())
            port = secrets.choice(QUIET_PORTS)
            with suppress(OSError):
                probe.bind(("127.0.0.1", port))
                found.append(port)
        return found


def program() -> str:
    """Find etcd."""
    found = shutil.which("etcd")
    if found is None:
        raise FileNotFoundError("etcd is not on this machine: install the package etcd-server")
    return found
