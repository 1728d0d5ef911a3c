"""The stream of events: told at once, resumed where it broke off, and bounded."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.served import Served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    settings = {"TICKWHEEL_EVENTS_KEPT": "50", "TICKWHEEL_STREAMS_MAX": "3"}
    with Served(tmp_path_factory.mktemp("server"), "--rate", "0", **settings) as served:
        yield served


@contextmanager
def listening(server: Served, last_id: str | None = None) -> Iterator[Iterator[dict[str, Any]]]:
    headers = {} if last_id is None else {"last-event-id": last_id}
    with httpx.stream("GET", f"{server.url}v1/events", headers=headers, timeout=60) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        for line in lines:
            if line == ": listening":
                break
        yield parsed(lines)


def parsed(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    event: dict[str, Any] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if name:
            event[name] = value
        elif event:
            yield {**event, "data": json.loads(event["data"])}
            event = {}


def test_what_happens_is_told_in_order(server: Served) -> None:
    with listening(server) as events:
        server.add(id="told", args={"word": "x"})
        heard = [next(events) for _ in range(3)]
    assert [event["event"] for event in heard] == ["added", "started", "completed"]
    assert [event["data"]["kind"] for event in heard] == ["added", "started", "completed"]
    assert all(event["data"]["task_id"] == "told" and event["data"]["name"] == "echo" for event in heard)
    assert heard[1]["data"]["late"] >= 0
    assert heard[2]["data"]["took"] >= 0
    numbers = [int(event["id"]) for event in heard]
    assert numbers == sorted(set(numbers))


def test_a_stream_goes_on_where_it_broke_off(server: Served) -> None:
    with listening(server) as events:
        server.add(id="before", delay="1h")
        last = next(events)
    for n in range(5):
        server.add(id=f"missed-{n}", delay="1h")
    with listening(server, last["id"]) as events:
        server.add(id="after", delay="1h")
        heard = [next(events)["data"]["task_id"] for _ in range(6)]
    assert heard == [*(f"missed-{n}" for n in range(5)), "after"]


@pytest.mark.parametrize("last_id", ["1", "99999999999999999", "x", "9" * 400])
def test_a_stream_that_cannot_go_on_is_reset(server: Served, last_id: str) -> None:
    server.post("/v1/tasks:batch", {"tasks": [{"handler": "echo", "delay": "1h"}] * 60})
    with listening(server, last_id) as events:
        reset = next(events)
        server.add(delay="1h", id=f"after-{last_id[:20]}")
        following = next(events)
    assert (reset["event"], reset["data"]) == ("reset", {})
    assert int(following["id"]) == int(reset["id"]) + 1


def test_there_are_so_many_streams_and_no_more(server: Served) -> None:
    with listening(server), listening(server), listening(server):
        answer = server.client.get("/v1/events")
        assert (answer.status_code, answer.json()["type"].rpartition("/")[2]) == (429, "too-many-streams")
        assert answer.headers["retry-after"] == "5"
    for _ in range(1000):  # it notices in its own time that they have left
        with httpx.stream("GET", f"{server.url}v1/events", timeout=60) as answer:
            if answer.status_code == 200:
                return
    raise AssertionError("no stream was given back")


def test_a_stream_ends_when_the_server_stops(tmp_path: Path) -> None:
    with Served(tmp_path) as served, listening(served) as events:
        assert served.stop() == 0
        assert list(events) == []


def test_listeners_who_read_nothing_are_broken_off(tmp_path: Path) -> None:
    with Served(tmp_path, "--rate", "0") as served:
        deaf = [socket.create_connection(("127.0.0.1", served.client.base_url.port or 0)) for _ in range(5)]
        for each in deaf:
            each.sendall(b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        tasks = [{"handler": "echo", "delay": "1h", "id": f"{n:0>240}"} for n in range(1000)]
        while "ASGI callable returned" not in (log := (tmp_path / "log").read_text()):
            served.post("/v1/tasks:batch", {"tasks": tasks, "on_conflict": "replace"})
        for each in deaf:
            each.close()
        assert served.stop() == 0
        assert "Traceback" not in log + (tmp_path / "log").read_text()
