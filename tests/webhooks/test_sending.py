"""Tasks sent to a real receiver: what it gets, and what becomes of its answers."""

import asyncio
import json
import socket
import ssl
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
import trustme
from aiohttp import web
from standardwebhooks.webhooks import Webhook as Independent
from standardwebhooks.webhooks import WebhookVerificationError

from tests.webhooks.receivers import LOOPBACK, SECRET, Receiver, receiving, send, send_to
from tickwheel import aio
from tickwheel.errors import InvalidSignature, InvalidTask
from tickwheel.observe import Event
from tickwheel.scheduler import AsyncScheduler
from tickwheel.tasks import RetryPolicy, Status, Webhook
from tickwheel.webhooks import Webhooks, new_secret, verify


def test_a_due_task_is_posted_and_signed_so_that_others_can_check_it() -> None:
    receiver = Receiver()
    task = send(receiver, "/hook?shop=1", id="order.7", headers={"Authorization": "Bearer x", "X-Shop": "tea"})
    assert (task.status, task.result, task.handler) == (Status.COMPLETED, {"status": 204}, "webhook")
    [got] = receiver.got
    assert (json.loads(got.body), got.path) == ({"order_id": 7}, "/hook?shop=1")
    assert (got.headers["authorization"], got.headers["x-shop"]) == ("Bearer x", "tea")
    assert got.headers["content-type"] == "application/json"
    assert got.headers["host"] == receiver.url.removeprefix("http://")
    assert got.headers["tickwheel-task"] == "order.7"
    assert got.headers["tickwheel-attempt"] == "1"
    due = datetime.fromisoformat(got.headers["tickwheel-due"])
    assert due.timestamp() * 1000 == task.occurrence_at
    assert Independent(SECRET).verify(got.body, got.headers) == {"order_id": 7}
    assert verify(SECRET, got.headers, got.body) == got.headers["webhook-id"] == f"order%2E7@{task.occurrence_at}"


def test_what_was_forged_or_sent_again_later_is_refused() -> None:
    receiver = Receiver()
    send(receiver)
    [got] = receiver.got
    sent = int(got.headers["webhook-timestamp"])
    forged = [
        ({**got.headers}, got.body.replace(b"7", b"8")),
        ({**got.headers, "webhook-id": "another"}, got.body),
        ({**got.headers, "webhook-timestamp": str(sent + 1)}, got.body),
        ({**got.headers, "webhook-signature": "v1,AAAA"}, got.body),
    ]
    for headers, body in forged:
        with pytest.raises(InvalidSignature):
            verify(SECRET, headers, body)
        with pytest.raises(WebhookVerificationError):
            Independent(SECRET).verify(body, headers)
    with pytest.raises(InvalidSignature):
        verify(new_secret(), got.headers, got.body)
    assert verify(SECRET, got.headers, got.body, now=sent + 299)
    with pytest.raises(InvalidSignature, match="301 s old"):
        verify(SECRET, got.headers, got.body, now=sent + 301)


def test_while_secrets_are_rotated_a_message_is_signed_with_both() -> None:
    receiver = Receiver()
    new, old = new_secret(), new_secret()
    send(receiver, webhooks=Webhooks([new, old], allow=LOOPBACK))
    [got] = receiver.got
    for secret in (new, old):
        assert Independent(secret).verify(got.body, got.headers)
        assert verify(secret, got.headers, got.body)


def test_what_fails_is_sent_again_under_the_same_id() -> None:
    receiver = Receiver(web.Response(status=500), web.Response(status=404))
    task = send(receiver)
    assert (task.status, task.attempt) == (Status.COMPLETED, 3)
    assert len({got.headers["webhook-id"] for got in receiver.got}) == 1
    assert len({got.body for got in receiver.got}) == 1
    assert [got.headers["tickwheel-attempt"] for got in receiver.got] == ["1", "2", "3"]


def test_what_fails_too_often_is_kept_as_failed() -> None:
    receiver = Receiver(*(web.Response(status=503) for _ in range(9)))
    task = send(receiver)
    assert (task.status, task.attempt, len(receiver.got)) == (Status.FAILED, 4, 4)
    assert task.error is not None
    assert task.error.strip().endswith(f"WebhookFailed: {receiver.url} answered 503")


def test_a_receiver_that_is_gone_is_not_asked_again() -> None:
    receiver = Receiver(web.Response(status=410))
    task = send(receiver, retry=RetryPolicy(retries=3, first_ms=1))
    assert (task.status, task.attempt, len(receiver.got)) == (Status.FAILED, 1, 1)


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_a_receiver_may_say_when_to_try_again(form: str) -> None:
    async def later(_: web.Request) -> web.Response:
        date = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
        return web.Response(status=429, headers={"Retry-After": "1" if form == "seconds" else date})

    receiver = Receiver(later)
    task = send(receiver, retry=RetryPolicy(retries=1, first_ms=3_600_000))
    assert task.status is Status.COMPLETED
    first, second = (int(got.headers["webhook-timestamp"]) for got in receiver.got)
    assert 1 <= second - first <= 3


