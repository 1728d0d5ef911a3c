"""Notifications between processes that share a store on a server: where something changed, never what.

    adder    writes, then says '7f3a 4,17'          7f3a is who says it: its own hints come back to it
    owner    hears of 4 and 17, and looks

A connection apart does both: a `Line`, of whatever the server has for it. Where it is lost it is made again, after
longer and longer pauses; what was told meanwhile is lost as well, so that who listens is sent to look everywhere then.

A process may end right after a change was acknowledged. So a change carries its hint itself where that costs little
(`carried`), and the server sends it: a client that makes one change and ends needs no line. What is left to say when
the store is closed is said first.
"""

import asyncio
import logging
import math
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from tickwheel.errors import StoreError
from tickwheel.stores.notifications import News, Notifications, Watch

__all__ = ["Line", "Spell", "Wire"]

log = logging.getLogger("tickwheel.stores.notifications")

GAP_S: Final = 0.005  # between two hints that we send: what changes meanwhile goes together
PROBE_S: Final = 10.0  # how often to see whether a silent connection is still there
HANG_UP_S: Final = 2.0  # to say what is left when the store is closed, with a connection that may have to be made
PAUSE_S: Final = 0.1  # before a lost connection is made again, at first
PAUSE_S_MAX: Final = 5.0
SPOKEN_MAX: Final = 1000  # partitions in one hint: servers take 8,000 bytes; more than these are everywhere
EVERYWHERE: Final = "*"

Spell = Callable[[Iterable[int]], str]  # writes out the hint that something changed in partitions


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

    `dial` makes a line, and is given what to call when that is lost. With `cheap`, it costs the server nothing if a
    change carries its hint; otherwise changes do so only while there is no line.
    """

    def __init__(
        self, dial: Callable[[Callable[[], None]], Awaitable[Line]], partitions: int, *, cheap: bool = False
    ) -> None:
        self._dial = dial
        self._cheap = cheap
        self._everywhere = set(range(partitions))
        self._name = secrets.token_hex(4)
        self._hints = Notifications()
        self._news: set[int] = set()
        self._listening = False
        self._connected = False
        self._carried = False  # a hint, by a change before
        self._said_s = -math.inf
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def carried(self) -> Spell | None:
        """Return what writes out the hint that the next change is to carry; None if it is to be told of afterwards."""
        now_s = asyncio.get_running_loop().time()
        if now_s < self._said_s + GAP_S if self._cheap else self._connected:
            return None
        self._said_s = now_s
        return self._spell

    def tell(self, partitions: set[int], *, carried: bool = False) -> None:
        """Let everybody know that something changed; if the change carried the hint, only this process."""
        if not partitions or self._closed:
            return
        self._hints.tell(News.unknown(partitions))
        if not carried:
            self._news |= partitions
        # Who changes something again had better have a line, unless no change ever needs it.
        if self._news or (self._carried and not self._cheap):
            self._wake()
        self._carried = True

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
        """Be connected for as long as the store is open, and until everything is said."""
        pause_s, last = PAUSE_S, False
        while self._news or not self._closed:
            try:
                line = await self._dial(self._woken.set)
            except StoreError as error:
                if self._closed:
                    log.info("hints: %s; not all could be sent", error)
                    return
                log.info("hints: %s; trying again in %g s", error, pause_s)
                await self._pause(pause_s)
                pause_s = min(pause_s * 2, PAUSE_S_MAX)
                continue
            pause_s = PAUSE_S
            try:
                await self._talk(line)
            except StoreError as error:
                log.info("hints: %s; trying again in %g s", error, pause_s)
                if last:
                    return
                last = self._closed  # what broke at the end is made anew once
                await self._pause(pause_s)

    async def _pause(self, pause_s: float) -> None:
        """Wait, but not for longer than the store is open."""
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                while not self._closed:
                    self._woken.clear()
                    await self._woken.wait()

    async def _talk(self, line: Line) -> None:
        """Send and hear hints until the connection is lost, or the store closed."""
        heard = False
        self._connected = True
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
            self._connected = False
            await line.hang_up()

    async def _say(self, line: Line) -> None:
        """Say what is new; what could not be said is said on the next line."""
        news, self._news = self._news, set()
        self._said_s = asyncio.get_running_loop().time()
        try:
            await line.say(self._spell(news))
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

    def _spell(self, partitions: Iterable[int]) -> str:
        news = sorted(set(partitions))
        where = EVERYWHERE if len(news) > SPOKEN_MAX else ",".join(map(str, news))
        return f"{self._name} {where}"

    def _hear(self, hint: str) -> None:
        name, _, where = hint.partition(" ")
        if name == self._name:
            return
        parts = {int(part) for part in where.split(",") if part.isdecimal()}
        self._hints.tell(News.unknown(self._everywhere if where == EVERYWHERE else parts))
