"""Orders and their tasks are there both, or neither, whenever the shop is killed."""

import runpy
import signal
import sqlite3
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.examples.commands import EXAMPLES, command, run
from tickwheel import Scheduler
from tickwheel.tasks import Status

ON_SQLITE = EXAMPLES / "orders_sqlite.py"

# Dies when it turns to its database: to take the order, to read the outbox, or to empty it.
DYING = """
import os, runpy, signal, sys
from pathlib import Path

program, folder, point = sys.argv[1:]
names = runpy.run_path(program)

class DyingShop(names["Shop"]):
    left = None

    def database(self):
        if self.left is not None:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().database()

shop = DyingShop(Path(folder), names["QUICKLY"])
shop.left = int(point)
shop.place(100 + int(point), "card")
"""


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

    printed = run("python", ON_SQLITE, tmp_path)
    assert "order 101" not in printed, "it was never taken"
    assert "order 102: cancelled" in printed
    assert "order 103: cancelled" in printed
    with Scheduler(f"sqlite:///{tmp_path}/tasks.db", run=False) as scheduler:
        for order in (102, 103):
            task = scheduler.get(f"cancel/{order}")
            assert (task.status, task.result) == (Status.COMPLETED, f"order {order} is cancelled")
            assert len(scheduler.history(task.id)) == 1


def test_orders_have_half_an_hour_or_thirty_days(tmp_path: Path) -> None:
    names: dict[str, Any] = runpy.run_path(str(ON_SQLITE))
    shop = names["Shop"](tmp_path)
    shop.place(1, "card")
    shop.place(2, "invoice")
    try:
        for order, patience in ((1, timedelta(minutes=30)), (2, timedelta(days=30))):
            task = shop.scheduler.get(f"cancel/{order}")
            assert task.run_at - task.created_at == pytest.approx(patience / timedelta(milliseconds=1), abs=10_000)
        assert shop.pay(1)
        assert shop.scheduler.get("cancel/1").status is Status.CANCELLED
        assert shop.cancel(1) == "order 1 is paid", "whoever comes too late looks first"
    finally:
        shop.scheduler.stop()
