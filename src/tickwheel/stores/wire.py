"""Notifications between processes that share a store on a server: where something changed, never what.

    adder    writes, then says '7f3a 4,17'          7f3a is who says it: its own hints come back to it
    owner    hears of 4 and 17, and looks

A connection apart does both: a `Line`, of whatever the server has for it. Where it is lost it is made again, after
longer and longer pauses; what was told meanwhile is lost as well, so that who listens is sent to look everywhere then.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from tickwheel.errors import StoreError
from tickwheel.stores.notifications import News, Notifications, Watch

__all__ = ["Line", "Wire"]

log = logging.getLogger("tickwheel.stores.notifications")

GAP_S: Final = 0.005  # between two hints that we send: what changes meanwhile goes together
PROBE_S: Final = 10.0  # how often to see whether a silent connection is still there
HANG_UP_S: Final = 5.0
PAUSE_S: Final = 0.1  # before a lost connection is made again, at first
PAUSE_S_MAX: Final = 5.0
SPOKEN_MAX: Final = 1000  # partitions in one hint: servers take 8,000 bytes; more than these are everywhere
EVERYWHERE: Final = "*"


class Line(Protocol):
    """A connection that carries hints; what goes wrong with it is a `StoreError`."""

    async def listen(self, hear: Callable[[str], None]) -> None:
        """Begin to hear what anyone says."""

    async def say(self, hint: str) -> None:
        """Let everyone who listens hear something."""

    async def probe(self) -> None:
        """See whether it is still there."""

    async def hang_up(self) -> None:
        """End it."""


class Wire:
    """Tells other processes where this one changed something, and this one what they tell.

    `dial` makes a line, and is given what to call when that is lost.
    """

    def __init__(self, dial: Callable[[Callable[[], None]], Awaitable[Line]], partitions: int) -> None:
        self._dial = dial
        self._everywhere = set(range(partitions))
        self._name = secrets.token_hex(4)
        self._hints = Notifications()
        self._news: set[int] = set()
        self._listening = False
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def tell(self, partitions: set[int]) -> None:
        """Let everybody know that something changed."""
        if partitions and not self._closed:
            self._hints.tell(News.unknown(partitions))
            self._news |= partitions
            self._wake()

    def watch(self, partitions: Sequence[int]) -> Watch:
        """Begin to listen."""
        watch = self._hints.watch(partitions)
        if self._closed:
            watch.close()
        else:
            self._listening = True
            self._wake()
        return watch

    async def close(self) -> None:
        """Say what is left to say, and hang up."""
        self._closed = True
        self._hints.close()
        self._woken.set()
        if self._task is not None:
            with suppress(asyncio.CancelledError, TimeoutError):
                async with asyncio.timeout(HANG_UP_S):
                    await self._task

    def _wake(self) -> None:
        self._woken.set()
        if self._task is None:
            self._task = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        """Be connected for as long as the store is open."""
        pause_s = PAUSE_S
        while not self._closed:
            try:
                line = await self._dial(self._woken.set)
                pause_s = PAUSE_S
                await self._talk(line)
            except StoreError as error:
                if self._closed:
                    return
                log.info("hints: %s; trying again in %g s", error, pause_s)
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._until_closed()
                pause_s = min(pause_s * 2, PAUSE_S_MAX)

    async def _until_closed(self) -> None:
        while not self._closed:
            self._woken.clear()
            await self._woken.wait()

    async def _talk(self, line: Line) -> None:
        """Send and hear hints until the connection is lost, or the store closed."""
        heard = False
        try:
            while not (self._closed and not self._news):
                if self._listening and not heard:
                    await line.listen(self._hear)
                    self._hints.tell(News.unknown(self._everywhere))  # whatever was told while nobody heard it
                    heard = True
                if self._news:
                    await self._say(line)
                    await asyncio.sleep(GAP_S)
                elif not await self._rest():
                    await line.probe()
        finally:
            await line.hang_up()

    async def _say(self, line: Line) -> None:
        """Say what is new; what could not be said is said on the next line."""
        news, self._news = self._news, set()
        try:
            await line.say(self._spoken(news))
        except StoreError:
            self._news |= news
            raise

    async def _rest(self) -> bool:
        """Wait for something to say; return whether there may be."""
        try:
            async with asyncio.timeout(PROBE_S):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return bool(self._news) or self._closed

    def _spoken(self, news: set[int]) -> str:
        where = EVERYWHERE if len(news) > SPOKEN_MAX else ",".join(map(str, sorted(news)))
        return f"{self._name} {where}"

    def _hear(self, hint: str) -> None:
        name, _, where = hint.partition(" ")
        if name == self._name:
            return
        parts = {int(part) for part in where.split(",") if part.isdecimal()}
        self._hints.tell(News.unknown(self._everywhere if where == EVERYWHERE else parts))
