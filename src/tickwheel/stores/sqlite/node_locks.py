"""Which nodes of a database are alive, by locks that the kernel drops when a process ends.

    node a of process 1    holds a lock on tasks.db-node-3f2a9c01     for as long as it lives
    node b of process 2    tries to lock that file                    it cannot: a is alive, running or suspended
    process 1 is killed    the kernel drops the lock
    node b                 tries again                                it can: a is dead, and b takes over

POSIX record locks, not `flock`: a forked child inherits a `flock`, which then outlives its process. They have two
traps. They do not conflict within a process, and closing any descriptor of a file drops every lock that the process
has on it. So `HELD` knows the lock files of this process, which it neither opens nor probes, and the audit hook of
open_files.py keeps other code from opening them.

A file that is missing says nothing about its node. Then the process decides, where its pid is visible here (same boot,
same pid namespace, same start time); where it is not, the node counts as dead if it does not make a new lock file
within `MISSING_S`. A database that was copied has the nodes of the original: they are not its own.
"""

import asyncio
import errno
import os
import secrets
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from tickwheel.clock import SystemClock
from tickwheel.stores.sqlite.file_locks import is_index_locked
from tickwheel.stores.sqlite.open_files import OPEN, Identity, identify

if sys.platform != "win32":
    import fcntl

__all__ = ["Member", "NodeLock", "NodeLocks", "Peers", "is_in_use", "read_process", "socket_path", "visible_pid"]

LOOK_S: Final = 1.0  # between two looks at all others: one that could not be written off may have a live process
PROBE_S: Final = 0.1  # between two attempts at the locks of nodes whose process is not visible here
MAKE_MAX: Final = 100  # attempts at a lock file: others hold a lock they try for microseconds
MISSING_S: Final = 3.0  # a node looks every second whether its file is there
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
PID_NAMESPACE: Final = "/proc/self/ns/pid"
START_FIELD: Final = 19  # of /proc/PID/stat after the name, which is in parentheses: field 22


class Member(msgspec.Struct, frozen=True, gc=False):
    """A row of the table `nodes`."""

    node: str
    active: int  # 0 for a node that wants no partitions, but may still have some
    lock: str  # the name of its lock file; "" for a node whose leases expire by time
    inode: int  # of its lock file
    process: str  # see `describe_process`; "" where there is nothing like it
    database: int  # the inode of the database that it has open
    expires_at: int  # of a node without a lock: a stamp that grows with each heartbeat, see renewals.py
    handlers: str | None = None  # that it has, as JSON; None if it did not say
    version: str = ""  # of tickwheel
    ttl_ms: int = 0  # of a node without a lock: how long it is alive without a heartbeat


class NodeLock:
    """A lock file of this process, locked."""

    def __init__(self, path: str, descriptor: int, identity: Identity) -> None:
        self.path = path
        self.name = os.path.basename(path)  # noqa: PTH119 - as the table has it
        self.descriptor = descriptor
        self.identity = identity

    def in_place(self) -> bool:
        """Tell whether its name still leads to it."""
        try:
            return identify(self.path) == self.identity
        except OSError:
            return False

    def hold(self) -> None:
        """Take the lock again: other code in this process may have closed the file."""
        with suppress(OSError):  # somebody is just trying it
            fcntl.lockf(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def close(self) -> None:
        """Release the lock."""
        with HELD.lock:
            HELD.paths.pop(self.path, None)
            OPEN.pop(self.identity, None)
            os.close(self.descriptor)


class Held:
    """The lock files of this process; a forked child begins with none."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.paths: dict[str, NodeLock] = {}

    def forget(self) -> None:
        """Begin anew in a forked child: closing its copies drops no lock of the parent's."""
        for held in self.paths.values():
            with suppress(OSError):
                os.close(held.descriptor)
        self.paths.clear()
        self.lock = threading.Lock()


HELD: Final = Held()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=HELD.forget)


