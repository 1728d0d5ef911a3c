"""Queues over HTTP: leased, acknowledged, given back, extended, and refused to whoever has no right to them."""

import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.served import Served


def add(server: Served, queue: str, **fields: Any) -> Any:
    return server.post("/v1/tasks", {"queue": queue, **fields}, 201)["task"]


def lease(server: Served, queue: str, **fields: Any) -> list[Any]:
    messages: list[Any] = server.post(f"/v1/queues/{queue}:lease", {"wait": "5s", **fields})["messages"]
    return messages


def settle(server: Served, queue: str, message: Any, verb: str, status: int = 200, **fields: Any) -> Any:
    body = {"lease_token": message["lease_token"], **fields}
    return server.post(f"/v1/queues/{queue}/messages/{message['id']}:{verb}", body, status)


def test_a_task_for_a_queue_is_shown_as_one(server: Served) -> None:
    task = add(server, "shown", id="shown", args={"to": "ada"})
    assert (task["kind"], task["queue"], task["name"], task["webhook"]) == ("queue", "shown", "queue:shown", None)
    assert task["retry"]["retries"] == 1000
    seen = server.get("/v1/tasks/shown")
    assert (seen["status"], seen["where"]) == ("pending", "waiting in its queue")
    assert (seen["reason_code"], seen["reason"]) == ("no_capacity", "waiting in queue 'shown' for a consumer")
    assert server.get("/v1/tasks?name=queue:shown")["total"] == 1


def test_a_message_is_leased_and_acknowledged(server: Served) -> None:
    task = add(server, "emails", id="a/b:c", args={"to": "ada"}, meta={"team": "x"})
    [message] = lease(server, "emails", max=5, lease="10s")
    assert message.keys() == {"id", "args", "meta", "attempt", "due", "lease_token", "expires"}
    assert (message["id"], message["args"], message["attempt"]) == ("a/b:c", {"to": "ada"}, 1)
    assert message["due"] == task["due"]
    assert server.get("/v1/tasks/a%2Fb%3Ac")["where"] == "leased to a consumer"
    body = {"lease_token": message["lease_token"]}
    assert server.post("/v1/queues/emails/messages/a%2Fb%3Ac:ack", body)["status"] == "completed"
    server.post("/v1/queues/emails/messages/a%2Fb%3Ac:ack", body, 409)


def test_a_message_is_given_back_and_extended(server: Served) -> None:
    add(server, "back", id="back")
    [first] = lease(server, "back")
    extended = settle(server, "back", first, "extend", lease="1h")
    assert extended["expires"] > first["expires"]
    assert settle(server, "back", first, "nack", reason="busy", delay=0)["error"] == "busy"
    [second] = lease(server, "back")
    assert second["attempt"] == 2
    for verb in ("ack", "nack", "extend"):
        assert settle(server, "back", first, verb, 409)["type"].endswith("/lease-lost")
    assert settle(server, "back", second, "ack")["status"] == "completed"


def test_a_lease_that_runs_out_is_offered_again(server: Served) -> None:
    add(server, "late", id="late", retry={"retries": 3, "first": "100ms"})
    [first] = lease(server, "late", lease="100ms")
    [second] = lease(server, "late", wait="10s")
    assert (first["attempt"], second["attempt"]) == (1, 2)


def test_a_cancelled_message_cannot_be_acknowledged(server: Served) -> None:
    add(server, "stopped", id="stopped")
    [message] = lease(server, "stopped")
    server.post("/v1/tasks/stopped:cancel")
    for verb in ("extend", "ack"):
        settle(server, "stopped", message, verb, 409)
    assert server.until("/v1/tasks/stopped", status="cancelled")["attempt"] == 1


def test_a_consumer_waits_for_what_is_added_meanwhile(server: Served) -> None:
    got: list[Any] = []
    consumer = threading.Thread(target=lambda: got.extend(lease(server, "waited", wait="20s")))
    consumer.start()
    add(server, "waited", id="waited", delay="300ms")
    consumer.join(20)
    assert [message["id"] for message in got] == ["waited"]


def test_a_consumer_that_hangs_up_takes_no_message_with_it(server: Served) -> None:
    with pytest.raises(httpx.ReadTimeout):
        server.client.post("/v1/queues/gone:lease", json={"wait": "30s"}, timeout=0.3)
    add(server, "gone", id="gone", delay="500ms")
    [message] = lease(server, "gone", wait="10s")
    assert message["attempt"] == 1


