"""A receiver of webhooks, real and on this machine: it answers as it is told, and keeps what it got."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiohttp import web

from tickwheel import aio
from tickwheel.scheduler import AsyncScheduler
from tickwheel.tasks import RetryPolicy, Task, Webhook
from tickwheel.tasks.record import ENDED
from tickwheel.webhooks import Webhooks, new_secret

SECRET = new_secret()
LOOPBACK = ("127.0.0.0/8",)
QUICK = RetryPolicy(retries=3, first_ms=20, factor=1.0, jitter=0.0)

Answer = web.StreamResponse | Callable[[web.Request], Awaitable[web.StreamResponse]]


class Got(NamedTuple):
    """A request."""

    headers: dict[str, str]
    body: bytes
    path: str


class Receiver:
    """What it answers, and what it got."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.got: list[Got] = []
        self.connections: set[object] = set()
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.got.append(Got(headers, await request.read(), request.path_qs))
        self.connections.add(request.transport)
        answer = self.answers.pop(0) if self.answers else web.Response(status=204)
        return answer if isinstance(answer, web.StreamResponse) else await answer(request)


@asynccontextmanager
async def receiving(receiver: Receiver, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Let a receiver listen; yields its port."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", receiver.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    host, port = runner.addresses[0][:2]
    receiver.url = f"http://{host}:{port}"
    try:
        yield port
    finally:
        await runner.cleanup()


def send(receiver: Receiver, /, path: str = "/hook", *, webhooks: Webhooks | None = None, **wishes: Any) -> Task:
    """Have a scheduler send one task, and return it when it is over."""

    async def main() -> Task:
        async with receiving(receiver):
            return await send_to(receiver.url + path, webhooks=webhooks, **wishes)

    return aio.run(main())


async def send_to(url: str, *, webhooks: Webhooks | None = None, **wishes: Any) -> Task:
    """Have a scheduler send one task to a URL, and wait until it is over."""
    webhooks = webhooks or Webhooks(SECRET, allow=LOOPBACK)
    async with AsyncScheduler("memory://", webhooks=webhooks) as scheduler:
        headers = wishes.pop("headers", {})
        told = {"args": {"order_id": 7}, "retry": QUICK, **wishes}
        added = await scheduler.add(webhook=Webhook(url=url, headers=headers), **told)
        over = asyncio.Event()
        scheduler.events.listen(lambda _: over.set())
        async with asyncio.timeout(60):
            while (task := await scheduler.get(added.id)).status not in ENDED:
                over.clear()
                await over.wait()
        return task