class NodeLocks:
    """The lock files next to one database: makes them, and tells which are held."""

    def __init__(self, database: Path) -> None:
        self._prefix = f"{os.path.realpath(database)}-node-"
        self._database = os.stat(database).st_ino  # noqa: PTH116 - as below
        self._missing: dict[str, float] = {}  # lock files that are not there, and since when

    def make(self, node: str) -> tuple[NodeLock, Member]:
        """Make a lock file and lock it; `OSError` where that does not work."""
        if sys.platform == "win32":
            raise OSError(errno.ENOSYS, "no POSIX record locks")
        refused: OSError | None = None
        for _ in range(MAKE_MAX):
            path = f"{self._prefix}{secrets.token_hex(4)}"
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            except FileExistsError:
                continue
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found = os.fstat(descriptor)
                lock = NodeLock(path, descriptor, (found.st_dev, found.st_ino))
            except BaseException as error:
                os.close(descriptor)
                with suppress(OSError):
                    os.unlink(path)  # noqa: PTH108 - a string, as everywhere here
                if isinstance(error, OSError) and error.errno in (errno.EAGAIN, errno.EACCES):
                    refused = error  # another process tried the lock first, to see whose file it is
                    continue
                raise
            with HELD.lock:
                HELD.paths[path] = lock
                OPEN[lock.identity] = Path(path)
            member = Member(node, 1, lock.name, found.st_ino, describe_process(), self._database, 0)
            return lock, member
        raise refused or OSError(errno.EEXIST, "no free name for a lock file")

    def is_alive(self, member: Member) -> bool:
        """Tell whether a node that has a lock is alive."""
        if member.database != self._database:
            return False
        path = self.path(member)
        if path in HELD.paths:
            return True
        held = is_locked(path, member.inode)
        if held is not None:
            self._missing.pop(path, None)
            return held
        running = read_process(member.process)
        if running is not None:
            return running
        since = self._missing.setdefault(path, SystemClock.monotonic())
        return SystemClock.monotonic() - since < MISSING_S

    def is_ours(self, member: Member) -> bool:
        """Tell whether a node is in this process."""
        return self.path(member) in HELD.paths

    def path(self, member: Member) -> str:
        """Return where the lock file of a node is."""
        return f"{self._prefix.removesuffix(os.path.basename(self._prefix))}{member.lock}"  # noqa: PTH119

    def remove(self, member: Member) -> None:
        """Delete what is left of a node that was forgotten, and not what another one has made by its name since."""
        path = self.path(member)
        self._missing.pop(path, None)
        with suppress(OSError):
            if member.lock and os.stat(path).st_ino == member.inode:  # noqa: PTH116 - as everywhere here
                os.unlink(path)  # noqa: PTH108
                os.unlink(socket_path(path))  # noqa: PTH108

    def remove_leftovers(self, known: set[str]) -> None:
        """Delete lock files of processes that died before their node was written; within a write transaction."""
        folder, prefix = os.path.split(self._prefix)
        with suppress(OSError):
            for name in os.listdir(folder):  # noqa: PTH208
                lock = name.removesuffix(SOCKET_SUFFIX)
                path = os.path.join(folder, lock)  # noqa: PTH118
                if name.startswith(prefix) and lock not in known and path not in HELD.paths and not is_locked(path):
                    os.unlink(os.path.join(folder, name))  # noqa: PTH108, PTH118


