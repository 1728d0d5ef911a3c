"""A server that is started as the README says closes connections that are silent, and no others."""

import re
import socket
import time

from tests.examples.commands import PATIENCE_S, started

IDLE_S = 1.0


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def test_silent_connections_are_closed_and_talking_ones_are_not() -> None:
    with started("python", "examples/idle_connections.py", "0") as server:
        try:
            assert server.stdout is not None
            listening = re.fullmatch(r"listening on port (\d+)\n", server.stdout.readline())
            assert listening is not None
            port = int(listening[1])
            with connect(port) as silent, connect(port) as talking:
                begun = time.monotonic()
                while time.monotonic() < begun + 1.5 * IDLE_S:
                    talking.sendall(b"hello\n")
                    assert talking.recv(100) == b"hello\n"
                    time.sleep(0.1)  # a packet now and then is what is tested
                assert silent.recv(100) == b"", "it was closed meanwhile"
                last = time.monotonic()
                assert talking.recv(100) == b"", "it is closed when it has been silent too"
                assert time.monotonic() - last > IDLE_S / 2, "and not at once"
        finally:
            server.kill()
