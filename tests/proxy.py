"""A TCP proxy between one node and its store: what is a network, that can be cut, fall silent and be slow.

node ---> proxy ---> server
          cut        connections are broken off, and new ones refused
          silent     nothing gets through, and nobody is told; what was sent arrives when it is mended
          slow       everything takes longer

Of several servers it leads to the first that is there.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

__all__ = ["Proxy"]

CHUNK_BYTES: Final = 65_536


class Proxy:
    """One way to a server; `port` is where it begins."""

    def __init__(self, goals: Sequence[tuple[str, int]]) -> None:
        self._goals = goals
        self._through = asyncio.Event()
        self._through.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._carrying: set[asyncio.Task[None]] = set()
        self._cut = False
        self.delay_s = 0.0
        self.port = 0

    @classmethod
    @asynccontextmanager
    async def to(cls, *goals: tuple[str, int]) -> AsyncIterator["Proxy"]:
        """Open a way to a server."""
        proxy = cls(goals)
        listening = await asyncio.start_server(proxy._meet, "127.0.0.1", 0)
        proxy.port = listening.sockets[0].getsockname()[1]
        try:
            yield proxy
        finally:
            listening.close()
            proxy.cut()
            proxy._through.set()
            if proxy._carrying:
                await asyncio.wait(proxy._carrying)

    def cut(self) -> None:
        """Break off everything, and let nobody in."""
        self._cut = True
        for writer in self._writers:
            writer.transport.abort()

    def fall_silent(self) -> None:
        """Let nothing through."""
        self._through.clear()

    def mend(self) -> None:
        """Be as a network should be."""
        self._cut = False
        self.delay_s = 0.0
        self._through.set()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut:
            writer.transport.abort()
            return
        far = await self._reach()
        if far is None:
            writer.transport.abort()
            return
        far_reader, far_writer = far
        both = {writer, far_writer}
        self._writers |= both
        ways = [self._carry(reader, far_writer), self._carry(far_reader, writer)]
        tasks = {asyncio.create_task(way) for way in ways}
        self._carrying |= tasks
        await asyncio.wait(tasks)
        self._carrying -= tasks
        self._writers -= both

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for goal in self._goals:
            with suppress(OSError):
                return await asyncio.open_connection(*goal)
        return None

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                await self._through.wait()
                writer.write(data)
                await writer.drain()
        writer.close()
