"""The commands, on a real file: called in this process, and typed where a process is the point."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import chdir
from pathlib import Path
from typing import Any

import apsw
import pytest
from typer.testing import CliRunner

from tickwheel import COMPILED, Scheduler, __version__
from tickwheel.cli import app, commands, output

pytestmark = pytest.mark.slow  # each test starts programs

MODULE = """
from tickwheel import Scheduler

scheduler = Scheduler("sqlite:///tasks.db", lease_ttl_ms=400)


@scheduler.task("shout")
def shout(word: str) -> str:
    return word.upper()
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(MODULE)
    return tmp_path


def tickwheel(folder: Path, *arguments: str, code: int = 0) -> str:
    """Give a command, in this process: starting an interpreter takes ten times as long as most of them."""
    path, modules = sys.path.copy(), set(sys.modules)
    environment = {"COLUMNS": "200", "TICKWHEEL_STORE": "sqlite:///tasks.db"}
    width = commands.console._width  # as wide as the terminal was when it was imported, if that was known
    commands.console.width = 200
    try:
        with chdir(folder):
            done = CliRunner().invoke(app, arguments, env=environment)
    finally:
        commands.console._width = width
        sys.path[:] = path
        for name in {"shop", "app"} & (sys.modules.keys() - modules):
            del sys.modules[name]  # of this folder
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stdout if code == 0 else done.output


def typed(folder: Path, *arguments: str, code: int = 0, **variables: str) -> str:
    """Type a command, in a process of its own."""
    command = [sys.executable, "-m", "tickwheel", *arguments]
    environment = {**os.environ, "COLUMNS": "200", "TICKWHEEL_STORE": "sqlite:///tasks.db", **variables}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stdout + done.stderr


def create_store(folder: Path) -> None:
    """Create the store without any task."""
    with Scheduler(f"sqlite:///{folder}/tasks.db", run=False):
        pass


def answer(folder: Path, *arguments: str) -> Any:
    return json.loads(tickwheel(folder, *arguments, "--json"))


def test_a_task_is_added_listed_moved_and_cancelled(shop: Path) -> None:
    assert "order-7: pending, due in" in typed(
        shop, "add", "orders.cancel", '{"order_id": 7}', "--delay", "30d", "--id", "order-7"
    )
    assert answer(shop, "show", "order-7")["task"]["args"] == {"order_id": 7}
    assert "order-7" in tickwheel(shop, "list", "--status", "pending")
    tickwheel(shop, "add", "mail.send", "--delay", "1d", "--id", "mail-1", "--tag", "vip", "--tag", "gift")
    assert [task["id"] for task in answer(shop, "list", "--tag", "vip")["tasks"]] == ["mail-1"]
    assert [task["id"] for task in answer(shop, "list", "--text", "cancel")["tasks"]] == ["order-7"]
    assert [task["id"] for task in answer(shop, "list", "--order", "due")["tasks"]] == ["mail-1", "order-7"]
    assert "expected one of newest, oldest, due" in tickwheel(shop, "list", "--order", "size", code=1)
    tickwheel(shop, "cancel", "mail-1")
    assert re.search(r"due in (1 h|59 m)", tickwheel(shop, "reschedule", "order-7", "--delay", "1h"))
    assert answer(shop, "cancel", "order-7", "--reason", "paid")["reason"] == "paid"
    assert "paid" in tickwheel(shop, "show", "order-7")
    assert answer(shop, "list", "--status", "pending")["tasks"] == []
    assert answer(shop, "retry", "order-7")["status"] == "pending"


def test_a_task_beyond_the_calendar_is_listed_and_shown(shop: Path) -> None:
    tickwheel(shop, "add", "orders.cancel", '{"order_id": 7}', "--at", "9999-12-31T23:59:59.999999Z", "--id", "last")
    assert "last" in tickwheel(shop, "list")
    assert "last" in tickwheel(shop, "list", "--order", "due")
    assert "9999-12-31 23:59:59" in tickwheel(shop, "show", "last")


def test_what_happens_to_a_task_that_is_there_already_can_be_chosen(shop: Path) -> None:
    add = ("add", "orders.cancel", "--id", "order-7")
    first = answer(shop, *add, "--delay", "1d")
    assert "there is a task 'order-7' already" in tickwheel(shop, *add, "--delay", "2d", code=1)
    assert answer(shop, *add, "--delay", "2d", "--on-conflict", "keep") == {**first, "deduplicated": True}
    moved = answer(shop, *add, "--delay", "3d", "--priority", "5", "--on-conflict", "debounce")
    assert (moved["priority"], moved["run_at"] > first["run_at"]) == (0, True)
    replaced = answer(shop, *add, "--delay", "4d", "--priority", "5", "--on-conflict", "replace")
    assert (replaced["priority"], replaced["run_at"] > moved["run_at"]) == (5, True)
    assert "on_conflict=keep" in tickwheel(shop, *add, "--on-conflict", "kep", code=1)


