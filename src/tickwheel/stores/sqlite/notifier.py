"""Tells the other processes on a database what was changed, without anybody polling.

Every transaction that others should know of has a number, which it writes to the table `changes`. After the commit
its process sends the number and what changed in each partition to the socket of every node, a Unix datagram socket
beside its lock file:

    process 1    commits change 41, a task in partition 7 that is due at 12:00, and sends "41: 7 12:00"
    process 2    knows all changes up to 40, receives "41: 7 12:00", and reads what is due then in partition 7
    process 1    commits change 42 in partition 3; the datagram is lost
    process 2    within a second: `PRAGMA data_version` is another one, and the table says 42: reads everything

Who asks whether a node responds sends `PING`, and receives `PONG` from its event loop.
"""

import asyncio
import ctypes
import errno
import os
import select
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from tickwheel.stores.contract import Change
from tickwheel.stores.notifications import News
from tickwheel.stores.sqlite.node_locks import socket_path

__all__ = ["Notifier", "ping"]


def _queue_max() -> int:
    """Return how many datagrams a socket keeps, at the least, before it loses the next."""
    try:
        return int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 4  # of at most 64 KB: fewer than any system's buffer holds of ours, which are small


PATH_BYTES_MAX: Final = 100  # of a socket's name: 104 on macOS and 108 on Linux, with a zero at the end
PARTITIONS_MAX: Final = 1_000  # in one datagram; more than these are everywhere
DATAGRAM_BYTES: Final = 65_536
PING: Final = b"ping"
PONG: Final = b"pong"
QUEUE_FULL: Final = _queue_max()  # datagrams
FULL: Final = (errno.EAGAIN, errno.ENOBUFS)  # of a queue of datagrams

NOTHING_RECEIVED: Final[Callable[[], int]] = lambda: 0  # noqa: E731 - of no sockets

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[int, list[tuple[int, int, int, bool]] | None]).decode


class Notifier:
    """The sockets of a store's nodes, and which changes of the database it knows of. For any thread."""

    def __init__(self, database: Path, everywhere: News, tell: Callable[[News], None]) -> None:
        self._folder = os.path.dirname(os.path.realpath(database))  # noqa: PTH120 - a string, as paths of sockets are
        self._everywhere = everywhere
        self._tell = tell  # on the loop
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._draining = threading.Lock()  # until what was received is counted: others would not see it anywhere
        self._sockets: dict[str, socket.socket] = {}  # by the path of their lock file
        self._received = NOTHING_RECEIVED  # tells whether there is something in these
        self._known = 0  # every change up to this one is known
        self._beyond: set[int] = set()  # so are these, after a gap
        self._sender: socket.socket | None = None
        self._running: Counter[int] = Counter()  # changes of running tasks that others told of, by partition

    @property
    def listens(self) -> bool:
        """Whether others can send to it."""
        return bool(self._sockets)

    # -- on the loop

    def listen(self, lock_path: str) -> None:
        """Receive what is sent to a node; where that does not work, the table `changes` is looked at more often."""
        if sys.platform == "win32":
            return
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            with reachable(socket_path(lock_path)) as name:
                receiver.bind(name)
            self._loop.add_reader(receiver.fileno(), self._receive)
        except (OSError, NotImplementedError):
            receiver.close()
            return
        self._sockets[lock_path] = receiver
        self._received = received_by(self._sockets.values())

    def close(self, lock_path: str) -> None:
        """Receive nothing for a node any more."""
        receiver = self._sockets.pop(lock_path, None)
        if receiver is not None:
            if not self._loop.is_closed():
                self._loop.remove_reader(receiver.fileno())
            with self._draining:  # on another thread it may just be read
                self._received = received_by(self._sockets.values())
            receiver.close()
            with suppress(OSError):
                os.unlink(socket_path(lock_path))  # noqa: PTH108 - a string, as the others

    def _receive(self) -> None:
        news = self.drain()
        if news:
            self._tell(news)

    # -- on any thread

    def running_changes(self) -> Mapping[int, int]:
        """Count the changes of running tasks that others told of until now: what they sent before they returned."""
        # First what was received, then whether somebody drains: what is received from here on was not sent before.
        if not self._received() and not self._draining.locked():
            return self._running
        news = self.drain()
        if news and asyncio._get_running_loop() is self._loop:
            self._tell(news)
        elif news:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._tell, news)
        return self._running

    def drain(self) -> News:
        """Return what was changed, by all that was received since the last time."""
        news = News()
        with self._draining:
            for receiver in list(self._sockets.values()):
                datagrams = list(receive(receiver))
                for datagram in datagrams:
                    with suppress(msgspec.MsgspecError, ValueError):  # not from one of ours
                        self._read(datagram, news)
                if len(datagrams) >= QUEUE_FULL:  # more may have been sent than it could keep, and are found by looking
                    self.count(self._everywhere)
            if news:
                self.count(news)
        return news

    def _read(self, datagram: bytes, news: News) -> None:
        number, changes = _decode(datagram)
        if not self.know(number):
            return
        if changes is None:
            news.merge(self._everywhere)
        for partition, first, last, runs in changes or ():
            if partition in self._everywhere:
                news.add(partition, Change(first, last, runs))

    def count(self, news: News) -> None:
        """Count what others changed."""
        with self._lock:
            self._running.update(partition for partition, change in news.items() if change.runs)

    def know(self, number: int) -> bool:
        """Note that a change is known; False if it was before."""
        with self._lock:
            if number <= self._known or number in self._beyond:
                return False
            self._beyond.add(number)
            while self._known + 1 in self._beyond:
                self._known += 1
                self._beyond.discard(self._known)
            return True

    def knows_all(self, number: int) -> bool:
        """Tell whether every change up to one is known."""
        return number <= self._known

    def skip_to(self, number: int) -> None:
        """Take every change up to one as known."""
        with self._lock:
            self._known = max(self._known, number)
            self._beyond = {each for each in self._beyond if each > self._known}
            while self._known + 1 in self._beyond:
                self._known += 1
                self._beyond.discard(self._known)

    def send(self, number: int, news: News, locks: Iterable[str]) -> None:
        """Tell other nodes of a change that is committed; what is lost they find by themselves."""
        self.know(number)
        paths = (os.path.join(self._folder, lock) for lock in locks)  # noqa: PTH118
        others = [path for path in paths if path not in self._sockets]
        if not others or sys.platform == "win32":
            return
        changes = [(partition, *change) for partition, change in news.items()]
        datagram = _encode((number, None if len(changes) > PARTITIONS_MAX else changes))
        for path in others:
            with suppress(OSError), reachable(socket_path(path)) as name:  # nobody listens, or its queue is full
                self._send(datagram, name)

    def _send(self, datagram: bytes, name: str) -> None:
        """Send to a socket; if that fails, then because its queue is full, which its owner sees when it reads it."""
        if self._sender is not None:
            with suppress(BlockingIOError):
                self._sender.sendto(datagram, name)
                return
            self._sender.close()  # its buffer may be full of what others have not read: a new one has room
        self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._sender.sendto(datagram, name)

    def end(self) -> None:
        """Close all sockets."""
        for path in list(self._sockets):
            self.close(path)
        if self._sender is not None:
            self._sender.close()
            self._sender = None


