"""/v1/queues: tasks that wait to be leased, and what became of those that were.

POST /v1/queues/emails:lease                    {"max": 10, "lease": "30s", "wait": "5s"}
POST /v1/queues/emails/messages/m-7:ack         {"lease_token": "…"}
POST /v1/queues/emails/messages/m-7:nack        {"lease_token": "…", "reason": "busy", "delay": "1m"}
POST /v1/queues/emails/messages/m-7:extend      {"lease_token": "…", "lease": "1m"}
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from litestar import post
from msgspec import UNSET

from tickwheel.durations import Duration
from tickwheel.errors import LeaseLost
from tickwheel.scheduler import Message
from tickwheel.scheduler.queues.message_leases import check_lease, check_wait
from tickwheel.scheduler.task_builder import to_ms
from tickwheel.server.answers import Answer, answer
from tickwheel.server.bodies import AckBody, ExtendBody, LeaseBody, NackBody
from tickwheel.server.moments import moment
from tickwheel.server.paths import nowhere, written_after
from tickwheel.server.problems import pointing
from tickwheel.server.reading import body_of
from tickwheel.server.service import Asked, Service, service_of
from tickwheel.server.shapes import Extended, Messages, MessageShape, shape_of
from tickwheel.tasks.destinations import check_queue

__all__ = ["handlers"]

T = TypeVar("T")

QUEUES: Final = b"/v1/queues/"


@post("/v1/queues/{rest:path}", opt={"role": "write"}, status_code=200)
async def act(request: Asked) -> Answer:
    """Lease from a queue, or say what became of a message."""
    service = service_of(request)
    written, _, verb = written_after(request, QUEUES).rpartition(":")
    queue, *rest = map(unquote, written.split("/"))
    if not rest and verb == "lease":
        return await lease(service, request, check_queue(queue))
    if len(rest) != 2 or rest[0] != "messages" or verb not in SETTLED:  # noqa: PLR2004 - messages/{id}
        raise nowhere(request)
    if service.scheduler.leased_from(rest[1]) not in (queue, None):
        raise LeaseLost(rest[1])
    return await SETTLED[verb](service, request, rest[1])


async def lease(service: Service, request: Asked, queue: str) -> Answer:
    """Lease messages; whoever waits and hangs up gets none."""
    body = await body_of(request, LeaseBody, service.config.depth_max, empty=LeaseBody())
    check_span(body.lease)
    with pointing("/wait"):
        check_wait(to_ms(body.wait))
    leasing = service.scheduler.lease(queue, limit=body.max, lease=body.lease, wait=body.wait)
    messages = await while_there(service, request, leasing)
    return answer(Messages(messages=[shape_of_message(message) for message in messages or ()]))


async def while_there(service: Service, request: Asked, work: Coroutine[Any, Any, T]) -> T | None:
    """Wait for work as long as the one who asked for it does, and the server goes on; None if one of them leaves."""
    working = asyncio.ensure_future(work)
    leaving = (asyncio.ensure_future(hang_up(request)), asyncio.ensure_future(service.goodbye.wait()))
    try:
        await asyncio.wait((working, *leaving), return_when=asyncio.FIRST_COMPLETED)
        return await working if working.done() else None
    finally:
        for each in (working, *leaving):
            each.cancel()


async def hang_up(request: Asked) -> None:
    """Wait until the one who asked is gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def check_span(span: Duration) -> None:
    """Say where it is if a lease is too long or too short."""
    with pointing("/lease"):
        check_lease(to_ms(span))


def shape_of_message(message: Message) -> MessageShape:
    """Write a message."""
    return MessageShape(
        id=message.id,
        args=message.args,
        meta=message.meta,
        attempt=message.attempt,
        due=moment(message.due),
        lease_token=message.lease_token,
        expires=moment(message.expires),
    )


async def ack(service: Service, request: Asked, task_id: str) -> Answer:
    """Complete a message."""
    body = await body_of(request, AckBody, service.config.depth_max)
    return answer(shape_of(await service.scheduler.ack(task_id, body.lease_token)))


async def nack(service: Service, request: Asked, task_id: str) -> Answer:
    """Give a message back."""
    body = await body_of(request, NackBody, service.config.depth_max)
    delay = None if body.delay is UNSET else body.delay
    with pointing("/delay"):
        to_ms(delay or 0)
    return answer(shape_of(await service.scheduler.nack(task_id, body.lease_token, body.reason, delay=delay)))


async def extend(service: Service, request: Asked, task_id: str) -> Answer:
    """Let a lease last longer."""
    body = await body_of(request, ExtendBody, service.config.depth_max)
    check_span(body.lease)
    expires = await service.scheduler.extend(task_id, body.lease_token, lease=body.lease)
    return answer(Extended(expires=moment(expires)))


SETTLED: Final = {"ack": ack, "nack": nack, "extend": extend}

handlers = [act]
