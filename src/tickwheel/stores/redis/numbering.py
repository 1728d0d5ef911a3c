"""Serials: the order in which tasks arrived, counted by the server.

Who adds takes as many as are needed first. As long as nobody else took any in between, we know which are next and need
not ask: the script that adds sees whether they are, and takes them itself. That saves a round trip, and a write to the
server's disk.
"""

from tickwheel.stores.redis.keys import META
from tickwheel.stores.redis.shards import Shards

__all__ = ["Numbering"]


class Numbering:
    """The serials of what one process adds."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._next = 1  # after the last that were ours
        self._alone = False

    async def take(self, tasks: int) -> range:
        """Take serials for so many new tasks."""
        if not tasks:
            return range(0)
        last = await self._shards.ask_one("number", META, (tasks, 0))
        taken = range(last - tasks + 1, last + 1)
        self._alone = taken.start == self._next
        self._next = taken.stop
        return taken

    async def give_back(self, serials: range) -> None:
        """Give serials back that were not used, unless others were taken since; then they are left out."""
        if serials:
            await self._shards.ask_one("number", META, (-len(serials), serials[-1]))
            self._next = serials.start

    def expect(self, tasks: int) -> range | None:
        """Return which serials are next, if nobody else seems to take any."""
        return range(self._next, self._next + tasks) if self._alone else None

    def took(self, expected: range) -> None:
        """Note that serials were the next ones, and are taken."""
        self._next = expected.stop
