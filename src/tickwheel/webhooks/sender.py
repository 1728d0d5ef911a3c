"""`Webhooks`: what a scheduler sends tasks with.

    webhooks = Webhooks("whsec_…", allow=["10.1.0.0/16"])
    scheduler = AsyncScheduler(store, webhooks=webhooks)

    POST /hook                          the arguments of the task as JSON, and nothing else
    webhook-id, -timestamp, -signature  see signing.py
    tickwheel-task                      the id of the task
    tickwheel-due                       the moment the message is for
    tickwheel-attempt                   how often the task was begun, this time included

It stands on httpcore, the part of httpx that speaks HTTP: redirects, cookies and proxies of the environment are not
wanted here, and the way to the network is ours to choose.
"""

import asyncio
import os
import ssl
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from tickwheel.clock import Clock, SystemClock
from tickwheel.errors import InvalidTask, WebhookFailed
from tickwheel.tasks.destinations import SENT_AGAIN, WEBHOOK, WEBHOOK_TIMEOUT_MS
from tickwheel.tasks.record import Task
from tickwheel.tasks.registry import Handler
from tickwheel.webhooks.addresses import Guard
from tickwheel.webhooks.answers import judge
from tickwheel.webhooks.connecting import UNREACHABLE, GuardedNetwork, Resolve, look_up
from tickwheel.webhooks.pool import Pool, Request, Response
from tickwheel.webhooks.signing import check_secrets, message_id, signed

__all__ = ["Webhooks"]

CONNECTIONS: Final = 100
CONNECTIONS_MAX: Final = 1_000
CONNECT_S: Final = 10.0
# An answer is its status. The rest is read only so that the connection can be used again, if that is quick.
REST_BYTES_MAX: Final = 64 * 1024
REST_S: Final = 1.0


class Webhooks:
    """Sends tasks by signed POSTs, to addresses of the internet and of networks that are allowed."""

    def __init__(
        self,
        secret: str | Sequence[str],
        *,
        allow: Iterable[str] = (),
        connections: int = CONNECTIONS,
        tls: ssl.SSLContext | None = None,
        clock: Clock | None = None,
        resolve: Resolve = look_up,
    ) -> None:
        if not 1 <= connections <= CONNECTIONS_MAX:
            raise InvalidTask(f"there are 1 to {CONNECTIONS_MAX:,} connections, not {connections!r}")
        self._keys = check_secrets([secret] if isinstance(secret, str) else secret)
        self._network = GuardedNetwork(Guard(allow), resolve)
        self._connections = connections
        self._tls = tls
        self._clock = clock or SystemClock()
        self._pool: Pool | None = None
        self._process = os.getpid()
        self.handler = Handler(
            name=WEBHOOK,
            function=self.send,
            retry=SENT_AGAIN,
            timeout_ms=WEBHOOK_TIMEOUT_MS,
            concurrency=connections,  # so that none waits for a connection while its time runs
            takes_task=True,
        )

    async def send(self, task: Task) -> dict[str, Any]:
        """Send a task; return what was answered, or raise what is to become of it."""
        if task.webhook is None:
            raise InvalidTask(f"task {task.id!r} does not say where to send it")
        parts = urlsplit(task.webhook.url)
        where = f"{parts.scheme}://{parts.netloc}"  # the rest may be a secret
        try:
            status, retry_after = await self._post(task, task.webhook.url)
        except UNREACHABLE as error:
            raise WebhookFailed(f"{where} could not be reached: {type(error).__name__}: {error}") from None
        judge(where, status, retry_after, self._clock.time_ns() // 1_000_000)
        return {"status": status}

    async def _post(self, task: Task, url: str) -> tuple[int, str | None]:
        body = msgspec.json.encode(task.args)
        timeouts = dict.fromkeys(("connect", "pool"), CONNECT_S) | dict.fromkeys(("read", "write"), None)
        request = Request(
            "POST",
            url,
            headers=list(self._headers(task, body).items()),
            content=body,
            extensions={"timeout": timeouts},  # the whole of it has the time of the task
        )
        async with self._opened().post(request) as response:
            await read_rest(response)
            found = [value for name, value in response.headers if name.lower() == b"retry-after"]
            return response.status, found[0].decode("latin-1") if found else None

    def _headers(self, task: Task, body: bytes) -> dict[str, str]:
        assert task.webhook is not None
        due = datetime.fromtimestamp(task.occurrence_at / 1000, UTC)
        return {
            "host": urlsplit(task.webhook.url).netloc,
            "user-agent": "tickwheel",
            **{name.lower(): value for name, value in task.webhook.headers.items()},
            "content-type": "application/json",
            "content-length": str(len(body)),
            "tickwheel-task": quote(task.id, safe="@:/+=,"),
            "tickwheel-due": due.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "tickwheel-attempt": str(task.attempt),
            **signed(self._keys, message_id(task.occurrence_id), self._clock.time_ns() // 10**9, body),
        }

    def _opened(self) -> Pool:
        if self._pool is None or self._process != os.getpid():  # what is open in the parent of a fork is not ours
            self._process = os.getpid()
            self._pool = Pool(self._network, self._tls or ssl.create_default_context(), self._connections)
        return self._pool

    async def close(self) -> None:
        """Let go of the connections; the next webhook opens new ones."""
        pool, self._pool = self._pool, None
        if pool is not None and self._process == os.getpid():
            await pool.close()


async def read_rest(response: Response) -> None:
    """Read what comes after the status, if there is not much of it and it comes at once."""
    read_bytes = 0
    try:
        async with asyncio.timeout(REST_S):
            async for part in response.aiter_stream():
                read_bytes += len(part)
                if read_bytes > REST_BYTES_MAX:
                    break
    except (TimeoutError, *UNREACHABLE):
        pass  # what was said is known: the connection is closed
