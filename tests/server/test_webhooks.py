"""Webhooks added over HTTP, sent by a real server to a real receiver."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from tests.server.served import Served
from tickwheel.webhooks import new_secret

SECRET = new_secret()


class Receiver(ThreadingHTTPServer):
    """Keeps what it gets."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Taking)
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/hook"


class Taking(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append((dict(self.headers.items()), body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Be quiet."""


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        thread = threading.Thread(target=receiver.serve_forever)
        thread.start()
        yield receiver
        receiver.shutdown()
        thread.join()


def secrets_in(folder: Path) -> str:
    path = folder / "secrets"
    path.write_text(f"# of this test\n{SECRET}\n")
    return str(path)


def test_a_webhook_is_sent_and_signed(tmp_path: Path, receiver: Receiver) -> None:
    told = {"TICKWHEEL_WEBHOOK_SECRET_FILE": secrets_in(tmp_path), "TICKWHEEL_WEBHOOK_NETWORKS": "127.0.0.1/32"}
    with Served(tmp_path, **told) as server:
        webhook = {"url": receiver.url, "headers": {"Authorization": "Bearer hidden"}}
        task = server.post("/v1/tasks", {"webhook": webhook, "args": {"n": 1}, "id": "w"}, 201)["task"]
        assert (task["kind"], task["name"], task["webhook"]) == ("webhook", "webhook", {"url": receiver.url})
        assert (task["timeout"], task["retry"]["retries"]) == (30.0, 8)
        assert server.until("/v1/tasks/w", status="completed")["result"] == {"status": 204}
        assert "hidden" not in server.client.get("/v1/tasks").text
    [(headers, body)] = receiver.got
    assert headers["authorization"] == "Bearer hidden"
    assert Webhook(SECRET).verify(body, headers) == {"n": 1}


def test_without_leave_no_webhook_reaches_this_machine(tmp_path: Path, receiver: Receiver) -> None:
    before = len(receiver.got)
    with Served(tmp_path, "--webhook-secret-file", secrets_in(tmp_path), app=None) as server:
        server.post("/v1/tasks", {"webhook": {"url": receiver.url}, "id": "w", "retries": 0}, 201)
        task = server.until("/v1/tasks/w", status="failed")
        assert "127.0.0.1, which is loopback" in task["error"]
    assert len(receiver.got) == before