class PollFd(ctypes.Structure):
    """A socket and the events that it is polled for, laid out as the C library expects."""

    _fields_ = (("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short))


def received_by(sockets: Collection[socket.socket]) -> Callable[[], int]:
    """Return what tells whether one of some sockets has received anything.

    It is asked before each run, and keeps the interpreter's lock: `select.poll` gives it up, and with other threads at
    work each run then waits for them.
    """
    if sys.platform == "win32":
        return NOTHING_RECEIVED
    polled = (PollFd * len(sockets))(*[PollFd(each.fileno(), select.POLLIN, 0) for each in sockets])
    return partial(ctypes.PyDLL(None).poll, polled, ctypes.c_ulong(len(sockets)), ctypes.c_int(0))


def receive(receiver: socket.socket) -> Iterator[bytes]:
    """Read what a socket has, and answer who asks whether anybody is there."""
    while True:
        try:
            datagram, sender = receiver.recvfrom(DATAGRAM_BYTES)
        except OSError:  # there is no more, or it was closed
            return
        if datagram != PING:
            yield datagram
        elif sender:
            with suppress(OSError):
                receiver.sendto(PONG, sender)


@contextmanager
def reachable(path: str) -> Iterator[str]:
    """Give a name for a path that a socket can take: long ones through a descriptor of their folder, on Linux."""
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        yield path
        return
    folder, name = os.path.split(path)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def ping(lock_path: str, timeout_s: float) -> bool | None:
    """Ask whether the event loop of a node responds; None if it cannot be asked."""
    if sys.platform == "win32":
        return None
    with TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asker:
        asker.settimeout(timeout_s)
        try:
            asker.bind(os.path.join(folder, "asker"))  # noqa: PTH118 - a string, as the others
            with reachable(socket_path(lock_path)) as name:
                asker.sendto(PING, name)
        except OSError as error:
            # A full queue is one that nobody reads; waiting for room in it ends as a TimeoutError.
            return False if isinstance(error, TimeoutError) or error.errno in FULL else None
        try:
            return asker.recv(len(PONG)) == PONG
        except OSError:
            return False