def test_what_would_run_is_shown_and_not_run(shop: Path) -> None:
    tickwheel(shop, "add", "shout", '{"word": "a"}', "--cron", "0 9 * * 1-5", "--tz", "Europe/Berlin", "--id", "daily")
    tickwheel(shop, "add", "shout", '{"word": "b"}', "--at", "2040-01-06T09:30:00+00:00", "--id", "once")
    week = ("simulate", "--from", "2040-01-06T00:00:00+00:00", "--to", "2040-01-10T23:00:00+00:00")
    assert tickwheel(shop, *week).splitlines() == [
        "2040-01-06 08:00:00  daily  shout",
        "2040-01-06 09:30:00  once  shout",
        "2040-01-09 08:00:00  daily  shout",
        "2040-01-10 08:00:00  daily  shout",
    ]
    assert [run["id"] for run in answer(shop, *week, "--limit", "2")] == ["daily", "once"]
    assert answer(shop, "show", "once")["task"]["status"] == "pending"
    assert "--to comes before --from" in tickwheel(shop, "simulate", "--to", "2020-01-01T00:00:00+00:00", code=1)


def test_mistakes_are_said_in_one_line(shop: Path) -> None:
    assert "invalid duration 'soon'" in tickwheel(shop, "add", "x", "--delay", "soon", code=1)
    assert "JSON object" in tickwheel(shop, "add", "x", "[1]", code=1)
    assert "no task 'nobody'" in typed(shop, "show", "nobody", code=1)
    assert "no scheduler at" in tickwheel(shop, "worker", "nowhere:scheduler", code=1)
    assert "no store" in tickwheel(shop, "list", "--store", "mysql://x", code=1)
    assert tickwheel(shop, "show", "nobody", code=1).count("\n") == 1


def test_cron_is_previewed_with_what_happens_when_the_clocks_change(shop: Path) -> None:
    shown = tickwheel(shop, "cron", "30 9 1 * *", "--tz", "Europe/Berlin", "-n", "12")
    assert len(shown.splitlines()) == 12
    assert all("09:30" in line for line in shown.splitlines())
    assert len(answer(shop, "cron", "@daily")) == 10
    assert "cron expression" in tickwheel(shop, "cron", "every day", code=1)


