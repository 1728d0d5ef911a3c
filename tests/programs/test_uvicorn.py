"""uvicorn, started from its command line with `--loop tickwheel.aio:EventLoop`."""

import asyncio
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from pathlib import Path

import aiohttp

from tickwheel import aio

REPOSITORY = Path(__file__).parents[2]
UVICORN = ["-W", "error", "-m", "uvicorn", "tests.programs.service:app", "--loop", "tickwheel.aio:EventLoop"]
OPTIONS = ["--port", "0", "--lifespan", "off", "--no-access-log"]
LOOP = f"{aio.EventLoop.__module__}.{aio.EventLoop.__qualname__}"

CLIENTS = 10
ROUNDS = 20  # of two requests each


async def find_url(uvicorn: Process) -> str:
    """Read what uvicorn says until it tells where it listens."""
    assert uvicorn.stderr is not None
    said = ""
    async for line in uvicorn.stderr:
        said += line.decode()
        if found := re.search(r"running on (http://\S+)", said):
            return found[1]
    raise AssertionError(said)


async def make_requests(session: aiohttp.ClientSession, url: str, seen: Counter[str]) -> None:
    for _ in range(ROUNDS):
        for path in ("/sleep", "/timeout"):
            async with session.get(url + path) as response:
                seen[await response.text()] += 1


def test_uvicorn_serves_on_the_wheel_and_ends_cleanly() -> None:
    seen: Counter[str] = Counter()

    async def main() -> tuple[int | None, str]:
        uvicorn = await asyncio.create_subprocess_exec(sys.executable, *UVICORN, *OPTIONS, cwd=REPOSITORY, stderr=PIPE)
        try:
            async with asyncio.timeout(60):
                url = await find_url(uvicorn)
                async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as clients:
                    for _ in range(CLIENTS):
                        clients.create_task(make_requests(session, url, seen))
                uvicorn.terminate()
                _, said = await uvicorn.communicate()
        finally:
            if uvicorn.returncode is None:
                uvicorn.kill()
                await uvicorn.wait()
        return uvicorn.returncode, said.decode()

    code, said = aio.run(main())
    assert seen == {f"slept on {LOOP}": CLIENTS * ROUNDS, f"timed out on {LOOP}": CLIENTS * ROUNDS}
    assert "Finished server process" in said
    # When it has shut down in order, uvicorn raises the signal again for whoever started it to see.
    assert code == -signal.SIGTERM, said