class Peers:
    """Notices on the event loop when nodes of other processes end."""

    def __init__(self, locks: NodeLocks, on_death: Callable[[], None]) -> None:
        self._locks = locks
        self._on_death = on_death
        self._loop = asyncio.get_running_loop()
        self._processes: dict[str, int] = {}  # a pidfd for each lock file: readable when the process has ended
        self._watched: list[Member] = []
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, members: Iterable[Member]) -> None:
        """Watch these nodes, and no others."""
        self._watched = [member for member in members if member.lock]
        others = {member.lock: member for member in self._watched if not self._locks.is_ours(member)}
        for lock in self._processes.keys() - others.keys():
            self._forget(lock)
        for lock, member in others.items():
            if lock not in self._processes:
                self._watch_process(member)
        if self._timer is None:
            self._probe_later()

    def close(self) -> None:
        """Watch nobody any more."""
        self.watch(())
        if self._timer is not None:
            self._timer.cancel()

    def _watch_process(self, member: Member) -> None:
        found = visible_pid(member.process)
        if found is None or not hasattr(os, "pidfd_open"):
            return
        with suppress(OSError, NotImplementedError):
            descriptor = os.pidfd_open(found[0])
            if not read_process(member.process):  # the pid is another process's by now
                os.close(descriptor)
                return
            self._processes[member.lock] = descriptor
            self._loop.add_reader(descriptor, self._ended, member.lock)

    def _ended(self, lock: str) -> None:
        self._forget(lock)
        self._on_death()

    def _forget(self, lock: str) -> None:
        descriptor = self._processes.pop(lock)
        if not self._loop.is_closed():
            self._loop.remove_reader(descriptor)
        os.close(descriptor)

    def _probe(self) -> None:
        self._probe_later()
        if not all(map(self._locks.is_alive, self._watched)):
            self._on_death()

    def _probe_later(self) -> None:
        """Try the locks of all others, often if the end of a process would not be noticed otherwise."""
        visible = all(member.lock in self._processes or self._locks.is_ours(member) for member in self._watched)
        wait_s = LOOK_S if visible else PROBE_S
        self._timer = self._loop.call_later(wait_s, self._probe) if self._watched else None


SOCKET_SUFFIX: Final = ".sock"


def socket_path(lock_path: str) -> str:
    """Return where the socket of the node with a lock file is."""
    return lock_path + SOCKET_SUFFIX


def is_locked(path: str, inode: int | None = None) -> bool | None:
    """Tell whether another process holds a lock file; None if it is not there, or another file is."""
    if sys.platform == "win32":
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError:
        return True  # it cannot be tried: nobody takes over what may be somebody's
    try:
        if inode is not None and os.fstat(descriptor).st_ino != inode:
            return None
        # Shared: those who try at the same time do not take each other for the owner.
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def is_in_use(database: Path) -> bool:
    """Tell whether a process, this one included, has a database open, by what lies beside it: the file may be gone."""
    real = os.path.realpath(database)
    index = f"{real}-shm"
    try:
        if identify(index) in OPEN or is_index_locked(index):
            return True
    except OSError:
        pass  # there is none
    folder, prefix = os.path.split(f"{real}-node-")
    try:
        names = os.listdir(folder)  # noqa: PTH208 - strings, as everywhere here
    except OSError:
        return False
    locks = (os.path.join(folder, name) for name in names if name.startswith(prefix))  # noqa: PTH118
    return any(path in HELD.paths or is_locked(path) for path in locks if not path.endswith(SOCKET_SUFFIX))


def describe_process() -> str:
    """Identify this process among all that ever ran: boot, pid namespace, pid and start time; "" if that is unknown."""
    try:
        pid = os.getpid()
        return f"{BOOT_ID.read_text().strip()} {os.readlink(PID_NAMESPACE)} {pid} {read_start(pid)}"  # noqa: PTH115
    except (OSError, IndexError):
        return ""


def visible_pid(process: str) -> tuple[int, str] | None:
    """Return the pid and start time of a process if they mean anything here."""
    boot, _, rest = process.partition(" ")
    namespace, _, rest = rest.partition(" ")
    try:
        if boot != BOOT_ID.read_text().strip() or namespace != os.readlink(PID_NAMESPACE):  # noqa: PTH115
            return None
        pid, _, start = rest.partition(" ")
        return int(pid), start
    except (OSError, ValueError):
        return None


def read_process(process: str) -> bool | None:
    """Tell whether a process runs; None if its pid is not visible here."""
    found = visible_pid(process)
    if found is None:
        return None
    pid, start = found
    try:
        return read_start(pid) == start
    except (OSError, IndexError):
        return False


def read_start(pid: int) -> str:
    """Return when a process was started, in ticks since the boot; `OSError` if there is none."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    if fields[0] in "ZX":  # it has ended, and its parent has not looked yet
        raise ProcessLookupError(errno.ESRCH, "it has ended")
    return fields[START_FIELD]
