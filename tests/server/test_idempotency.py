"""The same request twice is one, under a key."""

import asyncio
from pathlib import Path
from typing import Any

import httpx

from tests.server.served import Served


def keyed(server: Served, key: str, body: dict[str, Any], path: str = "/v1/tasks") -> httpx.Response:
    return server.client.post(path, json=body, headers={"idempotency-key": key})


def test_the_stored_answer_is_replayed(server: Served) -> None:
    body = {"handler": "echo", "delay": "1h"}
    first, second = keyed(server, "k1", body), keyed(server, "k1", body)
    assert first.status_code == second.status_code == 201
    assert first.json() == second.json()
    assert first.headers["etag"] == second.headers["etag"]
    assert "idempotency-replayed" not in first.headers
    assert second.headers["idempotency-replayed"] == "true"
    other = keyed(server, "k2", body)
    assert other.json()["task"]["id"] != first.json()["task"]["id"]


def test_another_request_under_the_key_is_refused(server: Served) -> None:
    assert keyed(server, "k3", {"handler": "echo", "delay": "1h"}).status_code == 201
    for path, body in (("/v1/tasks", {"handler": "echo"}), ("/v1/tasks:batch", {"tasks": []})):
        answer = keyed(server, "k3", body, path)
        assert (answer.status_code, answer.json()["type"].rpartition("/")[2]) == (422, "idempotency-key-reused")
    assert keyed(server, "", {"handler": "echo"}).status_code == 422
    assert keyed(server, "x" * 256, {"handler": "echo"}).status_code == 422


def test_what_was_refused_can_be_mended_under_the_same_key(server: Served) -> None:
    assert keyed(server, "k4", {"handler": "nobody"}).status_code == 422
    assert keyed(server, "k4", {"handler": "echo", "delay": "1h"}).status_code == 201


def test_of_many_at_once_one_is_done(server: Served) -> None:
    async def main() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            sent = (
                client.post(
                    "/v1/tasks",
                    json={"handler": "echo", "delay": "1h", "tags": ["once"]},
                    headers={"idempotency-key": "k5"},
                )
                for _ in range(20)
            )
            return await asyncio.gather(*sent)

    answers = asyncio.run(main())
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert len({answer.json()["task"]["id"] for answer in answers if answer.status_code == 201}) == 1
    assert all("retry-after" in answer.headers for answer in answers if answer.status_code == 409)
    assert server.get("/v1/tasks?tag=once")["total"] == 1


def test_after_a_crash_a_request_is_known_again(tmp_path: Path) -> None:
    one = {"handler": "echo", "delay": "1h"}
    many = {"tasks": [{"handler": "echo", "delay": "1h"}, {"handler": "echo", "args": {"word": "x"}}]}
    with Served(tmp_path) as served:
        first = keyed(served, "k", one).json()["task"]
        ids = [item["task"]["id"] for item in keyed(served, "b", many, "/v1/tasks:batch").json()["items"]]
        served.until(f"/v1/tasks/{ids[1]}", status="completed")
        served.process.kill()
        served.process.wait(timeout=60)
    with Served(tmp_path) as served:
        again = keyed(served, "k", one)
        assert (again.status_code, again.headers["idempotency-replayed"]) == (201, "true")
        assert again.json()["task"]["id"] == first["id"]
        batch = keyed(served, "b", many, "/v1/tasks:batch").json()
        assert [item["task"]["id"] for item in batch["items"]] == ids
        assert [item["task"]["status"] for item in batch["items"]] == ["pending", "completed"], "it does not run again"
        assert batch["added"] == 0
        assert len(served.tasks()) == 3
        for path, body in (("/v1/tasks", {"handler": "fail"}), ("/v1/tasks:batch", {"tasks": [one]})):
            refused = keyed(served, "k" if path == "/v1/tasks" else "b", body, path)
            assert (refused.status_code, refused.json()["type"].rpartition("/")[2]) == (422, "idempotency-key-reused")
        assert len(served.tasks()) == 3
        assert served.stop() == 0
