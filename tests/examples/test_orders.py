"""Orders and their tasks are there both, or neither, whenever the shop is killed."""

import runpy
import signal
import sqlite3
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.examples.commands import EXAMPLES, command, run
from tickwheel import Scheduler
from tickwheel.tasks import RunStatus, Status, Task
from tickwheel.testing.postgres import PostgresServer

ON_SQLITE = EXAMPLES / "orders_sqlite.py"
ON_POSTGRES = EXAMPLES / "orders_postgres.py"
A_MOMENT = timedelta(seconds=10)  # between the order and its task

# Dies when it turns to its database: to take the order, to read the outbox, or to empty it. Tasks that come due
# meanwhile turn to it on threads of their own, which do not count.
DYING = """
import os, runpy, signal, sys
from pathlib import Path
from threading import current_thread, main_thread

program, folder, point = sys.argv[1:]
names = runpy.run_path(program)

class DyingShop(names["Shop"]):
    left = None

    def database(self):
        if self.left is not None and current_thread() is main_thread():
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().database()

shop = DyingShop(Path(folder), names["QUICKLY"])
shop.scheduler.start()
shop.left = int(point)
shop.place(100 + int(point), "card")
"""

# Dies when the order and its task are written, and before that is committed.
DYING_ON_POSTGRES = """
import os, runpy, signal, sys
import psycopg

class Connection(psycopg.Connection):
    def commit(self):
        os.kill(os.getpid(), signal.SIGKILL)

names = runpy.run_path(sys.argv[1])
shop = names["Shop"](sys.argv[2], names["QUICKLY"])
psycopg.connect = Connection.connect
shop.place(101, "card")
"""


def patience(task: Task) -> timedelta:
    return timedelta(milliseconds=task.run_at - task.created_at)


def test_a_shop_that_is_killed_between_any_two_steps_forgets_no_order(tmp_path: Path) -> None:
    for point in ("1", "2", "3"):
        died = subprocess.run(
            **command("python", "-c", DYING, ON_SQLITE, tmp_path, point), check=False, capture_output=True, timeout=60
        )
        assert died.returncode == -signal.SIGKILL, died.stderr
    with sqlite3.connect(tmp_path / "shop.db") as database:
        waiting = [task_id for (task_id,) in database.execute("SELECT task_id FROM outbox")]
    assert "cancel/102" in waiting, "it died before the task was added"
    assert "cancel/103" in waiting, "it died before the wish was taken out"
    database.close()
    with Scheduler(f"sqlite:///{tmp_path}/tasks.db", run=False) as scheduler:
        assert scheduler.get("cancel/103").args == {"order": 103}, "a wish is not taken out before its task is added"

    printed = run("python", ON_SQLITE, tmp_path)
    assert "order 101" not in printed, "it was never taken"
    assert "order 102: cancelled" in printed
    assert "order 103: cancelled" in printed
    with Scheduler(f"sqlite:///{tmp_path}/tasks.db", run=False) as scheduler:
        for order in (102, 103):
            task = scheduler.get(f"cancel/{order}")
            assert (task.status, task.result) == (Status.COMPLETED, f"order {order} is cancelled")
            assert [run.status for run in scheduler.history(task.id)].count(RunStatus.COMPLETED) == 1


def test_orders_have_half_an_hour_or_thirty_days(tmp_path: Path) -> None:
    names: dict[str, Any] = runpy.run_path(str(ON_SQLITE))
    shop = names["Shop"](tmp_path)
    shop.scheduler.start()
    shop.place(1, "card")
    shop.place(2, "invoice")
    try:
        assert patience(shop.scheduler.get("cancel/1")) == pytest.approx(timedelta(minutes=30), abs=A_MOMENT)
        assert patience(shop.scheduler.get("cancel/2")) == pytest.approx(timedelta(days=30), abs=A_MOMENT)
        assert shop.pay(1)
        assert shop.scheduler.get("cancel/1").status is Status.CANCELLED
        assert shop.cancel(1) == "order 1 is paid", "whoever comes too late looks first"
    finally:
        shop.scheduler.stop()


def test_a_transaction_that_is_not_committed_leaves_no_order_and_no_task(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS shop")
        connection.execute("CREATE DATABASE shop")
    url = postgres.url.removesuffix("/postgres") + "/shop"
    with Scheduler(url, run=False) as scheduler:
        assert scheduler.counts() == dict.fromkeys(Status, 0)
        died = subprocess.run(
            **command("python", "-c", DYING_ON_POSTGRES, ON_POSTGRES, url),
            check=False,
            capture_output=True,
            timeout=60,
        )
        assert died.returncode == -signal.SIGKILL, died.stderr
        assert sum(scheduler.counts().values()) == 0

        shop = runpy.run_path(str(ON_POSTGRES))["Shop"](url)
        shop.place(102, "invoice")
        assert shop.states() == {102: "unpaid"}
        assert patience(scheduler.get("cancel/102")) == pytest.approx(timedelta(days=30), abs=A_MOMENT)
        assert shop.cancel(102) == shop.cancel(102) == "order 102 is cancelled"
        assert not shop.pay(102), "it is too late"