def test_a_worker_runs_what_was_added_and_ends_cleanly_when_asked(shop: Path) -> None:
    tickwheel(shop, "add", "shout", '{"word": "tick"}', "--id", "first")
    command = [sys.executable, "-m", "tickwheel", "worker", "shop:scheduler"]
    with subprocess.Popen(command, cwd=shop, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        ready = worker.stdout.readline()
        assert f"ready: 1 handler (shout), 64 partitions of sqlite:///{shop}/tasks.db, process" in ready
        assert "1 tasks overdue" in worker.stdout.readline()
        tickwheel(shop, "add", "shout", '{"word": "wheel"}', "--id", "second")
        for name, result in (("first", "TICK"), ("second", "WHEEL")):
            for _ in range(100):
                shown = answer(shop, "show", name)["task"]
                if shown["status"] == "completed":
                    break
            assert shown["result"] == result
        worker.send_signal(signal.SIGTERM)
        assert "stopping: waiting up to 30 s for running tasks" in worker.stdout.read()
    assert worker.returncode == 0


FAILING = """
import threading, time
from tickwheel import AsyncScheduler

scheduler = AsyncScheduler("memory://")
inside = []


@scheduler.task("count")
def count() -> int:
    inside.append(1)
    time.sleep(0.3)
    most = len(inside)
    inside.pop()
    return most


@scheduler.task("fail")
async def fail() -> None:
    raise ValueError("no such customer")
"""


def test_a_worker_logs_failures_and_takes_store_concurrency_and_metrics_port(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(FAILING)
    for number in range(6):
        tickwheel(tmp_path, "add", "count", "--id", f"count-{number}")
    tickwheel(tmp_path, "add", "fail", "--id", "fail")
    options = ["--store", "sqlite:///tasks.db", "--concurrency", "2", "--metrics-port", "0", "--log-level", "warning"]
    command = [sys.executable, "-m", "tickwheel", "worker", "app:scheduler", *options]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        found = re.search(r"http://localhost:(\d+)/metrics", worker.stdout.readline())
        assert found is not None
        assert f"2 handlers (count, fail), 64 partitions of sqlite:///{tmp_path}/tasks.db" in worker.stdout.readline()
        while any(task["status"] in ("pending", "running") for task in answer(tmp_path, "list")["tasks"]):
            pass
        with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/metrics", timeout=60) as metrics:
            assert 'tickwheel_tasks_failed_total{handler="fail"} 1.0' in metrics.read().decode()
        worker.send_signal(signal.SIGINT)
        out, err = worker.communicate(timeout=60)
    assert (worker.returncode, out.splitlines()[-1]) == (0, "tickwheel: stopped")
    assert "task 'fail' of 'fail' failed" in err
    assert "ValueError: no such customer" in err
    counted = [task["result"] for task in answer(tmp_path, "list", "--handler", "count")["tasks"]]
    assert sorted(set(counted)) in ([1, 2], [2]), counted


def test_a_worker_says_what_is_wrong_with_its_options(shop: Path) -> None:
    assert "invalid log level 'LOUD'" in typed(shop, "worker", "shop:scheduler", "--log-level", "loud", code=1)
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = str(taken.getsockname()[1])
        told = typed(shop, "worker", "shop:scheduler", "--metrics-port", port, code=1)
    assert f"cannot serve metrics on port {port}" in told
    (shop / "adder.py").write_text("from tickwheel import Scheduler\n\nscheduler = Scheduler(run=False)\n")
    assert "it was made with run=False" in typed(shop, "worker", "adder:scheduler", code=1)


def test_the_cluster_is_shown_with_its_nodes_and_leases(shop: Path) -> None:
    create_store(shop)
    assert "nobody runs tasks here" in tickwheel(shop, "cluster")
    assert answer(shop, "cluster") == {"nodes": []}
    assert "cannot be reached" in tickwheel(shop, "cluster", "--store", "postgresql://127.0.0.1:1/x", code=1)
    command = [sys.executable, "-m", "tickwheel", "worker", "shop:scheduler"]
    with subprocess.Popen(command, cwd=shop, stdout=subprocess.PIPE, text=True) as worker:
        try:
            assert worker.stdout is not None
            assert "ready" in worker.stdout.readline()
            while not (nodes := answer(shop, "cluster")["nodes"]) or len(nodes[0]["leases"]) < 64:
                assert worker.poll() is None, "it owns everything in a moment"
            [node] = nodes
            assert [lease["partition"] for lease in node["leases"]] == list(range(64))
            assert {lease["epoch"] for lease in node["leases"]} == {1}
            assert {lease["expires_at"] for lease in node["leases"]} == {None}, "on a file they do not end by time"
            shown = tickwheel(shop, "cluster")
            assert node["node"] in shown
            assert "0-63" in shown
        finally:
            worker.send_signal(signal.SIGTERM)
    assert answer(shop, "cluster") == {"nodes": []}


def test_the_doctor_says_what_is_wrong(shop: Path) -> None:
    create_store(shop)
    assert "nothing is wrong" in tickwheel(shop, "doctor")
    tickwheel(shop, "add", "shout", "--at", "2020-01-01T00:00:00+00:00")
    told = tickwheel(shop, "doctor", code=1)
    assert "1 tasks are overdue" in told
    assert "nobody runs tasks" in told
    tickwheel(shop, "add", "shuot", "--delay", "90d", "--id", "misspelt")
    told = tickwheel(shop, "doctor", "misspelt", "--app", "shop:scheduler", code=1)
    assert "1 tasks that are due next have no handler: shuot" in told
    assert "misspelt: waiting for its due time" in told
    late = tickwheel(shop, "add", "shuot", "--at", "2020-01-01T00:00:00+00:00", "--id", "late")
    assert "late: pending" in late
    told = tickwheel(shop, "doctor", "late", code=1)
    assert "late: waiting for a node with handler 'shuot'; nodes online: 0" in told
    assert answer(shop, "show", "late")["task"]["reason_code"] == "no_handler"
    assert "no task 'nobody'" in tickwheel(shop, "doctor", "nobody", code=1)


def test_the_doctor_names_a_worker_that_does_not_respond(shop: Path) -> None:
    command = [sys.executable, "-m", "tickwheel", "worker", "shop:scheduler"]
    with subprocess.Popen(command, cwd=shop, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert "ready" in worker.stdout.readline()
        assert "nothing is wrong" in tickwheel(shop, "doctor")
        worker.send_signal(signal.SIGSTOP)
        assert f"(pid {worker.pid}) does not respond" in tickwheel(shop, "doctor", code=1)
        worker.send_signal(signal.SIGCONT)
        assert "nothing is wrong" in tickwheel(shop, "doctor")
        worker.send_signal(signal.SIGTERM)


def test_the_doctor_counts_tasks_that_cannot_be_read(shop: Path) -> None:
    for name in ("good", "bad"):
        tickwheel(shop, "add", "orders.cancel", '{"order_id": 7}', "--delay", "90d", "--id", name)
    file = apsw.Connection(str(shop / "tasks.db"))
    file.execute("UPDATE tasks SET body = ? WHERE id = 'bad'", (b'{"id": "bad", [red]',))
    file.close()
    told = " ".join(tickwheel(shop, "doctor", code=1).split())
    assert "1 of 2 tasks cannot be read: 'bad'" in told
    assert '{"id": "bad", [red]' in tickwheel(shop, "show", "bad"), "as it is stored"
    assert "cannot be read by this version" in tickwheel(shop, "cancel", "bad", code=1)


def test_a_machine_is_measured_and_nothing_is_left_behind(shop: Path) -> None:
    figures = answer(shop, "bench", "-n", "1000", "--folder", str(shop))
    assert figures.pop("tasks") == 1000
    assert figures.pop("compiled") in (True, False)
    late = [figure for name, figure in figures.items() if name.startswith("ms late")]
    assert len(late) == 2
    assert all(figure > 0 for name, figure in figures.items() if not name.startswith("ms late")), figures
    assert [file.name for file in shop.iterdir() if file.name.startswith("tickwheel-bench")] == []
    assert "is no folder" in tickwheel(shop, "bench", "--folder", "nowhere", code=1)


CHANGING = ["cancel x", "pause x", "resume x", "run-now x", "retry x", "reschedule x --delay 1h", "bulk cancel --tag x"]


@pytest.mark.parametrize("command", ["list", "doctor", "show x", "cluster", "simulate", *CHANGING])
def test_only_add_creates_a_store(tmp_path: Path, command: str) -> None:
    said = tickwheel(tmp_path, *command.split(), code=1)
    assert f"no such file: {tmp_path}/tasks.db; check the path, or create it with" in said
    assert not list(tmp_path.iterdir())


NASTY = "x\x1b]0;owned\x07\x1b[31mred\n[bold]\x9b\u202e\\"


def test_control_characters_and_markup_of_what_is_stored_are_shown_and_not_obeyed(shop: Path) -> None:
    tickwheel(shop, "add", NASTY, "--delay", "1h", "--id", "late")
    with Scheduler(f"sqlite:///{shop}/tasks.db", run=False) as scheduler:
        scheduler.add("h", {"a": NASTY}, id=NASTY, delay="1h")
        scheduler.cancel(NASTY, f"no [/] {NASTY}")
        scheduler.add("h", id=f"more {NASTY}", delay="1h")
    said = [
        tickwheel(shop, "list"),
        tickwheel(shop, "show", NASTY),
        tickwheel(shop, "pause", f"more {NASTY}"),
        tickwheel(shop, "resume", f"more {NASTY}"),
        tickwheel(shop, "simulate"),
        tickwheel(shop, "doctor", f"more {NASTY}", code=1),
        tickwheel(shop, "cancel", f"nobody {NASTY}", code=1),
        tickwheel(shop, "list", "--json"),
        tickwheel(shop, "show", NASTY, "--json"),
    ]
    for text in said:
        assert not set("\x1b\x07\x9b\u202e\r").intersection(text)
    for text in said[:6]:
        assert r"x\x1b]0;owned\x07\x1b[31mred\n[bold]\x9b\u202e" in text
    assert answer(shop, "show", NASTY)["task"]["id"] == NASTY, "programs get it as it is"


def test_the_version_says_which_build_is_loaded(tmp_path: Path) -> None:
    build = "compiled" if COMPILED else "interpreted"
    assert tickwheel(tmp_path, "--version") == f"tickwheel {__version__} {build}\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\x7f", "\x9b", "\u2028", "\u2066", "\ufeff", "\U000e0041"])
def test_each_control_character_is_escaped(character: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert output.unmarked(f"a{character}b") == f"a{character.encode('unicode_escape').decode()}b"
    output.print_json({"a": character})
    printed = capsys.readouterr().out
    assert character not in printed
    assert json.loads(printed) == {"a": character}


def test_other_characters_are_printed_as_they_are() -> None:
    text = "Grüße, 订单-7, שלום, 👩\u200d🚀 \\ %"
    assert output.unmarked(text) == text
    assert output.unmarked("two\nlines\x1b", lines=True) == "two\nlines\\x1b"