def test_redirects_are_not_followed() -> None:
    receiver = Receiver(*(web.Response(status=307, headers={"Location": "/elsewhere"}) for _ in range(9)))
    task = send(receiver)
    assert task.status is Status.FAILED
    assert {got.path for got in receiver.got} == {"/hook"}
    assert "redirects are not followed" in (task.error or "")


def test_a_slow_answer_is_out_of_time_and_sent_again() -> None:
    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    receiver = Receiver(slow)
    task = send(receiver, timeout="200ms")
    assert (task.status, task.attempt) == (Status.COMPLETED, 2)


def test_of_an_endless_answer_only_the_beginning_is_read() -> None:
    written = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal written
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            for _ in range(2_000):
                await response.write(b"x" * 65_536)
                written += 65_536
        except ConnectionError:
            pass
        return response

    receiver = Receiver(endless)
    assert send(receiver).status is Status.COMPLETED
    assert written < 32 * 2**20, "what the system buffers, and no more"


def test_an_answer_that_drips_is_an_answer() -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            for _ in range(300):
                await response.write(b".")
                await asyncio.sleep(0.1)
        except ConnectionError:
            pass
        return response

    task = send(Receiver(drip))
    assert task.status is Status.COMPLETED
    assert (task.finished_at or 0) - (task.started_at or 0) < 5_000


def test_connections_are_kept_and_there_are_only_so_many() -> None:
    async def main() -> Receiver:
        receiver = Receiver()
        async with receiving(receiver):
            webhooks = Webhooks(SECRET, allow=LOOPBACK, connections=3)
            async with AsyncScheduler("memory://", webhooks=webhooks) as scheduler:
                happened: asyncio.Queue[Event] = asyncio.Queue()
                scheduler.events.listen(happened.put_nowait)
                await scheduler.add_many([{"webhook": receiver.url, "id": f"{number}"} for number in range(60)])
                async with asyncio.timeout(60):
                    for _ in range(60):
                        while (await happened.get()).kind != "completed":
                            pass
        return receiver

    receiver = aio.run(main())
    assert len(receiver.got) == 60
    assert len(receiver.connections) <= 3


def test_a_receiver_that_is_not_there_is_tried_again() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
    task = aio.run(send_to(f"http://127.0.0.1:{port}/"))
    assert (task.status, task.attempt) == (Status.FAILED, 4)
    assert "could not be reached: ConnectError" in (task.error or "")


def test_a_name_is_looked_up_and_its_certificate_is_the_names() -> None:
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("receiver.example").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)

    async def resolve(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    async def main() -> tuple[Receiver, Status, str]:
        receiver = Receiver()
        async with receiving(receiver, server) as port:
            webhooks = Webhooks(SECRET, allow=LOOPBACK, tls=client, resolve=resolve)
            right = await send_to(f"https://receiver.example:{port}/", webhooks=webhooks)
            wrong = await send_to(f"https://another.example:{port}/", webhooks=webhooks)
            return receiver, right.status, wrong.error or ""

    receiver, status, error = aio.run(main())
    assert status is Status.COMPLETED
    [got] = receiver.got
    assert got.headers["host"].startswith("receiver.example:")
    assert "certificate" in error.lower()


def test_one_who_has_nothing_to_send_with_says_so() -> None:
    async def main() -> None:
        async with AsyncScheduler("memory://") as scheduler:
            with pytest.raises(InvalidTask, match=r"make it with webhooks=Webhooks\(secret\)"):
                await scheduler.add(webhook="https://example.org/")
        async with AsyncScheduler("memory://", run=False) as adder:
            task = await adder.add(webhook=Webhook(url="https://example.org/"), retries=2)
            assert (task.handler, task.webhook) == ("webhook", Webhook(url="https://example.org/"))
            assert (task.retry.retries, task.timeout_ms) == (2, 30_000)

    aio.run(main())


@pytest.mark.parametrize(
    "webhook",
    [
        "", "example.org", "ftp://example.org/", "https://", "https:///path", "https://user:pw@example.org/", 7, {},
        "https://exa mple.org/", "https://example.org/\r\nx: y", "https://bücher.example/", "https://example.org:x/",
        "https://example.org:0/", "https://[::1/", "http:\\\\example.org/", "https://example.org/" + "x" * 2_100,
        {"url": "https://example.org/", "headers": {"Host": "x"}},
        {"url": "https://example.org/", "headers": {"webhook-id": "x"}},
        {"url": "https://example.org/", "headers": {"tickwheel-due": "x"}},
        {"url": "https://example.org/", "headers": {"a b": "x"}},
        {"url": "https://example.org/", "headers": {"a": "x\r\ny: z"}},
        {"url": "https://example.org/", "headers": {"a": "é"}},
        {"url": "https://example.org/", "headers": {f"h{number}": "x" for number in range(21)}},
    ],
)  # fmt: skip
def test_a_webhook_that_cannot_be_sent_is_refused_before_it_is_kept(webhook: object) -> None:
    async def main() -> None:
        async with AsyncScheduler("memory://", webhooks=Webhooks(SECRET)) as scheduler:
            with pytest.raises(InvalidTask):
                await scheduler.add(webhook=webhook)  # type: ignore[arg-type] # on purpose
            assert sum((await scheduler.counts()).values()) == 0

    aio.run(main())
