"""Two servers on one store are a cluster, with nothing more to configure: they share the work, and one may die."""

import signal
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import Database
from tests.server.served import Served


def shares(served: Served) -> list[int]:
    return sorted(len(node["partitions"]) for node in served.get("/v1/cluster")["nodes"])


def until_shares(served: Served, *wanted: int) -> Any:
    for _ in range(2000):
        if shares(served) == list(wanted):
            return served.get("/v1/cluster")
    raise AssertionError(f"{shares(served)} are not {wanted}")


@pytest.mark.parametrize("engine", ["postgresql", "sqlite"])
def test_two_servers_share_the_work_and_one_goes_on_when_the_other_is_killed(
    engine: str, database: Database, tmp_path: Path
) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    flags, store = (
        ("--rate", "0"),
        {"SHOP_STORE": {"postgresql": database.url(), "sqlite": f"sqlite:///{tmp_path}/tasks.db"}[engine]},
    )
    with Served(folders[0], *flags, **store) as one, Served(folders[1], *flags, **store) as two:
        seen = until_shares(one, 32, 32)
        assert until_shares(two, 32, 32)["partitions"][0]["node"] == seen["partitions"][0]["node"]
        assert one.get("/v1/cluster")["node"] != two.get("/v1/cluster")["node"]
        assert {node["node"] for node in seen["nodes"]} == {
            served.get("/v1/cluster")["node"] for served in (one, two)
        }, "each shows both"
        ids = []
        for number, served in zip(range(100), cycle((one, two)), strict=False):
            ids.append(served.add("echo", id=f"soon-{number}", delay=number % 10 / 10)["id"])
        for number, served in zip(range(40), cycle((one, two)), strict=False):
            ids.append(served.add("echo", id=f"later-{number}", delay=3600)["id"])
        for task_id in ids[:100]:
            two.until(f"/v1/tasks/{task_id}", status="completed")
        assert one.stop(signal.SIGKILL) == -signal.SIGKILL
        until_shares(two, 64)
        for task_id in ids[100:]:
            two.send("PATCH", f"/v1/tasks/{task_id}", {"delay": 0.5})
        ids += [two.add("echo", id=f"after-{number}")["id"] for number in range(20)]
        for task_id in ids:
            two.until(f"/v1/tasks/{task_id}", status="completed")
        assert [task_id for task_id in ids if two.get(f"/v1/tasks/{task_id}")["attempt"] != 1] == []
