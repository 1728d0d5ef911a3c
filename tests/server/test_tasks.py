"""One task at a time: added, read, changed, acted upon, deleted; and what is refused changes nothing."""

import time
from typing import Any
from urllib.parse import quote

import apsw
import pytest

from tests.server.served import Served


def test_a_task_is_added_and_read_with_everything_it_was_told(server: Served) -> None:
    wishes: dict[str, Any] = {
        "id": "full",
        "args": {"word": "tick", "deep": {"list": [1, None, True]}},
        "cron": "0 9 * * *",
        "tz": "Europe/Berlin",
        "times": 7,
        "retry": {"retries": 4, "first": "5s", "cap": 60, "age": None},
        "timeout": "PT5M",
        "late": {"mode": "skip", "grace": "1m"},
        "priority": 5,
        "tags": ["vip", "gift"],
        "meta": {"by": "ada", "order": 7, "lines": [1, None]},
        "expires_at": "2090-01-01T00:00:00+01:00",
        "overlap": "queue_one",
        "max_crashes": 5,
    }
    answer = server.client.post("/v1/tasks", json={"handler": "echo", **wishes})
    assert answer.status_code == 201
    assert answer.headers["etag"] == '"0"'
    body = answer.json()
    assert body["deduplicated"] is False
    task = body["task"]
    assert task == server.get("/v1/tasks/full")
    assert (task["name"], task["kind"], task["status"], task["version"]) == ("echo", "handler", "pending", 0)
    assert task["args"] == wishes["args"]
    assert task["trigger"] == {"type": "cron", "expression": "0 9 * * *", "tz": "Europe/Berlin"}
    assert task["retry"] == {"retries": 4, "first": 5.0, "factor": 2.0, "cap": 60.0, "jitter": 0.1, "age": None}
    assert task["meta"] == wishes["meta"]
    assert task["late"] == {"mode": "skip", "grace": 60.0, "catch_up": 100}
    assert (task["timeout"], task["priority"], task["times"], task["tags"]) == (300.0, 5, 7, ["vip", "gift"])
    assert (task["expires"], task["overlap"], task["max_crashes"]) == ("2089-12-31T23:00:00.000Z", "queue_one", 5)
    assert len(task["next_runs"]) == 5
    assert task["next_runs"][0] == task["due"]
    assert task["where"] == "in the store, beyond the horizon" or task["where"] == "in the wheel"


def test_a_task_runs_and_its_runs_are_listed(server: Served) -> None:
    task = server.add(args={"word": "tick"}, id="runs")
    done = server.until("/v1/tasks/runs", status="completed")
    assert (done["result"], done["attempt"], done["next_runs"]) == ("TICK", 1, [])
    assert done["where"] == "over, in the store"
    [run] = server.get("/v1/tasks/runs/runs")["runs"]
    assert (run["status"], run["attempt"], run["occurrence"], run["error"]) == ("completed", 1, task["due"], None)
    assert 0 <= run["late"] < 30
    assert (run["due"], run["worker"]) == (task["due"], server.get("/v1/cluster")["node"])
    server.add("fail", id="fails")
    failed = server.until("/v1/tasks/fails", status="failed")
    assert "it failed on purpose" in failed["error"]
    assert "ValueError" in server.get("/v1/tasks/fails/runs?limit=1")["runs"][0]["error"]


def test_conflicts_are_dealt_with_as_asked(server: Served) -> None:
    first = server.add(delay="1h", id="twice")
    assert server.refused("/v1/tasks", {"handler": "echo", "id": "twice"}, 409)[0] == "duplicate-task"
    kept = server.post("/v1/tasks", {"handler": "echo", "id": "twice", "on_conflict": "keep"}, 200)
    assert (kept["deduplicated"], kept["task"]["due"]) == (True, first["due"])
    moved = server.post("/v1/tasks", {"handler": "echo", "id": "twice", "delay": "2h", "on_conflict": "debounce"}, 200)
    assert moved["deduplicated"]
    assert moved["task"]["due"] > first["due"]
    new = {"handler": "fail", "id": "twice", "delay": 3600, "on_conflict": "replace"}
    assert server.post("/v1/tasks", new, 201)["task"]["name"] == "fail"


@pytest.mark.parametrize("task_id", ["a/b", "a:run", "../etc", "ä 漢字?#%", "x/runs", "."])
def test_an_id_may_be_any_text(server: Served, task_id: str) -> None:
    server.add(id=task_id, delay="1h")
    path = f"/v1/tasks/{quote(task_id, safe='')}"
    if task_id != ".":  # clients take a dot out of an address before they send it
        assert server.get(path)["id"] == task_id
        assert server.post(f"{path}:pause")["paused"]
        assert server.get(f"{path}/runs") == {"runs": []}
        server.send("DELETE", path, status=204)
        server.get(path, status=404)


