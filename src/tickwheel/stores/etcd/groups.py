"""Which tasks were claimed together: one key for each partition and transaction leads to all that run.

A key for each task would have to be written and deleted with it. Here it is one for many, which is deleted when all of
them are over, some time after that: whoever reads it looks at the tasks themselves. What a process leaves behind is
cleared away by the next owner of the partition.
"""

from collections import Counter, deque
from collections.abc import Collection, Sequence

__all__ = ["Groups"]


class Groups:
    """The groups that this process has claimed."""

    def __init__(self) -> None:
        self._group_of: dict[str, bytes] = {}
        self._left: Counter[bytes] = Counter()
        self._over: deque[bytes] = deque()

    def begin(self, group: bytes, ids: Collection[str]) -> None:
        """Note what was claimed together."""
        self._left[group] = len(ids)
        self._group_of.update(dict.fromkeys(ids, group))

    def end(self, task_id: str) -> None:
        """Note that a task is over."""
        group = self._group_of.pop(task_id, b"")
        if group in self._left:
            self._left[group] -= 1
            if not self._left[group]:
                del self._left[group]
                self._over.append(group)

    def forget(self, task_id: str) -> None:
        """Leave a group to the next owner: nobody here knows any more when all of it is over."""
        self._left.pop(self._group_of.pop(task_id, b""), None)

    def take(self, most: int) -> list[bytes]:
        """Return some groups that are over, to be deleted."""
        return [self._over.popleft() for _ in range(min(most, len(self._over)))]

    def put_back(self, groups: Sequence[bytes]) -> None:
        """Have them deleted with something else."""
        self._over.extend(groups)
