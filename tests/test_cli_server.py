"""The commands against a server, and those for many tasks at once: a real server, a real file."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faketime import clock_off_by
from tests.test_cli import MODULE, answer, tickwheel, typed

PATIENCE_S = 60


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(MODULE)
    return tmp_path


@pytest.fixture
def url(shop: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "tickwheel", "serve", "--app", "shop:scheduler", "--port", "0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, cwd=shop, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = None
        while found is None:
            line = server.stdout.readline()
            assert line, "the server ended before it was ready"
            found = re.search(r"http://[\d.]+:\d+", line)
        yield found.group()
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE_S) == 0


def test_a_server_takes_the_place_of_a_store(shop: Path, url: str) -> None:
    def ask(*arguments: str) -> Any:
        return json.loads(tickwheel(shop, *arguments, "--url", url, "--json"))

    added = ask("add", "shout", '{"word": "a"}', "--delay", "30d", "--id", "order 7/ä")
    there = answer(shop, "show", "order 7/ä")["task"]
    assert added == {**there, "partition": 0}, "but for where it lies, which is the store's affair"
    assert ask("show", "order 7/ä")["task"]["args"] == {"word": "a"}
    assert [task["id"] for task in ask("list", "--status", "pending")["tasks"]] == ["order 7/ä"]
    assert ask("reschedule", "order 7/ä", "--delay", "1h")["run_at"] < added["run_at"]
    assert ask("cancel", "order 7/ä", "--reason", "paid")["reason"] == "paid"
    assert ask("retry", "order 7/ä")["status"] == "pending"
    assert [run["id"] for run in ask("simulate")] in ([], ["order 7/ä"]), "it may have run by now"
    assert ask("doctor")["advice"] == []
    told = typed(shop, "doctor", "--url", url, code=1, **clock_off_by(3600))
    assert "the store's clock is 3,6" in told
    assert "s behind this machine's" in told
    [node] = ask("cluster")["nodes"]
    assert [lease["partition"] for lease in node["leases"]] == list(range(64))
    assert node["node"] == answer(shop, "cluster")["nodes"][0]["node"]
    cron = ask("add", "shout", '{"word": "b"}', "--cron", "0 9 * * *", "--tz", "Europe/Berlin", "--retries", "3")
    assert (cron["trigger"]["tz"], cron["retry"]["retries"]) == ("Europe/Berlin", 3)
    series = ask("add", "shout", "--every", "1h", "--id", "series", "--overlap", "queue_one", "--max-crashes", "5")
    assert (series["overlap"], series["max_crashes"]) == ("queue_one", 5)
    assert ask("pause", "series")["paused"]
    assert not ask("resume", "series", "--run-missed")["paused"]
    ask("run-now", "series")
    assert ask("cancel", "series", "--run-only")["status"] in ("pending", "running")
    shown = typed(shop, "top", "--url", url, "-n", "1")
    rows = re.findall(r"level (\d) +(.*?) +\d+/(\d+) ", shown)
    assert rows == [
        ("0", "1 ms", "1000"),
        ("1", "1 s", "60"),
        ("2", "1 min", "60"),
        ("3", "1 h", "24"),
        ("4", "1 d", "30"),
    ]
    assert "pending" in shown


def test_refusals_of_a_server_are_said_in_one_line(shop: Path, url: str) -> None:
    assert "no handler 'shuot'" in tickwheel(shop, "add", "shuot", "--url", url, code=1)
    assert "no task 'nobody'" in tickwheel(shop, "show", "nobody", "--url", url, code=1)
    assert "is `tickwheel serve` running there?" in tickwheel(shop, "list", "--url", "http://127.0.0.1:9", code=1)


@pytest.mark.parametrize("served", [False, True])
def test_many_tasks_are_changed_at_once_after_a_look(shop: Path, served: bool, request: pytest.FixtureRequest) -> None:
    place = ("--url", request.getfixturevalue("url")) if served else ()
    for number in range(3):
        tickwheel(shop, "add", "shout", '{"word": "a"}', "--delay", "1d", "--id", f"order-{number}")
    tickwheel(shop, "add", "shout", '{"word": "a"}', "--delay", "1d", "--id", "invoice-1")
    assert "3 tasks fit" in tickwheel(shop, "bulk", "cancel", "--prefix", "order-", "--dry-run", *place)
    assert {task["status"] for task in answer(shop, "list")["tasks"]} == {"pending"}
    assert "3 done, 0 stay" in tickwheel(shop, "bulk", "cancel", "--prefix", "order-", "--yes", *place)
    assert "0 done, 3 stay" in tickwheel(shop, "bulk", "pause", "--prefix", "order-", "--yes", *place)
    assert answer(shop, "show", "invoice-1")["task"]["status"] == "pending"
    assert "0 tasks fit" in tickwheel(shop, "bulk", "retry", "--prefix", "order-", "--dry-run", *place)
    assert "0 done, 0 stay" in tickwheel(shop, "bulk", "retry", "--prefix", "order-", "--yes", *place)
    assert "3 tasks fit" in tickwheel(
        shop, "bulk", "retry", "--prefix", "order-", "--status", "cancelled", "--dry-run", *place
    )
    assert "empty filter" in tickwheel(shop, "bulk", "delete", *place, code=1)
    assert "empty filter" in tickwheel(shop, "bulk", "cancel", "--prefix", "", *place, code=1)
    assert "an action is" in tickwheel(shop, "bulk", "destroy", "--tag", "x", *place, code=1)


STOPPED_EARLY = """
import os, signal
from tickwheel import AsyncScheduler

class StoppedEarly(AsyncScheduler):
    async def start(self):
        os.kill(os.getpid(), signal.SIGTERM)
        return await super().start()

scheduler = StoppedEarly("sqlite:///tasks.db")

@scheduler.task("work")
async def work() -> None: ...
"""


def test_a_server_that_is_stopped_while_it_starts_stops_in_order(tmp_path: Path) -> None:
    (tmp_path / "early.py").write_text(STOPPED_EARLY)
    command = [sys.executable, "-m", "tickwheel", "serve", "--app", "early:scheduler", "--port", "0"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "ready at" not in ran.stdout
    assert ran.stdout.endswith("tickwheel: stopped\n")