def test_a_task_is_changed_and_keeps_its_id(server: Served) -> None:
    server.add(id="patched", delay="1h", args={"word": "a"}, tags=["old"], retries=1)
    body = {
        "delay": "2h",
        "args": {"word": "b"},
        "tags": ["new"],
        "priority": 9,
        "retry": {"first": "1s"},
        "timeout": 7,
    }
    task = server.send("PATCH", "/v1/tasks/patched", body)
    assert (task["args"], task["tags"], task["priority"], task["version"]) == ({"word": "b"}, ["new"], 9, 1)
    assert (task["retry"]["retries"], task["retry"]["first"], task["timeout"]) == (1, 1.0, 7.0)
    task = server.send("PATCH", "/v1/tasks/patched", {"every": "1m", "expires_at": "2090-01-01T00:00:00Z"})
    assert (task["trigger"], task["times"]) == ({"type": "every", "interval": 60.0}, -1)
    task = server.send("PATCH", "/v1/tasks/patched", {"expires_at": None, "late": "skip"})
    assert (task["expires"], task["late"]["mode"], task["version"]) == (None, "skip", 3)


def test_a_change_is_conditional_on_the_version(server: Served) -> None:
    server.add(id="versioned", delay="1h")
    path = "/v1/tasks/versioned"
    answer = server.client.patch(path, json={"priority": 1}, headers={"if-match": '"0"'})
    assert (answer.status_code, answer.headers["etag"]) == (200, '"1"')
    answer = server.client.patch(path, json={"priority": 2}, headers={"if-match": '"0"'})
    assert (answer.status_code, answer.json()["type"].rpartition("/")[2]) == (412, "version-mismatch")
    assert server.client.patch(path, json={"priority": 2}, headers={"if-match": "x"}).status_code == 412
    assert server.get(path)["priority"] == 1


def test_what_is_over_or_runs_is_not_changed_or_deleted_at_will(server: Served) -> None:
    server.add("slow", id="busy")
    server.until("/v1/tasks/busy", status="running")
    assert server.get("/v1/tasks/busy")["where"] == "running here"
    assert server.refused("/v1/tasks/busy", {"priority": 1}, 409, "PATCH")[0] == "task-running"
    assert server.refused("/v1/tasks/busy", None, 409, "DELETE")[0] == "task-running"
    asked = server.post("/v1/tasks/busy:cancel", {"reason": "enough"})
    assert asked["cancel_requested"] or asked["status"] == "cancelled"
    assert server.until("/v1/tasks/busy", status="cancelled")["reason"] == "enough"
    assert server.refused("/v1/tasks/busy", {"priority": 1}, 409, "PATCH")[0] == "task-finished"
    assert server.refused("/v1/tasks/busy:run", None, 409)[0] == "task-finished"
    server.send("DELETE", "/v1/tasks/busy", status=204)
    assert server.refused("/v1/tasks/busy", None, 404, "DELETE")[0] == "unknown-task"
    assert server.refused("/v1/tasks/busy/runs", None, 404, "GET")[0] == "unknown-task"


def test_one_run_of_a_series_is_stopped_and_the_series_continues(server: Served) -> None:
    server.add("slow", id="series", every="1h", overlap="queue_one", max_crashes=5)
    server.post("/v1/tasks/series:run")
    server.until("/v1/tasks/series", status="running")
    server.post("/v1/tasks/series:cancel", {"run_only": True, "reason": "too slow"})
    task = server.until("/v1/tasks/series", status="pending")
    assert (task["last_run"]["status"], task["overlap"], task["max_crashes"]) == ("cancelled", "queue_one", 5)
    changed = server.send("PATCH", "/v1/tasks/series", {"overlap": "skip", "max_crashes": 2})
    assert (changed["overlap"], changed["max_crashes"]) == ("skip", 2)
    assert server.post("/v1/tasks/series:cancel", {"run_only": True})["status"] == "pending", "it does not run"
    assert server.post("/v1/tasks/series:cancel")["status"] == "cancelled"


