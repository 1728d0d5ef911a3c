"""Hints between processes, by LISTEN and NOTIFY: where something changed, never what.

    adder    commit, then NOTIFY '7f3a 4,17'        in a statement by itself, for what was notified within a commit
    owner    hears of 4 and 17, and looks           would make all commits wait for each other

A connection apart does both. Where it is lost it is made again, after longer and longer pauses; what was told meanwhile
is lost as well, so that who listens is sent to look everywhere then.
"""

import asyncio
import logging
import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import asyncpg

from tickwheel.errors import StoreError
from tickwheel.stores.hints import Hints, Watch
from tickwheel.stores.postgres.address import Address
from tickwheel.stores.postgres.failures import AWAY
from tickwheel.stores.postgres.sessions import Record, connect

__all__ = ["Wire"]

log = logging.getLogger("tickwheel.stores.postgres")

GAP_S: Final = 0.005  # between two hints that we send: what changes meanwhile goes together
PROBE_S: Final = 10.0  # how often to see whether a silent connection is still there
PROBE_ANSWER_S: Final = 5.0
PAUSE_S: Final = 0.1  # before a lost connection is made again, at first
PAUSE_S_MAX: Final = 5.0
SPOKEN_MAX: Final = 1000  # partitions in one hint: PostgreSQL takes 8,000 bytes; more than these are everywhere
EVERYWHERE: Final = "*"


class Wire:
    """Tells other processes where this one changed something, and this one what they tell."""

    def __init__(self, address: Address, partitions: int) -> None:
        self._address = address
        self._everywhere = set(range(partitions))
        self._name = secrets.token_hex(4)  # our own hints come back to us, and are known already
        self._hints = Hints()
        self._news: set[int] = set()
        self._listening = False
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def tell(self, partitions: set[int]) -> None:
        """Let everybody know that something changed."""
        if partitions and not self._closed:
            self._hints.tell(partitions)
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
                async with asyncio.timeout(PROBE_ANSWER_S):
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
                connection = await connect(self._address, synchronous_commit="off")  # a hint need not be on the disk
                pause_s = PAUSE_S
                await self._talk(connection)
            except (StoreError, *AWAY) as error:
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

    async def _talk(self, connection: "asyncpg.Connection[Record]") -> None:
        """Send and hear hints until the connection is lost, or the store closed."""
        connection.add_termination_listener(lambda _: self._woken.set())
        heard = False
        try:
            while not (self._closed and not self._news):
                if self._listening and not heard:
                    await connection.add_listener(self._address.channel, self._hear)
                    self._hints.tell(self._everywhere)  # whatever was told while nobody heard it
                    heard = True
                if self._news:
                    news, self._news = self._news, set()
                    await connection.execute("SELECT pg_notify($1, $2)", self._address.channel, self._spoken(news))
                    await asyncio.sleep(GAP_S)
                elif not await self._rest():
                    await connection.execute("SELECT", timeout=PROBE_ANSWER_S)
        finally:
            connection.terminate()

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

    def _hear(self, _connection: object, _pid: int, _channel: str, payload: Any) -> None:
        name, _, where = str(payload).partition(" ")
        if name == self._name:
            return
        parts = {int(part) for part in where.split(",") if part.isdecimal()}
        self._hints.tell(self._everywhere if where == EVERYWHERE else parts)
