"""An aiohttp server and its clients on one loop: every request has a timeout, and nearly all are cancelled."""

import asyncio
from collections import Counter
from typing import Any

import aiohttp
from aiohttp import web

from tickwheel import aio

CLIENTS = 20
REQUESTS_PER_CLIENT = 500
SLOW_EVERY = 100  # each client's hundredth request asks for more time than it has

IN_TIME = aiohttp.ClientTimeout(total=60)  # far more than a busy machine needs
TOO_SHORT = aiohttp.ClientTimeout(total=0.2)


def pending_timers() -> int:
    loop: Any = asyncio.get_running_loop()
    return len(loop._timers.wheel)


def make_server(served: Counter[str]) -> web.AppRunner:
    async def answer(request: web.Request) -> web.Response:
        served["with a timeout pending"] += pending_timers() > 0
        return web.Response(text=request.match_info["number"])

    async def answer_too_late(_request: web.Request) -> web.Response:
        served["slow begun"] += 1
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            served["slow given up"] += 1
            raise
        raise AssertionError("nobody waits for an hour")

    app = web.Application()
    app.router.add_get("/quick/{number}", answer)
    app.router.add_get("/slow", answer_too_late)
    return web.AppRunner(app, handler_cancellation=True)


async def make_requests(session: aiohttp.ClientSession, url: str, seen: Counter[str]) -> None:
    for number in range(1, REQUESTS_PER_CLIENT + 1):
        if number % SLOW_EVERY:
            async with session.get(f"{url}/quick/{number}", timeout=IN_TIME) as response:
                seen["right" if await response.text() == str(number) else "wrong"] += 1
        else:
            try:
                async with session.get(f"{url}/slow", timeout=TOO_SHORT):
                    seen["wrong"] += 1
            except TimeoutError:
                seen["timed out"] += 1


def test_ten_thousand_requests_are_answered_or_time_out_and_leave_no_timer() -> None:
    seen: Counter[str] = Counter()
    served: Counter[str] = Counter()

    async def main() -> int:
        server = make_server(served)
        await server.setup()
        try:
            await web.TCPSite(server, "127.0.0.1", 0).start()
            host, port = server.addresses[0]
            async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as clients:
                for _ in range(CLIENTS):
                    clients.create_task(make_requests(session, f"http://{host}:{port}", seen))
        finally:
            await server.cleanup()
        return pending_timers()

    left = aio.run(main())
    assert seen == {"right": 9_900, "timed out": 100}
    assert served["with a timeout pending"] == 9_900
    assert served["slow given up"] == served["slow begun"] > 0
    assert left == 0