def test_a_series_is_resumed_with_or_without_what_it_missed(server: Served) -> None:
    for task_id, body in (("without", {}), ("with", {"run_missed": True})):
        server.add(id=task_id, every="1h", delay="100ms")
        server.post(f"/v1/tasks/{task_id}:pause")
        due = server.get(f"/v1/tasks/{task_id}")["due"]
        time.sleep(0.15)  # until it is missed
        resumed = server.post(f"/v1/tasks/{task_id}:resume", body)
        assert (resumed["due"] == due) is bool(body)
    assert server.until("/v1/tasks/with", runs=1)["last_run"]["status"] == "completed"
    assert server.get("/v1/tasks/without")["runs"] == 0
    assert server.refused("/v1/tasks/with:resume", {"run_missed": "yes"}, 422)[1] == ["/run_missed"]
    assert server.refused("/v1/tasks/with:pause", {"run_missed": True}, 422)[1]


def test_a_task_is_paused_resumed_run_cancelled_and_retried(server: Served) -> None:
    server.add(id="acted", delay="1h", args={"word": "now"})
    acted = server.post("/v1/tasks/acted:pause")
    assert (acted["status"], acted["paused"]) == ("pending", True)
    assert server.post("/v1/tasks/acted:resume")["status"] == "pending"
    assert server.post("/v1/tasks/acted:run")["version"] == 3
    assert server.until("/v1/tasks/acted", status="completed")["result"] == "NOW"
    assert server.post("/v1/tasks/acted:retry")["status"] in ("pending", "running", "completed")
    assert server.until("/v1/tasks/acted", status="completed", attempt=2)
    server.add(id="cancelled", delay="1h")
    assert server.post("/v1/tasks/cancelled:cancel", {"reason": "paid"})["reason"] == "paid"
    for action in ("run", "cancel", "pause", "resume", "retry"):
        assert server.refused(f"/v1/tasks/nobody:{action}", None, 404)[0] == "unknown-task"
    assert server.refused("/v1/tasks/acted:explode", None, 404)[0] == "not-found"
    assert server.refused("/v1/tasks/acted", {}, 404)[0] == "not-found"


def test_a_task_that_has_expired_is_not_run(server: Served) -> None:
    server.add(id="stale", expires_at="2020-01-01T00:00:00Z", args={"word": "x"})
    stale = server.until("/v1/tasks/stale", status="cancelled")
    assert stale["reason"].startswith("expired")
    assert (stale["result"], server.get("/v1/tasks/stale/runs")["runs"]) == (None, [])


def test_secrets_are_masked_if_asked(server: Served) -> None:
    server.add(id="secret", delay="1h", args={"word": "x", "token": "t-1"}, meta={"api_key": "k-1"})
    shown = server.get("/v1/tasks/secret?masked=true")
    assert (shown["args"], shown["meta"]) == ({"word": "x", "token": "***"}, {"api_key": "***"})
    [listed] = server.get("/v1/tasks?id_prefix=secret&masked=true")["tasks"]
    assert listed["args"]["token"] == "***"
    assert server.get("/v1/tasks/secret")["args"]["token"] == "t-1"


