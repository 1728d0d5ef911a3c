"""The proxy: what it lets through, and when."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from tests.proxy import Proxy


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(100):
            writer.write(data)
            await writer.drain()
    writer.close()


def through_a_proxy(story: Callable[[Proxy], Awaitable[None]]) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(60),
            await asyncio.start_server(echo, "127.0.0.1", 0) as server,
            Proxy.to(server.sockets[0].getsockname()) as proxy,
        ):
            await story(proxy)

    asyncio.run(main())


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, text: bytes) -> bytes:
    writer.write(text)
    return await reader.readexactly(len(text))


def test_a_proxy_is_cut_and_mended() -> None:
    async def story(proxy: Proxy) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        assert await ask(reader, writer, b"hello") == b"hello"
        proxy.cut()
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await ask(reader, writer, b"anybody?")
        writer.close()
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await ask(*await asyncio.open_connection("127.0.0.1", proxy.port), b"again?")
        proxy.mend()
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        assert await ask(reader, writer, b"here") == b"here"
        writer.close()

    through_a_proxy(story)


def test_what_is_sent_into_silence_arrives_when_it_is_over() -> None:
    async def story(proxy: Proxy) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        assert await ask(reader, writer, b"hello") == b"hello"
        proxy.fall_silent()
        asked = asyncio.create_task(ask(reader, writer, b"late"))
        assert await asyncio.wait([asked], timeout=0.2) == (set(), {asked})
        proxy.mend()
        assert await asked == b"late"
        writer.close()

    through_a_proxy(story)


def test_a_slow_proxy_takes_its_time() -> None:
    async def story(proxy: Proxy) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        proxy.delay_s = 0.1
        before = asyncio.get_running_loop().time()
        assert await ask(reader, writer, b"slowly") == b"slowly"
        assert asyncio.get_running_loop().time() - before >= 0.2
        writer.close()

    through_a_proxy(story)
