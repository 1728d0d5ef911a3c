"""Killed, or on a full disk, it loses nothing that was acknowledged; told to stop, it ends in order and in time."""

import asyncio
import resource
import signal
import time
from itertools import count
from pathlib import Path

import httpx

from tests.server.served import Served

KILLS = 3
ADDED_BEFORE = 150
CLIENTS = 8


async def add_on(client: httpx.AsyncClient, prefix: str, acknowledged: list[str], enough: asyncio.Event) -> None:
    """Add tasks one after the other until the server dies or refuses."""
    for number in count():
        body = {"handler": "echo", "id": f"{prefix}-{number}", "delay": [0, 3600][number % 2]}
        try:
            answer = await client.post("/v1/tasks", json=body)
        except httpx.TransportError:
            return
        if answer.status_code != 201:
            return
        acknowledged.append(f"{prefix}-{number}")
        if len(acknowledged) >= ADDED_BEFORE:
            enough.set()


def struck(served: Served, prefix: str, number: int) -> list[str]:
    """Put a server under load, send it a signal in the middle, and return what it acknowledged."""

    async def main() -> list[str]:
        acknowledged: list[str] = []
        enough = asyncio.Event()
        async with httpx.AsyncClient(base_url=served.url, timeout=60) as client:
            adding = [
                asyncio.create_task(add_on(client, f"{prefix}-c{n}", acknowledged, enough)) for n in range(CLIENTS)
            ]
            await enough.wait()
            served.process.send_signal(number)
            await asyncio.gather(*adding)
        return acknowledged

    return asyncio.run(main())


def test_what_was_acknowledged_is_there_after_kills(tmp_path: Path) -> None:
    acknowledged: list[str] = []
    for round_number in range(KILLS):
        with Served(tmp_path, "--rate", "0") as served:
            acknowledged += struck(served, f"r{round_number}", signal.SIGKILL)
            assert served.process.wait(timeout=60) == -signal.SIGKILL
    with Served(tmp_path, "--rate", "0") as served:
        assert len(acknowledged) >= KILLS * ADDED_BEFORE
        assert set(acknowledged) <= set(served.tasks())
        due = {task_id for task_id in acknowledged if int(task_id.rpartition("-")[2]) % 2 == 0}
        statuses = served.tasks()
        while not all(statuses[task_id] == "completed" for task_id in due):
            statuses = served.tasks()
        assert {statuses[task_id] for task_id in set(acknowledged) - due} == {"pending"}
        assert served.stop() == 0


def test_told_to_stop_it_ends_in_order(tmp_path: Path) -> None:
    with Served(tmp_path, "--rate", "0") as served:
        served.add("slow", id="short", args={"seconds": 1.0})
        served.until("/v1/tasks/short", status="running")
        acknowledged = struck(served, "t", signal.SIGTERM)
        assert served.process.wait(timeout=60) == 0
    begun = time.monotonic()
    with Served(tmp_path, "--rate", "0") as served:
        assert time.monotonic() - begun < 60
        assert served.get("/v1/cluster")["nodes"][0]["partitions"] == list(range(64)), "the leases were given back"
        assert served.get("/v1/tasks/short")["result"] == "done", "what ran was let end"
        assert set(acknowledged) <= set(served.tasks())
        served.add("slow", id="long", args={"seconds": 3600.0})
        served.until("/v1/tasks/long", status="running")
        begun = time.monotonic()
        assert served.stop(signal.SIGINT) == 0
        assert time.monotonic() - begun < 60, "what does not end is stopped"
    with Served(tmp_path) as served:
        assert served.get("/v1/tasks/long")["status"] in ("pending", "running"), "and run again"


def test_messages_that_were_leased_are_offered_again_after_a_kill(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        for number in range(5):
            served.post("/v1/tasks", {"queue": "emails", "id": f"m{number}"}, 201)
        leased = served.post("/v1/queues/emails:lease", {"max": 3, "lease": "1h", "wait": "5s"})["messages"]
        done, *held = leased
        acknowledging = f"/v1/queues/emails/messages/{done['id']}:ack"
        served.post(acknowledging, {"lease_token": done["lease_token"]})
        served.stop(signal.SIGKILL)
    with Served(tmp_path) as served:
        offered: dict[str, int] = {}
        while len(offered) < 4:
            page = served.post("/v1/queues/emails:lease", {"lease": "1h", "wait": "5s"})["messages"]
            offered |= {message["id"]: message["attempt"] for message in page}
        again = {message["id"] for message in held}
        assert offered == {f"m{n}": 2 if f"m{n}" in again else 1 for n in range(5) if f"m{n}" != done["id"]}
        old = {"lease_token": held[0]["lease_token"]}
        served.post(f"/v1/queues/emails/messages/{held[0]['id']}:ack", old, 409)
        assert served.get(f"/v1/tasks/{done['id']}")["status"] == "completed"


def test_a_full_disk_is_said_and_survived(tmp_path: Path) -> None:
    with Served(tmp_path, "--rate", "0") as served:
        acknowledged = [served.add(delay="1h", args={"word": "x" * 20_000})["id"] for _ in range(5)]
        most = (tmp_path / "tasks.db-wal").stat().st_size + 30_000
        no_limit = resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        body = {"handler": "echo", "delay": "1h", "args": {"word": "x" * 20_000}}
        while (answer := served.client.post("/v1/tasks", json=body)).status_code == 201:
            acknowledged.append(answer.json()["task"]["id"])
        assert answer.status_code == 503, answer.text
        assert "disk" in answer.json()["detail"]
        assert set(served.tasks()) == set(acknowledged), "what can be read is read"
        resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE, no_limit)
        acknowledged.append(served.add(delay="1h")["id"])
        served.stop(signal.SIGKILL)
    with Served(tmp_path) as served:
        assert set(served.tasks()) == set(acknowledged)
