"""Batches and operations: many tasks in one request."""

from typing import Any

from tests.server.served import Served


def test_a_batch_has_a_status_for_each(server: Served) -> None:
    server.add(id="there", delay="1h")
    tasks = [
        {"handler": "echo", "id": "one", "delay": "1h"},
        {"handler": "echo", "id": "there"},
        {"handler": "echo", "id": "one"},
        {"handler": "nobody"},
        {"handler": "echo", "delay": "soon"},
        {"delay": 1},
        7,
        {"handler": "echo", "id": "two", "delay": "1h"},
    ]
    answer = server.post("/v1/tasks:batch", {"tasks": tasks})
    assert [item["status"] for item in answer["items"]] == [201, 409, 409, 422, 422, 422, 422, 201]
    assert answer["added"] == 2
    pointers = [item["problem"]["errors"][0]["pointer"] for item in answer["items"][1:-1]]
    assert pointers == ["/tasks/1", "/tasks/2", "/tasks/3/handler", "/tasks/4/delay", "/tasks/5/handler", "/tasks/6"]
    assert server.get("/v1/tasks/two")["status"] == "pending"
    again = server.post("/v1/tasks:batch", {"tasks": [tasks[0]], "on_conflict": "keep"})
    assert ([item["status"] for item in again["items"]], again["added"]) == ([200], 0)


def test_a_batch_is_bounded(server: Served) -> None:
    many = {"tasks": [{"handler": "echo", "delay": "1h"}] * 1001}
    assert server.refused("/v1/tasks:batch", many, 413) == ("batch-too-large", ["/tasks"])
    assert server.post("/v1/tasks:batch", {"tasks": []}) == {"items": [], "added": 0}


def test_an_operation_goes_through_all_that_fit(server: Served) -> None:
    tasks = [{"handler": "echo", "id": f"bulk-{n}", "delay": "1h", "tags": ["bulk"]} for n in range(700)]
    server.post("/v1/tasks:batch", {"tasks": tasks})
    chosen = {"tag": "bulk"}
    dry = server.post("/v1/operations", {"action": "pause", "filter": chosen, "dry_run": True}, 200)
    assert (dry["state"], dry["matched"], dry["done"], dry["dry_run"]) == ("done", 700, 0, True)
    assert server.get("/v1/tasks?tag=bulk&status=paused")["total"] == 0
    for action, status, done in (
        ("pause", "paused", 700),
        ("pause", "paused", 0),
        ("resume", "pending", 700),
        ("cancel", "cancelled", 700),
    ):
        begun = server.post("/v1/operations", {"action": action, "filter": chosen}, 202)
        over = server.until(f"/v1/operations/{begun['id']}", state="done")
        assert (over["matched"], over["done"], over["skipped"]) == (700, done, 700 - done)
        assert server.get(f"/v1/tasks?tag=bulk&status={status}")["total"] == 700
    begun = server.post(
        "/v1/operations", {"action": "retry", "filter": {"id_prefix": "bulk-1", "status": "cancelled"}}, 202
    )
    assert server.until(f"/v1/operations/{begun['id']}", state="done")["done"] == 111
    server.until("/v1/tasks/bulk-1", status="completed")
    begun = server.post("/v1/operations", {"action": "delete", "filter": chosen}, 202)
    over = server.until(f"/v1/operations/{begun['id']}", state="done")
    left = server.get("/v1/tasks?tag=bulk")["total"]
    assert over["done"] + over["skipped"] == 700
    assert left == over["skipped"]
    latest = server.get("/v1/operations")["operations"]
    assert [each["action"] for each in latest[:2]] == ["delete", "retry"]


def test_a_retry_of_many_is_for_what_failed_unless_another_status_is_named(server: Served) -> None:
    server.post("/v1/tasks", {"handler": "echo", "id": "again-done", "tags": ["again"]}, 201)
    server.post("/v1/tasks", {"handler": "echo", "id": "again-not", "tags": ["again"], "delay": "1h"}, 201)
    server.until("/v1/tasks/again-done", status="completed")
    server.post("/v1/tasks/again-not:cancel", {})
    wish: dict[str, Any] = {"action": "retry", "filter": {"tag": "again"}}
    assert server.post("/v1/operations", {**wish, "dry_run": True}, 200)["matched"] == 0
    begun = server.post("/v1/operations", wish, 202)
    assert server.until(f"/v1/operations/{begun['id']}", state="done")["matched"] == 0
    assert server.get("/v1/tasks/again-not")["status"] == "cancelled"
    wish["filter"]["status"] = "cancelled"
    assert server.post("/v1/operations", {**wish, "dry_run": True}, 200)["matched"] == 1


def test_tasks_are_run_in_bulk(server: Served) -> None:
    tasks = [{"handler": "echo", "id": f"run-{n}", "delay": "1h", "tags": ["run"]} for n in range(20)]
    server.post("/v1/tasks:batch", {"tasks": tasks})
    begun = server.post("/v1/operations", {"action": "run", "filter": {"tag": "run"}}, 202)
    assert server.until(f"/v1/operations/{begun['id']}", state="done")["done"] == 20
    server.until("/v1/tasks?tag=run&status=completed&limit=1", total=20)


def test_an_operation_on_everything_is_refused(server: Served) -> None:
    before = server.get("/v1/stats")["counts"]
    for chosen in ({}, {"text": ""}, {"id_prefix": "", "text": ""}):
        assert server.refused("/v1/operations", {"action": "delete", "filter": chosen})[1] == ["/filter"]
    assert server.refused("/v1/operations", {"action": "explode", "filter": {"tag": "x"}})[1] == ["/action"]
    assert server.refused("/v1/operations", {"action": "cancel"})[1] == ["/filter"]
    assert server.refused("/v1/operations", {"action": "cancel", "filter": {"colour": 1}})[1] == ["/filter/colour"]
    assert server.refused("/v1/operations/nothing", None, 404, "GET")[0] == "unknown-operation"
    assert server.get("/v1/stats")["counts"] == before
