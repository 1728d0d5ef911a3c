r"""Where everything is kept: the names of all keys, below a prefix of the store's own.

    v                               the version of this layout, and how many partitions there are
    c                               the number of the last task that arrived
    t/tea                           a task
    s/0/0999999999999999983         its place among those of its status, the newest first: this one is the 17th
    d/0004/0001767225600000/tea     its place in the queue of its partition, while it is pending
    h/tea\0 9999999998/0001767...   a run of it, the latest first, and when it was over
    o/0004                          who owns a partition: gone when the lease is
    e/0004, k/0004                  its epoch and its checkpoint, which stay
    m/node                          a node that lives
    l/17                            a lease by a clock that is not etcd's, for tests
    w                               where something was changed last, for those who watch
    x, j/...                        a batch too large for one transaction, and what is in it; see batches.py

Numbers are as long as they can get, so that keys are in the order of what they mean.

>>> keys = Keys(b"shop/")
>>> keys.due(4, 1767225600000, "tea")
b'shop/d/0004/0001767225600000/tea'
>>> keys.number_of(keys.place(Status.PENDING, 17))
17
>>> after(b"a/")
b'a0'
"""

from typing import Final

from tickwheel.tasks.record import Status, Task

__all__ = ["STATUSES", "Keys", "after", "spelled"]

STATUSES: Final = list(Status)  # a status is written as its place in here
NUMBERS: Final = {status: number for number, status in enumerate(STATUSES)}
LAST_NUMBER: Final = 10**18  # of a task that arrived; what counts down from it has 19 digits
LAST_ATTEMPT: Final = 10**10
DIGITS_OF_TIME: Final = 16  # 2**53 - 1 has as many


def spelled(text: str) -> bytes:
    """Write text as a key; what cannot be in a store gets a key that is in none."""
    return text.encode("utf-8", "surrogatepass")


def after(prefix: bytes) -> bytes:
    """Return the first key beyond all that begin with a prefix; ours end with a letter, a digit, / or NUL."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


class Keys:
    """The keys of one store."""

    def __init__(self, prefix: bytes) -> None:
        self.prefix = prefix
        self.version = prefix + b"v"
        self.last = prefix + b"c"
        self.news = prefix + b"w"
        self.batch = prefix + b"x"
        self.tasks = prefix + b"t/"
        self.places = prefix + b"s/"
        self.queues = prefix + b"d/"
        self.runs = prefix + b"h/"
        self.owners = prefix + b"o/"
        self.epochs = prefix + b"e/"
        self.checkpoints = prefix + b"k/"
        self.nodes = prefix + b"m/"
        self.leases = prefix + b"l/"
        self.journal = prefix + b"j/"
        self._list_of = {status: b"%s%d/" % (self.places, number) for status, number in NUMBERS.items()}

    def task(self, task_id: str) -> bytes:
        """Return the key of a task."""
        return self.tasks + spelled(task_id)

    def listed(self, status: Status) -> bytes:
        """Return what the places of all tasks of a status begin with."""
        return self._list_of[status]

    def place(self, status: Status, number: int) -> bytes:
        """Return the place of a task among those of its status."""
        return b"%s%019d" % (self._list_of[status], LAST_NUMBER - number)

    def number_of(self, place: bytes) -> int:
        """Read the number of a task from its place."""
        return LAST_NUMBER - int(place[-19:])

    def queue(self, partition: int) -> bytes:
        """Return what the pending tasks of a partition begin with."""
        return b"%s%04d/" % (self.queues, partition)

    def moment(self, partition: int, run_at: int) -> bytes:
        """Return what the pending tasks of a partition and a millisecond begin with."""
        return b"%s%04d/%016d/" % (self.queues, partition, run_at)

    def due(self, partition: int, run_at: int, task_id: str) -> bytes:
        """Return the place of a pending task in its queue."""
        return self.moment(partition, run_at) + spelled(task_id)

    def due_of(self, task: Task) -> bytes:
        """Return the place of a pending task in its queue."""
        return self.due(task.partition, task.run_at, task.id)

    def read_due(self, key: bytes) -> tuple[int, int, str]:
        """Read the partition, the time and the id from a place in a queue."""
        part, run_at, task_id = key[len(self.queues) :].split(b"/", 2)
        return int(part), int(run_at), task_id.decode()

    def history(self, task_id: str) -> bytes:
        """Return what all runs of a task begin with: no id has a NUL in it."""
        return b"%s%s\0" % (self.runs, spelled(task_id))

    def run(self, task_id: str, attempt: int, finished_at: int) -> bytes:
        """Return the key of a run."""
        return b"%s%011d/%016d" % (self.history(task_id), LAST_ATTEMPT - attempt, finished_at)

    @staticmethod
    def finished_at(run: bytes) -> int:
        """Read when a run was over from its key."""
        return int(run[-DIGITS_OF_TIME:])

    def owner(self, partition: int) -> bytes:
        """Return where the owner of a partition is written."""
        return b"%s%04d" % (self.owners, partition)

    def epoch(self, partition: int) -> bytes:
        """Return where the epoch of a partition is written."""
        return b"%s%04d" % (self.epochs, partition)

    def checkpoint(self, partition: int) -> bytes:
        """Return where it is written how far a partition is."""
        return b"%s%04d" % (self.checkpoints, partition)

    @staticmethod
    def partition_of(key: bytes) -> int:
        """Read a partition from the key of its owner, epoch or checkpoint."""
        return int(key[-4:])

    def node(self, node: str) -> bytes:
        """Return where it is written that a node lives."""
        return self.nodes + spelled(node)

    def lease(self, lease_id: int) -> bytes:
        """Return where the end of a lease by another clock is written."""
        return b"%s%d" % (self.leases, lease_id)

    def pages(self, batch: str) -> bytes:
        """Return what all parts of a large batch begin with."""
        return b"%s%s/" % (self.journal, batch.encode())

    def page(self, batch: str, number: int) -> bytes:
        """Return where a part of a large batch is written."""
        return b"%s%06d" % (self.pages(batch), number)