@pytest.mark.parametrize(
    ("path", "body", "status", "problem", "pointers"),
    [
        ("q:lease", {"max": 0}, 422, "invalid-body", ["/max"]),
        ("q:lease", {"lease": "1ms"}, 422, "invalid-lease", ["/lease"]),
        ("q:lease", {"lease": "13h"}, 422, "invalid-lease", ["/lease"]),
        ("q:lease", {"lease": "soon"}, 422, "invalid-duration", ["/lease"]),
        ("q:lease", {"wait": "2m"}, 422, "invalid-lease", ["/wait"]),
        ("q:lease", {"colour": 1}, 422, "invalid-body", ["/colour"]),
        ("a%20b:lease", {}, 422, "invalid-task", ["/queue"]),
        ("q:take", {}, 404, "not-found", []),
        ("q/messages/m:eat", {}, 404, "not-found", []),
        ("q/messages:ack", {}, 404, "not-found", []),
        ("q/messages/m:ack", {"lease_token": "x"}, 404, "unknown-task", []),
        ("q/messages/m:nack", {"lease_token": "x"}, 404, "unknown-task", []),
        ("q/messages/m:extend", {"lease_token": "x"}, 404, "unknown-task", []),
        ("q/messages/m:ack", {"lease_token": None}, 422, "invalid-body", ["/lease_token"]),
    ],
)
def test_what_is_wrong_is_refused(
    server: Served, path: str, body: Any, status: int, problem: str, pointers: list[str]
) -> None:
    assert server.refused(f"/v1/queues/{path}", body, status) == (problem, pointers)


def test_a_message_is_settled_at_its_own_queue_alone(server: Served) -> None:
    add(server, "own", id="own")
    [message] = lease(server, "own")
    settle(server, "another", message, "ack", 409)
    assert settle(server, "own", message, "ack")["status"] == "completed"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/handler"),
        ({"handler": "echo", "queue": "q"}, "/queue"),
        ({"webhook": {"url": "https://example.org"}, "queue": "q"}, "/queue"),
        ({"queue": "a b"}, "/queue"),
        ({"handler": "queue:q"}, "/handler"),
        ({"webhook": {"url": "ftp://example.org"}}, "/webhook"),
        ({"webhook": {"url": "https://example.org", "headers": {"Host": "x"}}}, "/webhook"),
    ],
)
def test_a_task_goes_to_one_alone(server: Served, body: Any, pointer: str) -> None:
    assert server.refused("/v1/tasks", body)[1] == [pointer]
    [item] = server.post("/v1/tasks:batch", {"tasks": [body]})["items"]
    assert item["problem"]["errors"][0]["pointer"] == f"/tasks/0{pointer}"


def test_a_server_without_a_secret_sends_no_webhooks_and_says_so(server: Served) -> None:
    assert (
        server.refused("/v1/tasks", {"webhook": {"url": "https://example.org/"}, "id": "unsent"})[0] == "invalid-task"
    )
    server.get("/v1/tasks/unsent", 404)


def test_a_server_that_stops_sends_consumers_away(tmp_path: Path) -> None:
    with Served(tmp_path) as server:
        answers: list[Any] = []
        known = threading.Event()

        def consume(url: str) -> None:
            with httpx.Client(base_url=url, timeout=60) as client:
                for wait in ("0s", "50s"):
                    answers.append(client.post("/v1/queues/q:lease", json={"wait": wait}).json())
                    known.set()

        consumer = threading.Thread(target=consume, args=(server.url,))
        consumer.start()
        assert known.wait(60)
        add(server, "other", id="leased")
        assert lease(server, "other")
        assert server.stop() == 0
        consumer.join(10)
        assert answers == [{"messages": []}] * 2
    with Served(tmp_path) as server:
        [message] = lease(server, "other", wait="10s")
        assert (message["id"], message["attempt"]) == ("leased", 2)


def test_a_server_without_an_app_hands_out_queues_if_it_is_told_to(tmp_path: Path) -> None:
    with Served(tmp_path, "--deliver", app=None) as server:
        add(server, "q", id="m")
        assert [message["id"] for message in lease(server, "q")] == ["m"]
    with Served(tmp_path, app=None) as server:
        add(server, "q", id="n")
        assert server.refused("/v1/queues/q:lease", {}, 503) == ("no-queues-here", [])
