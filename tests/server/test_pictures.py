"""What can be looked at: the wheel, figures, owners, handlers, health, times of a cron expression."""

from datetime import datetime, timedelta

import pytest

from tests.server.served import Served


def test_the_wheel_shows_its_dials_and_what_waits_in_a_slot(server: Served) -> None:
    server.add(id="soon", delay="5m")
    server.add(id="far", delay="300d")
    wheels = server.get("/v1/wheels")
    assert [level["level"] for level in wheels["levels"]] == [0, 1, 2, 3, 4]
    assert [level["slots"] for level in wheels["levels"]] == [1000, 60, 60, 24, 30]
    assert [level["slot_seconds"] for level in wheels["levels"]] == [0.001, 1, 60, 3600, 86_400]
    assert all(len(level["occupancy"]) == level["slots"] > level["hand"] >= 0 for level in wheels["levels"])
    assert wheels["tick"] == 0.001
    assert wheels["far"] >= 1
    assert wheels["next_due"] <= server.get("/v1/tasks/soon")["due"]
    slots = [
        (level["level"], slot) for level in wheels["levels"] for slot, timers in enumerate(level["occupancy"]) if timers
    ]
    waiting = [task["id"] for level, slot in slots for task in server.get(f"/v1/wheels/{level}/{slot}")["tasks"]]
    assert "soon" in waiting
    assert "far" not in waiting
    assert server.get("/v1/wheels/0/999") == {"tasks": [], "more": 0}
    assert server.get("/v1/tasks/soon")["where"] == "in the wheel"
    assert server.get("/v1/tasks/far")["where"] == "in the store, beyond the horizon"


def test_the_hands_show_the_time_in_utc(server: Served) -> None:
    before = server.get("/v1/wheels")["now"]
    hands = [level["hand"] for level in server.get("/v1/wheels")["levels"]]
    after = server.get("/v1/wheels")["now"]
    first, last = (datetime.fromisoformat(moment) for moment in (before, after))
    shown = last.replace(hour=hands[3], minute=hands[2], second=hands[1], microsecond=hands[0] * 1000)
    if shown > last:
        shown = first.replace(hour=hands[3], minute=hands[2], second=hands[1], microsecond=hands[0] * 1000)
    assert first <= shown <= last
    assert first.utcoffset() == last.utcoffset() == timedelta(0)
    assert hands[4] == shown.timestamp() // 86_400 % 30


def test_figures_follow_what_happens(server: Served) -> None:
    before = server.get("/v1/stats")
    for n in range(5):
        server.add(id=f"counted-{n}")
    server.add("fail", id="counted-failure")
    server.add(id="counted-cancel", delay="1h")
    server.post("/v1/tasks/counted-cancel:cancel")
    server.until("/v1/tasks/counted-failure", status="failed")
    server.until("/v1/tasks/counted-4", status="completed")
    after = server.get("/v1/stats")
    assert after["added"] - before["added"] == 7
    assert after["cancelled"] - before["cancelled"] == 1
    assert after["failed"] - before["failed"] == 1
    assert after["executed"] - before["executed"] == 6
    lateness = after["lateness"]
    assert 0 <= lateness["p50"] <= lateness["p90"] <= lateness["p99"] <= lateness["max"]
    assert lateness["buckets"][-1] == {"le": None, "count": lateness["buckets"][-1]["count"]}
    assert set(after["counts"]) == {"pending", "paused", "running", "completed", "failed", "cancelled"}
    assert after["queued_max"] == 2000
    assert set(after["per_second"]) == {"added", "executed", "failed"}


def test_there_is_a_point_for_each_second(server: Served) -> None:
    points: list[dict[str, object]] = []
    for _ in range(5000):
        points = server.get("/v1/stats")["history"]
        if len(points) >= 2:
            break
    assert set(points[0]) == {"at", "added", "executed", "failed", "queued", "late_p99"}
    assert len(points) <= 300


def test_owners_and_handlers_are_listed(server: Served) -> None:
    cluster = server.get("/v1/cluster")
    assert [node["this"] for node in cluster["nodes"]] == [True]
    assert cluster["nodes"][0]["node"] == cluster["node"]
    assert cluster["nodes"][0]["partitions"] == list(range(64))
    assert len(cluster["partitions"]) == 64
    assert set(cluster["partitions"][0]) == {"partition", "node", "epoch", "expires"}
    handlers = {each["name"]: each for each in server.get("/v1/handlers")["handlers"]}
    assert handlers["slow"] == {"name": "slow", "timeout": 3600.0, "retries": 0, "concurrency": 3, "pool": "loop"}


def test_it_says_how_it_is(server: Served) -> None:
    assert server.get("/livez") == server.get("/healthz")
    assert server.get("/livez")["status"] == "ok"
    assert server.get("/readyz") == {"status": "ok", "reason": "the store answers and tasks are run"}
    assert server.get("/v1/me") == {"role": "admin", "auth": False}
    metrics = server.client.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    assert "tickwheel_partitions_owned 64.0" in metrics.text


def test_a_cron_expression_is_told_in_words_and_times(server: Served) -> None:
    shown = server.post("/v1/cron:preview", {"cron": "30 9 * * 1-5", "tz": "Europe/Berlin", "count": 400})
    assert shown["words"] == "At 09:30 on Monday through Friday"
    assert len(shown["runs"]) == 400
    assert all(" 09:30 CE" in run["local"] for run in shown["runs"])
    night = server.post("/v1/cron:preview", {"cron": "30 2 * * *", "tz": "Europe/Berlin", "count": 400})
    assert any(run["note"] and "does not exist" in run["note"] for run in night["runs"])
    seconds = server.post("/v1/cron:preview", {"cron": "15 0 9 * * *", "count": 1})
    assert seconds["runs"][0]["local"].endswith("09:00:15 UTC")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"cron": "every day"}, "/cron"),
        ({"cron": "0 9 * * *", "tz": "Nowhere"}, "/tz"),
        ({"cron": "0 9 * * *", "count": 0}, "/count"),
        ({}, "/cron"),
    ],
)
def test_a_preview_points_to_what_is_wrong(server: Served, body: dict[str, object], pointer: str) -> None:
    assert server.refused("/v1/cron:preview", body)[1] == [pointer]
