"""Tasks as they are kept, and what has to be written when one becomes another.

The value of a task is its number in the order of arrival, the epoch under which it was claimed, and the task as JSON:

    17 0 {"id":"tea","handler":"kettle.whistle",...}
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from tickwheel.stores import validation
from tickwheel.stores.contract import Due
from tickwheel.stores.etcd.keys import Keys, spelled
from tickwheel.stores.etcd.requests import Comparison, Operation, delete, delete_all, put, stands
from tickwheel.stores.quarantine import Columns, read_row
from tickwheel.tasks.destinations import handler_for_queue
from tickwheel.tasks.record import Run, Status, Task, UnreadableTask

__all__ = ["Kept", "Write", "arrival_of", "claims", "claims_of", "due_of", "kept_of", "place_of", "run_of"]

_decode_run = msgspec.json.Decoder(Run).decode
_decode_due = msgspec.json.Decoder(tuple[int, int, str | None, int]).decode
_decode_claims = msgspec.json.Decoder(list[tuple[int, str]]).decode
_encode = msgspec.json.Encoder().encode


class Kept(msgspec.Struct, frozen=True, gc=False):
    """A task that is there."""

    task: Task
    number: int  # in the order of arrival
    epoch: int  # of the lease under which it was claimed; 0 before that
    revision: int  # at which it was last changed


class Write(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a task becomes: from how it was read, None if it was not there; to None if it goes."""

    before: Kept | None
    after: Task | None
    number: int
    epoch: int = 0
    run: Run | None = None  # to remember

    @property
    def partitions(self) -> set[int]:
        """Where something changes."""
        tasks = [None if self.before is None else self.before.task, self.after]
        return {task.partition for task in tasks if task is not None}

    def comparison(self, keys: Keys) -> Comparison:
        """Demand that it is as it was read."""
        if self.before is None:
            assert self.after is not None
            return stands(keys.task(self.after.id), 0)
        return stands(keys.task(self.before.task.id), self.before.revision)

    def operations(self, keys: Keys) -> list[Operation]:
        """Return what to write; no key twice, for etcd refuses that."""
        known = self.before is not None and not isinstance(self.before.task, UnreadableTask)
        old = _places(keys, self.before.task, self.before.number) if self.before is not None and known else {}
        new = {} if self.after is None else _places(keys, self.after, self.number)
        given = [delete(key) for key in old if key not in new]
        given += [put(key, value) for key, value in new.items() if old.get(key) != value]
        if self.after is not None:
            body = b"%d %d %s" % (self.number, self.epoch, validation.encode(self.after))
            given.append(put(keys.task(self.after.id), body))
        elif self.before is not None:
            given += [delete(keys.task(self.before.task.id)), delete_all(keys.history(self.before.task.id))]
        if self.run is not None:
            given.append(put(keys.run(self.run.task_id, self.run.attempt, self.run.finished_at), _encode(self.run)))
        return given


def _places(keys: Keys, task: Task, number: int) -> dict[bytes, bytes]:
    """Return the keys that lead to a task."""
    places = {keys.arrival(number): spelled(task.id)}
    status = task.listed_status
    if status is Status.PENDING:
        places[keys.due_of(task)] = _encode((task.priority, task.version, task.queue, number))
    elif status is not Status.RUNNING:
        places[keys.place(status, number)] = b"%d %s" % (task.finished_at or 0, spelled(task.id))
    return places


def kept_of(keys: Keys, pair: Any) -> Kept:
    """Read a task, or what can be said of it."""
    task_id = pair.key[len(keys.tasks) :].decode(errors="backslashreplace")
    number, _, rest = pair.value.partition(b" ")
    epoch, _, body = rest.partition(b" ")
    if not (number.isdigit() and epoch.isdigit()):
        number = epoch = b"0"
        body = pair.value
    return Kept(read_row(body, Columns(task_id)), int(number), int(epoch), pair.mod_revision)


def place_of(value: bytes) -> tuple[int, str]:
    """Read from the place of a task when it was over, and its id."""
    finished_at, _, task_id = value.partition(b" ")
    return int(finished_at), task_id.decode()


def due_of(keys: Keys, pair: Any) -> Due:
    """Read what is due from its place in a queue."""
    partition, run_at, task_id = keys.read_due(pair.key)
    priority, version, queue, _ = _decode_due(pair.value)
    return Due(run_at, task_id, partition, priority, version, "" if queue is None else handler_for_queue(queue))


def arrival_of(keys: Keys, pair: Any) -> tuple[int, str]:
    """Read the number of what is due, and its id."""
    return _decode_due(pair.value)[3], keys.read_due(pair.key)[2]


def claims(kept: Iterable[Kept]) -> bytes:
    """Write down what was claimed together: numbers and ids."""
    return _encode([(each.number, each.task.id) for each in kept])


def claims_of(pair: Any) -> list[tuple[int, str]]:
    """Read what was claimed together."""
    return _decode_claims(pair.value)


def run_of(pair: Any) -> Run:
    """Read a run."""
    return _decode_run(pair.value)
