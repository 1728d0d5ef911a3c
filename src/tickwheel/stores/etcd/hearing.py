"""Notifications between processes, by watching: where something changed, never what.

Every change that concerns owners writes into one key where it was, in the same transaction; and when a lease ends, or
is given back, the key of the owner goes away. Both are watched. Where the watch is lost it is begun again, after longer
and longer pauses; what was told meanwhile is lost as well, so that who listens is sent to look everywhere then.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from tickwheel.errors import StoreError
from tickwheel.stores.etcd.batches import EVERYWHERE
from tickwheel.stores.etcd.keys import Keys, after
from tickwheel.stores.etcd.writing import Ground
from tickwheel.stores.notifications import News, Notifications, Watch

__all__ = ["Wire"]

log = logging.getLogger("tickwheel.stores.etcd")

PAUSE_S: Final = 0.1  # before a lost watch is begun again, at first
PAUSE_S_MAX: Final = 5.0


class Wire:
    """Tells this process where it, or another one, changed something."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._everywhere = set(range(ground.partitions))
        self._hints = Notifications()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def watch(self, partitions: Sequence[int]) -> Watch:
        """Begin to listen."""
        watch = self._hints.watch(partitions)
        if self._closed:
            watch.close()
        elif self._task is None:
            self._task = asyncio.create_task(self._keep())
        return watch

    async def close(self) -> None:
        """Hang up."""
        self._closed = True
        self._hints.close()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _keep(self) -> None:
        """Listen for as long as the store is open."""
        keys = self._ground.keys
        pause_s = PAUSE_S
        while not self._closed:
            try:
                async for events in self._ground.members.watch(
                    [(keys.news, b""), (keys.owners, after(keys.owners))],
                ):
                    pause_s = PAUSE_S
                    self._hints.tell(News.unknown(self._heard(keys, events) if events else self._everywhere))
            except StoreError as error:
                log.info("hints: %s; trying again in %g s", error, pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_S_MAX)

    def _heard(self, keys: Keys, events: Sequence[Any]) -> set[int]:
        """Read in which partitions something happened: a task changed, or nobody owns them any more."""
        heard: set[int] = set()
        for event in events:
            if event.kv.key != keys.news:
                heard |= {keys.partition_of(event.kv.key)} if event.type == event.DELETE else set()
            elif event.kv.value == EVERYWHERE:
                return self._everywhere
            else:
                heard |= {int(part) for part in event.kv.value.split(b",") if part}
        return heard