@pytest.mark.parametrize(
    ("body", "problem", "pointer"),
    [
        ({}, "invalid-task", "/handler"),
        ([], "invalid-body", ""),
        ({"handler": "ecko"}, "unknown-handler", "/handler"),
        ({"handler": "echo", "colour": "red"}, "invalid-body", "/colour"),
        ({"handler": "echo", "delay": "soon"}, "invalid-duration", "/delay"),
        ({"handler": "echo", "delay": -1}, "invalid-body", "/delay"),
        ({"handler": "echo", "delay": "9000000w"}, "invalid-duration", "/delay"),
        ({"handler": "echo", "delay": None}, "invalid-body", "/delay"),
        ({"handler": "echo", "at": "2026-01-01T00:00:00"}, "invalid-body", "/at"),
        ({"handler": "echo", "at": "tomorrow"}, "invalid-body", "/at"),
        ({"handler": "echo", "at": "1960-01-01T00:00:00Z"}, "invalid-task", "/at"),
        ({"handler": "echo", "at": "2026-01-01T00:00:00Z", "delay": 1}, "invalid-schedule", "/at"),
        ({"handler": "echo", "every": 0}, "invalid-schedule", "/every"),
        ({"handler": "echo", "every": 1, "cron": "* * * * *"}, "invalid-schedule", "/cron"),
        ({"handler": "echo", "cron": "0 0 31 2 *"}, "invalid-cron", "/cron"),
        ({"handler": "echo", "cron": "* * * * *", "tz": "Mars/Olympus"}, "invalid-cron", "/tz"),
        ({"handler": "echo", "tz": "UTC"}, "invalid-schedule", "/tz"),
        ({"handler": "echo", "times": 0}, "invalid-task", "/times"),
        ({"handler": "echo", "timeout": 0}, "invalid-task", "/timeout"),
        ({"handler": "echo", "priority": 1001}, "invalid-body", "/priority"),
        ({"handler": "echo", "retry": {"factor": 0}}, "invalid-body", "/retry/factor"),
        ({"handler": "echo", "retry": {"first": "x"}}, "invalid-duration", "/retry"),
        ({"handler": "echo", "retries": 1, "retry": {}}, "invalid-task", "/retries"),
        ({"handler": "echo", "late": "sometimes"}, "invalid-body", "/late"),
        ({"handler": "echo", "tags": ["x" * 65]}, "invalid-body", "/tags/0"),
        ({"handler": "echo", "tags": ["x"] * 21}, "invalid-body", "/tags"),
        ({"handler": "echo", "id": ""}, "invalid-body", "/id"),
        ({"handler": "echo", "id": "x" * 256}, "invalid-body", "/id"),
        ({"handler": "echo", "args": [1]}, "invalid-body", "/args"),
        ({"handler": "echo", "meta": {"a": "\0"}}, "invalid-task", "/meta"),
        ({"handler": "echo", "args": {"a": "\0"}}, "invalid-task", "/args"),
        ({"handler": "echo", "args": {"a": 10**400}}, "invalid-task", "/args"),
        ({"handler": "echo", "id": "a\0b"}, "invalid-task", "/id"),
        ({"handler": "echo", "tags": ["\0"]}, "invalid-task", "/tags"),
        ({"handler": "echo", "priority": True}, "invalid-body", "/priority"),
        ({"handler": "echo", "on_conflict": "explode"}, "invalid-body", "/on_conflict"),
    ],
)
def test_what_is_wrong_is_pointed_at_and_nothing_changes(server: Served, body: Any, problem: str, pointer: str) -> None:
    before = server.get("/v1/stats")["added"]
    named, [pointed] = server.refused("/v1/tasks", body)
    assert (named, pointed) == (problem, pointer)
    assert server.get("/v1/stats")["added"] == before


def test_an_unknown_field_gets_the_closest_spelling(server: Served) -> None:
    answer = server.client.post("/v1/tasks", json={"handler": "echo", "prioritty": 5})
    assert answer.json()["errors"] == [
        {"pointer": "/prioritty", "detail": "unknown field 'prioritty'; did you mean 'priority'?"}
    ]


def test_a_task_that_cannot_be_read_is_shown_with_its_data_and_deleted(server: Served) -> None:
    server.add(id="unreadable", delay="1h")
    file = apsw.Connection(str(server.folder / "tasks.db"))
    file.execute("UPDATE tasks SET body = ? WHERE id = ?", (b'{"id": "unreadable"', "unreadable"))
    file.close()
    task = server.get("/v1/tasks/unreadable")
    assert (task["raw"], task["reason_code"], task["next_runs"]) == ('{"id": "unreadable"', "unreadable", [])
    assert task["reason"].startswith("unreadable: ")
    assert [each["id"] for each in server.get("/v1/tasks?id_prefix=unread")["tasks"]] == ["unreadable"]
    assert server.refused("/v1/tasks/unreadable:pause", None, 409)[0] == "task-unreadable"
    assert server.refused("/v1/tasks/unreadable", {"priority": 1}, 409, "PATCH")[0] == "task-unreadable"
    assert server.refused("/v1/tasks", {"handler": "echo", "id": "unreadable"}, 409)[0] == "duplicate-task"
    server.send("DELETE", "/v1/tasks/unreadable", status=204)
    server.add(id="unreadable", delay="1h")


def test_bodies_that_are_no_json_are_refused(server: Served) -> None:
    def sent(content: bytes, kind: str = "application/json") -> tuple[int, str]:
        answer = server.client.post("/v1/tasks", content=content, headers={"content-type": kind})
        return answer.status_code, answer.json()["type"].rpartition("/")[2]

    assert sent(b"{") == (400, "malformed-json")
    assert sent(b"") == (400, "malformed-json")
    assert sent(b'{"handler": "\xff"}') == (400, "malformed-json")
    assert sent(b"handler=echo", "application/x-www-form-urlencoded") == (415, "unsupported-media-type")
    assert sent(b'{"handler": "echo"}', "text/plain") == (415, "unsupported-media-type")


def test_addresses_that_are_none_are_said_to_be(server: Served) -> None:
    assert server.refused("/v1/nothing", None, 404, "GET")[0] == "not-found"
    assert server.refused("/v1/tasks/a/b/c", None, 404, "GET")[0] == "not-found"
    assert server.refused("/v1/stats", None, 405, "DELETE")[0] == "method-not-allowed"
