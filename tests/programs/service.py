"""A small ASGI application that waits in the ways services do; run by uvicorn in `test_uvicorn.py`."""

import asyncio
from typing import Any


async def wait_as_told(path: str) -> str:
    if path == "/sleep":
        return await asyncio.sleep(0.01, "slept")
    try:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(3600)
    except TimeoutError:
        return "timed out"
    raise AssertionError("an hour passed within a hundredth of a second")


async def app(scope: Any, _receive: Any, send: Any) -> None:
    outcome = await wait_as_told(scope["path"])
    loop = type(asyncio.get_running_loop())
    body = f"{outcome} on {loop.__module__}.{loop.__qualname__}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})
