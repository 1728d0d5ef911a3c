"""A TCP server that closes connections on which nothing was said for a while.

    python examples/idle_connections.py         # with two clients of its own, one of them silent
    python examples/idle_connections.py 7777    # serves on a port until Ctrl-C; try it with `nc localhost 7777`

Touching a connection for each line costs one look at a clock: the timer is not moved, and asks when it comes due. In
memory: timeouts end with the process, as its connections do.
"""

import asyncio
import sys
from functools import partial

from tickwheel import AsyncTimers, IdleTimeouts

IDLE = "2s"  # a minute or so in earnest


async def serve(
    timeouts: IdleTimeouts[asyncio.StreamWriter], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Say each line again, until the other side leaves or has been silent for too long."""
    timeouts.watch(writer, IDLE, asyncio.StreamWriter.close)
    try:
        while line := await reader.readline():
            timeouts.touch(writer)
            writer.write(line)
            await writer.drain()
    except ConnectionError:
        pass  # it was closed on our side, or on theirs
    finally:
        timeouts.forget(writer)
        writer.close()


async def talk(port: int, lines: int) -> int:
    """Say so many lines, then be silent; return how many were answered until the server had enough."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answered = 0
    for _ in range(lines):
        writer.write(b"hello\n")
        answered += bool(await reader.readline())
        await asyncio.sleep(0.2)
    assert await reader.read() == b"", "the server closes"
    writer.close()
    return answered


async def main(port: int | None) -> None:
    """Serve."""
    with AsyncTimers() as timers:
        timeouts: IdleTimeouts[asyncio.StreamWriter] = IdleTimeouts(timers)
        server = await asyncio.start_server(partial(serve, timeouts), "127.0.0.1", port or 0)
        async with server:
            number = server.sockets[0].getsockname()[1]
            if port is not None:
                print(f"listening on port {number}", flush=True)
                await server.serve_forever()
            silent, busy = await asyncio.gather(talk(number, 0), talk(number, 12))
            print(f"the silent client was answered {silent} times, the busy one {busy}; {len(timeouts)} are watched")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else None))
